"""
Sorting values by partition, where a register's lanes can be moved together by a mask.

A segment's keys go from one array into the other: those less than a pivot to the front of the same
place, the others to its back. Keys that equal the pivot stay behind where a sample holds several of
them. Segments of a few registers are sorted in them by a network. Equal keys are the same value, so
nothing is to be stable. Segments wait on a stack, the leftmost on top: what a whole register writes
behind a segment's end is written again.
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
from mlc.dialects.dtypes import BOOL, DType
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.kernel import vector_loop
from mlc.lowering.loops.memory import read_row, write_row
from mlc.lowering.loops.opaque.cells import Segments
from mlc.lowering.loops.opaque.network import lanes_on, sorted_registers
from mlc.lowering.loops.opaque.sort import flipped

if TYPE_CHECKING:
    from mlc.lowering.loops.opaque.sort import SortNest

NETWORK_REGISTERS = 16  # of the longest segment that a network sorts; measured
STACK = 256  # segments; a row that needs more is sorted digit by digit
PATIENCE = 64  # moves per element before the row is sorted digit by digit instead
SAMPLES = 9  # of a pivot
MANY = 3  # of them that equal the pivot: equal keys are set aside
UNROLL = 4

WIDTH = 3  # of a segment: where it begins and ends, and its place
FIRST, SECOND, EQUAL = 0, 1, 2  # its place: the array it is in, plus EQUAL where all keys are one
THREE_WAYS = 4  # its place: the pivot was the least key of it


class Quicksort:
    """The loops that sort the values of one row."""

    def __init__(self, nest: SortNest, at: Sequence[Position], offset: Index) -> None:
        self.nest = nest
        self.s, self.b = nest.s, nest.b
        self.at = at
        self.offset = offset
        self.kind: DType = nest.keys.dtype
        self.lanes: int = nest.lanes
        self.small = NETWORK_REGISTERS * nest.lanes

    def run(self) -> None:
        """Fills the first array with keys, then takes segments until there are none."""
        b, size = self.b, self.nest.size
        if isinstance(size, int) and size <= self.small:
            self._network(size, 0, self._registers(size), self._key_at)
            return
        self._fill()
        self.segments = Segments(b, WIDTH, STACK + 3)
        self.segments.push(0, size, FIRST)
        patience = b.mul(b.add(size, self.small), PATIENCE)

        def take() -> None:
            self._take()
            full = b.compare("gt", self.segments.depth(), STACK)
            b.when(full, lambda: self.segments.move(b.add(patience, 1)))

        self.segments.run(patience, take, partial(self.nest.by_digits, self.at, self.offset))

    # keys, whose order is that of signed integers -------------------------------------------

    def _key_at(self, e: Lanes, i: Index) -> SSAValue:
        element = e.fetch(self.nest.op.operands[0], (*self.at, Position(i, 1)))
        return flipped(e, self.nest.keys.of(e, element), self.kind)

    def _element_of(self, e: Lanes, key: SSAValue) -> SSAValue:
        return self.nest.keys.element_of(e, flipped(e, key, self.kind))

    def _fill(self) -> None:
        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(self.lanes, mask)
            place = self.b.add(self.offset, i)
            write_row(e, self._key_at(e, i), self.s.scratch[0], place)
            return []

        vector_loop(self.s, 0, self.nest.size, body, lanes=self.lanes, unroll=1)

    # the stack ------------------------------------------------------------------------------

    def _take(self) -> None:
        """Sorts or divides the segment on top of the stack."""
        b = self.b
        low, high, place = self.segments.pop()
        size = b.sub(high, low)
        array = b.sub(place, b.mul(b.div(place, 2), 2))
        is_first = b.compare("eq", array, FIRST)
        assert isinstance(is_first, SSAValue)
        first, second = self.s.scratch[:2]
        here, there = b.pick_all(is_first, lambda: (first, second), lambda: (second, first))

        def read(e: Lanes, i: Index) -> SSAValue:
            return read_row(e, self.kind, here, b.add(self.offset, i))

        def sort() -> None:
            b.when(
                b.compare("le", size, self.small),
                lambda: self._finish(size, low, read),
                lambda: self._divide(low, high, place, (here, there), array),
            )

        equal = b.compare("eq", b.sub(place, array), EQUAL)
        b.when(equal, lambda: self._write_equal(low, high, here), sort)

    # long segments --------------------------------------------------------------------------

    def _divide(
        self, low: Index, high: Index, place: Index, arrays: Sequence[SSAValue], array: Index
    ) -> None:
        b = self.b
        other = b.sub(1, array)
        here, there = arrays
        pivot, many = self._pivot(low, b.sub(high, low), here)
        self.segments.move(b.sub(high, low))
        again = b.compare("ge", place, THREE_WAYS)
        assert isinstance(again, SSAValue)
        three = self.s.lanes(1).apply(arith.OrIOp, many, again)

        def in_three() -> None:
            left, right = self._partition(low, high, pivot, here, there, sets_aside=True)
            b.when(b.compare("lt", right, high), lambda: self.segments.push(right, high, other))
            b.store(pivot, there, [b.add(self.offset, left)])
            self.segments.push(left, right, b.add(other, EQUAL))
            b.when(b.compare("lt", low, left), lambda: self.segments.push(low, left, other))

        def in_two() -> None:
            middle, _ = self._partition(low, high, pivot, here, there, sets_aside=False)
            least = b.compare("eq", middle, low)
            self.segments.push(middle, high, b.add(other, b.choose(least, THREE_WAYS, 0)))
            b.when(b.compare("lt", low, middle), lambda: self.segments.push(low, middle, other))

        b.when(three, in_three, in_two)

    def _pivot(self, low: Index, size: Index, here: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The median of medians of three triples of a segment; whether many samples equal it."""
        b, one = self.b, self.s.lanes(1)
        step, start = b.div(size, SAMPLES), b.add(self.offset, low)
        found = [b.load(here, [b.add(start, b.add(b.mul(step, k), k % 3))]) for k in range(SAMPLES)]
        medians = [_median(one, *found[k : k + 3]) for k in (0, 3, 6)]
        pivot = _median(one, *medians)
        equal: Index = 0
        for key in found:
            equal = b.add(equal, b.choose(one.compare("eq", key, pivot, self.kind), 1, 0))
        many = b.compare("ge", equal, MANY)
        assert isinstance(many, SSAValue)
        return pivot, many

    def _partition(
        self,
        low: Index,
        high: Index,
        pivot: SSAValue,
        here: SSAValue,
        there: SSAValue,
        *,
        sets_aside: bool,
    ) -> tuple[Index, Index]:
        """
        Moves the keys less than the pivot to [low, left) of the other array, the others (if equal
        ones are set aside: the greater ones) to [right, high); (left, right).

        Whole registers are written on either side of the gap between them, which is a multiple of
        a register or wider than two: what is not a whole register is moved first, while it is wide.
        """
        b, lanes = self.b, self.lanes
        border = self.s.lanes(lanes).spread(pivot)
        whole = b.add(low, b.mul(b.div(b.sub(high, low), lanes), lanes))

        def move(
            i: Index,
            ends: Sequence[SSAValue],
            mask: SSAValue | None = None,
            *,
            is_last: bool = False,
        ) -> Sequence[SSAValue]:
            e = self.s.lanes(lanes)
            key = read_row(e, self.kind, here, b.add(self.offset, i))
            less = b.value(vec.CmpiOp.of("slt", key, border))
            more = b.value(vec.CmpiOp.of("sgt", key, border)) if sets_aside else None
            if mask is None and more is None:
                both = b.value(vec.SplitOp.of(key, less))
                return self._append(there, ends, (both, both), less, None)
            if more is None:
                more = e.apply(arith.XOrIOp, less, b.element(True, BOOL, lanes))
            if mask is not None:
                less, more = (e.apply(arith.AndIOp, m, mask) for m in (less, more))
            others = e.apply(arith.XOrIOp, more, b.element(True, BOOL, lanes))
            packed = [b.value(vec.SplitOp.of(key, m)) for m in (less, others)]
            return self._append(there, ends, packed, less, more, masked=is_last)

        def several(i: Index, *ends: SSAValue) -> Sequence[SSAValue]:
            for u in range(UNROLL):
                ends = tuple(move(b.add(i, u * lanes), ends))
            return ends

        ends = [b.index(b.add(self.offset, low)), b.index(b.add(self.offset, high))]
        ends = move(whole, ends, b.mask(b.sub(high, whole), lanes))
        last = b.sub(whole, lanes) if sets_aside else whole
        step = UNROLL * lanes
        end = b.add(low, b.mul(b.div(b.sub(last, low), step), step))
        ends = b.loop(low, end, step, several, ends)
        ends = b.loop(end, last, lanes, lambda i, *c: move(i, c), ends)
        if sets_aside:
            ends = move(last, ends, is_last=True)
        left, right = ends
        return b.sub(left, self.offset), b.sub(right, self.offset)

    def _append(
        self,
        there: SSAValue,
        ends: Sequence[SSAValue],
        packed: Sequence[SSAValue],
        less: SSAValue,
        more: SSAValue | None,
        *,
        masked: bool = False,
    ) -> Sequence[SSAValue]:
        """Writes a register's left keys in front of the gap, its right keys behind it."""
        b, lanes = self.b, self.lanes
        left, right = ends
        count = lanes_on(b, less)
        rest = b.sub(lanes, count) if more is None else lanes_on(b, more)
        front = b.mask(count, lanes) if masked else None
        back = None
        if masked:
            e = self.s.lanes(lanes)
            ones = b.element(True, BOOL, lanes)
            back = e.apply(arith.XOrIOp, b.mask(b.sub(lanes, rest), lanes), ones)
        b.store_vector(packed[0], there, [left], front)
        b.store_vector(packed[1], there, [b.sub(right, lanes)], back)
        return [b.index(b.add(left, count)), b.index(b.sub(right, rest))]

    def _write_equal(self, low: Index, high: Index, here: SSAValue) -> None:
        """A segment of one key, which stands in its first place."""
        b = self.b
        key = b.load(here, [b.add(self.offset, low)])

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(self.lanes, mask)
            value = self._element_of(e, e.spread(key))
            e.store(value, self.s.outputs[0], (*self.at, Position(i, 1)))
            return []

        vector_loop(self.s, low, high, body, lanes=self.lanes, unroll=1)

    # short segments -------------------------------------------------------------------------

    def _registers(self, size: int) -> int:
        """The power of two of registers that hold so many keys."""
        return 1 << (-(-max(size, 1) // self.lanes) - 1).bit_length()

    def _finish(self, size: Index, low: Index, read: Callable[[Lanes, Index], SSAValue]) -> None:
        """Sorts a segment in as few registers as hold it."""
        b = self.b

        def within(registers: int) -> None:
            if registers == 1:
                self._network(size, low, 1, read)
                return
            b.when(
                b.compare("le", size, registers // 2 * self.lanes),
                partial(within, registers // 2),
                partial(self._network, size, low, registers, read),
            )

        within(NETWORK_REGISTERS)

    def _network(
        self, size: Index, low: Index, registers: int, read: Callable[[Lanes, Index], SSAValue]
    ) -> None:
        """Keys in registers, filled up with the largest key, put in order and written."""
        b, lanes = self.b, self.lanes
        largest = b.element(-self.kind.lowest - 1, self.kind, lanes)
        keys: list[SSAValue] = []
        masks = [b.mask(b.sub(size, u * lanes), lanes) for u in range(registers)]
        for u, mask in enumerate(masks):
            place = b.add(low, u * lanes)
            if registers > 1 and u < registers // 2:  # fewer registers would not hold it
                keys.append(read(self.s.lanes(lanes), place))
                continue
            e = self.s.lanes(lanes, mask)
            keys.append(e.select(mask, read(e, place), largest))
        keys = sorted_registers(self.s.lanes(lanes), keys, signed=True)

        def write(masks: Sequence[SSAValue | None]) -> None:
            for u, (mask, key) in enumerate(zip(masks, keys, strict=True)):
                e = self.s.lanes(lanes, mask)
                where = Position(b.add(low, u * lanes), 1)
                e.store(self._element_of(e, key), self.s.outputs[0], (*self.at, where))

        room = b.compare("le", b.add(low, registers * lanes), self.nest.size)
        b.when(room, lambda: write([None] * registers), lambda: write(masks))


def _median(e: Lanes, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    """Of signed integers."""
    low, high = e.apply(arith.MinSIOp, x, y), e.apply(arith.MaxSIOp, x, y)
    return e.apply(arith.MaxSIOp, low, e.apply(arith.MinSIOp, high, z))
