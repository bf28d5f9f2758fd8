# pyright: basic
"""Linear equations of models, whose unknowns may stand on either side of the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.frontend.numpy.creation import eye

Array = Any


def solved(a: Array, b: Array, *, left: bool) -> Array:
    """x with a x = b, or x a = b."""
    if left:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def solved_triangle(
    a: Array, b: Array, *, left: bool, upper: bool, unit: bool, turned: str = "N"
) -> Array:
    """x with op(a) x = b, or x op(a) = b."""
    n = a.shape[-1]
    part = np.triu(a) if upper else np.tril(a)
    if unit:
        part = np.where(eye(n, dtype=bool), np.ones_like(a), part)
    if turned != "N":
        part = np.swapaxes(np.conj(part) if turned == "C" else part, -1, -2)
    return solved(part, b, left=left)
