"""
What the next trip of a loop waits for: numbers that are carried, and elements that are read where
the trip before has stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.ir import Block, BlockArgument, SSAValue

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.nests import is_number
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.loop_costs import LoopCosts
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.control import ControlOp, IfOp, yield_of
from mlc.dialects.tensor.division import WholeDivision
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.within import WithinOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import constant_divisor, division_ops

TRIPS_TOGETHER = 4
"""Of which a chain is looked for, from a trip to the next."""

Values = dict[SSAValue, int]
Lateness = dict[SSAValue, float]
Index = tuple[SSAValue, tuple[int | SSAValue | None, ...]]


@dataclass(frozen=True)
class Chains:
    """Of loops on a machine."""

    target: CpuTarget

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
        # where nothing else is stored, the number stays in a register
        forward = self.loops.forward_cycles if len(arrays) > 1 else 0.0
        indices = {x: _index(x, x.offsets, later, block) for x in slices}
        read = {
            x.result: stored[at] for x, at in indices.items() if None not in at[1] and at in stored
        }
        carried = op.carried_in(block)
        given = dict(zip(carried, yield_of(block).values, strict=True))
        late: dict[SSAValue, float] = dict.fromkeys((*carried, *read), 0.0)
        late |= dict.fromkeys(read, forward)
        ends: list[float] = []
        for _ in range(TRIPS_TOGETHER):
            here = dict(late)
            self._lateness(block, here, now)
            found = {x: here.get(y, 0.0) for x, y in given.items() if is_number(x)}
            found |= {x: here.get(y, 0.0) + forward for x, y in read.items()}
            ends.append(max(found.values(), default=0.0))
            late |= found
        # what one trip alone makes late, such as the best of numbers that are carried, is no chain
        return (ends[-1] - ends[0]) / (TRIPS_TOGETHER - 1)

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


def is_branch(op: IfOp) -> bool:
    """Whether it stays one: nothing loads or stores, or loops, for an end that is not taken."""
    kinds = (DynamicSliceOp, DynamicUpdateOp)
    return any(
        isinstance(x, kinds) or (isinstance(x, ControlOp) and x.repeats)
        for block in op.blocks
        for x in block.walk()
    )


def straight(block: Block) -> Sequence[TensorOp]:
    """The ops of a block and of branches in it, not of loops."""
    found: list[TensorOp] = []
    for op in block.ops:
        if isinstance(op, IfOp):
            for inner in op.blocks:
                found += straight(inner)
        elif isinstance(op, TensorOp):
            found.append(op)
    return found


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


def array_of(value: SSAValue) -> SSAValue:
    """The array of which a value is a version: what the loops around begin with."""
    while True:
        value = root_of(value)
        owner = value.owner
        if isinstance(owner, DynamicUpdateOp):
            value = owner.operands[0]
        elif isinstance(owner, ControlOp):
            place = list(owner.results).index(cast("Any", value))
            value = (
                owner.starts[place] if owner.repeats else yield_of(owner.blocks[0]).values[place]
            )
        elif isinstance(value, BlockArgument) and isinstance(
            around := value.block.parent_op(), ControlOp
        ):
            carried = list(around.carried_in(value.block))
            if value not in carried:
                return value
            value = around.starts[carried.index(value)]
        else:
            return value
