"""
Positions in the order of their keys by partition, where a mask moves a register's lanes together.

Keys less than a pivot move to the front of their segment, the others behind them, and positions
with them; both keep their order, so the sort is stable. Segments of a few registers are sorted in
them by counting. Segments wait on a stack, the smaller one on top.
SOURCE: Hoare, "Quicksort", The Computer Journal 5(1), 1962;
Blacher, Giesen, Sanders, Wassenberg, "Vectorized and performance-portable Quicksort", SPE 52(12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects import vec
from mlc.dialects.dtypes import BOOL, I64, DType
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.kernel import vector_loop
from mlc.lowering.loops.memory import read_row, write_row
from mlc.lowering.loops.opaque.cells import Segments
from mlc.lowering.loops.opaque.network import lanes_on

if TYPE_CHECKING:
    from mlc.lowering.loops.opaque.sort import SortNest

SMALL_VECTORS = 4  # registers of the longest segment whose positions are sorted by counting
STACK = 72  # segments: the smaller one is done first, so there are at most log2(2^63) + 1
PATIENCE = 64  # moves per element before the row is sorted digit by digit instead


class Partitioning:
    """The loops that order the positions of one row."""

    def __init__(self, nest: SortNest, at: Sequence[Position], offset: Index) -> None:
        self.nest = nest
        self.s, self.b = nest.s, nest.b
        self.at = at
        self.offset = offset
        self.kind: DType = nest.keys.dtype
        self.lanes: int = nest.lanes
        self.small = SMALL_VECTORS * nest.lanes
        keys, other_keys, positions, other_positions = nest.s.scratch
        self.arrays = [
            (keys, other_keys, self.kind),
            (positions, other_positions, nest.positions),
        ]

    def run(self) -> None:
        """Fills the scratch with keys, then takes segments from the stack until it is empty."""
        b, size = self.b, self.nest.size
        self._fill()
        if isinstance(size, int) and size <= self.small:
            self._count(self.offset, size, 0)
            return
        self.segments = Segments(b, 2, STACK)
        self.segments.push(0, size)
        patience = b.mul(b.add(size, self.small), PATIENCE)
        give_up = partial(self.nest.by_digits, self.at, self.offset)
        self.segments.run(patience, self._take, give_up)

    def _fill(self) -> None:
        nest, b = self.nest, self.b

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(self.lanes, mask)
            key = nest.keys.of(e, e.fetch(nest.op.operands[0], (*self.at, Position(i, 1))))
            write_row(e, key, self.arrays[0][0], b.add(self.offset, i))
            number = e.convert(e.position(Position(i, 1)), I64, nest.positions)
            write_row(e, number, self.arrays[1][0], b.add(self.offset, i))
            return []

        vector_loop(self.s, 0, nest.size, body, lanes=self.lanes, unroll=1)

    # the stack ------------------------------------------------------------------------------

    def _take(self) -> None:
        """Sorts or divides the segment on top of the stack."""
        b = self.b
        low, high = self.segments.pop()
        size = b.sub(high, low)
        b.when(
            b.compare("le", size, self.small),
            lambda: self._count(b.add(self.offset, low), size, low),
            partial(self._divide, low, high),
        )

    # long segments --------------------------------------------------------------------------

    def _divide(self, low: Index, high: Index) -> None:
        b = self.b
        pivot = self._pivot(low, b.sub(high, low))
        self.segments.move(b.sub(high, low))
        middle = self._partition(low, high, pivot, "ult")

        def halves() -> None:
            left_is_less = b.compare("lt", b.sub(middle, low), b.sub(high, middle))
            first = b.choose(left_is_less, middle, low)
            second = b.choose(left_is_less, high, middle)
            self.segments.push(first, second)
            self.segments.push(
                b.choose(left_is_less, low, middle), b.choose(left_is_less, middle, high)
            )

        def smallest() -> None:
            # the pivot is the smallest key: those that equal it are in their places
            end = self._partition(low, high, pivot, "ule")
            self._write(low, end)
            b.when(b.compare("lt", end, high), lambda: self.segments.push(end, high))

        b.when(b.compare("eq", middle, low), smallest, halves)

    def _pivot(self, low: Index, size: Index) -> SSAValue:
        """The median of the medians of three triples spread over the segment."""
        b, keys = self.b, self.arrays[0][0]
        step = b.div(size, 9)
        start = b.add(self.offset, low)
        found = [b.load(keys, [b.add(start, b.add(b.mul(step, k), k % 3))]) for k in range(9)]
        medians = [self._median(*found[k : k + 3]) for k in (0, 3, 6)]
        return self._median(*medians)

    def _median(self, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        def least(a: SSAValue, c: SSAValue) -> SSAValue:
            return self.b.value(arith.MinUIOp.create(operands=[a, c], result_types=[a.type]))

        def most(a: SSAValue, c: SSAValue) -> SSAValue:
            return self.b.value(arith.MaxUIOp.create(operands=[a, c], result_types=[a.type]))

        return most(least(x, y), least(most(x, y), z))

    def _partition(self, low: Index, high: Index, pivot: SSAValue, predicate: str) -> Index:
        """Moves keys that are ? the pivot to the front of [low, high); gives where they end."""
        b, lanes = self.b, self.lanes
        e = self.s.lanes(lanes)
        border = e.spread(pivot)
        start = b.add(self.offset, low)
        whole = b.add(low, b.mul(b.div(b.sub(high, low), lanes), lanes))

        def trip(
            mask: Callable[[Index], SSAValue | None], i: Index, *carried: SSAValue
        ) -> list[SSAValue]:
            return self._move(i, mask(i), border, predicate, carried)

        inits = [b.index(start), b.index(self.offset)]
        no_mask: Callable[[Index], SSAValue | None] = lambda i: None  # noqa: E731
        carried = b.loop(low, whole, lanes, partial(trip, no_mask), inits)
        rest: Callable[[Index], SSAValue | None] = lambda i: b.mask(b.sub(high, i), lanes)  # noqa: E731
        left, right = b.loop(whole, high, lanes, partial(trip, rest), carried)
        for front, back, dtype in self.arrays:
            self._copy(back, front, dtype, left, b.sub(right, self.offset))
        return b.sub(left, self.offset)

    def _move(
        self,
        i: Index,
        mask: SSAValue | None,
        border: SSAValue,
        predicate: str,
        carried: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """One register: its left keys are written in front, the others to the second array."""
        from mlc.lowering.loops.opaque.sort import unsigned

        b = self.b
        left, right = carried
        e = self.s.lanes(self.lanes, mask)
        values = [
            read_row(e, dtype, front, b.add(self.offset, i)) for front, _, dtype in self.arrays
        ]
        goes_left = unsigned(e, predicate, values[0], border)
        goes_right = e.apply(arith.XOrIOp, goes_left, self._all_lanes())
        if mask is not None:
            goes_left = e.apply(arith.AndIOp, goes_left, mask)
            goes_right = e.apply(arith.AndIOp, goes_right, mask)
        count = lanes_on(b, goes_left)
        total = self.lanes if mask is None else lanes_on(b, mask)
        for (front, back, _), value in zip(self.arrays, values, strict=True):
            # in front a whole register may be written over what has been read already
            there = None if mask is None else b.mask(count, self.lanes)
            packed = b.value(vec.CompressOp.of(value, goes_left))
            b.store_vector(packed, front, [left], there)
            b.store_vector(b.value(vec.CompressOp.of(value, goes_right)), back, [right], None)
        return [
            b.index(b.add(left, count)),
            b.index(b.add(right, b.sub(total, count))),
        ]

    def _all_lanes(self) -> SSAValue:
        return self.b.element(True, BOOL, self.lanes)

    def _copy(
        self, source: SSAValue, target: SSAValue, dtype: DType, to: Index, count: Index
    ) -> None:
        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(self.lanes, mask)
            value = read_row(e, dtype, source, self.b.add(self.offset, i))
            write_row(e, value, target, self.b.add(to, i))
            return []

        vector_loop(self.s, 0, count, body, lanes=self.lanes, unroll=1)

    def _write(self, low: Index, high: Index) -> None:
        """The results of a segment that is in order."""

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(self.lanes, mask)
            value = self._result(e, self.b.add(self.offset, i))
            e.store(value, self.s.outputs[0], (*self.at, Position(i, 1)))
            return []

        vector_loop(self.s, low, high, body, lanes=self.lanes, unroll=1)

    def _result(self, e: Lanes, place: Index) -> SSAValue:
        front, _, dtype = self.arrays[-1]
        return e.convert(read_row(e, dtype, front, place), dtype, I64)

    # short segments -------------------------------------------------------------------------

    def _count(self, start: Index, size: Index, low: Index) -> None:
        """The place of each key is the number of keys that come before it."""
        b, lanes = self.b, self.lanes
        masks = [b.mask(b.sub(size, u * lanes), lanes) for u in range(SMALL_VECTORS)]
        keys = [
            read_row(self.s.lanes(lanes, m), self.kind, self.arrays[0][0], b.add(start, u * lanes))
            for u, m in enumerate(masks)
        ]
        counts: tuple[SSAValue, ...] = tuple(b.element(0, self.kind, lanes) for _ in keys)
        for w in range(SMALL_VECTORS):
            end = b.min(size, (w + 1) * lanes)
            trip = partial(self._compare, start, w, keys)
            counts = b.loop(w * lanes, end, 1, trip, counts)
        for u, (mask, count) in enumerate(zip(masks, counts, strict=True)):
            used = b.compare("gt", size, u * lanes)
            b.when(used, partial(self._place, start, low, u, mask, count))

    def _compare(
        self, start: Index, w: int, keys: Sequence[SSAValue], j: Index, *counts: SSAValue
    ) -> list[SSAValue]:
        """One more for every key that the j-th, one of register w, comes before."""
        from mlc.lowering.loops.opaque.sort import as_integer, unsigned

        b, kind = self.b, self.kind
        e = self.s.lanes(self.lanes)
        other = e.spread(b.load(self.arrays[0][0], [b.add(start, j)]))
        found: list[SSAValue] = []
        for u, (mine, count) in enumerate(zip(keys, counts, strict=True)):
            before = unsigned(e, "ule" if w < u else "ult", other, mine)
            if w == u:
                lane = b.value(vec.StepOp.of(self.lanes, kind.ir))
                number = e.spread(as_integer(self.s.lanes(1), b.sub(j, w * self.lanes), kind))
                equal = e.compare("eq", other, mine, kind)
                earlier = e.apply(arith.AndIOp, equal, e.compare("lt", number, lane, kind))
                before = e.apply(arith.OrIOp, before, earlier)
            more = e.apply(arith.AddiOp, count, e.constant(1, kind))
            found.append(e.select(before, more, count))
        return found

    def _place(self, start: Index, low: Index, u: int, mask: SSAValue, count: SSAValue) -> None:
        e = self.s.lanes(self.lanes, mask)
        value = self._result(e, self.b.add(start, u * self.lanes))
        place = e.at_element(e.convert(count, self.kind, I64))
        assert isinstance(place, Position)
        where = Position(low, lanes=place.lanes)
        e.store(value, self.s.outputs[0], (*self.at, where))
