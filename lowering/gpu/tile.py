"""The work of one thread on a product's tile: what it reads, multiplies and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.gpu_products import WARP_LANES
from mlc.dialects.lanes import vector_type
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tile.nest_words import Stage
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.gpu.contraction_nest import ContractionNest
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.kernel import KernelScope

LANES = 4  # elements of one access to shared memory
PADDING = 4  # elements by which rows of a staged tile are longer: fewer bank conflicts


def shares(
    b: GpuBuilder,
    thread: Index,
    threads: int,
    tile: tuple[int, int],
    lanes: int = 1,
    *,
    along_k: bool,
    windows: bool,
) -> list[tuple[Index, Index]]:
    """
    Of a tile of so many summed elements and places along the other axis, what a thread reads of
    each. Neighbours walk as memory does; single elements of windows that lie along the other axis
    are of few summed places for each thread, since these are divided by the letters' sizes.
    """
    depth, length = tile
    walked, warps = (depth if along_k else length) // lanes, threads // WARP_LANES
    single = windows and lanes == 1 and not along_k
    if single and walked % WARP_LANES == depth % warps == 0:
        warp, lane = b.div(thread, WARP_LANES), b.rem(thread, WARP_LANES)
        places = [b.add(lane, at) for at in range(0, walked, WARP_LANES)]
        return [(b.add(warp, at), x) for at in range(0, depth, warps) for x in places]
    found: list[tuple[Index, Index]] = []
    for part in range(depth * length // lanes // threads):
        outer, inner = _place(b, thread, part * threads, walked, threads)
        inner = b.mul(inner, lanes)
        found.append((inner, outer) if along_k else (outer, inner))
    return found


def _place(
    b: GpuBuilder, thread: Index, first: int, walked: int, threads: int
) -> tuple[Index, Index]:
    """
    Row and column of place `first + thread`, of rows of so many. A number that each thread adds is
    added last where that is exact: places that differ by it have one address, in one register.
    """
    if threads % walked == 0:
        return b.add(b.div(thread, walked), first // walked), b.rem(thread, walked)
    if walked % threads == 0:
        return first // walked, b.add(thread, first % walked)
    number = b.add(thread, first)
    return b.div(number, walked), b.rem(number, walked)


class Tile:
    """The work of one thread on the tile of its block."""

    def __init__(self, s: KernelScope, c: ContractionNest, cut: Stage, at: Sequence[Index]) -> None:
        assert isinstance(s.b, GpuBuilder)
        self.s, self.c, self.cut = s, c, cut
        self.b: GpuBuilder = s.b
        self.thread = self.b.thread()
        *batch_at, row, column = at
        self.batch = {k: Position(i) for k, i in zip(c.batch, batch_at, strict=True)}
        self.first_row = self.b.mul(row, self.cut.m)
        self.first_column = self.b.mul(column, self.cut.n)
        depth, item = self.cut.k, memory_type(c.dtype)
        places = self.places
        self.lhs = self.b.shared(item, (*places, depth, self.cut.m + PADDING))
        self.rhs = self.b.shared(item, (*places, depth, self.cut.n + PADDING))
        self.y, self.x = self.place()

    @property
    def places(self) -> tuple[int, ...]:
        """Tiles of each factor that are staged at once: none of them has a number here."""
        return ()

    def place(self) -> tuple[Index, Index]:
        """This thread's place among those down and across the tile."""
        across = self.cut.n // self.cut.columns
        return self.b.div(self.thread, across), self.b.rem(self.thread, across)

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
        zero = b.element(0, self.c.dtype, LANES)
        count, depth = cut.rows * cut.columns // LANES, cut.k
        unrolled: dict[str, Attribute] = {"mlc.unroll": IntegerAttr(depth, i64)}

        def multiply(sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return b.loop(0, depth, 1, self.multiply, sums, unrolled)

        trips = 0, self.c.size.k, depth
        self.finish_rows(b.read_ahead(trips, [zero] * count, self.read, self.stage, multiply))

    def finish_rows(self, sums: Sequence[SSAValue]) -> None:
        """What follows the product, row by row."""
        b, rows, vectors = self.b, self.cut.rows, self.cut.columns // LANES
        for r in range(rows):
            row = b.add(self.first_row, b.add(self.rows_of(r // LANES), r % LANES))
            mine = sums[r * vectors : (r + 1) * vectors]
            inside = b.compare("lt", row, self.c.size.m)
            b.when(inside, partial(self.write_row, row, mine))

    def shares(self, which: int) -> list[tuple[Index, Index]]:
        """Of an operand's tile what this thread reads: steps, and places along the other axis.

        Neighbouring threads walk the axis along which memory does.
        """
        cut = self.cut
        length = cut.m if which == self.c.lhs else cut.n
        along_k = self.c.words[which][-1] in self.c.roles.k
        tile, threads = (cut.k, length), self.s.schedule.threads
        windows = isinstance(self.c.op, ConvOp)
        return shares(self.b, self.thread, threads, tile, along_k=along_k, windows=windows)

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
                    self.element(which, word, at, at_k),
                    partial(b.element, 0, self.c.dtype, 1),
                )
                found.append(value)
        return found

    def element(self, which: int, word: str, at: Index, at_k: Index) -> Callable[[], SSAValue]:
        """
        What reads an operand's element, prologue included. Where it is is computed at once: others
        of the same summed place share that.
        """
        e, c = self.s.lanes(1), self.c
        letters = {
            **self.batch,
            **c.split(word, Position(at)),
            **c.split(c.roles.k, Position(at_k)),
        }
        point = c.op.operand_point(e, which, letters)

        def read() -> SSAValue:
            return e.convert(e.fetch(c.op.operands[which], point), c.op.dtype, c.dtype)

        return read

    def stage(self, read: Sequence[SSAValue]) -> None:
        """Writes this thread's shares to shared memory."""
        values = iter(read)
        for which, buffer in ((self.c.lhs, self.lhs), (self.c.rhs, self.rhs)):
            for step, place in self.shares(which):
                self.b.store(next(values), buffer, [step, place])

    def multiply(self, k: Index, *sums: SSAValue, place: Sequence[Index] = ()) -> list[SSAValue]:
        """
        One step of the summed axis: an outer product of this thread's rows and columns. `place`:
        of the tiles that are staged the one that is multiplied.
        """
        b, e, kind = self.b, self.s.lanes(LANES), vector_type(self.c.dtype.register, LANES)
        vectors = self.cut.columns // LANES
        rhs = [
            b.load_vector(self.rhs, [*place, k, self.columns_of(v)], kind, None, None)
            for v in range(vectors)
        ]
        found: list[SSAValue] = []
        for u in range(self.cut.rows // LANES):
            lhs = b.load_vector(self.lhs, [*place, k, self.rows_of(u)], kind, None, None)
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
            whole, columns = b.compare("le", b.add(column, LANES), self.c.size.n), self.c.size.n
            inside = partial(self.finish, at, column, total, False)
            if isinstance(columns, int) and columns % LANES == 0:  # all four are there, or none
                b.when(whole, inside)
            else:
                b.when(whole, inside, partial(self.finish, at, column, total, True))

    def finish(self, at: dict[str, Position], column: Index, total: SSAValue, masked: bool) -> None:
        """Four results side by side; those past the edge are neither computed from nor written."""
        mask = self.b.mask(self.b.sub(self.c.size.n, column), LANES) if masked else None
        e = self.s.lanes(LANES, mask)
        e.bound[self.c.op.results[0]] = e.convert(total, self.c.dtype, self.c.op.dtype)
        self.s.store_results(e, tuple(at[c] for c in self.c.result_word))
