"""Trigonometric and hyperbolic functions and their inverses, elementwise on floats."""

from __future__ import annotations

import math as reals
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import F32
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.functions import FloatFunction, RsqrtOp, Tensors
from mlc.dialects.tensor.op import Array


@irdl_op_definition
class SinOp(FloatFunction):
    """Sine; NaN at ±inf."""

    name = "mlc.sin"
    WEIGHT: ClassVar[float] = 20.0
    MATH: ClassVar[type[Any]] = math.SinOp
    NUMPY: ClassVar[Callable[..., Any]] = np.sin

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.b(CosOp, x)


@irdl_op_definition
class SincOp(FloatFunction):
    """sin(x) / x; 1 at 0, NaN at ±inf."""

    name = "mlc.sinc"
    FLOPS: ClassVar[int] = 2
    WEIGHT: ClassVar[float] = 24.0
    TERMS: ClassVar[int] = 12  # of the series; for |x| < 1 the rest is below 1e-20, in f'' too

    @staticmethod
    def NUMPY(x: Array) -> Array:  # noqa: N802 - a function where others have a ufunc
        """sin(x) over x."""
        size = np.where(x == 0, 1, x)
        return np.where(x == 0, 1, np.sin(size) / size)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        wide = F32 if self.dtype.bytes < 4 else self.dtype
        x = b.convert(operands[0], self.dtype, wide)
        zero, one = (b.constant(v, wide) for v in (0.0, 1.0))
        quotient = b.apply(arith.DivfOp, b.apply(math.SinOp, x), x)
        found = b.select(b.compare("eq", x, zero, wide), one, quotient)
        return b.convert(found, wide, self.dtype)

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        """(cos(x) - y) / x, and where that cancels sum((-1)^k 2k x^(2k-1) / (2k+1)!)."""
        square = t.mul(x, x)
        *others, last = (
            (-1) ** k * 2 * k / reals.factorial(2 * k + 1) for k in range(1, self.TERMS)
        )
        series = t.number(last)
        for coefficient in reversed(others):
            series = t.plus(coefficient, t.mul(series, square))
        near = t.mul(series, x)
        far = t.div(t.sub(t.b(CosOp, x), y), x)
        return t.where("lt", square, 1.0, near, far)


@irdl_op_definition
class CosOp(FloatFunction):
    """Cosine; NaN at ±inf."""

    name = "mlc.cos"
    WEIGHT: ClassVar[float] = 20.0
    MATH: ClassVar[type[Any]] = math.CosOp
    NUMPY: ClassVar[Callable[..., Any]] = np.cos

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.neg(t.b(SinOp, x))


@irdl_op_definition
class TanOp(FloatFunction):
    """Tangent; NaN at ±inf."""

    name = "mlc.tan"
    WEIGHT: ClassVar[float] = 30.0
    MATH: ClassVar[type[Any]] = math.TanOp
    NUMPY: ClassVar[Callable[..., Any]] = np.tan

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.plus(1.0, t.mul(y, y))


@irdl_op_definition
class AsinOp(FloatFunction):
    """Arc sine, in [-pi/2, pi/2]; NaN beyond ±1."""

    name = "mlc.asin"
    WEIGHT: ClassVar[float] = 18.0
    MATH: ClassVar[type[Any]] = math.AsinOp
    NUMPY: ClassVar[Callable[..., Any]] = np.arcsin

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.b(RsqrtOp, t.minus(1.0, t.mul(x, x)))


@irdl_op_definition
class AcosOp(FloatFunction):
    """Arc cosine, in [0, pi]; NaN beyond ±1."""

    name = "mlc.acos"
    WEIGHT: ClassVar[float] = 18.0
    MATH: ClassVar[type[Any]] = math.AcosOp
    NUMPY: ClassVar[Callable[..., Any]] = np.arccos

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.neg(t.b(RsqrtOp, t.minus(1.0, t.mul(x, x))))


@irdl_op_definition
class AtanOp(FloatFunction):
    """Arc tangent, in [-pi/2, pi/2]."""

    name = "mlc.atan"
    WEIGHT: ClassVar[float] = 25.0
    MATH: ClassVar[type[Any]] = math.AtanOp
    NUMPY: ClassVar[Callable[..., Any]] = np.arctan

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.over(1.0, t.plus(1.0, t.mul(x, x)))


@irdl_op_definition
class SinhOp(FloatFunction):
    """Hyperbolic sine."""

    name = "mlc.sinh"
    WEIGHT: ClassVar[float] = 17.0
    MATH: ClassVar[type[Any]] = math.SinhOp
    NUMPY: ClassVar[Callable[..., Any]] = np.sinh

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.b(CoshOp, x)


@irdl_op_definition
class CoshOp(FloatFunction):
    """Hyperbolic cosine."""

    name = "mlc.cosh"
    WEIGHT: ClassVar[float] = 16.0
    MATH: ClassVar[type[Any]] = math.CoshOp
    NUMPY: ClassVar[Callable[..., Any]] = np.cosh

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.b(SinhOp, x)


@irdl_op_definition
class AsinhOp(FloatFunction):
    """Inverse hyperbolic sine."""

    name = "mlc.asinh"
    WEIGHT: ClassVar[float] = 60.0
    MATH: ClassVar[type[Any]] = math.AsinhOp
    NUMPY: ClassVar[Callable[..., Any]] = np.arcsinh

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.b(RsqrtOp, t.plus(1.0, t.mul(x, x)))


@irdl_op_definition
class AcoshOp(FloatFunction):
    """Inverse hyperbolic cosine; NaN below 1."""

    name = "mlc.acosh"
    WEIGHT: ClassVar[float] = 50.0
    MATH: ClassVar[type[Any]] = math.AcoshOp
    NUMPY: ClassVar[Callable[..., Any]] = np.arccosh

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        return t.mul(*(t.b(RsqrtOp, t.plus(v, x)) for v in (-1.0, 1.0)))


@irdl_op_definition
class AtanhOp(FloatFunction):
    """Inverse hyperbolic tangent; ±inf at ±1, NaN beyond."""

    name = "mlc.atanh"
    WEIGHT: ClassVar[float] = 35.0
    MATH: ClassVar[type[Any]] = math.AtanhOp
    NUMPY: ClassVar[Callable[..., Any]] = np.arctanh

    def slope(self, t: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
        root = t.b(RsqrtOp, t.minus(1.0, t.mul(x, x)))  # NaN where atanh is
        return t.mul(root, root)


TRIGONOMETRY: tuple[type[Elementwise], ...] = (
    SinOp,
    SincOp,
    CosOp,
    TanOp,
    AsinOp,
    AcosOp,
    AtanOp,
    SinhOp,
    CoshOp,
    AsinhOp,
    AcoshOp,
    AtanhOp,
)
