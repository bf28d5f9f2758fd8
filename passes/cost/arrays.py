"""
What arrays in a nest's trip take: each has a loop of its own, in vectors, in which the elements of
others are computed where it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, log2, prod

from xdsl.ir import SSAValue

from mlc.dialects.analysis.nests import HELD, fold_axis, is_number
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.loop_costs import LoopCosts
from mlc.dialects.tensor.control import ForOp, loops_around
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import TensorOp, bytes_of, element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp
from mlc.dialects.tensor.reduce import Product, Reduction
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, SliceOp, TransposeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import op_cycles
from mlc.passes.cost.places import depends
from mlc.passes.cost.streams import line_s, spread
from mlc.passes.cost.work import ATTO, Work, seconds

COPIES = 4
"""States of a sum that one loop adds to side by side, as the lowering of nests has them."""

LINES_AHEAD = 3
"""Lines down the columns that are asked for at once."""

FOLD_OPS = 20
"""Of one sum along a vector beside its vectors: two loops, and what is left of a vector."""


@dataclass
class Sum:
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

    def add(self, other: Sum) -> None:
        """What another block takes, one after the other."""
        self.begin += other.begin
        self.integers += other.integers
        self.loads += other.loads
        self.stores += other.stores
        self.divide += other.divide
        self.after(other)

    def after(self, other: Sum, trips: float = 1.0) -> None:
        """A loop's trips, which come after what is there."""
        self.inside += other.inside * trips
        self.decided += other.decided * trips

    def half(self) -> Sum:
        """Every other time."""
        return Sum(*(x / 2 for x in (*self.units, self.inside, self.decided)))


@dataclass(frozen=True)
class Arrays:
    """Of a nest on a machine."""

    target: CpuTarget
    size: Callable[[Dim], int]
    """What a dim is, in the trip."""

    @property
    def loops(self) -> LoopCosts:
        """What loops take there."""
        return self.target.loops

    def held(self, op: TensorOp) -> Sum:
        """Of an array that is computed once, and read again and again."""
        return self.fold(op) if isinstance(op, Reduction) else self.written(op.results[0], op.shape)

    def written(self, value: SSAValue, shape: Sequence[Dim]) -> Sum:
        """A loop over the elements of an array, which are computed where they are read."""
        sizes = [self.size(dim) for dim in shape]
        along = self._along(sizes)
        rows = prod(sizes) // max(along, 1)
        lanes = self.target.lanes(8 * element_dtype(value).bytes)
        vector, alone = self._element(value, lanes, len(shape) - 1)
        vector += self.loops.store_cycles + self.loops.vector_step_cycles
        end = (along % lanes != 0) * self.loops.masked_store_cycles
        vectors = ceil(along / lanes) * vector + along * alone
        return Sum(inside=rows * (self.loops.row_start_cycles + vectors + end), decided=rows)

    @staticmethod
    def _along(sizes: Sequence[int]) -> int:
        return next((n for n in reversed(sizes) if n != 1), 1)

    def fold(self, op: Reduction) -> Sum:
        """A reduction: along a vector with several states, or an element at a time."""
        loops, space, rank = self.loops, op.iteration(), len(op.shape)
        sizes = [self.size(dim) for dim in space]
        words, result, reduced = op.words()
        letters, vector = result + reduced, fold_axis(op)
        lanes = self.target.lanes(8 * op.summand().bytes)
        if op.order() == "in turn" and vector >= rank:
            lanes = 1
        total = prod(sizes)
        results = prod(sizes[:rank])
        along = sizes[vector] if sizes else 1
        step = 0.5 if isinstance(op, Product) else loops.reduce_step_cycles / 2
        alone = 0.0
        for x, word in zip(op.operands, words, strict=False):
            place = word.find(letters[vector]) if letters else -1
            if place >= 0:
                each, single = self._element(x, lanes, place)
                step, alone = step + each, alone + single * total
        vectors = total // max(along, 1) * ceil(along / lanes)
        reading = self._reading(op)
        latency = float(self.target.fma_latency_cycles)
        if lanes == 1:
            each = max(total * max(step, latency), alone, reading)
            return Sum(inside=each + results * latency, decided=results)
        if vector < rank:
            down = total // max(along, 1) * self._down(op, along, lanes, step) + alone
            return Sum(inside=max(down, reading) + results / lanes * loops.state_cycles)
        if along > COPIES * lanes:
            step = max(step, latency / COPIES)
        # the next row's vectors do not wait for what this one's lanes come to
        ops = FOLD_OPS + COPIES - 1 + 3 * log2(lanes)
        inside = max(vectors * step + alone, reading)
        return Sum(begin=results * ops * loops.issue_cycles, inside=inside, decided=results)

    def _down(self, op: Reduction, along: int, lanes: int, step: float) -> float:
        """
        Of one row of a reduction down columns: several vectors of columns at once, or what is left
        of them one by one, each of which waits for its sum; every vector is in a line of its own.
        """
        latency = float(self.target.fma_latency_cycles)
        held = max((self._array_bytes(x) for x in op.operands), default=0)
        step += line_s(held, self.target) / self.target.cycle_s / LINES_AHEAD
        blocks, rest = divmod(ceil(along / lanes), COPIES)
        return blocks * max(COPIES * step, latency) + rest * max(step, latency)

    def _array_bytes(self, value: SSAValue) -> int:
        """Of the arrays of which a value's elements are parts."""
        parts = [part.operands[0] for part in parts_in(value)] or [value]
        return max(self.size(bytes_of(x.type)) for x in parts)

    def map_latency(self, value: SSAValue) -> float:
        """From elements that were just stored to those that are made of them."""
        computed = sum(self.loops.add_latency_cycles for op in made_of(value) if op.FLOPS)
        sizes = [self.size(dim) for dim in shape_of(value.type)]
        whole = self._along(sizes) % self.target.lanes(8 * element_dtype(value).bytes) == 0
        stored = self.loops.forward_cycles if whole else self.loops.blocked_cycles
        return stored + computed

    def fold_latency(self, op: Reduction) -> float:
        """From the last of a sum's elements to the sum: in turn, or along a vector."""
        latency, lanes = (
            float(self.target.fma_latency_cycles),
            self.target.lanes(8 * op.summand().bytes),
        )
        folded = latency * (1 + log2(COPIES) + log2(lanes)) + 3.0 * log2(lanes)
        folded += self.loops.blocked_cycles
        if len(op.iteration()) > len(op.shape) + 1:
            return folded
        # what was just stored is added last, alone; once in a vector's elements it is whole
        along = self.size(op.iteration()[-1])
        return latency + (folded / lanes if along >= lanes else 0.0)

    def _reading(self, op: TensorOp) -> float:
        """
        Of a reduction's operands: a part that stays in the loop around lies where all of them fit;
        one that moves was read when the loop around began, and its whole array since.
        """
        own = sum(self.size(bytes_of(x.type)) for x in op.operands)
        around, *outer = [*loops_around(op), None]
        work = Work()
        for x in op.operands:
            part, held = self.size(bytes_of(x.type)), own
            if isinstance(around, ForOp) and len(outer) > 1:
                number = around.body.block.args[0]
                moved = (y for y in parts_in(x) if any(depends(i, number) for i in y.offsets))
                held = max([held, *(self.size(bytes_of(y.x.type)) for y in moved)])
            work += Work(read=spread(part, held, self.target))
        return seconds(work, self.target) / ATTO / self.target.cycle_s

    def _element(self, value: SSAValue, lanes: int, axis: int) -> tuple[float, float]:
        """
        Of a vector of elements along an axis of an array: loads, and the ops that make them; and
        of each element what is loaded alone.
        """
        pending, cycles, alone = [(value, axis)], 0.0, 0.0
        seen: set[SSAValue] = set()
        while pending:
            x, along = pending.pop()
            if x in seen or is_number(x):
                continue
            seen.add(x)
            op = x.owner
            if isinstance(op, ReshapeOp) and op.x.type != x.type:
                pending.append((op.x, _same_axis(op, along)))
            elif isinstance(op, TransposeOp):
                pending.append((op.x, op.permutation()[along]))
            elif isinstance(op, DynamicSliceOp | SliceOp):
                step = self._step(op.results[0], op.operands[0], along) if lanes > 1 else 0
                cycles += 0.0 if step else self.loops.load_issue_cycles
                alone += self._alone(op.results[0], step)
            elif isinstance(op, GatherOp):
                words, result = split(op.letters.data)
                alone += self.loops.gathered_cycles
                for index, word in zip(op.indices, words[1:], strict=True):
                    if along < len(result) and result[along] in word:
                        pending.append((index, word.index(result[along])))
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
                cycles += self.loops.load_issue_cycles
        return cycles, alone

    def _step(self, part: SSAValue, whole: SSAValue, along: int) -> int:
        """Bytes from one element of a part to the next one along an axis; 0: neighbours."""
        behind = shape_of(whole.type)[along + 1 :] if along >= 0 else ()
        if len(shape_of(part.type)) < 2 or all(dim == Dim.const(1) for dim in behind):
            return 0
        return prod(self.size(dim) for dim in behind) * element_dtype(whole).bytes

    def _alone(self, part: SSAValue, step: int) -> float:
        item, line = element_dtype(part).bytes, self.target.cache_line_bytes
        return self.loops.alone_cycles(item, step, line) if step else 0.0


def parts_in(value: SSAValue) -> Iterator[DynamicSliceOp]:
    """The parts of arrays of which an array's elements are made."""
    yield from (op for op in made_of(value) if isinstance(op, DynamicSliceOp))


def made_of(value: SSAValue) -> Iterator[TensorOp]:
    """The ops that compute an array's elements where they are read, and the parts they read."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        x = pending.pop()
        op = x.owner
        if x in seen or not isinstance(op, TensorOp) or is_number(x):
            continue
        seen.add(x)
        if isinstance(op, DynamicSliceOp):
            yield op
        elif HELD not in op.attributes:
            yield op
            pending += op.operands


def _same_axis(op: ReshapeOp, axis: int) -> int:
    """Where an axis of a reshaped array is in what it is of, by axes of one element."""
    one = Dim.const(1)
    before, after = shape_of(op.x.type), shape_of(op.results[0].type)
    number = sum(dim != one for dim in after[:axis])
    places = [k for k, dim in enumerate(before) if dim != one]
    return places[number] if number < len(places) else len(before) - 1
