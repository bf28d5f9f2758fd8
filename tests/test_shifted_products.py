"""Sums of products of shifted parts: one convolution, with the sums that NumPy has."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import mlc

Program = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]


def nchw(x: Any, w: Any) -> Any:
    out = 0.0
    for i, j in product(range(3), range(3)):
        out = out + np.einsum("kc,nchw->nkhw", w[:, :, i, j], x[:, :, i : i + 7, j : j + 9])
    return out


def nhwc(x: Any, w: Any) -> Any:
    """Strides 2 and 1, dilation 1 and 3, weights first."""
    parts = [
        x[:, i : i + 9 : 2, 3 * j : 3 * j + 6] @ w[i, j] for i, j in product(range(2), range(3))
    ]
    return sum(parts[1:], parts[0])


def line(x: Any, w: Any) -> Any:
    """The weights turned round, and terms that are no products."""
    terms = [x[4 - k : 15 - k] @ w[k] for k in range(5)]
    return terms[0] + (terms[1] + x[:11, :6]) + terms[2] + (terms[3] + terms[4]) + 1.0


def groups(x: Any, w: Any) -> Any:
    return sum(
        (np.einsum("ngcx,gfc->ngfx", x[..., k : k + 8], w[..., k]) for k in range(1, 4)),
        np.float32(0.5),
    )


def volume(x: Any, w: Any) -> Any:
    found = np.zeros((4, 5, 3, 6), np.float32)
    for a, b, c in product(range(2), range(3), range(2)):
        found = found + np.tensordot(x[a : a + 4, b : b + 5, c : c + 3], w[a, b, c], axes=1)
    return found


def one_row(x: Any, w: Any) -> Any:
    """Parts whose axis of size 1 is left out."""
    return x[1, 0:7] @ w[0] + x[1, 1:8] @ w[1]


def filters_last(x: Any, w: Any) -> Any:
    """The weights' window stands between their other axes."""
    return sum((np.einsum("xc,cf->fx", x[k : k + 6], w[:, k]) for k in range(4)), 0.0)


ONE: tuple[tuple[Program, Shapes], ...] = (
    (nchw, ((2, 5, 9, 11), (4, 5, 3, 3))),
    (nhwc, ((2, 10, 12, 5), (2, 3, 5, 4))),
    (line, ((15, 6), (5, 6, 6))),
    (groups, ((2, 3, 4, 12), (3, 5, 4, 5))),
    (volume, ((5, 7, 4, 5), (2, 3, 2, 5, 6))),
    (one_row, ((2, 8, 3), (2, 3, 4))),
    (filters_last, ((9, 5), (5, 4, 3))),
)


def _arrays(shapes: Shapes, dtype: type) -> list[Any]:
    rng = np.random.default_rng(7)
    return [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]


def _counts(f: Program, arrays: list[Any], **options: Any) -> tuple[int, int]:
    text = mlc.compile(target="avx512", **options)(f).lower(*arrays).text("tensor")
    return text.count(" = mlc.conv "), text.count(" = mlc.contract ")


@pytest.mark.parametrize(("f", "shapes"), ONE, ids=lambda x: getattr(x, "__name__", ""))
def test_grid_of_shifts_is_one_convolution(f: Program, shapes: Shapes) -> None:
    """No product is left, and small integers are summed without rounding, as by NumPy."""
    arrays = _arrays(shapes, np.float32)
    assert _counts(f, arrays) == (1, 0)
    np.testing.assert_array_equal(mlc.compile(f)(*arrays), f(*arrays))


def cross(x: Any, w: Any) -> Any:
    """Five of nine shifts."""
    at = ((1, 1), (0, 1), (1, 0), (2, 1), (1, 2))
    return sum((x[i : i + 5, j : j + 5] @ w[i, j] for i, j in at), 0.0)


def uneven(x: Any, w: Any) -> Any:
    return x[0:6] @ w[0] + x[1:7] @ w[1] + x[3:9] @ w[2]


def crossed(x: Any, w: Any) -> Any:
    """The shifts' order is not that of the weights."""
    return x[0:6] @ w[0] + x[1:7] @ w[2] + x[2:8] @ w[1]


def summed(x: Any, w: Any) -> Any:
    """The shifted axis is summed."""
    return x[:, 0:6] @ w[0] + x[:, 1:7] @ w[1]


NONE: tuple[tuple[Program, Shapes, int], ...] = (
    (cross, ((7, 7, 3), (3, 3, 3, 4)), 5),
    (uneven, ((9, 3), (3, 3, 4)), 3),
    (crossed, ((8, 3), (3, 3, 4)), 3),
    (summed, ((5, 7), (2, 6, 4)), 2),
)


@pytest.mark.parametrize(
    ("f", "shapes", "products"), NONE, ids=lambda x: getattr(x, "__name__", "")
)
def test_other_sums_stay(f: Program, shapes: Shapes, products: int) -> None:
    """What is no grid of shifts, in the order of the weights, is multiplied one by one."""
    arrays = _arrays(shapes, np.float32)
    assert _counts(f, arrays) == (0, products)
    np.testing.assert_array_equal(mlc.compile(f)(*arrays), f(*arrays))


def test_strict_sums_stay_in_order() -> None:
    """Sums that round keep their order with numerics "strict"; those of integers have none."""
    floats, integers = (_arrays(ONE[1][1], dtype) for dtype in (np.float32, np.int32))
    assert _counts(nhwc, floats, numerics="strict") == (0, 6)
    assert _counts(nhwc, integers, numerics="strict") == (1, 0)


def test_products_that_others_read_stay() -> None:
    """A product with another reader is computed by itself, so the others are no grid."""

    def f(x: Any, w: Any) -> Any:
        first = x[0:6] @ w[0]
        return first + x[1:7] @ w[1], first

    assert _counts(f, _arrays(((7, 3), (2, 3, 4)), np.float32)) == (0, 2)


def scaled(x: Any, w: Any, s: Any) -> Any:
    return np.maximum(nchw(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w) * s[:, None, None], 0)


def test_workers_share_one_convolution() -> None:
    """One kernel beside the padding's, and the same bits for every team."""
    rng = np.random.default_rng(3)
    shapes = ((3, 24, 7, 9), (17, 24, 3, 3), (17,))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    ones = [mlc.compile(threads=threads)(scaled)(*arrays) for threads in (1, 2, 3)]
    np.testing.assert_allclose(ones[0], scaled(*arrays), rtol=2e-5, atol=2e-5)
    for other in ones[1:]:
        np.testing.assert_array_equal(ones[0], other)
    low = mlc.compile(target="avx512", threads=3)(scaled).lower(*arrays)
    kernels = [k.ops for k in low.compile().plan().kernels]
    assert sum("conv" in ops for ops in kernels) == 1
    assert not any("contract" in ops for ops in kernels)


@pytest.mark.parametrize(("f", "shapes"), ONE[1:4], ids=lambda x: getattr(x, "__name__", ""))
def test_gradient_to_weights_is_one_convolution(f: Program, shapes: Shapes) -> None:
    """Its products have places in the gradient that are a grid; strict sums stay as they are."""

    def loss(x: Any, w: Any) -> Any:
        y: Any = f(x, w)
        return (y * y).sum()

    arrays = _arrays(shapes, np.float64)
    gradient = mlc.grad(loss, argnums=1)
    assert _counts(gradient, arrays) == (2, 0)
    found, strict = (mlc.compile(numerics=x)(gradient)(*arrays) for x in ("standard", "strict"))
    np.testing.assert_array_equal(found, strict)


def test_gradients_are_those_of_the_library() -> None:
    """Both gradients of a sum written by hand are those of the convolution that it is."""

    def by_hand(x: Any, w: Any) -> Any:
        y: Any = nchw(x, w)
        return (y * y).sum()

    def library(x: Any, w: Any) -> Any:
        y: Any = mlc.nn.conv(x, w)
        return (y * y).sum()

    arrays = _arrays(ONE[0][1], np.float64)
    found, wanted = (mlc.grad(f, argnums=(0, 1))(*arrays) for f in (by_hand, library))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def wide(x: Any, w: Any) -> Any:
    """Strides and dilation are equal, so a window moves along its sum as along the result."""
    return sum((np.einsum("e,g->ge", x[2 * k : 2 * k + 35 : 2], w[:, k]) for k in range(3)), 0.0)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("packed", ["pack(b, panels {n}), ", ""])
def test_blocks_of_a_window_leave_the_results_loops(packed: str, threads: int) -> None:
    n = 8  # of f64 two vectors of AVX2, one of AVX-512
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(40), rng.standard_normal((2, 3))
    words = f"[block(k, 2), {packed.format(n=n)}block(m, 4), register(m 2, n {n}), via(fma), "
    schedule = words + "edge(m, clamp)" + ("]" if packed else ", edge(n, mask)]")
    found: Any = mlc.compile(wide, schedule=schedule, threads=threads)(x, w)
    np.testing.assert_allclose(found, wide(x, w), rtol=1e-12, atol=1e-12)
