"""
The streams of a kernel as work: bytes at the levels that they come from and go to, and what it
waits for.

A stream lies as far away as the bytes that were touched since its memory was. Between the sizes at
which the probe measures, seconds per byte go with the logarithm of the size: such a stream is bytes
of two levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log

from mlc.dialects.target import CpuTarget
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.work import LEVELS, Bytes, Work, of_seconds

CODE_LINES = 2
"""Of a kernel's code, that its start waits for."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes that move, and the bytes touched since the same memory was, the kernel's included."""

    bytes: int
    distance: int
    lines: int = 0
    """Cache lines of it that are asked for in no order."""
    elements: int = 0
    """Single elements of it that are asked for in no order: several wait together."""
    over: bool = False
    """Whether it is written over what the kernel reads, which has brought its lines."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """
    What a kernel moves: a stream for each input, as `bytes_read` has it, and for each result.
    `since`: the bytes touched since the kernel's last run.
    """

    reads: tuple[Stream, ...]
    writes: tuple[Stream, ...]
    since: int = 0


def work_of_traffic(traffic: Traffic, core: int, target: CpuTarget, threads: int = 1) -> Work:
    """
    Of a kernel that computes for `core` attoseconds of one core, operands in level 1. Lines that it
    writes in no order go out while it computes; those that it reads so, and the first of each
    stream, it waits for. A call of the caller's own thread is known: what it waits for, and itself.
    """
    read = _added([spread(x.bytes, x.distance, target, threads) for x in traffic.reads])
    written = _added([_written(x, target, threads) for x in traffic.writes])
    scattered, strewn = (
        sum(_lines(x, target) * line_s(x.distance, target) for x in streams)
        for streams in (traffic.reads, traffic.writes)
    )
    first = CODE_LINES * first_access_s(traffic.since, target)
    first += sum(first_access_s(x.distance, target) for x in (*traffic.reads, *traffic.writes))
    alone = threads == 1
    wait = scattered + first * threads + (target.loops.call_s if alone else 0.0)
    busy = max(core, of_seconds(strewn))
    return Work(busy, read, written, of_seconds(wait), starts=0 if alone else 1)


def _lines(stream: Stream, target: CpuTarget) -> int:
    return stream.lines + stream.elements // target.loops.num_lines_together


def spread(size: int, distance: int, target: CpuTarget, threads: int = 1) -> Bytes:
    """Bytes whose memory was touched `distance` bytes ago, by the levels that they come from."""
    own = distance / threads if distance <= target.l2_bytes * threads else distance
    found = [0] * LEVELS
    (near, _), (far, share) = _between(own, _measured(target))
    found[far] = round(size * share)
    found[near] += size - found[far]
    first, second, third, half, memory = found
    return first, second, third, half, memory


def _written(stream: Stream, target: CpuTarget, threads: int) -> Bytes:
    """A line is read before some of it is written, which the rates of writes contain."""
    found = spread(stream.bytes, stream.distance, target, threads)
    if not stream.over:
        return found
    rates = zip(found, target.read_rates(threads), target.write_rates(threads), strict=True)
    a, b, c, d, e = (round(size * max(1 - write / read, 0.0)) for size, read, write in rates)
    return a, b, c, d, e


def first_access_s(distance: int, target: CpuTarget) -> float:
    """Seconds until memory answers that no stream has asked for before."""
    return _mixed(distance, target.loops.first_s, target)


def line_s(distance: int, target: CpuTarget) -> float:
    """Seconds of a line that is asked for in no order, while others are on their way."""
    return _mixed(distance, target.loops.line_s, target)


def _mixed(distance: int, seconds: Sequence[float], target: CpuTarget) -> float:
    ends = _between(distance, _answering(target))
    return sum(seconds[level] * share for level, share in ends)


def _between(
    size: float, points: Sequence[tuple[float, int]]
) -> tuple[tuple[int, float], tuple[int, float]]:
    """The two levels around a size, and the part of each: linear in the logarithm."""
    at, level = points[0]
    for end, last in points:
        if size <= end:
            share = log(size / at) / log(end / at) if size > at else 0.0
            return (level, 1.0 - share), (last, share)
        at, level = end, last
    return (level, 0.0), (level, 1.0)


def _added(parts: Sequence[Bytes]) -> Bytes:
    total = Work()
    for part in parts:
        total += Work(read=part)
    return total.read


@lru_cache(maxsize=32)
def _answering(target: CpuTarget) -> tuple[tuple[float, int], ...]:
    """(size, which of levels 1 to 3 and memory answers as it says there)."""
    memory = 2 * max(target.l3_bytes, target.l2_bytes)
    sizes = (target.l1d_bytes, target.l2_bytes, max(target.l3_bytes / 4, target.l2_bytes), memory)
    return tuple((size, level) for level, size in enumerate(sizes))


@lru_cache(maxsize=16)
def _measured(target: CpuTarget) -> tuple[tuple[float, int], ...]:
    """
    (size of a working set, level): level 1 holds as much as its size, and nothing of half as much
    again; of level 2 pages share sets by chance, so that it loses some from half of its size on;
    of level 3 the rates are measured at two sizes, since others use it, too.
    """
    points: list[tuple[float, int]] = [
        (target.l1d_bytes, 0), (target.l1d_bytes * 1.5, 1), (target.l2_bytes / 2, 1),
    ]  # fmt: skip
    if target.l3_bytes:
        points.append((2 * target.l2_bytes, 2))
        points.append((max(2 * target.l2_bytes, target.l3_bytes / 8), 2))
        points.append((target.l3_bytes / 2, 3))
    return (*points, (2 * max(target.l3_bytes, target.l2_bytes), LEVELS - 1))
