"""
The schedules that a product may have on a CPU, best first: a pure function of values.

Routes, by size: *tiny*, the whole product by one walk of register tiles; *panel*, b read where it
lies; *blocked*, one or both factors packed; *skinny*, few rows or columns, the large factor
streamed; *batched*, workers take batches and pack for themselves. Each route offers a few lists of
words; `predict.py` says what each takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from heapq import merge
from itertools import chain, islice, takewhile
from math import ceil
from typing import Literal, get_args

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.words import Block, Pack, Prefetch, Register, Split, Via, Word, Words
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.operands import STREAMS, places
from mlc.passes.tile.predict import (
    Prediction,
    Problem,
    predict,
    row_of,
    streams_in_place,
    usable_rows,
)
from mlc.passes.tile.route_words import (
    a_in_place,
    blocks_of,
    ends_of,
    has_whole_rows,
    in_place,
    item_bytes,
    packed_panels,
    rounded,
    share_of,
    shares_of,
)
from mlc.passes.tile.steps import step_cycles
from mlc.passes.tile.teams import best_first, least_seconds, of_one_and_all

Route = Literal["tiny", "panel", "blocked", "skinny", "batched"]
ROUTES: tuple[Route, ...] = get_args(Route)

TILES = 3  # register tiles that are tried for each instruction
WHOLE_ROWS = 128  # of a, whose panels of all depth must fit level 2 for depths not to be cut
DEPTHS = (128, 256, 512)  # blocks of the summed axis that are tried, besides the whole of it
TINY = 64  # rows and columns of a product that needs no loop but those of register tiles
FEW_ROWS = 96  # of a result, for which b may be streamed, or copied panel by panel
ROWS_IN_PLACE = 256  # for which b may be read where it lies. Measured: docs/measurements.md
NEAR_ROWS = 32  # of a block whose rows of sums go on from panel to panel: half of `PAGES`
WIDEST = 4  # vectors of a register tile's row
MOST_ROWS = 32  # of it
TURNS = 4  # trips for each core, where workers take them one by one
TRIP_S = 5e-6  # seconds of such a trip at least, where each copies for itself
DEEP = 1024  # summed elements of a part at least, where a sum is split
MOST_PARTS = 32  # which code adds one by one
FEW_TILES = 16  # register tiles of a result that workers would share badly
BEST = 4  # schedules of a part that are tried
SPLIT_COSTS = 1.05  # of the time of one worker, what splitting may take
AHEAD = 4  # steps that lines of b are asked for ahead. Measured: docs/measurements.md
TAKE_S = 5e-6  # and at all: cores take turns at the counter, 0.1 us each
TILE_REGISTERS = 8  # SOURCE: Intel SDM volume 1, chapter 18, palette 1


@dataclass(frozen=True)
class Candidate:
    """A list of words for one product, and what it should take."""

    route: Route
    words: Words
    predicted: Prediction

    @property
    def seconds(self) -> float:
        """Predicted, of the whole product."""
        return self.predicted.seconds


@lru_cache(maxsize=1024)
def choose_schedule(problem: Problem, target: CpuTarget) -> tuple[Candidate, ...]:
    """Every candidate of every route that the product may take, the fastest first."""
    found: dict[Words, Candidate] = {}
    for route in ROUTES:
        if refused(route, problem, target) is None:
            for words in _OFFERS[route](problem, target):
                found.setdefault(words, Candidate(route, words, predict(problem, words, target)))
    best = sorted(found.values(), key=lambda c: (c.seconds, len(c.words)))
    for c in best[:BEST]:
        for words in _asking(problem, c.words, target):
            best.append(Candidate(c.route, words, predict(problem, words, target)))
    return tuple(sorted(best, key=lambda c: (c.seconds, len(c.words))))


def _asking(problem: Problem, words: Words, target: CpuTarget) -> Iterator[Words]:
    """The same with lines of sums asked for."""
    if _leave(problem, row_of(problem, words, target), target):
        yield (*words, Prefetch("c"))


def refused(route: Route, problem: Problem, target: CpuTarget) -> str | None:
    """Why a route is none for a product, with the numbers; None where it is one."""
    p = problem
    few = [f"{axis} = {size}" for axis, size in (("m", p.m), ("n", p.n)) if size > TINY]
    apart = "the columns of b lie apart in memory (transposed), so vectors of it need a copy"
    narrow = [row for row in usable_rows(p.dtypes, target) if _narrow(p, row)]
    if route == "batched":
        return "there is one batch" if p.batch == 1 else None
    if p.batch > 1:
        return f"there are {p.batch} batches, each a product of its own"
    if route == "blocked":
        return None
    if route == "skinny":
        return None if narrow else f"m = {p.m} and n = {p.n} fill register tiles"
    if not any(in_place(p, row) for row in usable_rows(p.dtypes, target)):
        return apart if p.b_unit != "n" else "no instruction takes b as it lies"
    if route == "tiny":
        return f"{' and '.join(few)}: more than {TINY}" if few else None
    widest = max(WIDEST * row.shape[1] for row in usable_rows(p.dtypes, target))
    if p.n <= widest or FEW_ROWS < p.m <= ROWS_IN_PLACE:
        return None
    wide = f"n = {p.n}: more than {widest} columns of one register tile"
    many = f", and m = {p.m}: more than {ROWS_IN_PLACE} rows, which repay a copy of b"
    return wide + (many if p.m > ROWS_IN_PLACE else "")


# register tiles


def register_tiles(
    row: Intrinsic,
    target: CpuTarget,
    m: int,
    n: int,
    *,
    apart: bool = True,
) -> tuple[tuple[int, int], ...]:
    """The best (rows, columns) of results in registers, by cycles; what lies outside is counted."""
    found: list[tuple[float, int, tuple[int, int]]] = []
    for rows in range(1, MOST_ROWS + 1):
        for columns in range(1, WIDEST + 1):
            if not fits_registers(row, rows, columns, target):
                continue
            tile = rows * row.shape[0], columns * row.shape[1]
            computed = ceil(m / tile[0]) * ceil(n / tile[1])
            each = step_cycles(row, rows, columns, target, apart=apart)
            cycles = computed * each
            found.append((cycles, rows * columns, tile))
    return tuple(tile for _, _, tile in sorted(found)[:TILES])


def fits_registers(
    row: Intrinsic, rows: int, columns: int, target: CpuTarget, *, shifted: bool = False
) -> bool:
    """
    Whether the sums and one step's operands fit: of a, one at a time; where its elements are
    shifted, sums of what they are too much as well.
    """
    if row.in_tiles:
        return rows * columns + rows + columns <= TILE_REGISTERS
    beyond = columns + 1 if shifted else 0
    return rows * columns + columns + 1 + beyond <= target.num_vector_registers


# what each route offers


def _panel(problem: Problem, target: CpuTarget) -> Iterator[Words]:
    for row, tile in _tiles_in_place(problem, target):
        dealt = shares_of("m", problem.m, tile.m, problem.threads)
        for ending in _in_place_endings(problem, row, tile, target):
            yield (*dealt, *ending)


def _in_registers(problem: Problem, target: CpuTarget) -> Iterator[Words]:
    """No loop but those of register tiles, nothing copied."""
    for row, tile in _tiles_in_place(problem, target):
        yield ends_of(problem, row, tile)


def _tiles_in_place(problem: Problem, target: CpuTarget) -> Iterator[tuple[Intrinsic, Register]]:
    """Instructions that take both factors as they lie, and their register tiles."""
    for row in usable_rows(problem.dtypes, target):
        if in_place(problem, row):
            for m, n in register_tiles(row, target, problem.m, problem.n):
                yield row, Register(m, n)


def _in_place_endings(
    problem: Problem, row: Intrinsic, tile: Register, target: CpuTarget
) -> Iterator[Words]:
    """
    With lines of b asked for as well, where level 1 does not hold them all, and those on their way
    fill no more than half of the ways that they hit.
    """
    ending, apart = ends_of(problem, row, tile), problem.n * item_bytes(row)
    yield ending
    near = ceil((AHEAD + 1) / places(apart, target)) <= target.l1d_ways // 2
    far = problem.k * apart > target.l1d_bytes
    if near and far and streams_in_place(row, tile, target):
        yield (*ending, Prefetch("b", AHEAD))


def _blocked(problem: Problem, target: CpuTarget) -> Iterator[Words]:
    """Blocks of columns, of the summed axis and of rows; b packed for all, a for each worker."""
    team = problem.threads > 1
    for row, tile, depth, packed in _tiles_and_depths(problem, target):
        item = item_bytes(row)
        rows = rounded(target.l2_bytes // 4 // (depth * item), tile.m, problem.m)
        if team:
            rows = min(rows, share_of(problem.m, tile.m, problem.threads))
        pack_b = packed_panels("b", tile.n, row, problem, team=team)
        inner = (Block("m", rows, team=True),) if team else blocks_of("m", rows, problem.m)
        pack_a = (packed_panels("a", tile.m, row, problem),) if packed else ()
        most = {_l3_bytes(target) // 4 // (depth * item)}  # a block of b in level 3
        if depth < problem.k:  # or with its sums, which come again, in level 2
            most.add(target.l2_bytes // 2 // ((depth + problem.m) * item))
        else:  # or the block there
            most.add(target.l2_bytes // 4 // (depth * item))
        ends = ends_of(problem, row, tile)
        for columns in sorted({rounded(size, tile.n, problem.n) for size in most}):
            outer = (*blocks_of("n", columns, problem.n), *blocks_of("k", depth, problem.k))
            yield (*outer, pack_b, *inner, *pack_a, *ends)
            if team:  # each worker copies what it reads
                own = Block("m", share_of(problem.m, tile.m, problem.threads), team=True)
                yield (*outer, own, replace(pack_b, team=False), *pack_a, *ends)
        columns = rounded(target.l2_bytes // 2 // (depth * item), tile.n, problem.n)
        near = _near_rows(problem, rows, columns, tile, row, target)
        if near and not packed:
            outer = (*blocks_of("n", columns, problem.n), *blocks_of("k", depth, problem.k))
            yield (*outer, pack_b, replace(near, team=team), *ends)


def _near_rows(
    problem: Problem, rows: int, columns: int, tile: Register, row: Intrinsic, target: CpuTarget
) -> Block | None:
    """
    Few rows, which several panels meet before the next ones: their sums are written on and on, as
    so many streams, and what is read of a lies in level 1.
    """
    near = NEAR_ROWS // tile.m * tile.m
    several = tile.m <= near < rows and columns > tile.n
    return Block("m", near) if several and _leave(problem, row, target) else None


def _leave(problem: Problem, row: Intrinsic, target: CpuTarget) -> bool:
    """Whether sums are more than level 2 holds; tile registers load them before they multiply."""
    sums = problem.batch * problem.m * problem.n * named_dtype(row.dtypes[2]).bytes
    return sums > target.l2_bytes and not row.in_tiles


def _batched(problem: Problem, target: CpuTarget) -> Iterator[Words]:
    """Batches dealt to workers, each of which does one as if it were alone."""
    one = replace(problem, batch=1, threads=1)
    deal = Block("g", 1, team=problem.threads > 1)
    for offer in (_in_registers, _blocked) if problem.b_unit == "n" else (_blocked,):
        for words in offer(one, target):
            yield (deal, *words)


def _skinny(problem: Problem, target: CpuTarget) -> Iterator[Words]:
    """b streams once; workers take columns, or parts of the sum."""
    for row in usable_rows(problem.dtypes, target):
        if not _narrow(problem, row):
            continue
        for m, n in register_tiles(row, target, problem.m, problem.n):
            tile = Register(m, n)
            if n < problem.n and a_in_place(problem, row) and has_whole_rows(problem, row, m):
                yield from _by_columns(problem, row, tile)
            if not in_place(problem, row):
                continue
            for end in _in_place_endings(problem, row, tile, target):
                yield from _streamed(problem, row, tile, end, target)


def _streamed(
    problem: Problem, row: Intrinsic, tile: Register, end: Words, target: CpuTarget
) -> Iterator[Words]:
    """b where it lies, in shares of columns or parts of the sum."""
    m, n = tile.m, tile.n
    dealt = shares_of("n", problem.n, n, problem.threads)
    yield (*dealt, *end)
    if problem.m <= m:  # an a that is computed where it is read is so once, and b stays
        yield (*dealt, packed_panels("a", m, row, problem), *end)
    for depth in DEPTHS:
        if depth < problem.k and m < problem.m:
            yield (*dealt, Block("k", depth), *end)
    if problem.k > STREAMS:
        # sums in level 1, rows of half a page at least: workers take blocks of columns
        item, least = item_bytes(row), target.page_bytes // 2
        size = max(target.l1d_bytes // 2 // problem.m, least) // item
        columns = rounded(size, n, problem.n)
        yield (*blocks_of("n", columns, problem.n), Block("k", STREAMS), *end)
    if problem.threads > 1 and problem.k >= 2 * problem.threads:
        yield (Split("k", problem.threads), *end)


def _by_columns(problem: Problem, row: Intrinsic, tile: Register) -> Iterator[Words]:
    """One panel of columns after the other, each copied by the worker that takes it."""
    dealt = Block("n", tile.n, team=problem.threads > 1)
    pack_b = packed_panels("b", tile.n, row, problem)
    for depth in sorted({d for d in DEPTHS if row.shape[2] <= d < problem.k} | {problem.k}):
        yield (dealt, *blocks_of("k", depth, problem.k), pack_b, *ends_of(problem, row, tile))


@lru_cache(maxsize=1024)
def split_schedule(problem: Problem, words: Words, target: CpuTarget) -> Words | None:
    """
    As `words`, of a long sum whose result is small, in parts that workers take one by one; None of
    others, and where that takes one worker longer. In instructions that take one step at a time.
    The number of parts follows from sizes and caches, so bits do not depend on how many cores a
    process may use.
    """
    row, tile = row_of(problem, words, target), next(x for x in words if isinstance(x, Register))
    tiles = ceil(problem.m / tile.m) * ceil(problem.n / tile.n)
    parts = min(MOST_PARTS, problem.k // DEEP)
    sums = parts * problem.m * problem.n * named_dtype(row.dtypes[2]).bytes
    if parts < 2 or tiles >= FEW_TILES or problem.batch > 1 or row.shape[2] > 1:
        return None
    one = replace(problem, k=ceil(problem.k / parts))
    alike = [c.words for c in choose_schedule(one, target) if Via(row.name) in c.words]
    split = [(Split("k", parts), *inner) for inner in (words, *alike[:BEST])]
    seconds, found = min(
        ((predict(problem, x, target).seconds, x) for x in split), key=lambda x: x[0]
    )
    short = seconds <= SPLIT_COSTS * predict(problem, words, target).seconds
    return found if short and sums <= target.l2_bytes else None


def dynamic_schedules(problem: Problem, static: Words, target: CpuTarget) -> Iterable[Words]:
    """
    As words whose shares are of one size, sums in the same order: blocks of rows and columns, each
    copied by the worker that takes it, so that one whose core others slow down takes fewer; of a b
    that is read where it lies, blocks of rows. Those that are faster for one worker and for all
    cores, the best first, each worked out when it is asked for. None of batches, and where there
    are too few blocks.
    """
    trips = min(TURNS * target.cores, int(predict(problem, static, target).seconds / TRIP_S))
    if trips < 2 or problem.batch > 1:
        return ()
    if not any(_packs_b(w) for w in static):
        return _in_rows(problem, static, target, trips)
    row = row_of(problem, static, target)
    depth = min([problem.k, *(w.step for w in static if isinstance(w, Block) and w.axis == "k")])
    most = of_one_and_all(problem, static, target)
    offers = _ranked(problem, row, depth, target, trips)
    return (words for _, words in takewhile(lambda offer: offer[0] < most, offers))


def _in_rows(problem: Problem, static: Words, target: CpuTarget, trips: int) -> tuple[Words, ...]:
    """Where workers share rows alone and nothing is copied: blocks of rows instead."""
    first, *rest = static
    if not isinstance(first, Block) or first.axis != "m" or not isinstance(rest[0], Register):
        return ()
    rows = share_of(problem.m, rest[0].m, trips)
    words = (Block("m", rows, team=True, dynamic=True), *rest)
    most = of_one_and_all(problem, static, target)
    return (words,) if of_one_and_all(problem, words, target) < most else ()


def _ranked(
    problem: Problem, row: Intrinsic, depth: int, target: CpuTarget, trips: int
) -> Iterator[tuple[float, Words]]:
    """The schedules of one row and depth, which many static ones share, the best first."""
    ranked = best_first(_offers(problem, row, depth, target, trips), problem, target)
    if not _leave(problem, row, target):
        yield from ranked
        return
    best = list(islice(ranked, BEST))
    found = [x for _, words in best for x in _asking(problem, words, target)]
    asking = sorted(((of_one_and_all(problem, x, target), x) for x in found), key=lambda x: x[0])
    yield from merge(chain(best, ranked), asking, key=lambda x: x[0])


@lru_cache(maxsize=1024)
def _offers(
    problem: Problem, row: Intrinsic, depth: int, target: CpuTarget, trips: int
) -> tuple[tuple[float, Words], ...]:
    """Each with what it takes at least."""
    offers = _dynamic(problem, row, depth, target, trips)
    return tuple((least_seconds(problem, words, target), words) for words in offers)


def _dynamic(
    problem: Problem, row: Intrinsic, depth: int, target: CpuTarget, trips: int
) -> Iterator[Words]:
    for tile, packed in _tiles(problem, row, target):
        pack_a = packed_panels("a", tile.m, row, problem)
        copy_a: Words = (pack_a,) if packed else ()
        copies: list[tuple[Words, Words]] = [((), copy_a)]  # of a, before all loops and in them
        # stored group by group once, where that stays in level 3
        once = row.group > 1 and problem.m * problem.k * item_bytes(row) <= _l3_bytes(target) // 4
        if packed and not row.in_tiles and (problem.a_unit != "k" or once):
            copies.append(((replace(pack_a, team=True),), ()))
        most = max(1, target.l2_bytes // 4 // (depth * item_bytes(row)) // tile.n) * tile.n
        for parts in range(1, min(trips, ceil(problem.m / tile.m)) + 1):
            rows = share_of(problem.m, tile.m, parts)
            columns = share_of(problem.n, tile.n, ceil(trips / parts))
            if ceil(problem.m / rows) * ceil(problem.n / columns) < trips:
                continue
            trip_m = blocks_of("m", rows, problem.m, dynamic=True)
            blocks = (*blocks_of("n", columns, problem.n, dynamic=True), *trip_m)
            near = (*blocks_of("n", min(columns, most), problem.n, dynamic=True), *trip_m)
            depths, ends = blocks_of("k", depth, problem.k), ends_of(problem, row, tile)
            pack_b = packed_panels("b", tile.n, row, problem)
            few = _near_rows(problem, rows, columns, tile, row, target)
            size = max(1, target.l2_bytes // 2 // (depth * item_bytes(row)) // tile.n) * tile.n
            wide = (*blocks_of("n", min(columns, size), problem.n, dynamic=True), *trip_m)
            for first, own in copies:
                yield (*first, *near, *depths, pack_b, *own, *ends)
                if few and not own:
                    yield (*first, *wide, *depths, pack_b, few, *ends)
            if row.in_tiles and copy_a and blocks and not depths:  # of vectors it gains nothing
                yield (replace(pack_b, team=True), *blocks, *copy_a, *ends)


def _packs_b(word: Word) -> bool:
    return isinstance(word, Pack) and word.operand == "b"


_OFFERS = {
    "tiny": _in_registers, "panel": _panel, "blocked": _blocked, "skinny": _skinny,
    "batched": _batched,
}  # fmt: skip


# words


def _tiles_and_depths(
    problem: Problem, target: CpuTarget
) -> Iterator[tuple[Intrinsic, Register, int, bool]]:
    """Instruction, register tile, block of the summed axis, and whether a is packed."""
    for row in usable_rows(problem.dtypes, target):
        for tile, packed in _tiles(problem, row, target):
            fitting = (
                target.l1d_bytes // (tile.n * item_bytes(row)) // 64 * 64
            )  # a panel in level 1
            depths = {d for d in (*DEPTHS, fitting) if row.shape[2] <= d < problem.k}
            whole = (
                tile.n * problem.k * item_bytes(row) <= target.l2_bytes // 4
            )  # a panel in level 2
            depths.add(problem.k if whole else min(problem.k, 1024))
            if packed and WHOLE_ROWS * problem.k * item_bytes(row) <= target.l2_bytes // 4:
                depths.add(problem.k)
            for depth in sorted(depths):
                yield row, tile, depth, packed


def _tiles(problem: Problem, row: Intrinsic, target: CpuTarget) -> Iterator[tuple[Register, bool]]:
    """Register tiles of a product whose b is packed, and whether a is."""
    for packed in (False, True) if a_in_place(problem, row) else (True,):
        for m, n in register_tiles(row, target, problem.m, problem.n, apart=not packed):
            if packed or has_whole_rows(problem, row, m):
                yield Register(m, n), packed


def _l3_bytes(target: CpuTarget) -> int:
    return target.l3_bytes or 4 * target.l2_bytes


def _narrow(problem: Problem, row: Intrinsic) -> bool:
    """Whether b is read for so few rows that a copy of it hardly pays, or is less than a vector."""
    return problem.m <= FEW_ROWS or problem.n < row.shape[1]
