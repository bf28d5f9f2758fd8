"""
How a transform is computed, as numbers: its stages, their factors of unity, and the chirp of a
length with large primes.

SOURCE: Stockham 1966, as in Van Loan, Computational Frameworks for the Fast Fourier Transform,
1992, algorithm 1.7.2 (stages that sort themselves); Bluestein 1970 for other lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mlc.lazy_dataclass import dataclass

Numbers = NDArray[np.float64]
FACTORS = (4, 2, 3, 5, 7, 11)  # in the order of stages: vectors are sorted by twos and fours
SIZES = (1, 3, 5)  # times a power of two: points of convolutions


@dataclass(frozen=True)
class Stage:
    """
    y[q + s (r p + k)] = w^(p k) * sum over j of x[q + s (p + m j)] exp(-2 pi i j k / r), with w a
    root of unity of r m, for p < m and q < s; (r, m, s) = (radix, count, stride).
    """

    radix: int
    count: int
    stride: int
    lanes: int  # that are worked on at once
    at: int  # where its factors begin in the table

    @property
    def points(self) -> int:
        """Butterflies."""
        return self.count * self.stride

    @property
    def in_rows(self) -> bool:
        """Whether lanes are of one p, which has one factor; else they are of several."""
        return self.stride >= self.lanes

    @property
    def turns(self) -> bool:
        """Whether there are factors other than 1."""
        return self.count > 1


@dataclass(frozen=True)
class FourierPlan:
    """
    A transform of `length` points in stages of `size` of them: as many, or where Bluestein's chirp
    (at `chirp`, and its spectrum at `spectrum`) makes it a convolution, more. `table`: real parts
    and then imaginary ones of each.
    """

    length: int
    size: int
    stages: tuple[Stage, ...]
    table: Numbers
    chirp: int = -1
    spectrum: int = -1

    @property
    def is_direct(self) -> bool:
        """Whether the stages are the whole transform."""
        return self.chirp < 0


def factors_of(length: int) -> list[int] | None:
    """The radices of the stages; None where another prime divides the length."""
    found: list[int] = []
    for factor in FACTORS:
        while length % factor == 0:
            found.append(factor)
            length //= factor
    return found if length == 1 else None


def unity(length: int) -> tuple[Numbers, Numbers]:
    """Real and imaginary parts of exp(-2 pi i k / length), from angles in the first octant."""
    k = np.arange(length)
    eighth, rest = np.divmod(8 * k, length)  # rest / (8 length) of a turn into the octant
    back = np.where(eighth % 2, length - rest, rest)
    angle = back * (np.pi / 4 / length)
    cosine, sine = np.cos(angle), np.sin(angle)
    swap = ((eighth + 1) // 2) % 2 == 1
    x, y = np.where(swap, sine, cosine), np.where(swap, cosine, sine)
    x = np.where((eighth >= 2) & (eighth < 6), -x, x)
    y = np.where(eighth >= 4, -y, y)
    return x, -y


def _best_size(least: int) -> int:
    """The number from `least` on, of twos and one of `SIZES`, that is smallest."""
    sizes: list[int] = []
    for odd in SIZES:
        size = odd
        while size < least:
            size *= 2
        sizes.append(size)
    return min(sizes)


@lru_cache(maxsize=32)
def plan_of(length: int, lanes: int) -> FourierPlan:
    """The plan of a transform on a machine with vectors of so many real elements."""
    direct = factors_of(length) is not None
    size = length if direct else _best_size(2 * length - 1)
    stages: list[Stage] = []
    table: list[Numbers] = []
    at = stride = 0
    count, stride = size, 1
    for radix in factors_of(size) or ():
        count //= radix
        stage = Stage(radix, count, stride, lanes, at)
        stages.append(stage)
        for part in _factors(stage) if stage.turns else ():
            table.append(part)
            at += part.size
        stride *= radix
    chirp = spectrum = -1
    if not direct:
        turned = np.arange(length, dtype=np.int64) ** 2 % (2 * length)
        x, y = (part[turned] for part in unity(2 * length))
        around = np.zeros(size, complex)
        around[:length] = x - 1j * y
        around[size - length + 1 :] = around[length - 1 : 0 : -1]
        found = np.fft.fft(around) / size
        chirp, spectrum = at, at + 2 * length
        table += [x, y, found.real, found.imag]
    whole = np.concatenate(table) if table else np.zeros(1)
    return FourierPlan(length, size, tuple(stages), whole, chirp, spectrum)


def _factors(stage: Stage) -> Iterator[Numbers]:
    """For each k but 0 the factors: one for each p, or for each butterfly."""
    x, y = unity(stage.radix * stage.count)
    p = np.arange(stage.count)
    if not stage.in_rows:
        p = np.repeat(p, stage.stride)
    for k in range(1, stage.radix):
        turned = p * k % (stage.radix * stage.count)
        yield x[turned]
        yield y[turned]
