"""
How often a loop nest of a product reads each operand, counted from its loops.

A memory of some size keeps an operand from one trip of a loop to the next where the operand does
not move with that loop and one trip touches no more than fits. That one rule counts loads of
registers and of each cache.
SOURCE: Lam, Rothberg, Wolf, "The cache performance and optimizations of blocked algorithms",
ASPLOS 1991; Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
34(3), 2008.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

from mlc.cached_property import cached_property
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.words import Block, Register, Split, Words, only_word
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.problem import AXES, Problem


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over an axis: its trips on average, and how much of the axis one trip sees at most."""

    axis: str
    trips: float
    step: int


@dataclass(frozen=True)
class Nest:
    """Loops, the outermost first, around a tile that registers hold."""

    loops: tuple[Loop, ...]
    extents: Mapping[str, int]
    """Of each axis, outside of all loops."""

    axes: Mapping[str, str]
    """Of each operand; a factor that all batches share lacks "g"."""

    @staticmethod
    def of(
        extents: Mapping[str, int],
        steps: Sequence[tuple[str, int]],
        axes: Mapping[str, str] = AXES,
    ) -> Nest:
        """The nest of these (axis, step), outermost first; the last part of an axis may be less."""
        parts = {axis: {extent: 1} for axis, extent in extents.items()}
        loops: list[Loop] = []
        for axis, step in steps:
            cut: dict[int, int] = {}
            for extent, count in parts[axis].items():
                whole, rest = divmod(extent, step)
                for size, times in ((step, whole), (rest, 1)):
                    if size and times:
                        cut[size] = cut.get(size, 0) + times * count
            trips = sum(cut.values()) / sum(parts[axis].values())
            loops.append(Loop(axis, trips, max(cut)))
            parts[axis] = cut
        return Nest(tuple(loops), extents, axes)

    @cached_property
    def touched(self) -> Mapping[str, tuple[int, ...]]:
        """Of each operand the elements that one trip of the first 0, 1, … loops touches."""
        seen = dict(self.extents)
        found = {x: [prod(seen[axis] for axis in axes)] for x, axes in self.axes.items()}
        for loop in self.loops:
            before, seen[loop.axis] = seen[loop.axis], loop.step
            for x, axes in self.axes.items():
                last = found[x][-1]
                found[x].append(last // before * loop.step if loop.axis in axes else last)
        return {x: tuple(elements) for x, elements in found.items()}

    def footprints(self, item_bytes: Mapping[str, int]) -> tuple[int, ...]:
        """Bytes that one trip of the first 0, 1, … loops touches."""
        whole = [[n * item for n in self.touched[x]] for x, item in item_bytes.items()]
        return tuple(map(sum, zip(*whole, strict=True)))

    def moved(self, operand: str, capacity: float, footprints: Sequence[int]) -> float:
        """Elements of an operand that come into a memory of so many bytes, all trips together."""
        axes, total = self.axes[operand], float(self.touched[operand][-1])
        for loop, bytes_ in zip(self.loops, footprints[1:], strict=True):
            if loop.axis in axes or bytes_ > capacity:
                total *= loop.trips
        return total


def nest_of_worker(
    problem: Problem, words: Words, row: Intrinsic, threads: int
) -> tuple[Nest, int]:
    """The loops of the worker with the most to do, and how many work."""
    left = {"g": problem.batch, "m": problem.m, "n": problem.n, "k": problem.k}
    mine, steps = dict(left), list[tuple[str, int]]()
    shared: list[tuple[str, int, int]] = []  # what workers share: axis, its extent, and a trip's
    whole = any(isinstance(word, Block) and word.dynamic for word in words)
    for word in words:
        if not isinstance(word, Block | Split):
            continue
        extent = left[word.axis]
        step = min(word.step, extent) if isinstance(word, Block) else ceil(extent / word.parts)
        if threads > 1 and (isinstance(word, Split) or word.team):
            shared.append((word.axis, extent, step))
        steps.append((word.axis, step))
        left[word.axis] = step
    workers = _deal(shared, mine, left, None if whole else only_word(words, Register), threads)
    tile = only_word(words, Register)
    if left["g"] > 1:
        steps.insert(0, ("g", 1))
    steps += [("n", tile.n), ("m", tile.m), ("k", row.shape[2])]
    return Nest.of(mine, steps, problem.axes), workers


def _deal(
    shared: Sequence[tuple[str, int, int]],
    mine: dict[str, int],
    left: Mapping[str, int],
    tile: Register | None,
    threads: int,
) -> int:
    """
    Makes extents those of the worker with the most, and says how many work: in shares of register
    tiles of one axis, of columns where there are too few of rows, or in trips of all axes together,
    which nobody cuts where they are taken one by one.
    """
    if tile is not None and [axis for axis, _, _ in shared] == ["m"]:
        axis, extent, step = "m", mine["m"], tile.m
        if extent < 2 * step * threads:
            axis, extent, step = "n", left["n"], tile.n
        shared = [(axis, extent, step)]
    trips = [ceil(extent / step) for _, extent, step in shared]
    workers = min(threads, prod(trips))
    share = ceil(prod(trips) / workers)
    for (axis, extent, step), count in zip(reversed(shared), reversed(trips), strict=True):
        part = min(share, count) * step if count > 1 else extent
        mine[axis] = min(mine[axis], part * ceil(mine[axis] / extent))  # so often by loops around
        share = ceil(share / count)
    return workers
