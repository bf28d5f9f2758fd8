"""Derivatives and batches of functions with Python's control flow on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.staged_programs import PROGRAMS


def root_of(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-12:
        x = x - (x * x - a) / (2 * x)
    return x


def root_with_break(a: Any) -> Any:
    x = a
    for _ in range(60):
        d = (x * x - a) / (2 * x)
        x = x - d
        if abs(d) < 1e-13:
            break
    return x


def early_return(a: Any) -> Any:
    if a > 2:
        return a * a
    if a < 0:
        return -3 * a
    return np.sqrt(a)


def table_in_place(a: Any) -> Any:
    d = np.zeros(6)
    d[0] = a
    for i in range(1, 6):
        if d[i - 1] > 1:
            d[i] = d[i - 1] * 0.5
        else:
            d[i] = np.sin(d[i - 1]) + a
    return d.sum()


def endless(a: Any) -> Any:
    s, k = a, 1.0
    while True:
        s = s + a**2 / k
        k = k * 2
        if k > 100:
            return s


def endless_on_values(a: Any) -> Any:
    s, k = a, 1.0
    while True:
        s = s + a**2 / k
        k = k * 1.25
        if s > 9 or k > 100:
            return s * a


def not_taken(a: Any) -> Any:
    return np.sqrt(a - 5) if a > 5 else a * 3


def while_and_conditional(a: Any) -> Any:
    t = a
    while t < 10 and not t > 9.5:
        t = t * (1.5 if t < 3 else 1.25)
    return t


SCALAR: list[Callable[[Any], Any]] = [
    *(root_of, root_with_break, early_return, table_in_place, endless, not_taken),
    endless_on_values,
    while_and_conditional,
]


@pytest.mark.parametrize("f", SCALAR, ids=lambda f: f.__name__)
def test_gradient(f: Callable[[Any], Any]) -> None:
    gradient = mlc.compile(mlc.grad(f))
    for a in (0.7, 2.3):
        h = 1e-6
        expected = (f(np.float64(a + h)) - f(np.float64(a - h))) / (2 * h)
        np.testing.assert_allclose(gradient(np.float64(a)), expected, rtol=1e-6)


@pytest.mark.parametrize("f", SCALAR, ids=lambda f: f.__name__)
def test_batch(f: Callable[[Any], Any]) -> None:
    a = np.array([0.7, 2.3, 6.1])
    expected = [f(x) for x in a]
    np.testing.assert_allclose(mlc.compile(mlc.vmap(f))(a), expected, rtol=1e-10)


BATCHED = ("collatz_1", "escape_else_0", "euclid_1", "nested_returns_0", "first_above_0")


@pytest.mark.parametrize("name", BATCHED)
def test_batch_of_programs(name: str) -> None:
    f, arguments = PROGRAMS[name]
    more = [tuple(x * k for x in arguments) for k in (1, 2, 3)]
    stacked = [np.stack([np.asarray(x[k]) for x in more]) for k in range(len(arguments))]
    expected = [f(*x) for x in more]
    np.testing.assert_allclose(mlc.compile(mlc.vmap(f))(*stacked), expected, rtol=1e-10)


def test_second_derivative() -> None:
    second = mlc.compile(mlc.grad(mlc.grad(endless)))
    np.testing.assert_allclose(second(np.float64(1.3)), 2 * sum(2.0**-k for k in range(7)))


def test_open_sizes() -> None:
    @mlc.compile(dynamic={"x": {0: "B"}})
    def f(x: Any) -> Any:
        s = 0.0
        for i in range(x.shape[0]):
            if x[i] < 0:
                continue
            s += x[i]
        return s

    for n in (1, 3, 8):
        x = np.arange(n) - 1.5
        np.testing.assert_allclose(f(x), f.__wrapped__(x))
    assert f.stats().compilations == 1


def test_one_program_for_all_numbers() -> None:
    f = mlc.compile(early_return)
    for a in (0.5, 1.5, 3.5, -2.0):
        np.testing.assert_allclose(f(a), early_return(a))
    assert f.stats().compilations == 1


def always_raises(a: Any) -> Any:
    for _ in range(6):
        try:
            raise ValueError
        except ValueError:
            a = a * 0.5
    return a


def test_an_error_in_any_case_has_no_derivative() -> None:
    """Python, which catches errors, cannot run one: that is said, and nothing of the loop leaks."""
    transforms: list[tuple[Any, Any]] = [
        (mlc.grad(always_raises), 3.0),
        (mlc.vmap(always_raises), np.arange(3.0)),
    ]
    for f, argument in transforms:
        with pytest.raises(mlc.NotSupportedError, match="raises an error in any case"):
            mlc.compile(f)(argument)
