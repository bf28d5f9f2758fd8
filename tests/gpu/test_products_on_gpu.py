"""Products on a GPU whose factors come by copies: large ones of f32, and those of few rows."""

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
