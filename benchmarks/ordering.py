"""Running sums, sorts, searches, scatters and pads of a million elements, against NumPy."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import compare, compiled, report, settings

Array = np.ndarray[Any, np.dtype[Any]]
Case = tuple[Callable[..., Any], tuple[Array, ...]]


def _add_at(x: Any, i: Any, u: Any) -> Any:
    y = x * 1
    np.add.at(y, i, u)
    return y


def cases(dtype: str) -> dict[str, Case]:
    """Functions and their arguments."""
    rng = np.random.default_rng(3)
    flat = (rng.standard_normal(1_000_000) * 1000).astype(dtype)
    square, rows = flat.reshape(1000, 1000), flat.reshape(10_000, 100)
    table, bins = np.sort(flat[:10_000]), rng.integers(0, 1000, 1_000_000)
    zeros, few = np.zeros((1000, 256), dtype), rng.integers(0, 1000, 4000)
    updates = np.ascontiguousarray(np.resize(flat, (4000, 256)))
    return {
        "cumsum": (lambda x: np.cumsum(x, dtype=x.dtype), (flat,)),
        "cumsum, axis 0": (lambda x: np.cumsum(x, axis=0, dtype=x.dtype), (square,)),
        "cumsum, axis 1": (lambda x: np.cumsum(x, axis=1, dtype=x.dtype), (square,)),
        "maximum.accumulate": (np.maximum.accumulate, (flat,)),
        "sort": (np.sort, (flat,)),
        "sort, rows of 1000": (lambda x: np.sort(x, axis=1), (square,)),
        "sort, rows of 100": (lambda x: np.sort(x, axis=1), (rows,)),
        "argsort, stable": (lambda x: np.argsort(x, kind="stable"), (flat,)),
        "argsort, any": (np.argsort, (flat,)),
        "argsort, rows of 100": (lambda x: np.argsort(x, axis=1), (rows,)),
        "searchsorted in 10,000": (np.searchsorted, (table, flat)),
        "bincount": (lambda i: np.bincount(i, minlength=1000), (bins,)),
        "add.at, rows of 256": (_add_at, (zeros, few, updates)),
        "pad": (lambda x: np.pad(x, 1), (square,)),
        "roll": (lambda x: np.roll(x, 7, axis=1), (square,)),
        "median, axis 1": (lambda x: np.median(x, axis=1), (square,)),
    }


def _candidates(function: Callable[..., Any], arrays: tuple[Array, ...]) -> dict[str, Any]:
    fast = compiled(function)
    return {"mlc": lambda: fast(*arrays), "NumPy": lambda: function(*arrays)}


def main() -> None:
    """Print one table for each dtype."""
    options = settings("ordering ops against NumPy")
    dtypes = ["float32"] if options.quick else ["float32", "float64", "int32", "int64"]
    tables = [
        compare(
            f"Ordering ops on 10^6 {dtype}",
            {name: _candidates(*case) for name, case in cases(dtype).items()},
            options,
        )
        for dtype in dtypes
    ]
    report(options, *tables)


if __name__ == "__main__":
    main()
