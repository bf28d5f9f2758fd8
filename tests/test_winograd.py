"""Convolutions of windows of 3 x 3 with numerics "fast": what 16 products add up to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.plans import planned


def channels_first(x: Any, w: Any) -> Any:
    _, _, h, width = x.shape
    return sum(
        np.einsum("ncyx,fc->nfyx", x[:, :, i : h - 2 + i, j : width - 2 + j], w[:, :, i, j])
        for i in range(3)
        for j in range(3)
    )


def channels_last(x: Any, w: Any) -> Any:
    _, h, width, _ = x.shape
    return sum(
        np.einsum("nyxc,cf->nyxf", x[:, i : h - 2 + i, j : width - 2 + j], w[i, j])
        for i in range(3)
        for j in range(3)
    )


def loss(x: Any, w: Any) -> Any:
    return np.sum(np.tanh(channels_first(x, w)))


Shape = tuple[int, ...]
CASES: dict[str, tuple[Callable[..., Any], Shape, Shape, str]] = {
    "even": (channels_first, (2, 256, 16, 14), (256, 256, 3, 3), "f4"),
    "odd": (channels_first, (2, 256, 15, 17), (320, 256, 3, 3), "f4"),
    "f64": (channels_first, (2, 256, 14, 15), (256, 256, 3, 3), "f8"),
    "channels last": (channels_last, (2, 15, 14, 256), (3, 3, 256, 256), "f4"),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_convolutions(name: str) -> None:
    function, data, weights, dtype = CASES[name]
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in (data, weights))
    exact = function(x.astype("f8"), w.astype("f8"))
    text = planned(function, x, w, target="avx512", numerics="fast").text("tensor")
    assert text.count("mlc.contract") == 16
    assert "mlc.conv " not in text
    found = mlc.compile(numerics="fast", threads=2)(function)(x, w)
    assert found.dtype == x.dtype
    error = np.abs(found - exact).max() / np.abs(exact).max()
    assert error < (1e-5 if dtype == "f4" else 1e-13)


def test_gradients_are_those_of_the_convolution() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 160, 16, 16)).astype(np.float32)
    w = (rng.standard_normal((160, 160, 3, 3)) / 40).astype(np.float32)
    gradient = mlc.grad(loss, argnums=(0, 1))
    for fast, known in zip(
        mlc.compile(numerics="fast")(gradient)(x, w), mlc.compile(gradient)(x, w), strict=True
    ):
        np.testing.assert_allclose(fast, known, atol=2e-4 * np.abs(known).max())
