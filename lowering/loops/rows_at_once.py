"""Reductions along rows, several rows at a time, whose lanes are combined in one tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.kernel import vector_loop

if TYPE_CHECKING:
    from mlc.lowering.loops.reduce import ReductionNest


class RowsAtOnce:
    """
    `rows` neighbours along a group of kept axes. Each takes its summands as it would alone, so that
    bits do not depend on which rows are neighbours; what all rows read is loaded once.
    """

    def __init__(self, nest: ReductionNest, group: int) -> None:
        self.nest, self.b, self.group = nest, nest.b, group
        self.rows = nest.s.schedule.rows

    def write(
        self, fixed: dict[int, Position], low: Index, high: Index, alone: Callable[[Index], None]
    ) -> None:
        """Rows [low, high); `alone` writes one of those that are left."""
        b, s = self.b, self.nest.s
        whole = b.add(low, b.mul(b.div(b.sub(high, low), self.rows), self.rows))
        together = partial(self._together, fixed)
        b.loop(low, whole, self.rows, lambda i: s.unless_cancelled(partial(together, i)))
        b.loop(whole, high, 1, alone)

    def _together(self, fixed: dict[int, Position], i: Index) -> None:
        nest, lanes, copies = self.nest, self.nest.lanes, self.nest.copies
        ats = [{**fixed, self.group: Position(self.b.add(i, r))} for r in range(self.rows)]
        found = self._walk(0, nest.order(), ats, nest.identity(lanes, self.rows * copies))
        e = nest.s.lanes(lanes)
        vectors = [
            nest.fold_sets(e, [(x,) for x in found[row :: self.rows]])[0]
            for row in range(self.rows)
        ]
        at = {**fixed, self.group: Position(i, 1)}
        here = [at[g] for g in nest.kept]
        nest.finish(nest.s.lanes(self.rows), here, (self._lanes_of(vectors),))

    def _walk(
        self,
        k: int,
        order: Sequence[int],
        ats: Sequence[dict[int, Position]],
        carried: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        """The states with all positions of the reduced groups from the k-th on combined in."""
        nest, group = self.nest, order[k]
        size = nest.axes.sizes[group]
        if k < len(order) - 1:

            def trip(i: Index, *c: SSAValue) -> Sequence[SSAValue]:
                return self._walk(k + 1, order, [{**at, group: Position(i)} for at in ats], c)

            return self.b.loop(0, size, 1, trip, carried)

        def body(i: Index, mask: SSAValue | None, c: tuple[SSAValue, ...]) -> Sequence[SSAValue]:
            found: list[SSAValue] = []
            for at, state in zip(ats, c, strict=True):
                here = {**at, group: Position(i, 1)}
                e = nest.s.lanes(nest.lanes, mask)
                found += nest.step(e, [here[g] for g in range(len(nest.axes.groups))], (state,))
            return found

        return vector_loop(
            nest.s, 0, size, body, lanes=nest.lanes, unroll=nest.copies, inits=list(carried)
        )

    def _lanes_of(self, vectors: Sequence[SSAValue]) -> SSAValue:
        """One lane of each vector's: halves are combined as for one alone, of all at once."""
        count, width = 1, self.nest.lanes  # rows in each vector, lanes of each row
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self._halves(x, y, 2 * count, width) for x, y in pairs]
            count, width = 2 * count, width // 2
        while width > 1:
            vectors = [self._halves(vectors[0], vectors[0], count, width)]
            width //= 2
        return vectors[0]

    def _halves(self, x: SSAValue, y: SSAValue, count: int, width: int) -> SSAValue:
        """Of `count` rows in x, then y, the lower half of each combined with the upper."""
        half, nest = width // 2, self.nest
        low = [row * width + k for row in range(count) for k in range(half)]
        parts = [self.b.shuffled(x, y, [k + shift for k in low]) for shift in (0, half)]
        e = nest.s.lanes(len(low))
        return nest.monoid.combine(e, nest.dtype, (parts[0],), (parts[1],))[0]
