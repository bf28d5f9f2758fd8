"""
What of each operand of a product comes into each level: from there come the seconds of its reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from math import ceil, gcd, inf, prod

from mlc.cached_property import cached_property
from mlc.dialects.dtypes import named_dtype
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.words import Block, Pack, Prefetch, Register, Split, Words
from mlc.passes.cost.work import cycle_s
from mlc.passes.tile.loads import Nest
from mlc.passes.tile.problem import Problem

# SOURCE: Intel and AMD optimization guides; Arm Neoverse N1 and V1 guides.
PAGE_CYCLES = 7.0  # a page that the first of two translation buffers lacks
PAGES = 64  # that it holds
STAYS = 0.7  # of level 2, from trip to trip: pages share sets. Measured: docs/measurements.md
STREAMS = 16  # rows that prefetchers follow at once: half of those that they may


class Operands:
    """Of one worker's nest."""

    def __init__(
        self, problem: Problem, words: Words, target: CpuTarget, row: Intrinsic, tile: Register,
        nest: Nest, workers: int,
    ) -> None:  # fmt: skip
        self.problem, self.words, self.target = problem, words, target
        self.row, self.tile, self.nest, self.workers = row, tile, nest, workers
        self.packed = {w.operand for w in words if isinstance(w, Pack)}
        self.asked_for = {w.operand for w in words if isinstance(w, Prefetch)}
        """Operands whose lines are asked for before they are needed."""
        source = dict(zip("abc", (named_dtype(x).bytes for x in problem.dtypes), strict=True))
        held = dict(zip("abc", (named_dtype(x).bytes for x in row.dtypes), strict=True))
        self.source = source
        self.item = {x: held[x] if x in self.packed else source[x] for x in "abc"}
        self.stored = named_dtype(problem.result).bytes if problem.result else self.item["c"]
        cuts = [k for k, loop in enumerate(nest.loops[:-1]) if loop.axis == "k" and loop.trips > 1]
        self.scratch = inf  # bytes of sums that wait there, for one worker
        if cuts and problem.apart:
            self.scratch = nest.touched["c"][cuts[0]] * self.item["c"]
        elif not cuts:
            self.item["c"] = self.stored
        self.footprints = nest.footprints(self.item)

    def tiles(self) -> float:
        """Register tiles, one for each block of the summed axis."""
        total = 1.0
        for loop in self.nest.loops[:-1]:
            total *= loop.trips
        return total

    @cached_property
    def capacities(self) -> tuple[float, float, float]:
        """Of levels 1 to 3, for one worker."""
        t = self.target
        sharing = max(1, min(self.workers, t.cores_per_l3))
        return t.l1d_bytes, t.l2_bytes, (t.l3_bytes or t.l2_bytes) / sharing

    @cached_property
    def rates(self) -> tuple[float, float, float]:
        """Bytes each second from level 2, 3 and memory, for one worker."""
        t = self.target
        memory = min(t.memory_read_bytes_per_s, t.memory_read_all_cores_bytes_per_s / self.workers)
        return t.l2_read_bytes_per_s, t.l3_read_bytes_per_s or memory, memory

    @cached_property
    def into(self) -> Mapping[str, list[float]]:
        """Of each operand the bytes that come into levels 1, 2 and 3."""
        return {operand: self._into(operand) for operand in "abc"}

    def _into(self, operand: str) -> list[float]:
        found: list[float] = []
        item, waste = self.item[operand], self.waste(operand)
        whole = self.nest.touched[operand][0] * item if operand == "c" else 0
        (copied, all_copied), of_others = self.copied(operand), self.of_others(operand)
        for level, capacity in enumerate(self.capacities):
            stays = capacity * (STAYS if level == 1 else 1.0)
            room = stays * (self.usable(operand) if level == 0 else 1.0)
            moved = self.nest.moved(operand, room, self.footprints) * item
            moved -= whole  # the first block writes
            if level == 2 or not of_others:
                if self.footprints[0] <= stays:
                    moved = 0  # it lies there from the call before
                elif copied <= (capacity / 2 if level else capacity):  # level 2: beside its source
                    moved = max(0.0, moved - all_copied)  # each lies there, until others oust it
            found.append(moved * waste * (self.again(operand) if level == 0 else 1.0))
        return found

    def copied(self, operand: str) -> tuple[float, float]:
        """
        Bytes of an operand's copy, or of sums apart, which lie in a near level, and of all such
        copies; no end where there is none.
        """
        if operand == "c":
            return self.scratch, 0.0
        for k, word in enumerate(self.words):
            if isinstance(word, Pack) and word.operand == operand:
                depth = self.depth(k)
                size = self.nest.touched[operand][depth] * self.item[operand]
                return size, size * prod(loop.trips for loop in self.nest.loops[:depth])
        return inf, 0.0

    def of_others(self, operand: str) -> bool:
        """Whether what a worker reads was copied by others: it lies in their caches."""
        if self.workers < 2:
            return False
        return any(isinstance(w, Pack) and w.operand == operand and w.team for w in self.words)

    def from_others(self, operand: str) -> float:
        """Seconds more than of level 3, once, of what other workers have just copied."""
        if not self.of_others(operand):
            return 0.0
        whole = self.nest.touched[operand][0] * self.item[operand]
        return whole * max(0.0, self.target.loops.others_byte_s - 1 / self.rates[1])

    def waste(self, operand: str) -> float:
        """Bytes of the lines that a register tile touches, to those it uses."""
        unit = {"a": self.problem.a_unit, "b": self.problem.b_unit, "c": "n"}[operand]
        if operand in self.packed or unit == "k":
            return 1.0
        run = {"m": self.tile.m, "n": self.tile.n}[unit] * self.item[operand]
        line = self.target.cache_line_bytes
        return ceil(run / line) * line / run

    def usable(self, operand: str) -> float:
        """The part of level 1 that rows so far apart can fill: a power of two hits few sets."""
        if operand != "b" or "b" in self.packed or self.problem.b_unit != "n":
            return 1.0
        apart = places(self.problem.n * self.item["b"], self.target)
        return min(1.0, apart * self.tile.n * self.item["b"] / _way(self.target))

    def again(self, operand: str) -> float:
        """
        How often level 1 takes a line of the rows of a that a register tile walks along: once, or
        at each step, where more of them hit one set than it holds beside a line of b. Of tile
        registers' rows, each step a line of its own, there are more than streams: none is there
        before it is asked for, which costs as much as a second time.
        """
        if operand != "a" or "a" in self.packed or self.problem.a_unit != "k":
            return 1.0
        if self.row.in_tiles:
            return 2.0 if self.tile.m > STREAMS else 1.0
        rows = ceil(self.tile.m / places(self.problem.k * self.item["a"], self.target))
        beyond = max(0, rows - self.target.l1d_ways) / rows
        steps = self.target.cache_line_bytes / (self.row.shape[2] * self.item["a"])
        return 1 + beyond * max(0.0, steps - 1)

    def reads(self) -> tuple[tuple[int, int, int], float]:
        """Bytes that levels 2, 3 and memory give, and the seconds of that."""
        given = [sum(x) for x in zip(*self.given.values(), strict=True)]
        seconds = sum(x / rate for x, rate in zip(given, self.rates, strict=True))
        return (round(given[0]), round(given[1]), round(given[2])), seconds + self.pages()

    @cached_property
    def given(self) -> Mapping[str, tuple[float, float, float]]:
        """Of each operand the bytes that levels 2, 3 and memory give."""
        found: dict[str, tuple[float, float, float]] = {}
        for operand, (first, near, far) in self.into.items():
            second = min(first, near)
            third = min(second, far)
            found[operand] = first - second, second - third, third
        return found

    def pages(self) -> float:
        """
        Seconds of translations, where b is read in place and its rows lie on many pages: who asks
        for its lines has them in time.
        """
        depth = self.nest.loops[-1].trips * self.row.shape[2]
        part = min(1.0, self.problem.n * self.item["b"] / self.target.page_bytes)
        elsewhere = "b" in self.packed or "b" in self.asked_for or self.problem.b_unit != "n"
        if elsewhere or depth <= PAGES or part < 0.5:
            return 0.0
        return self.tiles() * depth * part * PAGE_CYCLES * cycle_s(self.target)

    def depth(self, position: int) -> int:
        """Loops around the word at this position of the list."""
        return self._depths[position]

    @cached_property
    def _depths(self) -> tuple[int, ...]:
        cuts = [isinstance(word, Block | Split) for word in self.words]
        first = len(self.nest.loops) - sum(cuts) - 3  # batches that no word cuts are outermost
        return tuple(accumulate(cuts, initial=first))


def places(apart: int, target: CpuTarget) -> int:
    """Where rows so many bytes apart begin in a way of level 1."""
    return _way(target) // gcd(apart, _way(target))


def _way(target: CpuTarget) -> int:
    """Bytes of a way of level 1."""
    return target.l1d_bytes // target.l1d_ways
