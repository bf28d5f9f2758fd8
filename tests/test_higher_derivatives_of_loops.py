"""
Second derivatives through loops, of which parts of the state are written, read, kept or forgotten
in every combination: as those of the same loop written out.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

Pair = tuple[Any, Any]
Next = Callable[[Any, Any, Pair], Any]  # x, trip number, state
Loop = Callable[[Callable[[Any, Pair], Pair], Pair, int], Pair]

NEXT: dict[str, Next] = {
    "first": lambda x, i, c: c[0],
    "second": lambda x, i, c: c[1],
    "first x": lambda x, i, c: c[0] * x,
    "second x": lambda x, i, c: c[1] * x,
    "x": lambda x, i, c: x * 1.0,
    "both": lambda x, i, c: np.sin(c[0] * c[1]),
    "constant": lambda x, i, c: np.float64(0.7),
    "trip": lambda x, i, c: x * x * (i + 1.0),
    "sum": lambda x, i, c: c[1] + c[0] * x * x,
}
"""What the trip gives for one of the two carried values."""


def _while(step: Any, start: Pair, count: int) -> Pair:
    def body(c: Any) -> Any:
        return c[0] + 1, step(c[0], c[1])

    return mlc.while_loop(lambda c: c[0] < count, body, (np.int64(0), start))[1]


def _scan(checkpoint: bool) -> Loop:
    def run(step: Any, start: Pair, count: int) -> Pair:
        def body(c: Any, i: Any) -> Any:
            return step(i, c), c[0]

        return mlc.scan(body, start, np.arange(count), checkpoint=checkpoint)[0]

    return run


def _written_out(step: Any, start: Pair, count: int) -> Pair:
    for trip in range(count):
        start = step(trip, start)
    return start


LOOPS: dict[str, Loop] = {
    "fori_loop": lambda step, start, count: mlc.fori_loop(0, count, step, start),
    "scan": _scan(False),
    "checkpointed scan": _scan(True),
    "while_loop": _while,
}


def _derivatives(loop: Loop, first: str, second: str, count: int) -> Callable[[Any], Any]:
    """The value, the gradient, and the second derivative in each order of modes."""

    def f(x: Any) -> Any:
        def step(trip: Any, c: Pair) -> Pair:
            return NEXT[first](x, trip, c), NEXT[second](x, trip, c)

        a, b = loop(step, (np.float64(0.5), x), count)
        return a * a + a * b + np.sin(b)

    def forward(g: Any) -> Any:
        return lambda x: mlc.jvp(g, (x,), (np.float64(1.0),))[1]

    back = mlc.grad(f)

    def run(x: Any) -> Any:
        mixed = (forward(back), mlc.grad(back), mlc.grad(forward(f)))
        return f(x), back(x), *(g(x) for g in mixed)

    return run


def _agree(loop: str, first: str, second: str, count: int, **options: Any) -> None:
    programs = [_derivatives(LOOPS[loop], first, second, count)]
    programs.append(_derivatives(_written_out, first, second, count))
    found, want = (mlc.compile(**options)(f) for f in programs)
    run = found if options else found.reference
    np.testing.assert_allclose(run(1.3), want.reference(1.3), rtol=1e-9)


CASES = [
    ("fori_loop", "second x", "second", 1),
    ("fori_loop", "second x", "second", 3),
    ("fori_loop", "constant", "first x", 2),
    ("fori_loop", "trip", "both", 3),
    ("fori_loop", "x", "sum", 2),
    ("scan", "second x", "second", 3),
    ("scan", "trip", "second", 1),
    ("checkpointed scan", "second x", "both", 2),
    ("while_loop", "second x", "second", 1),
    ("while_loop", "both", "constant", 2),
]


@pytest.mark.parametrize(("loop", "first", "second", "count"), CASES)
def test_values_that_are_written_and_not_read(
    loop: str, first: str, second: str, count: int
) -> None:
    _agree(loop, first, second, count)


@pytest.mark.parametrize("fusion", [None, "none"])
def test_machine_code_agrees(fusion: str | None) -> None:
    _agree("fori_loop", "second x", "second", 2, fusion=fusion)


def test_a_hessian_of_what_is_forgotten_in_the_state() -> None:
    """The loss is kept in the state, and its old value not read."""

    def f(x: Any) -> Any:
        def step(_: Any, c: Pair) -> Pair:
            y = c[1] - 0.1 * c[1] * x
            return (y * y).sum() - (x * y).sum(), y

        return -mlc.fori_loop(0, 4, step, (np.float64(0.0), x))[0]

    def slope(x: Any) -> Any:
        y, z = x, np.ones_like(x)
        for _ in range(4):
            y, z = y - 0.1 * y * x, z - 0.1 * (z * x + y)
        return -(2 * y * z - y - x * z)

    x, step = np.array([0.4, -1.2]), 1e-6
    found = mlc.compile(mlc.hessian(f)).reference(x)
    want = (slope(x + step) - slope(x - step)) / (2 * step)
    np.testing.assert_allclose(found, np.diag(want), rtol=1e-6, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("count", [1, 3])
def test_every_pair_of_states(loop: str, count: int) -> None:
    for first, second in itertools.product(NEXT, NEXT):
        _agree(loop, first, second, count)
