"""What one call costs before any work: 1, 4 and 10 arrays of 8 floats, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.harness import compare, compiled, report, settings

Array = np.ndarray[Any, np.dtype[np.float32]]


def twice(a: Array) -> Array:
    """a + a."""
    return a + a


def four(a: Array, b: Array, c: Array, d: Array) -> Array:
    """The sum of four arrays."""
    return a + b + c + d


def ten(
    a: Array,
    b: Array,
    c: Array,
    d: Array,
    e: Array,
    f: Array,
    g: Array,
    h: Array,
    i: Array,
    j: Array,
) -> Array:
    """The sum of ten arrays."""
    return a + b + c + d + e + f + g + h + i + j


def candidates(function: Callable[..., Array], count: int) -> dict[str, Callable[[], object]]:
    """The compiled function, the same in NumPy, and one `np.add`, the least that NumPy can do."""
    arrays = [np.full(8, float(k), np.float32) for k in range(count)]
    a, b = arrays[0], arrays[-1]
    fast = compiled(function)
    fast(*arrays)
    if count == 1:
        call: Callable[[], object] = lambda: fast(a)  # noqa: E731 - timed as the others are
    elif count == 4:
        p, q, r, s = arrays
        call = lambda: fast(p, q, r, s)  # noqa: E731
    else:
        call = lambda: fast(*arrays)  # noqa: E731
    return {
        "mlc": call,
        "NumPy, same function": lambda: function(*arrays),
        "np.add alone": lambda: np.add(a, b),
        "mlc's lambda alone": lambda: None,
    }


def main() -> None:
    """Print the table."""
    options = settings("cost of a call on 8 floats")
    cases = {
        "1 argument": candidates(twice, 1),
        "4 arguments": candidates(four, 4),
        "10 arguments": candidates(ten, 10),
    }
    table = compare("A call on 8 float32", cases, replace(options, rounds=3 * options.rounds))
    report(options, table)


if __name__ == "__main__":
    main()
