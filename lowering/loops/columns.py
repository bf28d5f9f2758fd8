"""Reductions down many columns: memory is read along its rows, some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from mlc.dialects.lanes import vector_type
from mlc.dialects.tensor.monoid import State
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.kernel import vector_loop

if TYPE_CHECKING:
    from mlc.lowering.loops.reduce import ReductionNest

BLOCK_BYTES = 16384  # of the states of a block of columns: half of level 1
VECTORS = 2  # side by side in one trip


class StreamedColumns:
    """
    States of a block of columns wait in the worker's memory, while `rows` rows at a time are
    combined into them. Each column takes its summands in the order in which registers would.
    """

    def __init__(self, nest: ReductionNest) -> None:
        self.nest, self.b = nest, nest.b
        self.rows = nest.s.schedule.rows
        width = nest.lanes * VECTORS
        states = sum(dtype.bytes for dtype in nest.states)
        self.columns = max(BLOCK_BYTES // states // width, 1) * width
        size = nest.axes.sizes[nest.vector]
        if isinstance(size, int):
            self.columns = min(self.columns, -(-size // width) * width)
        self.cells = [self.b.cell(memory_type(x), self.columns) for x in nest.states]

    def write(self, fixed: dict[int, Position], low: Index, high: Index) -> None:
        """Columns [low, high)."""
        b, nest = self.b, self.nest

        def block(start: Index) -> None:
            end = b.min(b.add(start, self.columns), high)

            def begin(j: Index, _: SSAValue | None) -> None:
                self._keep(b.sub(j, start), nest.identity(nest.lanes, 1))

            def finish(j: Index, mask: SSAValue | None) -> None:
                here = {**fixed, nest.vector: Position(j, 1)}
                e = nest.s.lanes(nest.lanes, mask)
                nest.finish(e, [here[g] for g in nest.kept], self._kept(b.sub(j, start)))

            self._each(start, end, begin)
            self._down(0, fixed, start, end)
            self._each(start, end, finish)

        b.loop(low, high, self.columns, block)

    def _down(self, k: int, at: dict[int, Position], start: Index, end: Index) -> None:
        """The reduced groups from the k-th on, of the last one `rows` positions at a time."""
        b, group = self.b, self.nest.reduced[k]
        size = self.nest.axes.sizes[group]
        if k < len(self.nest.reduced) - 1:
            b.loop(0, size, 1, lambda i: self._down(k + 1, {**at, group: Position(i)}, start, end))
            return

        def some(rows: int) -> Callable[[Index], None]:
            def trip(i: Index) -> None:
                places = [Position(b.add(i, row)) for row in range(rows)]
                self._combine([{**at, group: place} for place in places], start, end)

            return trip

        whole = b.mul(b.div(size, self.rows), self.rows)
        b.loop(0, whole, self.rows, some(self.rows))
        b.loop(whole, size, 1, some(1))

    def _combine(self, rows: Sequence[dict[int, Position]], start: Index, end: Index) -> None:
        """Rows into the states of the columns [start, end)."""
        nest = self.nest

        def vector(j: Index, mask: SSAValue | None) -> None:
            place = self.b.sub(j, start)
            state = self._kept(place)
            for row in rows:
                here = {**row, nest.vector: Position(j, 1)}
                e = nest.s.lanes(nest.lanes, mask)
                state = nest.step(e, [here[g] for g in range(len(nest.axes.groups))], state)
            self._keep(place, state)

        self._each(start, end, vector)

    def _each(
        self, start: Index, end: Index, body: Callable[[Index, SSAValue | None], None]
    ) -> None:
        """`body(column, mask)` for each vector."""

        def trip(j: Index, mask: SSAValue | None, _: State) -> State:
            body(j, mask)
            return ()

        vector_loop(self.nest.s, start, end, trip, lanes=self.nest.lanes, unroll=VECTORS)

    def _kept(self, place: Index) -> State:
        """The states of a vector of columns; those past the last one are nobody's."""
        nest = self.nest
        if nest.lanes == 1:
            return tuple(self.b.load(cell, [place]) for cell in self.cells)
        kinds = [vector_type(dtype.register, nest.lanes) for dtype in nest.states]
        return tuple(
            self.b.load_vector(cell, [place], kind, None, None)
            for cell, kind in zip(self.cells, kinds, strict=True)
        )

    def _keep(self, place: Index, state: Sequence[SSAValue]) -> None:
        for value, cell in zip(state, self.cells, strict=True):
            if self.nest.lanes == 1:
                self.b.store(value, cell, [place])
            else:
                self.b.store_vector(value, cell, [place], None)
