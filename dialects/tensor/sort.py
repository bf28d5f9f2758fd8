"""Order: sort, argsort, and positions in a sorted array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, I64, REALS, DType, dtype_of, numpy_dtype
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.element import ElementBuilder, Point
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.op import (
    AGAIN,
    Array,
    OpaqueOp,
    OpaqueTemplate,
    OpBuilder,
    Tensor,
    TensorOp,
    element_dtype,
    one_of_property,
    text_property,
)

ORDERS = ("ascending", "descending")


class Sorting(OpaqueOp):
    """
    The family: along the last axis, stable. NaN is the largest value; -0 and +0 are equal where
    positions are told, and where elements are, -0 comes first.
    """

    SOURCE: ClassVar[str] = "NumPy 2 reference manual, sort(kind='stable')"
    TEMPLATE: ClassVar[OpaqueTemplate] = "sort"
    KINDS: ClassVar[tuple[str, ...]] = (*REALS, "bool")
    FLOPS: ClassVar[int] = 1
    WEIGHT: ClassVar[float] = 200.0

    @property
    def runs_along(self) -> int | None:
        return len(self.shape) - 1

    def reads(self, operand: int) -> int:
        return AGAIN

    @classmethod
    def check(cls, x: Tensor, properties: dict[str, Attribute]) -> None:
        """Raises unless there is an axis, and the elements have an order that is known."""
        check_order(cls.name, dtype_of(x.element_type))
        if not shape_of(x):
            raise ShapeError(f"{cls.name}: an array without axes cannot be sorted")
        one_of_property(cls.name, properties, "order", ORDERS)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        return b(type(self), operands[0], order=self.properties["order"])


def check_order(name: str, dtype: DType) -> None:
    """Raises for dtypes without an order."""
    if dtype.kind not in Sorting.KINDS:
        remedy = "x.astype(np.float32)" if dtype.kind == "storage" else "x.real, x.imag or abs(x)"
        raise DTypeError(f"{name} is not defined for {dtype.name}: use {remedy}")


def _comparable(x: Array) -> Array:
    """Floats of 16 bits as f32, whose order NumPy knows with NaN."""
    return x.astype(numpy_dtype(x.dtype).accumulator.numpy, copy=False)


def _argsort(x: Array, order: str) -> Array:
    x = _comparable(x)
    if order == "ascending":
        return np.argsort(x, axis=-1, kind="stable")
    # of the reversed array, so that equal elements keep their order when it is reversed again
    found = np.argsort(x[..., ::-1], axis=-1, kind="stable")
    return x.shape[-1] - 1 - found[..., ::-1]


@irdl_op_definition
class SortOp(Sorting):
    """
    The elements along the last axis in order.

    ```mlir
    %0 = mlc.sort "ascending" %x : tensor<3x4xf32> -> tensor<3x4xf32>
    ```
    """

    name = "mlc.sort"
    order = prop_def(StringAttr)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$order $x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        cls.check(operands[0], properties)
        return operands[0]

    def reference(self, *operands: Array) -> Array:
        x, ascending = operands[0], self.order.data == "ascending"
        found = np.take_along_axis(x, _argsort(x, self.order.data), axis=-1)
        if self.dtype.kind != "float":
            return found
        negative = np.sum((x == 0) & np.signbit(x), axis=-1, keepdims=True)  # -0 comes before 0
        number = np.cumsum(found == 0, axis=-1)
        is_negative = (number <= negative) if ascending else (number > number[..., -1:] - negative)
        signs = np.where(is_negative, -1, 1).astype(found.dtype)
        return np.where(found == 0, np.copysign(found, signs), found)

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        from mlc.dialects.tensor.tangents import sort_tangent

        tangent = tangents[0]
        if tangent is None or not self.dtype.is_inexact:
            return None
        return sort_tangent(b, self, tangent)


@irdl_op_definition
class ArgsortOp(Sorting):
    """
    The positions of the elements along the last axis, in order of the elements.

    ```mlir
    %0 = mlc.argsort "ascending" %x : tensor<3x4xf32> -> tensor<3x4xi64>
    ```
    """

    name = "mlc.argsort"
    NO_DERIVATIVE: ClassVar[str] = "gives positions"
    order = prop_def(StringAttr)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$order $x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        cls.check(operands[0], properties)
        return tensor_type(i64, shape_of(operands[0]))

    def reference(self, *operands: Array) -> Array:
        return _argsort(operands[0], self.order.data)


SIDES = ("left", "right")
LONGEST = 40  # bits of the length of a table whose length is known only at run time


@irdl_op_definition
class SearchsortedOp(TensorOp):
    """
    How many elements of the sorted `table` come before each value: less than it (side "left"), or
    not greater than it ("right").

    ```mlir
    %0 = mlc.searchsorted "left" %table[%x] : tensor<9xf32>, tensor<4xf32> -> tensor<4xi64>
    ```
    """

    name = "mlc.searchsorted"
    NO_DERIVATIVE: ClassVar[str] = "gives positions"
    KINDS: ClassVar[tuple[str, ...]] = Sorting.KINDS
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, searchsorted"
    FLOPS: ClassVar[int] = 1
    WEIGHT: ClassVar[float] = 1000.0
    side = prop_def(StringAttr)
    table = operand_def(TensorType)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = (
        "$side $table `[` $x `]` attr-dict `:` type($table) `,` type($x) `->` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        table, x = operands
        if (side := text_property(properties, "side")) not in SIDES:
            raise DTypeError(f"mlc.searchsorted: side {side!r}; expected left or right")
        if len(shape_of(table)) != 1:
            raise ShapeError(
                f"mlc.searchsorted: the table has {len(shape_of(table))} axes; expected one"
            )
        if table.element_type != x.element_type:
            found = " and ".join(dtype_of(v.element_type).name for v in operands)
            raise DTypeError(f"mlc.searchsorted: dtypes {found} differ; expected one dtype")
        check_order(cls.name, dtype_of(x.element_type))
        return tensor_type(i64, shape_of(x))

    def reference(self, *operands: Array) -> Array:
        side = "left" if self.side.data == "left" else "right"
        table, x = map(_comparable, operands)
        return np.asarray(np.searchsorted(table, x, side=side))

    def comes_before(self, b: ElementBuilder, entry: SSAValue, x: SSAValue) -> SSAValue:
        """Whether a table entry comes before the place of x; NaN is the largest value."""
        dtype = self.searched
        if self.side.data == "left":
            return _less(b, entry, x, dtype)
        return b.apply(arith.XOrIOp, _less(b, x, entry, dtype), b.constant(True, BOOL))

    @property
    def searched(self) -> DType:
        """The dtype of the table."""
        return element_dtype(self.table)

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        """Powers of two from the largest on are added to the count while the entries allow it."""
        x = b.fetch(self.x, at)
        (length,) = shape_of(self.table.type)
        bits = LONGEST if length.constant is None else length.constant.bit_length()
        extent, count = b.size(length), b.constant(0, I64)
        for bit in reversed(range(bits)):
            more = b.apply(arith.AddiOp, count, b.constant(1 << bit, I64))
            exists = b.compare("le", more, extent, I64)
            last = b.at_element(b.apply(arith.SubiOp, more, b.constant(1, I64)))
            entry = b.fetch(self.table, (last,), where=exists)
            takes = b.apply(arith.AndIOp, exists, self.comes_before(b, entry, x))
            count = b.select(takes, more, count)
        return count

    def stored_operands(self) -> tuple[int, ...]:
        return (0,)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        table, x = operands
        if not batched[0]:
            return b(SearchsortedOp, table, x, side=self.side)
        return _count_before(b, self, table, x, batched[1])


def _less(b: ElementBuilder, x: SSAValue, y: SSAValue, dtype: DType) -> SSAValue:
    """x < y, with NaN the largest value."""
    less = b.compare("lt", x, y, dtype)
    if dtype.kind != "float":
        return less
    number, nan = b.compare("eq", x, x, dtype), b.compare("ne", y, y, dtype)
    return b.apply(arith.OrIOp, less, b.apply(arith.AndIOp, number, nan))


def _count_before(
    b: OpBuilder, op: SearchsortedOp, tables: SSAValue, x: SSAValue, many: bool
) -> SSAValue:
    """searchsorted in a table per entry of the new axis, by counting entries."""
    from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp
    from mlc.dialects.tensor.create import full
    from mlc.dialects.tensor.reduce import ReduceOp
    from mlc.dialects.tensor.shape import BroadcastOp

    count, length = shape_of(tables.type)
    inner = ALPHABET[: len(op.shape)]
    shape = (count, *op.shape, length)
    declared = tensor_type(op.searched.ir, shape)
    entries = b(BroadcastOp, tables, letters=f"YZ->Y{inner}Z", declared=declared)
    word = f"Y{inner}" if many else inner
    values = b(BroadcastOp, x, letters=f"{word}->Y{inner}Z", declared=declared)
    low, high = (entries, values) if op.side.data == "left" else (values, entries)
    before = b(CompareOp, low, high, predicate="lt")
    if op.searched.kind == "float":
        number = b(CompareOp, low, low, predicate="eq")
        nan = b(CompareOp, high, high, predicate="ne")
        before = b(MaxOp, before, b(MinOp, number, nan))
    if op.side.data == "right":
        before = b(CompareOp, before, full(b, False, BOOL, shape), predicate="eq")
    ones = b(ConvertOp, before, declared=tensor_type(i64, shape))
    return b(ReduceOp, ones, monoid="sum", letters=f"Y{inner}Z->Y{inner}")


def length_of(op: Sorting) -> Dim:
    """The number of elements of a row that is put in order, or in groups."""
    return shape_of(op.operands[0].type)[-1]
