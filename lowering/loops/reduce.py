"""Reductions: any monoid, any axes. The vector runs along a reduced axis or the result's last one.

The order of combination depends on the sizes alone, never on the number of threads (D1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects import par
from mlc.dialects.analysis.flat_rows import flat_rows
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.monoid import Monoid, State
from mlc.dialects.tensor.order import BLOCK_ELEMENTS, BLOCKS
from mlc.dialects.tensor.reduce import Product, Reduction
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.columns import StreamedColumns
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.extreme import (
    as_index,
    extreme_state,
    first_position,
    repays_search,
    values_of,
)
from mlc.lowering.loops.few_rows import write_few_rows
from mlc.lowering.loops.flat import FlatColumns
from mlc.lowering.loops.kernel import Axes, KernelScope, axes_of, vector_loop
from mlc.lowering.loops.rows_at_once import RowsAtOnce
from mlc.lowering.loops.truth import ends_early, in_bytes, settled, walk_until_settled

HEAVY = 8.0
"""Weight of a point from which it stands once in the code behind whole blocks of columns."""


@dataclass(frozen=True)
class Fold:
    """One of the reductions of a kernel."""

    op: Reduction
    monoid: Monoid

    @property
    def dtype(self) -> DType:
        """Of what is combined."""
        return self.op.summand()

    @property
    def states(self) -> int:
        """How many values a state has."""
        return len(self.monoid.state(self.dtype))


class ReductionNest:
    """The loops of one reduction kernel."""

    WHOLE_VECTORS = False
    """Whether walks along the vector's axis take whole vectors alone."""

    def __init__(self, s: KernelScope) -> None:
        assert s.nest is not None
        assert s.nest.reduction is not None
        self.s = s
        self.b = s.b
        self.op: Reduction = s.nest.reduction
        self.dtype: DType = self.op.summand()
        self.monoid: Monoid = in_bytes(self.op.combiner(), self.dtype)
        self.states: tuple[DType, ...] = self.monoid.state(self.dtype)
        self.siblings = [Fold(x, in_bytes(x.combiner(), x.summand())) for x in s.nest.siblings]
        self.axes: Axes = axes_of(s.b, s.nest, s.strided)
        self.kept = [k for k, group in enumerate(self.axes.groups) if group[0] < s.nest.rank]
        self.reduced = [k for k in range(len(self.axes.groups)) if k not in self.kept]
        # without a vector's axis the last one: a reduced one where there is any
        axis = s.schedule.vector_axis
        self.vector = self.axes.of_axis(axis) if axis >= 0 else len(self.axes.groups) - 1
        self.lanes = s.schedule.lanes
        self.unroll = s.schedule.unroll
        self.copies = self.unroll if self.lanes > 1 else 1  # of the state, along a reduced axis
        self.in_turn: bool = s.nest.order == "in turn"
        self.streamed: StreamedColumns | None = None
        self.counted = max(s.nest.counted, default=-1) if len(self.states) > 1 else -1
        for fold in self.siblings:
            self.states += fold.monoid.state(fold.dtype)

    # pieces ---------------------------------------------------------------------------------

    @property
    def folds(self) -> Sequence[Fold]:
        """All reductions of the kernel."""
        return (Fold(self.op, self.monoid), *self.siblings)

    def identity(self, lanes: int, copies: int) -> list[SSAValue]:
        """`copies` neutral states."""
        return [x for fold in self.folds for x in self._identity(fold, lanes)] * copies

    def _identity(self, fold: Fold, lanes: int) -> list[SSAValue]:
        values = zip(fold.monoid.identity(fold.dtype), fold.monoid.state(fold.dtype), strict=True)
        return [self.b.element(value, dtype, lanes) for value, dtype in values]

    def step(self, e: Lanes, at: Sequence[Position], state: State) -> State:
        """The state with the summand at a point combined into it."""
        point = self.axes.point(at)
        found: list[SSAValue] = []
        for fold, own in self._parts(state):
            found += self._step(fold, e, point, own)
        return tuple(found)

    def _step(self, fold: Fold, e: Lanes, point: Sequence[Position], state: State) -> State:
        op, monoid = fold.op, fold.monoid
        guarded = e.mask is not None and self.vector in self.reduced
        if isinstance(op, Product) and fold.dtype.is_inexact and not guarded:
            return (e.fma(*op.factors(e, tuple(point)), state[0]),)
        element = op.element(e, tuple(point))
        is_sum = op.combiner().name == "sum" and element.type == state[0].type
        if is_sum and isinstance(element.owner, arith.MulfOp) and not guarded:
            x, y = element.owner.operands
            return (e.fma(x, y, state[0]),)  # of products, too
        lifted = monoid.lift(e, element, lambda: e.position(point[self.counted]))
        if guarded and e.mask is not None:
            neutral = self._identity(fold, e.lanes)
            lifted = tuple(e.select(e.mask, x, n) for x, n in zip(lifted, neutral, strict=True))
        return monoid.combine(e, fold.dtype, state, lifted)

    def _parts(self, state: State) -> Iterator[tuple[Fold, State]]:
        """Each reduction with its part of a state."""
        start = 0
        for fold in self.folds:
            end = start + fold.states
            yield fold, state[start:end]
            start = end

    def combine(self, e: Lanes, left: State, right: State) -> State:
        """Both states, of which `left` comes first."""
        found: list[SSAValue] = []
        for (fold, x), (_, y) in zip(self._parts(left), self._parts(right), strict=True):
            found += fold.monoid.combine(e, fold.dtype, x, y)
        return tuple(found)

    def fold_sets(self, e: Lanes, sets: Sequence[State]) -> State:
        """Independent states combined as a fixed tree."""
        while len(sets) > 1:
            paired = [self.combine(e, sets[k], sets[k + 1]) for k in range(0, len(sets) - 1, 2)]
            sets = [*paired, *sets[len(paired) * 2 :]]
        return sets[0]

    def fold_lanes(self, state: State, lanes: int) -> State:
        """The state of all lanes: halves are combined until one is left."""
        while lanes > 1:
            half = lanes // 2
            low = tuple(self._part(x, 0, half) for x in state)
            high = tuple(self._part(x, half, half) for x in state)
            state = self.combine(self.s.lanes(half), low, high)
            lanes = half
        return state

    def _part(self, x: SSAValue, start: int, count: int) -> SSAValue:
        if count == 1:
            return self.b.lane(x, start)
        return self.b.shuffled(x, x, range(start, start + count))

    def finish(self, e: Lanes, at: Sequence[Position], state: State) -> None:
        """Finalises a state, applies the epilogue and writes the results of one point."""
        for fold, own in self._parts(state):
            result = fold.monoid.result(fold.dtype)
            found = e.convert(fold.monoid.finalise(e, own), result, fold.op.dtype)
            e.bound[fold.op.results[0]] = found
        positions: list[Position] = []
        for group, position in zip((self.axes.groups[k] for k in self.kept), at, strict=True):
            positions += [Position(0)] * (len(group) - 1) + [position]
        self.s.store_results(e, tuple(positions))

    def at_a_point(self) -> None:
        """No axes at all, as in `contract ",->"`: the summand is the result."""
        e = self.s.lanes(1)
        self.finish(e, (), self.step(e, (), tuple(self.identity(1, 1))))

    # the vector along a reduced axis --------------------------------------------------------

    def reduce_range(
        self, fixed: dict[int, Position], order: Sequence[int], low: Index, high: Index
    ) -> State:
        """The state of one result element, with the first group of `order` in [low, high)."""
        copies, state = self.copies, len(self.states)

        def nest(
            k: int, at: dict[int, Position], carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            group = order[k]
            start, end = (low, high) if k == 0 else (0, self.axes.sizes[group])
            if k < len(order) - 1:

                def trip(i: Index, *c: SSAValue) -> Sequence[SSAValue]:
                    return nest(k + 1, {**at, group: Position(i)}, c)

                return self.b.loop(start, end, 1, trip, carried)

            return self.walk(start, end, at, carried)

        result = nest(0, fixed, self.identity(self.lanes, copies))
        sets = [tuple(result[u * state : (u + 1) * state]) for u in range(copies)]
        folded = self.fold_sets(self.s.lanes(self.lanes), sets)
        return self.fold_lanes(folded, self.lanes)

    def walk(
        self, low: Index, high: Index, at: dict[int, Position], inits: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """The states with the elements [low, high) of the vector's axis combined into them."""

        def body(i: Index, mask: SSAValue | None, c: tuple[SSAValue, ...]) -> Sequence[SSAValue]:
            here = {**at, self.vector: Position(i, 1)}
            e = self.s.lanes(self.lanes, None if self.WHOLE_VECTORS else mask)
            return self.step(e, [here[g] for g in range(len(self.axes.groups))], c)

        def part(start: Index, end: Index, c: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return vector_loop(
                self.s, start, end, body, lanes=self.lanes, unroll=self.copies, inits=list(c)
            )

        if ends_early(self):
            return walk_until_settled(self, low, high, inits, part)
        return part(low, high, inits)

    def state_of(
        self, fixed: dict[int, Position], order: Sequence[int], low: Index, high: Index
    ) -> State:
        """As `reduce_range`, for any monoid in the way that is fastest for it."""
        if repays_search(self):
            return extreme_state(self, fixed, low, high)
        return self.reduce_range(fixed, order, low, high)

    def order(self) -> list[int]:
        """The reduced groups, the vector's last."""
        return [k for k in self.reduced if k != self.vector] + [self.vector]

    def along_reduced(self) -> None:
        """One result element at a time."""
        order = self.order()
        outer = next((k for k in self.kept if self.axes.sizes[k] != 1), None)
        if outer is None:
            self.in_blocks(order)
            return
        if self.s.scratch and not repays_search(self) and not ends_early(self):
            write_few_rows(self, order)
            return

        def nest(k: int, fixed: dict[int, Position], thread: Index, threads: Index) -> None:
            if k == len(self.kept):
                state = self.state_of(fixed, order, 0, self.axes.sizes[order[0]])
                self.finish(self.s.lanes(1), [fixed[g] for g in self.kept], state)
                return
            group = self.kept[k]
            low, high = 0, self.axes.sizes[group]
            if group == outer:
                low, high = self.s.share(high, thread, threads, self.rows_of_share(group))

            def trip(i: Index) -> None:
                inner = partial(nest, k + 1, {**fixed, group: Position(i)}, thread, threads)
                if group == outer:
                    self.s.unless_cancelled(inner)
                else:
                    inner()

            if group == self.kept[-1] and self.s.schedule.rows:
                RowsAtOnce(self, group).write(fixed, low, high, trip)
                return
            self.b.loop(low, high, 1, trip)

        self.s.parallel(self.b.product(self.axes.sizes), partial(nest, 0, {}))

    def rows_of_share(self, group: int) -> int:
        """
        What the rows of a worker are a multiple of: as many as are walked at once, where none are
        left over and a share has several of those, so that they come out nearly even.
        """
        rows, size = self.s.schedule.rows, self.axes.sizes[group]
        work = self.b.product(self.axes.sizes)
        if not (rows and group == self.kept[-1] and isinstance(size, int) and size % rows == 0):
            return 1
        several = isinstance(work, int) and size * self.s.schedule.grain >= 4 * rows * work
        return rows if several else 1

    def block_size(self, order: Sequence[int]) -> Index:
        """Positions of the outermost reduced group in a block."""
        b, single = self.b, len(order) == 1
        multiple = self.lanes * self.unroll if single else 1
        block = b.round_up(b.ceil_div(self.axes.sizes[order[0]], BLOCKS), multiple)
        return b.max(block, BLOCK_ELEMENTS if single else 1)

    def in_blocks(self, order: Sequence[int]) -> None:
        """A single result element: fixed blocks of the outermost reduced group.

        Then the blocks' states in order.
        """
        b, s = self.b, self.s
        fixed = dict.fromkeys(self.kept, Position(0))
        at = [fixed[g] for g in self.kept]
        size = self.axes.sizes[order[0]]
        total = b.product([self.axes.sizes[k] for k in order])
        if self.in_turn or (isinstance(total, int) and total <= 2 * BLOCK_ELEMENTS):
            s.alone(lambda: self.finish(s.lanes(1), at, self.state_of(fixed, order, 0, size)))
            return
        block = self.block_size(order)
        count = b.ceil_div(size, block)
        searches = repays_search(self)
        partials = s.scratch or [b.cell(memory_type(dtype), BLOCKS) for dtype in self.states]

        def state_of(k: Index) -> State:
            low = b.mul(k, block)
            end = b.min(b.add(low, block), size)
            if searches:
                # of all blocks only the one that holds the value is searched
                (value,) = values_of(self).reduce_range(fixed, order, low, end)
                return value, s.lanes(1).position(Position(k))
            return self.reduce_range(fixed, order, low, end)

        def unless_settled(k: Index, *last: SSAValue) -> Sequence[SSAValue]:
            ends = b.value(par.CancelledOp.of(s.context))
            ends = s.lanes(1).apply(arith.OrIOp, ends, settled(self, last, 1))
            state = b.pick_all(ends, lambda: last, lambda: state_of(k))
            self.leave_state(k, state, partials)
            return state

        def share(thread: Index, threads: Index) -> None:
            low, high = s.share(count, thread, threads)
            if ends_early(self):
                b.loop(low, high, 1, unless_settled, self.identity(1, 1))
                return
            b.loop(
                low,
                high,
                1,
                lambda k: s.unless_cancelled(lambda: self.leave_state(k, state_of(k), partials)),
            )

        s.parallel(total, share)
        s.barrier()

        def end() -> None:
            state = self.folded_blocks(partials, count)
            if searches:
                value, number = state
                low = b.mul(as_index(b, number), block)
                high = b.min(b.add(low, block), size)
                state = (value, first_position(self, fixed, low, high, value))
            self.finish(s.lanes(1), at, state)

        s.alone(end)

    def leave_state(self, place: Index, state: State, partials: Sequence[SSAValue]) -> None:
        """Stores the state of a block where the others find it."""
        for value, buffer, dtype in zip(state, partials, self.states, strict=True):
            self.b.store(self.to_memory(value, dtype), buffer, [place])

    def folded_blocks(self, partials: Sequence[SSAValue], count: Index, first: Index = 0) -> State:
        """The states that blocks have left in memory, combined in order."""

        def fold(k: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            found = tuple(
                self.from_memory(self.b.load(buffer, [self.b.add(first, k)]), dtype)
                for buffer, dtype in zip(partials, self.states, strict=True)
            )
            return self.combine(self.s.lanes(1), carried, found)

        return self.b.loop(0, count, 1, fold, self.identity(1, 1))

    def to_memory(self, value: SSAValue, dtype: DType) -> SSAValue:
        """A value of a state as it is stored: bool is a byte."""
        return (
            self.s.lanes(1).cast("extui", value, memory_type(dtype))
            if dtype.kind == "bool"
            else value
        )

    def from_memory(self, value: SSAValue, dtype: DType) -> SSAValue:
        """The inverse of `to_memory`."""
        return (
            self.s.lanes(1).cast("trunci", value, dtype.register) if dtype.kind == "bool" else value
        )

    # the vector along the result's last axis ------------------------------------------------

    def along_kept(self) -> None:
        """A row of result elements at a time; each lane combines its own column."""
        outer = next((k for k in self.kept if self.axes.sizes[k] != 1), self.vector)

        def nest(k: int, fixed: dict[int, Position], thread: Index, threads: Index) -> None:
            group = self.kept[k]
            low, high = 0, self.axes.sizes[group]
            if group == outer:
                multiple = self.lanes * self.unroll if group == self.vector else 1
                low, high = self.s.share(high, thread, threads, multiple)
            if group != self.vector:

                def trip(i: Index) -> None:
                    inner = partial(nest, k + 1, {**fixed, group: Position(i)}, thread, threads)
                    if group == outer:
                        self.s.unless_cancelled(inner)
                    else:
                        inner()

                self.b.loop(low, high, 1, trip)
                return
            self.columns(fixed, low, high)

        def body(thread: Index, threads: Index) -> None:
            self.prepare()
            nest(0, {}, thread, threads)

        self.s.parallel(self.b.product(self.axes.sizes), body)

    def prepare(self) -> None:
        """What a thread needs for itself."""
        if self.s.schedule.rows:
            self.streamed = StreamedColumns(self)

    def columns(self, fixed: dict[int, Position], low: Index, high: Index) -> None:
        """Columns [low, high): blocks of `unroll` vectors, then masked vectors."""
        if self.s.schedule.flat and self.s.nest is not None:
            rows = flat_rows(self.s.nest, self.axes.groups, self.s.strided)
            if rows is not None:
                self.b.when(
                    self.b.compare("eq", low, 0), lambda: FlatColumns(self, fixed, rows).write()
                )
                return
        if self.streamed is not None:
            self.streamed.write(fixed, low, high)
            return
        b, width = self.b, self.lanes * self.unroll
        end = b.add(low, b.mul(b.div(b.sub(high, low), width), width))
        b.loop(low, end, width, lambda j: self.column_block(fixed, j, [None] * self.unroll))
        size = self.axes.sizes[self.vector]
        if isinstance(size, int) and self.s.nest is not None and self.s.nest.weight < HEAVY:
            # of whole blocks only the last share has any left: as many as there are of all columns
            whole, left = divmod(size % width, self.lanes)
            mask = [b.mask(left, self.lanes)] if left and self.lanes > 1 else []
            masks = [*[None] * whole, *mask]
            if masks:
                b.when(b.compare("lt", end, high), lambda: self.column_block(fixed, end, masks))
            return

        def masked(j: Index) -> None:
            mask = b.mask(b.sub(high, j), self.lanes) if self.lanes > 1 else None
            self.column_block(fixed, j, [mask])

        b.loop(end, high, self.lanes, masked)

    def column_block(
        self, fixed: dict[int, Position], j: Index, masks: Sequence[SSAValue | None]
    ) -> None:
        """Adjacent vectors of result elements."""
        state, vectors = len(self.states), len(masks)
        columns = [Position(self.b.add(j, u * self.lanes), 1) for u in range(vectors)]

        def nest(
            k: int, at: dict[int, Position], carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            if k == len(self.reduced):
                result: list[SSAValue] = []
                for u, (column, mask) in enumerate(zip(columns, masks, strict=True)):
                    here = {**at, self.vector: column}
                    e = self.s.lanes(self.lanes, mask)
                    mine = tuple(carried[u * state : (u + 1) * state])
                    result += self.step(e, [here[g] for g in range(len(self.axes.groups))], mine)
                return result
            group = self.reduced[k]

            def trip(i: Index, *c: SSAValue) -> Sequence[SSAValue]:
                return nest(k + 1, {**at, group: Position(i)}, c)

            return self.b.loop(0, self.axes.sizes[group], 1, trip, carried)

        result = nest(0, fixed, self.identity(self.lanes, vectors))
        for u, (column, mask) in enumerate(zip(columns, masks, strict=True)):
            e = self.s.lanes(self.lanes, mask)
            at = [{**fixed, self.vector: column}[g] for g in self.kept]
            self.finish(e, at, tuple(result[u * state : (u + 1) * state]))
