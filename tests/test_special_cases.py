# pyright: reportUnknownMemberType=false
"""Elementwise functions at NaN, infinities and zeros, as the array API standard has them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend import numpy as mnp
from tests.special_cases import BINARY, COMPARISONS, OPERATORS, QUESTIONS, UNARY

DTYPES = (np.float32, np.float64)

SYMBOL: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def judge(
    function: Callable[..., Any], rows: Sequence[Sequence[float]], dtype: type[np.floating[Any]]
) -> None:
    """Compiled on arrays long enough for lanes and a masked end, and on single numbers."""
    columns = [np.array(column).astype(dtype) for column in zip(*rows, strict=True)]
    arguments, expected = columns[:-1], np.array([row[-1] for row in rows])
    many = [np.resize(x, 53) for x in arguments]
    check(mlc.compile(function)(*many), np.resize(expected, 53), dtype)
    one = mlc.compile(function)
    for k in range(len(rows)):
        check(one(*(x[k : k + 1] for x in arguments)), expected[k : k + 1], dtype)


def check(got: Any, expected: Any, dtype: type[np.floating[Any]]) -> None:
    """Specials and signs of zero exactly, other numbers within 4 epsilon."""
    got = np.asarray(got)
    if expected.dtype == bool:
        np.testing.assert_array_equal(got, expected)
        return
    expected = expected.astype(dtype)
    np.testing.assert_allclose(got, expected, rtol=4 * float(np.finfo(dtype).eps), atol=0)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


def function_named(name: str, operands: int) -> Callable[..., Any]:
    """mlc.numpy's function on that many arrays, one traced argument each."""
    function = getattr(mnp, name)

    def unary(x: Any) -> Any:
        return function(x)

    def binary(x: Any, y: Any) -> Any:
        return function(x, y)

    return unary if operands == 1 else binary


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*UNARY, *QUESTIONS])
def test_functions_of_one_number(name: str, dtype: type[np.floating[Any]]) -> None:
    rows = UNARY[name] if name in UNARY else QUESTIONS[name]
    judge(function_named(name, 1), rows, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_functions_of_two_numbers(name: str, dtype: type[np.floating[Any]]) -> None:
    rows = BINARY[name] if name in BINARY else COMPARISONS[name]
    judge(function_named(name, 2), rows, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators(symbol: str, dtype: type[np.floating[Any]]) -> None:
    name = OPERATORS[symbol]
    apply = SYMBOL[symbol]
    rows = BINARY[name] if name in BINARY else COMPARISONS[name]

    def operated(x: Any, y: Any) -> Any:
        return apply(x, y)

    judge(operated, rows, dtype)


def test_reference_has_the_same_special_cases() -> None:
    """Outside a compiled function the reference interpreter computes."""
    with np.errstate(all="ignore"):
        for name, rows in UNARY.items():
            x, expected = (np.array(column) for column in zip(*rows, strict=True))
            check(getattr(mnp, name)(x), expected, np.float64)
        for name, pairs in BINARY.items():
            x, y, expected = (np.array(column) for column in zip(*pairs, strict=True))
            check(getattr(mnp, name)(x, y), expected, np.float64)


def test_integers_divide_by_zero_and_shift_by_their_width() -> None:
    """D3: never a trap, never poison."""
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    x = np.array([5, -5, 0, low, low, high, 7, -7], np.int32)
    y = np.array([0, 0, 0, -1, 0, -1, 2, 2], np.int32)

    @mlc.compile
    def whole(x: Any, y: Any) -> Any:
        return x // y, x % y, mnp.fmod(x, y)

    found = whole(x, y)
    np.testing.assert_array_equal(found[0], [0, 0, 0, low, 0, -high, 3, -4])
    np.testing.assert_array_equal(found[1], [0, 0, 0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(found[2], [0, 0, 0, 0, 0, 0, 1, -1])

    @mlc.compile
    def shifted(x: Any, n: Any) -> Any:
        return x << n, x >> n

    n = np.array([31, 31, 32, 32, 33, 100, -1, -1], np.int32)
    left, right = shifted(x, n)
    np.testing.assert_array_equal(left, np.left_shift(x, n))
    np.testing.assert_array_equal(right, np.right_shift(x, n))


@pytest.mark.parametrize("q", [-0.1, 1.5, np.nan, [0.5, 2.0]])
def test_quantiles_outside_their_range_are_an_error(q: Any) -> None:
    @mlc.compile
    def both(x: Any, q: Any) -> Any:
        return np.quantile(x, q) + np.percentile(x, 100 * q)

    x = np.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(both(x, np.zeros_like(q)), 2 * np.ones_like(q))
    with pytest.raises(ValueError, match=r"range \[0, 1\]"):
        both(x, np.asarray(q))
    with pytest.raises(ValueError, match=r"range \[0, 1\]"):
        both.reference(x, np.asarray(q))


def test_integers_to_negative_powers_are_an_error() -> None:
    @mlc.compile
    def power(x: Any, n: Any) -> Any:
        return x**n

    x = np.array([2, -3, 5], np.int64)
    np.testing.assert_array_equal(power(x, np.array([62, 3, 0])), [2**62, -27, 1])
    with pytest.raises(ValueError, match="negative integer powers are not allowed"):
        power(x, np.array([1, -1, 2]))
