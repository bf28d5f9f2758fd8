"""Products of float32 on tensor cores: `mlc.autocast` on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc

pytestmark = pytest.mark.gpu


def loss(w: Any, v: Any, x: Any, y: Any) -> Any:
    return ((np.maximum(x @ w, 0) @ v - y) ** 2).mean()


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("sizes", [(256, 128, 192, 64), (77, 50, 33, 9)])
def test_gradients_are_those_of_the_reference(dtype: str, sizes: tuple[int, ...]) -> None:
    n, a, b, c = sizes
    rng = np.random.default_rng(0)
    shapes = ((a, b), (b, c), (n, a), (n, c))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    f: Any = mlc.grad(mlc.autocast(dtype)(loss), argnums=(0, 1))
    compiled: Any = mlc.compile(f, target="cuda")
    expected: Any = mlc.compile(f)(*arrays)
    for mine, theirs in zip(compiled(*arrays), expected, strict=True):
        largest = np.abs(theirs).max()
        assert np.abs(np.asarray(mine) - theirs).max() <= 0.01 * largest
