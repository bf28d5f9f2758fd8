"""Arrays to compute with, and how far a result may lie from the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dtypes import DType

Array = NDArray[Any]
Fill = Callable[[np.random.Generator, DType, tuple[int, ...]], Array]
"""(generator, dtype, shape) -> array"""


def specials(dtype: DType) -> Array:
    """The values at which arithmetic of a dtype is decided by a rule of its own."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.kind == "int":
        low, high = int(dtype.lowest), int(dtype.highest)
        return np.array([0, 1, -1, 2, -2, 3, -7, low, low + 1, high, high - 1], dtype.numpy)
    info = np.finfo(dtype.numpy)  # pyright: ignore[reportArgumentType, reportCallIssue]
    found = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 88.0, -104.0, 2.0**31, -(2.0**31), 2.0**63]
    found += [np.nan, np.inf, -np.inf, float(info.max), float(info.min)]
    found += [float(info.tiny), float(info.smallest_subnormal), -float(info.smallest_subnormal)]
    return np.array(found, dtype.numpy)


def ordinary(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Finite numbers of moderate size; integers of a few digits, with many ties."""
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "int":
        return rng.integers(-9, 10, shape).astype(dtype.numpy)
    return (rng.standard_normal(shape) * 3).astype(dtype.numpy)


def anything(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Ordinary numbers with a quarter of special ones among them."""
    return np.where(
        rng.random(shape) < 0.25, rng.choice(specials(dtype), shape), ordinary(rng, dtype, shape)
    )


def ties(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Few different values, and NaN now and then in floats."""
    found = rng.integers(0, 4, shape).astype(dtype.numpy)
    if dtype.kind == "float":
        return np.where(rng.random(shape) < 0.02, np.nan, found).astype(dtype.numpy)
    return found


def near_one(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Factors whose product neither over- nor underflows."""
    if dtype.kind != "float":
        return ordinary(rng, dtype, shape)
    return (1 + rng.uniform(-0.1, 0.1, shape)).astype(dtype.numpy)


@dataclass(frozen=True)
class Exact:
    """Bit for bit; NaN equals NaN. `signed_zero`: 0.0 and -0.0 differ."""

    signed_zero: bool = True

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        np.testing.assert_array_equal(got, want)
        if self.signed_zero and want.dtype.kind == "f":
            zeros = want == 0
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@dataclass(frozen=True)
class Ulps:
    """At most `bound` units in the last place from the true value; the same NaN, inf and sign."""

    bound: float  # SOURCE: docstrings of passes/loop/elementary.py
    function: Callable[[Array], Array]

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):
            true = self.function(arrays[0].astype(np.longdouble))
            rounded = true.astype(want.dtype)
            unit = np.spacing(np.abs(rounded)).astype(np.longdouble)
            error = np.abs(got.astype(np.longdouble) - true) / unit
        ordinary_ = np.isfinite(rounded) & np.isfinite(got)
        np.testing.assert_array_equal(got[~ordinary_], rounded[~ordinary_])
        worst = float(np.max(error[ordinary_], initial=0.0))
        assert worst <= self.bound, f"{worst:.2f} ulp; the stated bound is {self.bound}"
        np.testing.assert_array_equal(np.signbit(got[ordinary_]), np.signbit(rounded[ordinary_]))


@dataclass(frozen=True)
class Sums:
    """|got - want| <= 4 * eps * sqrt(K) * (the same sum of magnitudes); `count` gives K."""

    magnitudes: Callable[..., Array]
    count: Callable[[Sequence[Array], Array], int]
    signed_zero: bool = True

    def check(self, got: Array, want: Array, arrays: Sequence[Array]) -> None:
        terms = max(self.count(arrays, want), 1)
        eps = float(np.finfo(want.dtype).eps)
        scale = self.magnitudes(*(np.abs(x).astype(np.float64) for x in arrays))
        assert got.shape == want.shape
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite], want[~finite])
        error = np.abs(got.astype(np.float64) - want.astype(np.float64))
        bound = np.broadcast_to(4 * eps * np.sqrt(terms) * scale, want.shape)
        if self.signed_zero:
            zero = (got == 0) & (want == 0)
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))
        worst = np.max((error - bound)[finite], initial=0.0)
        assert worst <= 0, f"a sum of {terms} terms is {worst} beyond its bound"


Tolerance = Exact | Ulps | Sums
