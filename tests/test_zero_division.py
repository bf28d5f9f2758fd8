"""
Division of Python's numbers by 0 raises where Python does, with its words and the user's line, and
nowhere else: not on the path that is not taken, and not of NumPy's numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.faults import TOO_LARGE

OPERATORS: Any = operator
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "divmod": lambda a, b: (*divmod(a, b),),
    "operator": lambda a, b: 1 + OPERATORS.truediv(a, b),
    "reduce": lambda a, b: reduce(OPERATORS.floordiv, [a, b]),
}
Function = Callable[..., Any]


def outcome(function: Function, *args: Any) -> Any:
    """The result, or the error's class and first line."""
    with np.errstate(all="ignore"):
        try:
            return function(*args)
        except ZeroDivisionError as error:
            return ZeroDivisionError, str(error).splitlines()[0]


def check(function: Function, *calls: tuple[Any, ...]) -> None:
    """Compiled and in the interpreter, each call ends as in Python."""
    compiled = mlc.compile(function)
    for args in calls:
        wanted = outcome(function, *args)
        np.testing.assert_equal(outcome(compiled, *args), wanted)
        np.testing.assert_equal(outcome(compiled.reference, *args), wanted)


@pytest.mark.parametrize("sign", SIGNS)
def test_numbers_that_are_arguments(sign: str) -> None:
    check(SIGNS[sign], (7, 2), (7, 0), (7.5, 2.0), (7.5, 0.0), (7, -0.0), (-7, 2), (7, False))


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("kinds", [(np.float64, np.float64), (np.int64, float), (int, np.float64)])
def test_of_numpys_numbers_it_is_no_error(sign: str, kinds: tuple[Any, Any]) -> None:
    function = SIGNS[sign]
    a, b = (kind(v) for kind, v in zip(kinds, (7, 0), strict=True))
    with np.errstate(all="ignore"):
        np.testing.assert_equal(mlc.compile(function)(a, b), function(a, b))
        np.testing.assert_equal(mlc.compile(function)(np.ones(3), 0.0), function(np.ones(3), 0.0))


def test_numpys_functions_of_pythons_numbers() -> None:
    def divided(a: Any, b: Any) -> Any:
        return np.true_divide(a, b), np.floor_divide(a, b)

    check(divided, (1.0, 0.0))


def test_powers() -> None:
    def inverse(a: Any) -> Any:
        return a**-1

    def power(a: Any, b: Any) -> Any:
        return a**b

    check(inverse, (2.0,), (0.0,))
    check(power, (0.0, 1.5), (0.0, -1.5), (2.0, -1.5))


def test_complex_numbers() -> None:
    def quotient(a: Any, b: Any) -> Any:
        return complex(a, b) / complex(a - b, 0)

    check(quotient, (1.0, 2.0), (1.0, 1.0))


def test_what_a_loop_counts() -> None:
    def counted(x: Any) -> Any:
        total = 0
        for k in range(len(x)):
            total += 100 // (k - 5)
        return total

    def carried(n: Any) -> Any:
        k = 0
        while True:
            n = n // (5 - k)
            k += 1
            if k > 7:
                break
        return n

    check(counted, (np.zeros(4),), (np.zeros(12),))
    check(carried, (100_000,))


def test_elements_as_numbers() -> None:
    def of_item(x: Any) -> Any:
        return x[0].item() / x[1].item()

    def of_int(x: Any) -> Any:
        return int(x[0]) % int(x[1])

    def of_numpy(x: Any) -> Any:
        return x[0] / x[1]

    for function in (of_item, of_int, of_numpy):
        check(function, (np.array([7.0, 2.0]),), (np.array([7.0, 0.0]),))


def test_paths_that_are_not_taken() -> None:
    def guarded(x: Any) -> Any:
        total = 0
        for k in range(len(x)):
            if x[k] > 0:
                total += 100 // int(x[k])
        return total

    def chosen(x: Any) -> Any:
        a, b = int(x[0]), int(x[1])
        return a // b if b else -1, b != 0 and a // b > 1

    def skipped(x: Any) -> Any:
        total = 0.0
        for k in range(len(x)):
            b = float(x[k])
            if b == 0:
                continue
            total += 1 / b
        return total

    check(guarded, (np.array([1.0, 0.0, 3.0]),), (np.array([1.0, 0.5, 3.0]),))
    check(chosen, (np.array([7.0, 2.0]),), (np.array([7.0, 0.0]),))
    check(skipped, (np.array([1.0, 0.0, 3.0]),))


def test_arguments_are_written_before() -> None:
    def stored(x: Any, k: Any) -> Any:
        x[0] = 5.0
        return x / (3 // k)

    x = np.ones(2)
    with pytest.raises(ZeroDivisionError):
        mlc.compile(stored)(x, 0)


def test_an_error_that_the_function_catches() -> None:
    @mlc.compile
    def caught(x: Any) -> Any:
        k = int(x[0])
        try:
            return 10 // k
        except ZeroDivisionError:
            return -5

    assert caught(np.array([3.0])) == 3
    assert caught(np.array([0.0])) == -5


def test_sizes() -> None:
    def ratios(x: Any, y: Any) -> Any:
        n, m = len(x), len(y)
        return n / m, n // m, n % m, 7 % m, *divmod(7, m), *divmod(m, 7)

    spec = [mlc.TensorSpec(name, dtype="f64") for name in "NM"]
    found = mlc.compile(ratios).lower(*spec).compile()
    for n in (3, 0):
        x, y = np.ones(7), np.ones(n)
        np.testing.assert_equal(outcome(found, x, y), outcome(ratios, x, y))


def test_derivatives_and_batches() -> None:
    def ratio(x: Any) -> Any:
        return float(x[0]) / float(x[1])

    def safe(x: Any) -> Any:
        b = float(x[1])
        return float(x[0]) / b if b != 0 else -1.0

    good, bad = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    np.testing.assert_allclose(mlc.grad(ratio)(good), [0.5, -0.25])
    np.testing.assert_allclose(mlc.vmap(ratio)(np.stack([good, good])), [0.5, 0.5])
    np.testing.assert_allclose(mlc.vmap(safe)(np.stack([good, bad])), [0.5, -1.0])
    rows = mlc.vmap(mlc.grad(safe))(np.stack([good, bad]))
    np.testing.assert_allclose(rows, [[0.5, -0.25], [0.0, 0.0]])
    for function, x in ((mlc.grad(ratio), bad), (mlc.vmap(ratio), np.stack([good, bad]))):
        with pytest.raises(ZeroDivisionError, match="float division by zero"):
            function(x)


def test_the_error_says_the_line() -> None:
    @mlc.compile
    def mean(x: Any, n: Any) -> Any:
        return math.pi / n + x

    with pytest.raises(ZeroDivisionError) as found:
        mean(np.ones(3), 0)
    first, second = str(found.value).splitlines()
    assert first == "float division by zero"
    assert __file__ in second
    assert second.endswith("return math.pi / n + x")


def checks(function: Function, *args: Any) -> int:
    """How often the code asks whether a divisor is 0."""
    text = mlc.compile(function).lower(*args).text("plan")
    return text.count("mlc.divisor") - text.count(f'of "{TOO_LARGE}"')


def test_what_is_not_0_is_not_asked() -> None:
    def after_a_start(x: Any) -> Any:
        total = 0
        for k in range(1, len(x)):
            total += 100 // k + int(x[k]) % 7 + k / len(x)
        return total

    def tested(a: Any, b: Any) -> Any:
        while b:
            a, b = b, a % b
        return a

    def of_arrays(x: Any, n: Any) -> Any:
        total = 0.0
        for k in range(len(x)):
            total = total + x[k] / n
        return total, x / n, x.mean(), np.linspace(0, 1, len(x)), x.var(ddof=1)

    def asked_once(n: Any, p: Any) -> Any:
        return n % p + n // p

    def positive(a: Any, b: Any) -> Any:
        return 1 / (1 + a * a) + a / (abs(b) + 0.5 * math.sqrt(b * b + a * a) + 2)

    x = np.ones(9)
    assert checks(positive, 3.0, 2.0) == 0
    assert [checks(after_a_start, x), checks(tested, 12, 18), checks(of_arrays, x, 3)] == [0, 0, 0]
    assert checks(asked_once, 7, 2) == 1
    with np.errstate(all="ignore"):
        np.testing.assert_equal(mlc.compile(of_arrays)(x, 0), of_arrays(x, 0))
