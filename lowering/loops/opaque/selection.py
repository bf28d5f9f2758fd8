"""
Partition along the last axis: the key of a rank is found first, then every element is written into
its group: before it, equal to it, behind it.

A sample of the keys gives a window in which that key almost surely lies; one pass keeps the keys of
the window, and so on until a few are left. A window that misses the rank or keeps too much is
followed by one that excludes a key, or halves the range of keys: the work is bounded by their bits.
SOURCE: Floyd, Rivest, "Expected time bounds for selection", CACM 18(3), 1975.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import vec
from mlc.dialects.dtypes import BOOL, F32, I64, DType
from mlc.dialects.tensor.partition import ArgpartitionOp, Partitioned
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import buffer_type
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.kernel import KernelScope, vector_loop
from mlc.lowering.loops.memory import read_row, write_row
from mlc.lowering.loops.opaque.cells import Cells, repeat_while
from mlc.lowering.loops.opaque.network import lanes_on, sorted_registers
from mlc.lowering.loops.opaque.sort import Keys, SortNest, flipped

SAMPLE = 128  # keys that are sorted in registers
SPREAD = 16  # of them on either side of the rank: 2.8 standard deviations in the middle
SHORT, SHORT_SPREAD = 2048, 7  # elements of a row of which a narrower window leaves one sample
PARTS, SCATTERING = 1 << 16, 40503  # where in its part of the row each key of a sample is

SAMPLED, GIVEN, ONE_KEY, HALVED = range(4)  # what the next window is
COUNT, RANK, MODE, POOR, FILLED, DONE, LESS, EQUAL = range(8)  # cells of the state
LOW, HIGH, FIRST, LAST = range(4)  # cells of keys: the candidates' range, the window


def lower_selection(s: KernelScope) -> None:
    """A kernel that holds a partition, with what computes its operand."""
    SelectionNest(s).run()


class SelectionNest(SortNest):
    """The loops of one partition."""

    def __init__(self, s: KernelScope) -> None:
        super().__init__(s)
        assert isinstance(self.op, Partitioned)
        self.part: Partitioned = self.op
        self.gives_positions = isinstance(self.op, ArgpartitionOp)
        self.keys = Keys(self.keys.element, self.keys.backwards, merges_zeros=True)
        # a register of keys or of positions, whatever the elements' width
        moved = self.keys.dtype.bytes
        widest = self.keys.element.bytes
        if self.gives_positions:
            moved, widest = max(moved, self.positions.bytes), 8
        self.lanes = max(4, s.schedule.lanes * widest // moved)

    def row(self, row: Index, slot: Index) -> None:
        b = self.b
        at, offset = self.place(row, slot)
        b.when(b.compare("gt", self.size, 0), lambda: Selection(self, at, offset).run())


class Selection:
    """The loops that partition one row."""

    def __init__(self, nest: SelectionNest, at: Sequence[Position], offset: Index) -> None:
        self.nest = nest
        self.s, self.b = nest.s, nest.b
        self.at = at
        self.offset = offset
        self.kind: DType = nest.keys.dtype
        self.largest = -1 - self.kind.lowest
        self.lanes: int = nest.lanes
        self.one = self.s.lanes(1)
        self.kth = self.b.min(nest.part.rank, self.b.sub(nest.size, 1))
        self.state = Cells(self.b, 8)
        self.range = self._cells(self.kind.ir, 4)
        self.sample = self._cells(self.kind.ir, SAMPLE)

    def run(self) -> None:
        """Finds the key, then writes the groups."""
        b = self.b
        starts: dict[int, Index] = {COUNT: self.nest.size, RANK: self.kth}
        for cell in range(8):
            self.state.set(cell, starts.get(cell, 0))
        self._set_key(LOW, self.one.constant(self.kind.lowest, self.kind))
        self._set_key(HIGH, self.one.constant(self.largest, self.kind))

        def goes_on() -> SSAValue:
            found = b.compare("eq", self.state.get(DONE), 0)
            assert isinstance(found, SSAValue)
            return found

        repeat_while(b, goes_on, self._round)
        self._distribute(self._key(FIRST), self.state.get(LESS), self.state.get(EQUAL))

    # state ----------------------------------------------------------------------------------

    def _cells(self, element: Attribute, count: int) -> SSAValue:
        return self.b.value(
            memref.AllocaOp.create(
                result_types=[buffer_type(element, (count,))],
                properties={
                    "operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0]),
                    "alignment": IntegerAttr(64, i64),
                },
            )
        )

    def _key(self, cell: int) -> SSAValue:
        return self.b.load(self.range, [cell])

    def _set_key(self, cell: int, key: SSAValue) -> None:
        self.b.store(key, self.range, [cell])

    def _window(self, first: SSAValue, last: SSAValue, mode: int | None = None) -> None:
        self._set_key(FIRST, first)
        self._set_key(LAST, last)
        if mode is not None:
            self.state.set(MODE, mode)

    def _step(self, key: SSAValue, by: int) -> SSAValue:
        return self.one.apply(arith.AddiOp, key, self.one.constant(by, self.kind))

    # rounds ---------------------------------------------------------------------------------

    def _round(self) -> None:
        """Narrows the candidates, or ends the search."""
        b, mode = self.b, self.state.get(MODE)
        few = b.compare("le", self.state.get(COUNT), SAMPLE)
        samples = b.both(b.compare("ne", mode, GIVEN), b.compare("ne", mode, HALVED))

        def narrow() -> None:
            b.when(samples, self._choose_from_sample)
            b.when(b.compare("eq", mode, HALVED), self._choose_half)
            self._keep_window()

        either = b.choose(few, 1, b.choose(samples, 1, 0))
        b.when(b.compare("eq", either, 1), partial(self._sort_sample, few))
        b.when(few, self._finish, narrow)

    def _sort_sample(self, few: SSAValue | bool) -> None:
        """All candidates if they are few, else some from every part of them, sorted."""
        b, count = self.b, self.state.get(COUNT)
        filled = b.compare("ne", self.state.get(FILLED), 0)
        step = b.choose(few, 1, b.div(count, SAMPLE))
        largest = self.one.constant(self.largest, self.kind)

        def draw(read: Callable[[Index], SSAValue], j: Index) -> None:
            scattered = b.mul(j, SCATTERING)
            scattered = b.sub(scattered, b.mul(b.div(scattered, PARTS), PARTS))
            place = b.add(b.mul(j, step), b.div(b.mul(scattered, step), PARTS))
            exists = b.compare("lt", place, count)
            assert isinstance(exists, SSAValue)
            b.store(b.pick(exists, lambda: read(place), lambda: largest), self.sample, [j])

        def copy(i: Index) -> None:
            e = self.s.lanes(self.lanes, b.mask(b.sub(count, i), self.lanes))
            key = read_row(e, self.kind, self.s.scratch[0], b.add(self.offset, i))
            assert e.mask is not None
            key = e.select(e.mask, key, e.constant(self.largest, self.kind))
            b.store_vector(key, self.sample, [i], None)

        def of_candidates() -> None:
            drawn = partial(b.loop, 0, SAMPLE, 1, partial(draw, self._candidate))
            b.when(few, lambda: b.loop(0, SAMPLE, self.lanes, copy), drawn)

        of_elements = partial(b.loop, 0, SAMPLE, 1, partial(draw, self._key_at))
        b.when(filled, of_candidates, of_elements)
        e = self.s.lanes(self.lanes)
        places = range(0, SAMPLE, self.lanes)
        keys = [read_row(e, self.kind, self.sample, u) for u in places]
        for u, key in zip(places, sorted_registers(e, keys, signed=True), strict=True):
            write_row(e, key, self.sample, u)

    def _candidate(self, place: Index) -> SSAValue:
        return self.b.load(self.s.scratch[0], [self.b.add(self.offset, place)])

    def _key_at(self, place: Index) -> SSAValue:
        e = self.s.lanes(1)
        return self._key_of(e, self._element(e, Position(place)))

    def _key_of(self, e: Lanes, element: SSAValue) -> SSAValue:
        """Signed integers in the elements' order."""
        return flipped(e, self.nest.keys.of(e, element), self.kind)

    def _element(self, e: Lanes, place: Position) -> SSAValue:
        return e.fetch(self.nest.op.operands[0], (*self.at, place))

    def _choose_from_sample(self) -> None:
        """A window around the rank's place in the sample, or that place's key alone."""
        b = self.b
        middle = b.div(b.mul(self.state.get(RANK), SAMPLE), self.state.get(COUNT))
        one_key = b.compare("eq", self.state.get(MODE), ONE_KEY)
        # a short row is read again sooner than sampled again
        short = b.compare("lt", self.state.get(COUNT), SHORT)
        spread = b.choose(one_key, 0, b.choose(short, SHORT_SPREAD, SPREAD))
        low, high = b.sub(middle, spread), b.add(middle, spread)
        first = b.load(self.sample, [b.max(low, 0)])
        last = b.load(self.sample, [b.min(high, SAMPLE - 1)])
        below, above = b.compare("lt", low, 0), b.compare("ge", high, SAMPLE)
        assert isinstance(below, SSAValue)
        assert isinstance(above, SSAValue)
        self._window(
            self.one.select(below, self._key(LOW), first),
            self.one.select(above, self._key(HIGH), last),
        )

    def _choose_half(self) -> None:
        one, low = self.one, self._key(LOW)
        width = one.apply(arith.SubiOp, self._key(HIGH), low)
        half = one.apply(arith.ShRUIOp, width, one.constant(1, self.kind))
        self._window(low, one.apply(arith.AddiOp, low, half))

    def _keep_window(self) -> None:
        """Keeps the candidates of the window, if the rank is among them; else moves the window."""
        b = self.b
        filled = b.compare("ne", self.state.get(FILLED), 0)
        assert isinstance(filled, SSAValue)
        less, kept = b.pick_all(filled, partial(self._kept, True), partial(self._kept, False))
        rank = self.state.get(RANK)
        first, last = self._key(FIRST), self._key(LAST)
        low, high = self._key(LOW), self._key(HIGH)
        above = b.compare("ge", rank, b.add(less, kept))

        def found() -> None:
            self.state.set(LESS, b.add(b.sub(self.kth, rank), less))
            self.state.set(EQUAL, kept)
            self.state.set(DONE, 1)

        def narrowed() -> None:
            self._copy(kept)
            self.state.set(FILLED, 1)
            self._set_key(LOW, first)
            self._set_key(HIGH, last)
            # the window that excludes a key keeps much at times; two in turn halve the range
            much = b.compare("gt", b.mul(kept, 2), self.state.get(COUNT))
            poor = b.add(self.state.get(POOR), b.choose(much, 1, 0))
            odd = b.compare("eq", b.sub(poor, b.mul(b.div(poor, 2), 2)), 1)
            self.state.set(POOR, poor)
            self.state.set(MODE, b.choose(much, b.choose(odd, ONE_KEY, HALVED), SAMPLED))
            self.state.set(RANK, b.sub(rank, less))
            self.state.set(COUNT, kept)

        def hit() -> None:
            b.when(self.one.compare("eq", first, last, self.kind), found, narrowed)

        b.when(
            b.compare("lt", rank, less),
            lambda: self._window(low, self._step(first, -1), GIVEN),
            lambda: b.when(above, lambda: self._window(self._step(last, 1), high, GIVEN), hit),
        )

    def _kept(self, filled: bool) -> Sequence[SSAValue]:
        """(candidates below the window, those in it), which go to the second array."""
        b, nest = self.b, self.nest
        first, last = self._key(FIRST), self._key(LAST)

        def body(i: Index, mask: SSAValue | None, carried: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(self.lanes, mask)
            if filled:
                key = read_row(e, self.kind, nest.s.scratch[0], b.add(self.offset, i))
            else:
                key = self._key_of(e, self._element(e, Position(i, 1)))
            less = e.compare("lt", key, e.spread(first), self.kind)
            outside = e.apply(arith.OrIOp, less, e.compare("gt", key, e.spread(last), self.kind))
            inside = e.apply(arith.XOrIOp, outside, b.element(True, BOOL, self.lanes))
            if mask is not None:
                less, inside = (e.apply(arith.AndIOp, m, mask) for m in (less, inside))
            below, end = carried
            packed = b.value(vec.CompressOp.of(key, inside))
            b.store_vector(packed, nest.s.scratch[1], [b.add(self.offset, end)], None)
            counts = lanes_on(b, less), lanes_on(b, inside)
            return [b.index(b.add(x, n)) for x, n in zip((below, end), counts, strict=True)]

        zeros = [b.index(0)] * 2
        return vector_loop(
            self.s, 0, self.state.get(COUNT), body, lanes=self.lanes, unroll=1, inits=zeros
        )

    def _copy(self, count: Index) -> None:
        nest = self.nest

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e, place = self.s.lanes(self.lanes, mask), self.b.add(self.offset, i)
            key = read_row(e, self.kind, nest.s.scratch[1], place)
            write_row(e, key, nest.s.scratch[0], place)
            return []

        vector_loop(self.s, 0, count, body, lanes=self.lanes, unroll=1)

    def _finish(self) -> None:
        """The key of the rank among the few that are sorted."""
        b, count, rank = self.b, self.state.get(COUNT), self.state.get(RANK)
        key = b.load(self.sample, [rank])

        def body(j: Index, *carried: SSAValue) -> list[SSAValue]:
            other, one = b.load(self.sample, [j]), self.s.lanes(1)
            hits = (
                one.compare("lt", other, key, self.kind),
                one.compare("eq", other, key, self.kind),
            )
            more = (b.choose(hit, 1, 0) for hit in hits)
            return [b.index(b.add(n, m)) for n, m in zip(carried, more, strict=True)]

        less, equal = b.loop(0, count, 1, body, [b.index(0)] * 2)
        self._window(key, key)
        self.state.set(LESS, b.add(b.sub(self.kth, rank), less))
        self.state.set(EQUAL, equal)
        self.state.set(DONE, 1)

    # groups ---------------------------------------------------------------------------------

    def _distribute(self, key: SSAValue, less: Index, equal: Index) -> None:
        """Every element, or its position, behind those of its group that came before."""
        b, nest = self.b, self.nest
        first = nest.part.keeps_first
        behind = b.add(less, equal)

        def body(i: Index, mask: SSAValue | None, carried: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(self.lanes, mask)
            element = self._element(e, Position(i, 1))
            mine, border = self._key_of(e, element), e.spread(key)
            wanted = ("lt", "eq") if first else ("lt", "eq", "gt")
            groups = [e.compare(predicate, mine, border, self.kind) for predicate in wanted]
            if mask is not None:
                groups = [e.apply(arith.AndIOp, g, mask) for g in groups]
            value, dtype = element, nest.keys.element
            if nest.gives_positions:
                dtype = I64 if self.kind.bytes == 8 else nest.positions  # as wide as keys
                value = e.convert(e.position(Position(i, 1)), I64, dtype)
            result: list[SSAValue] = []
            for number, (group, place) in enumerate(zip(groups, carried, strict=True)):
                count = lanes_on(b, group)
                result.append(b.index(b.add(place, count)))
                if number == 1 and first:
                    count = b.max(0, b.min(count, b.sub(b.add(self.kth, 1), place)))
                write = partial(self._append, value, dtype, group, count, place, ends[number])
                # keys that equal the rank's are few, nearly always
                b.when(b.compare("gt", count, 0) if number == 1 else True, write)
            return result

        ends = (less, b.add(self.kth, 1) if first else behind, nest.size)
        places = [b.index(0), b.index(less), b.index(behind)][: 2 if first else 3]
        vector_loop(self.s, 0, nest.size, body, lanes=self.lanes, unroll=1, inits=places)

    def _append(
        self,
        value: SSAValue,
        dtype: DType,
        group: SSAValue,
        count: Index,
        place: Index,
        end: Index,
    ) -> None:
        """
        Writes the first `count` lanes of a group from a place of the result on. A whole register
        where the group has room for it: what is behind these lanes is written later.
        """
        b, nest = self.b, self.nest
        e = self.s.lanes(self.lanes)
        # 8 and 16 bits are moved by a mask in the width of keys, which every such machine can
        narrow = dtype is BOOL or dtype.bytes < 4
        wide = F32 if dtype.kind == "float" else self.kind
        if narrow:
            value = e.convert(value, dtype, wide)
        packed = b.value(vec.CompressOp.of(value, group))
        if narrow:
            packed = e.convert(packed, wide, dtype)
        elif nest.gives_positions:
            packed = e.convert(packed, dtype, I64)

        def store(mask: SSAValue | None) -> None:
            e = self.s.lanes(self.lanes, mask)
            e.store(packed, nest.s.outputs[0], (*self.at, Position(place, 1)))

        room = b.compare("le", b.add(place, self.lanes), end)
        b.when(room, lambda: store(None), lambda: store(b.mask(count, self.lanes)))
