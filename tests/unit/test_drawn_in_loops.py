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


def rejection(x: Any) -> Any:
    rng, found = np.random.default_rng(7), np.zeros(6)
    for k in range(6):
        while True:
            u, v = 2 * rng.random() - 1, 2 * rng.random() - 1
            if u * u + v * v < x[k]:
                break
        found[k] = u
    return found, rng.integers(0, 9)


def acceptance(x: Any) -> Any:
    rng, at, accepted = np.random.default_rng(3), x[0], 0
    chain = np.zeros(40)
    for k in range(40):
        step = at + rng.standard_normal()
        if step * step < at * at or rng.random() < np.exp((at * at - step * step) / 2):
            at = step
            accepted += 1
        chain[k] = at
    return chain, accepted


def walk(x: Any) -> Any:
    rng, at, trips = np.random.default_rng(5), np.zeros(2), 0
    while np.abs(at).max() < 4 * x[1]:
        at += rng.normal(0.1, 0.5, 2)
        trips += 1
    return at, trips, rng.standard_normal(3)


def queue(x: Any) -> Any:
    rng, t, length, served = np.random.default_rng(1), 0.0, 0, 0
    while t < 20 * x[0]:
        t += rng.exponential(0.5)
        if rng.uniform(0, 1) < 0.6:
            length += 1
        elif length > 0:
            length -= 1
            served += rng.integers(1, 7)
    return t, length, served, rng.choice(5), rng.choice(3, 2, p=[0.2, 0.3, 0.5])


def kinds_of_draws(x: Any) -> Any:
    rng = np.random.default_rng(11)
    if x[0] > 0.5:
        rng.integers(0, 3)
    order = np.arange(7)
    for k in range(6, 0, -1):
        j = rng.integers(0, k + 1)
        order[k], order[j] = order[j], order[k]
    shuffled = x.copy()
    rng.shuffle(shuffled)
    wide = rng.integers(-5, 2**40), rng.integers(0, 3 * 2**61), rng.integers(0, 2**32)
    tall = rng.random((2, 2)), rng.random(np.int64(3)), rng.random([2, 0])
    return order, shuffled, rng.permutation(5), wide, tall, rng.choice(x)


class Walker:
    def __init__(self, seed: int) -> None:
        self.rng, self.at = np.random.default_rng(seed), 0.0

    def step(self) -> None:
        self.at += self.rng.random() if self.at < 1 else self.rng.standard_normal()


def of_an_object(x: Any) -> Any:
    walker = Walker(2)
    while abs(walker.at) < 3 * x[1]:
        walker.step()
    return walker.at


@pytest.mark.parametrize(
    "function", [rejection, acceptance, walk, queue, kinds_of_draws, of_an_object]
)
def test_values_decide_what_is_drawn(function: Callable[[Any], Any]) -> None:
    compiled = mlc.compile(function)
    for x in (np.linspace(0.9, 0.4, 6), np.linspace(0.3, 1.0, 6)):
        same(compiled(x), function(x))


def test_many_draws_are_numpys() -> None:
    """The rare ways too: tails of the densities, words that come too often."""

    def sums(x: Any) -> Any:
        rng, total, most = np.random.default_rng(9), np.zeros(3), np.zeros(2)
        if x[0] > 0:
            rng.random()
        for k in range(30_000):
            v, w = rng.standard_normal(), rng.standard_exponential()
            most[0], most[1] = max(most[0], abs(v)), max(most[1], w)
            total += np.array([v, w, rng.integers(0, 3 * 2**30) % 1000]) * (k % 7)
        return total, most

    x = np.ones(1)
    same(mlc.compile(sums)(x), sums(x))


def test_derivatives_and_batches_of_what_values_decide() -> None:
    def accepted(x: Any) -> Any:
        rng, total = np.random.default_rng(3), 0.0
        for _ in range(10):
            if rng.random() < x[0]:
                total = total + rng.standard_normal() * x[1]
        while rng.random() > x[0]:
            total = total * x[1]
        return total

    x, step = np.array([0.4, 1.5]), np.array([0.0, 1e-6])
    slope = (accepted(x + step) - accepted(x - step)) / 2e-6
    np.testing.assert_allclose(mlc.compile(mlc.grad(accepted))(x), [0, slope], rtol=1e-6)
    batch = np.array([[0.4, 1.5], [0.9, 0.5]])
    np.testing.assert_allclose(
        mlc.compile(mlc.vmap(accepted))(batch), [accepted(row) for row in batch]
    )


def test_what_is_refused() -> None:
    def of_another_kind(x: Any) -> Any:
        rng = np.random.Generator(np.random.MT19937(0))
        return rng.random() if x[0] > 0 else 0.0

    def of_another_distribution(x: Any) -> Any:
        rng = np.random.default_rng(0)
        return rng.poisson(3.0) if x[0] > 0 else rng.random() * rng.poisson(2.0)

    def in_a_function(x: Any) -> Any:
        rng = np.random.default_rng(0)
        while rng.random() < x[0]:
            x = mlc.fori_loop(0, 3, lambda k, s: s + rng.random(), x)
        return x

    for function in (of_another_kind, of_another_distribution, in_a_function):
        with pytest.raises(mlc.NotSupportedError, match=r"rng\.random\(\(trips, n\)\)"):
            mlc.compile(function)(np.ones(3))
