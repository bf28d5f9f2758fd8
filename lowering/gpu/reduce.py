"""Reductions: rows by warps or blocks, everything at once in two phases; columns: columns.py.

Threads combine their states as a fixed tree (shuffles within a warp, shared memory between warps),
so the order depends on sizes alone and results are the same bits every time (D1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import Nest
from mlc.dialects.dims import Dim, product
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.monoid import State
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.cell import walk, walk_grid
from mlc.lowering.gpu.phase import device_builder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import Axes, KernelScope, axes_of
from mlc.lowering.loops.reduce import ReductionNest

WARP = 32
MAX_BLOCKS = 512  # of the first phase of a full reduction: about four for each SM of an H200
BLOCK_THREADS = 256  # of a block that reduces several rows


class BlockReduction(ReductionNest):
    """A reduction's pieces, for the threads of a block."""

    def __init__(self, s: KernelScope) -> None:
        super().__init__(s)
        self.builder: GpuBuilder = device_builder(s)

    def thread_state(self, fixed: dict[int, Position], thread: Index, threads: Index) -> State:
        """What one of `threads` threads that share a result element combines.

        Outer reduced groups are walked by all; of the innermost each thread takes every
        `threads`-th vector, `unroll` of them at a time, and of the end every `threads`-th element.
        """
        order = [k for k in self.reduced if k != self.vector] + [self.vector]
        states = len(self.states)

        def walk(k: int, at: dict[int, Position], carried: Sequence[SSAValue]) -> list[SSAValue]:
            group = order[k]
            if k == len(order) - 1:
                return self._along(at, thread, threads, carried)

            def trip(i: Index, *c: SSAValue) -> Sequence[SSAValue]:
                return walk(k + 1, {**at, group: Position(i)}, c)

            return list(self.b.loop(0, self.axes.sizes[group], 1, trip, carried))

        copies = self.unroll if self.lanes > 1 else 1
        wide = self.identity(self.lanes, copies) if self.lanes > 1 else []
        found = walk(0, fixed, [*wide, *self.identity(1, 1)])
        single = tuple(found[len(wide) :])
        if self.lanes == 1:
            return single
        sets = [tuple(found[u * states : (u + 1) * states]) for u in range(copies)]
        folded = self.fold_lanes(self.fold_sets(self.s.lanes(self.lanes), sets), self.lanes)
        return self.monoid.combine(self.s.lanes(1), self.dtype, folded, single)

    def _along(
        self, at: dict[int, Position], thread: Index, threads: Index, carried: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """The innermost group: unrolled vectors, vectors, single elements."""
        b, states, lanes = self.b, len(self.states), self.lanes
        extent = self.axes.sizes[self.vector]
        copies = self.unroll if lanes > 1 else 1

        def step(width: int, i: Index, state: Sequence[SSAValue]) -> State:
            here = {**at, self.vector: Position(i, 1)}
            points = [here[g] for g in range(len(self.axes.groups))]
            return self.step(self.s.lanes(width), points, tuple(state))

        def vectors(count: int, first: Index, base: Index, *c: SSAValue) -> list[SSAValue]:
            found: list[SSAValue] = []
            for u in range(count):
                i = b.add(b.add(base, first), b.mul(b.mul(threads, lanes), u))
                found += step(lanes, i, c[u * states : (u + 1) * states])
            return found

        wide, single = list(carried[: len(carried) - states]), carried[len(carried) - states :]
        done: Index = 0
        if lanes > 1:
            first = b.mul(thread, lanes)
            for count in sorted({copies, 1}, reverse=True):
                width = b.mul(b.mul(threads, lanes), count)
                end = b.add(done, b.mul(b.div(b.sub(extent, done), width), width))
                used = count * states
                wide[:used] = b.loop(done, end, width, partial(vectors, count, first), wide[:used])
                done = end
        rest = b.loop(b.add(done, thread), extent, threads, lambda i, *c: step(1, i, c), single)
        return [*wide, *rest]

    def warp_state(self, state: State, width: int = WARP) -> State:
        """The combination over `width` adjacent threads (a power of two), in each of them."""
        offset = width // 2
        while offset:
            other = tuple(self.builder.shuffle("xor", x, offset) for x in state)
            state = self.monoid.combine(self.s.lanes(1), self.dtype, state, other)
            offset //= 2
        return state

    def block_state(self, state: State, threads: int) -> State:
        """The combination over `threads` in x, in each of them that is in the first warp."""
        state = self.warp_state(state, min(threads, WARP))
        if threads <= WARP:
            return state
        b, thread = self.builder, self.builder.thread()
        warps = threads // WARP
        cells = [b.shared(memory_type(dtype), (WARP,)) for dtype in self.states]
        warp = b.div(thread, WARP)
        lane = b.rem(thread, WARP)

        def put() -> None:
            for value, dtype, cell in zip(state, self.states, cells, strict=True):
                b.store(self.to_memory(value, dtype), cell, [warp])

        b.when(b.compare("eq", lane, 0), put)
        b.barrier()
        inside = b.compare("lt", lane, warps)
        at = b.min(lane, warps - 1)
        found: list[SSAValue] = []
        for dtype, cell, neutral in zip(self.states, cells, self.identity(1, 1), strict=True):
            value = self.from_memory(b.load(cell, [at]), dtype)
            assert not isinstance(inside, bool)
            found.append(self.s.lanes(1).select(inside, value, neutral))
        return self.warp_state(tuple(found))

    def write_result(
        self, fixed: dict[int, Position], state: State, wanted: SSAValue | bool = True
    ) -> None:
        """The first thread in x writes a result element."""
        first = self.b.both(wanted, self.b.compare("eq", self.builder.thread(), 0))
        at = [fixed[g] for g in self.kept]
        self.b.when(first, lambda: self.finish(self.s.lanes(1), at, state))

    def with_aligned_rows(self, body: Callable[[], None]) -> None:
        """`body`; where rows may begin at aligned places, once more for that case."""
        if len(self.axes.groups) == 1:
            body()
        else:
            self.builder.as_divisible(self.axes.sizes[self.vector], self.lanes, body)


def kept_groups(nest: Nest, axes: Axes) -> list[int]:
    return [k for k, group in enumerate(axes.groups) if group[0] < nest.rank]


@dataclass(frozen=True)
class RowPhase:
    """A block, or part of a warp, for each result element; threads run along a reduced axis."""

    nest: Nest
    schedule: Schedule
    strided: frozenset[int]

    @property
    def rows_per_block(self) -> int:
        """Result elements that a block computes."""
        return max(1, BLOCK_THREADS // self.schedule.threads) if self.nest.rank else 1

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads * self.rows_per_block

    def grid(self, b: LoopBuilder) -> Grid:
        """As many blocks as results need."""
        axes = axes_of(b, self.nest, self.strided)
        rows = b.product([axes.sizes[k] for k in kept_groups(self.nest, axes)])
        blocks = b.ceil_div(rows, self.rows_per_block)
        return Grid((blocks, 1, 1), (self.schedule.threads, self.rows_per_block, 1))

    def write(self, s: KernelScope) -> None:
        """One row of these threads; those past the end repeat the last one: all must shuffle."""
        r = BlockReduction(s)
        b, threads = r.builder, self.schedule.threads
        sizes = [r.axes.sizes[k] for k in r.kept]
        row = b.add(b.mul(b.block_number(), self.rows_per_block), b.thread("y"))
        rows = b.product(sizes)
        inside = b.compare("lt", row, rows)

        def one() -> None:
            number = b.min(row, b.sub(rows, 1))
            at = dict(zip(r.kept, map(Position, b.split(number, sizes)), strict=True))
            state = r.block_state(r.thread_state(at, b.thread(), threads), threads)
            r.write_result(at, state, inside)

        r.with_aligned_rows(one)


@dataclass(frozen=True)
class PartialPhase:
    """First phase of a full reduction: one partial state per block."""

    nest: Nest
    schedule: Schedule
    strided: frozenset[int]

    def blocks(self, b: LoopBuilder) -> Index:
        """One block for so many elements as its threads take in one go, within bounds."""
        axes = axes_of(b, self.nest, self.strided)
        total = b.product(axes.sizes)
        share = self.schedule.threads * self.schedule.lanes * self.schedule.unroll
        return b.max(b.min(b.ceil_div(total, share), MAX_BLOCKS), 1)

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """At most `MAX_BLOCKS` blocks."""
        return Grid((self.blocks(b), 1, 1), (self.schedule.threads, 1, 1))

    def write(self, s: KernelScope) -> None:
        """This block's state goes to the scratch buffers."""
        r = BlockReduction(s)
        b, threads = r.builder, self.schedule.threads
        block = b.block_number()
        fixed = dict.fromkeys(r.kept, Position(0))
        thread = b.add(b.mul(block, threads), b.thread())

        def body() -> None:
            everybody = b.mul(self.blocks(b), threads)
            state = r.block_state(r.thread_state(fixed, thread, everybody), threads)
            b.when(b.compare("eq", b.thread(), 0), lambda: put(state))

        def put(state: State) -> None:
            for value, dtype, cell in zip(state, r.states, s.scratch, strict=True):
                b.store(r.to_memory(value, dtype), cell, [block])

        r.with_aligned_rows(body)


@dataclass(frozen=True)
class FoldPhase:
    """Second phase: one block combines the partial states and writes the result."""

    first: PartialPhase

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.first.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """One block."""
        return Grid((1, 1, 1), (self.first.schedule.threads, 1, 1))

    def write(self, s: KernelScope) -> None:
        """The partial states, then the result."""
        r = BlockReduction(s)
        b, threads = r.builder, self.first.schedule.threads

        def step(i: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            found = tuple(
                r.from_memory(b.load(cell, [i]), dtype)
                for cell, dtype in zip(s.scratch, r.states, strict=True)
            )
            return r.monoid.combine(s.lanes(1), r.dtype, tuple(carried), found)

        mine = b.loop(b.thread(), self.first.blocks(b), threads, step, r.identity(1, 1))
        state = r.block_state(tuple(mine), threads)
        r.write_result(dict.fromkeys(r.kept, Position(0)), state)


def partial_scratch(nest: Nest) -> tuple[Scratch, ...]:
    """One buffer of partial states for each value of the state."""
    assert nest.reduction is not None
    states = nest.reduction.combiner().state(nest.reduction.summand())
    return tuple(Scratch(memory_type(dtype), Dim.const(MAX_BLOCKS)) for dtype in states)


def needs_two_phases(nest: Nest, schedule: Schedule) -> bool:
    """Whether one result element has more work than a block should do alone."""
    if any(size != Dim.const(1) for size in nest.sizes[: nest.rank]):
        return False
    total = product(nest.sizes).constant
    share = schedule.threads * schedule.lanes * schedule.unroll
    return total is None or total > 4 * share


@dataclass(frozen=True)
class PlainPhase:
    """A reduction over no axes: every element is a result by itself."""

    nest: Nest
    schedule: Schedule
    strided: frozenset[int]

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """One thread per vector of results."""
        return walk_grid(b, axes_of(b, self.nest, self.strided).sizes, self.schedule)

    def write(self, s: KernelScope) -> None:
        """The summand of this thread's points, combined with the neutral state."""
        r = BlockReduction(s)

        def point(lanes: int, at: list[Position]) -> None:
            e = s.lanes(lanes)
            r.finish(e, at, r.step(e, at, tuple(r.identity(lanes, 1))))

        walk(r.builder, r.axes.sizes, self.schedule, point)
