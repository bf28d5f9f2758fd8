"""Lanes of elementwise results lie along an axis that has several elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.plan import KernelOp

N = 37


def column(x: Any) -> Any:
    return np.exp(x[:, :1]) * 2


def columns(x: Any) -> Any:
    return np.exp(x[:, :1]) + x[:, 1:2]


def scaled(x: Any) -> Any:
    return (x * 2)[:, 0][:, None, None] * x[:1, :1, None]


def of_sums(x: Any) -> Any:
    return np.tanh(x.sum(1, keepdims=True) / x[:, :1])


def joined(x: Any) -> Any:
    return np.concatenate([x[:, 2:3], x[:, :1]], axis=0)


def written(x: Any) -> Any:
    y = x * 2
    y[3:30, 2:3] = x[4:31, :1] + 1
    return y


def padded(x: Any) -> Any:
    return np.pad(x[:, :1], ((2, 3), (0, 0)))


PROGRAMS = [column, columns, scaled, of_sums, joined, written]


@pytest.mark.parametrize("f", [*PROGRAMS, padded])
@pytest.mark.parametrize("rows", [1, 5, N])
def test_results_whose_last_axis_has_one_element(f: Any, rows: int) -> None:
    x = np.random.default_rng(3).random((max(rows, N * (f is written)), 8)).astype("f4")
    np.testing.assert_allclose(mlc.compile(threads=1)(f)(x), f(x), rtol=1e-5)


@pytest.mark.parametrize("target", ["avx2", "avx512"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_they_are_stored_in_vectors(f: Any, target: str) -> None:
    step = mlc.compile(target=target, threads=1)(f)
    loops = str(step.lower(np.ones((N, 8), np.float32)).levels.at("loops"))
    stores = [line for line in loops.splitlines() if "vector.store" in line and "x1xf32>" in line]
    assert stores or f is written
    assert "vector.maskedstore" in loops


@pytest.mark.parametrize(("shape", "axis"), [((N, 1), 0), ((N, 1, 1), 0), ((1, N), 1), ((1, 1), 1)])
def test_a_schedule_names_the_last_axis_of_several(shape: tuple[int, ...], axis: int) -> None:
    def f(x: Any) -> Any:
        return np.exp(x) + 1

    step = mlc.compile(target="avx512", threads=1)(f)
    plan = step.lower(np.ones(shape, np.float32)).levels.plan()
    (kernel,) = (op for op in plan.walk() if isinstance(op, KernelOp))
    assert kernel.schedule is not None
    assert kernel.schedule.data.vector_axis == axis
