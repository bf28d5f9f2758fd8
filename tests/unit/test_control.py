"""cond, while_loop, fori_loop, scan and map: the same results eager, interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import mlc
from mlc.frontend.trace.containers import flatten

X = np.arange(20.0).reshape(5, 4) / 7 - 1


Function = Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]


def compiled_(f: Callable[[Any], Any], **options: Any) -> Any:
    """The function, compiled."""
    return mlc.compile(**options)(f)


def agrees(f: Function, *args: Any, **options: Any) -> Any:
    """The compiled function, after it gave what Python gives: types, shapes, values."""
    python: Any = f
    compiled: Any = mlc.compile(**options)(python)
    expected, structure = flatten(python(*args))
    for run in (compiled.reference, compiled, compiled):
        found, same = flatten(run(*args))
        assert same == structure
        for x, y in zip(found, expected, strict=True):
            assert np.asarray(x).dtype == np.asarray(y).dtype
            if y is None:
                continue
            np.testing.assert_allclose(x, y, rtol=1e-12)
            assert np.shape(x) == np.shape(y)
    return compiled


class Pair(NamedTuple):
    """A carry with names."""

    value: Any
    count: Any


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_runs_one_of_two(sign: float) -> None:
    f = agrees(lambda x: mlc.cond(x.sum() > 0, np.negative, np.abs, x), X * sign)
    assert f.lower(X).text("trace").count("mlc.if") == 1
    agrees(lambda x: mlc.cond(x.sum() > 0, lambda: x, lambda: x.T.reshape(5, 4)), X * sign)


def test_cond_gives_containers_and_weak_numbers_take_the_other_dtype() -> None:
    def f(x: Any, limit: float) -> Any:
        def big(v: Any) -> Any:
            return {"a": v * 2, "b": (v.sum(), None)}

        def small(v: Any) -> Any:
            return {"a": v, "b": (v.max(), None)}

        return mlc.cond(x.sum() > limit, big, small, x)

    agrees(f, X, 1e9)
    agrees(f, X, -1e9)
    agrees(lambda x: mlc.cond(x.any(), lambda: np.float32(2), lambda: np.float32(0)), X)


def test_cond_with_a_known_condition_is_no_branch() -> None:
    f = agrees(lambda x: mlc.cond(x.shape[0] == 5, lambda: x, lambda: x[:0]), X)
    assert "mlc.if" not in f.lower(X).text("trace")


def test_while_loop_counts_until_its_condition_fails() -> None:
    def f(x: Any, limit: float) -> Any:
        def body(c: Pair) -> Pair:
            return Pair(c.value * 2, c.count + 1)

        return mlc.while_loop(lambda c: np.abs(c.value).max() < limit, body, Pair(x, 0))

    assert agrees(f, X, 1000.0)(X, 1000.0).count == 10
    assert agrees(f, X, -1.0)(X, -1.0).count == 0  # not a single trip


def test_collatz_in_nested_loops() -> None:
    def steps(n: Any) -> Any:
        def body(c: Any) -> Any:
            value, count = c
            value = mlc.cond(value % 2 == 0, lambda: value // 2, lambda: 3 * value + 1)
            return value, count + 1

        return mlc.while_loop(lambda c: c[0] != 1, body, (n, np.int64(0)))[1]

    agrees(lambda ns: mlc.map(steps, ns), np.arange(1, 30))


@pytest.mark.parametrize("trips", [0, 1, 2, 7])
def test_two_values_change_places(trips: int) -> None:
    def f(x: Any, y: Any, n: int) -> Any:
        return mlc.fori_loop(0, n, lambda i, c: (c[1], c[0]), (x, y))

    agrees(f, X, -X, trips)
    agrees(lambda x, n: mlc.fori_loop(0, n, lambda i, c: (c[1] + i, c[0]), (x, -x)), X, trips)


def test_fori_loop_over_a_symbolic_size() -> None:
    def f(x: Any) -> Any:
        return mlc.fori_loop(0, x.shape[0], lambda i, c: c * 0.5 + x[i], np.zeros(4))

    compiled = agrees(f, X, dynamic={"x": {0: "B"}})
    for rows in (1, 3, 5):
        np.testing.assert_allclose(compiled(X[:rows]), f(X[:rows]))
    assert compiled.stats().compilations == 1


def test_scan_stacks_what_each_trip_gives() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            c = c * 0.5 + row
            return c, (c, {"sum": row.sum(), "nothing": None})

        return mlc.scan(step, np.zeros(4), x)

    compiled = agrees(f, X)
    agrees(f, X, dynamic={"x": {0: "B"}})
    plan = compiled.lower(X).text("plan")
    assert plan.count("#mlc.buffer<input") == 2  # rows are written where they belong
    agrees(lambda x: mlc.scan(lambda c, r: (c + r, c * r), np.zeros(4), x, reverse=True), X)
    agrees(lambda x: mlc.scan(lambda c, r: (c, r["b"] @ r["a"]), 0, {"a": x, "b": 2 * x}), X)
    agrees(lambda x: mlc.scan(lambda c, _: (c + x, c.sum()), x, None, length=3), X)


def test_scan_in_scan_and_map_over_rows() -> None:
    def rows(x: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            return mlc.scan(lambda d, e: (d + e, d * e), c, row)

        return mlc.scan(outer, 0.0, x)

    agrees(rows, X)
    agrees(lambda x: mlc.map(lambda r: np.tanh(r) @ r, x), X)
    agrees(lambda x: mlc.map(lambda p: p[0] @ p[1], (x, x + 1)), X)


def test_no_trip_at_all() -> None:
    f = compiled_(
        lambda x: mlc.scan(lambda c, r: (c + r, r * 2), np.ones(4), x), dynamic={"x": {0: "B"}}
    )
    carry, ys = f(X[:0])
    np.testing.assert_array_equal(carry, np.ones(4))
    assert ys.shape == (0, 4)


def test_a_carry_that_starts_as_an_argument_leaves_it_alone() -> None:
    """An array is updated where it lies only after it was copied once."""

    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            c[i] = c[i] * 2 + i
            return c

        return mlc.fori_loop(0, 5, body, x.copy())

    before = X.copy()
    agrees(f, X)
    np.testing.assert_array_equal(X, before)


def test_memory_does_not_grow_with_the_trips() -> None:
    def f(x: Any, n: int) -> Any:
        return mlc.fori_loop(0, n, lambda i, c: (np.tanh(c[0] @ c[0]), c[0]), (x, x))

    x = np.random.default_rng(0).normal(size=(16, 16))
    low = mlc.compile(f).lower(x, 1000).compile()
    assert low.memory().arena_bytes <= 4 * x.nbytes + 64
    agrees(f, x, 1000)
    once = compiled_(lambda x: mlc.scan(lambda c, r: (c + r, c), x[0], x)).lower(
        np.zeros((1000, 64))
    )
    memory = once.compile().memory()
    assert memory.arena_bytes <= 3 * 64 * 8 + 128  # the stacked output is the result itself


MISTAKES: dict[str, tuple[type[Exception], Callable[[Any], Any], str]] = {
    "condition": (
        TypeError,
        lambda x: mlc.cond(x > 0, lambda: x, lambda: x),
        r"cond: the condition is bool \(5, 4\); expected one bool",
    ),
    "branch shape": (
        ValueError,
        lambda x: mlc.cond(x.any(), lambda: {"w": x}, lambda: {"w": x[0]}),
        r"cond: result\['w'\] is \(5, 4\) in the first function and \(4,\) in the second",
    ),
    "branch dtype": (
        TypeError,
        lambda x: mlc.cond(x.any(), lambda: x, lambda: x.astype(np.float32)),
        r"cond: result is float64 in the first function and float32 in the second",
    ),
    "branch structure": (
        ValueError,
        lambda x: mlc.cond(x.any(), lambda: (x, x), lambda: [x, x]),
        r"another structure.*result\[0\], result\[1\] against result\[0\], result\[1\]",
    ),
    "branch constant": (
        TypeError,
        lambda x: mlc.cond(x.any(), lambda: (x, None), lambda: (x, x)),
        r"cond: result\[1\] is None in the first function and an array in the",
    ),
    "carry shape": (
        ValueError,
        lambda x: mlc.while_loop(lambda c: c[0].any(), lambda c: (c[0], c[1].T), (x, x)),
        r"while_loop: carry\[1\] starts as \(5, 4\) and the body returns \(4, 5\)",
    ),
    "carry dtype": (
        TypeError,
        lambda x: mlc.fori_loop(0, 3, lambda i, c: c / 2, np.arange(3)),
        r"fori_loop: carry starts as int64 and the body returns float64",
    ),
    "carry structure": (
        ValueError,
        lambda x: mlc.fori_loop(0, 3, lambda i, c: (c, c), x),
        r"fori_loop: the body returns another structure than it gets",
    ),
    "while condition": (
        TypeError,
        lambda x: mlc.while_loop(lambda c: c, lambda c: c, 1),
        r"while_loop: the condition returns int64 \(\); expected one bool",
    ),
    "scan lengths": (
        ValueError,
        lambda x: mlc.scan(lambda c, r: (c, c), 0, (x, x[1:])),
        r"scan: xs\[0\] has \(5, 4\) and xs\[1\] has \(4, 4\); expected one first axis",
    ),
    "scan length": (ValueError, lambda x: mlc.scan(lambda c, r: (c, c), x), "length=…"),
    "scan body": (
        TypeError,
        lambda x: mlc.scan(lambda c, r: c, 0.0, x),
        r"scan: the body returns a Tracer; expected \(carry, y\)",
    ),
    "scan number": (
        ValueError,
        lambda x: mlc.scan(lambda c, r: (c, c), 0, x.sum()),
        "xs is a single number",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name: str) -> None:
    kind, function, message = MISTAKES[name]
    with pytest.raises(kind, match=message) as caught:
        mlc.compile(function)(X)
    assert "test_control.py:" in str(caught.value)
