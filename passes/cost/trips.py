"""
What a nest takes, trip by trip: the numbers that say how often its loops run are computed as the
program computes them, in two trips of each loop.

A trip takes the longest of what its ops take to begin, what its loads, stores and divisions do,
and what the next trip waits for: a number that is carried, or an element that is read where this
one has stored. Arrays in a trip have loops of their own, in vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, sqrt

import numpy as np
from xdsl.ir import Block

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
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp
from mlc.dialects.tensor.within import WithinOp
from mlc.passes.cost.arrays import Arrays, Sum
from mlc.passes.cost.chains import Chains, Values, is_branch
from mlc.passes.cost.counts import guessed, is_in_lanes
from mlc.passes.cost.ops import constant_divisor, division_ops, op_cycles
from mlc.passes.cost.sizes import assumed

BRANCH_CYCLES = 1.0
"""Of a loop's shortest trip: one branch is taken in a cycle. Source: the guides that `fma_ports`
cites."""

CROSSED = 2.0
"""A vector that lies in two lines, to one element: nobody aligns the arrays of such loops."""

FORGOTTEN_OCTAVES = 2.0
"""From as many branches as are learnt to so many that none is: each doubling takes half of them.
Source: docs/measurements.md, Branches."""

COMPARED_OPS = 3
"""Of integers that are known to lie within twice the divisor: LLVM compares and subtracts."""

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


def _all_cycles(found: Sum, target: CpuTarget) -> float:
    """With the branches that are foretold wrongly: few of as many as a call like it has taught."""
    loops = target.loops
    octaves = log2(max(found.decided / loops.num_learnt_branches, 1.0))
    share = loops.mispredicted_share * min(octaves / FORGOTTEN_OCTAVES, 1.0)
    return found.cycles + found.decided * share * loops.mispredict_cycles


class _Trips:
    """Of one nest."""

    def __init__(self, target: CpuTarget, sizes: dict[str, int]) -> None:
        self.target = target
        self.sizes = sizes
        self.arrays = Arrays(target, self._size)
        self.chains = Chains(self.arrays)

    @property
    def loops(self) -> LoopCosts:
        """What loops take on the machine."""
        return self.target.loops

    def block(self, block: Block, values: Values, only: ControlOp | None = None) -> Sum:
        """Of a block's ops; `values` are the numbers that are known, and become those of it."""
        found = Sum()
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

    def of_loop(self, op: ControlOp, values: Values) -> Sum:
        """
        All trips of a loop: as two of them say, which is exact where trips take longer by a
        polynomial of degree three (Gauss and Legendre's two points).
        """
        count = self.count(op, values)
        if not count:
            return Sum()
        if is_in_lanes(op) and (cycles := self._in_lanes(op, values, count)) is not None:
            return Sum(inside=cycles)
        found = Sum(decided=self._left(op, values))
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
        if total.inside or self.chains.of(op, block, here, later):
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

    def _trip(self, op: ControlOp, values: Values, number: int, count: int) -> Sum:
        """Of one trip of so many; its end is foretold, but for loops of few trips."""
        total, here = Sum(), dict(values)
        if isinstance(op, ForOp):
            here[op.body.block.args[0]] = number
        for block in op.blocks:
            total.add(self.block(block, here))
        if isinstance(op, ForOp):
            later = {**values, op.body.block.args[0]: number + 1}
            _follow(op.body.block, later)
            chain = self.chains.of(op, op.body.block, here, later)
        else:
            chain = self.chains.of(op, op.blocks[-1], here, here)
        ops = total.begin / self.loops.issue_cycles + 2  # counting, and branching back
        total.begin = ops * self.loops.issue_cycles
        if isinstance(op, ForOp) and not total.inside and not _hands_on(op):
            chain /= max(self.loops.num_waiting_ops / (ops * count), 1.0)
        # trips overlap as far as the processor holds their ops
        waiting = (total.begin + total.inside / 2) / self.loops.issue_cycles
        apart = min(waiting / self.loops.num_waiting_ops, 1.0) * min(total.cycles, chain)
        taken = max(total.cycles, chain, BRANCH_CYCLES) + apart
        return Sum(inside=taken, decided=total.decided)

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

    def _branch(self, op: IfOp, values: Values) -> Sum:
        """The branch that is taken, where that is known; else both as often, foretold or not."""
        known = True if _stands_checked(op) else values.get(op.condition)
        if known is not None:
            chosen = op.blocks[not known]
            found = self.block(chosen, values)
            self._take(op, chosen, values)
            return found
        both = Sum()
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

    def _op(self, op: TensorOp, values: Values, found: Sum) -> None:
        result = op.results[0]
        if isinstance(op, DynamicUpdateOp):
            if is_number(op.update):
                found.stores += self.loops.store_cycles
                found.begin += self.loops.issue_cycles
            else:
                found.add(self.arrays.written(op.update, shape_of(op.update.type)))
            return
        if not is_number(result):
            if HELD in op.attributes:
                reduced = isinstance(op, Reduction)
                found.add(
                    self.arrays.fold(op) if reduced else self.arrays.written(result, op.shape)
                )
            return
        if isinstance(op, Reduction):
            found.add(self.arrays.fold(op))
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
            near = abs(values.get(op.operands[0], 2 * abs(divisor))) < 2 * abs(divisor)
            begun = COMPARED_OPS if near else division_ops(divisor)
        elif op.WEIGHT > 2 and isinstance(op, Elementwise):
            found.divide += op_cycles(op, 1, self.target)
        found.begin += self.loops.issue_cycles * begun
        if not op.dtype.is_inexact:
            found.integers += self.loops.integer_cycles * begun


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
