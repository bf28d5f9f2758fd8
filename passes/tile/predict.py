"""
What a list of words moves and takes, for a product of known sizes on a CPU: values in, values out.

The work of the words is writes, arithmetic and copies, and what waits: for what arithmetic does not
hide of reads, for lines that no stream brings, for others. Reads of a level are what `loads.py`
counts into the level above and not into the level itself.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, inf, log2, prod

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import Intrinsic, row_named, rows_of
from mlc.dialects.tile.words import (
    Block,
    Edge,
    Pack,
    Register,
    Split,
    Via,
    Words,
    only_word,
)  # fmt: skip
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.streams import first_access_s, line_s
from mlc.passes.cost.work import ATTO, Bytes, Work, clock, cycle_s, of_seconds
from mlc.passes.tile.loads import nest_of_worker
from mlc.passes.tile.operands import PAGES, STREAMS, Operands
from mlc.passes.tile.problem import Problem
from mlc.passes.tile.steps import TILE_LOAD_CYCLES, row_addresses, step_cycles, step_shape

ALIGNED = 16  # bytes that a caller's arrays are aligned to at least
FIRST_LINES = 4  # of a run of lines, what nothing has asked for before they are needed

# Measured: docs/measurements.md, Sums on their way out.
ASK_CYCLES = 3.0  # to ask for a line of a register tile's sums, its address included
ASKED_SHARE = 0.6  # of what such lines take that are not asked for, what is left

# Measured: docs/measurements.md, Factors in place.
LEAST_ROWS = 4  # that meet a line of a factor in place, until the next ones have come
NEAR = 4  # times level 2: a factor of which lines come while others are multiplied
ASK_SHARE = 0.07  # of a cycle, to ask for a line of a factor some steps ahead


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What it does and how long it takes, and of one worker, the slowest, in which parts."""

    work: Work
    """Of all workers together, each as the slowest. Waits stand for what they read."""
    seconds: float
    """Of the call: of that work."""

    loads: float
    """Load instructions for each instruction that multiplies."""
    bytes: tuple[int, ...]
    """Read by one worker from level 1, 2, 3 and memory, copies apart."""
    core_s: float
    read_s: float
    wait_s: float
    """Of reads, what arithmetic does not hide."""
    line_s: float
    write_s: float
    pack_s: float
    start_s: float
    workers: int


@lru_cache(maxsize=4096)
def predict(problem: Problem, words: Words, target: CpuTarget) -> Prediction:
    """What these words make of the product. ValueError where they lack `register` or `via`."""
    row, tile = row_of(problem, words, target), only_word(words, Register)
    teams = [w for w in words if (isinstance(w, Block) and w.team) or isinstance(w, Split)]
    nest, workers = nest_of_worker(problem, words, row, problem.threads if teams else 1)
    walk = _Walk(problem, words, target, row, tile, nest, workers)
    return walk.prediction()


def row_of(problem: Problem, words: Words, target: CpuTarget) -> Intrinsic:
    """The instruction that `via` names, for operands that the product's widen to."""
    name = only_word(words, Via).row
    fitting = [row for row in usable_rows(problem.dtypes, target) if row.name == name]
    return fitting[0] if fitting else row_named(name, target, [*map(named_dtype, problem.dtypes)])


@lru_cache(maxsize=256)
def usable_rows(dtypes: tuple[str, str, str], target: CpuTarget) -> tuple[Intrinsic, ...]:
    """
    The instructions for sums of this dtype whose operands hold these of the factors; of several
    with one shape the first.
    """
    a, b, c = dtypes
    found: dict[tuple[object, object], Intrinsic] = {}
    for row in rows_of(target):
        if row.dtypes[2] == c and _holds(row, 0, a) and _holds(row, 1, b):
            found.setdefault((row.shape, row.dtypes), row)
    return tuple(found.values())


_WIDER = {"f16": ("f32",), "bf16": ("f32",), "i8": ("i16", "i32"), "u8": ("i16", "i32"),
          "i16": ("i32",), "u16": ("i32",)}  # fmt: skip


def _holds(row: Intrinsic, operand: int, dtype: str) -> bool:
    wanted = row.dtypes[operand]
    # signed bytes are packed as unsigned ones, 128 more, and sums lose that again
    shifted = operand == 0 and wanted == "u8" and row.dtypes[1] == dtype == "i8"
    return wanted == dtype or wanted in _WIDER.get(dtype, ()) or shifted


def streams_in_place(row: Intrinsic, tile: Register, target: CpuTarget) -> bool:
    """
    Whether a step of a register tile reads two lines side by side of a b in place, as they are
    fetched, and multiplies each by `LEAST_ROWS` rows.
    """
    pair = 2 * target.cache_line_bytes
    return tile.n * named_dtype(row.dtypes[1]).bytes >= pair and tile.m >= LEAST_ROWS


class _Walk(Operands):
    """One worker's nest, walked once."""

    def prediction(self) -> Prediction:
        steps, instructions, cycles, loads = self.tile_step()
        read, read_s = self.reads()
        cycles += self.asking()
        loops = self.target.loops
        around = loops.tile_start_cycles + self.guarded() * loops.tile_edge_cycles
        around = self.tiles() * around + self.begun_again() + self.shifts()
        core = (steps * cycles + around) * cycle_s(self.target)
        packing = sum(self.packing(word) for word in self.words if isinstance(word, Pack))
        waiting, lines = max(self.beside(read_s), self.late(core, read_s)), self.lines()
        sums, starts, costs = self.writes(), self.starts(), clock(self.target, self.workers)
        apart, line_of_sums = self.sums_apart()
        if "c" in self.asked_for:
            asked, near = self.asked(), (0, sum(sums[1:]), 0, 0, 0)
            far = costs.seconds(Work(write=sums)) - costs.seconds(Work(write=near))
            core += asked * ASK_CYCLES * cycle_s(self.target)
            waiting += max(0.0, far / ATTO - core)
            sums, apart = near, apart * ASKED_SHARE
        lines += apart * line_of_sums
        own = Work(
            core=of_seconds(core + packing),
            write=sums,
            wait=of_seconds(waiting + lines + self.added()),
        )
        work = own.times(self.workers) + starts
        return Prediction(
            work=work,
            seconds=costs.seconds(work) / ATTO,
            loads=loads / instructions,
            bytes=(round(steps * loads * self.load_bytes()), *read),
            core_s=core,
            read_s=read_s,
            wait_s=waiting,
            line_s=lines,
            write_s=costs.seconds(Work(write=sums).times(self.workers)) / ATTO + self.added(),
            pack_s=packing,
            start_s=costs.seconds(starts) / ATTO,
            workers=self.workers,
        )

    # arithmetic ------------------------------------------------------------------------------

    def begun_again(self) -> float:
        """
        Cycles of sums that register tiles load again, for each block of the summed axis but one.
        That vectors are stored each time is part of a tile's start; tile registers are stored row
        by row.
        """
        blocks = prod(loop.trips for loop in self.nest.loops[:-1] if loop.axis == "k")
        rows, columns = step_shape(self.row, self.tile)
        sums = rows * columns * self.row.shape[0]
        each = self.target.loops.load_issue_cycles
        if self.row.in_tiles:
            each = TILE_LOAD_CYCLES / self.row.shape[0] + self.target.loops.store_cycles
        return self.tiles() * (1 - 1 / blocks) * sums * each

    def shifts(self) -> float:
        """Cycles of summing what shifted elements are too much, for all rows that meet a panel."""
        if (self.row.dtypes[0], self.problem.dtypes[0]) != ("u8", "i8"):
            return 0.0
        columns = step_shape(self.row, self.tile)[1]
        each = step_cycles(self.row, 1, columns, self.target, apart=False)
        return self.tiles() / self.nest.loops[-2].trips * self.nest.loops[-1].trips * each

    def tile_step(self) -> tuple[float, int, float, int]:
        """Steps along the summed axis, and of one: instructions, cycles and load instructions."""
        steps = self.tiles() * self.nest.loops[-1].trips
        rows, columns = step_shape(self.row, self.tile)
        apart = "a" not in self.packed
        loads = rows + columns + (row_addresses(self.row, rows) if apart else 0)
        cycles = step_cycles(self.row, rows, columns, self.target, apart=apart)
        return steps, rows * columns, cycles, loads

    def asking(self) -> float:
        """Cycles of one step in which lines of b are asked for."""
        lines = ceil(self.tile.n * self.item["b"] / self.target.cache_line_bytes)
        return lines * ASK_SHARE if "b" in self.asked_for else 0.0

    def guarded(self) -> int:
        """Rows of a tile of which each may lie past the end."""
        ends = any(isinstance(word, Edge) and word.axis == "m" for word in self.words)
        return self.tile.m if ends and not self.row.in_tiles else 0

    def load_bytes(self) -> float:
        """Of one load instruction, on average: a vector of b, a group of a, or a tile."""
        rows, columns = step_shape(self.row, self.tile)
        m, n, k = self.row.shape
        return (rows * m * k * self.item["a"] + columns * n * k * self.item["b"]) / (rows + columns)

    # memory ----------------------------------------------------------------------------------

    def beside(self, read_s: float) -> float:
        """Seconds that reads cost beside arithmetic, all of which are there in time."""
        crossed, loops = 0.0, self.target.loops
        if "b" not in self.packed and "b" not in self.asked_for:
            line = self.target.cache_line_bytes
            vector = min(line, self.row.shape[1] * self.item["b"])
            part = max(0, vector - ALIGNED) / (line - ALIGNED)  # of vectors at such addresses
            reads = zip(self.given["b"], self.rates, strict=True)
            crossed = loops.crossed_read_share * part * sum(size / rate for size, rate in reads)
        return (loops.tile_read_share if self.row.in_tiles else loops.read_share) * read_s + crossed

    def late(self, core_s: float, read_s: float) -> float:
        """
        Seconds of reads that take longer than what is computed meanwhile: registers take all bytes
        of a factor in `core_s`, so these in their part of it. Sums must be there before a tile
        begins, and those in level 2 are. Tile registers are loaded so far ahead that all reads and
        all arithmetic go on together.
        """
        if self.row.in_tiles:
            return max(0.0, read_s - core_s)
        rows, columns = step_shape(self.row, self.tile)
        m, n, k = self.row.shape
        steps = self.tiles() * self.nest.loops[-1].trips
        taken = {"a": steps * rows * m * k * self.item["a"],
                 "b": steps * columns * n * k * self.item["b"], "c": inf}  # fmt: skip
        total = 0.0
        for x, whole in taken.items():
            others = self.from_others(x)
            for level, (size, rate) in enumerate(zip(self.given[x], self.rates, strict=True)):
                seconds, meanwhile = size / rate, core_s * min(1.0, size / whole)
                seconds += others if level == 1 else 0.0
                if level or x != "c":
                    total += max(0.0, seconds - meanwhile)
            if x == "b":
                total += max(0.0, self.pages() - core_s)
        return total

    def lines(self) -> float:
        """
        Seconds of waiting for lines that no stream brings: those of factors of which a register
        tile, or a copy, reads less than half a page of a row, and the next row is on another page.
        The first lines of a run, then a stream brings the others. Of few rows of b each is a
        stream: the next tile goes on where this one has ended. A copy waits for the first line of a
        part, and asks for the next ones meanwhile.
        """
        problem, target, seconds = self.problem, self.target, 0.0
        sizes = {"g": problem.batch, "m": problem.m, "n": problem.n, "k": problem.k}
        along = {"m": self.tile.m, "n": self.tile.n}
        along["k"] = round(self.nest.loops[-1].trips * self.row.shape[2])
        for x, unit in (("a", problem.a_unit), ("b", problem.b_unit)):
            row, part = sizes[unit] * self.source[x], along[unit]
            copied = self.part_copied(x, unit)
            if copied is not None:
                part = copied[0]
            elif x == "b" and unit == "n" and along["k"] <= STREAMS:
                steps = [loop.step for loop in self.nest.loops if loop.axis == unit]
                part = min([problem.n, *(step for step in steps if step > self.tile.n)])
            if part * self.source[x] < target.page_bytes // 2 <= row:
                whole = prod(sizes[axis] for axis in problem.axes[x]) * self.source[x]
                lines = self.into[x][1] / target.cache_line_bytes
                if copied is None:
                    run = part * self.source[x] / target.cache_line_bytes
                    first = min(1.0, FIRST_LINES / max(run, 1.0))
                    seconds += lines * first * self.line_in_place_s(x, whole)
                elif whole > target.l2_bytes:
                    parts = (
                        copied[1]
                        * self.source[x]
                        / max(target.cache_line_bytes, part * self.source[x])
                    )
                    seconds += parts * line_s(whole, target)
        return seconds

    def line_in_place_s(self, operand: str, whole: int) -> float:
        """
        Seconds of such a line. Those of b that the next steps read are on their way meanwhile, as
        far as level 2 holds a part of it and a step has work for them.
        """
        streams = operand == "b" and streams_in_place(self.row, self.tile, self.target)
        if not streams or whole > NEAR * self.target.l2_bytes:
            return first_access_s(whole, self.target)
        return line_s(whole, self.target) * (ASKED_SHARE if "b" in self.asked_for else 1.0)

    def part_copied(self, operand: str, axis: str) -> tuple[int, float] | None:
        """Of a factor's copy: how far it goes along an axis, and elements of all copies."""
        for k, word in enumerate(self.words):
            if isinstance(word, Pack) and word.operand == operand:
                depth = self.depth(k)
                around = self.nest.loops[:depth]
                steps = [loop.step for loop in around if loop.axis == axis]
                block = self.nest.touched[operand][depth]
                part = min([self.nest.extents[axis], *steps])
                return part, block * prod(loop.trips for loop in around)
        return None

    def writes(self) -> Bytes:
        """
        The sums on their way out, once for each block of the summed axis: as far as what
        stays between the blocks, and the whole result in the end.
        """
        elements = self.nest.touched["c"][0]
        if self.scratch == inf:
            return self.written(elements * self.item["c"], 0)
        waiting, results = self.written(self.scratch, elements), self.results(elements)
        first, second, third, half, memory = map(sum, zip(waiting, results, strict=True))
        return first, second, third, half, memory

    def results(self, elements: int) -> Bytes:
        """Once, as far as all of them lie."""
        size = elements * self.stored
        lies = self.lies(size)
        second, third, memory = (size if level == lies else 0 for level in (1, 2, 3))
        return 0, second, third, 0, memory

    def lies(self, held: float) -> int:
        """The nearest level that holds so many bytes; 0: level 1, 3: memory."""
        return min((k for k, room in enumerate(self.capacities) if held <= room), default=3)

    def written(self, held: float, last: int) -> Bytes:
        """Of sums in memory of so many bytes; without those of the last block that go elsewhere."""
        rooms = self.capacities[: self.lies(held)]
        moved = [
            max(0.0, self.nest.moved("c", room, self.footprints) - last) * self.item["c"]
            for room in rooms
        ]
        beyond = (*moved[1:], 0.0)
        far = [round(max(0.0, here - there)) for here, there in zip(moved, beyond, strict=False)]
        second, third, memory = (*far, 0, 0, 0)[:3]
        return 0, second, third, 0, memory

    def sums_apart(self) -> tuple[float, float]:
        """
        Lines of sums beyond level 2 that no stream brings, and the seconds of one: those of parts
        of rows on pages of their own, when more rows than a buffer has translations come before the
        next part of the same ones.
        """
        columns, rows = self.nest.loops[-3], self.nest.loops[-2]
        goes_on = columns.trips > 1 and rows.trips * self.tile.m <= PAGES
        part, row = (n * self.item["c"] for n in (self.tile.n, self.problem.n))
        whole = min(self.scratch, self.nest.touched["c"][0] * self.item["c"])
        near = whole <= self.target.l2_bytes or not part < self.target.page_bytes // 2 <= row
        if self.row.in_tiles or goes_on or near:
            return 0.0, 0.0
        run = part / self.target.cache_line_bytes
        first = min(1.0, FIRST_LINES / max(run, 1.0))
        return self.asked() * first, line_s(int(whole), self.target)

    def asked(self) -> float:
        """Lines of all register tiles' sums."""
        line = self.target.cache_line_bytes
        return self.tiles() * self.tile.m * ceil(self.tile.n * self.item["c"] / line)

    def added(self) -> float:
        """Seconds of adding the parts of a split sum, one after the other."""
        parts = sum(word.parts for word in self.words if isinstance(word, Split))
        whole = self.nest.touched["c"][0] * self.item["c"]
        return parts * whole / self.rate_of(parts * whole)

    # copies and starts -------------------------------------------------------------------------

    def packing(self, word: Pack) -> float:
        """Seconds that one worker copies, at its place in the list."""
        depth = self.depth(self.words.index(word))
        x, problem = word.operand, self.problem
        block = self.nest.touched[x][depth]
        elements = block * prod(loop.trips for loop in self.nest.loops[:depth])
        if word.team:
            elements /= self.workers
        across, unit = ("n", problem.b_unit) if x == "b" else ("m", problem.a_unit)
        lanes = self.target.lanes(8 * self.item[x])
        more = 0.0 if unit == across else log2(max(2, lanes))
        if word.group > 1 and not word.rows:  # interleaved, or stored group by group
            more = word.group if unit == across else lanes / word.group
        each = self.target.loops.pack_cycles + more
        if unit == across:  # a row of a panel may fill no vector
            each *= lanes * ceil(word.panels / lanes) / word.panels
        whole = prod({"g": problem.batch, "m": problem.m, "n": problem.n, "k": problem.k}[axis]
                     for axis in problem.axes[x]) * self.source[x]  # fmt: skip
        copying = max(
            elements / lanes * each * cycle_s(self.target),
            elements * self.source[x] / self.rate_of(whole),
        )
        return copying + elements * self.item[x] / self.rate_of(block * self.item[x])

    def rate_of(self, size: float) -> float:
        """Bytes each second of data of so many bytes."""
        for capacity, rate in zip(
            self.capacities, (self.target.l1_read_bytes_per_s, *self.rates), strict=False
        ):
            if size <= capacity:
                return rate
        return self.rates[2]

    def starts(self) -> Work:
        """Starting workers, and their barriers, two around each common copy."""
        if self.problem.threads == 1 or self.workers == 1:
            return Work()
        barriers = float(sum(isinstance(word, Split) for word in self.words))
        for k, word in enumerate(self.words):
            if isinstance(word, Pack) and word.team:
                barriers += 2 * prod(loop.trips for loop in self.nest.loops[: self.depth(k)])
        return Work(starts=1, barriers=round(barriers))
