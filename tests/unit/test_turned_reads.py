"""Pointwise kernels that read along another axis than they write."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.lowering.loops.turn import exchanges
from tests.unit.test_lane_loads import numbers

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.mark.parametrize("side", [2, 4, 8, 16])
@pytest.mark.parametrize("per_part", [1, 2, 4, 8, 16])
def test_a_square_is_turned(side: int, per_part: int) -> None:
    rows, steps = exchanges(side, per_part)
    registers = [[(row, column) for column in range(side)] for row in rows]
    for step in steps:
        registers = [[(registers[x] + registers[y])[k] for k in lanes] for x, y, lanes in step]
    assert registers == [[(row, column) for row in range(side)] for column in range(side)]


DTYPES = ["float32", "float64", "float16", "int8", "uint16", "int32", "int64", "bool", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposed(dtype: str) -> None:
    turned = mlc.compile(lambda x: (x.T + x.T, x.T.copy()))
    for shape in ((0, 40), (40, 0), (1, 1), (7, 70), (33, 1), (19, 67), (64, 128), (150, 131)):
        x = numbers(dtype, *shape)
        for found, expected in zip(turned(x), (x.T + x.T, x.T), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n", [5, 16, 30, 97])
def test_read_both_ways(n: int) -> None:
    x, y = numbers("float32", n, n), numbers("float64", n, n)
    both = mlc.compile(lambda x, y: (x + x.T) * y.T - x[::-1].T)
    np.testing.assert_array_equal(both(x, y), (x + x.T) * y.T - x[::-1].T)


def test_of_more_axes() -> None:
    x, y = numbers("float32", 3, 20, 6, 9), numbers("float32", 3, 6, 9, 20)
    moved = mlc.compile(lambda x, y: np.transpose(x, (0, 2, 3, 1)) * 2 + y)
    np.testing.assert_array_equal(moved(x, y), np.transpose(x, (0, 2, 3, 1)) * 2 + y)
    inner = mlc.compile(lambda x: np.swapaxes(x, 1, 3) + 1)
    z = numbers("int16", 2, 33, 3, 40)
    np.testing.assert_array_equal(inner(z), np.swapaxes(z, 1, 3) + 1)


def test_sizes_known_when_it_runs() -> None:
    turned = mlc.compile(lambda x, b: x.T * 2 + b, dynamic={"x": {0: "M", 1: "N"}, "b": {0: "M"}})
    for shape in ((3, 5), (64, 64), (65, 200), (300, 10), (1, 400)):
        x, b = numbers("float32", *shape), numbers("float32", shape[0])
        np.testing.assert_array_equal(turned(x, b), x.T * 2 + b)


def test_views_and_results_in_place() -> None:
    x = numbers("float32", 90, 160)
    add = mlc.compile(lambda x, y: x.T + y)
    for part in (x[::2, ::2], x[3:, 5:], x[:, ::-1], x.T):
        y = numbers("float32", *part.T.shape)
        np.testing.assert_array_equal(add(part, y), part.T + y)
    for _ in range(2):
        total = mlc.compile(lambda x: (x * 3 + 1).T + np.exp(x * 0).T)
        np.testing.assert_array_equal(total(x), (x * 3 + 1).T + 1)
