"""Elementwise functions of floats beyond exp, log and tanh: what vector math computes."""

from __future__ import annotations

import math as reals
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import math
from xdsl.ir import SSAValue

from mlc.dialects import functions
from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import (
    AddOp,
    Binary,
    DivOp,
    Elementwise,
    ExpOp,
    LogOp,
    MulOp,
    NegOp,
    SubOp,
    Unary,
)
from mlc.dialects.tensor.op import Array, OpBuilder, same_array
from mlc.dialects.tensor.rounded import hypot


class Tensors:
    """Formulas on tensors of one op's shape and dtype, for derivatives."""

    def __init__(self, b: OpBuilder, op: Elementwise) -> None:
        self.b, self.op = b, op

    def number(self, value: float) -> SSAValue:
        """The value in every element."""
        return full(self.b, value, self.op.dtype, self.op.shape)

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """x + y"""
        return self.b(AddOp, x, y)

    def sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """x - y"""
        return self.b(SubOp, x, y)

    def mul(self, *factors: SSAValue) -> SSAValue:
        """The product."""
        total = factors[0]
        for factor in factors[1:]:
            total = self.b(MulOp, total, factor)
        return total

    def times(self, value: float, x: SSAValue) -> SSAValue:
        """value * x"""
        return self.b(MulOp, self.number(value), x)

    def div(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """x / y"""
        return self.b(DivOp, x, y)

    def over(self, value: float, x: SSAValue) -> SSAValue:
        """value / x"""
        return self.b(DivOp, self.number(value), x)

    def plus(self, value: float, x: SSAValue) -> SSAValue:
        """value + x"""
        return self.b(AddOp, self.number(value), x)

    def minus(self, value: float, x: SSAValue) -> SSAValue:
        """value - x"""
        return self.b(SubOp, self.number(value), x)

    def neg(self, x: SSAValue) -> SSAValue:
        """-x"""
        return self.b(NegOp, x)

    def where(
        self, predicate: str, x: SSAValue, value: float, then: SSAValue, otherwise: SSAValue
    ) -> SSAValue:
        """`then` where x ? value, else `otherwise`."""
        held = self.b(CompareOp, x, self.number(value), predicate=predicate)
        return self.b(SelectOp, held, then, otherwise)


def through(function: Callable[..., Any], *operands: Array) -> Array:
    """The function in f64, rounded to the operands' dtype: what NumPy means, in every width."""
    with np.errstate(all="ignore"):
        wide = function(*(x.astype(np.float64) for x in operands))
        return np.asarray(wide).astype(operands[0].dtype)


def each(function: Callable[[float], float], at_poles: float = reals.inf) -> Callable[..., Array]:
    """A function of Python's math module on arrays; NaN gives NaN, a pole `at_poles`."""

    def one(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return at_poles
        except OverflowError:
            return reals.inf

    return np.vectorize(one, otypes=[np.float64])


class FloatFunction(Unary):
    """f(x) by vector math, within 2 ulp."""

    KINDS: ClassVar[tuple[str, ...]] = ("float",)
    MATH: ClassVar[type[Any]]
    NUMPY: ClassVar[Callable[..., Any]]

    def reference(self, *operands: Array) -> Array:
        return same_array(through(type(self).NUMPY, *operands), self.dtype)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(type(self).MATH, *operands)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (self.slope(Tensors(b, self), self.x, self.result),)

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        """dy/dx, y being the result."""
        raise NotImplementedError(self.name)


@irdl_op_definition
class RsqrtOp(FloatFunction):
    """1 / sqrt(x); ±inf at ±0, NaN below."""

    name = "mlc.rsqrt"
    WEIGHT: ClassVar[float] = 11.0
    MATH: ClassVar[type[Any]] = math.RsqrtOp

    def reference(self, *operands: Array) -> Array:
        wide = operands[0].astype(self.dtype.accumulator.numpy, copy=False)
        return same_array(1 / np.sqrt(wide), self.dtype)

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.times(-0.5, t.div(y, x))


@irdl_op_definition
class CbrtOp(FloatFunction):
    """The cube root, of negative numbers too."""

    name = "mlc.cbrt"
    WEIGHT: ClassVar[float] = 35.0
    MATH: ClassVar[type[Any]] = math.CbrtOp
    NUMPY: ClassVar[Callable[..., Any]] = np.cbrt

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.over(1 / 3, t.mul(y, y))


@irdl_op_definition
class Exp2Op(FloatFunction):
    """2 to the power x."""

    name = "mlc.exp2"
    WEIGHT: ClassVar[float] = 12.0
    MATH: ClassVar[type[Any]] = math.Exp2Op
    IS_EXPONENTIAL: ClassVar[bool] = True
    NUMPY: ClassVar[Callable[..., Any]] = np.exp2

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.times(reals.log(2), y)


@irdl_op_definition
class Expm1Op(FloatFunction):
    """e^x - 1, without cancellation."""

    name = "mlc.expm1"
    WEIGHT: ClassVar[float] = 13.0
    MATH: ClassVar[type[Any]] = math.ExpM1Op
    NUMPY: ClassVar[Callable[..., Any]] = np.expm1

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.plus(1.0, y)


@irdl_op_definition
class SigmoidOp(FloatFunction):
    """1 / (1 + e^-x)."""

    name = "mlc.sigmoid"
    WEIGHT: ClassVar[float] = 30.0
    MATH: ClassVar[type[Any]] = functions.SigmoidOp

    @staticmethod
    def NUMPY(x: Array) -> Array:  # noqa: N802 - a function where others have a ufunc
        """From e^-|x|, which does not overflow."""
        z = np.exp(-np.abs(x))
        return np.where(x < 0, z, 1) / (1 + z)

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.mul(y, t.minus(1.0, y))


@irdl_op_definition
class Log2Op(FloatFunction):
    """Logarithm to base 2; -inf at 0, NaN below."""

    name = "mlc.log2"
    WEIGHT: ClassVar[float] = 25.0
    MATH: ClassVar[type[Any]] = math.Log2Op
    NUMPY: ClassVar[Callable[..., Any]] = np.log2

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.over(1 / reals.log(2), x)


@irdl_op_definition
class Log10Op(FloatFunction):
    """Logarithm to base 10; -inf at 0, NaN below."""

    name = "mlc.log10"
    WEIGHT: ClassVar[float] = 27.0
    MATH: ClassVar[type[Any]] = math.Log10Op
    NUMPY: ClassVar[Callable[..., Any]] = np.log10

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.over(1 / reals.log(10), x)


@irdl_op_definition
class Log1pOp(FloatFunction):
    """ln(1 + x), without cancellation; -inf at -1, NaN below."""

    name = "mlc.log1p"
    WEIGHT: ClassVar[float] = 22.0
    MATH: ClassVar[type[Any]] = math.Log1pOp
    NUMPY: ClassVar[Callable[..., Any]] = np.log1p

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.over(1.0, t.plus(1.0, x))


@irdl_op_definition
class ErfOp(FloatFunction):
    """Error function."""

    name = "mlc.erf"
    SOURCE: ClassVar[str] = "DLMF 7.2.1"
    WEIGHT: ClassVar[float] = 50.0
    MATH: ClassVar[type[Any]] = math.ErfOp
    NUMPY: ClassVar[Callable[..., Any]] = staticmethod(each(reals.erf))

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.times(2 / reals.sqrt(reals.pi), t.b(ExpOp, t.neg(t.mul(x, x))))


@irdl_op_definition
class ErfcOp(FloatFunction):
    """1 - erf(x), without cancellation."""

    name = "mlc.erfc"
    SOURCE: ClassVar[str] = "DLMF 7.2.2"
    WEIGHT: ClassVar[float] = 60.0
    MATH: ClassVar[type[Any]] = functions.ErfcOp
    NUMPY: ClassVar[Callable[..., Any]] = staticmethod(each(reals.erfc))

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.times(-2 / reals.sqrt(reals.pi), t.b(ExpOp, t.neg(t.mul(x, x))))


@irdl_op_definition
class LgammaOp(FloatFunction):
    """ln |gamma(x)|; inf at 0, -1, -2, …"""

    name = "mlc.lgamma"
    SOURCE: ClassVar[str] = "DLMF 5.2.1"
    WEIGHT: ClassVar[float] = 200.0
    MATH: ClassVar[type[Any]] = functions.LgammaOp
    NUMPY: ClassVar[Callable[..., Any]] = staticmethod(each(reals.lgamma))

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        """
        The digamma function: z = max(x, 1 - x) moved up by 8, where its asymptotic series holds,
        then reflected for x < 1/2. SOURCE: DLMF 5.5.2, 5.5.4, 5.11.2.
        """
        from mlc.dialects.tensor.trigonometry import TanOp

        mirrored = t.minus(1.0, x)
        z = t.where("lt", x, 0.5, mirrored, x)
        steps = t.over(1.0, z)
        for k in range(1, 8):
            steps = t.add(steps, t.over(1.0, t.plus(float(k), z)))
        large = t.plus(8.0, z)
        inverse = t.over(1.0, large)
        square = t.mul(inverse, inverse)
        series = t.number(1 / 132)
        for coefficient in (-1 / 240, 1 / 252, -1 / 120, 1 / 12):
            series = t.plus(coefficient, t.mul(series, square))
        tail = t.add(t.times(0.5, inverse), t.mul(series, square))
        found = t.sub(t.sub(t.b(LogOp, large), tail), steps)
        cotangent = t.over(reals.pi, t.b(TanOp, t.times(reals.pi, x)))
        return t.where("lt", x, 0.5, t.sub(found, cotangent), found)


class BinaryFunction(Binary):
    """f(lhs, rhs) by vector math, within 2 ulp."""

    KINDS: ClassVar[tuple[str, ...]] = ("float",)
    MATH: ClassVar[type[Any]]
    NUMPY: ClassVar[Callable[..., Any]]

    def reference(self, *operands: Array) -> Array:
        return same_array(through(type(self).NUMPY, *operands), self.dtype)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(type(self).MATH, *operands)


@irdl_op_definition
class HypotOp(BinaryFunction):
    """sqrt(lhs^2 + rhs^2); inf if either is infinite, even beside NaN."""

    name = "mlc.hypot"
    FLOPS: ClassVar[int] = 4
    WEIGHT: ClassVar[float] = 22.0
    MATH: ClassVar[type[Any]] = functions.HypotOp

    def reference(self, *operands: Array) -> Array:
        return hypot(*operands)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        """The cosine and the sine of the point's angle; both 0 at the origin."""
        t = Tensors(b, self)
        zero, one = t.number(0.0), t.number(1.0)
        away = b(CompareOp, self.result, zero, predicate="ne")
        size = b(SelectOp, away, self.result, one)
        return tuple(b(SelectOp, away, t.div(x, size), zero) for x in (self.lhs, self.rhs))


@irdl_op_definition
class Atan2Op(BinaryFunction):
    """The angle of the point (rhs, lhs), from -pi to pi; zeros and infinities by IEEE 754."""

    name = "mlc.atan2"
    SOURCE: ClassVar[str] = "IEEE 754-2019, 9.2.1"
    WEIGHT: ClassVar[float] = 55.0
    MATH: ClassVar[type[Any]] = math.Atan2Op
    NUMPY: ClassVar[Callable[..., Any]] = np.arctan2

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        """x / r^2 and -y / r^2, where r^2 may be out of range though r is not; 0 at the origin."""
        t = Tensors(b, self)
        zero, one = t.number(0.0), t.number(1.0)
        radius = b(HypotOp, self.lhs, self.rhs)
        away = b(CompareOp, radius, zero, predicate="ne")
        radius = b(SelectOp, away, radius, one)
        quotients = (t.div(t.div(x, radius), radius) for x in (self.rhs, self.lhs))
        by_lhs, by_rhs = (b(SelectOp, away, q, zero) for q in quotients)
        return (by_lhs, t.neg(by_rhs))


FUNCTIONS: tuple[type[Elementwise], ...] = (
    RsqrtOp,
    CbrtOp,
    Exp2Op,
    Expm1Op,
    SigmoidOp,
    Log2Op,
    Log10Op,
    Log1pOp,
    ErfOp,
    ErfcOp,
    LgammaOp,
    HypotOp,
    Atan2Op,
)
