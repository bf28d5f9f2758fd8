"""Large contractions: blocked for the caches, the rhs packed, a register tile of accumulators.

Loop order and roles of the caches: Goto & van de Geijn, ACM TOMS 34(3), 2008. The lhs is read in
place, one broadcast element per row and step; only the rhs is packed, by all threads together, one
block of `block_k` x `block_n` at a time. The epilogue is applied to the register tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from mlc.dialects import par
from mlc.dialects.analysis.matmul_axes import SMALL_CONTRACTION, ContractionRoles, contraction_roles
from mlc.dialects.lanes import vector_type
from mlc.dialects.tensor.reduce import ContractOp, Product
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import buffer_type, memory_type, static
from mlc.lowering.loops.contraction_nest import ContractionNest, Part
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.in_lanes import lower_reduction
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.packing import (
    accumulates_in_result,
    contraction_of,
    scratch_bytes,
)
from mlc.lowering.loops.turned_panels import pack_turned, turned_factor

LONG_EPILOGUE = 8
"""Ops from which an epilogue reads its sums from memory: an optimiser's update, not an activation.
Measured: docs/measurements.md, Training."""


def _epilogue_ops(op: Product) -> int:
    """How many ops of the kernel need the contraction's result."""
    found: set[Operation] = set()
    pending: list[Operation] = [op]
    while pending:
        for result in pending.pop().results:
            new = {use.operation for use in result.uses} - found
            found |= new
            pending += new
    return len(found) - 1  # the kernel's own end


Place = tuple[tuple[Position, ...], SSAValue | None]
"""A vector's point, and which of its lanes are there."""


class TiledContraction(ContractionNest):
    """The loops of one contraction by register tiles, with its rhs packed or read in place."""

    def __init__(self, s: KernelScope, op: Product, roles: ContractionRoles) -> None:
        assert s.nest is not None
        super().__init__(s.b, s.nest, s.strided, op, roles)
        self.s = s
        self.packed: SSAValue | None = s.scratch[0] if s.schedule.block_n else None
        self.rows = s.schedule.tile_m
        self.columns = s.schedule.tile_n
        self.lanes = s.schedule.lanes
        self.vectors = self.columns // self.lanes
        self.in_result = self.packed is not None and accumulates_in_result(s.kernel)
        self.waiting: SSAValue | None = None  # one tile of sums, where the epilogue is long

    @property
    def is_even(self) -> bool:
        """Whether tiles end where columns do, as is known now."""
        return isinstance(self.size.n, int) and self.size.n % self.columns == 0

    # the nest -------------------------------------------------------------------------------

    def lower(self) -> None:
        """The whole kernel."""
        b, s = self.b, self.s
        work = b.product([self.letter_sizes[c] for c in self.letter_sizes])
        s.parallel(work, self.over_tiles if self.packed is None else self.over_batches)

    def over_tiles(self, thread: Index, threads: Index) -> None:
        """The tiles of all batches in one row, shared by the threads: there is one panel each."""
        b = self.b
        self.waiting = self.tile_in_memory()
        tiles = b.ceil_div(self.size.m, self.rows)
        low, high = self.s.share(b.mul(self.extent(self.batch), tiles), thread, threads)

        def trip(t: Index) -> None:
            number = b.div(t, tiles)
            batch = self.split(self.batch, Position(number)) if self.batch else {}
            tile = b.sub(t, b.mul(number, tiles))
            self.s.unless_cancelled(partial(self.tile, batch, tile, (0, 0), (0, self.size.k)))

        b.loop(low, high, 1, trip)

    def over_batches(self, thread: Index, threads: Index) -> None:
        """
        Threads take batches, and each packs for itself; where there are too few, every thread walks
        all batches and blocks, and takes its share of each block's tiles.
        """
        b = self.b
        self.waiting = self.tile_in_memory()
        batches = b.product([self.letter_sizes[c] for c in self.batch])
        low: Index = 0
        high = batches
        if threads != 1 and self.batch:
            each = b.ceil_div(batches, threads)
            apart = b.compare("le", b.mul(b.mul(each, threads), 4), b.mul(batches, 5))
            mine = self.s.share(batches, thread, threads)
            low, high = b.choose(apart, mine[0], 0), b.choose(apart, mine[1], batches)
            self.pack_apart(b.choose(apart, thread, 0))
            thread, threads = b.choose(apart, 0, thread), b.choose(apart, 1, threads)
        by_columns = b.compare("lt", self.size.m, b.mul(threads, 2 * self.rows))

        def trip(number: Index) -> None:
            batch = self.split(self.batch, Position(number)) if self.batch else {}
            self.blocks(batch, thread, threads, by_columns)

        b.loop(low, high, 1, trip)

    def pack_apart(self, number: Index) -> None:
        """Packs into the thread's own copy of the block."""
        b, packed = self.b, self.packed
        assert packed is not None
        count = b.dim(scratch_bytes(self.s.kernel) // self.dtype.bytes)
        kind = buffer_type(memory_type(self.dtype), (static(count),))
        sizes = [] if isinstance(count, int) else [count]
        offset = b.index(b.mul(number, count))
        self.packed = b.value(par.ShiftOp.of(packed, offset, sizes, kind))

    def blocks(
        self, batch: dict[str, Position], thread: Index, threads: Index, by_columns: SSAValue | bool
    ) -> None:
        """Blocks of columns, then of the summed axis: pack together, then multiply apart."""
        b, schedule = self.b, self.s.schedule
        depth = schedule.block_k if self.in_result else self.size.k

        def column_block(j: Index) -> None:
            width = b.min(b.sub(self.size.n, j), schedule.block_n)
            b.loop(0, self.size.k, depth, lambda p: depth_block(j, width, p))

        def depth_block(j: Index, width: Index, p: Index) -> None:
            inner = b.min(b.sub(self.size.k, p), depth) if self.in_result else self.size.k
            panels = b.ceil_div(width, self.columns)
            self.s.barrier(threads)
            low, high = self.s.share(panels, thread, threads)
            b.loop(low, high, 1, partial(self.pack_panel, batch, j, p, inner))
            self.s.barrier(threads)
            self.multiply(batch, (j, panels), (p, inner), thread, threads, by_columns)

        b.loop(0, self.size.n, schedule.block_n, column_block)

    def pack_panel(
        self, batch: dict[str, Position], j: Index, p: Index, inner: Index, panel: Index
    ) -> None:
        """One panel of the rhs: for each step of the summed axis, `tile_n` columns side by side.

        Zeros past the end. Of an rhs of several parts a panel inside one reads that alone.
        """
        b = self.b
        first = b.add(j, b.mul(panel, self.columns))
        start = b.mul(b.mul(panel, self.columns), inner)
        whole = self.is_even or b.compare("le", b.add(first, self.columns), self.size.n)

        def step(masked: bool, part: Part | None, k: Index) -> None:
            for v in range(self.vectors):
                column = b.add(first, v * self.lanes)
                mask = b.mask(b.sub(self.size.n, column), self.lanes) if masked else None
                e = self.s.lanes(self.lanes, mask)
                n_at = self.split(self.n, Position(column, 1))
                at = {**batch, **n_at, **self.split(self.roles.k, Position(b.add(p, k)))}
                value = self.operand(e, self.rhs, at, part)
                if mask is not None:
                    value = e.select(mask, value, e.constant(0, self.dtype))
                target = b.add(start, b.add(b.mul(k, self.columns), v * self.lanes))
                assert self.packed is not None
                b.store_vector(value, self.packed, [target], None)

        def steps() -> None:
            source, done = turned_factor(self.s, self), 0
            if source is not None:
                assert self.packed is not None
                place, depth = (start, self.columns), (p, inner)
                done = pack_turned(self.s, self, source, self.packed, batch, first, place, depth)
            b.loop(done, inner, 1, partial(step, False, None))

        def fill(parts: Sequence[Part]) -> None:
            if not parts:
                b.when(
                    whole,
                    steps,
                    lambda: b.loop(0, inner, 1, partial(step, True, None)),
                )
                return
            _, low, high = parts[0]
            ends = b.compare("le", b.add(first, self.columns), high)
            b.when(
                b.both(b.compare("ge", first, low), ends),
                lambda: b.loop(0, inner, 1, partial(step, False, parts[0])),
                lambda: fill(parts[1:]),
            )

        fill(self.parts())

    def multiply(
        self,
        batch: dict[str, Position],
        columns: tuple[Index, Index],
        depth: tuple[Index, Index],
        thread: Index,
        threads: Index,
        by_columns: SSAValue | bool,
    ) -> None:
        """A thread's tiles of the packed block.

        Blocks of rows that stay in L2, panels, then tiles down the rows.
        """
        b, (j, panels) = self.b, columns
        tiles = b.ceil_div(self.size.m, self.rows)
        row_low, row_high = self.s.share(tiles, thread, threads)
        panel_low, panel_high = self.s.share(panels, thread, threads)
        row_low, row_high = b.choose(by_columns, 0, row_low), b.choose(by_columns, tiles, row_high)
        panel_low, panel_high = (
            b.choose(by_columns, panel_low, 0),
            b.choose(by_columns, panel_high, panels),
        )
        per_block = max(1, self.s.schedule.block_m // self.rows)

        def row_block(t: Index) -> None:
            end = b.min(b.add(t, per_block), row_high)
            b.loop(panel_low, panel_high, 1, partial(panel, t, end))

        def panel(t: Index, end: Index, q: Index) -> None:
            b.loop(t, end, 1, lambda tile: self.tile(batch, tile, (j, q), depth))

        b.loop(
            row_low, row_high, per_block, lambda t: self.s.unless_cancelled(partial(row_block, t))
        )

    # one register tile ----------------------------------------------------------------------

    def tile(
        self,
        batch: dict[str, Position],
        tile: Index,
        column: tuple[Index, Index],
        depth: tuple[Index, Index],
    ) -> None:
        """tile_m x tile_n results in registers.

        Rows past the end repeat the last one and are not written.
        """
        b, inner = self.b, depth[1]
        first_row = b.mul(tile, self.rows)
        last = b.sub(self.size.m, 1)
        rows = [b.min(b.add(first_row, r), last) for r in range(self.rows)]
        row_at = [self.split(self.roles.m, Position(row)) for row in rows]
        first_column = b.add(column[0], b.mul(column[1], self.columns))
        start = b.mul(b.mul(column[1], self.columns), inner)
        before = self.before(batch, row_at, first_column, depth)

        def step(
            k: Index, k_at: dict[str, Position], sums: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            wide = self.s.lanes(self.lanes)
            if self.packed is None:
                rhs = self.in_place({**batch, **k_at})
            else:
                base = b.add(start, b.mul(k, self.columns))
                rhs = self.from_panel(self.packed, base)
            result: list[SSAValue] = []
            for r in range(self.rows):
                narrow = self.s.lanes(1)
                scalar = self.operand(narrow, self.lhs, {**batch, **row_at[r], **k_at})
                lhs = b.splat(scalar, self.lanes)
                mine = sums[r * self.vectors : (r + 1) * self.vectors]
                result += [
                    self.multiply_add(wide, lhs, x, z) for x, z in zip(rhs, mine, strict=True)
                ]
            return result

        sums = self.along_depth(depth, step, before)
        if self.waiting is not None:
            self.write_from_memory(self.waiting, batch, first_row, first_column, depth, sums)
            return
        for r in range(self.rows):
            inside = b.compare("lt", b.add(first_row, r), self.size.m)
            mine = sums[r * self.vectors : (r + 1) * self.vectors]
            b.when(
                inside, partial(self.write_row, {**batch, **row_at[r]}, first_column, depth, mine)
            )

    def before(
        self,
        batch: dict[str, Position],
        rows: Sequence[dict[str, Position]],
        first: Index,
        depth: tuple[Index, Index],
    ) -> Sequence[SSAValue]:
        """What a tile's sums begin with: with numerics "strict" the sums of earlier blocks."""
        b = self.b
        zeros = [b.element(0, self.dtype, self.lanes)] * (self.rows * self.vectors)
        starts = b.compare("eq", depth[0], 0)
        if not self.in_result or b.numerics != "strict" or starts is True:
            return zeros

        def earlier() -> list[SSAValue]:
            found: list[SSAValue] = []
            for row in rows:
                for v in range(self.vectors):
                    point, mask = self.place({**batch, **row}, b.add(first, v * self.lanes))
                    found.append(self.s.lanes(self.lanes, mask).load(self.s.outputs[0], point))
            return found

        return earlier() if starts is False else b.pick_all(starts, lambda: zeros, earlier)

    def from_panel(self, packed: SSAValue, base: Index) -> list[SSAValue]:
        """The vectors of one row of a packed panel."""
        kind = vector_type(self.dtype.register, self.lanes)
        places = [self.b.add(base, v * self.lanes) for v in range(self.vectors)]
        return [self.b.load_vector(packed, [place], kind, None, None) for place in places]

    def in_place(self, at: dict[str, Position]) -> list[SSAValue]:
        """The vectors of one row of the rhs, where it lies."""
        found: list[SSAValue] = []
        for v in range(self.vectors):
            column = v * self.lanes
            whole = isinstance(self.size.n, int) and column + self.lanes <= self.size.n
            mask = None if whole else self.b.mask(self.b.sub(self.size.n, column), self.lanes)
            e = self.s.lanes(self.lanes, mask)
            n_at = self.split(self.n, Position(column, 1))
            found.append(self.operand(e, self.rhs, {**at, **n_at}))
        return found

    def write_row(
        self,
        at: dict[str, Position],
        first: Index,
        depth: tuple[Index, Index],
        sums: Sequence[SSAValue],
    ) -> None:
        """Writes one row of a tile, or part of one: its results, or sums that wait."""
        columns = [self.b.add(first, v * self.lanes) for v in range(len(sums))]
        places = [self.place(at, column) for column in columns]
        if not self.in_result:
            for (point, mask), total in zip(places, sums, strict=True):
                self.finish(point, mask, total)
            return
        for (point, mask), total in zip(places, self.added(places, sums, depth), strict=True):
            self.leave(point, mask, total, depth)

    def place(self, at: dict[str, Position], column: Index) -> Place:
        """Where a vector of a tile lies in the result, and which lanes of it are there."""
        mask = None  # where tiles come out even, as masked stores are slow without AVX-512
        if not self.is_even:
            mask = self.b.mask(self.b.sub(self.size.n, column), self.lanes)
        where = {**at, **self.split(self.n, Position(column, 1))}
        return tuple(where[c] for c in self.result_word), mask

    def tile_in_memory(self) -> SSAValue | None:
        """Room for a tile's sums on the thread's stack; None where the epilogue is short."""
        if _epilogue_ops(self.op) < LONG_EPILOGUE:
            return None
        kind = buffer_type(memory_type(self.dtype), (self.rows * self.columns,))
        none = DenseArrayBase.from_list(i32, [0, 0])
        return self.b.value(
            memref.AllocaOp.create(
                result_types=[kind],
                properties={"operandSegmentSizes": none, "alignment": IntegerAttr(64, i64)},
            )
        )

    def write_from_memory(
        self,
        buffer: SSAValue,
        batch: dict[str, Position],
        first_row: Index,
        first_column: Index,
        depth: tuple[Index, Index],
        sums: Sequence[SSAValue],
    ) -> None:
        """Writes a tile in loops: the code of a long epilogue stands there once."""
        b = self.b
        kind = vector_type(self.dtype.register, self.lanes)
        for k, total in enumerate(sums):
            b.store_vector(total, buffer, [k * self.lanes], None)

        def row(r: Index) -> None:
            at = {**batch, **self.split(self.roles.m, Position(b.add(first_row, r)))}

            def one(v: Index) -> None:
                place = b.mul(b.add(b.mul(r, self.vectors), v), self.lanes)
                total = b.load_vector(buffer, [place], kind, None, None)
                self.write_row(at, b.add(first_column, b.mul(v, self.lanes)), depth, [total])

            b.loop(0, self.vectors, 1, one, (), {"mlc.no_unroll": UnitAttr()})

        rows = b.min(b.sub(self.size.m, first_row), self.rows)
        b.loop(0, rows, 1, row, (), {"mlc.no_unroll": UnitAttr()})

    def added(
        self, places: Sequence[Place], sums: Sequence[SSAValue], depth: tuple[Index, Index]
    ) -> Sequence[SSAValue]:
        """The sums with what earlier blocks left."""
        b, out = self.b, self.s.outputs[0]
        add = arith.AddfOp if self.dtype.is_inexact else arith.AddiOp

        def both() -> list[SSAValue]:
            found: list[SSAValue] = []
            for (point, mask), total in zip(places, sums, strict=True):
                e = self.s.lanes(self.lanes, mask)
                found.append(e.apply(add, e.load(out, point), total))
            return found

        first = b.numerics == "strict" or b.compare("eq", depth[0], 0)
        if isinstance(first, bool):
            return sums if first else both()
        return b.pick_all(first, lambda: list(sums), both)

    def leave(
        self,
        point: tuple[Position, ...],
        mask: SSAValue | None,
        total: SSAValue,
        depth: tuple[Index, Index],
    ) -> None:
        """Stores sums for the next block; the last one applies the epilogue, where there is one."""
        b, (p, inner) = self.b, depth
        e = self.s.lanes(self.lanes, mask)
        store = partial(e.store, total, self.s.outputs[0], point)
        if list(self.s.kernel.yielded.values) == [self.op.results[0]]:
            store()
            return
        ends = b.compare("ge", b.add(p, inner), self.size.k)
        b.when(ends, partial(self.finish, point, mask, total), store)

    def finish(self, point: tuple[Position, ...], mask: SSAValue | None, total: SSAValue) -> None:
        """The epilogue and the store of one vector of results."""
        e = self.s.lanes(self.lanes, mask)
        e.bound[self.op.results[0]] = e.convert(total, self.dtype, self.op.dtype)
        self.s.store_results(e, point)


def lower_contraction(s: KernelScope) -> None:
    """A contraction kernel: packed where the schedule asks; a symbolic one decides when it runs."""
    op = contraction_of(s.kernel)
    assert op is not None
    roles = contraction_roles(op)
    if not s.schedule.tile_m or roles is None:
        lower_reduction(s)
        return
    tiled = TiledContraction(s, op, roles)
    if isinstance(op, ContractOp) and not tiled.joined(roles.k):
        lower_reduction(s)
        return
    if tiled.packed is None:
        tiled.lower()
        return
    b, size = s.b, tiled.size
    total = b.product([size.m, size.n, size.k])
    large = b.compare("ge", total, SMALL_CONTRACTION)
    if not isinstance(large, bool):
        large = b.both(large, b.compare("ge", size.m, 4))
        b.when(large, tiled.lower, partial(lower_reduction, s))
    else:
        # a contraction over nothing still writes zeros: only the unpacked path does
        b.when(b.compare("gt", size.k, 0), tiled.lower, partial(lower_reduction, s))
