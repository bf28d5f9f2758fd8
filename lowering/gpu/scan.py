"""
Running reductions. Lines are cut into chunks until there is work for the whole device: first the
state of each chunk, then what comes before each, then every element. Along the last axis a block
scans a chunk tile by tile, else a thread walks down each chunk.

The order in which states are combined depends on sizes alone (D1). SOURCE: Blelloch, "Prefix sums
and their applications", CMU-CS-90-190, 1990; the warp's part is Hillis and Steele, CACM 29(12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.monoid import State
from mlc.dialects.tensor.scan import ScanOp
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.phase import Phase, Work, device_builder, line_of, shared_line
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.opaque.scan import ScanNest

WARP = 32
THREADS = 256
WARPS = THREADS // WARP
BLOCKS = 1024  # chunks of rows that are wanted: about eight for each SM of an H200
WALKERS = 1 << 17  # chunks of columns that are wanted: about a thousand threads for each SM
READ_AHEAD = 8  # elements of a column that are under way at once
LEAST_ROWS = 32  # of a chunk of a column: its state is one access more for so many


@dataclass(frozen=True)
class Cut:
    """How the lines of a scan are cut; computed by the entry and by kernels alike."""

    lines: Index
    length: Index
    each: Index  # elements of a chunk, but for the last
    chunks: Index  # of a line


def in_rows(op: ScanOp) -> bool:
    """Whether neighbours on the scanned axis are neighbours in memory."""
    return all(size == Dim.const(1) for size in op.shape[op.axis.value.data + 1 :])


def cut_of(b: LoopBuilder, op: ScanOp, lanes: int) -> Cut:
    """As few chunks as keep the device busy; a chunk is whole tiles, so that vectors fit."""
    axis = op.axis.value.data
    length = b.dim(op.shape[axis])
    lines = b.product([b.dim(d) for k, d in enumerate(op.shape) if k != axis])
    wanted, grain = (BLOCKS, THREADS * lanes) if in_rows(op) else (WALKERS, LEAST_ROWS)
    share = b.ceil_div(wanted, b.max(lines, 1))
    parts = b.max(b.min(share, b.ceil_div(length, grain)), 1)
    each = b.max(b.round_up(b.ceil_div(length, parts), grain), grain)
    return Cut(lines, length, each, b.ceil_div(length, each))


def scan_work(op: ScanOp, schedule: Schedule) -> Work:
    """The phases of a scan; the first two where lines may be cut."""
    lanes = schedule.lanes if op.axis.value.data == len(op.shape) - 1 else 1
    last = FinalPhase(op, lanes)
    if all(size.constant is not None for size in op.shape):
        chunks = cut_of(LoopBuilder(Block()), op, lanes).chunks
        if isinstance(chunks, int) and chunks <= 1:
            return Work((last,))
    most = 2 * (BLOCKS if in_rows(op) else WALKERS)  # lines x chunks, where there are chunks
    states = op.combiner().state(op.dtype)
    scratch = tuple(Scratch(memory_type(dtype), Dim.const(most)) for dtype in states)
    phases: tuple[Phase, ...] = (TotalPhase(op, lanes), CarryPhase(op, lanes), last)
    return Work(phases, scratch)


class _Scan(ScanNest):
    """A scan's pieces, for the threads of a block."""

    def __init__(self, s: KernelScope, lanes: int) -> None:
        super().__init__(s)
        self.lanes = lanes
        self.g: GpuBuilder = device_builder(s)
        self.cut = cut_of(self.g, self.op, self.lanes)
        self.is_cut = self.g.compare("gt", self.cut.chunks, 1)
        self.thread = self.g.thread()

    # places -----------------------------------------------------------------------------------

    def line(self, number: Index) -> dict[int, Position]:
        """The fixed positions of a line."""
        axes = [k for k in range(self.last + 1) if k != self.axis]
        places = self.g.split(number, [self.sizes[k] for k in axes])
        return dict(zip(axes, map(Position, places), strict=True))

    def place(self, at: dict[int, Position], i: Index, lanes: int = 1) -> dict[int, Position]:
        """The point of the i-th element that is met, or of `lanes` from the i-th on."""
        if self.op.is_backward:
            i = self.g.sub(self.g.sub(self.cut.length, lanes), i)
        return {**at, self.axis: Position(i, 1 if lanes > 1 else 0)}

    def chunk(self, number: Index) -> tuple[Index, Index]:
        """[first, end) of a chunk in the order in which elements are met."""
        first = self.g.mul(number, self.cut.each)
        return first, self.g.min(self.g.add(first, self.cut.each), self.cut.length)

    # elements ---------------------------------------------------------------------------------

    def one(self, at: dict[int, Position], i: Index) -> State:
        """The state of the i-th element alone."""
        return self.element(self.s.lanes(1), self.place(at, i))[1]

    def several(self, at: dict[int, Position], first: Index, end: Index) -> list[State]:
        """The states of this thread's elements of a tile; neutral from `end` on."""
        lanes, found = self.lanes, list[State]()
        for u in range(lanes):
            i = self.g.add(first, u)
            value = self.one(at, self.g.min(i, self.g.sub(end, 1)))
            found.append(self.unless(self.g.compare("lt", i, end), value))
        return found

    def together(self, at: dict[int, Position], first: Index) -> list[State]:
        """As `several`, in a tile that is full: one access."""
        if self.lanes == 1:
            return [self.one(at, first)]
        _, wide = self.element(self.s.lanes(self.lanes), self.place(at, first, self.lanes))
        return [tuple(self._lane(x, lane) for x in wide) for lane in self.order()]

    def order(self) -> list[int]:
        """The lanes of an access in the order in which they are met."""
        lanes = range(self.lanes)
        return list(reversed(lanes)) if self.op.is_backward else list(lanes)

    def unless(self, inside: SSAValue | bool, state: State) -> State:
        """The state, or the neutral one."""
        if isinstance(inside, bool):
            return state if inside else self.neutral(1)
        e = self.s.lanes(1)
        pairs = zip(state, self.neutral(1), strict=True)
        return tuple(e.select(inside, x, n) for x, n in pairs)

    def tile(self, at: dict[int, Position], start: Index, end: Index) -> list[State]:
        """The states of this thread's elements of the tile that begins at `start`."""
        b, width = self.g, len(self.states)
        first = b.add(start, b.mul(self.thread, self.lanes))
        full = b.compare("le", b.add(start, THREADS * self.lanes), end)
        if isinstance(full, bool):
            return self.together(at, first) if full else self.several(at, first, end)
        flat = b.pick_all(
            full,
            lambda: [x for state in self.together(at, first) for x in state],
            lambda: [x for state in self.several(at, first, end) for x in state],
        )
        return [tuple(flat[k : k + width]) for k in range(0, len(flat), width)]

    # a block ----------------------------------------------------------------------------------

    def fold(self, states: Sequence[State], start: State) -> State:
        """All states after `start`."""
        e = self.s.lanes(1)
        for state in states:
            start = self.combine(e, start, state)
        return start

    def across(self, mine: State) -> tuple[State, State]:
        """What the threads before this one hold together, and what all of the block hold."""
        b, neutral = self.g, self.neutral(1)
        warp = b.div(self.thread, WARP)
        lane = b.rem(self.thread, WARP)
        distance = 1
        while distance < WARP:
            other = tuple(b.shuffle("up", x, distance) for x in mine)
            joined = self.combine(self.s.lanes(1), other, mine)
            has = b.compare("ge", lane, distance)
            assert not isinstance(has, bool)
            e = self.s.lanes(1)
            mine = tuple(e.select(has, x, y) for x, y in zip(joined, mine, strict=True))
            distance *= 2
        before = tuple(b.shuffle("up", x, 1) for x in mine)
        before = self.unless(b.compare("gt", lane, 0), before)
        cells = [shared_line(b, dtype, WARPS) for dtype in self.states]

        def put() -> None:
            e = self.s.lanes(1)
            for cell, value in zip(cells, mine, strict=True):
                e.store(value, cell, (Position(warp),))

        b.when(b.compare("eq", lane, WARP - 1), put)
        b.barrier()
        e = self.s.lanes(1)
        total, ahead = neutral, neutral
        for w in range(WARPS):
            here = b.compare("eq", warp, w)
            assert not isinstance(here, bool)
            ahead = tuple(e.select(here, x, y) for x, y in zip(total, ahead, strict=True))
            held = tuple(e.load(cell, (Position(w),)) for cell in cells)
            total = self.combine(e, total, held)
        b.barrier()  # the cells are written again for the next tile
        return self.combine(e, ahead, before), total

    # scratch ----------------------------------------------------------------------------------

    def load_state(self, number: Index) -> State:
        """What the scratch holds for a chunk."""
        e = self.s.lanes(1)
        return tuple(
            e.load(line_of(memory, dtype, 0), (Position(number),))
            for memory, dtype in zip(self.s.scratch, self.states, strict=True)
        )

    def store_state(self, number: Index, state: State) -> None:
        """Writes what the scratch holds for a chunk."""
        e = self.s.lanes(1)
        for memory, dtype, value in zip(self.s.scratch, self.states, state, strict=True):
            e.store(value, line_of(memory, dtype, 0), (Position(number),))

    def before_chunk(self, number: Index) -> Sequence[SSAValue]:
        """What comes before a chunk."""
        if not self.s.scratch:
            return self.start(1)
        if isinstance(self.is_cut, bool):
            return self.load_state(number) if self.is_cut else self.start(1)
        return self.g.pick_all(self.is_cut, lambda: self.load_state(number), lambda: self.start(1))

    # results ----------------------------------------------------------------------------------

    def results(self, states: Sequence[State], before: State) -> list[SSAValue]:
        """The results of adjacent elements."""
        e, found = self.s.lanes(1), list[SSAValue]()
        for state in states:
            after = self.combine(e, before, state)
            found.append(self.monoid.finalise(e, before if self.op.is_exclusive else after))
            before = after
        return found

    def write_tile(
        self, at: dict[int, Position], start: Index, end: Index, values: Sequence[SSAValue]
    ) -> None:
        """This thread's results of a tile."""
        b, lanes = self.g, self.lanes
        first = b.add(start, b.mul(self.thread, lanes))
        output = self.s.outputs[0]

        def point(i: Index, count: int) -> tuple[Position, ...]:
            here = self.place(at, i, count)
            return tuple(here[k] for k in range(self.last + 1))

        def together() -> None:
            if lanes == 1:
                self.s.lanes(1).store(values[0], output, point(first, 1))
                return
            wide = _joined(b, [values[u] for u in self.order()])
            self.s.lanes(lanes).store(wide, output, point(first, lanes))

        def apart() -> None:
            for u, value in enumerate(values):
                i = b.add(first, u)

                def store(i: Index = i, value: SSAValue = value) -> None:
                    self.s.lanes(1).store(value, output, point(i, 1))

                b.when(b.compare("lt", i, end), store)

        b.when(b.compare("le", b.add(start, THREADS * lanes), end), together, apart)


def _joined(b: GpuBuilder, values: Sequence[SSAValue]) -> SSAValue:
    """Single values as the lanes of one register."""
    found = b.element(0, dtype_of(values[0].type), len(values))
    for lane, value in enumerate(values):
        found = b.with_lane(found, lane, value)
    return found


@dataclass(frozen=True)
class _ScanPhase:
    """What the phases have in common."""

    op: ScanOp
    lanes: int

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return THREADS

    def grid_of(self, b: LoopBuilder, *, always: bool) -> Grid:
        """A block for each chunk of a row, a thread for each chunk of a column."""
        cut = cut_of(b, self.op, self.lanes)
        blocks = b.mul(cut.lines, cut.chunks)
        if not in_rows(self.op):
            blocks = b.ceil_div(blocks, THREADS)
        if not always:
            blocks = b.choose(b.compare("gt", cut.chunks, 1), blocks, 0)
        return Grid((blocks, 1, 1), (THREADS, 1, 1))


class TotalPhase(_ScanPhase):
    """The state of each chunk, where lines are cut."""

    def grid(self, b: LoopBuilder) -> Grid:
        """Nothing where lines are whole."""
        return self.grid_of(b, always=False)

    def write(self, s: KernelScope) -> None:
        """One chunk."""
        r = _Scan(s, self.lanes)
        b = r.g
        if not in_rows(self.op):
            _each_column(r, self._column)
            return
        number = b.block_number()
        line, chunk = b.split(number, [r.cut.lines, r.cut.chunks])
        at, (first, end) = r.line(line), r.chunk(chunk)

        def tile(start: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            return r.fold(r.tile(at, start, end), carried)

        mine = b.loop(first, end, THREADS * r.lanes, tile, r.neutral(1))
        _, total = r.across(mine)
        b.when(b.compare("eq", r.thread, 0), lambda: r.store_state(number, total))

    def _column(self, r: _Scan, line: Index, chunk: Index) -> None:
        at, (first, end) = r.line(line), r.chunk(chunk)

        def meet(_: tuple[Position, ...], state: State, carried: State) -> State:
            return r.fold([state], carried)

        total = _down(r, at, (first, end), meet, r.neutral(1))
        r.store_state(r.g.add(r.g.mul(line, r.cut.chunks), chunk), total)


class CarryPhase(_ScanPhase):
    """What comes before each chunk: a block for each line."""

    def grid(self, b: LoopBuilder) -> Grid:
        """Nothing where lines are whole."""
        cut = cut_of(b, self.op, self.lanes)
        blocks = b.choose(b.compare("gt", cut.chunks, 1), cut.lines, 0)
        return Grid((blocks, 1, 1), (THREADS, 1, 1))

    def write(self, s: KernelScope) -> None:
        """The chunks of a line, so many at a time as there are threads."""
        r = _Scan(s, self.lanes)
        b = r.g
        first = b.mul(b.block_number(), r.cut.chunks)

        def tile(start: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            chunk = b.add(start, r.thread)
            inside = b.compare("lt", chunk, r.cut.chunks)
            place = b.add(first, b.min(chunk, b.sub(r.cut.chunks, 1)))
            before, total = r.across(r.unless(inside, r.load_state(place)))
            ahead = r.combine(r.s.lanes(1), carried, before)
            b.when(inside, lambda: r.store_state(place, ahead))
            return r.combine(r.s.lanes(1), carried, total)

        b.loop(0, r.cut.chunks, THREADS, tile, r.start(1))


class FinalPhase(_ScanPhase):
    """The results."""

    def grid(self, b: LoopBuilder) -> Grid:
        """All chunks."""
        return self.grid_of(b, always=True)

    def write(self, s: KernelScope) -> None:
        """One chunk."""
        r = _Scan(s, self.lanes)
        b = r.g
        if not in_rows(self.op):
            _each_column(r, self._column)
            return
        number = b.block_number()
        line, chunk = b.split(number, [r.cut.lines, r.cut.chunks])
        at, (first, end) = r.line(line), r.chunk(chunk)

        def tile(start: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            states = r.tile(at, start, end)
            before, total = r.across(r.fold(states[1:], states[0]))
            ahead = r.combine(r.s.lanes(1), carried, before)
            r.write_tile(at, start, end, r.results(states, ahead))
            return r.combine(r.s.lanes(1), carried, total)

        b.loop(first, end, THREADS * r.lanes, tile, r.before_chunk(number))

    def _column(self, r: _Scan, line: Index, chunk: Index) -> None:
        at, (first, end) = r.line(line), r.chunk(chunk)

        def meet(point: tuple[Position, ...], state: State, carried: State) -> State:
            e = r.s.lanes(1)
            after = r.combine(e, carried, state)
            r.store(e, point, carried if r.op.is_exclusive else after)
            return after

        number = r.g.add(r.g.mul(line, r.cut.chunks), chunk)
        _down(r, at, (first, end), meet, r.before_chunk(number))


def _down(
    r: _Scan,
    at: dict[int, Position],
    ends: tuple[Index, Index],
    meet: Callable[[tuple[Position, ...], State, State], State],
    start: Sequence[SSAValue],
) -> State:
    """`meet(point, state, carried)` for the elements of a column, one after the other.

    Several are read before the first is used: a thread waits for memory once for all of them.
    """
    b, (first, end) = r.g, ends

    def trip(count: int, i: Index, *carried: SSAValue) -> Sequence[SSAValue]:
        read = [r.element(r.s.lanes(1), r.place(at, b.add(i, u))) for u in range(count)]
        for point, state in read:
            carried = meet(point, state, carried)
        return carried

    whole = b.mul(b.div(b.sub(end, first), READ_AHEAD), READ_AHEAD)
    middle = b.add(first, whole)
    carried = b.loop(first, middle, READ_AHEAD, partial(trip, READ_AHEAD), start)
    return b.loop(middle, end, 1, partial(trip, 1), carried)


def _each_column(r: _Scan, body: Callable[[_Scan, Index, Index], None]) -> None:
    """`body(line, chunk)` for this thread; neighbours take neighbouring lines."""
    b = r.g
    number = b.add(b.mul(b.block_number(), THREADS), r.thread)
    chunk, line = b.split(number, [r.cut.chunks, r.cut.lines])
    inside = b.compare("lt", number, b.mul(r.cut.lines, r.cut.chunks))
    b.when(inside, lambda: body(r, line, chunk))
