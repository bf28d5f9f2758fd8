"""Gradients by central differences, to which derivatives are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mlc
from mlc.frontend.trace.containers import flatten, unflatten

Function = Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]

STEP = 6e-6
"""The cube root of the rounding error of f64, where both errors of a difference are about 1e-10."""


def differences(f: Function, args: Sequence[Any], argnum: int = 0) -> Any:
    """The gradient of a function of f64 arrays, one element after the other: like the argument."""
    call: Any = f
    leaves, structure = flatten(args[argnum])
    found: list[Any] = []
    for k, leaf in enumerate(leaves):
        x = np.array(leaf, np.float64)
        slope = np.zeros_like(x)
        for at in np.ndindex(x.shape):
            values: list[float] = []
            for step in (STEP, -STEP):
                moved = x.copy()
                moved[at] += step
                changed = unflatten(structure, [*leaves[:k], moved, *leaves[k + 1 :]])
                given = [*args[:argnum], changed, *args[argnum + 1 :]]
                values.append(float(call(*given)))
            slope[at] = (values[0] - values[1]) / (2 * STEP)
        found.append(slope)
    return unflatten(structure, found)


def compiled_grad(f: Function, argnums: Any = 0, **options: Any) -> Any:
    """The gradient, compiled; `Any` because what it has beside `__call__` is used."""
    function: Any = f
    return mlc.compile(**options)(mlc.grad(function, argnums))


def same(found: Any, expected: Any, rtol: float = 1e-6, atol: float = 1e-8) -> None:
    """One structure, and numbers close to one another."""
    numbers, structure = flatten(found)
    wanted, like = flatten(expected)
    assert structure == like
    for x, y in zip(numbers, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def agrees(f: Function, *args: Any, argnums: Sequence[int] = (0,), **options: Any) -> Any:
    """The compiled gradient, after the interpreter and the machine code gave the differences."""
    compiled = compiled_grad(f, tuple(argnums), **options)
    expected = tuple(differences(f, args, k) for k in argnums)
    for run in (compiled.reference, compiled):
        same(run(*args), expected)
    return compiled
