"""
Elementary functions of complex numbers by those of their parts, and the order NumPy gives them.

SOURCE: W. Kahan, "Branch cuts for complex elementary functions", 1987: the branch cuts, and the
formulas of inverse functions and of tanh, which stay accurate near them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mlc.frontend.numpy.complexes import conjugate, imag, of_parts, real
from mlc.frontend.numpy.elementwise import (
    absolute,
    equal,
    exp,
    greater,
    isinf,
    isnan,
    less,
    log,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    negative,
    sqrt,
    tanh,
    where,
)
from mlc.frontend.numpy.elementwise_math import (
    arcsinh,
    arctan2,
    copysign,
    cos,
    cosh,
    expm1,
    hypot,
    log1p,
    rint,
    sin,
    sinh,
    tan,
)
from mlc.frontend.trace.tracer import Tracer

Function = Callable[[Tracer], Tracer]


def _turned(z: Tracer) -> Tracer:
    """i z."""
    return of_parts(negative(imag(z)), real(z))


def _turned_back(z: Tracer) -> Tracer:
    """-i z."""
    return of_parts(imag(z), negative(real(z)))


def _log(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    size = hypot(x, y)
    large, small = maximum(absolute(x), absolute(y)), minimum(absolute(x), absolute(y))
    near = logical_and(greater(size, 0.5), less(size, 2.0))
    beside = where(near, (large - 1) * (large + 1) + small * small, 0)
    return of_parts(where(near, 0.5 * log1p(beside), log(size)), arctan2(y, x))


def _log1p(z: Tracer) -> Tracer:
    x, y = real(z) + 1, imag(z)
    return of_parts(log(hypot(x, y)), arctan2(y, x))


def _expm1(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    half = sin(y / 2)
    return of_parts(expm1(x) * cos(y) - 2 * half * half, exp(x) * sin(y))


def _sqrt(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    is_zero = logical_and(equal(x, 0), equal(y, 0))
    size = where(is_zero, 1, absolute(x) / 2 + hypot(x, y) / 2)
    root = sqrt(size)
    other = absolute(y) / (2 * root)
    ahead = logical_not(less(x, 0))
    re, im = where(ahead, root, other), copysign(where(ahead, other, root), y)
    re, im = where(is_zero, 0, re), where(is_zero, y, im)
    beyond = isinf(y)
    return of_parts(where(beyond, absolute(y), re), where(beyond, y, im))


def _sin(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    return of_parts(sin(x) * cosh(y), cos(x) * sinh(y))


def _cos(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    return of_parts(cos(x) * cosh(y), negative(sin(x)) * sinh(y))


def _sinh(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    return of_parts(sinh(x) * cos(y), cosh(x) * sin(y))


def _cosh(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    return of_parts(cosh(x) * cos(y), sinh(x) * sin(y))


def _tanh(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    far = greater(absolute(x), 11)
    t, s = tan(y), sinh(where(far, 0, x))
    b, r = 1 + t * t, sqrt(1 + s * s)
    d = 1 + b * s * s
    tail = 4 * sin(y) * cos(y) * exp(-2 * absolute(x))
    return of_parts(where(far, tanh(x), b * r * s / d), where(far, tail, t / d))


def _roots_beside(z: Tracer) -> tuple[Tracer, Tracer]:
    """The roots of 1 - z and 1 + z; the sign of a zero says on which side of a cut it is."""
    x, y = real(z), imag(z)
    return _sqrt(of_parts(1 - x, negative(y))), _sqrt(of_parts(1 + x, y))


def _asin(z: Tracer) -> Tracer:
    below, above = _roots_beside(z)
    re = arctan2(real(z), real(below * above))
    return of_parts(re, arcsinh(imag(conjugate(below) * above)))


def _acos(z: Tracer) -> Tracer:
    below, above = _roots_beside(z)
    re = 2 * arctan2(real(below), real(above))
    return of_parts(re, arcsinh(imag(conjugate(above) * below)))


def _acosh(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    below, above = _sqrt(of_parts(x - 1, y)), _sqrt(of_parts(x + 1, y))
    im = 2 * arctan2(imag(below), real(above))
    return of_parts(arcsinh(real(conjugate(below) * above)), im)


def _atanh(z: Tracer) -> Tracer:
    x, y = real(z), imag(z)
    re = log1p(4 * x / ((1 - x) * (1 - x) + y * y)) / 4
    return of_parts(re, arctan2(2 * y, (1 - x) * (1 + x) - y * y) / 2)


def _scaled(function: Function, factor: float) -> Function:
    def apply(z: Tracer) -> Tracer:
        found = function(z)
        return of_parts(real(found) * factor, imag(found) * factor)

    return apply


def _exp2(z: Tracer) -> Tracer:
    x, y = real(z) * math.log(2), imag(z) * math.log(2)
    return of_parts(exp(x) * cos(y), exp(x) * sin(y))


def _sign(z: Tracer) -> Tracer:
    size = absolute(z)
    some = greater(size, 0)
    size = where(some, size, 1)
    re, im = real(z) / size, imag(z) / size
    return of_parts(re, im)


def _rint(z: Tracer) -> Tracer:
    return of_parts(rint(real(z)), rint(imag(z)))


OF_COMPLEX: dict[str, Function] = {
    "log": _log,
    "log2": _scaled(_log, 1 / math.log(2)),
    "log10": _scaled(_log, 1 / math.log(10)),
    "log1p": _log1p,
    "exp2": _exp2,
    "expm1": _expm1,
    "sqrt": _sqrt,
    "sin": _sin,
    "cos": _cos,
    "tan": lambda z: _turned_back(_tanh(_turned(z))),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "arcsin": _asin,
    "arccos": _acos,
    "arctan": lambda z: _turned_back(_atanh(_turned(z))),
    "arcsinh": lambda z: _turned_back(_asin(_turned(z))),
    "arccosh": _acosh,
    "arctanh": _atanh,
    "sign": _sign,
    "rint": _rint,
}
"""The functions of real numbers that complex ones have too, by NumPy's names."""


# Order: by the real parts, of equal ones by the imaginary parts


def ordered(predicate: str, x: Tracer, y: Tracer) -> Tracer:
    """x > y and the like."""
    if predicate in ("lt", "le"):
        x, y, predicate = y, x, {"lt": "gt", "le": "ge"}[predicate]
    (a, b), (c, d) = (real(x), imag(x)), (real(y), imag(y))
    known = logical_not(logical_or(isnan(b), isnan(d)))
    tie: Any = b > d if predicate == "gt" else b >= d
    return logical_or(logical_and(a > c, known), logical_and(equal(a, c), tie))


def extreme(function: str, x: Tracer, y: Tracer) -> Tracer:
    """The larger or smaller one; NaN where either is, or for fmax and fmin where both are."""
    first = ordered("ge" if function in ("maximum", "fmax") else "le", x, y)
    taken = isnan(y) if function.startswith("f") else isnan(x)
    return where(logical_or(taken, first), x, y)


__all__ = ["OF_COMPLEX", "extreme", "ordered"]
