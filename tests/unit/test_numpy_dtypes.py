"""Conversions beyond a dtype's range, conjugates, and Python numbers as operands."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc.dialects.dtypes import DTYPES, DType

Array = NDArray[Any]

NUMBERS = (
    *(0, -0.0, 1.5, -1.5, -0.5, 127, 128, -128, -129, 255, 256, -300, 32768, 65535, 65536),
    *(2.0**31, -(2.0**31) - 1, 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e19, 1e30, -1e30),
    *(np.inf, -np.inf, np.nan),
)
INTEGERS = [row for row in DTYPES if row.is_integer]


def saturated(numbers: Array, row: DType) -> Array:
    """Cut off, and the nearest bound where the dtype has no such integer; 0 of NaN."""
    bounds = {float("inf"): row.highest, float("-inf"): row.lowest}
    exact = [
        0 if x != x else bounds[x] if x in bounds else min(max(int(x), row.lowest), row.highest)
        for x in np.real(numbers).astype(np.float64).tolist()
    ]
    return np.array(exact, row.numpy)


@pytest.mark.parametrize("target", ["avx2", "avx512"])
@pytest.mark.parametrize(
    "source",
    ["float16", "float32", "float64", "complex64", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2],
    ids=str,
)
def test_floats_beyond_an_integer_dtype_become_its_bounds(
    source: Any, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def converted(x: Any) -> Any:
        return [x.astype(row.numpy) for row in INTEGERS]

    def one_by_one(x: Any) -> Any:
        return [x[k].astype(row.numpy) for k in range(0, 27, 5) for row in INTEGERS]

    monkeypatch.setenv("MLC_TARGET", target)
    with np.errstate(all="ignore"):
        x = np.tile(np.array(NUMBERS), 3).astype(source)
    function = mlc.compile(converted)
    strided = np.repeat(x, 2)[::2]
    for given in (x, x[:5], strided):
        for run in (function, function.reference):
            for row, got in zip(INTEGERS, run(given), strict=True):
                np.testing.assert_array_equal(got, saturated(given, row), err_msg=row.name)
    wanted = [saturated(x[k : k + 1], row)[0] for k in range(0, 27, 5) for row in INTEGERS]
    assert mlc.compile(one_by_one)(x) == wanted


WHOLE = [row for row in DTYPES if row.is_integer or row.stores_integers]


@pytest.mark.parametrize("source", [row for row in WHOLE if row.bytes <= 2], ids=lambda x: x.name)
def test_integers_become_bounds_by_way_of_floats(source: DType) -> None:
    """Not so straight from one to the other: there they wrap around."""

    def converted(x: Any) -> Any:
        return [x.astype(np.float64).astype(row.numpy) for row in WHOLE]

    def narrowed(x: Any) -> Any:
        return x.astype(np.float64).astype(ml_dtypes.int2)

    x = np.array([-300, -9, -3, -1, 0, 1, 2, 7, 9, 15, 300]).astype(source.numpy)
    function: Any = mlc.compile(converted)
    for got, wanted in zip(function(x), function.reference(x), strict=True):
        np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))
    narrow: Any = mlc.compile(narrowed)(np.array([2, -3]))
    assert narrow.astype(int).tolist() == [1, -2]


def test_constants_beyond_an_integer_dtype_become_its_bounds() -> None:
    def constants(x: Any) -> Any:
        return [
            np.full(2, 1e30, np.int8) + x,
            np.full(2, -1.0, np.uint8) + x,
            np.full(2, np.nan, np.int32) + x,
            np.array([1e30, -np.inf]).astype(np.int16) + x,
            np.array([1e30, -np.inf], np.uint64) + x,
            np.linspace(-1e10, 1e10, 3, dtype=np.int8)[::2] + x,
            np.arange(0, 2e10, 1e10, dtype=np.uint16) + x,
        ]

    wanted = [[127] * 2, [0] * 2, [0] * 2, [2**15 - 1, -(2**15)], [2**64 - 1, 0], [-128, 127]]
    wanted.append([0, 2**16 - 1])
    x = np.zeros(2, bool)
    for found in (mlc.compile(constants)(x), mlc.compile(constants).reference(x)):
        assert [part.tolist() for part in found] == wanted


def test_vdot_conjugates_in_derivatives_too() -> None:
    x, y = np.array([1 + 2j, 3 - 1j]), np.array([2 - 1j, 1j])

    def real_part(x: Any, y: Any) -> Any:
        product: Any = np.vdot
        return product(x, y).real

    def written_out(x: Any, y: Any) -> Any:
        return (np.conj(x) * y).sum().real

    for argument in (0, 1):
        found = mlc.grad(real_part, argument)(x, y)
        np.testing.assert_allclose(found, mlc.grad(written_out, argument)(x, y))


def test_python_numbers_stay_weak_in_operators_only() -> None:
    def powers(x: Any, k: Any) -> Any:
        return (
            x * -k,
            x * abs(k),
            x * +k,
            x * ~k,
            x * np.abs(k),
            x * np.negative(k),
            x * np.ravel(k),
        )

    x = np.array([1, 2], np.int8)
    for k in (3, 200):
        found = mlc.compile(powers)(x, 3)
        assert [part.dtype.name for part in found] == ["int8"] * 4 + ["int64"] * 3, k
