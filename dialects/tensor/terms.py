"""
Numbers of f32 as three of bf16, whose sum they are.

x is exactly x0 + (x1 + x2 / 256) / 256: each term has the eight bits that those before it left. A
machine whose instructions multiply bf16 multiplies f32 by the products of terms that count.
SOURCE: Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations", arXiv 1904.06376, 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import VarConstraint, base, eq, operand_def, prop_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import BF16, F32, DType, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import Array, Tensor, int_property

COUNT = 3
PRODUCTS = (1, COUNT, COUNT * (COUNT + 1) // 2)
"""Of terms that stand for one product, by factors that are split: the others are too small."""
SCALE = 256.0
"""Of each term to the one before: so that the last bits of the smallest numbers are a bf16 too."""
LARGEST = float(2.0**128 - 2.0**120)
SMALLEST = float(2.0**-133)
"""Magnitudes of bf16."""


def terms(x: Array) -> list[Array]:
    """The terms of an array of f32, as bf16."""
    found: list[Array] = []
    rest: Array = np.where(np.isfinite(x), x, np.float32(0))
    for number in range(COUNT):
        near = _near(rest)
        found.append(near if number else np.where(np.isfinite(x), near, x.astype(BF16.numpy)))
        rest = (rest - near.astype(np.float32)) * np.float32(SCALE)
    return [part.astype(BF16.numpy) for part in found]


def _near(x: Array) -> Array:
    """The nearest bf16; of what is not 0 neither 0 nor infinite."""
    with np.errstate(over="ignore"):
        near = x.astype(BF16.numpy).astype(np.float32)
    near = np.where(np.isinf(near), np.copysign(np.float32(LARGEST), x), near)
    away = np.copysign(np.float32(SMALLEST), x)
    return np.where((near == 0) & (x != 0), away, near).astype(BF16.numpy)


def _check_dtype(op: str, x: Tensor, wanted: DType) -> None:
    """Raises DTypeError for another one."""
    if (found := dtype_of(x.element_type)) is not wanted:
        raise DTypeError(f"{op} is not defined for {found.name}; expected {wanted.name}")


@irdl_op_definition
class TermOp(Elementwise):
    """
    One of the three terms of a number, from 0. Infinities and NaN are their first term, and the
    others are 0; the first term of a number that is not 0 is not 0.

    ```mlir
    %0 = mlc.term 0, %x : tensor<4xf32> -> tensor<4xbf16>
    ```
    """

    name = "mlc.term"
    NO_DERIVATIVE: ClassVar[str] = "numbers come apart where nobody differentiates any more"
    FLOPS: ClassVar[int] = 6
    number = prop_def(IntegerAttr.constr(eq(i64)))
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$number `,` $x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        if not 0 <= (number := int_property(properties, "number")) < COUNT:
            raise ShapeError(f"{cls.name}: term {number}; expected 0 to {COUNT - 1}")
        _check_dtype(cls.name, operands[0], F32)
        return tensor_type(BF16.ir, shape_of(operands[0]))

    def reference(self, *operands: Array) -> Array:
        return terms(operands[0])[self.number.value.data]

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        zero = b.constant(0.0, F32)
        infinity = b.constant(float("inf"), F32)
        finite = b.compare("lt", b.apply(math.AbsFOp, x), infinity, F32)
        rest = b.select(finite, x, zero)
        for _ in range(self.number.value.data):
            left = b.apply(arith.SubfOp, rest, self._near(b, rest))
            rest = b.apply(arith.MulfOp, left, b.constant(SCALE, F32))
        near = self._near(b, rest)
        if self.number.value.data == 0:
            near = b.select(finite, near, x)
        return b.convert(near, F32, BF16)

    @staticmethod
    def _near(b: ElementBuilder, x: SSAValue) -> SSAValue:
        """As f32: see `_near` of arrays."""
        zero, infinity = b.constant(0.0, F32), b.constant(float("inf"), F32)
        near = b.convert(b.convert(x, F32, BF16), BF16, F32)
        far = b.compare("eq", b.apply(math.AbsFOp, near), infinity, F32)
        largest = b.apply(math.CopySignOp, b.constant(LARGEST, F32), x)
        away = b.apply(math.CopySignOp, b.constant(SMALLEST, F32), x)
        away = b.select(b.compare("eq", x, zero, F32), x, away)
        near = b.select(b.compare("eq", near, zero, F32), away, near)
        return b.select(far, largest, near)


@irdl_op_definition
class OfTermsOp(Elementwise):
    """
    The number whose terms these are. Products of such numbers may multiply the terms.

    ```mlir
    %0 = mlc.of_terms %x0, %x1, %x2 : tensor<4xbf16> -> tensor<4xf32>
    ```
    """

    name = "mlc.of_terms"
    NO_DERIVATIVE: ClassVar[str] = TermOp.NO_DERIVATIVE
    FLOPS: ClassVar[int] = 4
    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    first = operand_def(T)
    second = operand_def(T)
    third = operand_def(T)
    result = result_def(TensorType)
    assembly_format = "$first `,` $second `,` $third attr-dict `:` type($first) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        cls.check_same(operands)
        _check_dtype(cls.name, operands[0], BF16)
        return tensor_type(F32.ir, shape_of(operands[0]))

    def reference(self, *operands: Array) -> Array:
        first, second, third = (x.astype(np.float32) for x in operands)
        scale = np.float32(1 / SCALE)
        rest = (second + third * scale) * scale
        return np.where(rest == 0, first, first + rest)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        first, second, third = (b.convert(x, BF16, F32) for x in operands)
        scale = b.constant(1 / SCALE, F32)
        rest = b.apply(arith.AddfOp, second, b.apply(arith.MulfOp, third, scale))
        rest = b.apply(arith.MulfOp, rest, scale)
        whole = b.apply(arith.AddfOp, first, rest)
        return b.select(b.compare("eq", rest, b.constant(0.0, F32), F32), first, whole)


TERMS: tuple[type[Elementwise], ...] = (TermOp, OfTermsOp)
