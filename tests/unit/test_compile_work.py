"""What compiling takes, counted: programs for many sizes, ops that are made for those that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

import mlc
from mlc.dialects.tensor.op import TensorOp


def total(x: Any) -> Any:
    return (2 * x + 1).sum()


def test_a_thousand_sizes_are_one_program_and_the_first() -> None:
    compiled = mlc.compile(total)
    for n in range(1, 1001):
        assert compiled(np.ones(n)) == 3 * n
    assert len(compiled.stats().artifacts) == 2


def ema(x: Any) -> Any:
    s = x[0]
    for k in range(1000):
        s = 0.9 * s + 0.1 * x[k]
    return s


def kalman(x: Any) -> Any:
    p = np.eye(4)
    for _ in range(50):
        p = p @ p.T + np.eye(4)
        p = p / np.sqrt((p * p).sum())
    return p @ x[:4]


def unrolled(x: Any) -> Any:
    for k in range(8):
        x = x * k + x[::-1]
    return x


@pytest.mark.parametrize("function", [ema, kalman, unrolled])
def test_ops_are_traced_at_most_four_times(
    function: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, create = [0], vars(Operation)["create"].__func__

    def of(kind: type[TensorOp], **parts: Any) -> TensorOp:
        made[0] += 1
        return create(kind, **parts)

    monkeypatch.setattr(TensorOp, "create", classmethod(of))
    lowered = mlc.compile(function).lower(np.ones(1000))
    monkeypatch.undo()
    kept = sum(isinstance(op, TensorOp) for op in lowered.module.walk())
    assert kept <= made[0] <= 4 * kept
