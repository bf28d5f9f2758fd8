# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeArgument=false
# pyright: reportMissingImports=false
"""Columns in shares, squares of transpositions, several vectors a thread: edges of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mlc

pytestmark = pytest.mark.gpu

rng = np.random.default_rng(0)
DTYPES = ("float32", "float64", "int32", "float16", "complex64", "bool")


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small whole numbers, whose sums are exact."""
    return rng.integers(0, 3, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4096, 96), (5000, 33), (2, 3000, 64), (700, 1), (1, 700)])
def test_columns(shape: tuple[int, ...], dtype: str) -> None:
    x = numbers(shape, dtype)
    total = mlc.compile(lambda x: x.sum(-2), target="cuda")(x)
    wide = x.sum(-2, dtype="complex128" if dtype == "complex64" else "float64")
    np.testing.assert_array_equal(total, wide.astype(total.dtype))  # f16 is summed in f32
    if dtype == "complex64":
        return
    for function in (lambda x: x.max(-2), lambda x: x.argmax(-2)):
        np.testing.assert_array_equal(mlc.compile(function, target="cuda")(x), function(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(64, 128), (100, 36), (33, 65), (3, 48, 40), (8, 8)])
def test_transpositions(shape: tuple[int, ...], dtype: str) -> None:
    x = numbers(shape, dtype)
    y = numbers((*shape[:-2], shape[-1], shape[-2]), dtype)

    def turned(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.swapaxes(x, -1, -2) + y

    np.testing.assert_array_equal(mlc.compile(turned, target="cuda")(x, y), turned(x, y))


@pytest.mark.parametrize("size", [1 << 23, (1 << 23) + 1, (1 << 23) + 4, (1 << 23) - 4096 + 3])
def test_long_vectors(size: int) -> None:
    x = numbers((size,), "float32")
    call: Callable[[np.ndarray], np.ndarray] = mlc.compile(lambda x: x * 2 + 1, target="cuda")
    np.testing.assert_array_equal(call(x), x * 2 + 1)


def test_calls_made_again_on_arrays_of_another_library() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch")
    call = mlc.compile(lambda x, y: x @ y + y.sum(), target="cuda")
    kept = []
    for n in (8, 16, 8, 8, 16, 24):
        x, y = (torch.randn(n, n, device="cuda", dtype=torch.float64) for _ in range(2))
        kept.append((call(x, y), x @ y + y.sum()))
    for got, expected in kept:
        torch.testing.assert_close(got, expected)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.testing.assert_close(call(x, y), x @ y + y.sum())
    with pytest.raises(TypeError, match="detach"):
        call(x.requires_grad_(), y)
