"""
Carried values that collect one row per trip: of these, no cotangent need be carried.

What a scan gives is written row by row into a value that goes round the loop. Every row is written
once and no trip reads it, so the cotangent of what a trip wrote is a row of the cotangent that came
in, and what the loop started from counts for nothing.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.tensor.control import ForOp, yield_of
from mlc.dialects.tensor.elementwise import SubOp
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.passes.tensor.derivative.emit import Emitter, trips_of

ONE = Dim.const(1)


def stacked_outputs(op: ForOp) -> dict[int, DynamicUpdateOp]:
    """For carried values every row of which is written by one trip, and read by none: the write."""
    trips = trips_of(op.count)
    found: dict[int, DynamicUpdateOp] = {}
    for k, value in enumerate(yield_of(op.body.block).values):
        write = value.owner
        if (
            isinstance(write, DynamicUpdateOp)
            and write.x is op.carried[k]
            and _uses(write.x) == _uses(value) == 1
            and _is_row(write, trips)
            and _is_own_row(write.offsets[0], op, trips)
        ):
            found[k] = write
    return found


def _uses(value: SSAValue) -> int:
    return sum(1 for _ in value.uses)


def _is_row(write: DynamicUpdateOp, trips: Dim | None) -> bool:
    """Whether it writes one of as many rows as there are trips."""
    whole, row = write.shape, shape_of(write.update.type)
    return row == (ONE, *whole[1:]) and whole[0] == trips


def _is_own_row(at: SSAValue, op: ForOp, trips: Dim | None) -> bool:
    """Whether the row has the trip's number, counted from the first one or from the last one."""
    index = op.body.block.args[0]
    if at is index:
        return True
    if trips is None or not isinstance(at.owner, SubOp) or at.owner.rhs is not index:
        return False
    return trips_of(at.owner.lhs) == trips - 1


def row_of(b: Emitter, whole: SSAValue, write: DynamicUpdateOp) -> SSAValue:
    """The row of another tensor at the place where `write` writes."""
    return b(DynamicSliceOp, whole, *write.offsets, declared=tensor_of(write.update))
