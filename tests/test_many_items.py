"""Calls that go over many items and what is made of them, beside Python's: values and classes."""

# pyright: basic

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.trace.containers import flatten
from tests.many_programs import MANY_ITEMS
from tests.test_effects import dtype_or_class, outcome


@pytest.mark.parametrize("name", MANY_ITEMS)
def test_as_python(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, calls = MANY_ITEMS[name]
    compiled = mlc.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy, of sums of bytes
        for arguments in [x for x in calls for _ in range(2)]:
            expected = outcome(function, arguments, capsys)
            found = outcome(compiled, arguments, capsys)
            assert found[3] == expected[3]
            error = expected[1]
            assert (found[1] is None) == (error is None), found[1]
            assert error is None or issubclass(found[1][0], error[0])
            (ours, kind), (theirs, other) = (flatten(x[0]) for x in (found, expected))
            assert kind == other
            assert list(map(dtype_or_class, ours)) == list(map(dtype_or_class, theirs))
            for one, another in zip(ours, theirs, strict=True):
                if another is None or isinstance(another, str):
                    assert one == another
                else:
                    np.testing.assert_allclose(one, another, rtol=1e-6 if _short(one) else 1e-12)


def _short(x: object) -> bool:
    return getattr(x, "dtype", None) == np.float32


@pytest.mark.parametrize("function", [sum, max, sorted, list], ids=lambda f: f.__name__)
def test_many_are_one_loop(function: Any) -> None:
    """The ops of a program do not grow with what it goes over."""

    def called(x: Any) -> Any:
        return function(x)

    def sizes(count: int) -> int:
        lowered = mlc.compile(called).lower(np.arange(float(count)))
        return len(lowered.text("tensor").splitlines())

    assert sizes(3000) == sizes(300)


def test_a_comprehension_of_loops_is_one_loop() -> None:
    function, _ = MANY_ITEMS["roots_of_trees"]
    edges = np.array([[0, 1], [2, 1]])
    few, many = (mlc.compile(function).lower(edges, n).text("trace") for n in (6, 60))
    assert few.count("mlc.while") == many.count("mlc.while")
