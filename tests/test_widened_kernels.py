# pyright: basic
"""Values of 16 bits that stay in a kernel on a CPU are f32: what is stored is rounded once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
EPSILON = {"f16": 2.0**-11, "bf16": 2.0**-8}  # half a unit in the last place, of 1
Program = Callable[..., Any]


def cell(x: Any, y: Any) -> Any:
    return np.tanh(x * y + x) * x + np.exp(y)


def chosen(x: Any, y: Any) -> Any:
    z = x * y
    return np.where(z > 0, z + 1, z - y) * x


def moved(x: Any, y: Any) -> Any:
    return np.pad(x * y, 1)[1:-1, 2:] * 3 + y[:, :1]


def turned(x: Any, y: Any) -> Any:
    return (x * 3).T * (y - x).T + 1


def joined(x: Any, y: Any) -> Any:
    return np.concatenate([x * y + x, x - y * y])


def rows(x: Any, y: Any) -> Any:
    return (x * x + y).sum(axis=-1) * 2 + 1


def columns(x: Any, y: Any) -> Any:
    return (x * x + y).max(axis=0) * 2 + 1


def product(x: Any, y: Any) -> Any:
    return np.tanh(x @ y.T + 1) * 3


def placed(x: Any, y: Any) -> Any:
    z = y + 0
    z[2:5] = x[:3] * y[:3] + x[1:4]
    return z


PROGRAMS = [cell, chosen, moved, turned, joined, rows, columns, product, placed]


def two(dtype: str, *shape: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.5, 1.5, shape).astype(DTYPES[dtype]) for _ in range(2))
    return x, y


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_results_are_rounded_once(f: Program, dtype: str) -> None:
    x, y = two(dtype, 37, 41)
    found: Any = mlc.compile(f)(x, y)
    exact = f(x.astype(float), y.astype(float))
    assert found.dtype == DTYPES[dtype]
    np.testing.assert_allclose(found.astype(float), exact, rtol=1.01 * EPSILON[dtype])


@pytest.mark.parametrize("f", PROGRAMS)
def test_nothing_is_rounded_and_widened_again(f: Program) -> None:
    text = mlc.compile(f).lower(*two("f16", 37, 41)).text("loops")
    rounded = re.findall(r"(%\w+) = arith\.truncf .* vector<\d+xf16>", text)
    widened = re.findall(r"arith\.extf (%\w+) ", text)
    assert rounded
    assert not {*rounded} & {*widened}


def test_what_is_stored_is_read_as_it_is_stored() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x * y
        return z, z * 1.0 - x * 0.5

    x, y = two("f16", 37, 41)
    z, w = mlc.compile(f)(x, y)
    exact = np.asarray(z, float) - x.astype(float) / 2
    np.testing.assert_array_equal(w, exact.astype(np.float16))


def test_what_the_program_rounds_is_rounded() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x * y).astype(np.float16) - x.astype(np.float32)

    x, y = (v.astype(np.float32) + np.float32(1e-4) for v in two("f16", 37, 41))
    np.testing.assert_array_equal(mlc.compile(f)(x, y), (x * y).astype(np.float16) - x)


def test_strict_rounds_each_op() -> None:
    x, y = two("f16", 37, 41)
    compiled: Any = mlc.compile(chosen, numerics="strict")
    np.testing.assert_array_equal(compiled(x, y), chosen(x, y))
    assert (mlc.compile(chosen)(x, y) != chosen(x, y)).any()


def test_loops_of_numbers() -> None:
    """What a loop carries is of its dtype; what a trip computes on the way to it is not rounded."""

    def f(x: Any) -> Any:
        h = x[0] * 0
        out = np.zeros_like(x)
        for k in range(len(x)):
            h = np.tanh(h * 0.5 + x[k] * 0.75)
            out[k] = h
        return out

    x = np.random.default_rng(0).standard_normal(200).astype(np.float16)
    h, wanted = np.float16(0), np.zeros(len(x))
    for k, v in enumerate(x.astype(float)):
        wanted[k] = h = np.float16(np.tanh(float(h) * 0.5 + v * 0.75))
    found: Any = mlc.compile(f)(x)
    np.testing.assert_allclose(found.astype(float), wanted, rtol=2.0**-10)
