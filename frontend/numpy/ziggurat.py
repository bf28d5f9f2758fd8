"""
The tables by which NumPy draws normal and exponential numbers, read off a generator of NumPy's: a
state is chosen whose next word takes a given layer.

SOURCE: G. Marsaglia & W. W. Tsang, "The Ziggurat Method for Generating Random Variables", Journal
of Statistical Software 5(8), 2000; NumPy's numpy/random/src/distributions/distributions.c.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mlc.frontend.numpy.pcg64 import MULTIPLIER, state_of
from mlc.lazy_dataclass import dataclass

LAYERS = 256
NORMAL_TAIL, EXPONENTIAL_TAIL = 3.6541528853610088, 7.69711747013104972
"""Where the layers end; what is beyond is drawn by a logarithm."""

_INVERSE = pow(MULTIPLIER, -1, 1 << 128)
_NEAR = 8  # of a limit that is computed in float64 from its layer's neighbours


@dataclass(frozen=True)
class Layers:
    """By layer: how wide a step is, below how many steps nothing else is asked, and the density."""

    width: NDArray[np.float64]
    surely: NDArray[np.int64]
    density: NDArray[np.float64]


@cache
def normal() -> Layers:
    """Of standard_normal: words of 8 bits of the layer, a sign, 52 bits of the place in it."""
    draw = np.random.Generator(np.random.PCG64(0))
    reader = _Reader(draw, draw.standard_normal, 52, lambda layer, step: layer | step << 9)
    return reader.layers(NORMAL_TAIL, lambda x: np.exp(-0.5 * x * x))


@cache
def exponential() -> Layers:
    """Of standard_exponential: 3 bits that are not used, 8 of the layer, 53 of the place."""
    draw = np.random.Generator(np.random.PCG64(0))
    reader = _Reader(
        draw, draw.standard_exponential, 53, lambda layer, step: layer << 3 | step << 11
    )
    return reader.layers(EXPONENTIAL_TAIL, lambda x: np.exp(-x))


@dataclass(frozen=True)
class _Reader:
    generator: np.random.Generator
    draw: Callable[[], float]
    bits: int
    word: Callable[[int, int], int]

    def layers(
        self, tail: float, density: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> Layers:
        width = np.array([self._width(layer) for layer in range(LAYERS)])
        ends = width * 2.0**self.bits
        inner = np.concatenate([[tail], [0.0], ends[1:-1]])
        guesses = (inner / ends * 2.0**self.bits).astype(np.int64)
        surely = np.array([self._surely(k, int(guess)) for k, guess in enumerate(guesses)])
        below = density(ends)
        below[0] = 1.0
        return Layers(width, surely, below)

    def _drawn(self, layer: int, step: int, increment: int = 1) -> tuple[float, int]:
        """What is drawn, and of how many words, where the next says a place in a layer."""
        word = self.word(layer, step)
        before = (word - increment) * _INVERSE % (1 << 128)
        self.generator.bit_generator.state = state_of(before, increment)
        found, state, words = self.draw(), word, 1
        last = self.generator.bit_generator.state["state"]["state"]
        while state != last:
            state, words = (state * MULTIPLIER + increment) % (1 << 128), words + 1
        return found, words

    def _width(self, layer: int) -> float:
        """Of a step: at a place that is a power of two, taken at once or by a second word."""
        for power in range(self.bits - 1, 0, -1):
            for increment in range(1, 41, 2):
                found, words = self._drawn(layer, 1 << power, increment)
                if words == 1 or (layer and words == 2):
                    return found / 2.0**power
        raise AssertionError(layer)

    def _surely(self, layer: int, guess: int) -> int:
        """The first place that is not taken at once, near a guess."""
        low, high = max(guess - _NEAR, 0), min(guess + _NEAR, 1 << self.bits)
        while low < high:
            middle = (low + high) // 2
            if self._drawn(layer, middle)[1] == 1:
                low = middle + 1
            else:
                high = middle
        return low
