"""The dtype of operands together: NumPy's for every pair, and our own rules for what it leaves."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc.dialects.dtypes import BF16, BOOL, DTYPES, DType
from mlc.dialects.errors import DTypeError

Array = NDArray[Any]
# bf16 is ml_dtypes': with Python numbers NumPy widens it
OURS = tuple(d for d in DTYPES if d is not BF16 and d.kind != "storage")
NUMBERS = (True, 3, 2.5, 1j)


Function = Callable[..., Any]


def compiled(function: Function, *arrays: Array, static: tuple[str, ...] = ()) -> Array:
    """A compiled function's result."""
    make: Any = mlc.compile
    return np.asarray(make(function, static=static)(*arrays))


def dtype_of(function: Function, *arrays: Array) -> np.dtype[Any]:
    """The dtype of a compiled function's result."""
    return compiled(function, *arrays).dtype


def add(x: Any, y: Any) -> Any:
    return x + y


def total(x: Any) -> Any:
    return x.sum()


def times(number: Any) -> Function:
    """A function that multiplies by a number that is part of the program."""

    def function(x: Any) -> Any:
        return x * number

    return function


def plus(number: int) -> Function:
    """A function that adds a number that is part of the program."""

    def function(x: Any) -> Any:
        return x + number

    return function


def ones(dtype: DType) -> Array:
    return np.ones(3, dtype.numpy)


def sum_dtype(left: DType, right: DType) -> np.dtype[Any]:
    """The dtype of a sum under NumPy. (Of bf16 and wide integers result_type says nothing.)"""
    try:
        return np.result_type(left.numpy, right.numpy)
    except TypeError:
        if "storage" in (left.kind, right.kind):
            raise
        return (ones(left) + ones(right)).dtype


@pytest.mark.parametrize("left", DTYPES, ids=lambda d: d.name)
def test_every_pair_is_promoted_as_numpy_does(left: DType) -> None:
    from mlc.frontend.numpy.values import _common  # pyright: ignore[reportPrivateUsage]

    for right in DTYPES:
        try:
            want = sum_dtype(left, right)
        except TypeError:
            with pytest.raises(TypeError):
                _common((left.name, right.name))
        else:
            assert _common((left.name, right.name)).numpy == want, right.name


@pytest.mark.parametrize("left", ["i8", "u16", "u64", "f16", "bf16", "c64"])
def test_compiled_results_have_the_promoted_dtype(left: str) -> None:
    row = next(d for d in DTYPES if d.name == left)
    for right in ("bool", "u8", "i32", "i64", "f16", "f32", "c128"):
        other = next(d for d in DTYPES if d.name == right)
        try:
            want = sum_dtype(row, other)
        except TypeError:
            with pytest.raises(DTypeError, match="no common dtype"):
                compiled(add, ones(row), ones(other))
        else:
            assert dtype_of(add, ones(row), ones(other)) == want, right


@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_python_numbers_are_as_weak_as_numpys(number: Any) -> None:
    for row in OURS:
        want = np.result_type(row.numpy, number if number is not True else np.dtype(bool))
        assert dtype_of(times(number), ones(row)) == want, row.name


PYTHONS: tuple[Function, ...] = (
    lambda k, q, x: ((q > 1) + (k > 1), (q > 1) + True, -(q > 1), abs(q > 1)),
    lambda k, q, x: ((q > 1) - (k > 1), (q > 1) / (k > 1), (q > 1) ** 2, (q > 1) << k),
    lambda k, q, x: (q == q, (q > 1) & True, (q > 1) | (k > 9), (q > 1) ^ (k > 1)),
    lambda k, q, x: (round(q > 1), sum([q > 1, k > 1]), (q > 1) * 2.5, k + True),
    lambda k, q, x: (x + (q > 1), x * (k + True), (x > 0) + (q > 1), (q > 1) & k),
    lambda k, q, x: (*divmod(k, True), x + divmod(k, 2)[0], (k**2) + x),
)


@pytest.mark.parametrize("function", PYTHONS)
def test_bools_of_python_numbers_are_pythons(function: Function) -> None:
    """Python counts with the outcome of comparing its numbers, where NumPy's bool is or'ed."""
    x = np.arange(4, dtype=np.int8)
    wanted: Any = function(3, 2.5, x)
    found: Any = mlc.compile(function)(3, 2.5, x)
    for got, want in zip(found, wanted, strict=True):
        assert type(got) is type(want)
        np.testing.assert_array_equal(got, want)
        assert np.asarray(got).dtype == np.asarray(want).dtype


@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_python_numbers_keep_bf16(number: Any) -> None:
    want = np.complex64 if isinstance(number, complex) else BF16.numpy
    assert dtype_of(times(number), ones(BF16)) == want


def test_bf16_beside_what_it_does_not_hold_counts_as_f32() -> None:
    """As ml_dtypes' loops have it: no integer up to 32 bits loses a digit."""
    x: Any = np.array([1, 2, 3], BF16.numpy)
    y = np.array([257, 1001, 2**15 - 1], np.int16)
    got = compiled(add, x, y)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, x + y)
    assert dtype_of(add, x, y.astype(np.int32)) == np.float64
    assert dtype_of(add, x, y.astype(np.float16)) == np.float32


def test_products_of_bf16_are_bf16_summed_in_f32() -> None:
    def gram(x: Any) -> Any:
        return x @ x.T

    x = np.full((1, 4096), 1.0, BF16.numpy)
    got = compiled(gram, x)
    assert got.dtype == BF16.numpy
    assert float(got[0, 0]) == 4096.0  # a sum in bf16 stays at 256
    whole = compiled(total, x)
    assert whole.dtype == BF16.numpy
    assert float(whole) == 4096.0


@pytest.mark.parametrize("row", [d for d in DTYPES if d.is_integer], ids=lambda d: d.name)
def test_a_python_int_out_of_range_is_an_overflow_error(row: DType) -> None:
    for number in (int(row.highest) + 1, int(row.lowest) - 1):
        with pytest.raises(OverflowError, match=f"{number} out of bounds for {row.numpy}"):
            compiled(plus(number), ones(row))
    for number in (int(row.highest), int(row.lowest)):
        assert dtype_of(plus(number), ones(row)) == row.numpy


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.ge])
def test_comparisons_with_any_python_int(compare: Callable[[Any, Any], Any]) -> None:
    x = np.array([0, 1, 200], np.uint8)
    for number in (-1, 0, 200, 255, 256, 10**30):

        def right(x: Any, number: int = number) -> Any:
            return compare(x, number)

        def left(x: Any, number: int = number) -> Any:
            return compare(number, x)

        for function in (right, left):
            found = [compiled(function, x, static=("number",))]
            if abs(number) < 2**63:
                found.append(compiled(function, x))  # the number is known only at run time
            for got in found:
                np.testing.assert_array_equal(got, function(x))


@pytest.mark.parametrize("row", [d for d in DTYPES if d.kind != "storage"], ids=lambda d: d.name)
def test_sums_and_means_have_numpys_dtype(row: DType) -> None:
    def product(x: Any) -> Any:
        return x.prod()

    def mean(x: Any) -> Any:
        return x.mean()

    x = ones(row)
    assert dtype_of(total, x) == np.sum(x).dtype
    assert dtype_of(product, x) == np.prod(x).dtype
    if row is not BF16:
        assert dtype_of(mean, x) == np.mean(x).dtype


@pytest.mark.parametrize("row", [d for d in DTYPES if d.kind == "storage"], ids=lambda d: d.name)
def test_what_is_stored_is_converted_but_not_computed_with(row: DType) -> None:
    def doubled(x: Any) -> Any:
        return (x.astype(np.float32) * 2).astype(x.dtype)[::-1]

    numbers = [0.0, 1.0, 1.0] if row.stores_integers else [0.5, 1.0, 2.0]
    x: Array = np.array(numbers, row.numpy)
    with pytest.raises(DTypeError, match=r"astype\(np.float32\)"):
        compiled(add, x, x)
    with pytest.raises(DTypeError, match=r"astype\(np.float32\)"):
        compiled(total, x)
    got = compiled(doubled, x)
    assert got.dtype == row.numpy
    want = np.minimum(2 * np.array(numbers[::-1], np.float32), float(row.highest))
    np.testing.assert_array_equal(got.astype(np.float32), want)


def test_functions_of_integers_and_bool_are_computed_as_numpy_does() -> None:
    def root(x: Any) -> Any:
        return np.sqrt(x)

    for row in DTYPES:
        if row.is_integer or row is BOOL:
            assert dtype_of(root, ones(row)) == np.sqrt(ones(row)).dtype, row.name
