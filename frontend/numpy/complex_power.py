"""Complex numbers to a power that is an array, or no small whole number."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.complex_parts import ComplexOp
from mlc.dialects.tensor.markers import StopGradientOp
from mlc.frontend.numpy.complexes import imag, real
from mlc.frontend.numpy.elementwise import (
    absolute,
    astype,
    clip,
    equal,
    exp,
    greater,
    isfinite,
    less,
    log,
    logical_and,
    logical_not,
    logical_or,
    where,
)
from mlc.frontend.numpy.elementwise_math import arctan2, cos, hypot, rint, sin
from mlc.frontend.numpy.elementwise_whole import bitwise_and, right_shift
from mlc.frontend.numpy.values import common_operands, result
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Parts = tuple[Tracer, Tracer]
WHOLE_BITS = 7
"""Whole exponents of so many bits are products; NumPy's, up to 100, are."""


def complex_power(x1: Any, x2: Any, dtype: DType) -> Tracer:
    """
    x1 ** x2: products for small whole exponents, else e^(x2 ln x1). To the power 0 it is 1; 0 to a
    power with a positive real part is 0, to any other one NaN.
    """
    base, exponent = (result(x) for x in common_operands("power", (x1, x2), dtype))
    z, w = (real(base), imag(base)), (real(exponent), imag(exponent))
    is_zero = logical_and(equal(z[0], 0), equal(z[1], 0))
    is_real = equal(w[1], 0)
    below = less(absolute(w[0]), float(1 << WHOLE_BITS))
    whole = logical_and(logical_and(is_real, below), equal(rint(w[0]), w[0]))
    fixed = result(here().emit(StopGradientOp, w[0].value))
    product = _product(z, fixed)
    plain = logical_and(whole, logical_not(_are_finite(*z, *product)))
    # of a whole exponent a factor of 1 is left, with the derivative by the exponent
    left = (where(whole, w[0] - fixed, w[0]), w[1])
    unusable = logical_or(is_zero, plain)
    rest = _polar((where(unusable, 1, z[0]), where(unusable, 0, z[1])), left)
    found = _chosen(plain, product, _chosen(whole, _times(product, rest), rest))
    at_zero = where(greater(w[0], 0), 0 * z[0], np.nan)
    undone = logical_and(is_zero, logical_not(logical_and(is_real, equal(w[0], 0))))
    re, im = _chosen(undone, (at_zero, at_zero), found)
    return result(here().emit(ComplexOp, re.value, im.value))


def _are_finite(*parts: Tracer) -> Tracer:
    found = isfinite(parts[0])
    for x in parts[1:]:
        found = logical_and(found, isfinite(x))
    return found


def _chosen(mask: Tracer, x: Parts, y: Parts) -> Parts:
    return where(mask, x[0], y[0]), where(mask, x[1], y[1])


def _times(x: Parts, y: Parts) -> Parts:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _product(z: Parts, exponent: Tracer) -> Parts:
    """To a whole power of `WHOLE_BITS` bits, by repeated squaring; a negative one divides 1."""
    most = float((1 << WHOLE_BITS) - 1)
    n = astype(clip(absolute(exponent), 0.0, most), np.int32)
    found = (0 * exponent + 1, 0 * exponent)
    for bit in range(WHOLE_BITS):
        odd = equal(bitwise_and(right_shift(n, bit), 1), 1)
        found = _chosen(odd, _times(found, z), found)
        if bit < WHOLE_BITS - 1:
            z = _times(z, z)
    size = hypot(found[0], found[1])
    inverse = (found[0] / size / size, 0 - found[1] / size / size)
    return _chosen(less(exponent, 0), inverse, found)


def _polar(z: Parts, w: Parts) -> Parts:
    """e^(w ln z), z not 0."""
    size, angle = log(hypot(z[0], z[1])), arctan2(z[1], z[0])
    scale, turn = exp(w[0] * size - w[1] * angle), w[0] * angle + w[1] * size
    return scale * cos(turn), scale * sin(turn)
