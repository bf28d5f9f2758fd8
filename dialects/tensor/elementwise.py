"""Elementwise ops: result[i] = f(a[i], b[i], …). Operands have one shape; broadcasting is an op of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import StringAttr, TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import VarConstraint, base, irdl_op_definition, operand_def, prop_def, result_def

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, DType, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder, Point
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.op import (
    Array,
    OpBuilder,
    Tensor,
    TensorOp,
    same_array,
    tensor_of,
    text_property,
)


class Elementwise(TensorOp):
    """The family: index maps are identities, so only the arithmetic differs."""

    FLOPS: ClassVar[int] = 1
    KINDS: ClassVar[tuple[str, ...]] = ("float", "int")  # dtypes it is defined for
    REMEDY: ClassVar[str] = "convert with x.astype(np.float64)"

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
                    f"{cls.name}: shapes {spell(shape_of(first))} and {spell(shape_of(other))} differ;"
                    " expected equal shapes (mlc.broadcast makes them equal)"
                )
            if other.element_type != first.element_type:
                raise DTypeError(
                    f"{cls.name}: dtypes {dtype_of(first.element_type).name} and"
                    f" {dtype_of(other.element_type).name} differ; expected one dtype (mlc.convert makes it so)"
                )

    @classmethod
    def check_kind(cls, dtype: DType) -> None:
        """Raises unless the op is defined for the dtype."""
        if dtype.kind not in cls.KINDS:
            expected = " or ".join(cls.KINDS)
            raise DTypeError(
                f"{cls.name} is not defined for {dtype.name}; expected {expected}: {cls.REMEDY}"
            )

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        return self.scalar(b, *(b.fetch(x, at) for x in self.operands))

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        """The arithmetic on one element of each operand."""
        raise NotImplementedError(self.name)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        from mlc.dialects.tensor.shape import broadcast_to

        shape = shape_of(operands[list(batched).index(True)].type)
        full_operands = [x if k else broadcast_to(b, x, shape) for x, k in zip(operands, batched, strict=False)]
        return b(type(self), *full_operands, declared=self.batched_type(shape), **self.properties)

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
        if self.dtype.kind == "float":
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
    WEIGHT: ClassVar[float] = 12.0
    MATH: ClassVar[type[Any]] = math.ExpOp
    NUMPY: ClassVar[np.ufunc] = np.exp

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (self.result,)


@irdl_op_definition
class LogOp(FloatUnary):
    """The natural logarithm; -inf at 0, NaN below."""

    name = "mlc.log"
    WEIGHT: ClassVar[float] = 14.0
    MATH: ClassVar[type[Any]] = math.LogOp
    NUMPY: ClassVar[np.ufunc] = np.log

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (b(DivOp, full(b, 1.0, self.dtype, self.shape), self.x),)


@irdl_op_definition
class TanhOp(FloatUnary):
    """The hyperbolic tangent."""

    name = "mlc.tanh"
    WEIGHT: ClassVar[float] = 16.0
    MATH: ClassVar[type[Any]] = math.TanhOp
    NUMPY: ClassVar[np.ufunc] = np.tanh

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        square = b(MulOp, self.result, self.result)
        return (b(SubOp, full(b, 1.0, self.dtype, self.shape), square),)


@irdl_op_definition
class SqrtOp(FloatUnary):
    """The square root, correctly rounded; NaN below 0."""

    name = "mlc.sqrt"
    WEIGHT: ClassVar[float] = 6.0
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
        return b.apply(
            type(self).FLOAT if self.dtype.kind == "float" else type(self).INT, *operands
        )


@irdl_op_definition
class AddOp(ArithBinary):
    """lhs + rhs; on bool: or."""

    name = "mlc.add"
    KINDS: ClassVar[tuple[str, ...]] = ("float", "int", "bool")
    FLOAT: ClassVar[type[Any]] = arith.AddfOp
    INT: ClassVar[type[Any]] = arith.AddiOp
    NUMPY: ClassVar[np.ufunc] = np.add

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return (
            b.apply(arith.OrIOp, *operands) if self.dtype is BOOL else super().scalar(b, *operands)
        )

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

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (full(b, 1.0, self.dtype, self.shape), full(b, -1.0, self.dtype, self.shape))


@irdl_op_definition
class MulOp(ArithBinary):
    """lhs * rhs; on bool: and."""

    name = "mlc.mul"
    KINDS: ClassVar[tuple[str, ...]] = ("float", "int", "bool")
    FLOAT: ClassVar[type[Any]] = arith.MulfOp
    INT: ClassVar[type[Any]] = arith.MuliOp
    NUMPY: ClassVar[np.ufunc] = np.multiply

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return (
            b.apply(arith.AndIOp, *operands) if self.dtype is BOOL else super().scalar(b, *operands)
        )

    def linear_operands(self) -> tuple[int, ...]:
        return (0, 1) if self.lhs is not self.rhs else ()

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(MulOp, cotangent, self.operands[1 - operand])

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (self.rhs, self.lhs)


@irdl_op_definition
class DivOp(Binary):
    """lhs / rhs on floats. NumPy's `/` of integers converts to f64 first; `//` is `mlc.floor_div`."""

    name = "mlc.div"
    KINDS: ClassVar[tuple[str, ...]] = ("float",)
    REMEDY: ClassVar[str] = "use // for integers or convert with x.astype(np.float64)"
    WEIGHT: ClassVar[float] = 5.0

    def reference(self, *operands: Array) -> Array:
        return np.divide(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(arith.DivfOp, *operands)

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(DivOp, cotangent, self.rhs)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        by_lhs = b(DivOp, full(b, 1.0, self.dtype, self.shape), self.rhs)
        return (by_lhs, b(NegOp, b(MulOp, self.result, by_lhs)))


@irdl_op_definition
class FloorDivOp(Binary):
    """floor(lhs / rhs) on integers; 0 where rhs is 0, and the minimum // -1 wraps (never a trap)."""

    name = "mlc.floor_div"
    KINDS: ClassVar[tuple[str, ...]] = ("int",)
    WEIGHT: ClassVar[float] = 20.0

    def reference(self, *operands: Array) -> Array:
        return np.floor_divide(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        lhs, rhs = operands
        zero, one = b.constant(0, self.dtype), b.constant(1, self.dtype)
        by_zero = b.compare("eq", rhs, zero, self.dtype)
        by_minus_one = b.compare("eq", rhs, b.constant(-1, self.dtype), self.dtype)
        safe = b.select(b.apply(arith.OrIOp, by_zero, by_minus_one), one, rhs)
        quotient = b.apply(arith.DivSIOp, lhs, safe)
        remainder = b.apply(arith.SubiOp, lhs, b.apply(arith.MuliOp, quotient, safe))
        # towards minus infinity: one less where the remainder is not 0 and its sign differs from the divisor's
        inexact = b.compare("ne", remainder, zero, self.dtype)
        opposite = b.compare("lt", b.apply(arith.XOrIOp, remainder, safe), zero, self.dtype)
        lower = b.apply(arith.SubiOp, quotient, one)
        floor = b.select(b.apply(arith.AndIOp, inexact, opposite), lower, quotient)
        negated = b.select(by_minus_one, b.apply(arith.SubiOp, zero, lhs), floor)
        return b.select(by_zero, zero, negated)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (None, None)


class Extremum(Binary):
    """max or min; NaN where either operand is NaN. The derivative is split evenly at ties."""

    KINDS: ClassVar[tuple[str, ...]] = ("float", "int", "bool")
    OPS: ClassVar[tuple[type[Any], type[Any], type[Any]]]  # for float, int, bool
    NUMPY: ClassVar[np.ufunc]
    WINS: ClassVar[str]

    def reference(self, *operands: Array) -> Array:
        return type(self).NUMPY(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(type(self).OPS[("float", "int", "bool").index(self.dtype.kind)], *operands)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        if self.dtype.kind != "float":
            return (None, None)
        zero, half, one = (full(b, v, self.dtype, self.shape) for v in (0.0, 0.5, 1.0))
        ties = b(CompareOp, self.lhs, self.rhs, predicate="eq")
        wins = b(CompareOp, self.lhs, self.rhs, predicate=type(self).WINS)
        loses = b(CompareOp, self.rhs, self.lhs, predicate=type(self).WINS)
        return tuple(b(SelectOp, ties, half, b(SelectOp, c, one, zero)) for c in (wins, loses))


@irdl_op_definition
class MaxOp(Extremum):
    """The larger of lhs and rhs."""

    name = "mlc.max"
    OPS: ClassVar[tuple[type[Any], type[Any], type[Any]]] = (
        arith.MaximumfOp,
        arith.MaxSIOp,
        arith.OrIOp,
    )
    NUMPY: ClassVar[np.ufunc] = np.maximum
    WINS: ClassVar[str] = "gt"


@irdl_op_definition
class MinOp(Extremum):
    """The smaller of lhs and rhs."""

    name = "mlc.min"
    OPS: ClassVar[tuple[type[Any], type[Any], type[Any]]] = (
        arith.MinimumfOp,
        arith.MinSIOp,
        arith.AndIOp,
    )
    NUMPY: ClassVar[np.ufunc] = np.minimum
    WINS: ClassVar[str] = "lt"


PREDICATES: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@irdl_op_definition
class CompareOp(Elementwise):
    """
    lhs ? rhs as bool, by IEEE 754: with NaN only `ne` holds.

    ```mlir
    %0 = mlc.compare "lt" %a, %b : tensor<4xf32> -> tensor<4xi1>
    ```
    """

    name = "mlc.compare"
    KINDS: ClassVar[tuple[str, ...]] = ("float", "int", "bool")
    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    predicate = prop_def(StringAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(TensorType)
    assembly_format = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        predicate = text_property(properties, "predicate")
        if predicate not in PREDICATES:
            raise DTypeError(
                f"mlc.compare: predicate {predicate!r}; expected one of {', '.join(PREDICATES)}"
            )
        cls.check_same(operands)
        return tensor_type(i1, shape_of(operands[0]))

    def reference(self, *operands: Array) -> Array:
        return PREDICATES[self.predicate.data](*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        dtype = dtype_of(tensor_of(self.lhs).element_type)
        return b.compare(self.predicate.data, operands[0], operands[1], dtype)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (None, None)


@irdl_op_definition
class SelectOp(Elementwise):
    """
    if_true where the condition holds, else if_false.

    ```mlir
    %0 = mlc.select %c, %a, %b : tensor<4xi1>, tensor<4xf32>
    ```
    """

    name = "mlc.select"
    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    condition = operand_def(TensorType)
    if_true = operand_def(T)
    if_false = operand_def(T)
    result = result_def(T)
    assembly_format = (
        "$condition `,` $if_true `,` $if_false attr-dict `:` type($condition) `,` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        if operands[0].element_type != i1:
            found = dtype_of(operands[0].element_type).name
            raise DTypeError(
                f"mlc.select: the condition is {found}; expected bool: compare it, e.g. c != 0"
            )
        cls.check_same(operands[1:])
        if shape_of(operands[0]) != shape_of(operands[1]):
            raise ShapeError(
                f"mlc.select: condition {spell(shape_of(operands[0]))} and values"
                f" {spell(shape_of(operands[1]))} differ; expected equal shapes"
            )
        return operands[1]

    def reference(self, *operands: Array) -> Array:
        return np.where(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.select(*operands)

    def linear_operands(self) -> tuple[int, ...]:
        return (1, 2)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        zero = full(b, 0.0, self.dtype, self.shape)
        pair = (cotangent, zero) if operand == 1 else (zero, cotangent)
        return b(SelectOp, self.condition, *pair)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        zero, one = full(b, 0.0, self.dtype, self.shape), full(b, 1.0, self.dtype, self.shape)
        return (
            None,
            b(SelectOp, self.condition, one, zero),
            b(SelectOp, self.condition, zero, one),
        )


@irdl_op_definition
class ConvertOp(Elementwise):
    """
    The value in another dtype: floats round to nearest even; float to integer truncates and saturates, NaN becomes 0; any
    number to bool is `!= 0`; integers wrap around.

    ```mlir
    %0 = mlc.convert %x : tensor<4xf32> -> tensor<4xf64>
    ```
    """

    name = "mlc.convert"
    SOURCE: ClassVar[str] = (
        "NumPy astype; float to integer out of range saturates (NumPy leaves it undefined)"
    )
    FLOPS: ClassVar[int] = 0
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
        assert declared is not None
        dtype_of(declared.element_type)
        return tensor_type(declared.element_type, shape_of(operands[0]))

    @property
    def source(self) -> DType:
        """The operand's dtype."""
        return dtype_of(tensor_of(self.x).element_type)

    def reference(self, *operands: Array) -> Array:
        x, target = operands[0], self.dtype
        if self.source.kind == "float" and target.kind == "int":
            with np.errstate(invalid="ignore"):
                # the nearest representable bound: float(2**63 - 1) rounds up to 2**63, which saturates below
                whole = np.trunc(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf))
                inside = (whole >= float(target.lowest)) & (whole < -float(target.lowest))
                bound = np.where(whole < 0, target.lowest, target.highest)
                safe = np.where(inside, whole, 0).astype(target.numpy)
            return np.where(inside, safe, bound.astype(target.numpy))
        with np.errstate(over="ignore"):
            return same_array(x, self.source).astype(target.numpy)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.convert(operands[0], self.source, self.dtype)

    def linear_operands(self) -> tuple[int, ...]:
        return (0,) if self.source.kind == self.dtype.kind == "float" else ()

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(ConvertOp, cotangent, declared=tensor_of(self.x))

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        both_float = self.source.kind == self.dtype.kind == "float"
        return (full(b, 1.0, self.source, self.shape) if both_float else None,)


ELEMENTWISE: tuple[type[Elementwise], ...] = (
    NegOp,
    ExpOp,
    LogOp,
    TanhOp,
    SqrtOp,
    AddOp,
    SubOp,
    MulOp,
    DivOp,
    FloorDivOp,
    MaxOp,
    MinOp,
    CompareOp,
    SelectOp,
    ConvertOp,
)
