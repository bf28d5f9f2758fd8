"""argmax and argmin: ties, NaN, zeros of both signs and every length around the vector's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc

Array = np.ndarray[Any, np.dtype[Any]]


@mlc.compile(dynamic=True)
def positions(x: Array) -> tuple[Any, ...]:
    return x.argmax(), x.argmin(), x.reshape(1, -1).argmax(1), x.reshape(1, -1).argmin(1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 63, 64, 65, 127, 130, 1000, 16_385, 40_001])
def test_first_of_equals(dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    for x in (rng.integers(0, 5, n), rng.integers(0, 100, n), np.zeros(n), np.arange(n) % 120):
        found = positions(x.astype(dtype))
        expected = (x.argmax(), x.argmin(), x.argmax(), x.argmin())
        assert tuple(int(np.ravel(k)[0]) for k in found) == tuple(map(int, expected))


@pytest.mark.parametrize("n", [1, 5, 64, 67, 200, 20_000])
def test_first_nan_wins(n: int) -> None:
    rng = np.random.default_rng(n)
    for count in (1, 2, n):
        x = rng.standard_normal(n)
        x[rng.integers(0, n, count)] = np.nan
        first = int(np.isnan(x).argmax())
        assert [int(np.ravel(k)[0]) for k in positions(x)] == [first] * 4


def test_limits_and_signs_of_zero() -> None:
    for x in (np.full(100, -np.inf), np.full(100, np.inf), np.array([0.0, -0.0] * 50)):
        assert [int(np.ravel(k)[0]) for k in positions(x)] == [0] * 4
    lowest = np.full(100, np.iinfo(np.int64).min)
    assert [int(np.ravel(k)[0]) for k in positions(lowest)] == [0] * 4
    highest = np.full(100, np.iinfo(np.int64).max)
    assert [int(np.ravel(k)[0]) for k in positions(highest)] == [0] * 4
