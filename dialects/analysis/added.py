"""
`h[p] += v` in a trip of a loop: what the trip does with an array at a place that data may decide.

Such trips may meet in an element, and yet are one op for all of them, which adds in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.comparison import MaxOp, MinOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.scatter import MODES
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.within import WithinOp
from mlc.lazy_dataclass import dataclass

KINDS: dict[type[TensorOp], str] = {
    AddOp: "add", SubOp: "add", MulOp: "mul", MinOp: "min", MaxOp: "max"
}  # fmt: skip
"""How an op writes its result over an operand, as `mlc.scatter` has it: x - v is x + -v."""


@dataclass(frozen=True)
class Added:
    """A part of an array that is read, and written over with itself and `value`."""

    read: DynamicSliceOp
    write: DynamicUpdateOp
    kind: type[TensorOp]
    value: SSAValue
    between: tuple[Operation, ...]
    """The ops that read the part and make of it what is written: nothing else needs them."""

    def checks(self) -> dict[SSAValue, WithinOp]:
        """The checks of places that only this needs, by what they give."""
        users = {*self.between, self.write}
        return {
            x: x.owner
            for x in (*self.read.offsets, *self.write.offsets)
            if isinstance(x.owner, WithinOp) and all(use.operation in users for use in x.uses)
        }


def added_by(ops: Sequence[TensorOp], start: SSAValue) -> Added | None:
    """What all ops of a trip that read and write parts of an array add up to."""
    if len(ops) != 2:
        return None
    read, write = ops
    if not isinstance(read, DynamicSliceOp) or not isinstance(write, DynamicUpdateOp):
        return None
    one_place = read.x is start and write.x is start and read.parent is write.parent
    if not one_place or not all(map(_are_equal, read.offsets, write.offsets)):
        return None
    if read.fits is None or write.fits is None or read.result.type != write.update.type:
        return None
    made, between = _unshaped(write.update)
    op = made.owner
    if not isinstance(op, tuple(KINDS)) or not made.has_one_use():
        return None
    monoid, dtype = MODES[KINDS[type(op)]], read.dtype
    if monoid is None or dtype.kind not in monoid.kinds or monoid.accumulator(dtype) is not dtype:
        return None
    for k in (0,) if isinstance(op, SubOp) else (0, 1):
        part, more = _unshaped(op.operands[k])
        if part is read.result and part.has_one_use():
            return Added(read, write, type(op), op.operands[1 - k], (read, op, *between, *more))
    return None


def _are_equal(x: SSAValue, y: SSAValue) -> bool:
    """Whether two numbers are made of the same in the same way."""
    one, other = x.owner, y.owner
    if x is y or not isinstance(one, TensorOp) or not isinstance(other, TensorOp):
        return x is y
    alike = type(one) is type(other) and one.properties == other.properties and x.type == y.type
    return alike and all(map(_are_equal, one.operands, other.operands))


def _unshaped(value: SSAValue) -> tuple[SSAValue, list[Operation]]:
    """What reshapes that nobody else reads are of, and those."""
    found: list[Operation] = []
    while isinstance(value.owner, ReshapeOp) and value.has_one_use():
        found.append(value.owner)
        value = value.owner.x
    return value, found


def letters_at(write: DynamicUpdateOp) -> tuple[str, tuple[int, ...]] | None:
    """
    The letters of a scatter of all trips (a: the trips), and the axes that its indices are for;
    None where a part is neither one place of an axis nor all of it.
    """
    part, whole = shape_of(write.update.type), shape_of(write.x.type)
    word, axes = "", list[int]()
    for axis, (count, size) in enumerate(zip(part, whole, strict=True)):
        if count == size and count.constant != 1:
            word += "bcdefghij"[axis]
        elif count.constant == 1:
            word += str(len(axes))
            axes.append(axis)
        else:
            return None
    if not axes:
        return None
    rest = "".join(c for c in word if not c.isdigit())
    return f"{','.join([word, *'a' * len(axes)])}->a{rest}", tuple(axes)
