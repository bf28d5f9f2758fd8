"""
Products of few results: a block's threads divide the summed elements, and add their sums in order.

```
for k:  stage both factors from k on; barrier
        part p of the threads multiplies the summed elements p, p + parts, p + 2 parts, …
sums of all parts to shared memory; barrier
each thread:  one result at a time, the sums of its parts added from the first to the last
```

So a small tile has as many threads as a large one, a product as many tiles, and what follows the
product is computed by all threads. Where that is still too few blocks, each sums a share; its tile
goes to scratch memory, and a second function adds the shares and computes what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.tile.nest_words import Stage
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.contraction_nest import ContractionNest
from mlc.lowering.gpu.tile import LANES, Tile
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.kernel import KernelScope


@dataclass(frozen=True)
class Shared:
    """The share of the summed elements that a block has: its number, and how many each has."""

    number: Index
    elements: int


class PartsTile(Tile):
    """The work of one thread, which multiplies every `parts`-th summed element."""

    def __init__(
        self,
        s: KernelScope,
        c: ContractionNest,
        cut: Stage,
        at: Sequence[Index],
        share: Shared | None = None,
    ) -> None:
        super().__init__(s, c, cut, at)
        self.share, self.at = share, at
        self.part = self.b.div(self.thread, self._alike)
        item = memory_type(c.dtype)
        self.sums = self.b.shared(item, (cut.parts, cut.m, cut.n))

    @property
    def _alike(self) -> int:
        """Threads of a part."""
        return self.s.schedule.threads // self.cut.parts

    def place(self) -> tuple[Index, Index]:
        b, across = self.b, self.cut.n // self.cut.columns
        place = b.rem(self.thread, self._alike)
        return b.div(place, across), b.rem(place, across)

    def write(self) -> None:
        b, cut = self.b, self.cut
        zero = b.element(0, self.c.dtype, LANES)
        count, depth, steps = cut.rows * cut.columns // LANES, cut.k, cut.k // cut.parts
        unrolled: dict[str, Attribute] = {"mlc.unroll": IntegerAttr(steps, i64)}
        low, high = self._range()

        def mine(number: Index, *sums: SSAValue) -> Sequence[SSAValue]:
            return self.multiply(b.add(b.mul(number, cut.parts), self.part), *sums)

        def multiply(sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return b.loop(0, steps, 1, mine, sums, unrolled)

        trips = low, high, depth
        self._put(b.read_ahead(trips, [zero] * count, self.read, self.stage, multiply))
        b.barrier()
        for first in range(0, cut.m * cut.n, self.s.schedule.threads):
            self._finish_one(b.add(self.thread, first))

    def _range(self) -> tuple[Index, Index]:
        """The summed elements of this block."""
        b, size = self.b, self.c.size.k
        if self.share is None:
            return 0, size
        low = b.mul(self.share.number, self.share.elements)
        return low, b.min(size, b.add(low, self.share.elements))

    def _put(self, sums: Sequence[SSAValue]) -> None:
        """Sums of this thread's part, where all threads read them."""
        vectors = self.cut.columns // LANES
        for r in range(self.cut.rows):
            row = self.b.add(self.rows_of(r // LANES), r % LANES)
            for v in range(vectors):
                at = [self.part, row, self.columns_of(v)]
                self.b.store_vector(sums[r * vectors + v], self.sums, at, None)

    def _finish_one(self, number: Index) -> None:
        """One result of the tile: its parts in order, then what follows."""
        b, c = self.b, self.c
        y, x = b.div(number, self.cut.n), b.rem(number, self.cut.n)
        row, column = b.add(self.first_row, y), b.add(self.first_column, x)
        inside = b.both(b.compare("lt", row, c.size.m), b.compare("lt", column, c.size.n))
        e, add = self.s.lanes(1), arith.AddfOp if c.dtype.is_inexact else arith.AddiOp
        total = b.load(self.sums, [0, y, x])
        for part in range(1, self.cut.parts):
            total = e.apply(add, total, b.load(self.sums, [part, y, x]))
        b.when(inside, partial(self._place_one, e, row, column, total))

    def _place_one(self, e: Lanes, row: Index, column: Index, total: SSAValue) -> None:
        c = self.c
        letters = {
            **self.batch,
            **c.split(c.roles.m, Position(row)),
            **c.split(c.n, Position(column)),
        }
        at = tuple(letters[x] for x in c.result_word)
        if self.share is None:
            e.bound[c.op.results[0]] = e.convert(total, c.dtype, c.op.dtype)
            self.s.store_results(e, at)
            return
        place = self.share.number
        for position, letter in zip(at, c.result_word, strict=True):
            place = self.b.add(self.b.mul(place, c.letter_sizes[letter]), position.base)
        self.b.store(total, self.s.scratch[0], [place])
