"""Elementwise ops: result[i] = f(a[i], b[i], …). The family, and its arithmetic.

Operands have one shape; broadcasting is an op of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import VarConstraint, base, operand_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, NUMBERS, DType, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder, Point
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.op import (
    Array,
    OpBuilder,
    Tensor,
    TensorOp,
)
from mlc.dialects.tensor.rounded import over, times

CHEAP_WEIGHT = 4.0
"""
An elementwise op up to this weight (of additions) is computed again rather than kept: reading a
value back takes about as long as four additions per element at the bandwidth of memory.
"""

STORAGE_REMEDY = "it only stores numbers; compute with x.astype(np.float32)"


class Elementwise(TensorOp):
    """The family: index maps are identities, so only the arithmetic differs."""

    FLOPS: ClassVar[int] = 1
    KINDS: ClassVar[tuple[str, ...]] = NUMBERS
    REMEDY: ClassVar[str] = "convert with x.astype(np.float64)"

    @property
    def is_cheap(self) -> bool:
        return self.WEIGHT <= CHEAP_WEIGHT

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        cls.check_same(operands)
        cls.check_kind(dtype_of(operands[0].element_type))
        return operands[0]

    @classmethod
    def check_same(cls, operands: Sequence[Tensor]) -> None:
        """Raises unless all operands have one shape and one dtype."""
        first = operands[0]
        for other in operands[1:]:
            if shape_of(other) != shape_of(first):
                raise ShapeError(
                    f"{cls.name}: shapes {spell(shape_of(first))} and {spell(shape_of(other))}"
                    " differ; expected equal shapes (mlc.broadcast makes them equal)"
                )
            if other.element_type != first.element_type:
                raise DTypeError(
                    f"{cls.name}: dtypes {dtype_of(first.element_type).name} and"
                    f" {dtype_of(other.element_type).name} differ; expected one dtype"
                    " (mlc.convert makes it so)"
                )

    @classmethod
    def check_kind(cls, dtype: DType) -> None:
        """Raises unless the op is defined for the dtype."""
        if dtype.kind not in cls.KINDS:
            expected = " or ".join(cls.KINDS)
            remedy = cls.REMEDY if dtype.kind != "storage" else STORAGE_REMEDY
            raise DTypeError(
                f"{cls.name} is not defined for {dtype.name}; expected {expected}: {remedy}"
            )

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        return self.scalar(b, *(b.fetch(x, at) for x in self.operands))

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        """The arithmetic on one element of each operand."""
        raise NotImplementedError(self.name)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        if self.NO_DERIVATIVE:
            return (None,) * len(self.operands)
        return super().partials(b)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        from mlc.dialects.tensor.shape import broadcast_to

        shape = shape_of(operands[list(batched).index(True)].type)
        pairs = zip(operands, batched, strict=True)
        full_shape = [x if k else broadcast_to(b, x, shape) for x, k in pairs]
        return b(type(self), *full_shape, declared=self.batched_type(shape), **self.properties)

    def batched_type(self, shape: tuple[Dim, ...]) -> Tensor:
        """The result type over another shape."""
        return tensor_type(self.dtype.ir, shape)


class Unary(Elementwise):
    """result[i] = f(x[i])."""

    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    x = operand_def(T)
    result = result_def(T)
    assembly_format = "$x attr-dict `:` type($result)"


class Binary(Elementwise):
    """result[i] = f(lhs[i], rhs[i])."""

    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"


@irdl_op_definition
class NegOp(Unary):
    """-x. Integers wrap around."""

    name = "mlc.neg"

    def reference(self, *operands: Array) -> Array:
        return np.negative(operands[0])

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        if self.dtype.is_inexact:
            return b.apply(arith.NegfOp, operands[0])
        return b.apply(arith.SubiOp, b.constant(0, self.dtype), operands[0])

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(NegOp, cotangent)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (full(b, -1.0, self.dtype, self.shape),)


class FloatUnary(Unary):
    """A function of the math dialect on floats."""

    KINDS: ClassVar[tuple[str, ...]] = ("float",)
    MATH: ClassVar[type[Any]]
    NUMPY: ClassVar[np.ufunc]

    def reference(self, *operands: Array) -> Array:
        return type(self).NUMPY(operands[0])

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(type(self).MATH, operands[0])


@irdl_op_definition
class ExpOp(FloatUnary):
    """e to the power x."""

    name = "mlc.exp"
    KINDS: ClassVar[tuple[str, ...]] = ("float", "complex")
    WEIGHT: ClassVar[float] = 16.0
    MATH: ClassVar[type[Any]] = math.ExpOp
    IS_EXPONENTIAL: ClassVar[bool] = True
    NUMPY: ClassVar[np.ufunc] = np.exp

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (self.result,)


@irdl_op_definition
class LogOp(FloatUnary):
    """The natural logarithm; -inf at 0, NaN below."""

    name = "mlc.log"
    WEIGHT: ClassVar[float] = 32.0
    MATH: ClassVar[type[Any]] = math.LogOp
    NUMPY: ClassVar[np.ufunc] = np.log

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (b(DivOp, full(b, 1.0, self.dtype, self.shape), self.x),)


@irdl_op_definition
class TanhOp(FloatUnary):
    """The hyperbolic tangent."""

    name = "mlc.tanh"
    WEIGHT: ClassVar[float] = 32.0
    MATH: ClassVar[type[Any]] = math.TanhOp
    NUMPY: ClassVar[np.ufunc] = np.tanh

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        square = b(MulOp, self.result, self.result)
        return (b(SubOp, full(b, 1.0, self.dtype, self.shape), square),)


@irdl_op_definition
class SqrtOp(FloatUnary):
    """The square root, correctly rounded; NaN below 0."""

    name = "mlc.sqrt"
    WEIGHT: ClassVar[float] = 8.0
    MATH: ClassVar[type[Any]] = math.SqrtOp
    NUMPY: ClassVar[np.ufunc] = np.sqrt

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (b(DivOp, full(b, 0.5, self.dtype, self.shape), self.result),)


class ArithBinary(Binary):
    """One arith op for floats and one for integers; integers wrap around."""

    FLOAT: ClassVar[type[Any]]
    INT: ClassVar[type[Any]]
    NUMPY: ClassVar[np.ufunc]

    def reference(self, *operands: Array) -> Array:
        return type(self).NUMPY(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(type(self).FLOAT if self.dtype.is_inexact else type(self).INT, *operands)


@irdl_op_definition
class AddOp(ArithBinary):
    """lhs + rhs; on bool: or."""

    name = "mlc.add"
    COMMUTES: ClassVar[bool] = True
    KINDS: ClassVar[tuple[str, ...]] = (*NUMBERS, "bool")
    FLOAT: ClassVar[type[Any]] = arith.AddfOp
    INT: ClassVar[type[Any]] = arith.AddiOp
    NUMPY: ClassVar[np.ufunc] = np.add

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return (
            b.apply(arith.OrIOp, *operands) if self.dtype is BOOL else super().scalar(b, *operands)
        )

    def jointly_linear(self) -> tuple[int, ...]:
        return (0, 1)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return cotangent

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        one = full(b, 1.0, self.dtype, self.shape)
        return (one, one)


@irdl_op_definition
class SubOp(ArithBinary):
    """lhs - rhs."""

    name = "mlc.sub"
    REMEDY: ClassVar[str] = "use np.logical_xor for bool"
    FLOAT: ClassVar[type[Any]] = arith.SubfOp
    INT: ClassVar[type[Any]] = arith.SubiOp
    NUMPY: ClassVar[np.ufunc] = np.subtract

    def jointly_linear(self) -> tuple[int, ...]:
        return (0, 1)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(NegOp, cotangent) if operand else cotangent

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (full(b, 1.0, self.dtype, self.shape), full(b, -1.0, self.dtype, self.shape))


@irdl_op_definition
class MulOp(ArithBinary):
    """lhs * rhs; on bool: and."""

    name = "mlc.mul"
    COMMUTES: ClassVar[bool] = True
    KINDS: ClassVar[tuple[str, ...]] = (*NUMBERS, "bool")
    FLOAT: ClassVar[type[Any]] = arith.MulfOp
    INT: ClassVar[type[Any]] = arith.MuliOp
    NUMPY: ClassVar[np.ufunc] = np.multiply

    def reference(self, *operands: Array) -> Array:
        return times(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return (
            b.apply(arith.AndIOp, *operands) if self.dtype is BOOL else super().scalar(b, *operands)
        )

    def linear_operands(self) -> tuple[int, ...]:
        return (0, 1)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(MulOp, cotangent, self.operands[1 - operand])

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (self.rhs, self.lhs)


@irdl_op_definition
class DivOp(Binary):
    """lhs / rhs on floats and complex numbers.

    NumPy's `/` of integers converts to f64 first; `//` is `mlc.floor_div`.
    """

    name = "mlc.div"
    KINDS: ClassVar[tuple[str, ...]] = ("float", "complex")
    REMEDY: ClassVar[str] = "use // for integers or convert with x.astype(np.float64)"
    WEIGHT: ClassVar[float] = 4.0

    def reference(self, *operands: Array) -> Array:
        return over(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(arith.DivfOp, *operands)

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(DivOp, cotangent, self.rhs)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        by_lhs = b(DivOp, full(b, 1.0, self.dtype, self.shape), self.rhs)
        return (by_lhs, b(NegOp, b(MulOp, self.result, by_lhs)))


ARITHMETIC: tuple[type[Elementwise], ...] = (
    NegOp,
    ExpOp,
    LogOp,
    TanhOp,
    SqrtOp,
    AddOp,
    SubOp,
    MulOp,
    DivOp,
)
