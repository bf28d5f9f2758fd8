"""Reductions down a few columns: lanes run over the columns and on to the next row."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import numpy as np
import pytest

import mlc
from tests.plans import RUNNABLE, planned, spec
from tests.unit.test_lane_loads import numbers

WIDTHS = (1, 2, 3, 6, 8, 20, 24, 40)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
@pytest.mark.parametrize("width", WIDTHS)
def test_columns(width: int, dtype: str) -> None:
    x = numbers(dtype, 5000, width)
    down = mlc.compile(lambda x: (x.sum(axis=0), x.max(axis=0), np.any(x, axis=0)), target=RUNNABLE)
    for found, expected in zip(down(x), (x.sum(0), x.max(0), np.any(x, 0)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_rows() -> None:
    down = mlc.compile(
        lambda x, y: (x * y).sum(axis=0) + np.einsum("ab,ab->b", x, y),
        dynamic={"x": {0: "N"}, "y": {0: "N"}},
    )
    for rows in (0, 1, 2, 15, 16, 17, 1000):
        x, y = numbers("float32", rows, 6), numbers("float32", rows, 6)
        np.testing.assert_array_equal(down(x, y), 2 * (x * y).sum(axis=0))


def test_of_more_axes_and_sizes_known_when_it_runs() -> None:
    middle = mlc.compile(lambda x: x.sum(axis=1), dynamic={"x": {1: "N"}})
    first = mlc.compile(lambda x: x.sum(axis=(0, 1)))
    pairs = mlc.compile(lambda x: x.sum(axis=0) * 2)
    for rows in (0, 1, 33, 200):
        x = numbers("float64", 3, rows, 4)
        np.testing.assert_array_equal(middle(x), x.sum(axis=1))
        np.testing.assert_array_equal(first(x), x.sum(axis=(0, 1)))
        np.testing.assert_array_equal(pairs(x.reshape(-1, 2, 3)), x.reshape(-1, 2, 3).sum(0) * 2)


def test_columns_that_differ_and_views() -> None:
    x, mean = numbers("float64", 500, 4), np.arange(4.0)
    spread = mlc.compile(lambda x, mean: ((x - mean) ** 2).sum(axis=0))
    np.testing.assert_array_equal(spread(x, mean), ((x - mean) ** 2).sum(axis=0))
    down = mlc.compile(lambda x: x.sum(axis=0))
    for part in (x[::2], x[:, ::-1], x[:, 1:3], np.asfortranarray(x)):
        np.testing.assert_array_equal(down(part), part.sum(axis=0))


@pytest.mark.parametrize(("width", "vectors"), [(2, 8), (6, 6), (24, 6), (28, 7), (32, 0), (13, 0)])
def test_vectors_hold_whole_rows(width: int, vectors: int) -> None:
    text = planned(lambda x: x.sum(axis=0), spec(1000, width), target="avx2").text("plan")
    assert (f"flat({vectors})" in text) == bool(vectors)
