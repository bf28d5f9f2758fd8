"""Elementwise functions of floats: exponential, trigonometric, hyperbolic, special, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects.dtypes import BOOL
from mlc.dialects.tensor import functions, rounding, trigonometry
from mlc.dialects.tensor.op import TensorOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.elementwise import (
    Operand,
    add,
    astype,
    divide,
    equal,
    exp,
    extreme,
    greater,
    isinf,
    multiply,
    not_equal,
    of_complex,
    subtract,
    where,
)
from mlc.frontend.numpy.registry import public, refuse_bool, refuse_complex
from mlc.frontend.numpy.values import (
    common_dtype,
    common_operands,
    convert,
    dtype_row,
    float_dtype,
    is_inexact,
    is_integer,
    lift,
    result,
)
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "erf",
    "erfc",
    "exp2",
    "expm1",
    "fix",
    "float_power",
    "floor",
    "fmax",
    "fmin",
    "heaviside",
    "hypot",
    "lgamma",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "nextafter",
    "rad2deg",
    "radians",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "tan",
    "trunc",
]

Unary = Callable[[Operand], Tracer]
Binary = Callable[[Operand, Operand], Tracer]


def _function(name: str, op: type[TensorOp], ufunc: Any = None) -> Unary:
    """A function that gives floats: integers are converted as NumPy does."""

    def apply(x: Operand) -> Tracer:
        dtype = float_dtype(name, (x,))
        operand = convert(lift(x, name).value, dtype)
        found = of_complex(name, operand, dtype)
        return result(here().emit(op, operand)) if found is None else found

    apply.__name__ = name
    apply.__doc__ = op.__doc__
    return public(ufunc, numbers=ufunc is not None)(apply)


def _function2(name: str, op: type[TensorOp], ufunc: Any) -> Binary:
    def apply(x1: Operand, x2: Operand) -> Tracer:
        dtype = float_dtype(name, (x1, x2))
        return result(here().emit(op, *common_operands(name, (x1, x2), dtype)))

    apply.__name__ = name
    apply.__doc__ = op.__doc__
    return public(ufunc, numbers=True)(apply)


exp2 = _function("exp2", functions.Exp2Op, np.exp2)
expm1 = _function("expm1", functions.Expm1Op, np.expm1)
log2 = _function("log2", functions.Log2Op, np.log2)
log10 = _function("log10", functions.Log10Op, np.log10)
log1p = _function("log1p", functions.Log1pOp, np.log1p)
cbrt = _function("cbrt", functions.CbrtOp, np.cbrt)
sin = _function("sin", trigonometry.SinOp, np.sin)
cos = _function("cos", trigonometry.CosOp, np.cos)
tan = _function("tan", trigonometry.TanOp, np.tan)
asin = arcsin = _function("arcsin", trigonometry.AsinOp, np.arcsin)
acos = arccos = _function("arccos", trigonometry.AcosOp, np.arccos)
atan = arctan = _function("arctan", trigonometry.AtanOp, np.arctan)
sinh = _function("sinh", trigonometry.SinhOp, np.sinh)
cosh = _function("cosh", trigonometry.CoshOp, np.cosh)
asinh = arcsinh = _function("arcsinh", trigonometry.AsinhOp, np.arcsinh)
acosh = arccosh = _function("arccosh", trigonometry.AcoshOp, np.arccosh)
atanh = arctanh = _function("arctanh", trigonometry.AtanhOp, np.arctanh)
atan2 = arctan2 = _function2("arctan2", functions.Atan2Op, np.arctan2)
hypot = _function2("hypot", functions.HypotOp, np.hypot)
copysign = _function2("copysign", rounding.CopysignOp, np.copysign)
nextafter = _function2("nextafter", rounding.NextafterOp, np.nextafter)

# names that NumPy has not
erf = _function("erf", functions.ErfOp)
erfc = _function("erfc", functions.ErfcOp)
lgamma = _function("lgamma", functions.LgammaOp)
sigmoid = _function("sigmoid", functions.SigmoidOp)
rsqrt = _function("rsqrt", functions.RsqrtOp)


# Signs and whole numbers


def _rounding(name: str, op: type[TensorOp], ufunc: Any) -> Unary:
    """Integers and bools are whole already."""

    def apply(x: Operand) -> Tracer:
        source = lift(x, name)
        if is_integer(source.row) or source.row is BOOL:
            return result(source.value)
        return result(here().emit(op, source.value))

    apply.__name__ = name
    apply.__doc__ = op.__doc__
    return public(ufunc, numbers=True)(apply)


floor = _rounding("floor", rounding.FloorOp, np.floor)
ceil = _rounding("ceil", rounding.CeilOp, np.ceil)
trunc = _rounding("trunc", rounding.TruncOp, np.trunc)
rint = _function("rint", rounding.RoundOp, np.rint)
fix = public(np.fix)(trunc)


@public(np.round, np.around)
def round(a: Operand, decimals: int = 0, out: Any = None) -> Tracer:  # noqa: A001 - NumPy's name
    """The nearest number with that many decimals, the even one of two, as NumPy computes it."""
    source = lift(a, "round")
    if decimals:
        refuse_bool("round", source.row, "Convert with .astype(np.int8).")
    if source.row is BOOL or is_integer(source.row):
        if decimals >= 0:
            return astype(source, np.float16) if source.row is BOOL else result(source.value)
        message = f"round: decimals={decimals} of integers is not supported yet."
        raise located(NotSupportedError, message, remedy="Use x // 10**n * 10**n.")
    if decimals == 0:
        return rint(source)
    scale = float(10 ** (decimals if decimals > 0 else -decimals))
    if decimals > 0:
        return divide(rint(multiply(source, scale)), scale)
    return multiply(rint(divide(source, scale)), scale)


around = round


@public(np.sign, numbers=True)
def sign(x: Operand) -> Tracer:
    """-1, 0 or 1; NaN of NaN."""
    source = lift(x, "sign")
    refuse_bool("sign", source.row, "Convert with .astype(np.int64).")
    found = of_complex("sign", source.value, source.row)
    return result(here().emit(rounding.SignOp, source.value)) if found is None else found


def _question(name: str, op: type[TensorOp], ufunc: Any) -> Unary:
    def apply(x: Operand) -> Tracer:
        return result(here().emit(op, lift(x, name).value))

    apply.__name__ = name
    apply.__doc__ = op.__doc__
    return public(ufunc, numbers=True)(apply)


signbit = _question("signbit", rounding.SignbitOp, np.signbit)


def _smaller_or_larger(name: str, op: type[TensorOp], ufunc: Any) -> Binary:
    def apply(x1: Operand, x2: Operand) -> Tracer:
        return extreme(name, op, x1, x2)

    apply.__name__ = name
    apply.__doc__ = op.__doc__
    return public(ufunc, numbers=True)(apply)


fmax = _smaller_or_larger("fmax", rounding.FmaxOp, np.fmax)
fmin = _smaller_or_larger("fmin", rounding.FminOp, np.fmin)


# Compositions


def _floats(name: str, x1: Operand, x2: Operand) -> tuple[Tracer, Tracer]:
    """The operands in the floating dtype of both, each in its own shape."""
    dtype = float_dtype(name, (x1, x2))
    refuse_complex(name, dtype, "Take the real parts first, or write it with np.exp and np.log.")
    first, second = (astype(lift(x, name), dtype.numpy) for x in (x1, x2))
    return first, second


@public(np.logaddexp, numbers=True)
def logaddexp(x1: Operand, x2: Operand) -> Tracer:
    """ln(e^x1 + e^x2), without overflow."""
    return _added_powers(*_floats("logaddexp", x1, x2), exp, 1.0)


@public(np.logaddexp2, numbers=True)
def logaddexp2(x1: Operand, x2: Operand) -> Tracer:
    """log2(2^x1 + 2^x2), without overflow."""
    return _added_powers(*_floats("logaddexp2", x1, x2), exp2, 1 / math.log(2))


def _added_powers(x1: Operand, x2: Operand, base: Unary, scale: float) -> Tracer:
    """
    The larger operand, plus what the other one adds. Either choice of the larger is the whole
    function, so that derivatives at a tie are those of both.
    """
    first = greater(x1, x2)
    larger, smaller = where(first, x1, x2), where(first, x2, x1)
    rest = log1p(base(subtract(smaller, larger)))
    found = add(larger, rest if scale == 1.0 else multiply(rest, scale))
    endless = multiply(isinf(x1), equal(x1, x2))  # whose difference is NaN
    return where(endless, multiply(0.5, add(x1, x2)), found)


def _scaled(name: str, x: Operand, factor: float) -> Tracer:
    dtype = float_dtype(name, (x,))
    refuse_complex(name, dtype, "Take the real part first.")
    return multiply(astype(x, dtype.numpy), factor)


@public(np.degrees, np.rad2deg, numbers=True)
def degrees(x: Operand) -> Tracer:
    """An angle in degrees."""
    return _scaled("degrees", x, 180 / math.pi)


@public(np.radians, np.deg2rad, numbers=True)
def radians(x: Operand) -> Tracer:
    """An angle in radians."""
    return _scaled("radians", x, math.pi / 180)


rad2deg, deg2rad = degrees, radians


@public(np.sinc)
def sinc(x: Operand) -> Tracer:
    """sin(pi x) / (pi x); 1 at 0. Integers and bools are computed in float64."""
    source = lift(x, "sinc")
    angle = multiply(source if is_inexact(source.row) else astype(source, np.float64), math.pi)
    return result(here().emit(trigonometry.SincOp, angle.value))


@public(np.heaviside, numbers=True)
def heaviside(x1: Operand, x2: Operand) -> Tracer:
    """0 below 0, x2 at 0, 1 above; NaN of NaN."""
    x, middle = _floats("heaviside", x1, x2)
    half = multiply(add(sign(x), 1.0), 0.5)
    return where(not_equal(x, 0), half, middle)


@public(np.float_power, numbers=True)
def float_power(x1: Operand, x2: Operand) -> Tracer:
    """x1 to the power x2, at least in float64."""
    from mlc.frontend.numpy.elementwise_whole import power

    wide = common_dtype("float_power", (x1, x2, np.float64(0)))
    return power(astype(x1, wide.numpy), astype(x2, dtype_row(wide.numpy).numpy))
