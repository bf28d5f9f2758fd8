# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false
"""
Where the coefficients in passes/math/coefficients_*.py come from: Remez exchange in 60 digits.

`coefficients(problem)` gives the polynomial that minimises the largest weighted error on an
interval; `python -m tests.numerics.minimax` writes the two files and prints the bits of accuracy
that are left after rounding each coefficient to the format.

SOURCE: E. Y. Remez, 1934; J.-M. Muller, Elementary Functions, 3rd ed., 2016, chapter 3.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import mpmath
import numpy as np

from tests.numerics.approximations import Problem, Real, problems, tables, value_of

SMALLEST_WEIGHT = mpmath.mpf("1e-6")
"""Where the weight is zero any value would do; a floor keeps the linear system regular."""


def _grid(problem: Problem, points: int) -> list[Real]:
    middle, half = (problem.low + problem.high) / 2, (problem.high - problem.low) / 2
    return [middle - half * mpmath.cos(mpmath.pi * k / points) for k in range(points + 1)]


def _solve(problem: Problem, nodes: list[tuple[Real, Real, Real]]) -> list[Real]:
    """Coefficients whose weighted errors at the nodes are equal and alternate."""
    size = problem.degree + 2
    system, right = mpmath.matrix(size, size), mpmath.matrix(size, 1)
    for i, (x, value, weight) in enumerate(nodes):
        for j in range(size - 1):
            system[i, j] = x**j
        system[i, size - 1] = (-1) ** i / max(abs(weight), SMALLEST_WEIGHT)
        right[i] = value
    solution = mpmath.lu_solve(system, right)
    return [solution[j] for j in range(size - 1)]


def coefficients(problem: Problem) -> list[float]:
    """Coefficients, constant term first, rounded to the problem's format."""
    with mpmath.workdps(60):
        grid = _grid(problem, 24 * (problem.degree + 2))
        values = [(x, problem.value(x), problem.weight(x)) for x in grid]
        margin = (problem.high - problem.low) * mpmath.mpf("1e-6")
        starts = _grid(problem, problem.degree + 1)
        starts[0] += margin
        nodes = [(x, problem.value(x), problem.weight(x)) for x in starts]
        found: list[Real] = []
        for _ in range(8):
            found = _solve(problem, nodes)
            errors = [(v - value_of(found, x)) * w for x, v, w in values]
            picked = _extrema(values, errors, problem.degree + 2)
            if picked == nodes:
                break
            nodes = picked
        return [float(problem.dtype(mpmath.nstr(c, 30))) for c in found]


def _extrema(
    grid: list[tuple[Real, Real, Real]], errors: list[Real], count: int
) -> list[tuple[Real, Real, Real]]:
    """The largest error between each two changes of its sign, the best `count` in a row."""
    runs: list[tuple[int, Real]] = []
    for k, error in enumerate(errors):
        if runs and (runs[-1][1] >= 0) == (error >= 0):
            if abs(error) > abs(runs[-1][1]):
                runs[-1] = (k, error)
        else:
            runs.append((k, error))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
    places = [k for k, _ in runs]
    while len(places) < count:
        unused = (k for k in range(len(grid)) if k not in places)
        places.append(max(unused, key=lambda k: min(abs(k - other) for other in places)))
        places.sort()
    return [grid[k] for k in places]


def error_bits(problem: Problem, found: list[float]) -> float:
    """-log2 of the largest weighted error of the rounded polynomial."""
    with mpmath.workdps(40):
        exact = [mpmath.mpf(c) for c in found]
        worst = max(
            abs((problem.value(x) - value_of(exact, x)) * problem.weight(x))
            for x in _grid(problem, 300)
        )
        return -float(mpmath.log(worst, 2))


def table(dtype: type[np.floating]) -> dict[str, tuple[float, ...]]:
    """All polynomials of a format; prints how good each is."""
    found: dict[str, tuple[float, ...]] = {}
    for problem in problems():
        if problem.dtype is dtype:
            found[problem.name] = tuple(coefficients(problem))
            bits = error_bits(problem, list(found[problem.name]))
            print(f"{problem.name} {dtype.__name__}: {bits:.1f} bits", flush=True)
    return found


def _entries(found: dict[str, tuple[float, ...]]) -> list[str]:
    """The lines of a dictionary's entries."""
    lines: list[str] = []
    for name, values in found.items():
        rows = textwrap.wrap(", ".join(map(repr, values)) + ",", 90, break_on_hyphens=False)
        lines += [f'    "{name}": (', *(f"        {row}" for row in rows), "    ),"]
    return lines


def main() -> None:
    """Writes both files into the folder that is named, or passes/math."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "passes/math")
    for dtype, short in ((np.float32, "f32"), (np.float64, "f64")):
        lines = [
            f'"""Minimax polynomials for {short}, written by tests/numerics/minimax.py."""',
            "",
            "from __future__ import annotations",
            "",
            "from collections.abc import Mapping",
            "",
            "# fmt: off",
            "POLYNOMIALS: Mapping[str, tuple[float, ...]] = {",
            *_entries(table(dtype)),
            "}",
            '"""Constant term first. What each approximates: approximations.py there."""',
            "",
            "TABLES: Mapping[str, tuple[float, ...]] = {",
            *_entries(tables(dtype)),
            "}",
            "# fmt: on",
            '"""What registers hold: `tables` there."""',
            "",
        ]
        (folder / f"coefficients_{short}.py").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
