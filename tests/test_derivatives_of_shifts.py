"""Extremes that cancel have no derivative, and those that do not have theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

RNG = np.random.default_rng(11)
X = RNG.standard_normal((6, 7))
W = RNG.standard_normal((7, 3))
Program = Callable[[Any], Any]


def shifted(x: Any) -> Any:
    return np.exp(x - x.max(axis=1, keepdims=True))


def softmax(x: Any) -> Any:
    e = shifted(x)
    return e / e.sum(axis=1, keepdims=True)


def logsumexp(x: Any) -> Any:
    m = x.max(axis=1)
    return np.log(np.exp(x - m[:, None]).sum(axis=1)) + m


def cooled(x: Any) -> Any:
    """What is left of the maximum is divided by a number before exp is taken."""
    e = np.exp((x - x.max(axis=1, keepdims=True)) / 2.5)
    return e / e.sum(axis=1, keepdims=True)


def from_below(x: Any) -> Any:
    e = np.exp(-(x - x.min(axis=1, keepdims=True)))
    return (e @ W) / e.sum(axis=1, keepdims=True)


def excluded(x: Any) -> Any:
    """Scores that are left out; a maximum of nothing but these counts as 0."""
    s = np.where(np.arange(7) <= np.arange(6)[:, None], x, -np.inf)
    m = s.max(axis=1, keepdims=True)
    e = np.exp(s - np.where(m == -np.inf, 0.0, m))
    return e / e.sum(axis=1, keepdims=True)


def ratio_of_powers(x: Any) -> Any:
    e = shifted(x)
    total = e.sum(axis=1, keepdims=True)
    return (e * e) @ W / (total * total)


def between_rows(x: Any) -> Any:
    """Products of rows that change by opposite factors."""
    e = shifted(x)
    return e.T @ (W[:6] / e.sum(axis=1, keepdims=True))


CANCEL: list[Program] = [
    softmax, logsumexp, cooled, from_below, excluded, ratio_of_powers, between_rows,
]  # fmt: skip


def squares(e: Any) -> Any:
    return e * e / e.sum(axis=1, keepdims=True)


STAY: dict[str, Program] = {
    "exponentials": shifted,
    "degree 2 over 1": lambda x: squares(shifted(x)),
    "by columns": lambda x: shifted(x) / shifted(x).sum(axis=0),
    "the sum too": lambda x: softmax(x).sum() + shifted(x).sum(),
    "the maximum too": lambda x: softmax(x) + x.max(axis=1, keepdims=True),
    "at least a number": lambda x: shifted(x) / np.maximum(shifted(x).sum(axis=1), 2.0)[:, None],
    "other rows": lambda x: shifted(x) / shifted(x)[::-1].sum(axis=1, keepdims=True),
    "one of both": lambda x: np.where(x > 0, shifted(x), 1.0) / shifted(x).sum(axis=1)[:, None],
    "summed over rows": lambda x: (shifted(x) / shifted(x).sum()).sum(axis=0),
    "added": lambda x: np.log(shifted(x).sum(axis=1)) + 2.0 * x.max(axis=1),
}


def loss(f: Program) -> Program:
    def weighed(x: Any) -> Any:
        y = f(x)
        return (y * np.cos(mlc.numpy.arange(y.size).reshape(y.shape))).sum()

    return weighed


def compares_elements(f: Program) -> bool:
    """Whether a program asks which elements of its argument are the largest."""
    lines = mlc.compile(f).lower(X).text("tensor").splitlines()
    return any('mlc.compare "eq"' in line and "6x7xi1" in line for line in lines)


@pytest.mark.parametrize("f", CANCEL, ids=lambda f: f.__name__)
def test_extremes_that_cancel_have_no_derivative(f: Program) -> None:
    assert not compares_elements(mlc.grad(loss(f)))
    mlc.check_grads(loss(f), (X,), order=2)


@pytest.mark.parametrize("name", STAY)
def test_extremes_that_do_not_cancel_have_theirs(name: str) -> None:
    assert compares_elements(mlc.grad(loss(STAY[name])))
    mlc.check_grads(loss(STAY[name]), (X,), order=1)


def test_a_result_that_is_the_maximum_has_its_derivative() -> None:
    def both(x: Any) -> Any:
        m = x.max(axis=1)
        e = np.exp(x - m[:, None])
        return e / e.sum(axis=1, keepdims=True), m

    _, pull = mlc.vjp(both, X)
    (found,) = pull((np.zeros((6, 7)), np.arange(6.0)))
    want = np.where(X.max(axis=1, keepdims=True) == X, np.arange(6.0)[:, None], 0.0)
    np.testing.assert_allclose(found, want, atol=1e-15)
