"""How lanes are read: backwards, a few elements apart, rows whose number all lanes share."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc

Array = np.ndarray[Any, np.dtype[Any]]


def numbers(dtype: str, *shape: int) -> Array:
    """Different numbers of both signs where the dtype has them."""
    size = int(np.prod(shape))
    return (np.arange(size) * 7 % 101 - 50).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64", "bool"])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 17, 31, 33, 64, 65, 127, 1000])
def test_steps(dtype: str, n: int) -> None:
    x = numbers(dtype, n)

    @mlc.compile
    def steps(a: Array) -> tuple[Array, ...]:
        return tuple(a[::step].copy() for step in (-1, 2, 3, 4, 5, -2, -3))

    for found, step in zip(steps(x), (-1, 2, 3, 4, 5, -2, -3), strict=True):
        np.testing.assert_array_equal(found, x[::step])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("width", [1, 5, 16, 40, 100])
def test_rows(dtype: str, width: int) -> None:
    x = numbers(dtype, 30, width)
    i = np.array([3, -1, 29, 0, 3, -30])
    take = mlc.compile(lambda a, i: a[i])
    np.testing.assert_array_equal(take(x, i), x[i])
    for bad in (30, -31):
        with pytest.raises(IndexError, match="out of bounds"):
            take(x, np.array([0, bad, 1]))


def test_a_row_number_and_a_scalar_are_shared_by_all_lanes() -> None:
    x, i = numbers("float64", 8, 33), np.array([1, 0, 7])
    pick = mlc.compile(lambda a, i, s, t: a[i] * (s * t + s) + np.where(s > t, a[i], 0.0))
    s, t = np.float64(2.5), np.float64(-1.5)
    np.testing.assert_allclose(pick(x, i, s, t), x[i] * (s * t + s) + x[i], rtol=1e-14)


@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (4, 4)])
@pytest.mark.parametrize("offset", [-2, 0, 3])
def test_trace(shape: tuple[int, int], offset: int) -> None:
    x = numbers("int32", *shape)
    assert mlc.compile(lambda a: np.trace(a, offset))(x) == np.trace(x, offset)
    assert mlc.compile(dynamic=True)(lambda a: np.trace(a, offset))(x) == np.trace(x, offset)


@pytest.mark.parametrize("sizes", [(4, 4, 2), (17, 9, 5), (16, 16, 16), (30, 40, 63), (5, 300, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_narrow_products(sizes: tuple[int, int, int], dtype: str) -> None:
    m, k, n = sizes
    a, b, bias = numbers(dtype, 3, m, k), numbers(dtype, 3, k, n), numbers(dtype, n)
    product = mlc.compile(lambda a, b, c: a @ b + c)
    np.testing.assert_array_equal(product(a, b, bias), a @ b + bias)
    np.testing.assert_array_equal(product(a[0], b[0], bias), a[0] @ b[0] + bias)
    turned = np.ascontiguousarray(b[0].T)
    np.testing.assert_array_equal(product(a[0], turned.T, bias), a[0] @ b[0] + bias)
