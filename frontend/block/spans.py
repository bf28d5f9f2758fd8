"""
Whole numbers that are linear in positions, and the part of all positions that a mask lets through.

The positions of a value are those of the grid's axes, then those of the block's. A mask such as
``program_id(0) * 1024 + arange(0, 1024) < n`` runs through two axes as through one: a `Span`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Line:
    """`constant` + the sum of step * position over the axes."""

    constant: int
    steps: tuple[int, ...]

    def __add__(self, other: Line) -> Line:
        steps = (a + b for a, b in zip(self.steps, other.steps, strict=True))
        return Line(self.constant + other.constant, tuple(steps))

    def times(self, factor: int) -> Line:
        """The line, multiplied."""
        return Line(self.constant * factor, tuple(step * factor for step in self.steps))

    def plus(self, number: int) -> Line:
        """The line, moved."""
        return Line(self.constant + number, self.steps)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that it varies along."""
        return tuple(k for k, step in enumerate(self.steps) if step)

    def along(self, span: Span, sizes: Sequence[int]) -> int | None:
        """Its step along a span; None where it is not linear there."""
        step = None
        inside = 1
        for axis in reversed(span.axes):
            if sizes[axis] == 1:
                continue
            if step is None:
                step = self.steps[axis]
            elif self.steps[axis] != step * inside:
                return None
            inside *= sizes[axis]
        return step or 0


@dataclass(frozen=True)
class Span:
    """Axes as one, the last one fastest, of which positions from `first` to before `end` are in."""

    axes: tuple[int, ...]
    first: int
    end: int
    size: int

    @property
    def count(self) -> int:
        """Positions that are in."""
        return self.end - self.first

    @property
    def whole(self) -> bool:
        """Whether all positions are in."""
        return self.count == self.size


Region = tuple[Span, ...]
"""Spans of which each axis is in one, in the order of their first axes; what is in all of them."""


def whole_region(sizes: Sequence[int]) -> Region:
    """All positions."""
    return tuple(Span((k,), 0, size, size) for k, size in enumerate(sizes))


def cut(region: Region) -> tuple[Span, ...]:
    """The spans that leave something out."""
    return tuple(span for span in region if not span.whole)


def region_of(conditions: Sequence[Line], sizes: Sequence[int]) -> Region | None:
    """Where every condition's line is >= 0; None where that is not a product of spans."""
    spans: dict[tuple[int, ...], Span] = {}
    for line in (_of_sizes(condition, sizes) for condition in conditions):
        if not line.axes:
            if line.constant < 0:
                return tuple(Span((k,), 0, 0, size) for k, size in enumerate(sizes))
            continue
        axes = line.axes
        span = spans.get(axes) or Span(axes, 0, (n := prod(sizes[a] for a in axes)), n)
        step = line.along(span, sizes)
        if step is None or step == 0:
            if _lowest(line, sizes) < 0:
                return None
            continue
        first, end = span.first, span.end
        if step > 0:
            first = max(first, -(line.constant // step))
        else:
            end = min(end, line.constant // -step + 1)
        spans[axes] = Span(axes, min(first, span.size), max(end, min(first, span.size)), span.size)
    taken = [axis for axes in spans for axis in axes]
    if len(taken) != len(set(taken)):
        return None
    rest = [Span((k,), 0, size, size) for k, size in enumerate(sizes) if k not in taken]
    return tuple(sorted([*spans.values(), *rest], key=lambda span: span.axes))


def _of_sizes(line: Line, sizes: Sequence[int]) -> Line:
    """The line, without steps along axes of one position."""
    steps = zip(line.steps, sizes, strict=True)
    return Line(line.constant, tuple(0 if size == 1 else step for step, size in steps))


def _lowest(line: Line, sizes: Sequence[int]) -> int:
    ends = (min(0, step * (n - 1)) for step, n in zip(line.steps, sizes, strict=True))
    return line.constant + sum(ends)


@dataclass(frozen=True)
class Window:
    """Elements of memory: `start` + the sum of step * position, positions below counts."""

    start: int
    steps: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is in it."""
        return 0 in self.counts

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest element."""
        moved = [step * (n - 1) for step, n in zip(self.steps, self.counts, strict=True)]
        low = sum(m for m in moved if m < 0)
        return self.start + low, self.start + sum(m for m in moved if m > 0)


def window_of(line: Line, region: Region, sizes: Sequence[int]) -> Window | None:
    """The elements that a line names in a region; None where it is not linear along a span."""
    start, steps = line.constant, list[int]()
    for span in region:
        step = line.along(span, sizes)
        if step is None:
            return None
        start += step * span.first
        steps.append(step)
    return Window(start, tuple(steps), tuple(span.count for span in region))
