"""Python ints among the arguments mean what they mean to NumPy, those too that do not fit."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import mlc

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
VALUES = (0, 5, -1, 100, 127, 128, -129, 255, 256, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, 2**70)


def stored(key: Any) -> Callable[[Any, Any], Any]:
    def f(x: Any, n: Any) -> Any:
        y = x.copy()
        y[key] = n
        return y

    return f


def in_place(x: Any, n: Any) -> Any:
    y = x.copy()
    y += n
    return y


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, n: x + n,
    "reflected": lambda x, n: n - x,
    "multiply": lambda x, n: np.multiply(n, x),
    "and": lambda x, n: x & n,
    "minimum": lambda x, n: np.minimum(n, x),
    "in place": in_place,
    "element": stored(0),
    "slice": stored(slice(1, None)),
    "positions": stored(np.array([0, 2])),
    "full": lambda x, n: np.full(3, n, dtype=x.dtype),
    "array": lambda x, n: np.array([n, 1], dtype=x.dtype),
    "asarray": lambda x, n: np.asarray(n, dtype=x.dtype),
    "scalar": lambda x, n: x.dtype.type(n) + x,
    "less": lambda x, n: x < n,
    "at least": lambda x, n: n >= x,
    "equal": lambda x, n: x == n,
    "unequal": lambda x, n: np.not_equal(n, x),
    "clip above": lambda x, n: np.clip(x, None, n),
    "clip below": lambda x, n: np.clip(x, n, None),
    "divide": lambda x, n: x / (n or 1),
    "twice": lambda x, n: x + n * 2,
}


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except OverflowError:
        return OverflowError


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_ints_as_numpy_takes_them(name: str, dtype: str) -> None:
    check(CASES[name], np.arange(3).astype(dtype), (5, -1, 100, 2**40, 6))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_ints_of_every_size(name: str, dtype: str) -> None:
    values = [n for n in VALUES if name != "twice" or n != 2**63 - 1]  # n * 2 is int64 arithmetic
    check(CASES[name], np.arange(3).astype(dtype), values)


def check(f: Callable[..., Any], x: Any, values: Sequence[int]) -> None:
    compiled = mlc.compile(f)
    for n in values:
        expected, found = outcome(f, x, n), outcome(compiled, x, n)
        if expected is OverflowError or found is OverflowError:
            assert found is expected, n
            continue
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, err_msg=str(n), rtol=1e-6)


def test_ints_that_fit_share_a_program() -> None:
    f = mlc.compile(lambda x, n: x + n)
    x = np.arange(3, dtype=np.int8)
    for n in range(-5, 5):
        np.testing.assert_array_equal(f(x, n), x + n)
    assert len(f.stats().artifacts) == 1
    with pytest.raises(OverflowError, match="Python integer 300 out of bounds for int8") as caught:
        f(x, 300)
    assert "test_python_integers.py" in str(caught.value)
    np.testing.assert_array_equal(f(x, 7), x + 7)
    g = mlc.compile(lambda p: p["x"] + p["n"][0])
    np.testing.assert_array_equal(g({"x": x, "n": [3]}), x + 3)
    with pytest.raises(OverflowError, match="out of bounds for int8"):
        g({"x": x, "n": [300]})


def test_ints_of_more_than_64_bits() -> None:
    x = np.arange(3.0)
    np.testing.assert_array_equal(mlc.compile(lambda x, n: x + n)(x, 2**70), x + 2**70)
    np.testing.assert_array_equal(
        mlc.compile(lambda x, n: x < n)(np.arange(3), -(2**70)), [False] * 3
    )
