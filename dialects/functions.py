"""
Dialect `mlc_math`: functions that upstream's `math` lacks, on scalars and vectors alike;
the pass mlc-expand-math replaces every one of them, as it does upstream's, by arithmetic and, where
the target has instructions for them (`MathUnit`), the eight ops at the end.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, Float64Type, IntegerType, f64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.lanes import element_of, like


class FloatFunction(IRDLOperation):
    """result[i] = f(operands[i]), on floats of one type."""

    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=arith.FastMathFlagsAttr("none"))
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if not isinstance(element_of(self.results[0].type), AnyFloat):
            raise VerifyException(f"{self.name} takes floats, got {self.results[0].type}")


class UnaryFunction(FloatFunction):
    """A function of one number."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    x = operand_def(T)
    result = result_def(T)
    assembly_format = "$x (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"


class BinaryFunction(FloatFunction):
    """A function of two numbers."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    x = operand_def(T)
    y = operand_def(T)
    result = result_def(T)
    assembly_format = "$x `,` $y (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"


@irdl_op_definition
class ErfcOp(UnaryFunction):
    """1 - erf(x), without cancellation."""

    name = "mlc_math.erfc"


@irdl_op_definition
class LgammaOp(UnaryFunction):
    """ln |gamma(x)|."""

    name = "mlc_math.lgamma"


@irdl_op_definition
class SigmoidOp(UnaryFunction):
    """1 / (1 + e^-x)."""

    name = "mlc_math.sigmoid"


@irdl_op_definition
class HypotOp(BinaryFunction):
    """sqrt(x^2 + y^2), without overflow on the way."""

    name = "mlc_math.hypot"


@irdl_op_definition
class RemainderOp(BinaryFunction):
    """x - trunc(x / y) y, exactly: C's fmod."""

    name = "mlc_math.fmod"


@irdl_op_definition
class IntegerPowerOp(IRDLOperation):
    """x to the power y on integers of one type, wrapping around; y counts as unsigned."""

    name = "mlc_math.ipow"
    T: ClassVar = VarConstraint("T", AnyAttr())
    x = operand_def(T)
    y = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$x `,` $y attr-dict `:` type($result)"

    def verify_(self) -> None:
        if not isinstance(element_of(self.result.type), IntegerType):
            raise VerifyException(f"{self.name} takes integers, got {self.result.type}")


@irdl_op_definition
class NextAfterOp(BinaryFunction):
    """The float next to x towards y."""

    name = "mlc_math.nextafter"


@irdl_op_definition
class ScaleOp(BinaryFunction):
    """x 2^floor(y), rounded once."""

    name = "mlc_math.scale"


@irdl_op_definition
class ExponentOp(UnaryFunction):
    """floor(log2 |x|) as a float, subnormal x included; -inf at 0, inf at ±inf."""

    name = "mlc_math.exponent"


@irdl_op_definition
class SignificandOp(UnaryFunction):
    """x 2^-k in [3/4, 3/2) for the whole k that puts it there; 1 at ±0 and inf, NaN below 0."""

    name = "mlc_math.significand"


@irdl_op_definition
class ReciprocalEstimateOp(UnaryFunction):
    """1 / x within a relative 2^-14, on GPUs 2^-23, as the target's instruction estimates it."""

    name = "mlc_math.reciprocal_estimate"


@irdl_op_definition
class RootEstimateOp(UnaryFunction):
    """1 / sqrt(x) within a relative 2^-14; inf at 0, 0 at inf, NaN below 0."""

    name = "mlc_math.root_estimate"


@irdl_op_definition
class Exp2EstimateOp(UnaryFunction):
    """2^x within a relative 2^-22, as the target's instruction estimates it; 0 where subnormal."""

    name = "mlc_math.exp2_estimate"


@irdl_op_definition
class SaturateOp(UnaryFunction):
    """x, at least 0 and at most 1; 0 for NaN."""

    name = "mlc_math.saturate"


TABLE_BYTES = 128
"""A table is two vectors of AVX-512, 32 f32 or 16 f64, or twice that."""


@irdl_op_definition
class LookupOp(IRDLOperation):
    """
    result[i] = table[index[i] mod the table's length], 32 or 64 entries for f32 and 16 or 32 for
    f64, which are spelled in f64. The shorter tables take one instruction, the longer ones three.

    ```mlir
    %t = mlc_math.lookup %i [1.0, 1.5, …] : vector<16xi32> to vector<16xf32>
    ```
    """

    name = "mlc_math.lookup"
    index = operand_def()
    table = prop_def(DenseArrayBase.constr(Float64Type()))
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$index $table attr-dict `:` type($index) `to` type($result)"

    @staticmethod
    def of(index: SSAValue, table: tuple[float, ...], result_type: Attribute) -> LookupOp:
        """The op."""
        return LookupOp.create(
            operands=(index,),
            result_types=(result_type,),
            properties={"table": DenseArrayBase.from_list(f64, list(table))},
        )

    def verify_(self) -> None:
        element = element_of(self.result.type)
        if not isinstance(element, AnyFloat) or element.bitwidth not in (32, 64):
            raise VerifyException(f"{self.name} gives f32 or f64, got {self.result.type}")
        expected = like(self.result.type, IntegerType(element.bitwidth))
        if self.index.type != expected:
            raise VerifyException(
                f"{self.name}: index {self.index.type}, expected {expected} for {self.result.type}"
            )
        entries = TABLE_BYTES * 8 // element.bitwidth
        if len(self.table) not in (entries, 2 * entries):
            raise VerifyException(
                f"{self.name}: {len(self.table)} entries, expected {entries} or {2 * entries} of "
                f"{element}"
            )


MlcMath = Dialect(
    "mlc_math",
    [
        *(ErfcOp, LgammaOp, SigmoidOp, HypotOp, RemainderOp, NextAfterOp),
        IntegerPowerOp,
        *(ScaleOp, ExponentOp, SignificandOp, ReciprocalEstimateOp, RootEstimateOp),
        *(Exp2EstimateOp, SaturateOp, LookupOp),
    ],
    [],
)
