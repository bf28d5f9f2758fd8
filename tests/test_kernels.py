"""Kernels of benchmarks.kernels, unchanged and at their small size, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from benchmarks.kernels import KERNELS
from mlc.frontend.trace.containers import flatten


@pytest.mark.parametrize("name", KERNELS)
def test_is_numpy(name: str) -> None:
    kernel = KERNELS[name]
    ours, theirs = kernel.arguments(kernel.small), kernel.arguments(kernel.small)
    step: Any = mlc.compile(kernel.function)
    found, _ = flatten((step(*ours), ours))
    expected, _ = flatten((kernel.function(*theirs), theirs))
    for mine, other in zip(found, expected, strict=True):
        if other is not None:
            assert np.asarray(mine).dtype == np.asarray(other).dtype
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)
