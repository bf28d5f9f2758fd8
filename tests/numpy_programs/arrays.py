"""The arrays that expressions are tried on, of every dtype family."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FAMILIES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def arrays_of(family: str) -> dict[str, Any]:
    """Arrays of one dtype by name; `b` is bool, `i` positions; `k` and `q` are Python numbers."""
    rng = np.random.default_rng(7)
    dtype = np.dtype(family)

    def made(*shape: int) -> Array:
        size = int(np.prod(shape))
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            low = -9 if dtype.kind == "i" else 0
            return rng.integers(low, 12, shape).astype(dtype)
        steps = rng.permutation(np.arange(size) - size // 3).reshape(shape) / 4
        if dtype.kind == "c":
            return (steps + 1j * rng.integers(-3, 4, shape) / 2).astype(dtype)
        return steps.astype(dtype)

    square = made(3, 3)
    if dtype.kind in "iufc":
        square = square + np.eye(3, dtype=dtype) * np.asarray(9, dtype)
    return {
        "x": made(3, 4),
        "y": made(4),
        "s": np.asarray(made()),  # no axes
        "e": made(0, 3),  # no elements
        "o": made(1),
        "n": made(8)[::-2],  # negative strides
        "F": np.asfortranarray(made(3, 4)),
        "m": square,
        "t": made(2, 3, 4),
        "z": special(dtype),
        "b": rng.integers(0, 2, (3, 4)).astype(bool),
        "i": np.array([2, 0, 1]),
        "k": 3,
        "q": 2.5,
    }


def special(dtype: np.dtype[Any]) -> Array:
    """The numbers at which functions are easily wrong."""
    if dtype.kind == "b":
        return np.array([False, True, True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, 0, 1, limits.max - 1, limits.min + 1], dtype)
    return np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.5], dtype)
