"""Whole numbers that trips hand on and combine last (`mlc-combine-late`): the bits of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc


def distances(a: Any, b: Any) -> Any:
    d = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    d[:, 0] = np.arange(len(a) + 1)
    d[0, :] = np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d


def backwards(a: Any, b: Any) -> Any:
    d = np.zeros(len(a) + 1, np.int8)
    for i in range(len(a) - 1, -1, -1):
        d[i] = d[i + 1] + a[i] * b[i] + a[i]
    return d


def carried(a: Any, b: Any) -> Any:
    total, bits, product = np.int64(3), np.int64(0), np.int64(1)
    for i in range(len(a)):
        total = total + a[i] + b[i]
        bits = bits ^ a[i] ^ (b[i] + 1)
        product = product * a[i] * (2 + b[i])
    return total, bits, product


PROGRAMS: list[tuple[Callable[..., Any], str]] = [
    (distances, "i8"), (backwards, "i1"), (carried, "i8")
]  # fmt: skip


@pytest.mark.parametrize(("f", "dtype"), PROGRAMS)
def test_programs(f: Callable[..., Any], dtype: str) -> None:
    rng = np.random.default_rng(5)
    function = mlc.compile(f, dynamic=True)
    for sizes in ((40, 40), (1, 1), (0, 0)):
        given = [rng.integers(-9, 9, n).astype(dtype) for n in sizes]
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(function(*given), f(*given))
