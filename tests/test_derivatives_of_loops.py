"""
Reverse and forward mode through fori_loop, while_loop, scan, map and cond: against central
differences, and against the same loop written out trip by trip.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.gradients import agrees, compiled_grad, differences, same

rng = np.random.default_rng(7)
ROWS = rng.standard_normal((5, 3))
START = rng.standard_normal(3)
WEIGHT = rng.standard_normal((3, 3)) / 2

Body = Callable[[Any, Any], tuple[Any, Any]]


def rnn(w: Any, h: Any, xs: Any) -> Any:
    """A recurrent net of which the last state and all outputs count."""

    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = np.tanh(h @ w + x)
        return h, h * x

    h, ys = mlc.scan(step, h, xs)
    return (h * h).sum() + (ys**3).sum()


def rnn_backwards(w: Any, h: Any, xs: Any) -> Any:
    """From the last row to the first; ys keep their places."""

    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = np.tanh(h @ w + x)
        return h, (h, {"squares": h * h})

    h, (ys, more) = mlc.scan(step, h, xs, reverse=True)
    weights = np.arange(15.0).reshape(5, 3)
    return h.sum() + (ys * weights).sum() + (more["squares"] / (1 + weights)).sum()


def powers(w: Any, h: Any, xs: Any) -> Any:
    """A product of matrices; the trip number counts."""
    return (mlc.fori_loop(1, 4, lambda i, c: c @ w * i + h, w) @ xs.T).sum()


def container(w: Any, h: Any, xs: Any) -> Any:
    """What goes round is a container, of which a part stays, and integers are in it."""

    def body(i: Any, c: dict[str, Any]) -> dict[str, Any]:
        a, b = c["pair"]
        count = c["count"] + i
        return {"pair": (b * count, np.sin(a) + h), "count": count, "fixed": c["fixed"]}

    init = {"pair": (h, w[0]), "count": np.int64(1), "fixed": xs[0]}
    found = mlc.fori_loop(0, 4, body, init)
    return (found["pair"][0] * found["pair"][1] * found["fixed"]).sum() + found["count"]


def nested(w: Any, h: Any, xs: Any) -> Any:
    """A scan whose body is a loop, around a branch."""

    def outer(c: Any, x: Any) -> tuple[Any, Any]:
        def inner(i: Any, d: Any) -> Any:
            return mlc.cond(d.sum() + i > 1, lambda: np.tanh(d @ w), lambda: d * x)

        c = mlc.fori_loop(0, 3, inner, c + x)
        return c, c.sum()

    c, ys = mlc.scan(outer, h, xs)
    return (c * c).sum() + (ys * ys).sum()


def scan_in_scan(w: Any, h: Any, xs: Any) -> Any:
    """Rows and columns; the inner scan closes over the outer carry."""

    def outer(c: Any, x: Any) -> tuple[Any, Any]:
        d, ys = mlc.scan(lambda d, e: (np.sin(d * e) + c.sum(), d * d), x[0], x)
        return c * d + h, ys @ w

    c, ys = mlc.scan(outer, h, xs)
    return (c * c).sum() + np.cos(ys).sum()


def closure(w: Any, h: Any, xs: Any) -> Any:
    """The body reads values from around it, also such as vary with the arguments."""
    scale = np.exp(h) * w.sum()

    def body(i: Any, c: Any) -> Any:
        return c * scale + xs[i] * (w @ h)

    return mlc.fori_loop(0, 5, body, h).sum()


def mapped(w: Any, h: Any, xs: Any) -> Any:
    """One row at a time."""
    return (mlc.map(lambda x: np.tanh(x @ w) * h, xs) ** 2).sum()


def chosen(w: Any, h: Any, xs: Any) -> Any:
    """A branch that reads one argument, and one that reads another."""

    def one() -> Any:
        return np.exp(h)

    def other() -> Any:
        return (w * w).sum(axis=0)

    first = mlc.cond(xs.sum() > 0, one, other)
    second = mlc.cond(xs.sum() <= 0, one, other)
    return (first * second**2).sum() + mlc.cond(xs[0, 0] > 0, lambda: 0.0, lambda: 1.0)


def inactive_branch(w: Any, h: Any, xs: Any) -> Any:
    """A side that is not taken would divide by zero; nothing of it is seen."""

    def body(i: Any, c: Any) -> Any:
        return mlc.cond(i < 10, lambda: c * w[0], lambda: c / (c.sum() * 0) + np.log(-(c * c)))

    return mlc.fori_loop(0, 4, body, h).sum() * xs.sum()


def until_large(w: Any, h: Any, xs: Any) -> Any:
    """A while loop in a scan: each row in its own number of trips."""

    def step(c: Any, x: Any) -> tuple[Any, Any]:
        grown = mlc.while_loop(lambda v: (v * v).sum() < 9, lambda v: 1.3 * v + h * 0.1, c + x)
        return np.tanh(grown @ w), grown.sum()

    c, ys = mlc.scan(step, h, xs)
    return c.sum() + (ys * ys).sum()


def unused(w: Any, h: Any, xs: Any) -> Any:
    """Loops of which nothing is read, or only what does not vary."""
    count = mlc.fori_loop(0, 3, lambda i, c: (c[0] + i, c[1] * h), (np.int64(0), h))[0]
    mlc.scan(lambda c, x: (c * x, c @ w), h, xs)
    return (h * count).sum() + (w * xs[:3]).sum()


LOOPS = [
    rnn,
    rnn_backwards,
    powers,
    container,
    nested,
    scan_in_scan,
    closure,
    mapped,
    chosen,
    inactive_branch,
    until_large,
    unused,
]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_gradients_agree_with_differences(loop: Callable[..., Any]) -> None:
    agrees(loop, WEIGHT, START, ROWS, argnums=(0, 1, 2))


STATIC = [f for f in LOOPS if f is not until_large]


@pytest.mark.parametrize("loop", STATIC, ids=lambda f: f.__name__)
def test_second_derivatives(loop: Callable[..., Any]) -> None:
    """Reverse over reverse, forward over reverse and reverse over forward give one Hessian row."""
    direction = rng.standard_normal(WEIGHT.shape)
    args = (START, ROWS)

    def value(w: Any) -> Any:
        return loop(w, *args)

    def slope(w: Any) -> Any:
        return mlc.grad(value)(w)

    def along(w: Any) -> Any:
        return (slope(w) * direction).sum()

    def pushed(w: Any) -> Any:
        return mlc.jvp(value, (w,), (direction,))[1]

    def forward_reverse(w: Any) -> Any:
        return mlc.jvp(slope, (w,), (direction,))[1]

    h = 1e-5
    gradient = compiled_grad(value)
    expected = (gradient(WEIGHT + h * direction) - gradient(WEIGHT - h * direction)) / (2 * h)
    for f in (mlc.grad(along), forward_reverse, mlc.grad(pushed)):
        compiled: Any = mlc.compile(f)
        same(compiled(WEIGHT), expected, rtol=1e-5, atol=1e-6)
        same(compiled.reference(WEIGHT), expected, rtol=1e-5, atol=1e-6)


def written_out(f: Body, init: Any, xs: Any, reverse: bool = False) -> tuple[Any, Any]:
    """`mlc.scan` as as many copies of the body."""
    carry, ys = init, list[Any]()
    for k in reversed(range(xs.shape[0])) if reverse else range(xs.shape[0]):
        carry, y = f(carry, xs[k])
        ys.append(y)
    return carry, np.stack(ys[::-1] if reverse else ys)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_gradients_equal_those_of_the_loop_written_out(rows: int, reverse: bool) -> None:
    def program(scan: Callable[..., Any]) -> Callable[..., Any]:
        def f(w: Any, h: Any, xs: Any) -> Any:
            def step(h: Any, x: Any) -> tuple[Any, Any]:
                h = np.tanh(h @ w + x)
                return h, np.exp(h) * x

            h, ys = scan(step, h, xs, reverse=reverse)
            return (h * h).sum() + (ys * np.arange(3.0)).sum()

        return f

    args = (WEIGHT, START, ROWS[:rows])
    found = compiled_grad(program(mlc.scan), (0, 1, 2))(*args)
    expected = compiled_grad(program(written_out), (0, 1, 2))(*args)
    same(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("trips", [0, 1])
def test_loops_of_no_trip_and_of_one(trips: int) -> None:
    agrees(rnn, WEIGHT, START, ROWS[:trips], argnums=(0, 1))
    agrees(lambda h: mlc.fori_loop(0, trips, lambda i, c: c * c, h).sum(), START)
    agrees(lambda h: (mlc.map(lambda x: x * h, ROWS[:trips]) ** 2).sum() + h.sum(), START)


def test_one_compilation_for_fifty_lengths() -> None:
    gradient = compiled_grad(rnn, (0, 1, 2), dynamic={"xs": {0: "T"}})
    rows = rng.standard_normal((50, 3))
    written = compiled_grad(rnn, (0, 1, 2))
    for length in range(1, 51):
        found = gradient(WEIGHT, START, rows[:length])
        if length in (1, 2, 7, 50):
            same(found, written(WEIGHT, START, rows[:length]), rtol=1e-11, atol=1e-13)
    assert gradient.stats().compilations == 1
    same(gradient(WEIGHT, START, rows[:9]), tuple(_all_differences(rows[:9])))


def _all_differences(rows: Any) -> list[Any]:
    return [differences(rnn, (WEIGHT, START, rows), k) for k in range(3)]


def test_trip_counts_that_are_arrays() -> None:
    """Up to 128 trips, every state is kept on the way; beyond, some are computed a third time."""

    def f(h: Any, n: Any) -> Any:
        return (mlc.fori_loop(1, n + 1, lambda i, c: np.sin(c * h) + c / i, h) ** 2).sum()

    gradient = compiled_grad(f)
    for trips in (0, 1, 2, 40, 200):
        count = np.int64(trips)
        same(gradient(START, count), differences(f, (START, count)))
    assert gradient.stats().compilations == 1


def test_forward_mode_of_loops() -> None:
    tangents = tuple(rng.standard_normal(x.shape) for x in (WEIGHT, START, ROWS))
    for loop in LOOPS:
        args = (WEIGHT, START, ROWS)

        def push(a: Any, t: Any, loop: Any = loop) -> Any:
            return mlc.jvp(loop, a, t)[1]

        compiled: Any = mlc.compile(push)
        slopes = [differences(loop, args, k) for k in range(3)]
        expected = sum((g * t).sum() for g, t in zip(slopes, tangents, strict=True))
        same(compiled(args, tangents), np.float64(expected))


def test_integers_that_go_round_have_no_gradient() -> None:
    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            n, v = c
            return (n * 3 + 1) % 7, v * x[n % 3] + n

        return mlc.fori_loop(0, 6, body, (np.int64(2), x.sum()))[1]

    text = agrees(f, START).lower(START).text("tensor")
    assert "xi64" not in text.split("func.func")[1].split("mlc.for")[-1].split("->")[0]
