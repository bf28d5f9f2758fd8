"""
Products whose tiles come by asynchronous copies, several steps ahead of what is multiplied.

```
for k:  wait for the tile of k; barrier
        begin to copy the tile of k + (stages - 1) steps, to where that of the last step was
        multiply the tile of k
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.dtypes import F64, DType, dtype_of
from mlc.dialects.gpu_copies import CopyAsyncOp, CopyGroupOp, CopyWaitOp
from mlc.dialects.gpu_products import ACCESS_BYTES
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tile.nest_words import Stage
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.gpu.contraction_nest import ContractionNest
from mlc.lowering.gpu.tile import LANES, Tile
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import as_memref
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.kernel import KernelScope

ALONG = 8
"""Adjacent summed elements that adjacent threads copy: a sector of memory, and as many rows of a
staged tile, which lie in different banks."""
WARP = (4, 8)
"""Threads of a warp down and across a tile: so they read the fewest places."""
PAIR = 2
"""Rows that take turns along a warp: where neighbours, and neighbours of pairs, read one place, two
quarters of the warp are served at once. SOURCE: CUTLASS, RowMajorInterleaved<2>;
measured: docs/measurements.md, products of f32 on a GPU"""


def lying(c: ContractionNest, which: int, dtype: DType) -> SSAValue:
    """A factor as it lies, where it is widened from what is multiplied."""
    operand = c.op.operands[which]
    made = operand.owner
    if isinstance(made, ConvertOp) and element_dtype(made.x) is dtype:
        return made.x
    return operand


def copies(s: KernelScope, c: ContractionNest, cut: Stage, dtype: DType) -> bool:
    """
    Whether tiles can be copied as they lie: of memory, of this dtype, and whole ones; of f64, which
    warps multiply, those whose copies are whole. Of 16 bits these spill.
    """
    one, lanes = s.lanes(1), ACCESS_BYTES // dtype.bytes
    blocks = (lanes, lanes, lanes) if cut.mma and dtype is F64 else (cut.m, cut.n, cut.k)
    sizes = (c.size.m, c.size.n, c.size.k)
    if not all(isinstance(n, int) and n % by == 0 for n, by in zip(sizes, blocks, strict=True)):
        return False
    for which, across in ((c.lhs, c.roles.m), (c.rhs, c.n)):
        buffer = one.buffers.get(lying(c, which, dtype))
        if buffer is None or buffer.dtype is not dtype or buffer.strides[-1] != 1:
            return False
        if not all(isinstance(n, int) and n % lanes == 0 for n in buffer.strides[:-1]):
            return False  # copies of 16 bytes begin at multiples of them
        last = c.words[which][-1]
        if not c.joined(c.roles.k if last in c.roles.k else across):
            return False
    return True


def copy_ahead(
    b: GpuBuilder,
    end: Index,
    cut: Stage,
    zeros: Sequence[SSAValue],
    copy: Callable[[Index, Index], None],
    multiply: Callable[[Sequence[SSAValue], SSAValue], Sequence[SSAValue]],
) -> Sequence[SSAValue]:
    """The sums after all tiles: `copy` begins that of a step into a place."""
    depth, slots = cut.k, cut.slots
    for number in range(slots - 1):
        b.when(b.compare("lt", number * depth, end), partial(copy, number * depth, number))
        b.add_op(CopyGroupOp.create())

    def step(k: Index, *carried: SSAValue) -> Sequence[SSAValue]:
        *sums, here = carried
        ahead = b.choose(b.compare("eq", here, 0), slots - 1, b.sub(here, 1))  # the last step's
        b.add_op(CopyWaitOp.of(slots - 2))
        b.barrier()
        following = b.add(k, (slots - 1) * depth)
        b.when(b.compare("lt", following, end), partial(copy, following, ahead))
        b.add_op(CopyGroupOp.create())
        sums = multiply(sums, here)
        following = b.choose(b.compare("eq", here, slots - 1), 0, b.add(here, 1))
        return [*sums, b.index(following)]

    *sums, _ = b.loop(0, end, depth, step, [*zeros, b.index(0)])
    return sums


def begin_copy(
    s: KernelScope,
    c: ContractionNest,
    which: int,
    letters: dict[str, Position],
    target: tuple[SSAValue, Sequence[Index]],
    count: int,
    inside: SSAValue | None = None,
) -> None:
    """Begins to copy adjacent elements of a factor, from where these letters say, or zeros."""
    b, one = s.b, s.lanes(1)
    staged = dtype_of(as_memref(target[0].type).element_type)
    buffer = one.buffers[lying(c, which, staged)]
    point = c.op.operand_point(one, which, letters)
    bases, _ = buffer.indices(b, cast("Sequence[Position]", point))
    source = (buffer.memref, [b.index(i) for i in bases])
    b.add_op(CopyAsyncOp.of(source, (target[0], [b.index(i) for i in target[1]]), count, inside))


class StagedTile(Tile):
    """The work of one thread, which copies its share of tiles to come."""

    @property
    def places(self) -> tuple[int, ...]:
        """Tiles of each factor, by number."""
        return (self.cut.slots,)

    def place(self) -> tuple[Index, Index]:
        """In warps of 4 x 8 threads, of which neighbours have the same columns."""
        b, cut = self.b, self.cut
        down, across = cut.m // cut.rows, cut.n // cut.columns
        if down % WARP[0] or across % WARP[1]:
            return super().place()
        warps, size = across // WARP[1], WARP[0] * WARP[1]
        warp, lane = b.div(self.thread, size), b.rem(self.thread, size)
        row = b.add(b.mul(b.div(lane, PAIR * WARP[1]), PAIR), b.rem(lane, PAIR))
        column = b.rem(b.div(lane, PAIR), WARP[1])
        y = b.add(b.mul(b.div(warp, warps), WARP[0]), row)
        x = b.add(b.mul(b.rem(warp, warps), WARP[1]), column)
        return y, x

    def write(self) -> None:
        """Tiles along the summed axis, then the epilogue."""
        b, cut = self.b, self.cut
        count = cut.rows * cut.columns // LANES
        unrolled: dict[str, Attribute] = {"mlc.unroll": IntegerAttr(cut.k, i64)}

        def multiply(sums: Sequence[SSAValue], here: SSAValue) -> Sequence[SSAValue]:
            one = partial(self.multiply, place=[here])
            return b.loop(0, cut.k, 1, one, sums, unrolled)

        zeros = [b.element(0, self.c.dtype, LANES)] * count
        self.finish_rows(copy_ahead(b, self.c.size.k, cut, zeros, self.copy, multiply))

    def copy(self, k: Index, place: Index) -> None:
        """Begins to copy this thread's share of the tiles from k on."""
        b, c, cut = self.b, self.c, self.cut
        sides = (
            (c.lhs, c.roles.m, self.first_row, cut.m, self.lhs),
            (c.rhs, c.n, self.first_column, cut.n, self.rhs),
        )
        for which, word, first, length, target in sides:
            along = c.words[which][-1] in c.roles.k
            for step, other in self._shares(length, along=along):
                at = (b.add(k, step), b.add(first, other))
                self._begin(which, word, at, (target, [place, step, other]), 1 if along else LANES)

    def _begin(
        self,
        which: int,
        word: str,
        at: tuple[Index, Index],
        target: tuple[SSAValue, Sequence[Index]],
        count: int,
    ) -> None:
        letters = {
            **self.batch,
            **self.c.split(word, Position(at[1])),
            **self.c.split(self.c.roles.k, Position(at[0])),
        }
        begin_copy(self.s, self.c, which, letters, target, count)

    def _shares(self, length: int, *, along: bool) -> list[tuple[Index, Index]]:
        """Steps and places of this thread's copies: one element, or four along the other axis."""
        b, cut = self.b, self.cut
        depth, threads = cut.k, self.s.schedule.threads
        if along:
            inner, rows = b.rem(self.thread, ALONG), b.div(self.thread, ALONG)
            high = threads // ALONG
            return [
                (b.add(inner, part * ALONG), b.add(rows, at))
                for part in range(depth // ALONG)
                for at in range(0, length, high)
            ]
        wide = length // LANES
        inner, outer = b.mul(b.rem(self.thread, wide), LANES), b.div(self.thread, wide)
        return [(b.add(outer, at), inner) for at in range(0, depth, threads // wide)]
