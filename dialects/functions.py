"""
Dialect `mlc_math`: functions of floats that upstream's `math` lacks. Scalars and vectors alike;
the pass mlc-expand-math replaces every one of them, as it does upstream's.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Dialect
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.lanes import element_of


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
class NextAfterOp(BinaryFunction):
    """The float next to x towards y."""

    name = "mlc_math.nextafter"


MlcMath = Dialect("mlc_math", [ErfcOp, LgammaOp, SigmoidOp, HypotOp, RemainderOp, NextAfterOp], [])
