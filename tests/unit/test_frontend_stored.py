"""What a function stores to objects and containers among its arguments happens at each call."""
# pyright: basic, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

X = np.arange(1.0, 4.0)


class State:
    """What a model holds."""

    def __init__(self) -> None:
        self.w = np.ones(3)
        self.n = 0
        self.log: list[Any] = []
        self.d = {"m": np.zeros(3), "k": 1}
        self.best: Any = None

    def step(self, x: Any) -> Any:
        self.w = self.w - 0.125 * x
        self.n += 1
        return self.w.sum()


def counts(s: Any, x: Any) -> Any:
    s.n += 1
    return s.n * x


def updates(s: Any, x: Any) -> Any:
    s.w = s.w - 0.125 * x
    s.n += 1
    return s.w.sum()


def in_place(s: Any, x: Any) -> Any:
    s.w -= 0.125 * x
    s.w[0] = 5
    return s.w.sum()


def of_a_dict(s: Any, x: Any) -> Any:
    s.d["m"] = 0.875 * s.d["m"] + x
    s.d["k"] += 1
    s.d["new"] = x.sum()
    return s.d["m"].sum()


def of_a_dict_in_place(s: Any, x: Any) -> Any:
    s.d["m"] *= 0.875
    s.d["m"] += x
    return s.d["m"].sum()


def in_a_branch(s: Any, x: Any) -> Any:
    if x.sum() > s.n:
        s.w = s.w + x
        s.n = s.n + 2
    else:
        s.w = s.w * 2
    return s.w


def never_read(s: Any, x: Any) -> None:
    if x[0] > 2:
        s.w = x * 2


def in_a_loop(s: Any, x: Any) -> Any:
    for i in range(len(x)):
        s.w = s.w + x[i]
        s.n += 1
    return s.w.sum()


def in_while(s: Any, x: Any) -> Any:
    k = 0
    while s.w.sum() < 20:
        s.w = s.w + x
        k += 1
    s.n = k
    return k


def none_at_first(s: Any, x: Any) -> Any:
    value = x.sum() + s.n
    s.n += 1
    if s.best is None or value < s.best:
        s.best = value
    return s.best


def appends(s: Any, x: Any) -> Any:
    s.log.append(float(x.sum()))
    return len(s.log)


def swaps(s: Any, x: Any) -> Any:
    s.w, s.d["m"] = s.d["m"], s.w
    return x


def new_places(s: Any, x: Any) -> Any:
    s.extra = x * 2
    s.name = "state"
    s.log = [x, x * 2]
    return x


def deletes(s: Any, x: Any) -> Any:
    del s.best
    return x


def raises_between(s: Any, x: Any) -> Any:
    s.n += 1
    s.w = s.w + 1
    if x[0] * s.n > 2:
        raise ValueError(f"n is {s.n}")
    s.w = s.w + 1
    return s.w


def through_a_helper(s: Any, x: Any) -> Any:
    def add(state: Any, value: Any) -> None:
        state.w = state.w + value
        state.n += 1

    add(s, x)
    add(s, x)
    return s.w


PROGRAMS: tuple[Callable[[Any, Any], Any], ...] = (
    *(counts, updates, in_place, of_a_dict, of_a_dict_in_place, in_a_branch, never_read),
    *(in_a_loop, in_while, none_at_first, appends, swaps, new_places, deletes, raises_between),
    through_a_helper,
)


def outcome(f: Any, state: Any, x: Any) -> Any:
    try:
        return f(state, x)
    except Exception as error:  # noqa: BLE001 - whichever it raises is the answer
        return type(error), str(error).partition("\n")[0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_state_is_as_python_leaves_it(program: Any) -> None:
    compiled, ours, theirs = mlc.compile(program), State(), State()
    for k in range(4):
        x = X + (k == 2)
        found = outcome(compiled, ours, x.copy())
        np.testing.assert_equal(found, outcome(program, theirs, x.copy()))
        assert list(vars(ours)) == list(vars(theirs))
        np.testing.assert_allclose(ours.w, theirs.w)
        np.testing.assert_equal(
            {k: v for k, v in vars(ours).items() if k != "w"},
            {k: v for k, v in vars(theirs).items() if k != "w"},
        )
        assert type(ours.n) is type(theirs.n)


def test_methods() -> None:
    ours, theirs = State(), State()
    step = mlc.compile(ours.step)
    for _ in range(5):
        np.testing.assert_allclose(step(X), theirs.step(X))
    np.testing.assert_allclose(ours.w, theirs.w)
    assert ours.n == 5
    assert len(step.stats().artifacts) == 2


def test_containers_among_the_arguments() -> None:
    def f(d: Any, l: Any, x: Any) -> Any:  # noqa: E741 - as users name them
        d["b"] = x * 2
        d["a"] = d["a"] + 1
        l.append(x)
        l[0] = l[0] * 2
        return d["a"]

    ours, theirs = ({"a": X}, [X, 1.0]), ({"a": X}, [X, 1.0])
    np.testing.assert_equal(mlc.compile(f)(*ours, X), f(*theirs, X))
    np.testing.assert_equal(ours, theirs)


def test_objects_are_as_before_after_an_error_while_tracing() -> None:
    def f(s: Any, x: Any) -> Any:
        s.w = x
        s.n += 1
        return x.reshape(int(x[0]), -1)

    state = State()
    with pytest.raises(mlc.MlcError):
        mlc.compile(f)(state, X)
    np.testing.assert_equal(vars(state), vars(State()))


def test_arrays_of_objects_that_share_memory_with_arguments_are_refused() -> None:
    state = State()
    with pytest.raises(mlc.NotSupportedError, match="shares memory"):
        mlc.compile(in_place)(state, state.w)
