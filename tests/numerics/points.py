"""Where vector math is tested: over all bit patterns, and densely where functions vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Sample = Callable[[int], Array]


class Points:
    """Random points of one format."""

    def __init__(self, dtype: type[np.floating[Any]], seed: int) -> None:
        self.dtype = dtype
        self.limits = np.finfo(dtype)
        self.rng = np.random.default_rng(seed)
        self.log_max = float(np.log(float(self.limits.max)))

    def bits(self, count: int) -> Array:
        """All bit patterns alike: both signs, subnormals, infinities, NaN."""
        whole = self.rng.integers(0, 2**self.limits.bits, count, dtype=np.uint64)
        return whole.astype(f"u{self.limits.bits // 8}").view(self.dtype)

    def uniform(self, low: float, high: float) -> Sample:
        """Evenly from low to high."""
        return lambda count: self._rounded(self.rng.uniform(low, high, count))

    def _rounded(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return x.astype(self.dtype)

    def spread(self, low: float, high: float) -> Sample:
        """±2^e, e evenly from low to high."""

        def sample(count: int) -> Array:
            signs = self.rng.choice([-1.0, 1.0], count)
            return self._rounded(np.exp2(self.rng.uniform(low, high, count)) * signs)

        return sample

    def positive(self, low: float, high: float) -> Sample:
        """2^e, e evenly from low to high."""
        both = self.spread(low, high)
        return lambda count: np.abs(both(count))

    def around_one(self, low: float, high: float) -> Sample:
        """1 ± 2^e."""
        both = self.spread(low, high)
        return lambda count: (1 + both(count)).astype(self.dtype)

    def near(self, places: list[float]) -> Sample:
        """Near the places: relatively 2^-5 to half a unit in the last place from them."""
        distance = self.spread(-self.limits.nmant - 1, -5)

        def sample(count: int) -> Array:
            found = self.rng.choice(places, count)
            return (found + found * distance(count)).astype(self.dtype)

        return sample


def lgamma_zeros() -> list[float]:
    """Where |gamma(x)| = 1 for x < 0; from -18 on, nearer to an integer than any other double."""
    found: list[float] = []
    for n in range(2, 18):
        for side in (-0.5, 0.5):
            positive, other = -float(n), -n + side
            if math.lgamma(other) > 0:  # between -2 and -1 there is none
                continue
            while (middle := (positive + other) / 2) not in (positive, other):
                if math.lgamma(middle) > 0:
                    positive = middle
                else:
                    other = middle
            found.append(other)
    return found


def samples(name: str, p: Points) -> list[Sample]:
    """Samplers of a function of one argument."""
    top, digits = p.limits.maxexp - 1, p.limits.nmant
    bottom = int(p.limits.minexp) - digits
    logarithm = [p.uniform(0.5, 2), p.positive(bottom, top)]
    sine = [p.uniform(-7, 7), p.uniform(-1e5, 1e5), p.spread(0, top)]
    arc = [p.uniform(-1, 1), p.spread(-40, 0)]
    hyperbolic = [p.uniform(-p.log_max - 1, p.log_max + 1), p.uniform(-2, 2), p.spread(-40, 3)]
    table: dict[str, list[Sample]] = {
        "exp": [p.uniform(-p.log_max - digits, p.log_max + 1), p.uniform(-1, 1)],
        "exp2": [p.uniform(bottom - 2, top + 2), p.uniform(-2, 2)],
        "expm1": [p.uniform(-45, p.log_max + 1), p.uniform(-2, 2), p.spread(-60, 3)],
        "sigmoid": [p.uniform(-p.log_max - digits, 40), p.uniform(-3, 3)],
        "log": logarithm,
        "log2": logarithm,
        "log10": logarithm,
        "log1p": [p.uniform(-0.9999, 3), p.spread(-60, 0), p.positive(-10, top)],
        "sin": sine,
        "cos": sine,
        "tan": sine,
        "asin": arc,
        "acos": arc,
        "atan": [p.uniform(-4, 4), p.spread(-40, 40)],
        "sinh": hyperbolic,
        "cosh": hyperbolic,
        "tanh": [p.uniform(-10, 10), p.uniform(-1, 1), p.spread(-40, 3)],
        "asinh": [p.uniform(-3, 3), p.spread(-40, 60), p.spread(60, top)],
        "acosh": [p.uniform(1, 4), p.around_one(-digits, 3), p.positive(0, top)],
        "atanh": [p.uniform(-1, 1), p.spread(-40, 0), p.around_one(-digits, -1)],
        "erf": [p.uniform(-6, 6), p.spread(-60, 1)],
        "erfc": [p.uniform(-7, 11 if digits < 52 else 28), p.uniform(-1, 3)],
        "lgamma": [
            *(p.uniform(low, high) for low, high in ((0, 4), (0, 20), (-5, 0), (-50, 0))),
            *(p.positive(-40, top - 12), p.near(lgamma_zeros())),
        ],
        "cbrt": [p.uniform(0.5, 9)],
        "rsqrt": [p.uniform(0.5, 4)],
    }
    return [*table[name], p.bits]


def pairs(name: str, p: Points, count: int) -> list[tuple[Array, Array]]:
    """Arguments of a function of two."""
    top = p.limits.maxexp - 1
    found = [(p.bits(count), p.bits(count)), (p.uniform(-3, 3)(count), p.uniform(-3, 3)(count))]
    if name == "pow":
        wide, near = p.positive(p.limits.minexp, top)(count), p.around_one(-20, -1)(count)
        for x in (wide, np.abs(near)):
            with np.errstate(divide="ignore"):
                limit = p.log_max / np.abs(np.log(x.astype(np.float64)))
            y = np.clip(p.rng.uniform(-1.01, 1.01, count) * limit, -1e6, 1e6)
            found.append((x, y.astype(p.dtype)))
        whole = [np.round(p.uniform(-limit, limit)(count)) for limit in (20, 9)]
        found.append((whole[0], whole[1]))
    elif name == "fmod":
        found.append((p.spread(0, 100)(count), p.spread(-3, 3)(count)))
        found.append((p.spread(-20, 3)(count), p.spread(-149, -120)(count)))
    else:
        z = p.spread(-2, 2)(count)
        near = (z * p.rng.uniform(0.9, 1.1, count)).astype(p.dtype)
        found += [(p.spread(-3, 3)(count), p.spread(-3, 3)(count)), (z, near)]
    return found
