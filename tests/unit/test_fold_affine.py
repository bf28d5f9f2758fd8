"""Scales and shifts of channels as parts of weights: one product, and the stated bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import StringAttr

import mlc
from mlc import nn, registry

RNG = np.random.default_rng(9)
EPS = np.finfo(np.float32).eps


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def channels(v: Any) -> Any:
    return v.reshape(1, -1, 1, 1)


def normalized(x: Any, w: Any, mean: Any, var: Any, gamma: Any, beta: Any) -> Any:
    """Convolution and batch normalisation with given statistics."""
    y = nn.conv(x, w) - channels(mean)
    return y / np.sqrt(channels(var) + np.float32(1e-5)) * channels(gamma) + channels(beta)


def arguments() -> list[Any]:
    x, w, (mean, var, gamma, beta) = normal(4, 16, 34, 34), normal(32, 16, 3, 3), normal(4, 32)
    return [x, w, mean, np.abs(var) + np.float32(0.1), gamma, beta]


def test_convolution_and_batch_normalisation_are_one_kernel_on_the_images() -> None:
    executable = mlc.compile(normalized).lower(*arguments()).compile()
    plan = executable.plan()
    images = [k for k in plan.kernels if any("f32[4, 32, 32, 32]" in r for r in k.results)]
    assert [k.ops for k in images] == [("conv", "add")]
    assert not [copy for copy in plan.copies if copy.kind == "copy"]
    (said,) = [r for r in executable.remarks() if "reassociating" in r]
    assert "the scale is part of the weights" in said


def test_results_are_within_the_bound() -> None:
    """The error of a sum of 16 * 9 products and one term, of absolute values times |scale|."""
    x, w, mean, var, gamma, beta = arguments()
    found = mlc.compile(normalized)(x, w, mean, var, gamma, beta)
    wide = [a.astype(np.float64) for a in (x, w, mean, var, gamma, beta)]
    windows = np.lib.stride_tricks.sliding_window_view(wide[0], (3, 3), axis=(2, 3))
    exact, size = (
        np.einsum("ncyxij,fcij->nfyx", np.abs(windows) if a else windows, np.abs(v) if a else v)
        for a, v in ((False, wide[1]), (True, wide[1]))
    )
    scale = channels(wide[4] / np.sqrt(wide[3] + float(np.float32(1e-5))))
    exact = (exact - channels(wide[2])) * scale + channels(wide[5])
    size = (size + np.abs(channels(wide[2]))) * np.abs(scale) + np.abs(channels(wide[5]))
    assert np.all(np.abs(found - exact) <= (16 * 9 + 8) * EPS * size)


@pytest.mark.parametrize("numerics", ["strict", "standard"])
def test_strict_numbers_stay_as_written(numerics: str) -> None:
    module = mlc.compile(normalized).lower(*arguments()).module
    module.attributes["mlc.numerics"] = StringAttr(numerics)
    for name in ("mlc-canonicalize", "mlc-fold-affine"):
        registry.load(name)().apply(Context(), module)
    after = [op.name for op in module.walk()]
    is_last = after.index("mlc.conv") > max(k for k, x in enumerate(after) if x == "mlc.mul")
    assert is_last == (numerics == "standard")


def test_several_scales_are_one() -> None:
    """Few rows: the weights stay, and each element is multiplied and added once."""

    def f(x: Any, w: Any, a: Any, c: Any, d: Any, e: Any) -> Any:
        return e - ((x @ w + a) * c - d) / np.float32(3)

    given = [normal(64, 512), normal(512, 96), *(normal(96) for _ in range(4))]
    said = mlc.compile(f).lower(*given).compile().remarks()
    assert any("one scale and one shift for each channel" in text for text in said)
    np.testing.assert_allclose(mlc.compile(f)(*given), f(*given), rtol=1e-4, atol=1e-3)
