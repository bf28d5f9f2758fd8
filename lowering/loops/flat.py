"""Reductions down a few columns: lanes run over the columns and on to the next row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from mlc.dialects.analysis.flat_rows import flat_vectors
from mlc.dialects.tensor.monoid import State
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import ORIGIN, Position
from mlc.lowering.loops.builder import memory_type

if TYPE_CHECKING:
    from mlc.lowering.loops.reduce import ReductionNest


class FlatColumns:
    """
    All columns of one nest. Vectors of the period, the fewest that hold whole rows, have states of
    their own; lanes of the same column are combined at the end.
    """

    def __init__(self, nest: ReductionNest, fixed: dict[int, Position], rows: int) -> None:
        self.nest, self.b, self.fixed, self.rows = nest, nest.b, fixed, rows
        self.lanes, self.vectors = nest.lanes, nest.s.schedule.flat
        width = nest.axes.sizes[nest.vector]
        assert isinstance(width, int)
        self.width = width
        self.period = flat_vectors(width, nest.lanes)

    def write(self) -> None:
        """Whole trips, then vectors of the period behind them, the last ones masked."""
        b, nest, width = self.b, self.nest, self.lanes * self.vectors
        total = b.mul(nest.axes.sizes[self.rows], self.width)
        end = b.mul(b.div(total, width), width)

        def trip(i: Index, *states: SSAValue) -> list[SSAValue]:
            return [self._step(b.add(i, u * self.lanes), None, x) for u, x in enumerate(states)]

        def rest(i: Index, *states: SSAValue) -> list[SSAValue]:
            found: list[SSAValue] = []
            for u, state in enumerate(states):
                place = b.add(i, u * self.lanes)
                found.append(self._step(place, b.mask(b.sub(total, place), self.lanes), state))
            return found

        inits = nest.identity(self.lanes, self.vectors)
        states = list(b.loop(0, end, width, trip, inits))
        sets = [[(x,) for x in states[p :: self.period]] for p in range(self.period)]
        e = nest.s.lanes(self.lanes)
        folded = [nest.fold_sets(e, same)[0] for same in sets]
        self._finish(b.loop(end, total, self.period * self.lanes, rest, folded))

    def _step(self, i: Index, mask: SSAValue | None, state: SSAValue) -> SSAValue:
        nest = self.nest
        here = {**self.fixed, self.rows: ORIGIN, nest.vector: Position(i, 1)}
        e, at = nest.s.lanes(self.lanes, mask), [here[g] for g in range(len(here))]
        if mask is None:
            return nest.step(e, at, (state,))[0]
        element = nest.op.element(e, nest.axes.point(at))
        (lifted,) = nest.monoid.lift(e, element, lambda: e.position(ORIGIN))
        (neutral,) = nest.identity(self.lanes, 1)
        return nest.monoid.combine(e, nest.dtype, (state,), (e.select(mask, lifted, neutral),))[0]

    def _finish(self, states: tuple[SSAValue, ...]) -> None:
        """Leaves the lanes in memory, from where each column takes its own, in order."""
        b, nest = self.b, self.nest
        (dtype,) = nest.states
        cell = b.cell(memory_type(dtype), self.period * self.lanes)
        for p, state in enumerate(states):
            b.store_vector(state, cell, [p * self.lanes], None)

        def column(j: Index) -> None:
            e = nest.s.lanes(1)
            own = range(0, self.period * self.lanes, self.width)
            parts: list[State] = [(b.load(cell, [b.add(j, k)]),) for k in own]
            at = [{**self.fixed, nest.vector: Position(j)}[g] for g in nest.kept]
            nest.finish(e, at, nest.fold_sets(e, parts))

        b.loop(0, self.width, 1, column)
