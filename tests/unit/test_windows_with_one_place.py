# pyright: basic
"""Convolutions whose window has one place, beside what NumPy makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.plan import KernelOp
from mlc.frontend import nn

rng = np.random.default_rng(0)


def f32(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("numerics", ["strict", "standard"])
@pytest.mark.parametrize(
    ("image", "filters", "options"),
    [
        ((3, 3), (4, 5, 3, 3), {}),
        ((1, 1), (4, 5, 3, 3), {"padding": 1}),
        ((7, 6), (4, 5, 3, 2), {"stride": 8, "dilation": (2, 3)}),
        ((3, 9), (4, 5, 3, 3), {"stride": 2}),
        ((4, 3), (5, 1, 4, 3), {"groups": 5}),
        ((2, 2), (10, 1, 2, 2), {"groups": 5}),
    ],
)
def test_the_sums_are_those_of_windows(
    image: tuple[int, int], filters: tuple[int, ...], options: Any, numerics: Any
) -> None:
    x, w = f32(3, 5, *image), f32(*filters)

    def sums(x: Any, w: Any) -> Any:
        return nn.conv(x, w, **options)

    found = mlc.compile(sums, numerics=numerics)
    np.testing.assert_allclose(found(x, w), found.reference(x, w), rtol=1e-4, atol=1e-5)
    slope = mlc.grad(lambda w: (sums(x, w) ** 2).sum())(w)
    np.testing.assert_allclose(
        np.vdot(slope, w), 2 * (found.reference(x, w) ** 2).sum(), rtol=1e-4, atol=1e-4
    )


def test_lanes_are_along_what_lies_together_where_axes_of_one_element_follow() -> None:
    """Weights of windows of one element: (F, C, 1, 1) has its channels together."""

    def rows(x: Any, w: Any) -> Any:
        return np.einsum("nc,fcij->nf", x, w)

    specs = mlc.TensorSpec(2, 256), mlc.TensorSpec(512, 256, 1, 1)
    planned = mlc.compile(rows, target="avx2").lower(*specs).levels.plan()
    (kernel,) = (op for op in planned.walk() if isinstance(op, KernelOp))
    assert kernel.schedule is not None
    assert kernel.schedule.data.vector_axis == 2  # the channels
