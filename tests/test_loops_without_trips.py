"""
What a loop hands on where it ran no trip, what a branch hands on that is not taken, or where trips
and branches change the class or the dtype of a number: value, class and dtype are NumPy's, and
those of what is made of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.errors import DTypeError
from mlc.frontend.trace.kinds import is_series
from tests.random_python.judge import compiled_text
from tests.sweeps import covering

STARTS = {
    "bool": "True",
    "int": "3",
    "large": "2**60 + 1",
    "float": "0.1",
    "np.int64": "n[0]",
    "np.int32": "m[0]",
    "np.float32": "w[0]",
    "constant": "np.float32(0.1)",
    "np.float64": "x[0]",
    "np.bool": "x[0] > 0",
}
CHANGES = {
    "not": "t = not t",
    "halves": "t = t / 2",
    "grows": "t = t + 1",
    "double": "t = x[k]",
    "single": "t = w[k] * 2",
    "compared": "t = x[k] > 0.5",
    "a float": "t = 1.5",
}
LOOPS = {
    "for": ["for k in range(c):", "    {}"],
    "while": ["k = 0", "while k < c:", "    {}", "    k += 1"],
    "nested": ["for _ in range(2):", "    for k in range(c):", "        {}"],
}
BRANCHES = {
    "if": ["k = 1", "if c:", "    {}"],
    "in a loop": ["for k in range(3):", "    if k > 2 - c:", "        {}"],
}
JOINED = [
    *(("bool", x) for x in ("not", "halves", "grows", "double", "compared", "a float")),
    *(("int", x) for x in ("halves", "grows", "double", "a float")),
    *(("large", x) for x in ("halves", "grows", "double", "a float")),
    *(("float", x) for x in ("halves", "grows", "double", "a float")),
    *(("np.float32", "single"), ("np.float64", "double"), ("np.float64", "a float")),
]
"""Starts and changes that have one dtype in common."""
USES = {
    "returned": ["return t"],
    "sum": ["return t + 1, 0 - t"],
    "product": ["return t * 2.5, t * w[1]"],
    "in a list": ["kept = [t, 1]", "kept.append(t)", "return kept"],
    "with arrays": ["return w * t, x * t"],
    "stored": ["y[1] = t", "return y"],
    "functions": ["return np.sqrt(np.abs(t)), np.maximum(t, 1), np.add(t, w)"],
    "branch": ["return t * 2.0 if t > 1 else t + 1"],
    "by 0": ["return t / (d.item() * 0)"],
    "the larger": ["return max(t, 2), min(x[1], t)"],
    "asked": ["return type(t) is float, isinstance(t, (int, float)), np.isscalar(t)"],
}
SAME_BY_CLASS = {*USES} - {"with arrays", "stored", "functions", "branch"}


def program(start: str, change: str, loop: str, use: str) -> str:
    """The text of a function of x, w, n, m, y and the number of trips."""
    lines = ["c = d[0]", f"t = {STARTS[start]}"]
    lines += [line.format(CHANGES[change]) for line in (LOOPS | BRANCHES)[loop]] + USES[use]
    return "def f(x, w, n, m, y, d):\n" + "".join(f"    {line}\n" for line in lines)


def arguments(trips: int) -> tuple[Any, ...]:
    """Fresh ones."""
    return (
        np.linspace(0.2, 1, 4),
        np.linspace(0.3, 2, 4, dtype=np.float32),
        np.array([2**60 + 1]),
        np.array([6, 7], np.int32),
        np.zeros(3),
        np.array([trips]),
    )


def called(function: Callable[..., Any], trips: int) -> Any:
    """What it gives, or the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*arguments(trips))
        except (TypeError, ZeroDivisionError) as error:  # `0 - t` of a bool of NumPy's
            return error


def check(wanted: Any, found: Any, by_class: bool) -> None:
    """The same class, if that is asked, dtype and value."""
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted))
        return
    if is_series(wanted):
        assert type(found) is type(wanted)
        for one, other in zip(wanted, found, strict=True):
            check(one, other, by_class)
        return
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    assert not by_class or type(found) is type(wanted)
    if np.asarray(wanted).dtype.kind == "i":
        assert int(found) == int(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("start", "change", "loop", "use"),
    covering([*STARTS], [*CHANGES], [*LOOPS], [*USES], strength=1),
)
def test_is_numpy(start: str, change: str, loop: str, use: str) -> None:
    check_program(start, change, loop, use)


@pytest.mark.parametrize(
    ("pair", "branch", "use"), covering(JOINED, [*BRANCHES], [*USES], strength=1)
)
def test_branches_are_numpys(pair: tuple[str, str], branch: str, use: str) -> None:
    check_program(*pair, branch, use)


def check_program(start: str, change: str, loop: str, use: str) -> None:
    """Of no trip, one and three: compiled as in Python."""
    text = program(start, change, loop, use)
    plain, step = compiled_text(text), mlc.compile(compiled_text(text))
    for trips in (0, 1, 3):
        check(called(plain, trips), called(step.reference, trips), use in SAME_BY_CLASS)


def test_compiled_code_gives_what_the_reference_gives() -> None:
    text = program("np.int64", "halves", "for", "returned")
    step = mlc.compile(compiled_text(text))
    for trips, kind in ((0, np.int64), (1, np.float64)):
        assert type(step(*arguments(trips))) is kind
    assert step(*arguments(0)) == 2**60 + 1


def test_an_array_keeps_its_dtype_where_no_trip_makes_another() -> None:
    @mlc.compile
    def scaled(w: Any, factor: Any, n: Any) -> Any:
        for k in range(n[0]):
            w = w * factor[k]
        return w, w.sum()

    w, factor = np.ones(4, np.float32), np.full(3, 0.5)
    for trips, dtype in ((0, np.float32), (2, np.float64)):
        for found in scaled(w, factor, np.array([trips])):
            assert found.dtype == dtype


def test_a_function_that_needs_one_dtype_says_both() -> None:
    @mlc.compile
    def built(n: Any, trips: Any) -> Any:
        t = n[0]
        for _ in range(trips[0]):
            t = t / 2
        return np.r_[t, 1]

    with pytest.raises(DTypeError, match=r"t is float64 or int64(.|\n)*return np.r_\[t, 1\]"):
        built(np.array([4]), np.array([0]))


def test_numbers_that_change_places_settle() -> None:
    text = """\
def f(x, w, n, m, y, d):
    a, b = x[0], 1
    for k in range(d[0]):
        a, b = b, a
    return a, b, a * w[0], b * w[0]
"""
    plain, step = compiled_text(text), mlc.compile(compiled_text(text))
    for trips in (0, 1, 2):
        check(called(plain, trips), called(step.reference, trips), False)


def test_a_loop_of_numbers_of_two_classes_that_runs_no_trip() -> None:
    """What begins as a third class keeps it: an int of Python's before floats of his or NumPy's."""

    def f(x: Any, n: Any) -> Any:
        q = 1
        for _ in range(n):
            q += x[0] if x[0] < 1.5 else 1.5
        return q

    compiled = mlc.compile(f)
    for first in (0.5, 2.5):
        x = np.array([first])
        assert type(compiled(x, 0)) is int
        for n in (0, 1, 40):
            assert compiled(x, n) == f(x, n)
