"""Contractions with so much after them that their tiles wait in memory, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc


def update(a: Any, b: Any, p: Any, m: Any) -> Any:
    """A product, and an optimiser's step with it: more than LONG_EPILOGUE ops, two results."""
    g = a @ b
    m = p.dtype.type(0.5) * m + g
    ratio = m / (np.sqrt(m * m + 1) + 1)
    return p - ratio * ratio - np.abs(ratio) * g, m


def parameters_alone(a: Any, b: Any, p: Any, m: Any) -> Any:
    """The first result."""
    return update(a, b, p, m)[0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [
        (4, 8, 3),  # the rhs is read in place
        (15, 64, 10),
        (37, 70, 130),  # packed; neither rows nor columns fill their tiles
        (64, 600, 96),  # sums wait between blocks of the depth unless there are two results
        (700, 90, 17),
    ],
)
def test_products_with_an_update(
    dtype: Any, threads: int, rows: int, depth: int, columns: int
) -> None:
    rng = np.random.default_rng(rows)
    a, b, p, m = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((rows, depth), (depth, columns), (rows, columns), (rows, columns))
    )
    found = mlc.compile(threads=threads)(update)(a, b, p, m)
    one = mlc.compile(threads=threads)(parameters_alone)(a, b, p, m)
    expected = update(a, b, p, m)
    tolerance = 1e-10 if dtype is np.float64 else 1e-3
    for x, y in zip((*found, one), (*expected, expected[0]), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def test_rows_of_any_number() -> None:
    rng = np.random.default_rng(0)
    b, p, m = (rng.standard_normal(s) for s in ((40, 50), (50,), (50,)))
    f = mlc.compile(dynamic={"a": {0: "B"}})(update)
    for count in (1, 3, 9, 64, 100):
        a = rng.standard_normal((count, 40))
        for x, y in zip(f(a, b, p, m), update(a, b, p, m), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
