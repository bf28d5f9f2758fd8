"""Loops of stencils: neighbours out of vectors that are read once, trips in waves; NumPy's bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mlc
from tests.plans import planned, spec

Array = np.ndarray


def five_points(a: Array, b: Array) -> tuple[Array, Array]:
    a, b = a.copy(), b.copy()
    for _ in range(3):
        b[1:-1, 1:-1] = 0.2 * (
            a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1]
        )
        a[1:-1, 1:-1] = 0.2 * (
            b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1]
        )
    return a, b


def far_neighbours(a: Array, b: Array) -> Array:
    """From 0 and from an odd place on, some of them many elements apart."""
    c = a[:, 5:] - a[:, :-5]
    d = c[:, 17:] * c[:, :-17] + c[:, 3:-14]
    b = b.copy()
    b[:, 3 : 3 + d.shape[1]] = d + b[:, : d.shape[1]]
    return b


def one_axis(a: Array, b: Array) -> Array:
    x = a.ravel()
    for _ in range(2):
        x = x[:-2] * x[1:-1] - x[2:]
    return x


STENCILS = (five_points, far_neighbours, one_axis)
SHAPES = ((3, 40), (5, 62), (4, 64), (7, 79), (6, 130), (3, 257))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("stencil", STENCILS)
def test_bits_of_numpy(stencil: Callable[..., Array], dtype: type) -> None:
    compiled = mlc.compile(stencil)
    for shape in SHAPES:
        if dtype is np.int32 and stencil is five_points:
            continue  # 0.2 times an integer is none
        rng = np.random.default_rng(shape[1])
        a, b = ((8 * rng.normal(size=shape)).astype(dtype) for _ in range(2))
        for found, expected in zip(_tuple(compiled(a, b)), _tuple(stencil(a, b)), strict=True):
            np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("columns", [33, 47, 48, 49, 64, 65, 100])
def test_sizes_that_only_a_call_knows(columns: int) -> None:
    compiled = mlc.compile(five_points).lower(spec("M", "N"), spec("M", "N")).compile()
    rng = np.random.default_rng(columns)
    a, b = (rng.normal(size=(5, columns)).astype(np.float32) for _ in range(2))
    for found, expected in zip(compiled(a, b), five_points(a, b), strict=True):
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_a_row_is_read_once() -> None:
    loops = planned(five_points, spec(256, 256), spec(256, 256), target="avx512").text("loops")
    (inner, *_) = [x for x in loops.split("scf.for")[1:] if "iter_args" in x]
    body = inner[: inner.index("scf.yield")]
    assert body.count("vector.load") == 3
    assert body.count("vector.shuffle") == 2
    narrow = planned(five_points, spec(256, 256), spec(256, 256), target="avx2").text("loops")
    assert "vector.shuffle" not in narrow


def _tuple(x: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return x if isinstance(x, tuple) else (x,)
