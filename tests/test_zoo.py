"""Every model of the benchmarks' zoo at its small size: compiled, and by the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from benchmarks.zoo import ZOO
from mlc.frontend.trace.containers import flatten


@pytest.mark.parametrize("name", ZOO)
def test_compiled_is_reference(name: str) -> None:
    model = ZOO[name]
    arrays = model.arrays("small")
    step: Any = mlc.compile(model.function)
    found, _ = flatten(step(*arrays))
    expected, _ = flatten(step.reference(*arrays))
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        limit = model.tolerance * max(float(np.abs(theirs).max()), 1.0)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=limit)
