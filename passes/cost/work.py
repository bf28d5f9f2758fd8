"""
What a program does, in whole numbers, and the one sum that makes seconds of it.

`Work` is a commutative monoid: a search, or a walk over a program, adds up parts and repeats them,
and asks `seconds` when it wants to compare. Times are whole attoseconds (10⁻¹⁸ s: a GPU moves a
byte in 200), so that sums are exact and do not depend on the order in which parts were added.
"""

from __future__ import annotations

from functools import lru_cache

from mlc.dialects.target import CpuTarget, Target
from mlc.lazy_dataclass import dataclass

ATTO = 10**18
LEVELS = 5
"""Levels 1, 2 and 3, level 3 where half of it is in use, and memory."""
FAR = 2
"""The level of a stream where nobody knows which one holds it."""
Bytes = tuple[int, int, int, int, int]
NONE: Bytes = (0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Work:
    """What all workers of a program do together."""

    core: int = 0
    """Attoseconds of one core, its operands at hand."""
    read: Bytes = NONE
    """From each level, the nearest first."""
    write: Bytes = NONE
    wait: int = 0
    """Attoseconds of one core in which it waits for memory and computes nothing."""
    operations: int = 0
    """Of arithmetic, those for the edges of tiles included."""
    starts: int = 0
    """Calls of a kernel."""
    barriers: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.core + other.core,
            _sum(self.read, other.read),
            _sum(self.write, other.write),
            self.wait + other.wait,
            self.operations + other.operations,
            self.starts + other.starts,
            self.barriers + other.barriers,
        )

    def times(self, trips: int) -> Work:
        """So often."""
        read, write = (_scaled(x, trips) for x in (self.read, self.write))
        counts = (x * trips for x in (self.wait, self.operations, self.starts, self.barriers))
        return Work(self.core * trips, read, write, *counts)


def _sum(a: Bytes, b: Bytes) -> Bytes:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4]


def _scaled(a: Bytes, trips: int) -> Bytes:
    return a[0] * trips, a[1] * trips, a[2] * trips, a[3] * trips, a[4] * trips


def moved(size: int, level: int) -> Bytes:
    """So many bytes of one level."""
    first, second, third, half, memory = (size if k == level else 0 for k in range(LEVELS))
    return first, second, third, half, memory


@lru_cache(maxsize=4096)
def level_of(held: int, target: Target) -> int:
    """The nearest level that holds so many bytes."""
    return next((k for k, size in enumerate(target.cache_bytes) if held <= size), LEVELS - 1)


def cycle_s(target: CpuTarget) -> float:
    """Seconds of a cycle: the clock that the peak, which is measured, implies."""
    return target.cycle_s


def of_seconds(seconds: float) -> int:
    """Attoseconds."""
    return round(seconds * ATTO)


def of_cycles(cycles: float, target: CpuTarget) -> int:
    """Attoseconds of so many cycles."""
    return round(cycles * cycle_s(target) * ATTO)


@dataclass(frozen=True, slots=True)
class Clock:
    """What a machine takes, for so many threads that share the work: in attoseconds."""

    target: Target
    threads: int
    byte: Bytes
    """Read from each level."""
    written: Bytes
    """Written to each level."""
    start: int
    barrier: int

    def seconds(self, work: Work) -> int:
        """Attoseconds, by write + max(read, core) + wait + starts, in whole numbers."""
        a, b, c, d, e = self.byte
        f, g, h, i, j = work.read
        p, q, r, s, t = self.written
        u, v, w, x, y = work.write
        read = a * f + b * g + c * h + d * i + e * j
        write = p * u + q * v + r * w + s * x + t * y
        once = self.start * work.starts + self.barrier * work.barriers
        own = max(read, work.core // self.threads) + work.wait // self.threads
        return write + own + once

    def reading(self, size: int, held: int) -> int:
        """Of a stream of so many bytes from a buffer of `held` bytes."""
        return size * self.byte[level_of(held, self.target)]

    def writing(self, size: int, held: int) -> int:
        """Of a stream of so many bytes into a buffer of `held` bytes."""
        return size * self.written[level_of(held, self.target)]


@lru_cache(maxsize=64)
def clock(target: Target, threads: int = 1) -> Clock:
    """Of a machine. Whoever asks often keeps it."""
    a, b, c, d, e = (round(ATTO / rate) for rate in target.read_rates(threads))
    p, q, r, s, t = (round(ATTO / rate) for rate in target.write_rates(threads))
    start, barrier = (round(x * ATTO) for x in target.starts_s(threads))
    return Clock(target, threads, (a, b, c, d, e), (p, q, r, s, t), start, barrier)


def seconds(work: Work, target: Target, threads: int = 1) -> int:
    """As `Clock.seconds`, of a machine."""
    return clock(target, threads).seconds(work)
