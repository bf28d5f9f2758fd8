"""Elementwise ops that look at a number's sign, or at the integers and floats next to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, I16, I32, I64, REALS, DType, dtype_of
from mlc.dialects.tensor.comparison import CompareOp, Extremum, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Binary, Elementwise, MulOp, Unary
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor, element_dtype, same_array

_SIGNED: dict[int, DType] = {2: I16, 4: I32, 8: I64}


@irdl_op_definition
class AbsOp(Unary):
    """|x|. The smallest integer stays itself."""

    name = "mlc.abs"
    KINDS: ClassVar[tuple[str, ...]] = REALS

    def reference(self, *operands: Array) -> Array:
        return np.abs(operands[0])

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        if self.dtype.kind == "uint":
            return operands[0]
        return b.apply(math.AbsFOp if self.dtype.kind == "float" else math.AbsIOp, operands[0])

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (b(SignOp, self.x),)


@irdl_op_definition
class SignOp(Unary):
    """-1, 0 or 1; 0 for -0; NaN for NaN."""

    name = "mlc.sign"
    NO_DERIVATIVE: ClassVar[str] = "constant between its jumps"
    KINDS: ClassVar[tuple[str, ...]] = REALS

    def reference(self, *operands: Array) -> Array:
        x = operands[0]
        found = np.sign(x.astype(np.float32) if self.dtype.bytes < 4 else x)  # ml_dtypes keeps -0
        return same_array(found, self.dtype)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        x, dtype = operands[0], self.dtype
        zero, one = b.constant(0, dtype), b.constant(1, dtype)
        found = b.select(b.compare("gt", x, zero, dtype), one, zero)
        if dtype.kind == "uint":
            return found
        found = b.select(b.compare("lt", x, zero, dtype), b.constant(-1, dtype), found)
        return b.select(b.compare("ne", x, x, dtype), x, found) if dtype.kind == "float" else found


class Rounding(Unary):
    """An integer near x, in the dtype of x. Integers, infinities and NaN stay themselves."""

    KINDS: ClassVar[tuple[str, ...]] = REALS
    NO_DERIVATIVE: ClassVar[str] = "constant between its jumps"
    MATH: ClassVar[type[Any]]
    NUMPY: ClassVar[np.ufunc]

    def reference(self, *operands: Array) -> Array:
        x = operands[0]
        return same_array(type(self).NUMPY(x), self.dtype) if self.dtype.kind == "float" else x

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        if self.dtype.kind != "float":
            return operands[0]
        return b.apply(type(self).MATH, operands[0])


@irdl_op_definition
class FloorOp(Rounding):
    """The largest integer <= x."""

    name = "mlc.floor"
    MATH: ClassVar[type[Any]] = math.FloorOp
    NUMPY: ClassVar[np.ufunc] = np.floor


@irdl_op_definition
class CeilOp(Rounding):
    """The smallest integer >= x."""

    name = "mlc.ceil"
    MATH: ClassVar[type[Any]] = math.CeilOp
    NUMPY: ClassVar[np.ufunc] = np.ceil


@irdl_op_definition
class RoundOp(Rounding):
    """The nearest integer, the even one of two."""

    name = "mlc.round"
    MATH: ClassVar[type[Any]] = math.RoundEvenOp
    NUMPY: ClassVar[np.ufunc] = np.rint


@irdl_op_definition
class TruncOp(Rounding):
    """The integer part."""

    name = "mlc.trunc"
    MATH: ClassVar[type[Any]] = math.TruncOp
    NUMPY: ClassVar[np.ufunc] = np.trunc


@irdl_op_definition
class CopysignOp(Binary):
    """|lhs| with the sign of rhs, -0 and NaN included."""

    name = "mlc.copysign"
    KINDS: ClassVar[tuple[str, ...]] = ("float",)

    def reference(self, *operands: Array) -> Array:
        return np.copysign(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(math.CopySignOp, *operands)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        one = full(b, 1.0, self.dtype, self.shape)
        signs = (b(CopysignOp, one, x) for x in (self.lhs, self.rhs))
        return (b(MulOp, *signs), None)


@irdl_op_definition
class NextafterOp(Binary):
    """The float next to lhs towards rhs."""

    name = "mlc.nextafter"
    KINDS: ClassVar[tuple[str, ...]] = ("float",)
    WEIGHT: ClassVar[float] = 4.0

    def reference(self, *operands: Array) -> Array:
        lhs, rhs = operands
        return np.where(lhs == rhs, rhs, np.nextafter(lhs, rhs))  # C's; NumPy's f16 gives lhs

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        x, y = operands
        dtype, bits = self.dtype, _SIGNED[self.dtype.bytes]
        zero, one = b.constant(0.0, dtype), b.constant(1, bits)
        # bit patterns of one sign are ordered as their numbers are
        pattern = b.bitcast(x, bits.register)
        rises, positive = b.compare("lt", x, y, dtype), b.compare("gt", x, zero, dtype)
        outwards = b.select(positive, rises, b.compare("gt", x, y, dtype))
        further, nearer = (b.apply(op, pattern, one) for op in (arith.AddiOp, arith.SubiOp))
        found = b.bitcast(b.select(outwards, further, nearer), dtype.register)
        smallest = b.apply(math.CopySignOp, b.bitcast(one, dtype.register), y)
        found = b.select(b.compare("eq", x, zero, dtype), smallest, found)
        found = b.select(b.compare("eq", x, y, dtype), y, found)
        found = b.select(b.compare("ne", y, y, dtype), y, found)
        return b.select(b.compare("ne", x, x, dtype), x, found)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (full(b, 1.0, self.dtype, self.shape), None)


class Classify(Elementwise):
    """A question about each number; gives bool."""

    KINDS: ClassVar[tuple[str, ...]] = (*REALS, "bool")
    NO_DERIVATIVE: ClassVar[str] = "gives bool"
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"

    NUMPY: ClassVar[np.ufunc]

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        cls.check_kind(dtype_of(operands[0].element_type))
        return tensor_type(i1, shape_of(operands[0]))

    @property
    def source(self) -> DType:
        """The operand's dtype."""
        return element_dtype(self.x)

    def reference(self, *operands: Array) -> Array:
        return np.asarray(type(self).NUMPY(operands[0]))

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        if self.source.kind != "float":
            return self.of_exact(b, operands[0])
        return self.of_float(b, operands[0])

    def of_exact(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        """The answer for integers and bools."""
        return b.constant(False, BOOL)

    def of_float(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        """The answer for floats."""
        raise NotImplementedError(self.name)

    def magnitude_against_infinity(
        self, b: ElementBuilder, predicate: str, x: SSAValue
    ) -> SSAValue:
        """|x| ? inf"""
        infinity = b.constant(float("inf"), self.source)
        return b.compare(predicate, b.apply(math.AbsFOp, x), infinity, self.source)


@irdl_op_definition
class IsnanOp(Classify):
    """Whether x is not a number."""

    name = "mlc.isnan"
    NUMPY: ClassVar[np.ufunc] = np.isnan

    def of_float(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        return b.compare("ne", x, x, self.source)


@irdl_op_definition
class IsinfOp(Classify):
    """Whether x is infinite."""

    name = "mlc.isinf"
    NUMPY: ClassVar[np.ufunc] = np.isinf

    def of_float(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        return self.magnitude_against_infinity(b, "eq", x)


@irdl_op_definition
class IsfiniteOp(Classify):
    """Whether x is neither infinite nor NaN."""

    name = "mlc.isfinite"
    NUMPY: ClassVar[np.ufunc] = np.isfinite

    def of_exact(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        return b.constant(True, BOOL)

    def of_float(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        return self.magnitude_against_infinity(b, "lt", x)


@irdl_op_definition
class SignbitOp(Classify):
    """Whether the sign bit is set: of -0 and of NaN too."""

    name = "mlc.signbit"
    NUMPY: ClassVar[np.ufunc] = np.signbit

    def reference(self, *operands: Array) -> Array:
        return np.signbit(operands[0]) if self.source.kind == "float" else operands[0] < 0

    def of_exact(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        if self.source.kind != "int":
            return b.constant(False, BOOL)
        return b.compare("lt", x, b.constant(0, self.source), self.source)

    def of_float(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        bits = _SIGNED[self.source.bytes]
        return b.compare("lt", b.bitcast(x, bits.register), b.constant(0, bits), bits)


class Numeric(Binary):
    """fmax or fmin: `EXTREMUM` of the operands, or of the other one twice where one is NaN."""

    KINDS: ClassVar[tuple[str, ...]] = (*REALS, "bool")
    EXTREMUM: ClassVar[type[Extremum]]

    def reference(self, *operands: Array) -> Array:
        x, y = operands
        if self.dtype.kind == "float":
            x, y = np.where(np.isnan(x), y, x), np.where(np.isnan(y), x, y)
        return same_array(type(self).EXTREMUM.COMBINE(x, y), self.dtype)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        x, y = operands
        if self.dtype.kind == "float":
            no_x, no_y = (b.compare("ne", v, v, self.dtype) for v in operands)
            x, y = b.select(no_x, y, x), b.select(no_y, x, y)
        return b.apply(type(self).EXTREMUM.OPS[self.dtype.kind], x, y)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        """The derivative goes to the operand that is the result, half of it to each at ties."""
        if self.dtype.kind != "float":
            return (None, None)
        zero, half, one = (full(b, v, self.dtype, self.shape) for v in (0.0, 0.5, 1.0))
        ties = b(CompareOp, self.lhs, self.rhs, predicate="eq")
        shares: list[SSAValue] = []
        for x in (self.lhs, self.rhs):
            chosen = b(CompareOp, x, self.result, predicate="eq")
            shares.append(b(SelectOp, ties, half, b(SelectOp, chosen, one, zero)))
        return tuple(shares)


@irdl_op_definition
class FmaxOp(Numeric):
    """The larger; NaN only where both are."""

    name = "mlc.fmax"
    EXTREMUM: ClassVar[type[Extremum]] = MaxOp


@irdl_op_definition
class FminOp(Numeric):
    """The smaller; NaN only where both are."""

    name = "mlc.fmin"
    EXTREMUM: ClassVar[type[Extremum]] = MinOp


ROUNDING: tuple[type[Elementwise], ...] = (
    AbsOp,
    SignOp,
    FloorOp,
    CeilOp,
    RoundOp,
    TruncOp,
    CopysignOp,
    NextafterOp,
    IsnanOp,
    IsinfOp,
    IsfiniteOp,
    SignbitOp,
    FmaxOp,
    FminOp,
)
