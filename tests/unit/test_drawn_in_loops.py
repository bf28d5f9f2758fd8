"""Generators that draw in loops of the program: NumPy's numbers, in NumPy's order."""
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.against_numpy import same

PROGRAMS: list[Callable[[int], Any]] = []


def program(function: Callable[[int], Any]) -> Callable[[int], Any]:
    PROGRAMS.append(function)
    return function


@program
def metropolis(n: int) -> Any:
    rng = np.random.default_rng(4)
    x, accepted, chain = 0.0, 0, np.empty(n)
    for k in range(n):
        step = x + rng.normal(0.0, 2.0)
        if np.log(rng.random()) < (x * x - step * step) / 2:
            x = step
            accepted += 1
        chain[k] = x
    return chain, accepted, rng.random()


@program
def ising(n: int) -> Any:
    rng = np.random.default_rng(1)
    spins, energy = rng.choice([-1, 1], (6, 6)), 0
    for _ in range(n):
        i, j, u = rng.integers(0, 6), rng.integers(6), rng.random()
        around = spins[(i + 1) % 6, j] + spins[i - 1, j] + spins[i, (j + 1) % 6] + spins[i, j - 1]
        cost = 2 * spins[i, j] * around
        if cost <= 0 or u < np.exp(-0.4 * cost):
            spins[i, j] *= -1
            energy += cost
    return spins, energy


@program
def walks(n: int) -> Any:
    rng = np.random.default_rng(3)
    out, total = np.zeros((6, n)), 0.0
    for i in range(6):
        x = rng.uniform(-1, 1)
        for t in range(n):
            x += rng.standard_normal()
            out[i, t] = x
        total += rng.random()
    return out, total, rng.integers(100)


@program
def left_early(n: int) -> Any:
    rng = np.random.default_rng(5)
    total = 0.0
    for k in range(n):  # noqa: B007 - read behind
        total += rng.random()
        if total > 7.0:
            break
    return total, k


@program
def arrays_of_a_trip(n: int) -> Any:
    rng = np.random.default_rng(0)
    x, w = rng.random((16, 3)), np.zeros(3)
    for _ in range(n):
        batch = rng.permutation(16)[:8]
        noise = rng.normal(w, 0.1)
        noise[0] = 1.0
        w = w + x[batch].T @ (1 - x[batch] @ w) / 64 + noise / 100
    return w


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("n", [3, 40])
def test_as_numpy(function: Callable[[int], Any], n: int) -> None:
    compiled = mlc.compile(function)
    for _ in range(2):
        same(compiled(n), function(n))


def test_loops_stay_loops() -> None:
    few, many = (mlc.compile(ising).lower(n).text("trace").count("mlc.") for n in (40, 4000))
    assert few == many


def test_what_values_decide_is_refused() -> None:
    def drawn_in_a_branch(x: Any) -> Any:
        rng, total = np.random.default_rng(0), 0.0
        for k in range(len(x)):
            if x[k] > 0:
                total += rng.random()
        return total

    def drawn_behind(x: Any) -> Any:
        rng, total = np.random.default_rng(0), 0.0
        for k in range(len(x)):
            total += rng.random()
            if total > x[k]:
                break
        return total + rng.random()

    for function in (drawn_in_a_branch, drawn_behind):
        with pytest.raises(mlc.NotSupportedError, match=r"rng\.random\(\(trips, n\)\)"):
            mlc.compile(function)(np.arange(50.0))
