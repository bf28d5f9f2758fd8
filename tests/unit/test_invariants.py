"""Bounds that loops keep: what is proven is not asked, and what is not raises IndexError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.trace.containers import flatten


def sorted_by_insertion(x: Any) -> None:
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key


def found_by_halves(x: Any) -> Any:
    low, high = 0, len(x)
    while low < high:
        mid = (low + high) // 2
        if x[mid] < 0.5:
            low = mid + 1
        else:
            high = mid
    return low


def kept(x: Any) -> Any:
    out = np.zeros(len(x))
    k = 0
    for i in range(len(x)):
        if x[i] > 0.5:
            out[k] = x[i]
            k += 1
    return out, k


def sifted(x: Any) -> None:
    root = 0
    while 2 * root + 1 < len(x):
        child = 2 * root + 1
        if child + 1 < len(x) and x[child] < x[child + 1]:
            child += 1
        x[root], x[child] = x[child], x[root]
        root = child


PROVEN = {f.__name__: f for f in (sorted_by_insertion, found_by_halves, kept)}


@pytest.mark.parametrize("name", PROVEN)
def test_nothing_is_asked_of_what_holds(name: str) -> None:
    x = np.linspace(1.0, 0.0, 40)
    text = mlc.compile(PROVEN[name]).lower(x).text("tensor")
    asked = [line for line in text.splitlines() if "mlc.within" in line and "{holds}" not in line]
    assert not asked


@pytest.mark.parametrize("function", [*PROVEN.values(), sifted])
def test_it_is_what_python_does(function: Callable[..., Any]) -> None:
    ours, theirs = np.linspace(0.0, 1.0, 40) ** 2, np.linspace(0.0, 1.0, 40) ** 2
    ours[5] = theirs[5] = 0.9
    found, expected = mlc.compile(function)(ours), function(theirs)
    np.testing.assert_array_equal(ours, theirs)
    for mine, other in zip(flatten(found)[0], flatten(expected)[0], strict=True):
        np.testing.assert_array_equal(mine, other)


def towards_its_own_end(a: Any, x: Any) -> Any:
    k, s, t = 0, 0.0, 0
    while k < np.minimum(k + 3, np.maximum(a[t], 2)):
        s = s * 3 + x[np.minimum(np.maximum(k - 2, a[t]), len(x) - 1)]
        k += 1
    return s, k


def test_a_test_whose_end_is_made_of_what_it_asks() -> None:
    """An end that names a number of the trip itself is none: it was followed without end."""
    a, x = np.array([5, 6, 7]), np.arange(10.0)
    assert mlc.compile(towards_its_own_end)(a, x) == towards_its_own_end(a, x)


def beyond_the_last(x: Any) -> Any:
    k = 0
    for i in range(len(x)):
        if x[i] >= 0:
            k += 1
        x[k] = 1.0
    return k


def before_the_first(x: Any) -> Any:
    j = len(x) - 1
    while j >= -len(x) - 1:
        x[j] += 1.0
        j -= 1
    return j


def behind_the_loop(x: Any) -> Any:
    j = 0
    while j < len(x):
        j += 1
    return x[j]


def by_two(x: Any) -> Any:
    j = 0
    while j < len(x):
        x[j + 1] = 0.0
        j += 2
    return j


def that_grows_beyond_i64(x: Any) -> Any:
    seed = len(x)
    for _ in range(100):
        seed = seed * 3 + 1
        if seed > 1_000_000_000:
            seed = seed - 999_999_999
    return x[seed]


def of_the_other_branch(x: Any) -> Any:
    j = 0
    for i in range(2 * len(x)):
        if j < len(x):
            x[j] = i
        else:
            x[j] = 0.0
        j += 1
    return j


WRONG = [beyond_the_last, before_the_first, behind_the_loop, by_two, that_grows_beyond_i64]


@pytest.mark.parametrize("function", [*WRONG, of_the_other_branch])
def test_what_is_beyond_stays_an_error(function: Callable[..., Any]) -> None:
    with pytest.raises(IndexError):
        function(np.zeros(41))
    with pytest.raises(IndexError, match="out of bounds"):
        mlc.compile(function)(np.zeros(41))
