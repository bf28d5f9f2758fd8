"""
How often a loop runs whose count data decide: a guess, by what its trips walk along.

What a trip makes one larger, and uses as an index, ends with the array; loops inside another one
that walk along an array see it once, all together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import Block, SSAValue

from mlc.dialects.analysis.nests import is_number
from mlc.dialects.analysis.trips import UNKNOWN_TRIPS, trips_of
from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.comparison import MaxOp
from mlc.dialects.tensor.control import ControlOp, ForOp, loops_around, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import AddOp, SubOp
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.within import WithinOp
from mlc.passes.cost.places import array_of, depends, straight

FORETOLD_TRIPS = 8
"""Of `while` in another loop: of branches back 88 of 100 are
taken. SOURCE: Ball, Larus, "Branch prediction for free", PLDI 1993"""

LINKED_TRIPS = 1
"""Of `while` in another loop that goes where the element it stands at says: tables, trees and
failure links are made so that all loops together take no more steps than the one around. SOURCE:
Cormen, Leiserson, Rivest, Stein, chapters 11, 17, 21 and 32: amortised costs"""

Values = Mapping[SSAValue, int]


def guessed(op: ControlOp, values: Values) -> int:
    """Of a `for` whose count is no number that is known, and of `while`."""
    around = next(loops_around(op), None)
    walked = min(_walked(op), default=None)
    if not isinstance(op, ForOp):
        if around is None:
            return UNKNOWN_TRIPS if walked is None else min(UNKNOWN_TRIPS, walked)
        if (left := next(_counted_down(op, values), None)) is not None:
            return max(left // 2, 1)
        usual = LINKED_TRIPS if _is_linked(op) else FORETOLD_TRIPS
        return usual if walked is None else min(usual, walked)
    if (most := _less_something(op.count, values)) is not None:
        return most
    if walked is None:
        return UNKNOWN_TRIPS
    outer = trips_of(around) if around is not None else None
    if outer is None or outer.constant is None:
        return min(UNKNOWN_TRIPS, walked)
    return max(walked // max(outer.constant, 1), 1)


def _counted_down(op: ControlOp, values: Values) -> Iterator[int]:
    """How many trips are left, at most, to the beginning of an axis that is walked back."""
    end = op.yielding()[-1]
    for start, given, carried in zip(
        op.starts, yield_of(end).values, op.carried_in(end), strict=True
    ):
        made = given.owner
        back = isinstance(made, SubOp) and made.operands[0] is carried and _is_one(made.operands[1])
        if back and start in values:
            yield values[start] + 1


def _is_linked(op: ControlOp) -> bool:
    """Whether a trip hands on an index that it has read."""
    return any(
        isinstance(_unchecked(x).owner, DynamicSliceOp) and not element_dtype(x).is_inexact
        for x in yield_of(op.yielding()[-1]).values
        if is_number(x)
    )


def _unchecked(value: SSAValue) -> SSAValue:
    while isinstance(owner := value.owner, ReshapeOp | WithinOp):
        value = owner.operands[0]
    return value


def _less_something(count: SSAValue, values: Values) -> int | None:
    """
    Of a number that is known, less one that data give: the other is taken as `UNKNOWN_TRIPS`, or as
    half of the first.
    """
    op = count.owner
    if isinstance(op, MaxOp | ReshapeOp):
        unknown = [x for x in op.operands if x not in values]
        return _less_something(unknown[0], values) if len(unknown) == 1 else None
    known = values.get(op.operands[0]) if isinstance(op, SubOp) else None
    return None if known is None else known - min(UNKNOWN_TRIPS, max(known, 0) // 2)


def _walked(op: ControlOp) -> Iterator[int]:
    """The extents of the axes along which trips walk element by element."""
    for block in op.blocks:
        numbers = set(_numbers(op, block))
        for x in straight(block):
            if isinstance(x, DynamicSliceOp | DynamicUpdateOp):
                shape = shape_of(x.operands[0].type)
                for index, extent in zip(x.offsets, shape, strict=True):
                    if extent.constant is not None and _moves(index, numbers):
                        yield extent.constant


def _numbers(op: ControlOp, block: Block) -> Iterator[SSAValue]:
    """What each trip is given one larger than the last: its number, and what it carries so."""
    if isinstance(op, ForOp):
        yield block.args[0]
    end = op.yielding()[-1]
    for k, value in enumerate(yield_of(end).values):
        made, carried = value.owner, op.carried_in(end)
        if not isinstance(made, AddOp) or not any(_is_one(x) for x in made.operands):
            continue
        if k < len(carried) and carried[k] in made.operands:
            yield op.carried_in(block)[k]


def _is_one(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, ConstantOp) and op.array().size == 1 and bool((op.array() == 1).all())


def is_in_lanes(op: ControlOp) -> bool:
    """
    Whether trips are independent of one another and go along rows: LLVM makes vectors of them.
    Where an array is read at another place than it is stored, only the call would tell.
    """
    block = op.blocks[0]
    if not isinstance(op, ForOp) or any(is_number(x) for x in op.carried_in(block)):
        return False
    ops, number = list(block.ops), block.args[0]
    if any(isinstance(x, ControlOp) or (isinstance(x, WithinOp) and not x.holds) for x in ops):
        return False
    slices = [x for x in ops if isinstance(x, DynamicSliceOp)]
    updates = [x for x in ops if isinstance(x, DynamicUpdateOp)]
    stored = {array_of(x.result): list(x.offsets) for x in updates}
    return (
        bool(updates)
        and all(_goes_along(x.offsets, number) for x in updates)
        and all(_stays_or_goes_along(x.offsets, number) for x in slices)
        and all(stored.get(array_of(x.x), [*x.offsets]) == [*x.offsets] for x in slices)
    )


def _stays_or_goes_along(offsets: Sequence[SSAValue], number: SSAValue) -> bool:
    stays = not any(depends(x, number) for x in offsets)
    return stays or _goes_along(offsets, number)


def _goes_along(offsets: Sequence[SSAValue], number: SSAValue) -> bool:
    """Whether a trip's element lies beside the one of the trip before."""
    if not offsets or any(depends(x, number) for x in offsets[:-1]):
        return False
    index = offsets[-1]
    while index is not number:
        op = index.owner
        if not isinstance(op, ReshapeOp | WithinOp | AddOp | SubOp):
            return False
        moving = [x for x in op.operands if depends(x, number)]
        if len(moving) != 1:
            return False
        (index,) = moving
    return True


def _moves(index: SSAValue, numbers: set[SSAValue]) -> bool:
    """Whether an index is such a number and something that does not depend on it."""
    index = _unchecked(index)
    op = index.owner
    return index in numbers or (
        isinstance(op, AddOp | SubOp) and any(x in numbers for x in op.operands)
    )
