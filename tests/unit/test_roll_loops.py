"""Python loops of many trips are loops of the program, and compute what Python computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.trace.containers import flatten
from mlc.passes.tensor.periods import Run, runs

RNG = np.random.default_rng(3)
X, H = RNG.standard_normal((40, 3, 4)), RNG.standard_normal((3, 4))
W, U = RNG.standard_normal((4, 16)) / 4, RNG.standard_normal((4, 16)) / 4
GRID = RNG.standard_normal((9, 9))


def sigmoid(x: Any) -> Any:
    """The logistic function."""
    return 1.0 / (1.0 + np.exp(-x))


def lstm(x: Any, h: Any, w: Any, u: Any) -> Any:
    """A recurrent net, from a state of zeros."""
    c = np.zeros_like(h)
    for t in range(x.shape[0]):
        i, f, g, o = np.split(x[t] @ w + h @ u, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h, c


def wave(now: Any) -> Any:
    """Two states back, and a number of each trip's own."""
    past = now
    for t in range(60):
        force = 0.01 * t * t
        inner = now[1:-1, 2:] + now[1:-1, :-2] + now[2:, 1:-1] + now[:-2, 1:-1]
        following = 2.0 * now - past + 0.1 * np.pad(inner - 4.0 * now[1:-1, 1:-1], 1) + force
        past, now = now, following
    return now, past


def sweeps(a: Any) -> Any:
    """Loops in a loop, and stores."""
    a = a.copy()
    for _ in range(12):
        for _ in range(5):
            a[1:-1] = 0.3 * (a[2:] + a[:-2] + a[1:-1])
        a[0], a[-1] = a[1], a[-2]
    return a


def backwards(x: Any, w: Any) -> Any:
    """Every second row, the last one first."""
    s = np.zeros(4)
    for t in range(19, -1, -1):
        row = x[2 * t, 1]
        for _ in range(2):
            s = np.tanh(s @ w[:, :4] + row) + np.cos(s[::-1]) * row - s.sum() + row.max()
    return s


def after_the_first(h: Any, u: Any) -> Any:
    """A first trip that differs, and a last value read twice."""
    for t in range(70):
        h = (h if t == 0 else h - h.mean()) @ u[:, :4]
        h = np.tanh(h) + 1.0
    return h.sum(), h


@pytest.mark.parametrize(
    ("f", "arguments", "loops"),
    [
        (lstm, (X, H, W, U), 1),
        (wave, (GRID,), 1),
        (sweeps, (GRID,), 2),
        (backwards, (X, W), 1),
        (after_the_first, (H, U), 1),
    ],
)
def test_trips_become_a_loop(f: Callable[..., Any], arguments: tuple[Any, ...], loops: int) -> None:
    compiled = mlc.compile(f)
    found = compiled(*arguments)
    for x, y in zip(_leaves(found), _leaves(f(*arguments)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    lowered = compiled.lower(*arguments).compile()
    assert lowered.text("tensor").count("mlc.for ") == loops
    assert sum(kernel.template == "contraction" for kernel in lowered.plan().kernels) <= 4


def _leaves(x: Any) -> list[Any]:
    return flatten(x)[0]


def test_states_multiply_what_was_packed_before_the_loop() -> None:
    weights = RNG.standard_normal((64, 256), np.float32) / 8

    def f(h: Any, w: Any) -> Any:
        return mlc.fori_loop(0, 5, lambda _, h: np.tanh(h @ w)[:, 100:164], h)

    h = RNG.standard_normal((9, 64), np.float32)
    np.testing.assert_allclose(mlc.compile(f)(h, weights), f(h, weights), rtol=1e-3, atol=1e-5)


def test_inputs_of_a_recurrent_net_are_multiplied_before_the_loop() -> None:
    text = mlc.compile(lstm).lower(X, H, W, U).text("tensor")
    before, inside = text.split("mlc.for ")
    assert before.count("mlc.contract") == inside.count("mlc.contract") == 1


def elementwise(x: Any) -> Any:
    """One kernel, if its trips stay together."""
    for _ in range(100):
        x = np.exp(-x * x) + 0.25 * np.abs(x)
    return x


def all_states(x: Any, w: Any) -> Any:
    """Every trip's value is read behind the loop."""
    s, states = x[0, 0], list[Any]()
    for t in range(40):
        for _ in range(4):
            s = np.tanh(s @ w[:, :4] + x[t, 1])
        states.append(s)
    return np.stack(states)


def separate(x: Any) -> Any:
    """Trips that do not wait for one another."""
    s = 0.0
    for t in range(40):
        s = s + np.tanh(x[t] * 2.0).sum() * np.exp(x[t]).max()
    return s


def test_what_a_loop_would_not_help_stays() -> None:
    assert "mlc.for " not in mlc.compile(elementwise).lower(GRID).text("tensor")


def test_trips_that_reduce_something_of_their_own_are_a_loop() -> None:
    """Each would be a kernel of its own."""
    assert mlc.compile(separate).lower(X).text("tensor").count("mlc.for ") == 1


def test_rows_that_a_loop_wrote_are_the_stacked_list() -> None:
    text = mlc.compile(all_states).lower(X, W).text("tensor")
    assert text.count("mlc.for ") == 1
    assert "mlc.concat" not in text
    assert np.allclose(mlc.compile(all_states)(X, W), all_states(X, W))


def test_runs_of_a_sequence() -> None:
    assert runs([9, *[1, 2, 3, 4] * 5, 1, 2, 9], 3) == [Run(1, 23, 4)]
    inner = [*[1, 2, 3] * 4, 7, 8, 7]
    found = runs(inner * 6, 3)
    assert found[0] == Run(0, 90, 15)
    assert {run.period for run in found} == {15, 3}
    assert runs([1, 2, 3, 4, 5, 6], 2) == []


def powers(a: Any, x: Any, trips: int) -> Any:
    """A vector that the trip before has made."""
    for _ in range(trips):
        x = a @ x
        x = x / np.sqrt((x * x).sum())
    return x


def rows_filled(a: Any, x: Any, trips: int) -> Any:
    """A row of each trip, which no other reads."""
    out = np.empty((trips, x.shape[0]))
    for i in range(trips):
        out[i] = (a[i] - a[i].mean()) * x
    return out


def solved_backwards(a: Any, x: Any, trips: int) -> Any:
    """Rows that others read, down and up; slices that end at a variable."""
    out, n = np.zeros_like(a), x.shape[0]
    for i in range(1, trips):
        out[i, 0:n] = a[i, 0:n] - 0.5 * out[i - 1, 0:n] * x
    for i in range(trips - 2, -1, -1):
        out[i, 1:n] += out[i + 1, 0 : n - 1]
    return out


def blocks_multiplied(a: Any, x: Any, trips: int) -> Any:
    """Loops in one another, the inner ones of few trips."""
    out = np.zeros_like(a)
    for i in range(trips // 2):
        for j in range(5):
            out[2 * i : 2 * i + 2] += np.sin(a[2 * i : 2 * i + 2]) @ a[:, :] * x[j]
    return out


@pytest.mark.parametrize("f", [powers, rows_filled, solved_backwards, blocks_multiplied])
def test_few_trips_are_the_program_of_many(f: Callable[..., Any]) -> None:
    """So compiling a loop over arrays takes no longer for 12 trips than for 60."""
    lengths = list[int]()
    for trips in (12, 31, 60):
        a, x = RNG.standard_normal((60, 60)), RNG.standard_normal(60)
        np.testing.assert_allclose(
            mlc.compile(f)(a, x, trips), f(a, x, trips), rtol=1e-9, atol=1e-12
        )
        module: Any = mlc.compile(f).lower(a, x, trips).module
        lengths.append(sum(1 for _ in module.walk()))
    assert lengths[0] == lengths[1] == lengths[2]


def sized_by_trips(x: Any) -> Any:
    """A number that Python computes and must know."""
    n = 0
    for _ in range(12):
        x = np.sort(x)[::-1] * 0.5
        n += 2
    return x[: n // 8] + np.zeros(n // 8)


def kept_in_a_list(x: Any) -> Any:
    """An object that trips change."""
    kept: list[Any] = []
    for k in range(12):
        x = np.sort(x) * 0.5
        if k % 4 == 0:
            kept.append(x)
    return kept


@pytest.mark.parametrize("f", [sized_by_trips, kept_in_a_list])
def test_python_knows_what_few_trips_make(f: Callable[..., Any]) -> None:
    found = _leaves(mlc.compile(f)(X[0, 0]))
    for x, y in zip(found, _leaves(f(X[0, 0])), strict=True):
        np.testing.assert_allclose(x, y)
