"""
Arithmetic of the reference where NumPy's depends on the machine: every step is rounded, none fused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.tensor.op import Array


def _where(condition: Any, x: Any, y: Any) -> Any:
    choose: Any = np.where
    return choose(condition, x, y)


def _parts(x: Any) -> tuple[Any, Any]:
    return x.real, x.imag


def _pair(real: Any, imag: Any, dtype: Any) -> Array:
    found: Any = np.empty(real.shape, dtype)
    found.real, found.imag = real, imag
    return found


def times(x: Array, y: Array) -> Array:
    """The product; of complex numbers from their parts, each product rounded."""
    if x.dtype.kind != "c":
        return x * y
    (a, b), (c, d) = _parts(x), _parts(y)
    return _pair(a * c - b * d, a * d + b * c, x.dtype)


def over(x: Array, y: Array) -> Array:
    """
    The quotient; of complex numbers the larger part of the divisor is divided by.

    SOURCE: Smith, "Algorithm 116: Complex division", CACM 5(8), 1962, as NumPy has it
    """
    if x.dtype.kind != "c":
        return x / y
    (a, b), (c, d) = _parts(x), _parts(y)
    by_real: Any = np.abs(c) >= np.abs(d)
    large, small = _where(by_real, c, d), _where(by_real, d, c)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    real = _where(by_real, a + b * ratio, a * ratio + b) * scale
    imag = _where(by_real, b - a * ratio, b * ratio - a) * scale
    zero: Any = (c == 0) & (d == 0)
    size: Any = np.abs(c)
    return _pair(_where(zero, a / size, real), _where(zero, b / size, imag), x.dtype)


def hypot(x: Array, y: Array) -> Array:
    """
    sqrt(x^2 + y^2); inf if either is infinite, even beside NaN. f32 in f64, f64 scaled by a power
    of 2 where squares would over- or underflow.
    """
    u, v = np.abs(x.astype(np.float64)), np.abs(y.astype(np.float64))
    infinite = np.isinf(u) | np.isinf(v)
    if x.dtype != np.float64:
        found = np.sqrt(u * u + v * v).astype(np.float32).astype(x.dtype)
        return _where(infinite, x.dtype.type(np.inf), found)
    larger = _where(v > u, v, u)
    down = _where(larger < 2.0**-450, 2.0**600, _where(larger > 2.0**500, 2.0**-600, 1.0))
    u, v = u * down, v * down
    return _where(infinite, np.inf, np.sqrt(u * u + v * v) / down)


def with_sign_of_zeros(found: Array, wins: Array, *, largest: bool) -> Array:
    """
    Extremes whose zeros have the sign that IEEE 754-2019 gives them: 0.0 is larger than -0.0.

    `wins`: where the zero that wins was met: 0.0 for the largest, -0.0 for the least.
    """
    if found.dtype.kind in "biu":
        return found
    winner, loser = (0.0, -0.0) if largest else (-0.0, 0.0)
    zeros: Any = _where(wins, found.dtype.type(winner), found.dtype.type(loser))
    return _where(found == 0, zeros, found)


def winning_zeros(x: Array, *, largest: bool) -> Array:
    """Where the array holds the zero that wins: 0.0 for the largest, -0.0 for the least."""
    return (x == 0) & (np.signbit(x) != largest)


def larger(x: Array, y: Array) -> Array:
    """The larger, or NaN; 0.0 is larger than -0.0 (IEEE 754-2019, maximum)."""
    found = np.maximum(x, y)
    if found.dtype.kind in "biu":
        return found
    wins = winning_zeros(x, largest=True) | winning_zeros(y, largest=True)
    return with_sign_of_zeros(found, wins, largest=True)


def smaller(x: Array, y: Array) -> Array:
    """The smaller, or NaN; -0.0 is smaller than 0.0 (IEEE 754-2019, minimum)."""
    found = np.minimum(x, y)
    if found.dtype.kind in "biu":
        return found
    wins = winning_zeros(x, largest=False) | winning_zeros(y, largest=False)
    return with_sign_of_zeros(found, wins, largest=False)


def extreme(x: Array, axes: tuple[int, ...], *, largest: bool) -> Array:
    """The largest or the least element along the axes, with the signs of `larger`, `smaller`."""
    found: Any = np.max(x, axis=axes) if largest else np.min(x, axis=axes)
    if x.dtype.kind in "biu":
        return found
    wins = np.any(winning_zeros(x, largest=largest), axis=axes)
    return with_sign_of_zeros(np.asarray(found), wins, largest=largest)
