"""What a kernel is: a NumPy function, its arguments at a size, and two sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[Any, ...]
Build = Callable[[np.random.Generator, int], Arrays]


@dataclass(frozen=True)
class Kernel:
    """A function as a NumPy user writes it. What it writes are its arguments or its results."""

    function: Callable[..., Any]
    build: Build
    small: int  # the size of tests
    full: int  # the size of benchmarks
    scalar: bool = False  # loops over elements: numba's kind of program, slow under NumPy

    @property
    def name(self) -> str:
        """The function's."""
        return self.function.__name__

    def arguments(self, size: int) -> Arrays:
        """Fresh arguments; the same in every run."""
        return self.build(np.random.default_rng(11), size)


KERNELS: dict[str, Kernel] = {}
"""Every kernel by name."""


def kernel(
    build: Build, small: int, full: int, *, scalar: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the function into the table, and leave it as it is."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = Kernel(function, build, small, full, scalar)
        KERNELS[entry.name] = entry
        return function

    return add


def matrices(*shapes: str) -> Build:
    """Uniform numbers: each shape a word of letters, n the size and m four fifths of it."""

    def build(rng: np.random.Generator, n: int) -> Arrays:
        extent = {"n": n, "m": n * 4 // 5}
        return tuple(rng.random([extent[c] for c in shape]) for shape in shapes)

    return build


def definite(*shapes: str) -> Build:
    """A symmetric matrix of positive eigenvalues, then `matrices`."""

    def build(rng: np.random.Generator, n: int) -> Arrays:
        a = rng.random((n, n))
        return a @ a.T / n + np.eye(n), *matrices(*shapes)(rng, n)

    return build


def triangular(*shapes: str) -> Build:
    """A lower triangular matrix with a strong diagonal, then `matrices`."""

    def build(rng: np.random.Generator, n: int) -> Arrays:
        return np.tril(rng.random((n, n))) / n + np.eye(n), *matrices(*shapes)(rng, n)

    return build
