"""Numbers from outside that differ between calls become inputs; those that decide do not."""
# pyright: basic, reportConstantRedefinition=false
# ruff: noqa: PLW0108

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

X = np.arange(3.0)
RATE: Any = 1.0
TABLE: dict[str, Any] = {"rate": 0.1, "other": 2}


class Model:
    """State and a constant of the class."""

    scale: Any = 2.0

    def __init__(self) -> None:
        self.rate: Any = 0.1
        self.count: Any = 1

    def step(self, x: Any) -> Any:
        return x * self.rate * self.scale + self.count


def artifacts(f: Any) -> int:
    return len(f.stats().artifacts)


def check(f: Callable[..., Any], put: Callable[[Any], None], values: Any, most: int) -> None:
    compiled = mlc.compile(f)
    for value in values:
        put(value)
        found, expected = compiled(X), f(X)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert artifacts(compiled) <= most


def put_global(value: Any) -> None:
    global RATE
    RATE = value


@pytest.mark.parametrize("kind", [float, int, np.float32, np.float64, np.int8, complex])
def test_a_global(kind: Callable[[Any], Any]) -> None:
    narrow = X.astype(np.float32)
    values = [kind(v) for v in range(20)]
    check(lambda x: x * RATE + narrow * RATE, put_global, values, 2)


def test_a_thousand_values_are_one_program() -> None:
    check(lambda x: x + RATE, put_global, map(float, range(1000)), 2)


def test_attributes_classes_closures_and_containers() -> None:
    model, space, series = Model(), types.SimpleNamespace(a=1.0), [1.0, 2.0]
    held = 1.0

    def put_cell(value: Any) -> None:
        nonlocal held
        held = value

    values = [v / 8 for v in range(12)]
    check(lambda x: model.step(x), lambda v: setattr(model, "rate", v), values, 2)
    check(lambda x: model.step(x), lambda v: setattr(model, "count", int(8 * v)), values, 2)
    check(lambda x: model.step(x), lambda v: setattr(Model, "scale", v), values, 2)
    check(lambda x: x * space.a, lambda v: setattr(space, "a", v), values, 2)
    check(lambda x: x * held, put_cell, values, 2)
    check(lambda x: x * TABLE["rate"], lambda v: TABLE.__setitem__("rate", v), values, 2)
    check(lambda x: x * series[0], lambda v: series.__setitem__(0, v), values, 2)


def test_an_attribute_of_an_argument() -> None:
    model = Model()
    f = mlc.compile(lambda m, x: m.step(x))
    for k in range(12):
        model.rate = k / 8
        np.testing.assert_array_equal(f(model, X), model.step(X))
    assert artifacts(f) == 2


def test_numbers_that_decide_stay_part_of_the_program() -> None:
    check(lambda x: np.zeros(RATE) + x.sum(), put_global, range(1, 7), 6)
    check(lambda x: x + 1 if RATE > 3 else x, put_global, range(6), 6)
    check(lambda x: x * 2 if RATE else x, put_global, [True, False] * 4, 2)


def test_what_does_not_fit_is_an_error() -> None:
    narrow = np.ones(3, np.int8)
    f = mlc.compile(lambda x: x + RATE)
    for value in (1, 2, 3, 100):
        put_global(value)
        np.testing.assert_array_equal(f(narrow), narrow + np.int8(value))
    put_global(300)
    with pytest.raises(OverflowError, match="300 out of bounds for int8"):
        f(narrow)
    put_global(5)
    np.testing.assert_array_equal(f(narrow), narrow + np.int8(5))
    assert artifacts(f) == 2


def test_another_kind_of_number_is_another_program() -> None:
    check(lambda x: x.astype(np.int32) * RATE, put_global, [1, 2, 3, 1.5, 2.5, 4, 5], 4)


def test_a_helper_that_is_redefined(request: pytest.FixtureRequest) -> None:
    space: dict[str, Any] = {}
    exec("def helper(x): return x + 1", space)
    f = mlc.compile(lambda x: space["helper"](x))
    np.testing.assert_array_equal(f(X), X + 1)
    exec("def helper(x): return x + 2", space)
    np.testing.assert_array_equal(f(X), X + 2)
