"""Functions that a compiled function gets or reads: programs are for their code."""
# pyright: basic

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mlc

x = np.arange(4.0)


def times(k: Any) -> Callable[[Any], Any]:
    return lambda v: v * k


def scaled(v: Any, k: Any) -> Any:
    return v * k


class Model:
    def __init__(self, k: Any) -> None:
        self.k = k

    def of(self, v: Any) -> Any:
        return v * self.k


WAYS: dict[str, Callable[[Any], Any]] = {
    "a function made at each call": times,
    "its default": lambda k: lambda v, factor=k: v * factor,
    "a partial function": lambda k: functools.partial(scaled, k=k),
    "a method": lambda k: Model(k).of,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_callback_is_its_code_and_what_it_reads(way: str) -> None:
    applied = mlc.compile(lambda g, v: g(v) + 1)
    for k in range(6):
        np.testing.assert_array_equal(applied(WAYS[way](float(k)), x), x * k + 1)
    assert len(applied.stats().artifacts) == 2  # for the first number, and for all
    arrays = mlc.compile(lambda g, v: g(v) + 1)
    for k in range(3):
        np.testing.assert_array_equal(arrays(WAYS[way](x + k), x), x * (x + k) + 1)
    assert len(arrays.stats().artifacts) == 1


helper = times(0.0)


def test_a_helper_that_is_made_anew() -> None:
    global helper
    held = SimpleNamespace(f=helper)
    of_globals = mlc.compile(lambda v: helper(v) + 0)
    of_objects = mlc.compile(lambda o, v: o.f(v))
    for k in range(6):
        helper = held.f = times(float(k))
        np.testing.assert_array_equal(of_globals(x), x * k)
        np.testing.assert_array_equal(of_objects(held, x), x * k)
    helper = held.f = lambda v: v - 1
    np.testing.assert_array_equal(of_globals(x), x - 1)
    np.testing.assert_array_equal(of_objects(held, x), x - 1)
    assert len(of_globals.stats().artifacts) == len(of_objects.stats().artifacts) == 3


def test_a_method_reads_its_object_at_each_call() -> None:
    applied, model = mlc.compile(lambda g, v: g(v)), Model(1.0)
    np.testing.assert_array_equal(applied(model.of, x), x)
    model.k = 2.0
    np.testing.assert_array_equal(applied(model.of, x), 2 * x)


@pytest.mark.parametrize("make", [Model, times])
def test_one_object_given_twice_is_not_two(make: Callable[[Any], Any]) -> None:
    def both(a: Any, b: Any, v: Any) -> Any:
        return v * a.k + b.k if isinstance(a, Model) else a(v) + 10 * b(v)

    compiled, one = mlc.compile(both), make(1.0)
    for args in ((one, one), (make(2.0), make(3.0)), (one, make(3.0)), (make(2.0), one)):
        np.testing.assert_array_equal(compiled(*args, x), both(*args, x))


def test_which_function_it_is_may_be_asked() -> None:
    first, second = times(1.0), times(2.0)
    weights = {first: 3.0, second: 4.0}

    def asked(f: Any, g: Any, v: Any) -> Any:
        if f is g:
            return v
        return f(v) * weights[f] + (5.0 if g in (first,) else 0.0)

    compiled = mlc.compile(asked)
    for args in ((first, first), (first, second), (second, first), (second, second)):
        np.testing.assert_array_equal(compiled(*args, x), asked(*args, x))
