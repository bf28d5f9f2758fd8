"""
Arithmetic as instructions do it, on NumPy arrays: one rounding for a product and a sum, subnormal
numbers taken as zero, rounding to odd.

SOURCE: Boldo, Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", IEEE Transactions on Computers 57(4), 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LEAST = 2.0**-126  # normal numbers of float32
_TINY = _LEAST - 2.0**-151  # below it, a number rounded to 24 bits is tiny
_SPLIT = 2.0**27 + 1  # halves of a double


def fused(x: Array, y: Array, z: Array) -> Array:
    """x * y + z with one rounding, in the arrays' dtype: float32 or float64 (2**±900 at most)."""
    with np.errstate(all="ignore"):
        if z.dtype == np.float32:
            return _fused_in_double(x, y, z).astype(np.float32)
        high, low = _two_product(x, y)
        plain = high + z
        upper, lower = _two_sum(z, low)
        first, second = _two_sum(high, upper)
        exact = first + odd_sum(lower, second)
        return np.where(np.isfinite(plain) & np.isfinite(exact), exact, plain)


def fused_flushing(x: Array, y: Array, z: Array) -> Array:
    """The same in float32; subnormal numbers count as zero, and results are never subnormal."""
    with np.errstate(all="ignore"):
        return flushed(_fused_in_double(normal(x), normal(y), normal(z)))


def flushing_sum(x: Array, y: Array) -> Array:
    """x + y in float32, subnormal numbers as zero."""
    with np.errstate(all="ignore"):
        return flushed(odd_sum(*(normal(v).astype(np.float64) for v in (x, y))))


def odd_flushing_sum(x: Array, y: Array) -> Array:
    """x + y in float32 rounded to odd, subnormal numbers as zero, overflow as infinity."""
    with np.errstate(all="ignore"):
        exact = odd_sum(*(normal(v).astype(np.float64) for v in (x, y)))
        near = exact.astype(np.float32)
        bits = near.view(np.int32)
        beyond = np.abs(near.astype(np.float64)) > np.abs(exact)
        toward_zero = np.where(beyond, bits - 1, bits)
        odd = np.where(near.astype(np.float64) != exact, toward_zero | 1, bits)
        rounded = np.where(np.abs(exact) < 2.0**128, odd, bits).astype(np.int32).view(np.float32)
        return np.where(np.abs(exact) < _LEAST, np.copysign(np.float32(0), near), rounded)


def normal(x: Array) -> Array:
    """float32, zero of the same sign where it was subnormal."""
    wide = x.astype(np.float32)
    return np.where(np.abs(wide) < _LEAST, np.copysign(np.float32(0), wide), wide)


def flushed(exact: Array) -> Array:
    """Doubles rounded to float32; zero where that would be tiny."""
    near = exact.astype(np.float32)
    return np.where(np.abs(exact) < _TINY, np.copysign(np.float32(0), near), near)


def odd_sum(x: Array, y: Array) -> Array:
    """x + y in float64: exact, or the neighbour whose last bit is 1; overflow gives infinity."""
    total, error = _two_sum(x, y)
    bits = total.view(np.int64)
    away = (error > 0) == (total > 0)
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error) & (bits & 1 == 0)
    return np.where(inexact, np.where(away, bits + 1, bits - 1), bits).view(np.float64)


def _fused_in_double(x: Array, y: Array, z: Array) -> Array:
    """The product of float32 is exact in a double, and a sum rounded to odd there rounds again."""
    product = x.astype(np.float64) * y.astype(np.float64)
    return odd_sum(*np.broadcast_arrays(product, z.astype(np.float64)))


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    product = x * y
    (a, b), (c, d) = _halves(x), _halves(y)
    return product, ((a * c - product) + a * d + b * c) + b * d


def _halves(x: Array) -> tuple[Array, Array]:
    upper = _SPLIT * x
    upper = upper - (upper - x)
    return upper, x - upper
