"""
The position of an extreme element along the vector's axis: its value first, then where it is.

The value takes one comparison per vector. The search for it compares again, in that block of the
row alone that holds it, stops at the first vector that does, and reads what the first walk brought
into the cache; only the vectors where it stops need positions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i1
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag, ReductionOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.tensor.monoid import State
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import NO_FAST_MATH, LoopBuilder
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.kernel import vector_loop

if TYPE_CHECKING:
    from mlc.lowering.loops.reduce import ReductionNest

VECTORS = 4  # that are compared between two branches
BLOCK = 64  # vectors of a row of which only one block is searched
CHEAP = 4.0  # weight of an element that may be computed twice: a comparison or two, not an exp
_ANY = CombiningKindAttr(CombiningKindFlag.OR)
_LEAST = CombiningKindAttr(CombiningKindFlag.MINSI)

Fixed = dict[int, Position]
Test = Callable[[Lanes, SSAValue], SSAValue]


def repays_search(nest: ReductionNest) -> bool:
    """Whether the position is found by a search for the value."""
    weight = nest.s.nest.weight if nest.s.nest is not None else CHEAP
    one_axis = nest.reduced == [nest.vector] and nest.vector >= 0
    return nest.monoid.extreme is not None and one_axis and nest.lanes > 1 and weight <= CHEAP


def values_of(nest: ReductionNest) -> ReductionNest:
    """The same loops, for the value alone."""
    assert nest.monoid.extreme is not None
    values = copy.copy(nest)
    values.monoid = nest.monoid.extreme
    values.states = values.monoid.state(nest.dtype)
    values.counted = -1
    return values


def extreme_state(nest: ReductionNest, fixed: Fixed, low: Index, high: Index) -> State:
    """(value, position) of the extreme element in [low, high)."""
    b, single = nest.b, nest.s.lanes(1)
    values, width = values_of(nest), BLOCK * nest.lanes
    extent = b.sub(high, low)

    def end_of(start: Index) -> Index:
        end = b.add(start, width)
        whole = isinstance(extent, int) and extent % width == 0
        return end if whole else b.min(end, high)

    def extreme_of_block(start: Index, *best: SSAValue) -> Sequence[SSAValue]:
        (value,) = values.reduce_range(fixed, [nest.vector], start, end_of(start))
        return nest.combine(single, best, (value, single.position(Position(start))))

    if isinstance(extent, int) and extent <= width:
        (value,) = values.reduce_range(fixed, [nest.vector], low, high)
        return value, first_position(nest, fixed, low, high, value)
    value, start = b.loop(low, high, width, extreme_of_block, nest.identity(1, 1))
    start = as_index(b, start)
    return value, first_position(nest, fixed, start, end_of(start), value)


def first_position(
    nest: ReductionNest, fixed: Fixed, low: Index, high: Index, value: SSAValue
) -> SSAValue:
    """The i64 position in [low, high) of the first element that is `value`; there must be one."""
    dtype = nest.dtype

    def equal(e: Lanes, x: SSAValue) -> SSAValue:
        return e.compare("eq", x, e.spread(value), dtype)

    if dtype.kind != "float":
        return _search(nest, fixed, low, high, equal)
    return nest.b.pick(
        nest.s.lanes(1).compare("eq", value, value, dtype),
        lambda: _search(nest, fixed, low, high, equal),
        lambda: _search(nest, fixed, low, high, lambda e, x: e.compare("ne", x, x, dtype)),
    )


def _search(nest: ReductionNest, fixed: Fixed, low: Index, high: Index, is_it: Test) -> SSAValue:
    b, lanes = nest.b, nest.lanes
    width = VECTORS * lanes
    last = b.sub(high, width)  # where the last block of whole vectors may begin

    def found(i: Index, mask: SSAValue | None) -> tuple[Lanes, Position, SSAValue]:
        e = nest.s.lanes(lanes, mask)
        at = Position(i, 1)
        here = {**fixed, nest.vector: at}
        point = nest.axes.point([here[g] for g in range(len(nest.axes.groups))])
        hit = is_it(e, nest.op.element(e, point))
        return e, point[nest.counted], hit

    def somewhere(i: Index) -> SSAValue:
        hits = [found(b.add(i, k * lanes), None) for k in range(VECTORS)]
        union = hits[0][2]
        for e, _, hit in hits[1:]:
            union = e.apply(arith.OrIOp, union, hit)
        return _over_lanes(nest, _ANY, union, i1)

    start = _skip(nest, low, last, width, somewhere)

    def body(i: Index, mask: SSAValue | None, carried: tuple[SSAValue, ...]) -> Sequence[SSAValue]:
        e, at, hit = found(i, mask)
        if mask is not None:
            hit = e.apply(arith.AndIOp, hit, mask)
        where = e.select(hit, e.position(at), e.constant(I64.highest, I64))
        return [e.apply(arith.MinSIOp, carried[0], where)]

    none = [b.element(I64.highest, I64, lanes)]
    end = b.min(b.add(start, width), high)
    (first,) = vector_loop(nest.s, start, end, body, lanes=lanes, unroll=1, inits=none)
    return _over_lanes(nest, _LEAST, first, I64.ir)


def as_index(b: LoopBuilder, value: SSAValue) -> Index:
    """An i64 as an index."""
    return b.value(arith.IndexCastOp.create(operands=[value], result_types=[INDEX]))


def _over_lanes(
    nest: ReductionNest, kind: CombiningKindAttr, x: SSAValue, element: Attribute
) -> SSAValue:
    return nest.b.value(
        ReductionOp.create(
            operands=[x],
            result_types=[element],
            properties={"kind": kind, "fastmath": NO_FAST_MATH},
        )
    )


def _skip(
    nest: ReductionNest,
    low: Index,
    last: Index,
    width: int,
    stops: Callable[[Index], SSAValue],
) -> Index:
    """From `low` in steps of `width` to the first block that stops, or past `last`."""
    b = nest.b
    before, after = Block(arg_types=[INDEX]), Block(arg_types=[INDEX])
    i = before.args[0]
    with b.inside(before):
        inside = b.compare("le", i, last)
        assert not isinstance(inside, bool)
        goes_on = b.pick(
            inside,
            lambda: b.negated(stops(i)),
            lambda: b.element(False, BOOL, 1),
        )
        before.add_op(scf.ConditionOp.create(operands=[goes_on, i]))
    with b.inside(after):
        after.add_op(scf.YieldOp.create(operands=[b.index(b.add(after.args[0], width))]))
    op = scf.WhileOp.create(
        operands=[b.index(low)], result_types=[INDEX], regions=[Region(before), Region(after)]
    )
    b.add_op(op)
    return op.results[0]
