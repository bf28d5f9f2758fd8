"""Between complex numbers and their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import VarConstraint, base, operand_def, result_def

from mlc.dialects import functions
from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import C64, C128, F32, F64, DType, dtype_of
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import AddOp, DivOp, Elementwise, MulOp, NegOp
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor, same_array
from mlc.dialects.tensor.rounded import hypot

COMPLEX_OF: dict[DType, DType] = {F32: C64, F64: C128}
"""The complex dtype of parts of a dtype."""


class PartOf(Elementwise):
    """A real number made of a complex one."""

    KINDS: ClassVar[tuple[str, ...]] = ("complex",)
    REMEDY: ClassVar[str] = "a real number is its own real part"
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        dtype = dtype_of(operands[0].element_type)
        cls.check_kind(dtype)
        return tensor_type(dtype.part.ir, shape_of(operands[0]))


@irdl_op_definition
class RealOp(PartOf):
    """
    The real part.

    ```mlir
    %0 = mlc.real %z : tensor<4xcomplex<f32>> -> tensor<4xf32>
    ```
    """

    name = "mlc.real"
    FLOPS: ClassVar[int] = 0

    def reference(self, *operands: Array) -> Array:
        return np.real(operands[0])

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.real(operands[0])

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(ComplexOp, cotangent, full(b, 0.0, self.dtype, self.shape))


@irdl_op_definition
class ImagOp(PartOf):
    """
    The imaginary part.

    ```mlir
    %0 = mlc.imag %z : tensor<4xcomplex<f32>> -> tensor<4xf32>
    ```
    """

    name = "mlc.imag"
    FLOPS: ClassVar[int] = 0

    def reference(self, *operands: Array) -> Array:
        return np.imag(operands[0])

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.imag(operands[0])

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        """Of the map z -> imag(z) = real(-i z), with complex factors as they are (no conjugate)."""
        return b(ComplexOp, full(b, 0.0, self.dtype, self.shape), b(NegOp, cotangent))


@irdl_op_definition
class MagnitudeOp(PartOf):
    """
    |z|, without overflow on the way.

    ```mlir
    %0 = mlc.magnitude %z : tensor<4xcomplex<f32>> -> tensor<4xf32>
    ```
    """

    name = "mlc.magnitude"
    WEIGHT: ClassVar[float] = 12.0

    def reference(self, *operands: Array) -> Array:
        return hypot(np.real(operands[0]), np.imag(operands[0]))

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(functions.HypotOp, b.real(operands[0]), b.imag(operands[0]))

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        """(x dx + y dy) / |z|, 0 at 0. Not a complex multiple of dz: there is no partial."""
        tangent = tangents[0]
        assert tangent is not None
        zero, one = (full(b, v, self.dtype, self.shape) for v in (0.0, 1.0))
        origin = b(CompareOp, self.result, zero, predicate="eq")
        size = b(SelectOp, origin, one, self.result)
        along: list[SSAValue] = []
        for part in (RealOp, ImagOp):
            share = b(SelectOp, origin, zero, b(DivOp, b(part, self.x), size))
            along.append(b(MulOp, b(part, tangent), share))
        return b(AddOp, *along)


@irdl_op_definition
class ComplexOp(Elementwise):
    """
    real + i imag

    ```mlir
    %0 = mlc.complex %re, %im : tensor<4xf32> -> tensor<4xcomplex<f32>>
    ```
    """

    name = "mlc.complex"
    KINDS: ClassVar[tuple[str, ...]] = ("float",)
    REMEDY: ClassVar[str] = "convert with x.astype(np.float64)"
    FLOPS: ClassVar[int] = 0
    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    real = operand_def(T)
    imag = operand_def(T)
    result = result_def(TensorType)
    assembly_format = "$real `,` $imag attr-dict `:` type($real) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        cls.check_same(operands)
        dtype = dtype_of(operands[0].element_type)
        found = COMPLEX_OF.get(dtype)
        if found is None:
            raise DTypeError(
                f"mlc.complex: no complex dtype has parts of {dtype.name}; expected f32 or f64:"
                f" {cls.REMEDY}"
            )
        return tensor_type(found.ir, shape_of(operands[0]))

    def reference(self, *operands: Array) -> Array:
        made = np.empty(operands[0].shape, self.dtype.numpy)
        made.real, made.imag = operands
        return same_array(made, self.dtype)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.pair(*operands)

    def jointly_linear(self) -> tuple[int, ...]:
        return (0, 1)  # affine in each alone

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        """real -> real + 0 i takes the real part back; imag -> i imag that of -i times it."""
        if operand == 0:
            return b(RealOp, cotangent)
        return b(NegOp, b(ImagOp, cotangent))


PARTS: tuple[type[Elementwise], ...] = (RealOp, ImagOp, MagnitudeOp, ComplexOp)
