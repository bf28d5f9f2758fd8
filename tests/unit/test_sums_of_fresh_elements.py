"""Sums in a nest of what it has just written: the last elements are read one by one."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from tests.plans import HOSTED, planned, spec

Array = Any


def lower_factor(a: Array) -> Array:
    a = a.copy()
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / a[j, j]
        a[i, i] = np.sqrt(a[i, i] - a[i, :i] @ a[i, :i])
        a[i, i + 1 :] = 0.0
    return a


def prefixes(a: Array, c: Array) -> Array:
    """Each number follows from all before it, and from a matrix that nobody writes."""
    x = c.copy()
    for i in range(1, x.shape[0]):
        x[i] = c[i] - a[i, :i] @ x[:i] + np.max(x[:i])
    return x


def rows_of(a: Array, c: Array) -> Array:
    x = c.copy()
    for i in range(1, x.shape[0]):
        x[i] = c[i] - a[i, :i] @ a[i - 1, :i]
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("target", HOSTED)
def test_any_length(target: str, dtype: str) -> None:
    r = np.random.default_rng(0)
    factor = mlc.compile(lower_factor, target=target)
    solved = mlc.compile(prefixes, target=target)
    for n in (1, 2, 7, 8, 9, 16, 31, 33, 70):
        a = r.standard_normal((n, n)).astype(dtype) / n
        c = r.standard_normal(n).astype(dtype)
        near = 1e-4 if dtype == "float32" else 1e-12
        spd = a @ a.T + np.eye(n, dtype=dtype)
        np.testing.assert_allclose(factor(spd), lower_factor(spd), rtol=near, atol=near)
        np.testing.assert_allclose(solved(a, c), prefixes(a, c), rtol=near, atol=near)


def test_no_vector_waits_for_the_last_store() -> None:
    text = planned(lower_factor, spec(64, 64), target="avx512").text("loops")
    assert "math.fma" in text
    assert "maskedload" not in text
    others = planned(rows_of, spec(64, 64), spec(64), target="avx512").text("loops")
    assert "maskedload" in others


def test_strict_has_the_references_bits() -> None:
    a = np.random.default_rng(1).standard_normal((40, 40)).astype(np.float32)
    a = a @ a.T + 40 * np.eye(40, dtype=np.float32)
    f = mlc.compile(lower_factor, numerics="strict")
    np.testing.assert_array_equal(f(a), f.reference(a))
