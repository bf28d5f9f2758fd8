"""Arrays to compute with, and how far a result may lie from the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dtypes import DType

Array = NDArray[Any]
Fill = Callable[[np.random.Generator, DType, tuple[int, ...]], Array]
"""(generator, dtype, shape) -> array"""


def limits(dtype: np.dtype[Any]) -> Any:
    """finfo, of ml_dtypes' dtypes too."""
    finfo: Any = ml_dtypes.finfo
    return finfo(dtype)


def specials(dtype: DType) -> Array:
    """The values at which arithmetic of a dtype is decided by a rule of its own."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.is_integer:
        low, high = int(dtype.lowest), int(dtype.highest)
        ends = [low, low + 1, high // 2, high // 2 + 1, high, high - 1]
        found = [0, 1, 2, 3, 7, *((-1, -2, -7) if low else (4, 100)), *ends]
        return np.array(found, dtype.numpy)
    if dtype.stores_integers:
        return np.arange(dtype.lowest, dtype.highest + 1).astype(dtype.numpy)
    if dtype.kind == "complex":
        parts = np.array([0.0, -0.0, 1.0, -2.5, np.nan, np.inf, -np.inf, 3e30])
        return np.array([complex(x, y) for x in parts for y in parts], dtype.numpy)
    info = limits(dtype.numpy)
    numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 88.0, -104.0, 2.0**31, -(2.0**31), 2.0**63]
    numbers += [np.nan, np.inf, -np.inf, float(info.max), float(info.min)]
    tiny = float(info.smallest_subnormal)
    numbers += [float(info.tiny), tiny, -tiny, 3 * tiny]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(numbers).astype(dtype.numpy)


def ordinary(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Finite numbers of moderate size; integers of a few digits, with many ties."""
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.stores_integers:
        return rng.choice(specials(dtype), shape)
    if dtype.is_integer:
        return rng.integers(-9 if dtype.lowest else 0, 10, shape).astype(dtype.numpy)
    if dtype.kind == "complex":
        parts = (rng.standard_normal(shape) * 3 for _ in range(2))
        real, imag = parts
        return np.asarray(real + 1j * imag).astype(dtype.numpy)
    return (rng.standard_normal(shape) * 3).astype(dtype.numpy)


def anything(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Ordinary numbers with a quarter of special ones among them."""
    special = specials(dtype)[rng.integers(0, len(specials(dtype)), shape)]
    return np.where(rng.random(shape) < 0.25, special, ordinary(rng, dtype, shape))


def ties(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Few different values, and NaN now and then in floats."""
    found = rng.integers(0, 4, shape).astype(dtype.numpy)
    if dtype.kind == "float":
        return np.where(rng.random(shape) < 0.02, np.nan, found.astype(np.float32)).astype(
            dtype.numpy
        )
    return found


def near_one(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Factors whose product neither over- nor underflows."""
    if not dtype.is_inexact:
        return ordinary(rng, dtype, shape)
    return (1 + rng.uniform(-0.1, 0.1, shape)).astype(dtype.numpy)


def comparable(x: Array) -> Array:
    """Floats that NumPy knows little of (bf16, fp8, and f16's NaN) as f32, which holds them all."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind not in "biu" else x


@dataclass(frozen=True)
class Exact:
    """Bit for bit; NaN equals NaN. `signed_zero`: 0.0 and -0.0 differ."""

    signed_zero: bool = True

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        if got.dtype.kind == "c":
            self.check(np.real(got), np.real(want), arrays)
            self.check(np.imag(got), np.imag(want), arrays)
            return
        got, want = comparable(got), comparable(want)
        np.testing.assert_array_equal(got, want)
        if self.signed_zero and want.dtype.kind == "f":
            zeros = want == 0
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@dataclass(frozen=True)
class Ulps:
    """At most `bound` units in the last place from the true value; the same NaN, inf and sign."""

    bound: float  # SOURCE: docstrings of the functions in passes/math
    function: Callable[..., Array]

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):
            true = self.function(*(x.astype(np.longdouble) for x in arrays))
            rounded = true.astype(want.dtype)
            unit = np.spacing(np.abs(rounded)).astype(np.longdouble)
            distance = np.abs(got.astype(np.longdouble) - true)
            error = distance / unit
        ordinary_ = np.isfinite(rounded) & np.isfinite(got)
        np.testing.assert_array_equal(got[~ordinary_], rounded[~ordinary_])
        worst = float(np.max(error[ordinary_], initial=0.0))
        assert worst <= self.bound, f"{worst:.2f} ulp; the stated bound is {self.bound}"
        signed = ordinary_ & (np.abs(rounded) >= np.finfo(want.dtype).tiny) | (rounded == 0)
        signed &= got != 0  # a subnormal may round to zero, which has its sign or not
        np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(rounded[signed]))


@dataclass(frozen=True)
class Steps:
    """At most `bound` representable numbers away: f16 and bf16 results that are rounded twice."""

    bound: int

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        nan = np.isnan(comparable(want))
        np.testing.assert_array_equal(np.isnan(comparable(got)), nan)
        worst = np.max(np.abs(_rank(got) - _rank(want))[~nan], initial=0)
        assert worst <= self.bound, f"{worst} representable numbers away"


def _rank(x: Array) -> Array:
    """The number of a 16-bit float in the order of all of them."""
    bits = np.ascontiguousarray(x).view(np.int16).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


@dataclass(frozen=True)
class Relative:
    """|got - want| <= bound * eps * |want|; the same inf and NaN."""

    bound: float

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        rtol = self.bound * float(np.finfo(want.dtype).eps)
        least = 2 * float(np.finfo(want.dtype).smallest_subnormal)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=least)


@dataclass(frozen=True)
class OfLargest:
    """|got - want| <= bound * eps * the largest |want| of a row; the same inf and NaN."""

    bound: float

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        size = np.max(np.abs(want), axis=-1, keepdims=True, initial=0, where=np.isfinite(want))
        with np.errstate(invalid="ignore"):
            near = np.abs(got - want) <= self.bound * float(np.finfo(want.dtype).eps) * size
        np.testing.assert_array_equal(np.where(near, want, got), want)


@dataclass(frozen=True)
class Complex:
    """|got - want| <= bound * eps * |want|, as points of the plane; the same inf and NaN."""

    bound: float

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        finite = np.isfinite(want)
        for a, b in ((np.real(got), np.real(want)), (np.imag(got), np.imag(want))):
            np.testing.assert_array_equal(a[~finite], b[~finite])
        wide, true = got[finite].astype(np.clongdouble), want[finite].astype(np.clongdouble)
        error = np.abs(wide - true) - self.bound * np.finfo(want.dtype).eps * np.abs(true)
        least = 8 * np.finfo(want.dtype).smallest_subnormal
        assert np.max(error, initial=0.0) <= least, f"beyond the bound by {np.max(error)}"


@dataclass(frozen=True)
class Sums:
    """
    |got - true| <= 4 * eps * sqrt(K) * (the same sum of magnitudes); `count` gives K.

    `true` is the sum in f64, `want` where `scale_only`: `total` then gives magnitudes alone. (A
    reference that adds one f32 after the other may itself lie further from the sum of equal terms.)
    """

    total: Callable[..., Array]
    count: Callable[[Sequence[Array], Array], int]
    signed_zero: bool = True
    scale_only: bool = False

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        terms = max(self.count(arrays, want), 1)
        eps = float(limits(want.dtype).eps)
        scale = self.total(*(np.abs(x).astype(np.float64) for x in arrays))
        assert got.shape == want.shape
        got, want = comparable(got), comparable(want)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite], want[~finite])
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            true = want if self.scale_only else self.total(*(x.astype(wide) for x in arrays))
            error = np.abs(got.astype(wide) - true)
        bound = np.broadcast_to(4 * eps * np.sqrt(terms) * scale, want.shape)
        if self.signed_zero and want.dtype.kind != "c":
            zero = (got == 0) & (want == 0)
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))
        worst = np.max((error - bound)[finite], initial=0.0)
        assert worst <= 0, f"a sum of {terms} terms is {worst} beyond its bound"


Tolerance = Exact | OfLargest | Ulps | Steps | Relative | Complex | Sums
