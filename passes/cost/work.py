"""
What a program does, in whole numbers, and the one sum that makes seconds of it.

`Work` is a commutative monoid: a search, or a walk over a program, adds up parts and repeats them,
and asks `seconds` when it wants to compare. Femtoseconds, so that sums are exact and do not depend
on the order in which parts were added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mlc.dialects.target import CpuTarget
from mlc.passes.cost.model import CALL_S, cycle_s

FEMTO = 10**15
LEVELS = 4
"""Levels 1, 2 and 3, and memory."""
Bytes = tuple[int, int, int, int]
NONE: Bytes = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Work:
    """What all workers of a program do together."""

    core: int = 0
    """Femtoseconds of one core, its operands at hand."""
    read: Bytes = NONE
    """From each level, the nearest first."""
    write: Bytes = NONE
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
            self.operations + other.operations,
            self.starts + other.starts,
            self.barriers + other.barriers,
        )

    def times(self, trips: int) -> Work:
        """So often."""
        read, write = (_scaled(x, trips) for x in (self.read, self.write))
        counts = (x * trips for x in (self.operations, self.starts, self.barriers))
        return Work(self.core * trips, read, write, *counts)


def _sum(a: Bytes, b: Bytes) -> Bytes:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


def _scaled(a: Bytes, trips: int) -> Bytes:
    return a[0] * trips, a[1] * trips, a[2] * trips, a[3] * trips


def moved(size: int, level: int) -> Bytes:
    """So many bytes of one level."""
    first, second, third, memory = (size if k == level else 0 for k in range(LEVELS))
    return first, second, third, memory


@lru_cache(maxsize=4096)
def level_of(held: int, target: CpuTarget) -> int:
    """The nearest level that holds so many bytes."""
    sizes = (target.l1d_bytes, target.l2_bytes, target.l3_bytes)
    return next((k for k, size in enumerate(sizes) if held <= size), LEVELS - 1)


def of_cycles(cycles: float, target: CpuTarget) -> int:
    """Femtoseconds of so many cycles."""
    return round(cycles * cycle_s(target) * FEMTO)


@dataclass(frozen=True, slots=True)
class Clock:
    """What a machine takes, for so many threads that share the work: in femtoseconds."""

    threads: int
    byte: Bytes
    """Read from each level."""
    written: int
    """Thousandths of that, for a byte that is written."""
    start: int
    barrier: int

    def seconds(self, work: Work) -> int:
        """Femtoseconds, by write + max(read, core) + starts, in whole numbers."""
        a, b, c, d = self.byte
        e, f, g, h = work.read
        k, m, n, p = work.write
        read = a * e + b * f + c * g + d * h
        write = (a * k + b * m + c * n + d * p) * self.written // 1000
        once = self.start * work.starts + self.barrier * work.barriers
        return write + max(read, work.core // self.threads) + once


@lru_cache(maxsize=64)
def clock(target: CpuTarget, threads: int = 1) -> Clock:
    """Of a machine. Whoever asks often keeps it."""
    t, alone = target, threads == 1
    memory = min(t.memory_read_bytes_per_s * threads, t.memory_read_all_cores_bytes_per_s)
    memory = max(memory, t.memory_read_bytes_per_s)
    near = t.l1_read_bytes_per_s, t.l2_read_bytes_per_s, t.l3_read_bytes_per_s
    first, second, third = (round(FEMTO / (rate * threads or memory)) for rate in near)
    return Clock(
        threads,
        (first, second, third, round(FEMTO / memory)),
        round(1000 * t.write_factor),
        round((CALL_S if alone else t.fork_join_s) * FEMTO),
        0 if alone else round(t.barrier_s * FEMTO),
    )


def seconds(work: Work, target: CpuTarget, threads: int = 1) -> int:
    """As `Clock.seconds`, of a machine."""
    return clock(target, threads).seconds(work)
