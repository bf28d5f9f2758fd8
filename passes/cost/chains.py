"""
What the next trip of a loop waits for: numbers that are carried, and elements that are read where
the trip before has stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.nests import is_number
from mlc.dialects.dims import shape_of
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.loop_costs import LoopCosts
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.control import ControlOp, IfOp, yield_of
from mlc.dialects.tensor.division import WholeDivision
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.within import WithinOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.arrays import Arrays, parts_in
from mlc.passes.cost.ops import constant_divisor, division_ops
from mlc.passes.cost.places import array_of, straight

TRIPS_TOGETHER = 4
"""Of which a chain is looked for, from a trip to the next."""

Values = dict[SSAValue, int]
Lateness = dict[SSAValue, float]
Index = tuple[SSAValue, tuple[int | SSAValue | None, ...]]


@dataclass(frozen=True)
class Chains:
    """Of loops on a machine."""

    arrays: Arrays

    @property
    def target(self) -> CpuTarget:
        """The machine."""
        return self.arrays.target

    @property
    def loops(self) -> LoopCosts:
        """What loops take there."""
        return self.target.loops

    def of(self, op: ControlOp, block: Block, now: Values, later: Values) -> float:
        """
        The longest way from what a trip is given to what it gives: the next one waits for that.
        Elements that the next trip reads where this one stores are carried through memory.
        """
        slices, updates = list[DynamicSliceOp](), list[DynamicUpdateOp]()
        for x in straight(block):
            if isinstance(x, DynamicSliceOp) and is_number(x.result):
                slices.append(x)
            elif isinstance(x, DynamicUpdateOp) and is_number(x.update):
                updates.append(x)
        stored = {_index(x, x.offsets, now, block): x.update for x in updates}
        arrays = {array for array, _ in stored}
        # where nothing else is stored, and no loop is in between, the number stays in a register
        alone = len(arrays) <= 1 and not any(_is_loop(x) for x in block.ops)
        forward = 0.0 if alone else self.loops.forward_cycles
        indices = {x: _index(x, x.offsets, later, block) for x in slices}
        read: dict[SSAValue, tuple[SSAValue, float]] = {
            x.result: (stored[at], forward)
            for x, at in indices.items()
            if None not in at[1] and at in stored
        }
        for x in straight(block):
            if isinstance(x, Reduction) and is_number(x.results[0]):
                read.update(self._summed(x, stored, later))
        carried = op.carried_in(block)
        given = dict(zip(carried, yield_of(block).values, strict=True))
        late: dict[SSAValue, float] = dict.fromkeys((*carried, *read), 0.0)
        late |= {x: wait for x, (_, wait) in read.items()}
        ends: list[float] = []
        for _ in range(TRIPS_TOGETHER):
            here = dict(late)
            self._lateness(block, here, now)
            found = {x: here.get(y, 0.0) for x, y in given.items() if is_number(x)}
            found |= {x: here.get(y, 0.0) + wait for x, (y, wait) in read.items()}
            ends.append(max(found.values(), default=0.0))
            late |= found
        # what one trip alone makes late, such as the best of numbers that are carried, is no chain
        chain = (ends[-1] - ends[0]) / (TRIPS_TOGETHER - 1)
        return max([chain, *self._mapped(block, now, later)])

    def _mapped(self, block: Block, now: Values, later: Values) -> Iterator[float]:
        """Of rows that are made of those of the trip before: until their elements are there."""
        rows = [
            x for x in straight(block) if isinstance(x, DynamicUpdateOp) and not is_number(x.update)
        ]
        for x in rows:
            for part in parts_in(x.update):
                if self._overlap(x, now, part, later):
                    yield self.arrays.map_latency(x.update)

    def _overlap(
        self, stored: DynamicUpdateOp, now: Values, read: DynamicSliceOp, later: Values
    ) -> bool:
        """Whether the next trip reads some of what this one stores."""
        if array_of(stored.result) is not array_of(read.operands[0]):
            return False
        ends = (
            self._span(stored.update, stored.offsets, now),
            self._span(read.result, read.offsets, later),
        )
        return all(
            a is not None and b is not None and a[0] < b[1] and b[0] < a[1]
            for a, b in zip(*ends, strict=True)
        )

    def _span(
        self, part: SSAValue, offsets: Sequence[SSAValue], values: Values
    ) -> Iterator[tuple[int, int] | None]:
        for dim, offset in zip(shape_of(part.type), offsets, strict=True):
            start = values.get(offset)
            yield None if start is None else (start, start + self.arrays.size(dim))

    def _summed(
        self, op: Reduction, stored: Mapping[Index, SSAValue], later: Values
    ) -> Iterator[tuple[SSAValue, tuple[SSAValue, float]]]:
        """Of a sum in the next trip what it waits for: an element that this one stores."""
        wait = self.loops.forward_cycles + self.arrays.fold_latency(op)
        for part in (part for x in op.operands for part in parts_in(x)):
            array, starts = array_of(part.operands[0]), [later.get(x) for x in part.offsets]
            extents = [self.arrays.size(dim) for dim in shape_of(part.result.type)]
            for (where, place), update in stored.items():
                axes = zip(place, starts, extents, strict=True)
                if where is array and all(_lies_in(*axis) for axis in axes):
                    yield op.results[0], (update, wait)

    def _lateness(self, block: Block, late: Lateness, values: Values) -> None:
        """Of what is made of numbers that come late, how late it is."""
        for op in block.ops:
            if isinstance(op, IfOp):
                known = values.get(op.condition)
                blocks = op.blocks if known is None else [op.blocks[not known]]
                for inner in blocks:
                    self._lateness(inner, late, values)
                ends = [yield_of(inner).values for inner in blocks]
                for result, *parts in zip(op.outs, *ends, strict=True):
                    if not is_number(result) or not any(x in late for x in (op.condition, *parts)):
                        continue
                    if known is None and not is_branch(op):
                        late[result] = self._chosen(result, op.condition, parts, late)
                    else:  # foretold
                        late[result] = max(late.get(x, 0.0) for x in parts)
            elif isinstance(op, TensorOp) and op.results[0] not in late:
                if (just := _just_stored(op)) is not None:  # it is in a register
                    late |= {op.results[0]: late[just]} if just in late else {}
                    continue
                waits = [late[x] for x in op.operands if x in late and is_number(x)]
                if waits and isinstance(op, SelectOp):
                    condition, *parts = op.operands
                    late[op.result] = self._chosen(op.result, condition, parts, late)
                elif waits:
                    late[op.results[0]] = max(waits) + self._latency(op)

    def _chosen(
        self, result: SSAValue, condition: SSAValue, parts: Sequence[SSAValue], late: Lateness
    ) -> float:
        """
        Of one of two numbers: LLVM makes a branch, which is foretold, of an integer that waits for
        its condition a quarter of a misprediction longer than for the numbers.
        SOURCE: LLVM, X86CmovConversion.cpp, "checkForProfitableCmovCandidates"
        """
        values = max(late.get(x, 0.0) for x in parts)
        decided = late.get(condition, 0.0)
        of_integers = not element_dtype(result).is_inexact
        if of_integers and 4 * (decided - values) >= self.loops.mispredict_cycles:
            return values
        return max(decided, values) + 1.0

    def _latency(self, op: TensorOp) -> float:
        if isinstance(op, DynamicSliceOp):
            return self.loops.load_cycles
        if not op.FLOPS:
            return 0.0
        if isinstance(op, WholeDivision) and not op.dtype.is_inexact:
            divisor = constant_divisor(op)
            if divisor is None:
                return self.loops.integer_divide_latency_cycles
            return max(division_ops(divisor) - 2.0, 1.0)  # what rounds, beside the product
        if not op.dtype.is_inexact:
            return max(1.0, 2 * op.WEIGHT) if op.WEIGHT > 2 else 1.0
        if isinstance(op, AddOp | SubOp):
            fused = any(isinstance(x.owner, MulOp) for x in op.operands)
            return self.target.fma_latency_cycles if fused else self.loops.add_latency_cycles
        return max(float(self.target.fma_latency_cycles), 2 * op.WEIGHT)


def _is_loop(op: Operation) -> bool:
    repeats = isinstance(op, ControlOp) and op.repeats
    return repeats or (isinstance(op, Reduction) and bool(op.words()[2]))


def _lies_in(place: int | SSAValue | None, start: int | None, extent: int) -> bool:
    """Whether a place is in a part; the part of a trip is as long as that of the one before."""
    return isinstance(place, int) and start is not None and start <= place <= start + extent


def is_branch(op: IfOp) -> bool:
    """Whether it stays one: nothing loads or stores, or loops, for an end that is not taken."""
    kinds = (DynamicSliceOp, DynamicUpdateOp)
    return any(
        isinstance(x, kinds) or (isinstance(x, ControlOp) and x.repeats)
        for block in op.blocks
        for x in block.walk()
    )


def _just_stored(op: TensorOp) -> SSAValue | None:
    """What an op reads of an array that the trip has stored there itself."""
    made = op.operands[0].owner if isinstance(op, DynamicSliceOp) else None
    if isinstance(op, DynamicSliceOp) and isinstance(made, DynamicUpdateOp):
        return made.update if list(made.offsets) == list(op.offsets) else None
    return None


def _index(op: TensorOp, offsets: Sequence[SSAValue], values: Values, block: Block) -> Index:
    """Which element of which array: numbers as far as they are known, or that stay in a loop."""
    places: list[int | SSAValue | None] = []
    for x in offsets:
        checked = x
        while isinstance(owner := checked.owner, WithinOp | ReshapeOp):
            checked = owner.operands[0]
        places.append(values.get(x, checked if _stays(checked, block) else None))
    return array_of(op.operands[0]), tuple(places)


def _stays(value: SSAValue, block: Block) -> bool:
    """Whether a value is made outside of a loop's block."""
    owner = value.owner
    inner = owner if isinstance(owner, Block) else owner.parent
    while inner is not None and inner is not block:
        around = inner.parent_op()
        inner = around.parent if around is not None else None
    return inner is None
