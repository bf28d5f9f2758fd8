"""What a model of the zoo is: a function, and its inputs at three sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Size = Literal["small", "medium", "large"]
SIZES: tuple[Size, ...] = ("small", "medium", "large")
Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Model:
    """A program and its inputs."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[Draw, int], Arrays]
    extents: tuple[int, int, int]  # what `inputs` is given at each size
    tolerance: float = 2e-5  # of results, relative to the largest, beside the reference's

    def arrays(self, size: Size) -> Arrays:
        """The inputs at a size; the same in every run."""
        return self.inputs(Draw(), self.extents[SIZES.index(size)])


class Draw:
    """Random arrays in float32, one generator for all of a model's."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(7)

    def __call__(self, *shape: int, scale: float = 1.0) -> Any:
        """Normal numbers."""
        return (self._rng.standard_normal(shape, np.float32) * np.float32(scale)).astype("f4")

    def unit(self, *shape: int) -> Any:
        """Uniform in [0.1, 1.1)."""
        return self._rng.random(shape, np.float32) + np.float32(0.1)

    def integers(self, high: int, *shape: int) -> Any:
        """Whole numbers from 0."""
        return self._rng.integers(0, high, shape)
