"""
Errors and lines of functions on values: classes, messages, printed text in order, what was stored
before; through derivatives and batches, and in the reference.
"""

from __future__ import annotations

import copy
import traceback
import warnings
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
import pytest

import mlc
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.trace.containers import flatten
from tests.alias_programs import ALIASES, REFUSED
from tests.effect_programs import PROGRAMS
from tests.failure_programs import FAILURES, NUMBERS
from tests.kind_programs import KINDS


def outcome(function: Any, arguments: tuple[Any, ...], capsys: Any) -> tuple[Any, ...]:
    """Result, error, arguments afterwards, printed text."""
    given = copy.deepcopy(arguments)
    result, error = None, None
    try:
        result = function(*given)
    except Exception as found:  # noqa: BLE001 - whichever it raises is the answer
        error = type(found), str(found)
    return result, error, given, capsys.readouterr().out


def assert_same_outcome(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    np.testing.assert_equal(found[0], expected[0])
    assert found[1] == expected[1]
    np.testing.assert_equal(found[2], expected[2])
    assert found[3] == expected[3]


@pytest.mark.parametrize("name", [*PROGRAMS, *KINDS, *ALIASES])
def test_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, calls = {**PROGRAMS, **KINDS, **ALIASES}[name]
    compiled = mlc.compile(function)
    for arguments in calls:
        expected = outcome(function, arguments, capsys)
        assert_same_outcome(outcome(compiled, arguments, capsys), expected)
        assert_same_outcome(outcome(compiled, arguments, capsys), expected)


@pytest.mark.parametrize("way", ["code", "reference"])
@pytest.mark.parametrize("name", FAILURES)
def test_what_is_done_before_an_error(
    name: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first error is raised, after all that stands before it and nothing else."""
    function, calls = FAILURES[name]
    compiled = mlc.compile(function)
    run = compiled if way == "code" else compiled.reference
    for arguments in (*calls, *calls):
        result, error, given, text = outcome(function, arguments, capsys)
        found = outcome(run, arguments, capsys)
        assert (error is None) == (found[1] is None)
        assert error is None or issubclass(found[1][0], error[0])
        assert_same_outcome((found[0], None, *found[2:]), (result, None, given, text))


@pytest.mark.parametrize("way", ["code", "reference"])
@pytest.mark.parametrize("name", NUMBERS)
def test_classes_of_numbers(name: str, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A number is of the class that it has in Python, however many trips there were."""
    function, calls = NUMBERS[name]
    compiled = mlc.compile(function)
    run = compiled if way == "code" else compiled.reference
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy, of 0 / 0
        for arguments in (*calls, *calls):
            expected = outcome(function, arguments, capsys)
            found = outcome(run, arguments, capsys)
            assert (found[1] or [None])[0] == (expected[1] or [None])[0]
            assert_same_outcome((found[0], None, *found[2:]), (expected[0], None, *expected[2:]))
            leaves = [flatten((x[0], x[2]))[0] for x in (found, expected)]
            assert list(map(dtype_or_class, leaves[0])) == list(map(dtype_or_class, leaves[1]))


def dtype_or_class(x: Any) -> Any:
    """Floats of Python's and NumPy's are one: of a class that is the other's."""
    return float if isinstance(x, float) else getattr(x, "dtype", x.__class__)


def test_divisions_of_sizes() -> None:
    def ratios(x: Any) -> Any:
        return len(x) // len(x), (2 * len(x)) % len(x)

    compiled = mlc.compile(ratios)
    for size in (3, 4, 0, 5):
        x = np.ones(size)
        if size:
            assert compiled(x) == ratios(x)
        else:
            with pytest.raises(ZeroDivisionError):
                compiled(x)
    assert len(compiled.stats().artifacts) <= 2


def test_only_what_can_fail_keeps_what_was() -> None:
    """Arrays are copied where an error may come after a store, and nowhere else."""

    def sure(x: Any) -> None:
        for i in range(1, len(x)):
            x[i] += x[i - 1]

    def unsure(x: Any, n: Any) -> None:
        x[n] = 1

    cases: list[tuple[Any, Any, bool]] = [
        (sure, (np.ones(9),), False),
        (unsure, (np.ones(9), 2), True),
    ]
    for function, arguments, kept in cases:
        compiled = cast("Any", mlc.compile(function))
        compiled(*arguments)
        (programs,) = compiled._dispatcher.ready.values()
        assert programs[0].again == kept


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_be_a_view_at_places_that_nobody_knows(name: str) -> None:
    """It is refused at the line that needs to know: never read as it was."""
    function, calls = REFUSED[name]
    with pytest.raises(NotSupportedError, match="may be the same one as another") as raised:
        mlc.compile(function)(*calls[0])
    assert "x.copy()" in str(raised.value)


@pytest.mark.parametrize("name", ["several_errors", "in_while", "raised_in_a_helper"])
def test_reference(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, calls = PROGRAMS[name]
    for arguments in calls:
        found = outcome(mlc.compile(function).reference, arguments, capsys)
        assert_same_outcome(found, outcome(function, arguments, capsys))


def squares(x: Any) -> Any:
    assert x.sum() > 0, f"sum {x.sum()}"
    total = 0.0
    for v in x:
        if v < 0:
            raise ValueError(f"negative {v}")
        total += v**2
    print("total", total)
    return total


def pushed(x: Any) -> Any:
    return mlc.jvp(squares, (x,), (x,))[1]


def test_derivatives_raise_and_print(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([1.0, 2.0, 3.0])
    for transformed, expected in (
        (mlc.grad(squares), 2 * x),
        (mlc.hessian(squares), 2 * np.eye(3)),
        (pushed, 28.0),
    ):
        np.testing.assert_allclose(transformed(x), expected)
        assert capsys.readouterr().out == "total 14.0\n"
        with pytest.raises(ValueError, match=r"^negative -1\.0$"):
            transformed(x * [1, -0.5, 1])
        with pytest.raises(AssertionError, match=r"^sum -6\.0$"):
            transformed(-x)


def test_batches_raise_what_the_first_example_raises(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    each = mlc.vmap(squares)
    np.testing.assert_allclose(each(x), (x**2).sum(1))
    assert capsys.readouterr().out == "total 5.0\ntotal 25.0\ntotal 61.0\n"
    with pytest.raises(ValueError, match=r"^negative -1\.0$"):
        each(x * [[1, 1], [-1 / 3, 1], [1, -1 / 6]])


def index_in_a_branch(x: Any) -> Any:
    x[1] = 5.0
    if x[0] < 0:
        x[0] = 7.0
        x[1] = x[2]
    return x[0] if x[0] < 9 else x[-4]


def index_behind_a_store(x: Any) -> Any:
    x[0] = x[0] + 7.0
    return x[2]


@pytest.mark.parametrize("function", [index_in_a_branch, index_behind_a_store])
def test_what_is_stored_before_an_index_lies_outside(function: Any) -> None:
    """Where only the compiled function knows whether it gets there, an index is no error before."""
    compiled = mlc.compile(function)
    for x in (np.array([3.0, 1.0]), np.array([-3.0, 1.0]), np.array([12.0, 1.0])):
        ours, theirs = x.copy(), x.copy()
        try:
            wanted = function(theirs)
        except IndexError:
            with pytest.raises(IndexError, match="out of bounds"):
                compiled(ours)
        else:
            assert compiled(ours) == wanted
        np.testing.assert_array_equal(ours, theirs)


def test_errors_show_the_line() -> None:
    with pytest.raises(AssertionError) as caught:
        mlc.compile(squares)(-np.ones(2))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.line == 'assert x.sum() > 0, f"sum {x.sum()}"'
    assert last.filename == __file__


def test_an_error_in_printing_is_raised() -> None:
    def misprinted(x: Any) -> Any:
        print(f"{x[0]:q}")
        return x

    with pytest.raises(ValueError, match="format"):
        mlc.compile(misprinted)(np.ones(2))


def test_bodies_of_scans_neither_raise_nor_print() -> None:
    def body(carry: Any, x: Any) -> Any:
        print(carry)
        return carry + x, carry

    def scanned(x: Any) -> Any:
        return mlc.scan(body, 0.0, x)

    with pytest.raises(mlc.NotSupportedError, match="Write it as Python's for"):
        mlc.compile(scanned)(np.ones(3))


def test_one_program_for_all_values() -> None:
    f = mlc.compile(squares)
    for x in (1.0, 2.0, 3.0):
        f(np.array([x, 1.0]))
    assert len(f.stats().artifacts) == 1


def test_a_call_that_fails_runs_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Also one for which the program that was compiled last is not the right one."""

    def counted(x: Any, n: int) -> None:
        x += 1
        print("counted")
        if n % 2 == 0:
            raise KeyError("even")

    compiled, x = mlc.compile(counted), np.zeros(2)
    for n in (1, 2, 3, 4):
        with pytest.raises(KeyError) if n % 2 == 0 else nullcontext():
            compiled(x, n)
        assert x.tolist() == [n, n]
    assert capsys.readouterr().out == "counted\n" * 4


def test_nothing_is_printed_behind_a_test_that_raises(capsys: pytest.CaptureFixture[str]) -> None:
    def behind(x: Any, n: Any) -> None:
        if n > 30 or x[4] > 0:
            print("inside")
        print("behind")

    def called(x: Any, n: Any) -> None:
        def checked(s: Any) -> Any:
            if s < 100:
                raise IndexError("small")
            return s

        while True:
            if n > 30 or checked(x[0]) > 0:
                break
        print("behind")

    for function in (behind, called):
        compiled = mlc.compile(function)
        for _ in range(2):
            with pytest.raises(IndexError):
                compiled(np.zeros(4), np.int64(1))
        assert capsys.readouterr().out == ""
        compiled(np.zeros(4), np.int64(31))
        assert capsys.readouterr().out.endswith("behind\n")
