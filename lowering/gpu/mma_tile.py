"""
Products that warps multiply on tensor cores (`mma.sync`): a block stages tiles of both factors in
shared memory, row by row along the summed axis, while the next ones are read into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.ir import Attribute, SSAValue

from mlc.dialects.dtypes import F32, F64
from mlc.dialects.gpu_products import (
    ACCESS_BYTES,
    MMA_F64,
    MMA_SHAPES,
    PADDING,
    STAGED,
    TURNED_PADDING,
    WARP_LANES,
    LoadMatrixOp,
    MmaOp,
    RoundTf32Op,
)
from mlc.dialects.lanes import vector_type
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tile.nest_words import Stage
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.gpu.contraction_nest import ContractionNest
from mlc.lowering.gpu.staged import lying
from mlc.lowering.gpu.tile import shares
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.kernel import KernelScope

PAIR = 2  # adjacent sums of a thread
QUAD = 4  # threads of a row


@dataclass(frozen=True)
class Side:
    """A factor: its letters, where its tile begins, and how threads walk it."""

    which: int
    word: str
    first: Index
    most: Index
    length: int  # rows of the tile, or columns
    buffer: SSAValue
    along_k: bool  # whether summed elements are adjacent, in memory and in the tile
    lanes: int  # elements of one read

    def at(self, place: Index, step: Index) -> list[Index]:
        """Indices in the tile of a row, or column, and a summed place."""
        return [place, step] if self.along_k else [step, place]


class MmaTile:
    """The work of one thread on the tile of its block."""

    def __init__(self, s: KernelScope, c: ContractionNest, cut: Stage, at: Sequence[Index]) -> None:
        assert isinstance(s.b, GpuBuilder)
        self.s, self.c, self.cut = s, c, cut
        self.b: GpuBuilder = s.b
        self.dtype = STAGED[cut.mma]
        self.sums = F64 if self.dtype is F64 else F32
        self.shape = MMA_F64 if cut.mma.endswith("m8n8k4") else MMA_SHAPES[self.dtype.name]
        *batch_at, row, column = at
        self.batch = {k: Position(i) for k, i in zip(c.batch, batch_at, strict=True)}
        self.first_row = self.b.mul(row, cut.m)
        self.first_column = self.b.mul(column, cut.n)
        b, thread = self.b, self.b.thread()
        self.thread = thread
        lane, warp = b.rem(thread, WARP_LANES), b.div(thread, WARP_LANES)
        across = cut.n // cut.columns
        self.group, self.quad = b.div(lane, QUAD), b.rem(lane, QUAD)
        self.warp_row = b.mul(b.div(warp, across), cut.rows)
        self.warp_column = b.mul(b.rem(warp, across), cut.columns)
        self.sides = (
            self._side(c.lhs, c.roles.m, self.first_row, c.size.m, cut.m),
            self._side(c.rhs, c.n, self.first_column, c.size.n, cut.n),
        )

    @property
    def slots(self) -> tuple[int, ...]:
        """Tiles of each factor that are staged at once: none of them has a number here."""
        return ()

    def _side(self, which: int, word: str, first: Index, most: Index, length: int) -> Side:
        last, along_k = self.c.last_letters(which), self.c.walks_summed(which)
        shape = (self.cut.k, length + TURNED_PADDING[self.dtype.bytes])
        if along_k:
            shape = (length, self.cut.k + PADDING[self.dtype.bytes])
        buffer = self.b.shared(memory_type(self.dtype), (*self.slots, *shape))
        walked = self.c.roles.k if along_k else word
        item = element_dtype(lying(self.c, which, self.dtype)).bytes
        size, lanes = self.c.letter_sizes[walked[-1]], ACCESS_BYTES // item
        if len(last) > 1 or last != walked[-1] or not isinstance(size, int):
            lanes = 1
        while isinstance(size, int) and size % lanes:
            lanes //= 2
        return Side(which, word, first, most, length, buffer, along_k, lanes)

    def write(self) -> None:
        """Tiles along the summed axis, then what follows."""
        trips = 0, self.c.size.k, self.cut.k
        zeros = self._zeros()
        self._finish(self.b.read_ahead(trips, zeros, self._read, self._stage, self._multiply))

    def _zeros(self) -> list[SSAValue]:
        """What the sums of this thread begin with."""
        m, n, _ = self.shape
        count = (self.cut.rows // m) * (self.cut.columns // n)
        return [self.b.element(0, self.sums, m * n // WARP_LANES)] * count

    # staging ----------------------------------------------------------------------------------

    def _shares(self, side: Side) -> list[tuple[Index, Index]]:
        """Of a factor's tile what this thread reads: summed places, and places along the other."""
        tile, threads = (self.cut.k, side.length), self.s.schedule.threads
        windows = isinstance(self.c.op, ConvOp)
        return shares(
            self.b, self.thread, threads, tile, side.lanes, along_k=side.along_k, windows=windows
        )

    def _read(self, k: Index) -> list[SSAValue]:
        """This thread's shares of both tiles from k on; zero past the edges."""
        b, found = self.b, list[SSAValue]()
        for side in self.sides:
            for step, place in self._shares(side):
                at_k, at = b.add(k, step), b.add(side.first, place)
                inside = b.both(
                    b.compare("lt", at_k, self.c.size.k), b.compare("lt", at, side.most)
                )
                read = self._elements(side, at, at_k)
                nothing = partial(b.element, 0, self.dtype, side.lanes)
                if isinstance(inside, bool):
                    found.append(read() if inside else nothing())
                else:
                    found.append(b.pick(inside, read, nothing))
        return found

    def _elements(self, side: Side, at: Index, at_k: Index) -> Callable[[], SSAValue]:
        """
        What reads adjacent elements of a factor as they are staged, prologue included. Where they
        are is computed at once: others of the same summed place share that.
        """
        step = 1 if side.lanes > 1 else 0
        e, op = self.s.lanes(side.lanes), self.c.op
        letters = {
            **self.batch,
            **self.c.split(side.word, Position(at, 0 if side.along_k else step)),
            **self.c.split(self.c.roles.k, Position(at_k, step if side.along_k else 0)),
        }
        point = op.operand_point(e, side.which, letters)
        operand, dtype = lying(self.c, side.which, self.dtype), op.dtype
        if operand is not op.operands[side.which]:
            dtype = self.dtype  # what is staged is what was converted

        def read() -> SSAValue:
            return e.convert(e.fetch(operand, point), dtype, self.dtype)

        return read

    def _stage(self, read: Sequence[SSAValue]) -> None:
        """Writes this thread's shares to shared memory, of f32 the part that is multiplied."""
        b, values = self.b, iter(read)
        for side in self.sides:
            for step, place in self._shares(side):
                value, at = next(values), side.at(place, step)
                if side.lanes == 1:
                    value = b.value(RoundTf32Op.of(value)) if self.dtype is F32 else value
                    b.store(value, side.buffer, at)
                    continue
                if self.dtype is F32:
                    parts = [b.lane(value, k) for k in range(side.lanes)]
                    value = self._vector([b.value(RoundTf32Op.of(x)) for x in parts])
                b.store_vector(value, side.buffer, at, None)

    def _vector(self, parts: Sequence[SSAValue]) -> SSAValue:
        """Elements as one vector."""
        b = self.b
        found = b.splat(parts[0], len(parts))
        for k, x in enumerate(parts[1:], 1):
            found = b.with_lane(found, k, x)
        return found

    # products ---------------------------------------------------------------------------------

    def _multiply(self, sums: Sequence[SSAValue], slot: Sequence[Index] = ()) -> list[SSAValue]:
        """All steps of the tile that is staged, in a slot where there are several."""
        cut, (m, n, depth) = self.cut, self.shape
        found = list(sums)
        for k in range(0, cut.k, depth):
            lhs = [
                self._factor(self.sides[0], self.warp_row, (u * m, m), k, slot)
                for u in range(cut.rows // m)
            ]
            rhs = [
                self._factor(self.sides[1], self.warp_column, (v * n, n), k, slot)
                for v in range(cut.columns // n)
            ]
            for u, x in enumerate(lhs):
                for v, y in enumerate(rhs):
                    number = u * len(rhs) + v
                    found[number] = self.b.value(MmaOp.of(x, y, found[number]))
        return found

    def _factor(
        self, side: Side, base: Index, span: tuple[int, int], k: int, slot: Sequence[Index]
    ) -> SSAValue:
        """A thread's part of one instruction's factor; `span`: its first row, and how many."""
        b, depth, (first, rows) = self.b, self.shape[2], span
        if self.dtype.bytes == 2:
            return self._matrices(side, b.add(base, first), rows, k, slot)
        kind: Attribute = vector_type(self.dtype.register, rows * depth // WARP_LANES)
        row = b.add(b.add(base, first), self.group)
        parts: list[SSAValue] = []
        for unit in range(rows * depth // WARP_LANES):
            down, along = (unit % 2, unit // 2) if rows == 16 else (0, unit)
            at = side.at(b.add(row, 8 * down), b.add(self.quad, k + along * QUAD))
            parts.append(b.load(side.buffer, [*slot, *at]))
        found = self._vector(parts)
        assert found.type == kind
        return found

    def _matrices(
        self, side: Side, first: Index, rows: int, k: int, slot: Sequence[Index]
    ) -> SSAValue:
        """The same of 16 bits: matrices of 8 x 8 down the rows, then along the summed axis."""
        b, count = self.b, rows // 8
        lane, number = b.rem(self.thread, 8), b.div(b.rem(self.thread, WARP_LANES), 8)
        number = b.rem(number, 2 * count)  # threads that say no place have another's
        down, along = b.rem(number, count), b.div(number, count)
        if side.along_k:
            place, step = b.add(first, b.add(b.mul(down, 8), lane)), b.add(b.mul(along, 8), k)
        else:
            place, step = b.add(first, b.mul(down, 8)), b.add(b.mul(along, 8), b.add(lane, k))
        at = [b.index(i) for i in (*slot, *side.at(place, step))]
        kind = vector_type(self.dtype.register, rows * self.shape[2] // WARP_LANES)
        return b.value(LoadMatrixOp.of(side.buffer, at, kind, turned=not side.along_k))

    # what follows -----------------------------------------------------------------------------

    def _finish(self, sums: Sequence[SSAValue]) -> None:
        """Pairs of adjacent sums, row by row."""
        b, cut, (m, n, _) = self.b, self.cut, self.shape
        across = cut.columns // n
        for number, total in enumerate(sums):
            first = b.add(b.add(self.first_row, self.warp_row), number // across * m)
            column = b.add(b.add(self.first_column, self.warp_column), number % across * n)
            column = b.add(column, b.mul(self.quad, PAIR))
            for part in range(m * n // WARP_LANES // PAIR):
                row = b.add(b.add(first, self.group), 8 * part)
                pair = self._vector([b.lane(total, PAIR * part + k) for k in range(PAIR)])
                inside = b.compare("lt", row, self.c.size.m)
                b.when(inside, partial(self._pair, row, column, pair))

    def _pair(self, row: Index, column: Index, total: SSAValue) -> None:
        b = self.b
        at = {
            **self.batch,
            **self.c.split(self.c.roles.m, Position(row)),
            **self.c.split(self.c.n, Position(column, 1)),
        }

        def store(mask: Callable[[], SSAValue] | None) -> None:
            e = self.s.lanes(PAIR, mask() if mask else None)
            e.bound[self.c.op.results[0]] = e.convert(total, self.sums, self.c.op.dtype)
            self.s.store_results(e, tuple(at[c] for c in self.c.result_word))

        def edge() -> SSAValue:
            return b.mask(b.sub(self.c.size.n, column), PAIR)

        whole, columns = b.compare("le", b.add(column, PAIR), self.c.size.n), self.c.size.n
        if isinstance(columns, int) and columns % PAIR == 0:  # a pair has both columns, or none
            b.when(whole, partial(store, None))
        else:
            b.when(whole, partial(store, None), partial(store, edge))
