"""
Functions of `math`, and `int` and `round`, of numbers that the compiled function computes: Python's
values and classes, and its errors where they have no result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mlc
from tests.random_python.judge import compiled_text, different, outcome

FLOATS = (
    [0.6, 0.3],
    [-1.5, 2.0],
    [0.0, 0.0],
    [1.0, -1.0],
    [3e300, 2e9],
    [np.nan, 1.0],
    [np.inf, 2.0],
)
OF_ONE = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "fabs", "sin"),
    *("cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "lgamma", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite"),
    *("degrees", "radians", "modf", "frexp"),
)
OF_TWO = (
    *("atan2", "pow", "fmod", "hypot", "copysign", "isclose", "nextafter", "log"),
    *("isclose(x[0], x[1], rel_tol=0.5)", "ldexp(x[0], n)", "dist(x, (1.0, 2.0))"),
    *("hypot(x[0], x[1], 2.0)", "log(x[0], 2)"),
)
OF_INTEGERS = (
    "gcd",
    "lcm",
    "isqrt(k[0])",
    "floor(k[0])",
    "ceil(k[1])",
    "sqrt(k[0])",
)
INTEGERS = ([6, 4], [0, 0], [-3, 2], [21, 14], [2**62 - 1, 2**61 + 1], [25, 5])


def agrees(expression: str, *arguments: Any) -> None:
    text = f"def f(x, k, n):\n    return math.{expression}\n"
    plain, compiled = (compiled_text(text) for _ in range(2))
    plain.__globals__["math"] = compiled.__globals__["math"] = math
    step = mlc.compile(compiled)
    for given in arguments:
        with np.errstate(all="ignore"):
            assert not different(outcome(plain, given), outcome(step, given)), given


@pytest.mark.parametrize("name", OF_ONE)
def test_of_one_float(name: str) -> None:
    agrees(f"{name}(x[0])", *((np.array(x), np.ones(2), 3) for x in FLOATS))


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two(name: str) -> None:
    call = name if "(" in name else f"{name}(x[0], x[1])"
    agrees(call, *((np.array(x), np.ones(2), 3) for x in FLOATS))


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_of_integers(name: str) -> None:
    call = name if "(" in name else f"{name}(k[0], k[1])"
    agrees(call, *((np.ones(2), np.array(k), 3) for k in INTEGERS))


def test_factorials() -> None:
    agrees("factorial(k[0])", *((np.ones(2), np.array([k]), 3) for k in (0, 5, 20, 21, -1)))


@pytest.mark.parametrize(
    "expression", ["int(x[0])", "round(x[0])", "int(x[0]) % 7", "x[int(x[0]) % 2]"]
)
@pytest.mark.parametrize("kind", ["float64", "float32", "uint64"])
def test_whole_numbers(expression: str, kind: str) -> None:
    text = f"def f(x):\n    return {expression}\n"
    plain, step = compiled_text(text), mlc.compile(compiled_text(text))
    values: tuple[Any, ...] = (
        (7, 2**63 + 2**12) if kind == "uint64" else (2.5, 1e30, np.nan, -np.inf)
    )
    for value in values:
        given = (np.array([value, 1], dtype=kind),)
        assert not different(outcome(plain, given), outcome(step, given)), value


def roots(x: Any) -> Any:
    out = np.zeros_like(x)
    for i in range(len(x)):
        out[i] = 1.0 / math.sqrt(x[i])
    return out


def test_a_loop_of_them_is_raised_and_raises() -> None:
    compiled, x = mlc.compile(roots), np.linspace(0.5, 2, 50)
    np.testing.assert_allclose(compiled(x), roots(x), rtol=1e-14)
    assert "mlc.for" not in compiled.lower(x).text("plan")
    for bad, error in ((-1.0, ValueError), (0.0, ZeroDivisionError)):
        x[7] = bad
        with pytest.raises(error):
            compiled(x)


def test_a_derivative_says_it() -> None:
    def root(x: Any) -> Any:
        return math.sqrt(x[0])

    gradient = mlc.compile(mlc.grad(root))
    assert gradient(np.array([4.0])).tolist() == [0.25]
    with pytest.raises(ValueError, match="math domain error"):
        gradient(np.array([-4.0]))


def test_what_has_a_result_is_not_looked_at() -> None:
    def distances(a: Any, b: Any) -> Any:
        return math.sqrt(a * a + b * b) + math.log(1.0 + a * a) + math.log1p(abs(b))

    def of_trips(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total += math.log(1.0 + i) + math.sqrt(2.5 * i) + x[i] / (0.5 + i)
        return total

    for text in (
        mlc.compile(distances).lower(3.0, 2.0).text("plan"),
        mlc.compile(of_trips).lower(np.ones(9)).text("plan"),
    ):
        assert "mlc.divisor" not in text


def test_looking_adds_no_results() -> None:
    def scaled(x: Any) -> Any:
        return x * int(x[0]) + math.exp(x[1])

    text = mlc.compile(scaled).lower(np.ones(3)).text("tensor")
    assert text.count("func.func") == 1
    assert ") -> tensor<3xf64> {" in text
