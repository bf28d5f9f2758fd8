"""
How exact a float32 product is that is made of bf16 ones: each factor in three bf16 parts, six
products of parts on AMX tiles, beside the same sums by fused multiply-adds. Instructions are what
dialects/target/intrinsics.py says they mean, so that this runs on any machine.

    python -m benchmarks.bf16_parts
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.harness import Table
from mlc.dialects.dtypes import F32
from mlc.dialects.target.intrinsics import Intrinsic, row_named
from mlc.dialects.target.known import AMX

Array = np.ndarray[Any, Any]

ULP = 2.0**-24
SMALL = ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1))
"""Products of parts whose sums are kept apart from those of the leading ones."""


def parts(x: Array) -> list[Array]:
    """Three bf16 numbers whose sum is x, as far as their exponents reach."""
    found: list[Array] = []
    for _ in range(3):
        found.append(x.astype(ml_dtypes.bfloat16))
        x = x - found[-1].astype(np.float32)
    return found


def by_parts(a: Array, b: Array, row: Intrinsic) -> Array:
    """a @ b by six products of parts, small ones in sums of their own."""
    left, right, depth = parts(a), parts(b), row.shape[2]
    large = np.zeros((a.shape[0], b.shape[1]), np.float32)
    small = np.zeros_like(large)
    for k in range(0, a.shape[1], depth):
        here = slice(k, k + depth)
        for i, j in SMALL:
            small = row.semantics(small, left[i][:, here], right[j][here])
        large = row.semantics(large, left[0][:, here], right[0][here])
    return large + small


def factors(k: int) -> Iterator[tuple[str, Array, Array]]:
    """Distributions of both factors."""
    rng = np.random.default_rng(0)
    left, right = (16, k), (k, 16)
    normal = rng.standard_normal(left), rng.standard_normal(right)
    yield "normal", *normal
    yield "uniform in [0, 1)", rng.random(left), rng.random(right)
    spread = [2.0 ** rng.integers(-10, 10, shape) for shape in (left, right)]
    yield "exponents ± 10", normal[0] * spread[0], normal[1] * spread[1]
    half, other = rng.standard_normal((16, k // 2)), rng.standard_normal((k // 2, 16))
    yield "cancelling", np.hstack([half, -half]), np.vstack([other, other * (1 + 1e-5)])
    yield "Cauchy", rng.standard_cauchy(left), rng.standard_cauchy(right)
    yield "a few large", np.where(rng.random(left) < 1 / k, 1e6, normal[0]), normal[1]
    yield "times 1e-30", normal[0] * 1e-30, normal[1]
    yield "times 1e-35", normal[0] * 1e-35, normal[1]


def errors(depths: tuple[int, ...] = (32, 256, 2048)) -> Table:
    """Root mean square and largest error, in units of 2**-24 of the sum of |a| |b|."""
    table = Table(
        "float32 by bf16 parts: errors in 2^-24 of |a| |b|",
        ["factors", "k", "fma rms", "parts rms", "fma largest", "parts largest"],
    )
    fma, tiles = row_named("fma", AMX, [F32] * 3), row_named("amx_bf16", AMX)
    for k in depths:
        for name, *given in factors(k):
            a, b = (x.astype(np.float32) for x in given)
            exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
            size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) * ULP
            zero = np.zeros((16, 16), np.float32)
            found = [fma.run(zero, a, b), by_parts(a, b, tiles)]
            off = [np.abs(x - exact).astype(np.float64) / size for x in found]
            rms = [f"{np.sqrt((x**2).mean()):.2f}" for x in off]
            table.add(name, k, *rms, *(f"{x.max():.2f}" for x in off))
    return table


if __name__ == "__main__":
    print(errors().text())
