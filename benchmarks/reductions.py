"""
Sums over either axis, over everything, and argmax, against NumPy.

`sum_array_rows` is the exercise of the lecture documents (S60): a row-major matrix summed with the
row index in the inner loop. Compiled code has no such order: the axis with unit stride is inner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import compare, compiled, report, settings

Array = np.ndarray[Any, np.dtype[np.float32]]


def sum_array_rows(a: Array) -> Any:
    """The sum of all elements, by columns first: a (M, N)."""
    return a.sum(axis=0).sum()


CASES: dict[str, Callable[[Array], Any]] = {
    "sum, axis 0": lambda a: a.sum(axis=0),
    "sum, axis 1": lambda a: a.sum(axis=1),
    "sum, all": lambda a: a.sum(),
    "sum_array_rows": sum_array_rows,
    "max, axis 1": lambda a: a.max(axis=1),
    "argmax, axis 0": lambda a: a.argmax(axis=0),
    "argmax, axis 1": lambda a: a.argmax(axis=1),
    "argmax, all": lambda a: a.argmax(),
    "mean of squares, axis 1": lambda a: (a * a).mean(axis=1),
}


def candidates(name: str, shape: tuple[int, int]) -> dict[str, Callable[[], object]]:
    """NumPy and mlc for one case."""
    function = CASES[name]
    a = np.random.default_rng(2).standard_normal(shape, np.float32)
    fast = compiled(function)
    return {"mlc": lambda: fast(a), "NumPy": lambda: function(a)}


def main() -> None:
    """Print one table for each shape."""
    options = settings("reductions against NumPy")
    shapes = [(1000, 1000)] if options.quick else [(1000, 1000), (4096, 4096)]
    tables = [
        compare(
            f"Reductions of {m:,} x {n:,} float32",
            {name: candidates(name, (m, n)) for name in CASES},
            options,
            notes={name: lambda s, b=4 * m * n: f"{b / s / 1e9:.1f} GB/s" for name in CASES},
        )
        for m, n in shapes
    ]
    report(options, *tables)


if __name__ == "__main__":
    main()
