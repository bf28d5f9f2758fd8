"""
What a nest takes, trip by trip: the numbers that say how often its loops run are computed as the
program computes them, in two trips of each loop.

A trip takes the longest of what its ops take to begin, what its loads, stores and divisions do,
and what the next trip waits for: a number that is carried, or an element that is read where this
one has stored. Arrays in a trip have loops of their own, in vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log2, prod, sqrt

import numpy as np
from xdsl.ir import Block, SSAValue

from mlc.dialects.analysis.nests import HELD, is_number, loop_of
from mlc.dialects.analysis.trips import trips_of
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.loop_costs import LoopCosts
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, loops_around, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.division import WholeDivision
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import TensorOp, bytes_of, element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.reduce import Product, Reduction
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, SliceOp
from mlc.dialects.tensor.within import WithinOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.chains import Chains, Values, is_branch
from mlc.passes.cost.counts import guessed, is_in_lanes
from mlc.passes.cost.ops import constant_divisor, division_ops, op_cycles
from mlc.passes.cost.sizes import assumed
from mlc.passes.cost.streams import spread
from mlc.passes.cost.work import ATTO, Work, seconds

BRANCH_CYCLES = 1.0
"""Of a loop's shortest trip: one branch is taken in a cycle. Source: the guides that `fma_ports`
cites."""

CROSSED = 2.0
"""A vector that lies in two lines, to one element: nobody aligns the arrays of such loops."""

COPIES = 4
"""States of a sum that one loop adds to side by side, as the lowering of nests has them."""

FORGOTTEN_OCTAVES = 2.0
"""From as many branches as are learnt to so many that none is: each doubling takes half of them.
Source: docs/measurements.md, Branches."""

TWO_POINTS = (0.5 - 1 / sqrt(12), 0.5 + 1 / sqrt(12))


def nest_cycles(kernel: KernelOp, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """Of one run on one core; loops whose count data decides run `UNKNOWN_TRIPS` times."""
    return _all_cycles(_Trips(target, dict(sizes)).block(kernel.block, {}), target)


def trip_cycles(kernel: KernelOp, target: CpuTarget) -> float:
    """Of the middle trip of a nest's loop, with the sizes that searches assume."""
    loop = loop_of(kernel.block)
    assert loop is not None
    trips, values = _Trips(target, {}), Values()
    trips.block(kernel.block, values, only=loop)
    return _all_cycles(trips.of_loop(loop, values), target) / max(trips.count(loop, values), 1)


def _all_cycles(found: _Sum, target: CpuTarget) -> float:
    """With the branches that are foretold wrongly: few of as many as a call like it has taught."""
    loops = target.loops
    octaves = log2(max(found.decided / loops.num_learnt_branches, 1.0))
    share = loops.mispredicted_share * min(octaves / FORGOTTEN_OCTAVES, 1.0)
    return found.cycles + found.decided * share * loops.mispredict_cycles


@dataclass
class _Sum:
    """What ops of a block take, each kind of unit for itself."""

    begin: float = 0.0
    integers: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    divide: float = 0.0
    inside: float = 0.0  # of loops in it, and of arrays
    decided: float = 0.0  # branches that data decide, how many

    @property
    def units(self) -> tuple[float, ...]:
        """What each of them takes."""
        return self.begin, self.integers, self.loads, self.stores, self.divide

    @property
    def cycles(self) -> float:
        """The units work side by side; loops come one after another."""
        return max(self.units) + self.inside

    def add(self, other: _Sum) -> None:
        """What another block takes, one after the other."""
        self.begin += other.begin
        self.integers += other.integers
        self.loads += other.loads
        self.stores += other.stores
        self.divide += other.divide
        self.after(other)

    def after(self, other: _Sum, trips: float = 1.0) -> None:
        """A loop's trips, which come after what is there."""
        self.inside += other.inside * trips
        self.decided += other.decided * trips

    def half(self) -> _Sum:
        """Every other time."""
        return _Sum(*(x / 2 for x in (*self.units, self.inside, self.decided)))


class _Trips:
    """Of one nest."""

    def __init__(self, target: CpuTarget, sizes: dict[str, int]) -> None:
        self.target = target
        self.sizes = sizes

    @property
    def loops(self) -> LoopCosts:
        """What loops take on the machine."""
        return self.target.loops

    def block(self, block: Block, values: Values, only: ControlOp | None = None) -> _Sum:
        """Of a block's ops; `values` are the numbers that are known, and become those of it."""
        found = _Sum()
        for op in block.ops:
            if isinstance(op, BindOp):
                self._bind(op, values)
            elif isinstance(op, IfOp):
                found.add(self._branch(op, values))
            elif op is only:
                break
            elif isinstance(op, ControlOp) and op.repeats:
                found.after(self.of_loop(op, values))
            elif isinstance(op, TensorOp):
                self._op(op, values, found)
        return found

    # Loops --------------------------------------------------------------------------------------

    def count(self, op: ControlOp, values: Values) -> int:
        """How often a loop runs."""
        if isinstance(op, ForOp):
            if (size := trips_of(op)) is not None:
                return max(self._size(size), 0)
            if (known := values.get(op.count)) is not None:
                return max(known, 0)
        return guessed(op, values)

    def of_loop(self, op: ControlOp, values: Values) -> _Sum:
        """
        All trips of a loop: as two of them say, which is exact where trips take longer by a
        polynomial of degree three (Gauss and Legendre's two points).
        """
        count = self.count(op, values)
        if not count:
            return _Sum()
        if is_in_lanes(op) and (cycles := self._in_lanes(op, values, count)) is not None:
            return _Sum(inside=cycles)
        found = _Sum(decided=self._left(op, values))
        numbers = [count // 2]
        if isinstance(op, ForOp) and _is_asked(op) and count > 1:
            numbers = [round((count - 1) * place) for place in TWO_POINTS]
        for number in numbers:
            found.after(self._trip(op, values, number, count), count / len(numbers))
        return found

    def _in_lanes(self, op: ControlOp, values: Values, count: int) -> float | None:
        """Of trips that LLVM makes vectors of, and the rest one by one; None where trips wait."""
        block, here = op.blocks[0], {**values, op.blocks[0].args[0]: count // 2}
        total = self.block(block, here)
        later = {**values, block.args[0]: count // 2 + 1}
        _follow(block, later)
        if total.inside or Chains(self.target).of(op, block, here, later):
            return None
        elements = (x.update for x in block.ops if isinstance(x, DynamicUpdateOp))
        lanes = self.target.lanes(8 * max(element_dtype(x).bytes for x in elements))
        total.begin += 2 * self.loops.issue_cycles
        vectors, rest = divmod(count, lanes)
        each = max(total.cycles, BRANCH_CYCLES)
        start = self.loops.short_loop_cycles if vectors else 0.0
        return start + vectors * CROSSED * each + rest * each

    def _left(self, op: ControlOp, values: Values) -> float:
        """The branch that leaves a loop whose count data decide."""
        known = isinstance(op, ForOp) and (trips_of(op) is not None or op.count in values)
        return float(not known)

    def _trip(self, op: ControlOp, values: Values, number: int, count: int) -> _Sum:
        """Of one trip of so many; its end is foretold, but for loops of few trips."""
        total, here = _Sum(), dict(values)
        if isinstance(op, ForOp):
            here[op.body.block.args[0]] = number
        for block in op.blocks:
            total.add(self.block(block, here))
        if isinstance(op, ForOp):
            later = {**values, op.body.block.args[0]: number + 1}
            _follow(op.body.block, later)
            chain = Chains(self.target).of(op, op.body.block, here, later)
        else:
            chain = Chains(self.target).of(op, op.blocks[-1], here, here)
        ops = total.begin / self.loops.issue_cycles + 2  # counting, and branching back
        total.begin = ops * self.loops.issue_cycles
        if isinstance(op, ForOp) and not total.inside and not _hands_on(op):
            chain /= max(self.loops.num_waiting_ops / (ops * count), 1.0)
        return _Sum(inside=max(total.cycles, chain, BRANCH_CYCLES), decided=total.decided)

    # Numbers ------------------------------------------------------------------------------------

    def _bind(self, op: BindOp, values: Values) -> None:
        known = values.get(op.x)
        if known is None:  # all trips of a loop see an array once
            around = next(loops_around(op), None)
            trips = trips_of(around) if around is not None else None
            parts = 2 if trips is None else max(self._size(trips), 2)
            known = op.highest.evaluate(self._assumed(op.highest)) // parts
        self.sizes[op.symbol.data] = max(known, 0)

    def _size(self, dim: Dim) -> int:
        return dim.evaluate(self._assumed(dim))

    def _assumed(self, dim: Dim) -> Mapping[str, int]:
        missing = dim.symbols() - self.sizes.keys()
        return {**self.sizes, **assumed(missing)} if missing else self.sizes

    def _branch(self, op: IfOp, values: Values) -> _Sum:
        """The branch that is taken, where that is known; else both as often, foretold or not."""
        known = True if _stands_checked(op) else values.get(op.condition)
        if known is not None:
            chosen = op.blocks[not known]
            found = self.block(chosen, values)
            self._take(op, chosen, values)
            return found
        both = _Sum()
        for block in op.blocks:
            both.add(self.block(block, dict(values)))
        if is_branch(op) or both.inside or both.cycles > self.loops.mispredict_cycles:
            both = both.half()
            both.decided += 1
        return both

    def _take(self, op: IfOp, chosen: Block, values: Values) -> None:
        for result, x in zip(op.outs, yield_of(chosen).values, strict=True):
            if x in values:
                values[result] = values[x]

    def _op(self, op: TensorOp, values: Values, found: _Sum) -> None:
        result = op.results[0]
        if isinstance(op, DynamicUpdateOp):
            if is_number(op.update):
                found.stores += self.loops.store_cycles
                found.begin += self.loops.issue_cycles
            else:
                found.after(self._array(op.update, shape_of(op.update.type)))
            return
        if not is_number(result):
            if HELD in op.attributes:
                reduced = isinstance(op, Reduction)
                found.after(self._fold(op) if reduced else self._array(result, op.shape))
            return
        if isinstance(op, Reduction):
            found.after(self._fold(op))
            return
        if isinstance(op, DynamicSliceOp):
            found.loads += self.loops.load_issue_cycles
            found.begin += self.loops.issue_cycles
            return
        known = _known(op, values)
        if known is not None:
            values[result] = known
        if not op.FLOPS:
            return
        begun = max(op.WEIGHT if op.WEIGHT <= 2 else 1.0, 1.0)
        if isinstance(op, WholeDivision) and (divisor := constant_divisor(op)) is not None:
            begun = division_ops(divisor)
        elif op.WEIGHT > 2 and isinstance(op, Elementwise):
            found.divide += op_cycles(op, 1, self.target)
        found.begin += self.loops.issue_cycles * begun
        if not op.dtype.is_inexact:
            found.integers += self.loops.integer_cycles * begun

    # Arrays -------------------------------------------------------------------------------------

    def _array(self, value: SSAValue, shape: Sequence[Dim]) -> _Sum:
        """A loop over the elements of an array, which are computed where they are read."""
        sizes = [self._size(dim) for dim in shape]
        along = next((n for n in reversed(sizes) if n != 1), 1)
        rows = prod(sizes) // max(along, 1)
        lanes = self.target.lanes(8 * element_dtype(value).bytes)
        vector = self._element(value, lanes, len(shape) - 1) + self.loops.store_cycles
        vectors = ceil(along / lanes)
        end = (along % lanes != 0) * self.loops.masked_store_cycles
        vectors *= self.loops.vector_step_cycles + vector
        return _Sum(inside=rows * (self.loops.row_start_cycles + vectors + end), decided=rows)

    def _fold(self, op: TensorOp) -> _Sum:
        """A reduction: along a vector with several states, or an element at a time."""
        assert isinstance(op, Reduction)
        loops, space, rank = self.loops, op.iteration(), len(op.shape)
        sizes = [self._size(dim) for dim in space]
        words, result, reduced = op.words()
        letters = result + reduced
        candidates = [k for k in (len(space) - 1, rank - 1) if k >= 0 and sizes[k] != 1]

        def dense(k: int) -> int:
            return sum(len(word) for word in words if word.endswith(letters[k]))

        vector = max(candidates, key=dense, default=len(space) - 1)
        lanes = self.target.lanes(8 * op.summand().bytes)
        if op.order() == "in turn" and vector >= rank:
            lanes = 1
        total = prod(sizes)
        results = prod(sizes[:rank])
        along = sizes[vector] if sizes else 1
        step = 0.5 if isinstance(op, Product) else loops.reduce_step_cycles / 2
        for x, word in zip(op.operands, words, strict=False):
            place = word.find(letters[vector]) if letters else -1
            if place >= 0:
                step += self._element(x, lanes, place)
        vectors = total // max(along, 1) * ceil(along / lanes)
        reading = self._reading(op)
        latency = float(self.target.fma_latency_cycles)
        if lanes == 1:
            each = max(total * max(step, latency), reading)
            return _Sum(inside=each + results * latency, decided=results)
        if vector < rank:
            down = vectors * max(step, loops.down_step_cycles)
            return _Sum(inside=max(down, reading) + results / lanes * loops.state_cycles)
        step = max(step, latency / COPIES)
        folds = latency * (log2(COPIES) + log2(lanes)) + 3.0 * log2(lanes)
        inside = max(vectors * step, reading) + results * (folds + loops.masked_load_cycles)
        return _Sum(inside=inside, decided=results)

    def _reading(self, op: TensorOp) -> float:
        """Of a reduction's operands, which come from where all of them fit."""
        held = sum(self._size(bytes_of(x.type)) for x in op.operands)
        read = Work(read=spread(held, held, self.target))
        return seconds(read, self.target) / ATTO / self.target.cycle_s

    def _element(self, value: SSAValue, lanes: int, axis: int) -> float:
        """Of a vector of elements along an axis of an array: loads, and the ops that make them."""
        pending, cycles = [(value, axis)], 0.0
        seen: set[SSAValue] = set()
        while pending:
            x, along = pending.pop()
            if x in seen or is_number(x):
                continue
            seen.add(x)
            op = x.owner
            if isinstance(op, ReshapeOp) and op.x.type != x.type:
                pending.append((op.x, _same_axis(op, along)))
            elif isinstance(op, DynamicSliceOp | SliceOp):
                cycles += self._load(op.results[0], op.operands[0], lanes, along)
            elif isinstance(op, BroadcastOp):
                (word,), result = split(op.letters.data)
                place = word.find(result[along]) if along < len(result) else -1
                if place >= 0:
                    pending.append((op.x, place))
            elif (
                isinstance(op, TensorOp)
                and isinstance(op, Elementwise)
                and HELD not in op.attributes
            ):
                cycles += op_cycles(op, lanes, self.target)
                pending += [(y, along) for y in op.operands]
            elif isinstance(op, ConstantOp):
                continue
            else:
                cycles += self._load(x, x, lanes, along)
        return cycles

    def _load(self, part: SSAValue, whole: SSAValue, lanes: int, along: int) -> float:
        shape = shape_of(part.type)
        behind = shape_of(whole.type)[along + 1 :] if along >= 0 else ()
        strided = any(dim != Dim.const(1) for dim in behind) and len(shape) > 1
        if strided and lanes > 1:
            item = element_dtype(whole).bytes
            step = prod(self._size(dim) for dim in behind) * item
            return self.loops.alone_cycles(item, step, self.target.cache_line_bytes) * lanes
        return self.loops.load_issue_cycles


def _same_axis(op: ReshapeOp, axis: int) -> int:
    """Where an axis of a reshaped array is in what it is of, by axes of one element."""
    one = Dim.const(1)
    before, after = shape_of(op.x.type), shape_of(op.results[0].type)
    number = sum(dim != one for dim in after[:axis])
    places = [k for k, dim in enumerate(before) if dim != one]
    return places[number] if number < len(places) else len(before) - 1


def _known(op: TensorOp, values: Values) -> int | None:
    """The number that an op gives of integers, where its operands are known."""
    if isinstance(op, ConstantOp):
        return int(op.array().reshape(-1)[0]) if op.dtype.kind in ("int", "bool", "uint") else None
    if isinstance(op, ReshapeOp | WithinOp | BroadcastOp):
        return values.get(op.operands[0])
    if op.dtype.is_inexact or not isinstance(op, Elementwise):
        return None
    given = [values.get(x) for x in op.operands]
    if None in given or not given:
        return None
    types = [element_dtype(x).numpy for x in op.operands]
    arrays = [np.asarray(x, dtype=kind) for x, kind in zip(given, types, strict=True)]
    with np.errstate(all="ignore"):
        return int(op.reference(*arrays))


def _follow(block: Block, values: Values) -> None:
    """The numbers of a block and of its branches, without loops."""
    for op in block.ops:
        if isinstance(op, IfOp):
            for inner in op.blocks:
                _follow(inner, values)
        elif isinstance(op, TensorOp) and is_number(op.results[0]):
            known = _known(op, values)
            if known is not None:
                values[op.results[0]] = known


def _hands_on(op: ControlOp) -> bool:
    """
    Whether a loop begins with a number that the one around it carries: else the processor is in
    several trips of that at once, where it holds their ops.
    """
    around = next(loops_around(op), None)
    if around is None:
        return True
    carried = {x for block in around.blocks for x in around.carried_in(block)}
    return any(is_number(x) and x in carried for x in op.starts)


def _stands_checked(op: IfOp) -> bool:
    """Whether the first branch is a loop whose indices were found to lie within their axes."""
    return any(isinstance(x, WithinOp) and x.holds is not None for x in op.blocks[0].walk())


def _is_asked(op: ForOp) -> bool:
    """Whether a trip's number may say how long it takes: loops and arrays in it are as long."""
    return any(isinstance(x, ControlOp | BindOp) for x in op.body.block.ops)
