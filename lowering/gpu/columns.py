"""Reductions of columns: threads run along the result's last axis, several rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import Nest
from mlc.dialects.dims import Dim, product
from mlc.dialects.lanes import vector_type
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.monoid import State
from mlc.dialects.tile.nest_words import Threads, Vector
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import MAX_GRID_Y, Grid
from mlc.lowering.gpu.cell import walk, walk_grid
from mlc.lowering.gpu.phase import Work
from mlc.lowering.gpu.reduce import BlockReduction, kept_groups
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import NOT_UNROLLED, LoopBuilder, item_bytes, memory_type
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import Axes, KernelScope, axes_of

COLUMNS = 32  # threads of a block side by side: a warp
FOLD_THREADS = 64
FOLD_BYTES = 16  # that a thread reads of each share
FOLD_AHEAD = 16  # shares that it reads at once
"""Shares wait for nothing but memory: many blocks, each with many reads that are on their way."""


@dataclass(frozen=True)
class ColumnPhase:
    """
    A block's rows of threads share its columns. `schedule.share`: of the first reduced group so
    much is one block's; each block then leaves its state in the scratch, for `ColumnFoldPhase`.
    """

    nest: Nest
    schedule: Schedule
    strided: frozenset[int]

    @property
    def height(self) -> int:
        """Threads that share a column."""
        return self.schedule.threads // COLUMNS

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def others(self, axes: Axes) -> list[int]:
        """The result's groups without the last one."""
        vector = axes.of_axis(self.schedule.vector_axis)
        return [k for k in kept_groups(self.nest, axes) if k != vector]

    def grid(self, b: LoopBuilder) -> Grid:
        """x along the columns, y along the result's other axes, z along the shares of the rows."""
        axes = axes_of(b, self.nest, self.strided)
        columns = axes.sizes[axes.of_axis(self.schedule.vector_axis)]
        rows = b.product([axes.sizes[k] for k in self.others(axes)])
        blocks = b.ceil_div(columns, COLUMNS * self.schedule.lanes)
        shares = shares_of(self.nest, self.schedule)
        return Grid((blocks, b.min(rows, MAX_GRID_Y), shares), (COLUMNS, self.height, 1))

    def write(self, s: KernelScope) -> None:
        """The columns of this thread; threads past the end repeat the last ones."""
        _Columns(s, self).write()


class _LaneReduction(BlockReduction):
    """States of several columns at once."""

    def put(self, state: State, memory: Sequence[SSAValue], at: Sequence[Index]) -> None:
        """Writes a state of all lanes."""
        for value, dtype, cell in zip(state, self.states, memory, strict=True):
            if self.lanes == 1:
                self.b.store(self.to_memory(value, dtype), cell, at)
            else:
                self.b.store_vector(value, cell, at, None)

    def take(self, memory: Sequence[SSAValue], at: Sequence[Index], lanes: int) -> State:
        """Reads one of `lanes`."""
        found: list[SSAValue] = []
        for dtype, cell in zip(self.states, memory, strict=True):
            if lanes == 1:
                found.append(self.from_memory(self.b.load(cell, at), dtype))
            else:
                kind = vector_type(memory_type(dtype), lanes)
                found.append(self.b.load_vector(cell, at, kind, None, None))
        return tuple(found)


class _Columns(_LaneReduction):
    """The work of one thread of a block."""

    def __init__(self, s: KernelScope, phase: ColumnPhase) -> None:
        super().__init__(s)
        self.phase = phase
        self.others = phase.others(self.axes)
        self.x, self.y = self.builder.thread(), self.builder.thread("y")
        self.shares = shares_of(phase.nest, phase.schedule)

    def write(self) -> None:
        """One point of the result's other axes after the other."""
        b, lanes = self.builder, self.lanes
        columns = self.axes.sizes[self.vector]
        column = b.mul(b.add(b.mul(b.block_number(), COLUMNS), self.x), lanes)
        at_column = {self.vector: Position(b.min(column, b.sub(columns, lanes)), 1)}
        shape = (self.phase.height, COLUMNS * lanes)
        cells = [b.shared(memory_type(dtype), shape) for dtype in self.states]
        sizes = [self.axes.sizes[k] for k in self.others]

        def row(number: Index) -> None:
            at = dict(zip(self.others, map(Position, b.split(number, sizes)), strict=True))
            at |= at_column
            self.put(self.column(at), cells, [self.y, b.mul(self.x, lanes)])
            b.barrier()
            mine = b.both(b.compare("eq", self.y, 0), b.compare("lt", column, columns))
            b.when(mine, lambda: self.leave(at, cells, number))
            b.barrier()

        b.loop(b.block_number("y"), b.product(sizes), b.grid_size("y"), row)

    def column(self, fixed: dict[int, Position]) -> State:
        """What this thread's rows combine to: `unroll` states, a block's height apart."""
        b, height = self.builder, self.phase.height
        low, high = self.share()
        unroll = self.unroll if len(self.reduced) == 1 else 1
        states = len(self.states)

        def trip(count: int, i: Index, *carried: SSAValue) -> list[SSAValue]:
            found: list[SSAValue] = []
            for u in range(count):
                at = {**fixed, self.reduced[0]: Position(b.add(i, height * u))}
                found += self.inner(1, at, carried[u * states : (u + 1) * states])
            return found

        wide = self.identity(self.lanes, unroll)
        first, done = b.add(low, self.y), low
        if unroll > 1:
            step = height * unroll
            done = b.add(low, b.mul(b.div(b.sub(high, low), step), step))
            wide = list(b.loop(first, b.add(done, self.y), step, partial(trip, unroll), wide))
            first = b.add(done, self.y)
        one = b.loop(first, high, height, partial(trip, 1), wide[:states])
        sets = [tuple(one), *(tuple(wide[u * states : (u + 1) * states]) for u in range(1, unroll))]
        return self.fold_sets(self.s.lanes(self.lanes), sets)

    def share(self) -> tuple[Index, Index]:
        """The part of the first reduced group that is this block's."""
        b, extent = self.builder, self.axes.sizes[self.reduced[0]] if self.reduced else 1
        if self.shares == 1:
            return 0, extent
        low = b.mul(b.block_number("z"), self.phase.schedule.share)
        return low, b.min(b.add(low, self.phase.schedule.share), extent)

    def inner(self, k: int, at: dict[int, Position], carried: Sequence[SSAValue]) -> list[SSAValue]:
        """The other reduced groups, from the k-th on."""
        if k >= len(self.reduced):
            points = [at[g] for g in range(len(self.axes.groups))]
            return list(self.step(self.s.lanes(self.lanes), points, tuple(carried)))
        group = self.reduced[k]

        def trip(i: Index, *c: SSAValue) -> Sequence[SSAValue]:
            return self.inner(k + 1, {**at, group: Position(i)}, c)

        return list(self.b.loop(0, self.axes.sizes[group], 1, trip, carried))

    def leave(self, at: dict[int, Position], cells: Sequence[SSAValue], number: Index) -> None:
        """The rows of threads combined: a result, or a share of it in the scratch."""
        b = self.builder
        x = b.mul(self.x, self.lanes)

        def step(i: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            found = self.take(cells, [i, x], self.lanes)
            return self.monoid.combine(self.s.lanes(self.lanes), self.dtype, tuple(carried), found)

        state = tuple(b.loop(0, self.phase.height, 1, step, self.identity(self.lanes, 1)))
        if self.shares == 1:
            self.finish(self.s.lanes(self.lanes), [at[k] for k in self.kept], state)
            return
        columns, rows = (
            self.axes.sizes[self.vector],
            b.product([self.axes.sizes[k] for k in self.others]),
        )
        row = b.add(b.mul(b.block_number("z"), rows), number)
        self.put(state, self.s.scratch, [b.add(b.mul(row, columns), at[self.vector].base)])


@dataclass(frozen=True)
class ColumnFoldPhase:
    """The shares of all blocks, combined in order."""

    nest: Nest
    schedule: Schedule
    strided: frozenset[int]
    shares: int

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return FOLD_THREADS

    @property
    def _walk(self) -> Schedule:
        assert self.nest.reduction is not None
        states = self.nest.reduction.combiner().state(self.nest.reduction.summand())
        widest = max(item_bytes(memory_type(dtype)) for dtype in states)
        lanes = max(1, min(self.schedule.lanes, FOLD_BYTES // widest))
        return Schedule((Vector(lanes), Threads(FOLD_THREADS)))

    def grid(self, b: LoopBuilder) -> Grid:
        """One thread per vector of results."""
        axes = axes_of(b, self.nest, self.strided)
        return walk_grid(b, [axes.sizes[k] for k in kept_groups(self.nest, axes)], self._walk)

    def write(self, s: KernelScope) -> None:
        """Each share of this thread's columns, one after the other."""
        r = _LaneReduction(s)
        b, sizes = r.builder, [r.axes.sizes[k] for k in r.kept]
        total = b.product(sizes)

        def point(lanes: int, at: list[Position]) -> None:
            place: Index = 0
            for position, size in zip(at, sizes, strict=True):
                place = b.add(b.mul(place, size), position.base)

            def take(z: Index) -> State:
                return r.take(s.scratch, [b.add(b.mul(z, total), place)], lanes)

            def several(count: int, z: Index, *carried: SSAValue) -> Sequence[SSAValue]:
                state = tuple(carried)
                for found in [take(b.add(z, n)) for n in range(count)]:
                    state = r.monoid.combine(s.lanes(lanes), r.dtype, state, found)
                return state

            whole = self.shares - self.shares % FOLD_AHEAD
            ahead = partial(several, FOLD_AHEAD)
            state = b.loop(0, whole, FOLD_AHEAD, ahead, r.identity(lanes, 1), NOT_UNROLLED)
            state = several(self.shares - whole, whole, *state)
            r.finish(s.lanes(lanes), at, tuple(state))

        walk(b, sizes, self._walk, point)


def shares_of(nest: Nest, schedule: Schedule) -> int:
    """Into how many shares the first reduced group is cut."""
    if not schedule.share:
        return 1
    groups = [g for g in nest.groups(frozenset()) if g[0] >= nest.rank]
    extent = product(nest.sizes[axis] for axis in groups[0]).constant
    assert extent is not None
    return -(-extent // schedule.share)


def column_work(nest: Nest, schedule: Schedule, strided: frozenset[int]) -> Work:
    """The phases of a reduction of columns."""
    first = ColumnPhase(nest, schedule, strided)
    shares = shares_of(nest, schedule)
    if shares == 1:
        return Work((first,))
    assert nest.reduction is not None
    states = nest.reduction.combiner().state(nest.reduction.summand())
    count = product([*nest.sizes[: nest.rank], Dim.const(shares)])
    scratch = tuple(Scratch(memory_type(dtype), count) for dtype in states)
    return Work((first, ColumnFoldPhase(nest, schedule, strided, shares)), scratch)
