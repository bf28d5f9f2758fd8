"""Numerics "fast": what differs from "standard", and by how much."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

PROGRAMS: dict[str, Callable[..., Any]] = {
    "a * b + c": lambda a, b, c: a * b + c,
    "c + a * b": lambda a, b, c: c + a * b,
    "a * b - c": lambda a, b, c: a * b - c,
    "c - a * b": lambda a, b, c: c - a * b,
    "a row": lambda a, b, c: a[0] * b + c,
    "an epilogue": lambda a, b, c: (a @ b.T) * a[0, 0] + 1,
}


def text(function: Callable[..., Any], level: Any, **options: Any) -> str:
    """The function at a level, for AVX2."""
    spec = mlc.TensorSpec(40, 40, dtype="f32")
    return mlc.compile(target="avx2", **options)(function).lower(spec, spec, spec).text(level)


@pytest.mark.parametrize("name", list(PROGRAMS)[:-1])
def test_elementwise_products_are_fused_with_sums(name: str) -> None:
    function = PROGRAMS[name]
    for numerics in ("strict", "standard"):
        assert "fma" not in text(function, "code", numerics=numerics)
    assert "math.fma" in text(function, "loops", numerics="fast")
    assert "@llvm.fma" in text(function, "code", numerics="fast")


def test_an_epilogue_is_fused_too() -> None:
    standard, fast = (
        text(PROGRAMS["an epilogue"], "loops", numerics=n).count("math.fma")
        for n in ("standard", "fast")
    )
    assert 0 < standard < fast


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_fused_sums_are_rounded_once(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((37, 37)).astype(dtype) for _ in range(3))
    found = mlc.compile(numerics="fast")(PROGRAMS[name])(a, b, c)
    wide = np.complex128 if dtype is np.complex64 else np.longdouble
    true = PROGRAMS[name](*(x.astype(wide) for x in (a, b, c)))
    terms = PROGRAMS["c + a * b"](*(np.abs(x) for x in (a, b, c)))
    if name == "an epilogue":
        terms = PROGRAMS[name](*(np.abs(x) for x in (a, b, c))) * 37
    assert (np.abs(found - true) <= 2 * np.finfo(dtype).eps * terms.max()).all()


def test_a_fused_sum_has_the_bits_of_one_rounding() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(1003).astype(np.float32) for _ in range(3))
    product = a.astype(np.float64) * b  # exact
    found = mlc.compile(numerics="fast")(PROGRAMS["a * b + c"])(a, b, c)
    # rounded to f64 and then to f32: one unit apart in rare cases
    once = (product + c).astype(np.float32)
    assert (found == once).mean() > 0.999
    assert (mlc.compile(PROGRAMS["a * b + c"])(a, b, c) == a * b + c).all()


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(2)
    a, b, c = (rng.standard_normal(200_003).astype(np.float32) for _ in range(3))

    def function(a: Any, b: Any, c: Any) -> Any:
        return (a * b + c) * a - b, (a * b).sum()

    results = [mlc.compile(numerics="fast", threads=n)(function)(a, b, c) for n in (1, 2)]
    assert (results[0][0] == results[1][0]).all()
    assert results[0][1] == results[1][1]


def test_approximate_rules_apply() -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        return np.exp(a) * np.exp(b) / 3.0 + c

    assert text(function, "plan", numerics="fast").count("mlc.exp") == 1
    assert text(function, "plan", numerics="standard").count("mlc.exp") == 2
    assert "mlc.div" not in text(function, "plan", numerics="fast")
