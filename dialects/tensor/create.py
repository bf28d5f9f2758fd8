"""Ops that make tensors out of nothing: constant, iota, size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    ParamAttrConstraint,
    VarConstraint,
    base,
    eq,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import ConstantLike, Pure

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, Shape, as_tensor, tensor_type
from mlc.dialects.dtypes import I64, NUMBERS, DType, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.element import ElementBuilder, Point
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor, TensorOp, int_property, tensor_of


@irdl_op_definition
class ConstantOp(TensorOp, HasFolderInterface):
    """
    A static array written in the program.

    ```mlir
    %0 = mlc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    ```
    """

    name = "mlc.constant"
    IS_FREE: ClassVar[bool] = True
    NO_DERIVATIVE: ClassVar[str] = "no operand"
    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    value = prop_def(ParamAttrConstraint(DenseIntOrFPElementsAttr, (T, AnyAttr())))
    result = result_def(T)
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "attr-dict $value"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        value = properties["value"]
        assert isinstance(value, DenseIntOrFPElementsAttr)
        kind = as_tensor(value.get_type())
        dtype_of(kind.element_type)
        return kind

    def fold(self) -> Sequence[SSAValue | Attribute]:
        return (self.value,)

    @property
    def only_moves(self) -> bool:
        """Not where its elements differ, or there are none: then it is a buffer."""
        return self.repeated_element() is not None

    def repeated_element(self) -> bytes | None:
        """The bytes of one element, where all have the same; the parser stores each of them."""
        data, size = self.value.data.data, self.dtype.bytes
        element = data[:size]
        if not data or (len(data) > size and data != element * (len(data) // size)):
            return None
        return element

    def array(self) -> Array:
        """The value as an array of the result's shape."""
        return dense_array(self.value)

    def reference(self, *operands: Array) -> Array:
        return self.array()

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        """Only of a constant whose elements are equal: others are buffers."""
        data, size = self.value.data.data, self.dtype.bytes
        element = data[:size] or bytes(size)  # of no elements: nobody reads it
        assert data == element * (len(data) // size), "a constant of unequal elements is a buffer"
        if self.dtype.kind == "bool":
            return b.constant(element != b"\0", self.dtype)
        return b.constant(np.frombuffer(element, self.dtype.numpy)[0].item(), self.dtype)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        return b(ConstantOp, value=self.value)


@irdl_op_definition
class IotaOp(TensorOp):
    """
    Each element is its position along one axis.

    ```mlir
    %0 = mlc.iota 1 : tensor<2x3xi64>   // [[0, 1, 2], [0, 1, 2]]
    ```
    """

    name = "mlc.iota"
    IS_FREE: ClassVar[bool] = True
    NO_DERIVATIVE: ClassVar[str] = "no operand"
    KINDS: ClassVar[tuple[str, ...]] = NUMBERS
    SOURCE: ClassVar[str] = "StableHLO specification, iota"
    axis = prop_def(IntegerAttr.constr(eq(i64)))
    result = result_def(TensorType)
    assembly_format = "$axis attr-dict `:` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        kind = declared
        axis = int_property(properties, "axis")
        if not 0 <= axis < kind.get_num_dims():
            raise ShapeError(f"mlc.iota: axis {axis} of a tensor with {kind.get_num_dims()} axes")
        if (dtype := dtype_of(kind.element_type)).kind not in cls.KINDS:
            raise DTypeError(
                f"mlc.iota: {dtype.name} elements cannot count; expected an integer or floating"
                " dtype"
            )
        return kind

    def reference(self, *operands: Array) -> Array:
        raise NotImplementedError("iota needs its run-time shape: call reference_at")

    def reference_at(self, shape: tuple[int, ...]) -> Array:
        """The meaning for a concrete shape."""
        axis = self.axis.value.data
        column = np.arange(shape[axis]).astype(self.dtype.numpy)
        column = column.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return np.broadcast_to(column, shape)

    @property
    def only_moves(self) -> bool:
        return True

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        return b.convert(b.position(at[self.axis.value.data]), I64, self.dtype)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        return b(IotaOp, axis=self.axis, declared=tensor_of(self.result))


@irdl_op_definition
class SizeOp(TensorOp):
    """
    A dim as a value.

    ```mlir
    %0 = mlc.size <"2*B + 1"> : tensor<i64>
    ```
    """

    name = "mlc.size"
    IS_FREE: ClassVar[bool] = True
    NO_DERIVATIVE: ClassVar[str] = "no operand"
    KINDS: ClassVar[tuple[str, ...]] = ("int",)
    dims = prop_def(DimsAttr)
    result = result_def(TensorType)
    assembly_format = "$dims attr-dict `:` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        dims = properties["dims"]
        assert isinstance(dims, DimsAttr)
        if len(dims.data) != 1:
            raise ShapeError(f"mlc.size: {len(dims.data)} dims, expected one")
        return tensor_type(i64, ())

    @property
    def dim(self) -> Dim:
        """The dim whose value this is."""
        return self.dims.data[0]

    def reference(self, *operands: Array) -> Array:
        raise NotImplementedError("size needs the symbols' values: evaluate `dim`")

    @property
    def only_moves(self) -> bool:
        return True

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        return b.size(self.dim)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        return b(SizeOp, dims=self.dims)


def dense(array: Array, dtype: DType) -> DenseIntOrFPElementsAttr:
    """An array as the attribute of a constant; all-equal elements are stored once."""
    array = np.asarray(array, dtype=dtype.numpy)
    kind = tensor_type(dtype.ir, tuple(Dim.const(size) for size in array.shape))
    flat = array.reshape(-1)
    if flat.size > 1 and (flat.view(f"V{dtype.bytes}") == flat[:1].view(f"V{dtype.bytes}")).all():
        flat = flat[:1]
    if dtype.kind == "bool":
        bits = cast("TensorType[IntegerType]", kind)
        return DenseIntOrFPElementsAttr.from_list(bits, [int(v) for v in flat])
    return DenseIntOrFPElementsAttr(kind, BytesAttr(in_bytes(flat, dtype)))  # pyright: ignore[reportArgumentType]


def in_bytes(array: Array, dtype: DType) -> bytes:
    """Elements as constants hold them: integers of less than a byte are bytes of their sign."""
    signed = dtype.stores_integers and dtype.lowest < 0
    return np.ascontiguousarray(array.astype(np.int8) if signed else array).tobytes()


def dense_array(value: DenseIntOrFPElementsAttr) -> Array:
    """The array a constant stands for."""
    kind = as_tensor(value.get_type())
    dtype = dtype_of(kind.element_type)
    shape = kind.get_shape()
    if dtype.kind == "bool":
        values: Any = np.array([bool(v) for v in value.get_values()], dtype=bool)
    else:
        values = np.frombuffer(value.data.data, np.uint8 if dtype.stores_integers else dtype.numpy)
        values = values.astype(dtype.numpy, copy=False)  # the low bits, where they are integers
    if values.size == 1:
        return np.broadcast_to(values.reshape(()), shape)
    return values.reshape(shape)


def full(b: OpBuilder, value: float, dtype: DType, shape: Shape) -> SSAValue:
    """A tensor of one repeated value."""
    from mlc.dialects.tensor.shape import broadcast_to

    scalar = b(ConstantOp, value=dense(np.asarray(value), dtype))
    return broadcast_to(b, scalar, shape)
