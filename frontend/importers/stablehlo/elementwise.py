# pyright: basic
"""
Ops of StableHLO that work element by element, as functions of arrays.

Where StableHLO and NumPy differ, StableHLO holds: integers divide towards zero and by zero without
an error, shifts past the width leave nothing. SOURCE: StableHLO specification.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np

import mlc.frontend.importers.special as special
from mlc.dialects.dtypes import is_real
from mlc.frontend.importers.stablehlo.program import Op, TensorKind
from mlc.frontend.importers.stablehlo.text import NARROW, numpy_of
from mlc.frontend.numpy.complexes import of_parts
from mlc.frontend.numpy.pcg64 import product_of_words
from mlc.frontend.numpy.values import lift

Array = Any


def _is_integer(x: Array) -> bool:
    return x.dtype.kind in "iu"


def _is_bool(x: Array) -> bool:
    return x.dtype.kind == "b"


def _divide(x: Array, y: Array) -> Array:
    if not _is_integer(x):
        return x / y
    one = np.ones_like(y)
    by = np.where(y == 0, one, y)
    down = x // by
    if x.dtype.kind == "i":
        rest = x - down * by
        up = (rest != 0) & ((x < 0) != (by < 0))
        down = down + up.astype(x.dtype)
    return np.where(y == 0, ~np.zeros_like(x), down)


def _remainder(x: Array, y: Array) -> Array:
    if not _is_integer(x):
        return np.fmod(x, y)
    by = np.where(y == 0, np.ones_like(y), y)
    return np.where(y == 0, x, x - _divide(x, by) * by)


def _power(x: Array, y: Array) -> Array:
    if not _is_integer(x):
        return x**y
    if x.dtype.kind == "u":
        return x**y
    negative = y < 0
    whole = x ** np.where(negative, np.zeros_like(y), y)
    odd = (y & 1) == 1
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0)).astype(x.dtype)
    return np.where(negative, inverse, whole)


def _shifted(shift: Callable[[Array, Array], Array]) -> Any:
    def apply(x: Array, y: Array) -> Array:
        outside = _unsigned(y) >= 8 * x.dtype.itemsize
        within = np.where(outside, np.zeros_like(y), y)
        return np.where(outside, np.zeros_like(x), shift(x, within))

    return apply


def _right_arithmetic(x: Array, y: Array) -> Array:
    """The first bit fills up from the left, of unsigned numbers as well."""
    most = 8 * x.dtype.itemsize - 1
    signed = np.dtype(f"i{x.dtype.itemsize}")
    by = np.minimum(_unsigned(y), _unsigned(y).dtype.type(most))
    return (x.view(signed) >> by.view(signed)).view(x.dtype)


def _unsigned(x: Array) -> Array:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _right_logical(x: Array, y: Array) -> Array:
    return (_unsigned(x) >> _unsigned(y)).view(x.dtype)


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size).astype(x.dtype))
    return np.sign(x)


def _leading_zeros(x: Array) -> Array:
    bits, left = 8 * x.dtype.itemsize, _unsigned(x)
    count = np.zeros_like(left)
    step = bits // 2
    found = left
    while step:
        high = found >> step
        empty = high == 0
        count = count + np.where(empty, step, 0).astype(left.dtype)
        found = np.where(empty, found, high)
        step //= 2
    return np.where(left == 0, bits, count).astype(x.dtype)


def _away_from_zero(x: Array) -> Array:
    down = np.trunc(x)
    return np.where(np.abs(x - down) >= 0.5, down + np.copysign(np.ones_like(x), x), down)


def _logistic(x: Array) -> Array:
    one = np.ones_like(x)
    return one / (one + np.exp(-x))


def _minimum(x: Array, y: Array) -> Array:
    return x & y if _is_bool(x) else np.minimum(x, y)


def _maximum(x: Array, y: Array) -> Array:
    return x | y if _is_bool(x) else np.maximum(x, y)


def _high_product(x: Array, y: Array) -> Array:
    """`mulhi`: the upper half of the bits of a product."""
    bits = 8 * x.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{x.dtype.kind}{2 * x.dtype.itemsize}")
        return ((x.astype(wide) * y.astype(wide)) >> wide.type(bits)).astype(x.dtype)
    a, b = _unsigned(x), _unsigned(y)
    found, _ = product_of_words(a, b)
    if x.dtype.kind == "i":  # a number below 0 was taken for one that is 2^64 more
        zero = np.zeros_like(a)
        found = found - np.where(x < 0, b, zero) - np.where(y < 0, a, zero)
    return found.view(x.dtype)


def _not(x: Array) -> Array:
    return ~x


def _complex(x: Array, y: Array) -> Array:
    return of_parts(lift(x, "complex"), lift(y, "complex"))


def _clamp(low: Array, x: Array, high: Array) -> Array:
    return _minimum(_maximum(x, low), high)


ROWS: Mapping[str, Callable[..., Array]] = {
    "abs": np.abs, "negate": lambda x: -x, "sign": _sign,
    "add": lambda x, y: x | y if _is_bool(x) else x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x & y if _is_bool(x) else x * y,
    "divide": _divide, "remainder": _remainder, "power": _power,
    "maximum": _maximum, "minimum": _minimum, "clamp": _clamp,
    "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "not": _not,
    "shift_left": _shifted(lambda x, y: x << y),
    "shift_right_logical": _shifted(_right_logical),
    "shift_right_arithmetic": _right_arithmetic,
    "popcnt": lambda x: np.bitwise_count(_unsigned(x)).astype(x.dtype),
    "count_leading_zeros": _leading_zeros,
    "exponential": np.exp, "exponential_minus_one": np.expm1, "log": np.log,
    "log_plus_one": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt, "sine": np.sin, "cosine": np.cos, "tan": np.tan, "tanh": np.tanh,
    "logistic": _logistic, "atan2": np.arctan2, "ceil": np.ceil, "floor": np.floor,
    "round_nearest_even": np.rint, "round_nearest_afz": _away_from_zero,
    "is_finite": np.isfinite, "real": lambda x: x.real, "imag": lambda x: x.imag,
    "complex": _complex,
    "select": np.where,
    "chlo.acos": np.arccos, "chlo.acosh": np.arccosh, "chlo.asin": np.arcsin,
    "chlo.asinh": np.arcsinh, "chlo.atan": np.arctan, "chlo.atanh": np.arctanh,
    "chlo.cosh": np.cosh, "chlo.sinh": np.sinh, "chlo.tan": np.tan, "chlo.conj": np.conj,
    "chlo.next_after": np.nextafter, "chlo.square": lambda x: x * x,
    "chlo.mulhi": _high_product,
    "chlo.is_inf": np.isinf, "chlo.is_pos_inf": lambda x: x == np.inf,
    "chlo.is_neg_inf": lambda x: x == -np.inf,
    **special.ROWS,
}  # fmt: skip
"""By name without the dialect where it is stablehlo."""

_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "EQ": lambda x, y: x == y, "NE": lambda x, y: x != y, "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y, "GT": lambda x, y: x > y, "GE": lambda x, y: x >= y,
}  # fmt: skip


def compare(op: Op, x: Array, y: Array) -> Array:
    """`compare LT, %x, %y, TOTALORDER`."""
    if op.get("compare_type") == "TOTALORDER" and is_real(x.dtype):
        x, y = ordered(x), ordered(y)
    return _COMPARISONS[op.get("comparison_direction")](x, y)


def ordered(x: Array) -> Array:
    """Integers in the total order of floating numbers: -NaN, -inf, …, -0, 0, …, inf, NaN."""
    whole = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    most = np.array(np.iinfo(whole.dtype).max, whole.dtype)
    return np.where(whole < 0, whole ^ most, whole)


def converted(x: Array, kind: TensorKind) -> Array:
    """`convert`: complex numbers lose their imaginary part, numbers other than 0 are true."""
    dtype = numpy_of(kind)
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b":
        return x != 0
    if kind.dtype in NARROW and not (_is_integer(x) or _is_bool(x)):  # the nearest that there is
        bits, signed = NARROW[kind.dtype], dtype.kind == "i"
        low = -(1 << bits - 1) if signed else 0
        return np.clip(x.astype(dtype), low, low + (1 << bits) - 1)
    return x.astype(dtype)


def bits_of(x: Array, kind: TensorKind) -> Array:
    """`bitcast_convert`, also to elements of another width."""
    dtype = numpy_of(kind)
    if "c" not in (x.dtype.kind, dtype.kind):
        return _same_bits(x, dtype)
    if x.dtype.kind != dtype.kind:
        raise ValueError(f"bits of {x.dtype} as {dtype}; expected complex numbers for complex ones")
    parts = np.stack([x.real, x.imag], -1)
    found = _same_bits(parts, np.dtype(f"f{dtype.itemsize // 2}"))
    return _complex(found[..., 0], found[..., 1])


def _same_bits(x: Array, dtype: np.dtype[Any]) -> Array:
    """A wider element is several narrow ones along a last axis, its lowest bits first."""
    if dtype.itemsize == x.dtype.itemsize:
        return x if x.dtype == dtype else x.view(dtype)
    own, other = np.dtype(f"u{x.dtype.itemsize}"), np.dtype(f"u{dtype.itemsize}")
    whole, width = x.view(own), 8 * min(own.itemsize, other.itemsize)
    if other.itemsize < own.itemsize:
        by = np.arange(8 * own.itemsize // width).astype(own) * own.type(width)
        return (whole[..., None] >> by).astype(other).view(dtype)
    wide = whole.astype(other)
    parts = [wide[..., k] << other.type(width * k) for k in range(8 * other.itemsize // width)]
    return reduce(operator.or_, parts).view(dtype)


def reduced_precision(op: Op, x: Array) -> Array:
    """`reduce_precision`: exponent and mantissa of so many bits."""
    exponent, mantissa = op.get("exponent_bits"), op.get("mantissa_bits")
    limits = ml_dtypes.finfo(x.dtype)
    full = limits.nexp, limits.nmant
    width = 8 * x.dtype.itemsize
    bits = _unsigned(x)
    kind = bits.dtype.type
    if mantissa < full[1]:
        cut = full[1] - mantissa
        last = bits >> kind(cut) & kind(1)
        bits = bits + (kind((1 << cut - 1) - 1) + last)
        bits = bits & kind(((1 << width) - 1) ^ ((1 << cut) - 1))
    sign = bits & kind(1 << width - 1)
    if exponent < full[0]:
        bias, small = (1 << full[0] - 1) - 1, (1 << exponent - 1) - 1
        size = bits & kind((1 << width - 1) - 1)
        top = kind(bias + small << full[1] | (1 << full[1]) - 1)
        least = kind(bias - small + 1 << full[1])
        infinite = kind((1 << full[0]) - 1 << full[1])
        bits = np.where(size > top, sign | infinite, np.where(size < least, sign, bits))
    return np.where(np.isnan(x), x, bits.view(x.dtype))
