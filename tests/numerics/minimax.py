# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false
"""
Where the coefficients in passes/loop/elementary.py come from: Remez exchange in 60 digits.

`coefficients(problem)` gives the polynomial that minimises the largest weighted error on an
interval; `python -m tests.numerics.minimax` prints all of them with the bits of accuracy left after
rounding each coefficient to the format.

SOURCE: E. Y. Remez, 1934; J.-M. Muller, Elementary Functions, 3rd ed., 2016, chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np

SMALLEST_WEIGHT = mpmath.mpf("1e-6")
"""Where the weight is zero any value would do; a floor keeps the linear system regular."""

Real = mpmath.mpf
Function = Callable[[Real], Real]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Approximate `value` on [low, high] by a polynomial; errors count `weight` times."""

    name: str
    value: Function
    weight: Function
    low: Real
    high: Real
    degree: int
    dtype: type[np.floating]


def _near_zero(series: Function, closed: Function) -> Function:
    """The closed form loses digits near zero; a series stands in for it there."""
    return lambda x: series(x) if abs(x) < mpmath.mpf("0.01") else closed(x)


def _exp_tail(x: Real) -> Real:
    return mpmath.nsum(lambda k: x**k / mpmath.factorial(k + 2), [0, 30])


def _log_tail(x: Real) -> Real:
    return mpmath.nsum(lambda k: (-x) ** k / (k + 3), [0, 40])


def problems() -> list[Problem]:
    """All polynomials of passes/loop/elementary.py."""
    with mpmath.workdps(60):
        ln2, root2 = mpmath.log(2), mpmath.sqrt(2)
        third = mpmath.mpf(1) / 3
        exp_tail = _near_zero(_exp_tail, lambda r: (mpmath.expm1(r) - r) / r**2)
        log_tail = _near_zero(_log_tail, lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3)
        rise = _near_zero(lambda r: r, lambda r: r**2 / mpmath.expm1(r))
        log_weight = _near_zero(lambda f: f**2, lambda f: abs(f**3 / mpmath.log1p(f)))
        root = mpmath.sqrt
        half_log = _near_zero(
            lambda z: 2 * third + z * 2 / 5 + z**2 * 2 / 7 + z**3 * 2 / 9 + z**4 * 2 / 11
            + z**5 * 2 / 13 + z**6 * 2 / 15 + z**7 * 2 / 17 + z**8 * 2 / 19 + z**9 * 2 / 21
            + z**10 * 2 / 23 + z**11 * 2 / 25 + z**12 * 2 / 27 + z**13 * 2 / 29 + z**14 * 2 / 31
            + z**15 * 2 / 33 + z**16 * 2 / 35 + z**17 * 2 / 37 + z**18 * 2 / 39 + z**19 * 2 / 41,
            lambda z: (2 * mpmath.atanh(root(z)) - 2 * root(z)) / (root(z) * z),
        )  # fmt: skip
        found: list[Problem] = []
        for dtype, exp_degree, tanh_degree in ((np.float32, 5, 5), (np.float64, 11, 10)):
            found += [
                Problem(
                    name="EXP",
                    value=exp_tail,
                    weight=lambda r: r**2 / mpmath.exp(r),
                    low=-ln2 * mpmath.mpf("1.001"),
                    high=ln2 * mpmath.mpf("1.001"),
                    degree=exp_degree,
                    dtype=dtype,
                ),
                Problem(
                    name="EXPM1",
                    value=exp_tail,
                    weight=rise,
                    low=mpmath.mpf("-0.001"),
                    high=ln2 * mpmath.mpf("1.001"),
                    degree=tanh_degree,
                    dtype=dtype,
                ),
            ]
        found += [
            Problem(
                name="LOG",
                value=log_tail,
                weight=log_weight,
                low=1 / root2 - 1,
                high=root2 - 1,
                degree=8,
                dtype=np.float32,
            ),
            Problem(
                name="LOG",
                value=half_log,
                weight=lambda z: z,
                low=mpmath.mpf(0),
                high=((root2 - 1) / (root2 + 1)) ** 2,
                degree=6,
                dtype=np.float64,
            ),
        ]
        return found


def _polynomial(coefficients: list[Real], x: Real) -> Real:
    total = mpmath.mpf(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _grid(problem: Problem, points: int) -> list[Real]:
    middle, half = (problem.low + problem.high) / 2, (problem.high - problem.low) / 2
    return [middle - half * mpmath.cos(mpmath.pi * k / points) for k in range(points + 1)]


def _solve(problem: Problem, nodes: list[Real]) -> list[Real]:
    size = problem.degree + 2
    system, right = mpmath.matrix(size, size), mpmath.matrix(size, 1)
    for i, x in enumerate(nodes):
        for j in range(size - 1):
            system[i, j] = x**j
        weight = max(problem.weight(x), SMALLEST_WEIGHT)
        system[i, size - 1] = (-1) ** i / weight
        right[i] = problem.value(x)
    solution = mpmath.lu_solve(system, right)
    return [solution[j] for j in range(size - 1)]


def coefficients(problem: Problem) -> list[float]:
    """Coefficients, constant term first, rounded to the problem's format."""
    with mpmath.workdps(60):
        grid = _grid(problem, 40 * (problem.degree + 2))
        values = [(x, problem.value(x), problem.weight(x)) for x in grid]
        margin = (problem.high - problem.low) * mpmath.mpf("1e-6")
        nodes = [
            x + margin if k == 0 else x for k, x in enumerate(_grid(problem, problem.degree + 1))
        ]
        found: list[Real] = []
        for _ in range(12):
            found = _solve(problem, nodes)
            errors = [(v - _polynomial(found, x)) * w for x, v, w in values]
            nodes = _extrema([x for x, _, _ in values], errors, problem.degree + 2)
        return [float(problem.dtype(mpmath.nstr(c, 30))) for c in found]


def _extrema(grid: list[Real], errors: list[Real], count: int) -> list[Real]:
    """The largest error between each two changes of its sign, the best `count` in a row."""
    runs: list[tuple[Real, Real]] = []
    for x, error in zip(grid, errors, strict=True):
        if runs and (runs[-1][1] >= 0) == (error >= 0):
            if abs(error) > abs(runs[-1][1]):
                runs[-1] = (x, error)
        else:
            runs.append((x, error))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
    nodes = [x for x, _ in runs]
    while len(nodes) < count:
        nodes.append((nodes[-1] + nodes[-2]) / 2)
        nodes.sort()
    return nodes


def error_bits(problem: Problem, found: list[float]) -> float:
    """-log2 of the largest weighted error of the rounded polynomial."""
    with mpmath.workdps(60):
        exact = [mpmath.mpf(c) for c in found]
        worst = max(
            abs((problem.value(x) - _polynomial(exact, x)) * problem.weight(x))
            for x in _grid(problem, 2000)
        )
        return -float(mpmath.log(worst, 2))


def main() -> None:
    """Prints every polynomial."""
    for problem in problems():
        found = coefficients(problem)
        print(f"{problem.name} {problem.dtype.__name__}: {error_bits(problem, found):.1f} bits")
        for c in found:
            print(f"    {c!r},")


if __name__ == "__main__":
    main()
