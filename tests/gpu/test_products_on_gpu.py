"""
Products on a GPU that threads multiply: large ones of f32 and those of few rows, whose factors come
by copies; those of few results and convolutions, which are summed in parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.dtypes import BF16

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(5)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("letters", ["mk,kn->mn", "mk,nk->mn", "km,kn->mn", "km,nk->mn"])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1152, 1024, 16), (1152, 1024, 32), (1152, 1024, 400), (64, 64, 16), (192, 384, 80)],
)
def test_staged_products_of_f32(letters: str, m: int, n: int, k: int) -> None:
    sizes = {"m": m, "n": n, "k": k}
    words = letters.partition("->")[0].split(",")
    a, b = (normal(*(sizes[c] for c in word)) for word in words)

    @mlc.compile(target="cuda")
    def product(a: Any, b: Any) -> Any:
        return np.maximum(np.einsum(letters, a, b), 0)

    found = product(a, b)
    np.testing.assert_array_equal(found, product(a, b))
    wide = (x.astype(np.float64) for x in (a, b))
    np.testing.assert_allclose(found, np.maximum(np.einsum(letters, *wide), 0), atol=1e-4)


def test_a_large_product_of_strided_factors() -> None:
    a, b = normal(1024, 1030)[:, 3:1027], normal(1024, 1024).T
    product: Any = mlc.compile(target="cuda")(np.matmul)
    np.testing.assert_allclose(product(a, b), a.astype(np.float64) @ b, atol=1e-3)


@pytest.mark.parametrize("m", [1, 5, 16, 40, 72])
def test_products_of_few_rows(m: int) -> None:
    a, b = normal(m, 1024).astype(BF16.numpy), normal(1024, 512).astype(BF16.numpy)
    product: Any = mlc.compile(target="cuda")(np.matmul)
    found = product(a, b)
    np.testing.assert_array_equal(found, product(a, b))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=0.02, atol=0.2)


def test_factors_that_are_converted() -> None:
    a, b = normal(1024, 1024), normal(1024, 1024)

    @mlc.compile(target="cuda")
    def product(a: Any, b: Any) -> Any:
        return a.astype(BF16.numpy).astype(np.float32) @ b.astype(BF16.numpy).astype(np.float32)

    kept = (x.astype(BF16.numpy).astype(np.float64) for x in (a, b))
    np.testing.assert_allclose(product(a, b), np.matmul(*kept), atol=1e-2)


def test_staged_batches_of_f32() -> None:
    a, b = normal(5, 128, 48), normal(5, 48, 192)
    product: Any = mlc.compile(target="cuda")(np.matmul)
    np.testing.assert_allclose(product(a, b), a.astype(np.float64) @ b, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("letters", ["mk,kn->mn", "mk,nk->mn", "km,kn->mn", "bkm,bkn->bmn"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 256, 64), (37, 10, 9), (129, 65, 500), (64, 33, 5000), (5, 4, 70000)]
)
def test_products_of_few_results(letters: str, dtype: Any, m: int, n: int, k: int) -> None:
    sizes = {"m": m, "n": n, "k": k, "b": 3}
    words = letters.partition("->")[0].split(",")
    scale = 1 if np.issubdtype(dtype, np.floating) else 9
    a, b = ((scale * normal(*(sizes[c] for c in word))).astype(dtype) for word in words)
    row = normal(n).astype(dtype)

    @mlc.compile(target="cuda")
    def product(a: Any, b: Any, row: Any) -> Any:
        return np.maximum(np.einsum(letters, a, b) + row, 0)

    found = product(a, b, row)
    for _ in range(3):
        np.testing.assert_array_equal(found, product(a, b, row))
    wide = np.float64 if scale == 1 else dtype
    wanted = np.maximum(np.einsum(letters, a.astype(wide), b.astype(wide)) + row, 0)
    bound = {np.float32: 2e-6, np.float64: 1e-14}.get(dtype, 0) * k**0.5 * 8
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
@pytest.mark.parametrize(
    ("images", "side", "channels", "filters", "stride"),
    [(5, 9, 3, 8, 1), (2, 17, 16, 5, 2), (32, 8, 16, 32, 1), (2, 30, 64, 40, 1)],
)
def test_convolutions_and_their_gradients(
    layout: Any, images: int, side: int, channels: int, filters: int, stride: int
) -> None:
    last = layout == "channels_last"
    x = normal(images, side, side, channels) if last else normal(images, channels, side, side)
    w = normal(3, 3, channels, filters) if last else normal(filters, channels, 3, 3)

    def convolved(x: Any, w: Any) -> Any:
        return mlc.nn.conv(x, w, padding=1, stride=stride, layout=layout)

    def loss(x: Any, w: Any) -> Any:
        y = convolved(x, w)
        return (y * y).sum()

    found: Any = mlc.compile(target="cuda")(convolved)(x, w)
    wide = [v.astype(np.float64) for v in (x, w)]
    wanted: Any = mlc.compile(convolved)(*wide)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    gradient = mlc.grad(loss, argnums=(0, 1))
    pairs = zip(
        mlc.compile(target="cuda")(gradient)(x, w), mlc.compile(gradient)(*wide), strict=True
    )
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * np.abs(b).max())
