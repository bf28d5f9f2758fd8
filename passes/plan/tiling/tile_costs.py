"""
What a tile loop costs beside its kernels one by one: by estimate, from bytes, caches and calls
(D22). Decides the sizes of tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.analysis.views import is_buffer
from mlc.dialects.dims import Shape, product, shape_of
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.dialects.tensor.reduce import ContractOp, Reduction
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import work_of_op
from mlc.passes.cost.sizes import elements_of, estimate
from mlc.passes.cost.work import ATTO, Work, clock, level_of, moved, seconds
from mlc.passes.plan.fusion.block_graph import all_readers, readers_of
from mlc.passes.plan.fusion.grouping import Grouping
from mlc.passes.plan.tiling.online_reduction import Walks
from mlc.passes.plan.tiling.skipping import Masked, masked_walk
from mlc.passes.plan.tiling.tile_groups import Group
from mlc.passes.plan.tiling.widths import type_in_loop

TILES = 32  # at least so many per kernel, where there are rows enough: for threads to share
MIN_TILE_BYTES = 16384  # below it the phases' beginnings cost more than what caches save
COLUMN_TILE_ROWS = 128  # of a tile whose columns are never stored
MASKED_COLUMNS = 128
"""In a tile that a mask may leave out: of a triangle 5/8 is left of four such tiles in a row."""
LEAST_COLUMNS = 16  # in such a tile; fewer do not repay a contraction's beginnings
LEAST_MASKED = 64
"""Rows and columns of a tile that is summed both ways and may be left out; of fewer as much is left
and takes as long. Measured: docs/measurements.md, Tile loops."""


class Price(NamedTuple):
    """
    Seconds of a loop and of its kernels one by one: of what differs, which is what they move, begin
    and compute beside what both do; or of all kernels around.
    """

    kernels: float
    loop: float
    of: str = "what differs takes"
    """As remarks say what the seconds are of."""

    @property
    def saved(self) -> float:
        """By the loop."""
        return self.kernels - self.loop


def price(
    group: Group, maps: AxisMaps, grouping: Grouping, target: CpuTarget, *, stores: bool = True
) -> Price | None:
    """
    Of a group, whose steps it sets; None where no loop can be faster, whatever it takes. `stores`:
    whether the other way of sums both ways may be kernels that store what is summed.
    """
    if group.is_both_ways:
        return _price_of_both_ways(group, maps, grouping, target, stores=stores)
    if group.column is not None:
        return _price_of_columns(group, maps, grouping, target)
    members = set(group.ops)
    homes = {op: grouping.home[op.results[0]] for op in group.ops if op.results[0] in grouping.home}
    kernels = {id(kernel) for kernel in homes.values()}
    if len(kernels) < 2:
        return None
    readers: dict[SSAValue, set[int]] = {}
    factors: set[SSAValue] = set()
    inline: set[SSAValue] = set()
    for op in group.ops:
        kernel = _kernel_of(op, homes)
        for read in maps.sources_of(op):
            if is_buffer(read.value) or read.value in grouping.home:
                readers.setdefault(read.value, set()).add(kernel)
                if isinstance(op, ContractOp):
                    factors.add(read.value)
            elif read.value.owner not in members and not maps.is_made_up(read.value):
                inline.add(read.value)
    read = written = per_row = whole = 0
    rows = estimate(product(group.rows))
    for value, reading in readers.items():
        size = estimate(bytes_of(value.type))
        owner = value.owner
        inside = isinstance(owner, TensorOp) and owner in members
        is_tiled = inside or _is_tiled(value, group, maps)
        if is_tiled:
            per_row += max(size // rows, 1)
        elif value in factors:
            whole += size  # blocks of many rows share it; other ops read it for every row anyway
        stays = inside and all(user in members for user in all_readers(value))
        read += size * (len(reading) - 1 + inside)
        written += size * stays
    for op in homes:
        if op.results[0] not in readers and not group.is_fold(op):
            per_row += max(estimate(bytes_of(op.results[0].type)) // rows, 1)
    if whole > target.l2_bytes // 2:
        return None  # each tile would read it from further away
    group.steps = choose_steps(group.rows, per_row, target)
    tiles = 1
    for extent, step in zip(group.rows, group.steps, strict=False):
        tiles *= -(-estimate(extent) // step)
    total = per_row * rows
    far, near = level_of(total, target), level_of(total // tiles, target)
    before = seconds(Work(read=moved(read, far), write=moved(written, far)), target)
    if before > target.loops.shared_s * ATTO:
        before += clock(target, 2).start * (len(kernels) - 1)
    after = Work(read=moved(read, near), write=moved(written, near), starts=tiles * len(kernels))
    # a loop cuts tiles from memory: what kernels compute where they read it is written for it
    apart = sum(estimate(bytes_of(value.type)) for value in inline)
    copied = moved(apart, level_of(2 * apart, target))
    after += Work(core=_idle_lanes(group, target), read=copied, write=copied)
    return Price(before / ATTO, seconds(after, target) / ATTO)


def _idle_lanes(group: Group, target: CpuTarget) -> int:
    """Attoseconds that vectors along the last axis of results take more, where tiles cut it."""
    found = 0
    for op in group.ops:
        last = len(op.shape) - 1
        for axis, extent, step in zip(group.axes[op], group.rows, group.steps, strict=False):
            if axis == last:
                lanes = target.lanes(8 * op.dtype.bytes)
                used, left = (min(n, lanes) for n in (estimate(extent), step))
                full = work_of_op(type(op), op.dtype, elements_of(op.iteration()), target).core
                found += full * lanes * (used - left) // (used * left)
    return found


@dataclass(frozen=True)
class _Cut:
    """How a group with columns is cut: rows and columns in a tile, and how many tiles of rows."""

    steps: tuple[int, ...]
    columns: int
    tiles: int


def _cut(
    group: Group, masked: bool, states: int, target: CpuTarget, *, streams: bool = False
) -> _Cut | None:
    """
    `states`: bytes of what is summed so far, which each trip reads and writes; `streams`: whether
    an array with rows and columns comes from beyond level 2, best as whole rows.
    """
    sizes = [estimate(size) for size in group.rows]
    assert group.column is not None
    column = estimate(group.column)
    # bytes of the largest value at one row and column: it may have further axes
    wide = (op for op in group.ops if group.is_wide(op))
    each = max((estimate(bytes_of(type_in_loop(op))) for op in wide), default=0)
    each = max(each // (math.prod(sizes) * column), 1)
    carried = max(states // math.prod(sizes), 1)
    rows = min(target.l2_bytes // (4 * LEAST_COLUMNS * each), target.l2_bytes // (2 * carried))
    rows = min(COLUMN_TILE_ROWS, max(rows, 1))
    step = _even(sizes[-1], rows)
    columns = target.l2_bytes // (4 * step * each)
    if columns < LEAST_COLUMNS:
        return None
    tiles = math.prod(sizes[:-1]) * -(-sizes[-1] // step)
    if masked:
        columns = min(columns, MASKED_COLUMNS)
    elif streams and columns < column <= target.l2_bytes // (step * each):
        columns = column
    elif 1 < tiles <= target.cores // 2 and _splits(group):
        # all rows at once, where threads then share more trips over columns
        fewer = target.l2_bytes // (4 * math.prod(sizes) * each)
        fits = fewer >= LEAST_COLUMNS and 2 * carried * math.prod(sizes) <= target.l2_bytes
        if fits and column >= fewer * max(target.cores, 2 * tiles):
            return _Cut(tuple(sizes), fewer, 1)
    return _Cut((*[1] * (len(sizes) - 1), step), columns, tiles)


def _price_of_columns(
    group: Group, maps: AxisMaps, grouping: Grouping, target: CpuTarget
) -> Price | None:
    """What storing values with rows and columns takes, and computing them where needed."""
    assert group.column is not None
    wide = [op for op in group.ops if group.is_wide(op)]
    stored = [op for op in wide if op.results[0] in grouping.home]
    if not any(estimate(bytes_of(op.results[0].type)) for op in stored):
        return None
    if not all(_dissolves(op, group, maps) for op in wide):
        return None
    found = Walks(group, maps)
    walks = found.count
    masked = {n: mask for n in range(1, walks + 1) if (mask := masked_walk(group, found.sums(n)))}
    states = sum(estimate(bytes_of(type_in_loop(op))) for op in group.ops if group.sums_columns(op))
    outside = [
        (estimate(bytes_of(x.type)), _tiled_part(x, group, maps)) for x in _outside(group, maps)
    ]
    streams = any(size > target.l2_bytes and parts > 1 for size, parts in outside)
    cut = _cut(group, bool(masked), states, target, streams=streams)
    if cut is None:
        return None
    column, tiles = estimate(group.column), cut.tiles
    trips = -(-column // cut.columns)
    members = set(group.ops)
    # whoever else reads these computes them too
    others = any(user not in members for op in wide for user in all_readers(op.results[0]))
    streamed = sum(size // max(parts, 1) for size, parts in outside)
    before = _storing(stored, target)
    once = _products([op for op in group.ops if op in wide or group.sums_columns(op)], target)
    again = _repeated(found, masked, trips, maps, target)
    if others:
        again += _running(_products(wide, target), next(iter(masked.values()), None), trips)
    before += max(once - again, 0) / ATTO
    after = Work(core=max(again - once, 0))
    after += Work(read=moved(2 * walks * tiles * streamed, level_of(streamed, target)))
    after += Work(starts=walks * tiles * trips * len(group.ops))
    summed = moved(trips * states, level_of(2 * states // tiles, target))
    after += Work(read=summed, write=summed)
    group.steps = cut.steps
    group.column_step = _even(column, cut.columns)
    return Price(before, seconds(after, target) / ATTO)


def _storing(ops: Sequence[TensorOp], target: CpuTarget) -> float:
    """Seconds that kernels take to store results, and to read them again."""
    sizes = [estimate(bytes_of(op.results[0].type)) for op in ops]
    readers = [len(set(readers_of(op.results[0]))) for op in ops]
    held = 2 * max(sizes)  # one makes the next
    far = level_of(held, target)
    read = sum(size * count for size, count in zip(sizes, readers, strict=True))
    taken = seconds(Work(read=moved(read, far), write=moved(sum(sizes), far)), target) / ATTO
    return taken * target.loops.fresh_memory_factor if held > target.l3_bytes else taken


def _price_of_both_ways(
    group: Group, maps: AxisMaps, grouping: Grouping, target: CpuTarget, *, stores: bool
) -> Price | None:
    """
    Of one loop for the sums of rows and of columns, beside the better of two: a loop for each kind,
    and kernels that store. Workers share the trips along all other axes alone.
    """
    wide = [op for op in group.ops if group.is_wide(op)]
    stored = [op for op in wide if op.results[0] in grouping.home]
    if not stored or not all(_dissolves(op, group, maps) for op in wide):
        return None
    sums = group.narrow
    masked = masked_walk(group, sums)
    states = sum(estimate(bytes_of(type_in_loop(op))) for op in sums)
    cut = _cut(group, masked is not None, states, target)
    if cut is None:
        return None

    def of(kind: Sequence[TensorOp]) -> int:
        return _of_both_ways(group, group.made_for(kind, maps), masked, maps, target)

    _set_both_ways(group, cut, masked, lambda: of(sums))
    rows, columns = ([op for op in sums if group.sums_rows(op) is x] for x in (True, False))
    one, apart = of(sums), of(rows) + of(columns)
    outer = math.prod(estimate(size) for size in group.rows[:-1])
    rounds = -(-outer // target.cores)
    # who else reads wide values computes them, where they are not stored
    others = [
        op for op in wide if any(user not in group.axes for user in all_readers(op.results[0]))
    ]
    again = _running(_arithmetic(group.made_for(others, maps), target), masked, _trips(group)[1])
    kernels = (apart + again) / ATTO
    if stores:
        kernels = min(kernels, _storing(stored, target) + _arithmetic(group.ops, target) / ATTO)
    return Price(kernels, (one * rounds * target.cores / outer + again) / ATTO)


def _set_both_ways(
    group: Group, cut: _Cut, masked: Masked | None, seconds: Callable[[], int]
) -> None:
    """Sets steps: those of a cut, or halves of them where smaller tiles are left out more often."""
    assert group.column is not None
    best: tuple[int, tuple[int, ...], int] | None = None
    rows, columns = cut.steps[-1], cut.columns
    while best is None or (masked is not None and min(rows, columns) >= LEAST_MASKED):
        group.steps = (*cut.steps[:-1], _even(estimate(group.rows[-1]), rows))
        group.column_step = _even(estimate(group.column), columns)
        found = seconds(), group.steps, group.column_step
        best = found if best is None else min(best, found)
        rows, columns = rows // 2, columns // 2
    _, group.steps, group.column_step = best


def _of_both_ways(
    group: Group,
    ops: Sequence[TensorOp],
    masked: Masked | None,
    maps: AxisMaps,
    target: CpuTarget,
) -> int:
    """Attoseconds of a loop over tiles of rows and columns that computes these of a group's ops."""
    count, columns = _trips(group)
    outer = math.prod(estimate(size) for size in group.rows[:-1])
    alone, trips = count * columns, outer * count * columns
    held = sum(estimate(bytes_of(type_in_loop(op))) for op in ops if not group.is_wide(op))
    given = sum(estimate(bytes_of(value.type)) for value in _outside(group, maps))
    each = alone * held // (columns or 1)  # a tile of rows, or of columns, in each trip
    near = level_of((held + given) // max(outer, 1), target)
    summed, read = moved(each, near), moved(each + alone * given // (columns or 1), near)
    work = Work(read=read, write=summed, starts=trips * len(ops))
    work += Work(core=_running(_arithmetic(ops, target), masked, columns))
    return seconds(work, target)


def _trips(group: Group) -> tuple[int, int]:
    """Tiles of rows, for each position on the other axes, and of columns."""
    assert group.column is not None
    rows = -(-estimate(group.rows[-1]) // group.steps[-1])
    return rows, -(-estimate(group.column) // group.column_step)


def _arithmetic(ops: Sequence[TensorOp], target: CpuTarget) -> int:
    """Attoseconds of what ops compute."""
    return sum(
        work_of_op(type(op), op.dtype, elements_of(op.iteration()), target).core
        for op in ops
        if op.FLOPS
    )


def _splits(group: Group) -> bool:
    """Whether what walks carry may be combined, all rows being in one tile of a known size."""
    known = all(n.constant is not None for n in group.rows)
    return known and not group.is_both_ways and not any(group.is_fold(op) for op in group.ops)


def _products(ops: Sequence[TensorOp], target: CpuTarget) -> int:
    """Attoseconds of the contractions among some ops."""
    return _arithmetic([op for op in ops if isinstance(op, ContractOp)], target)


def _repeated(
    walks: Walks, masked: Mapping[int, Masked], trips: int, maps: AxisMaps, target: CpuTarget
) -> int:
    """
    Attoseconds of the contractions that all walks make. Pointwise arithmetic is repeated by the
    kernels that store, too.
    """
    return sum(
        _running(_products(_computed(n, walks, maps), target), masked.get(n), trips)
        for n in range(1, walks.count + 1)
    )


def _computed(number: int, walks: Walks, maps: AxisMaps) -> list[TensorOp]:
    """What a walk over the columns computes: its sums, and the wide values that they read."""
    found = dict.fromkeys(walks.sums(number))
    pending = list(found)
    while pending:
        for read in maps.sources_of(pending.pop()):
            op = read.value.owner
            if isinstance(op, TensorOp) and op not in found and walks.group.is_wide(op):
                found[op] = None
                pending.append(op)
    return list(found)


def _running(cost: int, masked: Masked | None, trips: int) -> int:
    """What is left of a cost where trips are skipped: a mask is taken for a triangle."""
    return cost if masked is None else cost * (trips + 1) // (2 * trips)


def _dissolves(op: TensorOp, group: Group, maps: AxisMaps) -> bool:
    """Whether whoever else reads a wide value can compute it: by sums over rows, at the end."""
    members = set(group.ops)
    for user in all_readers(op.results[0]):
        if user in members:
            continue
        if isinstance(user, Reduction):
            if not any(
                read.value is op.results[0] and axis in group.axes[op]
                for read in maps.sources_of(user)
                for axis in read.axes[len(user.shape) :]
            ):
                return False
        elif not isinstance(user, Elementwise) or not _dissolves_further(user):
            return False
    return True


def _dissolves_further(user: TensorOp) -> bool:
    """Whether an elementwise reader of a wide value is itself read by reductions alone."""
    pending, seen = [user], {user}
    while pending:
        readers = set(all_readers(pending.pop().results[0]))
        if not readers:
            return False
        for reader in readers - seen:
            if isinstance(reader, Elementwise):
                seen.add(reader)
                pending.append(reader)
            elif not isinstance(reader, Reduction):
                return False
    return True


def _outside(group: Group, maps: AxisMaps) -> list[SSAValue]:
    """The values from outside that have columns."""
    members = set(group.ops)
    return list(
        dict.fromkeys(
            read.value
            for op in group.ops
            for read in maps.sources_of(op)
            if read.value.owner not in members
            and (axis := group.axes[op][-1]) is not None
            and read.axes[axis] is not None
        )
    )


def _tiled_part(value: SSAValue, group: Group, maps: AxisMaps) -> int:
    """Into how many parts tiles of rows cut a value."""
    dims = shape_of(value.type)
    for op in group.ops:
        for read in maps.sources_of(op):
            if read.value is value:
                moved = (read.axes[a] for a in group.axes[op][:-1] if a is not None)
                cut = {axis for axis in moved if axis is not None}
                return math.prod(estimate(dims[axis]) for axis in cut)
    return 1


def _even(size: int, most: int) -> int:
    """The largest step that divides a size, if there is one above half of `most`; else an even
    share."""
    most = max(min(most, size), 1)
    found = next((n for n in range(most, most // 2, -1) if size % n == 0), None)
    return found if found is not None else -(-size // -(-size // most))


def _kernel_of(op: TensorOp, homes: Mapping[TensorOp, object]) -> int:
    """The kernel that computes an op: its own, or that of whoever reads it."""
    pending: list[TensorOp] = [op]
    while pending:
        found = pending.pop()
        if found in homes:
            return id(homes[found])
        pending += itertools.islice(readers_of(found.results[0]), 1)
    return id(op)


def _is_tiled(value: SSAValue, group: Group, maps: AxisMaps) -> bool:
    """Whether a tile needs only a part of a value from outside."""
    return any(
        read.value is value
        and any(a is not None and read.axes[a] is not None for a in group.axes[op])
        for op in group.ops
        for read in maps.sources_of(op)
    )


def choose_steps(rows: Shape, row_bytes: int, target: CpuTarget) -> tuple[int, ...]:
    """
    Rows in a tile along the first row axes, so that a tile of what the phases share stays in a
    quarter of the second-level cache and there are enough tiles for threads. Row axes after the
    last step are whole.
    """
    sizes = [estimate(size) for size in rows]
    total = row_bytes
    for size in sizes:
        total *= size
    budget = min(target.l2_bytes // 4, max(total // TILES, MIN_TILE_BYTES))
    steps: list[int] = []
    for axis, size in enumerate(sizes):
        inner = row_bytes
        for other in sizes[axis + 1 :]:
            inner *= other
        if inner <= budget or axis == len(sizes) - 1:
            most = max(min(budget // max(inner, 1), size), 1)
            steps.append(_even(size, most))
            break
        steps.append(1)
    return tuple(steps)
