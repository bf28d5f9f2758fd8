"""
Reductions of bools: states are bytes, as vectors of i1 have no registers where masks have none, and
nothing more is read when the result is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.dtypes import BOOL, U8, DType
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.monoid import Monoid, State
from mlc.dialects.tensor.op import Array, TensorOp
from mlc.dialects.tensor.order import BLOCK_ELEMENTS, Order
from mlc.lowering.loops.arithmetic import INDEX, Index

if TYPE_CHECKING:
    from mlc.lowering.loops.reduce import ReductionNest

ALL_BITS = 255

Walk = Callable[[Index, Index, Sequence[SSAValue]], Sequence[SSAValue]]


class Bytes(Monoid):
    """A disjunction or conjunction whose state is a byte of equal bits."""

    op: ClassVar[type[Operation]]
    start: ClassVar[int]

    def __init__(self, plain: Monoid) -> None:
        self.plain = plain

    def state(self, dtype: DType) -> tuple[DType, ...]:
        return (U8,)

    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        return (self.start,)

    def lift(self, b: ElementBuilder, element: SSAValue, position: Callable[[], SSAValue]) -> State:
        return (b.select(element, b.constant(ALL_BITS, U8), b.constant(0, U8)),)

    def combine(self, b: ElementBuilder, dtype: DType, left: State, right: State) -> State:
        return (b.apply(self.op, left[0], right[0]),)

    def finalise(self, b: ElementBuilder, state: State) -> SSAValue:
        return b.compare("ne", state[0], b.constant(0, U8), U8)

    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        return self.plain.reference(x, axes, order)


class _Or(Bytes):
    op: ClassVar[type[Operation]] = arith.OrIOp
    start: ClassVar[int] = 0


class _And(Bytes):
    op: ClassVar[type[Operation]] = arith.AndIOp
    start: ClassVar[int] = ALL_BITS


def in_bytes(monoid: Monoid, dtype: DType) -> Monoid:
    """The same reduction, its states bytes where they are bools."""
    if monoid.state(dtype) != (BOOL,):
        return monoid
    return _And(monoid) if monoid.identity(dtype)[0] else _Or(monoid)


def ends_early(nest: ReductionNest) -> bool:
    """Whether some elements may be left out: those that cannot fail."""
    ops = nest.s.kernel.block.ops
    return isinstance(nest.monoid, Bytes) and not any(
        isinstance(op, TensorOp) and op.CHECKS for op in ops
    )


def settled(nest: ReductionNest, states: Sequence[SSAValue], lanes: int) -> SSAValue:
    """Whether no further element changes the result, for states of so many lanes."""
    assert isinstance(nest.monoid, Bytes)
    e = nest.s.lanes(lanes)
    together = states[0]
    for state in states[1:]:
        together = e.apply(nest.monoid.op, together, state)
    known = e.compare("ne", together, e.constant(nest.monoid.start, U8), U8)
    found = e.any_lane(known)
    assert found is not None
    return found


def walk_until_settled(
    nest: ReductionNest, low: Index, high: Index, inits: Sequence[SSAValue], walk: Walk
) -> Sequence[SSAValue]:
    """`walk` of [low, high) block by block, until the result is known."""
    b, extent = nest.b, nest.b.sub(high, low)
    width = nest.lanes * nest.copies
    block = BLOCK_ELEMENTS // width * width
    if isinstance(extent, int) and extent <= block:
        return walk(low, high, inits)
    kinds = [INDEX, *(x.type for x in inits)]
    before, after = Block(arg_types=kinds), Block(arg_types=kinds)
    i, *state = before.args
    with b.inside(before):
        whole = b.compare("le", b.add(i, block), high)
        assert not isinstance(whole, bool)
        open_ = b.negated(settled(nest, state, nest.lanes))
        goes_on = b.both(whole, open_)
        assert not isinstance(goes_on, bool)
        before.add_op(scf.ConditionOp.create(operands=[goes_on, i, *state]))
    i, *state = after.args
    with b.inside(after):
        end = b.add(i, block)
        found = walk(i, end, state)
        after.add_op(scf.YieldOp.create(operands=[b.index(end), *found]))
    op = scf.WhileOp.create(
        operands=[b.index(low), *inits],
        result_types=kinds,
        regions=[Region(before), Region(after)],
    )
    b.add_op(op)
    reached, *state = op.results
    # of the rest there is less than a block, unless the result is known
    return walk(reached, b.min(b.add(reached, block), high), state)
