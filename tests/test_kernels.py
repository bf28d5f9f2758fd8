"""Kernels of benchmarks.kernels, unchanged: beside NumPy, and how often their loops are traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

import mlc
from benchmarks.kernels import KERNELS
from mlc.dialects.tensor.control import YieldOp
from mlc.frontend.trace.containers import flatten
from mlc.frontend.trace.trace import Trace


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


MOST_MADE = {"islands": 7, "smith_waterman": 8, "dijkstra": 5}
"""
Ops made for each that is kept, where they are more than 4: a list gets its room anew; that a best
value begins as a number of Python's and becomes one of NumPy's is found by tracing each loop again.
"""


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.scalar])
def test_loops_are_traced_few_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep they lie in one another."""
    made, insert = [0], Trace.insert

    def counted(trace: Trace, op: Operation) -> None:
        made[0] += 1
        insert(trace, op)

    monkeypatch.setattr(Trace, "insert", counted)
    kernel = KERNELS[name]
    lowered: Any = mlc.compile(kernel.function).lower(*kernel.arguments(kernel.full))
    kept = sum(
        not isinstance(op, ModuleOp | FuncOp | ReturnOp | YieldOp) for op in lowered.module.walk()
    )
    assert made[0] <= MOST_MADE.get(name, 4) * kept
