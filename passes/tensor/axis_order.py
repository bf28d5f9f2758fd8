"""
Ops whose operands and result lie with their axes in another order: what they say then.

The same elements are computed: an op that names axes names them where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, as_tensor, shape_of, tensor_type
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.letters import ALPHABET, split_one
from mlc.dialects.tensor.op import as_attribute
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp, PadOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, ReshapeOp, SliceOp, TransposeOp
from mlc.passes.cost.parts import Order

T = TypeVar("T")
ONE = Dim.const(1)


def in_order(items: Sequence[T], order: Order) -> tuple[T, ...]:
    """One item for each axis, in the new order."""
    return tuple(items[axis] for axis in order)


def ordered_type(kind: Attribute, order: Order) -> Attribute:
    """A tensor's type in the new order."""
    return tensor_type(as_tensor(kind).element_type, in_order(shape_of(kind), order))


def inverse(order: Order) -> Order:
    """From the new order back."""
    return tuple(order.index(axis) for axis in range(len(order)))


def transposed(value: SSAValue, order: Order, result: Attribute) -> TransposeOp:
    """An op that brings a value's axes into an order."""
    letters = ALPHABET[: len(order)]
    text = StringAttr(f"{letters}->{''.join(in_order(letters, order))}")
    return TransposeOp.create(operands=[value], result_types=[result], properties={"letters": text})


def ordered_constant(op: ConstantOp, order: Order) -> ConstantOp:
    """The same array in the new order."""
    return cast("ConstantOp", ConstantOp.make(value=dense(op.array().transpose(order), op.dtype)))


# What has operands and a result of one order


def bound_operands(op: Operation) -> Sequence[int] | None:
    """
    The operands that lie as the result does; None where the op has an order of its own. Those of
    elementwise ops may be turned while they are read.
    """
    match op:
        case SliceOp() | PadOp() | DynamicSliceOp():
            return (0,)
        case DynamicUpdateOp():
            return (0, 1)
        case ConcatOp():
            return range(len(op.parts))
        case Elementwise() if all(shape_of(x.type) == op.shape for x in op.operands):
            return range(len(op.operands))
        case _:
            return None


def reorder(op: Operation, order: Order) -> None:
    """The op as it is where its result lies in the new order; types of values are others' work."""
    rule = RULES.get(type(op))
    if rule is not None:
        rule(op, order)


def _dims(*names: str) -> Callable[[Operation, Order], None]:
    def rule(op: Operation, order: Order) -> None:
        for name in names:
            dims = op.properties[name]
            assert isinstance(dims, DimsAttr)
            op.properties[name] = DimsAttr(in_order(dims.data, order))

    return rule


def _offsets(first: int) -> Callable[[Operation, Order], None]:
    def rule(op: Operation, order: Order) -> None:
        before, offsets = op.operands[:first], op.operands[first:]
        op.operands = [*before, *in_order(offsets, order)]

    return rule


def _axis(op: Operation, order: Order) -> None:
    assert isinstance(op, ConcatOp)
    op.properties["axis"] = as_attribute(order.index(op.axis.value.data))


def _letters(op: Operation, order: Order) -> None:
    assert isinstance(op, BroadcastOp)
    source, result = split_one(op.letters.data)
    op.properties["letters"] = StringAttr(f"{source}->{''.join(in_order(result, order))}")


RULES: Mapping[type[Operation], Callable[[Operation, Order], None]] = {
    SliceOp: _dims("offsets", "steps"),
    PadOp: _dims("low", "high"),
    DynamicSliceOp: _offsets(1),
    DynamicUpdateOp: _offsets(2),
    ConcatOp: _axis,
    BroadcastOp: _letters,
}
"""What each op says of axes; the others say nothing."""


# What does not ask how a value lies


def asks_no_order(op: Operation, value: SSAValue, order: Order) -> bool:
    """
    Whether an op that has a value as operand or result says the same for either order: elements
    that are neighbours in one are so in the other, but for axes of one element; or what is repeated
    has its letters in both.
    """
    if isinstance(op, ReshapeOp) and op.unit_axes_only():
        return _is_rising(axis for axis in order if shape_of(value.type)[axis] != ONE)
    if isinstance(op, BroadcastOp) and value is op.result:
        source, result = split_one(op.letters.data)
        return _is_rising(source.index(c) for c in in_order(result, order) if c in source)
    return False


def _is_rising(numbers: Iterable[int]) -> bool:
    found = list(numbers)
    return found == sorted(found)


def thin_axes(part: Attribute, whole: Attribute) -> tuple[int, ...]:
    """The axes of an array of which a part has one of several places, where it has several else."""
    sizes, extents = shape_of(part), shape_of(whole)
    found = tuple(k for k, (n, m) in enumerate(zip(sizes, extents, strict=True)) if n == ONE != m)
    return found if any(n != ONE for n in sizes) else ()


def is_element(part: Attribute, whole: Attribute) -> bool:
    """Whether a part of an array is one element of several."""
    return all(n == ONE for n in shape_of(part)) and any(n != ONE for n in shape_of(whole))
