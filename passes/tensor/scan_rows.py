"""
Rows that the trips of a loop read and write, each its own: what scans and their derivatives do.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.tensor.control import ForOp, is_inside, yield_of
from mlc.dialects.tensor.elementwise import SubOp
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.passes.tensor.derivative.emit import (
    Emitter,
    Values,
    before,
    before_yield,
    extend_carried,
    extend_yield,
    trips_of,
)

ONE = Dim.const(1)


def stacked_outputs(op: ForOp) -> dict[int, DynamicUpdateOp]:
    """
    For carried values every row of which is written by one trip, and read by none: the write. What
    these start from counts for nothing.
    """
    trips = trips_of(op.count)
    found: dict[int, DynamicUpdateOp] = {}
    for k, value in enumerate(yield_of(op.body.block).values):
        write = value.owner
        if (
            isinstance(write, DynamicUpdateOp)
            and write.x is op.carried[k]
            and uses_of(write.x) == uses_of(value) == 1
            and _is_row(shape_of(write.update.type), write.shape, trips)
            and _is_own_row(write.offsets[0], op, trips)
        ):
            found[k] = write
    return found


def uses_of(value: SSAValue) -> int:
    """How often a value is read."""
    return sum(1 for _ in value.uses)


def row_read(value: SSAValue, op: ForOp) -> tuple[SSAValue, SSAValue] | None:
    """A tensor from outside of which a value is the trip's own row, and the row's number."""
    if not isinstance(value.owner, ReshapeOp):
        return None
    part = value.owner.x.owner
    if not isinstance(part, DynamicSliceOp) or is_inside(part.x, op):
        return None
    trips, whole = trips_of(op.count), shape_of(part.x.type)
    if shape_of(value.type) != whole[1:] or not _is_row(part.shape, whole, trips):
        return None
    return (part.x, part.offsets[0]) if _is_own_row(part.offsets[0], op, trips) else None


def _is_row(row: Sequence[Dim], whole: Sequence[Dim], trips: Dim | None) -> bool:
    """Whether it is one of as many rows as there are trips."""
    return bool(whole) and whole[0] == trips and tuple(row) == (ONE, *whole[1:])


def _is_own_row(at: SSAValue, op: ForOp, trips: Dim | None) -> bool:
    """Whether the row has the trip's number, counted from the first one or from the last one."""
    index = op.body.block.args[0]
    if at is index:
        return True
    if trips is None or not isinstance(at.owner, SubOp) or at.owner.rhs is not index:
        return False
    return trips_of(at.owner.lhs) == trips - 1


def row_of(
    b: Emitter, whole: SSAValue, write: DynamicUpdateOp, offsets: Sequence[SSAValue] | None = None
) -> SSAValue:
    """The row of another tensor at the place where `write` writes (or at those offsets)."""
    at = write.offsets if offsets is None else offsets
    return b(DynamicSliceOp, whole, *at, declared=tensor_of(write.update))


def stack(op: ForOp, values: Sequence[SSAValue], at: SSAValue | None = None) -> Values:
    """
    Results of the loop: its body's values of all trips, in rows of their numbers (or of `at`, a row
    number of the trip's own). New ones, where the loop does not stack the values already.
    """
    trips = trips_of(op.count)
    assert trips is not None
    body = op.body.block
    row = body.args[0] if at is None else at
    found = {
        write.update.owner.x: op.results[k]
        for k, write in stacked_outputs(op).items()
        if write.offsets[0] is row and isinstance(write.update.owner, ReshapeOp)
    }
    found = {x: s for x, s in found.items() if shape_of(x.type) == shape_of(s.type)[1:]}
    new = [x for x in dict.fromkeys(values) if x not in found]
    b = before(op)
    starts = [b.stack(trips, x.type) for x in new]
    first = len(op.results)
    (arguments,) = extend_carried(op, starts)
    inner = before_yield(body, op.location)
    written = [inner.write(s, v, row) for s, v in zip(arguments, new, strict=True)]
    extend_yield(body, written)
    found |= zip(new, op.results[first:], strict=True)
    return [found[x] for x in values]
