"""Contractions: a block stages tiles of both operands in shared memory, a thread keeps a tile.

The classical scheme: Volkov & Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.analysis.access import Nest
from mlc.dialects.analysis.matmul_axes import ContractionRoles
from mlc.dialects.lanes import vector_type
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tile.nest_words import Stage
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.contraction_nest import ContractionNest
from mlc.lowering.gpu.phase import device_builder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.kernel import KernelScope

LANES = 4  # elements of one access to shared memory
PADDING = 4  # elements by which rows of a staged tile are longer: fewer bank conflicts


@dataclass(frozen=True)
class TilePhase:
    """A tiled contraction with its prologue and epilogue."""

    nest: Nest
    schedule: Schedule
    strided: frozenset[int]
    op: ContractOp
    roles: ContractionRoles

    def tiles(self, c: ContractionNest) -> tuple[Index, Index, list[Index]]:
        """Tiles down the rows, along the columns, and the sizes of the batch."""
        down = c.b.ceil_div(c.size.m, self.cut.m)
        across = c.b.ceil_div(c.size.n, self.cut.n)
        return down, across, [c.letter_sizes[letter] for letter in c.batch]

    @property
    def cut(self) -> Stage:
        """What a block and a thread compute."""
        assert self.schedule.stage is not None
        return self.schedule.stage

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """One block for each tile of each batch, all along x."""
        c = ContractionNest(b, self.nest, self.strided, self.op, self.roles)
        down, across, batch = self.tiles(c)
        return Grid((b.product([*batch, down, across]), 1, 1), (self.schedule.threads, 1, 1))

    def write(self, s: KernelScope) -> None:
        """One tile."""
        c = ContractionNest(device_builder(s), self.nest, self.strided, self.op, self.roles)
        _Tile(s, c, self).write()


class _Tile:
    """The work of one thread on the tile of its block."""

    def __init__(self, s: KernelScope, c: ContractionNest, phase: TilePhase) -> None:
        assert isinstance(s.b, GpuBuilder)
        self.s, self.c, self.cut, self.threads = s, c, phase.cut, phase.threads
        self.b: GpuBuilder = s.b
        self.thread = self.b.thread()
        down, across, batch = phase.tiles(c)
        *batch_at, row, column = self.b.split(self.b.block_number(), [*batch, down, across])
        self.batch = {k: Position(i) for k, i in zip(c.batch, batch_at, strict=True)}
        self.first_row = self.b.mul(row, self.cut.m)
        self.first_column = self.b.mul(column, self.cut.n)
        depth, item = self.cut.k, memory_type(c.dtype)
        self.lhs = self.b.shared(item, (depth, self.cut.m + PADDING))
        self.rhs = self.b.shared(item, (depth, self.cut.n + PADDING))
        columns_of_threads = self.cut.n // self.cut.columns
        self.y = self.b.div(self.thread, columns_of_threads)
        self.x = self.b.rem(self.thread, columns_of_threads)

    def rows_of(self, u: int) -> Index:
        """The first of four adjacent rows of this thread, within the tile."""
        return self._spread(self.y, u, self.cut.m, self.cut.rows)

    def columns_of(self, v: int) -> Index:
        """The first of four adjacent columns of this thread, within the tile."""
        return self._spread(self.x, v, self.cut.n, self.cut.columns)

    def _spread(self, place: Index, part: int, block: int, tile: int) -> Index:
        """A thread's elements come in fours, spread evenly, so that neighbours read neighbours."""
        return self.b.add(self.b.mul(place, LANES), part * (block * LANES // tile))

    def write(self) -> None:
        """Tiles along the summed axis, then the epilogue."""
        b, cut = self.b, self.cut
        rows, vectors = cut.rows, cut.columns // LANES
        zero = b.element(0, self.c.dtype, LANES)

        count, depth = rows * vectors, cut.k
        unrolled: dict[str, Attribute] = {"mlc.unroll": IntegerAttr(depth, i64)}

        def step(k: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            sums, read = carried[:count], carried[count:]
            b.barrier()
            self.stage(read)
            b.barrier()
            ahead = self.read(b.add(k, depth))  # they come while this tile is multiplied
            return [*b.loop(0, depth, 1, self.multiply, sums, unrolled), *ahead]

        begin = [*[zero] * count, *self.read(0)]
        sums = b.loop(0, self.c.size.k, depth, step, begin)
        for r in range(rows):
            row = b.add(self.first_row, b.add(self.rows_of(r // LANES), r % LANES))
            mine = sums[r * vectors : (r + 1) * vectors]
            inside = b.compare("lt", row, self.c.size.m)
            b.when(inside, partial(self.write_row, row, mine))

    def shares(self, which: int) -> list[tuple[Index, Index]]:
        """Of an operand's tile what this thread reads: steps, and places along the other axis.

        Neighbouring threads walk the axis along which memory does.
        """
        b, cut = self.b, self.cut
        length = cut.m if which == self.c.lhs else cut.n
        along_k = self.c.words[which][-1] in self.c.roles.k
        found: list[tuple[Index, Index]] = []
        for part in range(cut.k * length // self.threads):
            number = b.add(self.thread, part * self.threads)
            by = cut.k if along_k else length
            outer, inner = b.div(number, by), b.rem(number, by)
            found.append((inner, outer) if along_k else (outer, inner))
        return found

    def read(self, k: Index) -> list[SSAValue]:
        """This thread's shares of both operands' tiles from k on; zero past the edges."""
        b, size = self.b, self.c.size
        sides = (
            (self.c.lhs, self.c.roles.m, self.first_row, size.m),
            (self.c.rhs, self.c.n, self.first_column, size.n),
        )
        found: list[SSAValue] = []
        for which, word, first, most in sides:
            for step, place in self.shares(which):
                at_k, at = b.add(k, step), b.add(first, place)
                inside = b.both(b.compare("lt", at_k, size.k), b.compare("lt", at, most))
                assert not isinstance(inside, bool)
                value = b.pick(
                    inside,
                    partial(self.element, which, word, at, at_k),
                    partial(b.element, 0, self.c.dtype, 1),
                )
                found.append(value)
        return found

    def element(self, which: int, word: str, at: Index, at_k: Index) -> SSAValue:
        """An operand's element, prologue included."""
        letters = {
            **self.batch,
            **self.c.split(word, Position(at)),
            **self.c.split(self.c.roles.k, Position(at_k)),
        }
        return self.c.operand(self.s.lanes(1), which, letters)

    def stage(self, read: Sequence[SSAValue]) -> None:
        """Writes this thread's shares to shared memory."""
        values = iter(read)
        for which, buffer in ((self.c.lhs, self.lhs), (self.c.rhs, self.rhs)):
            for step, place in self.shares(which):
                self.b.store(next(values), buffer, [step, place])

    def multiply(self, k: Index, *sums: SSAValue) -> list[SSAValue]:
        """One step of the summed axis: an outer product of this thread's rows and columns."""
        b, e, kind = self.b, self.s.lanes(LANES), vector_type(self.c.dtype.register, LANES)
        vectors = self.cut.columns // LANES
        rhs = [
            b.load_vector(self.rhs, [k, self.columns_of(v)], kind, None, None)
            for v in range(vectors)
        ]
        found: list[SSAValue] = []
        for u in range(self.cut.rows // LANES):
            lhs = b.load_vector(self.lhs, [k, self.rows_of(u)], kind, None, None)
            for r in range(LANES):
                row = b.splat(b.lane(lhs, r), LANES)
                first = (u * LANES + r) * vectors
                found += [
                    self.c.multiply_add(e, row, rhs[v], sums[first + v]) for v in range(vectors)
                ]
        return found

    def write_row(self, row: Index, sums: Sequence[SSAValue]) -> None:
        """The epilogue and the store of one row of this thread's tile."""
        b = self.b
        for v, total in enumerate(sums):
            column = b.add(self.first_column, self.columns_of(v))
            at = {
                **self.batch,
                **self.c.split(self.c.roles.m, Position(row)),
                **self.c.split(self.c.n, Position(column, 1)),
            }
            whole = b.compare("le", b.add(column, LANES), self.c.size.n)
            b.when(
                whole,
                partial(self.finish, at, column, total, False),
                partial(self.finish, at, column, total, True),
            )

    def finish(self, at: dict[str, Position], column: Index, total: SSAValue, masked: bool) -> None:
        """Four results side by side; those past the edge are neither computed from nor written."""
        mask = self.b.mask(self.b.sub(self.c.size.n, column), LANES) if masked else None
        e = self.s.lanes(LANES, mask)
        e.bound[self.c.op.results[0]] = e.convert(total, self.c.dtype, self.c.op.dtype)
        self.s.store_results(e, tuple(at[c] for c in self.c.result_word))
