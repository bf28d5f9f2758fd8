"""Powers of integers wrap around like NumPy's, for every exponent and every lane."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import numpy as np
import pytest

import mlc
from tests.plans import planned, spec

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_exponents(dtype: str) -> None:
    info = np.iinfo(dtype)
    edges = np.array([0, 1, 2, 3, info.max // 2 + 1, info.max - 1, info.max], dtype)
    bases = np.concatenate([edges, np.arange(7, 30).astype(dtype), np.array([info.min], dtype)])
    exponents = np.concatenate([edges, np.arange(70).astype(dtype)])
    x, y = np.meshgrid(bases, exponents)
    power = mlc.compile(lambda x, y: x**y)
    np.testing.assert_array_equal(power(x, y), x**y)
    for k in (0, 1, len(bases)):
        np.testing.assert_array_equal(power(x[0, :k], y[5, :k]), x[0, :k] ** y[5, :k])
    assert power(x[3, 4], y[9, 4]) == x[3, 4] ** y[9, 4]


def test_one_lane_has_a_negative_exponent() -> None:
    power = mlc.compile(lambda x, y: x**y)
    x = np.arange(40)
    np.testing.assert_array_equal(power(x, x % 5), x ** (x % 5))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        power(x, np.where(x == 37, -1, 2))


def test_on_a_gpu_too() -> None:
    levels = planned(
        lambda x, y: x**y,
        spec(1000, dtype="int64"),
        spec(1000, dtype="int64"),
        target="cuda:sm_90a",
    )
    assert "while" in levels.text("code")
