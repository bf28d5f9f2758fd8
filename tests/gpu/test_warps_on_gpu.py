"""Products and convolutions that warps of a GPU multiply on tensor cores, beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.dtypes import named_dtype

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("guarded_memory")]
RNG = np.random.default_rng(11)
ERRORS = {"f64": 1e-12, "f32": 2e-3, "bf16": 1e-2, "f16": 2e-3}


def normal(dtype: str, *shape: int) -> Any:
    return RNG.standard_normal(shape).astype(named_dtype(dtype).numpy)


def nn(a: Any, b: Any) -> Any:
    return a @ b


def tt(a: Any, b: Any) -> Any:
    return np.maximum(a.T @ b.T, 0)


def check(f: Callable[..., Any], expected: Any, *arrays: Any, error: float) -> None:
    """Close to the norm, and the same bits twice."""
    call = mlc.compile(target="cuda", numerics="fast")(f)
    found = np.asarray(call(*arrays))
    np.testing.assert_array_equal(found.view(np.uint8), np.asarray(call(*arrays)).view(np.uint8))
    difference = np.linalg.norm(found.astype(np.float64) - expected)
    assert difference <= error * np.linalg.norm(expected)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("f", [nn, tt])
@pytest.mark.parametrize("size", [512, 1001])
def test_products(dtype: str, f: Callable[..., Any], size: int) -> None:
    a, b = normal(dtype, size, size), normal(dtype, size, size)
    expected = f(*(x.astype(np.float64) for x in (a, b)))
    check(f, expected, a, b, error=ERRORS[dtype])


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
def test_convolutions(dtype: str, layout: Any) -> None:
    last = layout == "channels_last"
    shapes = ((8, 30, 31, 24), (3, 3, 24, 40)) if last else ((8, 24, 30, 31), (40, 24, 3, 3))
    x, w = (normal(dtype, *shape) for shape in shapes)

    def convolve(x: Any, w: Any) -> Any:
        return mlc.nn.conv(x, w, layout=layout)

    axes, letters = ((1, 2), "nuvcij,ijcf->nuvf") if last else ((2, 3), "ncuvij,fcij->nfuv")
    wide: Any = x.astype(np.float64)
    windows: Any = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=axes)
    expected = np.einsum(letters, windows, w.astype(np.float64), optimize=True)
    check(convolve, expected, x, w, error=ERRORS[dtype])


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2"])
@pytest.mark.parametrize(("m", "n", "k"), [(512, 512, 512), (72, 136, 144)])
def test_factors_of_8_bits(dtype: str, m: int, n: int, k: int) -> None:
    a, b, scale = normal(dtype, m, k), normal(dtype, n, k), normal("f32", n)

    def scaled(a: Any, b: Any, scale: Any) -> Any:
        return (a.astype(np.float32) @ b.astype(np.float32).T) * scale

    expected = a.astype(np.float64) @ b.astype(np.float64).T * scale
    check(scaled, expected, a, b, scale, error=1e-3)
