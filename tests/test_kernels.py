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


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.scalar])
def test_loops_are_traced_few_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep they lie in one another."""
    made, insert = [0], Trace.insert

    def counted(trace: Trace, op: Operation) -> None:
        made[0] += 1
        insert(trace, op)

    monkeypatch.setattr(Trace, "insert", counted)
    kernel = KERNELS[name]
    for size in (kernel.small, kernel.full):
        made[0] = 0
        lowered: Any = mlc.compile(kernel.function).lower(*kernel.arguments(size))
        assert made[0] <= 3 * len(_ops(lowered))


def _ops(lowered: Any) -> list[str]:
    frame = ModuleOp | FuncOp | ReturnOp | YieldOp
    return [op.name for op in lowered.module.walk() if not isinstance(op, frame)]


@pytest.mark.parametrize("name", KERNELS)
def test_programs_are_as_long_for_few_trips_as_for_many(name: str) -> None:
    """What a trip computes stands there once, however many there are, and however they differ."""
    kernel = KERNELS[name]
    few, many = (
        mlc.compile(kernel.function).lower(*kernel.arguments(size))
        for size in (kernel.small, kernel.full)
    )
    assert _ops(few) == _ops(many)
