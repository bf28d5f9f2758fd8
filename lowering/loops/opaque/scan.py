"""
Running reductions. Along the last axis a register is scanned in log2(lanes) steps and the state so
far is combined into it; along any other axis each lane walks down its own column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.monoid import Monoid, State
from mlc.dialects.tensor.scan import ScanOp
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.kernel import KernelScope

COLUMN_VECTORS = 4  # adjacent vectors that walk down together: 4 cache lines of each row


class ScanNest:
    """The loops of one scan kernel."""

    def __init__(self, s: KernelScope) -> None:
        op = whole_of(s.kernel)
        assert isinstance(op, ScanOp)
        self.s = s
        self.b = s.b
        self.op: ScanOp = op
        self.monoid: Monoid = op.combiner()
        self.dtype: DType = op.dtype
        self.states: tuple[DType, ...] = self.monoid.state(op.dtype)
        self.sizes: list[Index] = [s.b.dim(dim) for dim in op.shape]
        self.axis: int = op.axis.value.data
        self.last = len(self.sizes) - 1
        self.lanes: int = s.schedule.lanes
        inexact = op.dtype.is_inexact and self.monoid.name in ("sum", "prod")
        self.in_turn: bool = inexact and s.b.numerics == "strict"

    def run(self) -> None:
        """The loops over all axes but the scanned one and, walking down columns, the last one."""
        in_rows = self.axis == self.last
        outer = [k for k in range(self.last + 1) if k not in (self.axis, self.last)]
        shared = next((k for k in outer if self.sizes[k] != 1), None)

        def nest(k: int, at: dict[int, Position], thread: Index, threads: Index) -> None:
            if k == len(outer):
                if in_rows:
                    self.row(at)
                    return
                low, high = 0, self.sizes[self.last]
                if shared is None:
                    low, high = self.s.share(high, thread, threads, self.lanes * COLUMN_VECTORS)
                self.columns(at, low, high)
                return
            axis = outer[k]
            low, high = 0, self.sizes[axis]
            if axis == shared:
                low, high = self.s.share(high, thread, threads)

            def trip(i: Index) -> None:
                inner = partial(nest, k + 1, {**at, axis: Position(i)}, thread, threads)
                if axis == shared:
                    self.s.unless_cancelled(inner)
                else:
                    inner()

            self.b.loop(low, high, 1, trip)

        if in_rows and shared is None:
            self.s.alone(lambda: nest(0, {}, 0, 1))
            return
        self.s.parallel(self.b.product(self.sizes), partial(nest, 0, {}))

    # pieces ---------------------------------------------------------------------------------

    def start(self, lanes: int) -> list[SSAValue]:
        """The state before the first element."""
        pairs = zip(self.op.start(), self.states, strict=True)
        return [self.b.element(value, dtype, lanes) for value, dtype in pairs]

    def neutral(self, lanes: int) -> State:
        """The state that changes nothing."""
        pairs = zip(self.monoid.identity(self.dtype), self.states, strict=True)
        return tuple(self.b.element(value, dtype, lanes) for value, dtype in pairs)

    def element(self, e: Lanes, at: dict[int, Position]) -> tuple[tuple[Position, ...], State]:
        """A point, and the state of its element alone; neutral where the mask is false."""
        point = tuple(at[k] for k in range(self.last + 1))
        value = e.fetch(self.op.x, point)
        state = self.monoid.lift(e, value, lambda: e.position(point[self.axis]))
        if e.mask is not None and self.axis == self.last:
            pairs = zip(state, self.neutral(e.lanes), strict=True)
            state = tuple(e.select(e.mask, x, n) for x, n in pairs)
        return point, state

    def combine(self, e: Lanes, before: State, after: State) -> State:
        """Two states, the one that was met first on the left."""
        return self.monoid.combine(e, self.dtype, before, after)

    def store(self, e: Lanes, point: tuple[Position, ...], state: State) -> None:
        """The result at a point."""
        e.store(self.monoid.finalise(e, state), self.s.outputs[0], point)

    # along a row ----------------------------------------------------------------------------

    def row(self, at: dict[int, Position]) -> None:
        """One row: whole registers, and one that is partly filled, at the end that is met last."""
        if self.in_turn:
            self.row_in_turn(at)
            return
        b, lanes, size = self.b, self.lanes, self.sizes[self.last]
        whole = b.mul(b.div(size, lanes), lanes)
        rest = b.sub(size, whole)
        if not self.op.is_backward:

            def forward(i: Index, *c: SSAValue) -> Sequence[SSAValue]:
                return self.register(at, i, None, c)

            carried = b.loop(0, whole, lanes, forward, self.start(1))
            b.loop(whole, size, lanes, self._ending(at, rest), carried)
            return

        def backward(i: Index, *c: SSAValue) -> Sequence[SSAValue]:
            return self.register(at, b.sub(b.sub(size, lanes), i), None, c)

        carried = b.loop(0, whole, lanes, backward, self.start(1))
        b.loop(0, rest, lanes, self._ending(at, rest), carried)

    def _ending(self, at: dict[int, Position], rest: Index):
        def ending(i: Index, *c: SSAValue) -> Sequence[SSAValue]:
            mask = None if self.lanes == 1 else self.b.mask(rest, self.lanes)
            return self.register(at, i, mask, c)

        return ending

    def register(
        self, at: dict[int, Position], i: Index, mask: SSAValue | None, carried: State
    ) -> State:
        """`lanes` results from element i on; gives the state with all of them."""
        e = self.s.lanes(self.lanes, mask)
        point, state = self.element(e, {**at, self.last: Position(i, 1)})
        neutral = self.neutral(self.lanes)
        distance = 1
        while distance < self.lanes:
            state = self.combine(e, self._moved(neutral, state, distance), state)
            distance *= 2
        one = self.s.lanes(1)
        last = 0 if self.op.is_backward else self.lanes - 1
        following = self.combine(one, carried, tuple(self._lane(x, last) for x in state))
        if self.op.is_exclusive:
            state = self._moved(neutral, state, 1)
        before = tuple(e.spread(x) for x in carried)
        self.store(e, point, self.combine(e, before, state))
        return following

    def row_in_turn(self, at: dict[int, Position]) -> None:
        """One row, an element after the other; they are read and written by the register."""
        b, size, lanes = self.b, self.sizes[self.last], self.lanes
        whole = b.mul(b.div(size, lanes), lanes)
        carried: Sequence[SSAValue] = self.start(1)
        for low, high, step in ((0, whole, lanes), (whole, size, 1)):

            def trip(step: int, i: Index, *c: SSAValue) -> Sequence[SSAValue]:
                first = b.sub(b.sub(size, step), i) if self.op.is_backward else i
                return self.chain(at, first, step, c)

            carried = b.loop(low, high, step, partial(trip, step), carried)

    def chain(self, at: dict[int, Position], i: Index, lanes: int, carried: State) -> State:
        """`lanes` results from element i on, in turn; gives the state with all of them."""
        e, one = self.s.lanes(lanes), self.s.lanes(1)
        point, state = self.element(e, {**at, self.last: Position(i, 1)})
        found = list(state)
        for lane in range(lanes)[:: -1 if self.op.is_backward else 1]:
            mine = tuple(self._lane(x, lane) for x in state) if lanes > 1 else state
            after = self.combine(one, carried, mine)
            stored = carried if self.op.is_exclusive else after
            pairs = zip(stored, found, strict=True)
            found = [self.b.with_lane(to, lane, x) if lanes > 1 else x for x, to in pairs]
            carried = after
        self.store(e, point, tuple(found))
        return carried

    def _moved(self, fill: State, state: State, distance: int) -> State:
        """Each lane's state from `distance` lanes before it; from `fill` where there is none."""
        if self.lanes == 1:
            return fill
        lanes = range(self.lanes)
        step = -distance if not self.op.is_backward else distance
        places = [self.lanes + k + step if 0 <= k + step < self.lanes else k for k in lanes]
        return tuple(self.b.shuffled(f, x, places) for f, x in zip(fill, state, strict=True))

    def _lane(self, x: SSAValue, lane: int) -> SSAValue:
        if self.lanes == 1:
            return x
        return self.b.lane(x, lane)

    # down the columns -----------------------------------------------------------------------

    def columns(self, at: dict[int, Position], low: Index, high: Index) -> None:
        """Columns [low, high): blocks of COLUMN_VECTORS vectors, then masked vectors."""
        b, width = self.b, self.lanes * COLUMN_VECTORS
        end = b.add(low, b.mul(b.div(b.sub(high, low), width), width))
        b.loop(low, end, width, lambda j: self.column_block(at, j, COLUMN_VECTORS, None))

        def masked(j: Index) -> None:
            mask = b.mask(b.sub(high, j), self.lanes) if self.lanes > 1 else None
            self.column_block(at, j, 1, mask)

        b.loop(end, high, self.lanes, masked)

    def column_block(
        self, at: dict[int, Position], j: Index, vectors: int, mask: SSAValue | None
    ) -> None:
        """`vectors` adjacent vectors of columns, from the first row met to the last."""
        b, width, size = self.b, len(self.states), self.sizes[self.axis]

        def trip(i: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            row = b.sub(b.sub(size, 1), i) if self.op.is_backward else i
            following: list[SSAValue] = []
            for u in range(vectors):
                column = Position(b.add(j, u * self.lanes), 1)
                e = self.s.lanes(self.lanes, mask)
                point, state = self.element(e, {**at, self.axis: Position(row), self.last: column})
                before = tuple(carried[u * width : (u + 1) * width])
                after = self.combine(e, before, state)
                self.store(e, point, before if self.op.is_exclusive else after)
                following += after
            return following

        b.loop(0, size, 1, trip, self.start(self.lanes) * vectors)


def lower_scan(s: KernelScope) -> None:
    """A kernel that holds a scan, with what computes its operand."""
    ScanNest(s).run()
