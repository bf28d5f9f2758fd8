"""
Sorting in order of unsigned keys, stable: blocks sort tiles in shared memory, then runs are merged
two by two until one is left. Every element finds its place in the merged run by a search in the
other one, so nothing depends on which thread comes first.

SOURCE: Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs",
IPDPS 2009; where a block's part of two runs begins: Green, McColl and Bader, "GPU merge path", ICS
2012.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BOOL, I32, DType
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.phase import Phase, Repeated, device_builder
from mlc.lowering.loops.arithmetic import INDEX, NO_OVERFLOW, Index
from mlc.lowering.loops.builder import NOT_UNROLLED, LoopBuilder
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.opaque.sort import as_integer, unsigned

WARP = 32
THREADS = 256
ITEMS = 4  # elements of a thread, THREADS apart
TILE = THREADS * ITEMS  # keys and positions of 8 bytes: 16 of the 48 KiB that a block has
MOST_MERGES = 40  # of runs whose length is known only at run time


class Source(Protocol):
    """Where the keys come from."""

    def enabled(self, b: LoopBuilder) -> Index:
        """1, or 0 where nothing must be read."""
        ...

    def key(self, s: KernelScope, row: Index, i: Index) -> SSAValue:
        """The key of the i-th element of a row."""
        ...


@dataclass(frozen=True)
class Order:
    """What is sorted: unsigned keys, and the positions that they had, if they are wanted."""

    rows: Dim
    length: Dim
    keys: DType
    positions: DType | None

    def scratch(self) -> tuple[Scratch, ...]:
        """Keys, and positions: twice, since runs are merged from one half into the other."""
        count = 2 * self.rows * self.length
        kinds = (self.keys, self.positions)
        return tuple(Scratch(dtype.ir, count) for dtype in kinds if dtype is not None)

    @property
    def in_tile(self) -> bool:
        """Whether every row is known to fit into a tile."""
        length = self.length.constant
        return length is not None and length <= TILE

    @property
    def run(self) -> int:
        """Elements of a row, or of a part of it, in a tile: a power of two."""
        length = self.length.constant
        if length is None or length > TILE:
            return TILE
        return 1 << max(length - 1, 0).bit_length()

    def merges(self, b: LoopBuilder) -> Index:
        """How often runs are merged after tiles are sorted."""
        length = b.dim(self.length)
        if isinstance(length, int):
            return max(-(-length // TILE) - 1, 0).bit_length()
        found: Index = 0
        for count in range(MOST_MERGES):
            longer = b.compare("gt", length, TILE << count)
            found = b.add(found, b.choose(longer, 1, 0))
        return found

    def half(self, b: GpuBuilder, number: Index) -> Index:
        """Where the half of the scratch begins that holds runs merged `number` times."""
        return b.mul(b.rem(number, 2), b.mul(b.dim(self.rows), b.dim(self.length)))

    def grid(self, b: LoopBuilder) -> Grid:
        """A block for each tile of each row."""
        tiles = b.ceil_div(b.dim(self.length), TILE)
        return Grid((b.mul(b.dim(self.rows), tiles), 1, 1), (THREADS, 1, 1))


Place = tuple[Index, Index]
Element = tuple[SSAValue, SSAValue | None]
"""A key and its position."""
Write = Callable[[KernelScope, Index, Index, SSAValue, SSAValue | None], None]
"""(scope, row, place in the row, key, position)"""


@dataclass(frozen=True)
class Search:
    """Among the `length` sorted keys from slot `first` on: which come before `key`.

    `equal`: whether those that are equal to it do.
    """

    first: Index
    length: Index
    key: SSAValue
    equal: SSAValue


def bisected(
    b: GpuBuilder, goes: SSAValue | bool, low: SSAValue, middle: Index, high: SSAValue
) -> list[SSAValue]:
    """The bounds behind the middle, or those up to it; none are left where low = high."""
    following = b.choose(goes, b.add(middle, 1), low)
    end = b.choose(goes, high, b.min(middle, high))
    return [b.index(following), b.index(end)]


class _Tile:
    """The tile of a block in shared memory."""

    def __init__(self, s: KernelScope, order: Order) -> None:
        self.s, self.order = s, order
        self.b: GpuBuilder = device_builder(s)
        self.thread = self.b.thread()
        self.slots = [self.b.add(self.thread, u * THREADS) for u in range(ITEMS)]
        self.keys = self.b.shared(order.keys.ir, (TILE,))
        positions = order.positions
        self.positions = None if positions is None else self.b.shared(positions.ir, (TILE,))

    def put(self, slot: Index, key: SSAValue, position: SSAValue | None) -> None:
        """Writes an element."""
        self.b.store(key, self.keys, [slot])
        if self.positions is not None and position is not None:
            self.b.store(position, self.positions, [slot])

    def get(self, slot: Index) -> Element:
        """An element."""
        key = self.b.load(self.keys, [slot])
        return key, None if self.positions is None else self.b.load(self.positions, [slot])

    def number(self, i: Index) -> SSAValue | None:
        """A place as a position that is carried along."""
        positions = self.order.positions
        return None if positions is None else as_integer(self.s.lanes(1), i, positions)

    def counts(self, searches: Sequence[Search], steps: Index) -> list[Index]:
        """For each search how many of its keys come before its own. `steps`: log2 of a length,
        and one more.

        All go on at once: each step waits for memory.
        """
        b = self.b

        def one(search: Search, low: SSAValue, high: SSAValue) -> list[SSAValue]:
            more = b.compare("lt", low, high)
            middle = b.div(b.add(low, high), 2)
            slot = b.min(b.add(search.first, middle), TILE - 1)
            other = b.load(self.keys, [slot])
            goes = b.both(more, self.before(other, search.key, search.equal))
            return bisected(b, goes, low, middle, high)

        def step(_: Index, *carried: SSAValue) -> list[SSAValue]:
            pairs = zip(searches, carried[::2], carried[1::2], strict=True)
            return [x for search, low, high in pairs for x in one(search, low, high)]

        inits = [b.index(x) for search in searches for x in (0, search.length)]
        return list(b.loop(0, steps, 1, step, inits, NOT_UNROLLED)[::2])

    def before(self, other: SSAValue, mine: SSAValue, equal: SSAValue) -> SSAValue:
        """other < mine, or other <= mine where `equal`."""
        e = self.s.lanes(1)
        same = e.apply(arith.AndIOp, equal, e.compare("eq", other, mine, self.order.keys))
        return e.apply(arith.OrIOp, unsigned(e, "ult", other, mine), same)

    def sort(self) -> None:
        """Sorts each run of the tile: runs of 1, 2, 4, … are merged where they lie."""
        b, width = self.b, self.order.run

        def merge(level: Index) -> None:
            one = shifted(b, 1, level)
            elements = [self.get(slot) for slot in self.slots]
            searches: list[Search] = []
            starts: list[Index] = []
            for slot, (key, _) in zip(self.slots, elements, strict=True):
                run = b.div(slot, one)
                pair = b.mul(b.div(run, 2), 2)
                is_right = b.compare("ne", run, pair)
                assert not isinstance(is_right, bool)
                other = b.mul(b.add(pair, b.choose(is_right, 0, 1)), one)
                searches.append(Search(other, one, key, is_right))
                starts.append(b.add(b.mul(pair, one), b.rem(slot, one)))
            found = self.counts(searches, b.add(level, 1))
            b.barrier()
            for start, count, element in zip(starts, found, elements, strict=True):
                self.put(b.add(start, count), *element)
            b.barrier()

        b.barrier()
        b.loop(0, width.bit_length() - 1, 1, merge)


def shifted(b: GpuBuilder, x: Index, by: Index) -> Index:
    """x * 2^by"""
    if isinstance(x, int) and isinstance(by, int):
        return x << by
    return b.value(
        arith.ShLIOp.create(
            operands=[b.index(x), b.index(by)],
            result_types=[INDEX],
            properties={"overflowFlags": NO_OVERFLOW},
        )
    )


@dataclass(frozen=True)
class TilePhase:
    """Sorts tiles; several rows in one where they are short. `write` gets the sorted elements."""

    order: Order
    source: Source
    write_element: Write

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return THREADS

    def grid(self, b: LoopBuilder) -> Grid:
        """A block for each tile."""
        if not self.order.in_tile:
            blocks = self.order.grid(b).blocks[0]
        else:
            blocks = b.ceil_div(b.dim(self.order.rows), TILE // self.order.run)
            blocks = b.mul(blocks, b.min(b.dim(self.order.length), 1))
        return Grid((b.mul(blocks, self.source.enabled(b)), 1, 1), (THREADS, 1, 1))

    def write(self, s: KernelScope) -> None:
        """Reads keys, sorts, writes."""
        t = _Tile(s, self.order)
        b, e = t.b, s.lanes(1)
        places = [self.place(b, slot) for slot in t.slots]
        last = e.constant(-1, self.order.keys)
        for slot, (row, i) in zip(t.slots, places, strict=True):
            inside = self.exists(b, row, i)
            read = partial(self.source.key, s, row, i)
            key = b.pick(inside, read, lambda: last) if not isinstance(inside, bool) else read()
            t.put(slot, key, t.number(i))
        t.sort()
        for slot, (row, i) in zip(t.slots, places, strict=True):
            finish = partial(self.finish, t, slot, row, i)
            b.when(self.exists(b, row, i), finish)

    def place(self, b: GpuBuilder, slot: Index) -> Place:
        """The row and the place in it that a slot stands for."""
        if not self.order.in_tile:
            tiles = b.ceil_div(b.dim(self.order.length), TILE)
            row, tile = b.split(b.block_number(), [b.dim(self.order.rows), tiles])
            return row, b.add(b.mul(tile, TILE), slot)
        run = self.order.run
        row = b.add(b.mul(b.block_number(), TILE // run), b.div(slot, run))
        return row, b.rem(slot, run)

    def exists(self, b: GpuBuilder, row: Index, i: Index) -> SSAValue | bool:
        """Whether a slot stands for an element."""
        inside = b.compare("lt", i, b.dim(self.order.length))
        return b.both(inside, b.compare("lt", row, b.dim(self.order.rows)))

    def finish(self, t: _Tile, slot: Index, row: Index, i: Index) -> None:
        """Hands on what is sorted into a slot; what does not exist comes last in its run."""
        key, position = t.get(slot)
        self.write_element(t.s, row, i, key, position)


def keep(order: Order, s: KernelScope, row: Index, i: Index, *values: SSAValue | None) -> None:
    """Writes an element into the first half of the scratch."""
    at = s.b.add(s.b.mul(row, s.b.dim(order.length)), i)
    for memory, value in zip(s.scratch, values, strict=False):
        if value is not None:
            s.b.store(value, memory, [at])


@dataclass(frozen=True)
class MergePhase(Repeated):
    """Merges runs two by two; a block writes a tile of the result."""

    order: Order

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return THREADS

    def times(self, b: LoopBuilder) -> Index:
        """Until one run is left."""
        return self.order.merges(b)

    def grid(self, b: LoopBuilder) -> Grid:
        """A block for each tile."""
        return self.order.grid(b)

    def write(self, s: KernelScope) -> None:
        """Finds the parts of two runs that make this tile, and merges them."""
        t = _Tile(s, self.order)
        b, length = t.b, t.b.dim(self.order.length)
        row, tile = b.split(b.block_number(), [b.dim(self.order.rows), b.ceil_div(length, TILE)])
        width = shifted(b, TILE, s.number)
        source = b.add(self.order.half(b, s.number), b.mul(row, length))
        target = b.add(self.order.half(b, b.add(s.number, 1)), b.mul(row, length))
        start = b.mul(tile, TILE)
        base = b.mul(b.div(start, b.mul(width, 2)), b.mul(width, 2))
        lefts = b.min(width, b.sub(length, base))
        rights = b.max(b.min(width, b.sub(b.sub(length, base), width)), 0)
        low = b.sub(start, base)
        high = b.min(b.add(low, TILE), b.add(lefts, rights))
        left, right = b.add(source, base), b.add(b.add(source, base), width)
        first, last = self._cut(t, left, right, (lefts, rights), (low, high))
        mine, count = b.sub(last, first), b.sub(high, low)
        for slot in t.slots:
            at = b.choose(
                b.compare("lt", slot, mine),
                b.add(b.add(left, first), slot),
                b.add(b.add(right, b.sub(low, first)), b.sub(slot, mine)),
            )

            def read(slot: Index = slot, at: Index = at) -> None:
                values = [b.load(memory, [at]) for memory in s.scratch]
                t.put(slot, values[0], values[1] if len(values) > 1 else None)

            b.when(b.compare("lt", slot, count), read)
        b.barrier()
        self._write(t, mine, count, b.add(b.add(target, base), low))

    def _cut(
        self, t: _Tile, left: Index, right: Index, sizes: Place, ends: Place
    ) -> tuple[Index, Index]:
        """How many elements of the left run are among the first of the merged one, for both ends.

        The lanes of a warp look at as many places at once, for both ends: each step waits for
        memory, and there are a fifth of those of a bisection.
        """
        b, keys = t.b, t.s.scratch[0]
        lefts, rights = sizes
        always = t.s.lanes(1).constant(True, BOOL)

        lane = b.rem(t.thread, WARP)

        def one(end: Index, low: SSAValue, high: SSAValue) -> list[SSAValue]:
            size = b.sub(high, low)

            def probe(k: Index) -> Index:
                return b.add(low, b.div(b.mul(k, size), WARP))

            middle = probe(lane)
            mine = b.min(middle, b.max(b.sub(lefts, 1), 0))
            other = b.max(b.min(b.sub(b.sub(end, 1), middle), b.sub(rights, 1)), 0)
            x = b.load(keys, [b.add(left, mine)])
            there = b.compare("gt", rights, 0)  # else nothing is searched for
            y = b.load(keys, [b.choose(there, b.add(right, other), left)])
            goes = b.both(b.compare("lt", low, high), t.before(x, y, always))
            count = self._lanes_of(t, goes)
            after = b.choose(b.compare("gt", count, 0), b.add(probe(b.sub(count, 1)), 1), low)
            end = b.choose(b.compare("lt", count, WARP), probe(count), high)
            return [b.index(after), b.index(end)]

        def step(_: Index, *carried: SSAValue) -> list[SSAValue]:
            return [*one(ends[0], *carried[:2]), *one(ends[1], *carried[2:])]

        bounds = [(b.max(b.sub(end, rights), 0), b.min(end, lefts)) for end in ends]
        steps = b.add(b.div(b.add(t.s.number, TILE.bit_length()), WARP.bit_length() - 1), 2)
        inits = [b.index(x) for pair in bounds for x in pair]
        found = b.loop(0, steps, 1, step, inits, NOT_UNROLLED)
        return found[0], found[2]

    def _lanes_of(self, t: _Tile, condition: SSAValue | bool) -> Index:
        """How many lanes of the warp a condition holds for."""
        b, e = t.b, t.s.lanes(1)
        one, zero = e.constant(1, I32), e.constant(0, I32)
        if isinstance(condition, bool):
            return WARP if condition else 0
        count, offset = e.select(condition, one, zero), WARP // 2
        while offset:
            count = e.apply(arith.AddiOp, count, b.shuffle("xor", count, offset))
            offset //= 2
        return b.value(arith.IndexCastOp.create(operands=[count], result_types=[INDEX]))

    def _write(self, t: _Tile, mine: Index, count: Index, target: Index) -> None:
        """Writes the elements of the tile, `mine` of them from the left run, where they belong."""
        b = t.b
        elements = [t.get(slot) for slot in t.slots]
        searches: list[Search] = []
        for slot, (key, _) in zip(t.slots, elements, strict=True):
            is_right = b.compare("ge", slot, mine)
            assert not isinstance(is_right, bool)
            length = b.choose(is_right, mine, b.sub(count, mine))
            searches.append(Search(b.choose(is_right, 0, mine), length, key, is_right))
        found = t.counts(searches, TILE.bit_length())
        for slot, search, place, element in zip(t.slots, searches, found, elements, strict=True):
            own = b.choose(search.equal, b.sub(slot, mine), slot)
            at = b.add(target, b.add(own, place))

            def store(at: Index = at, element: Element = element) -> None:
                for memory, value in zip(t.s.scratch, element, strict=False):
                    assert value is not None
                    b.store(value, memory, [at])

            b.when(b.compare("lt", slot, count), store)


def sorting_phases(order: Order, source: Source) -> tuple[Phase, ...]:
    """Keys, and positions, in order in the scratch: see `Order.half`."""
    tiles = TilePhase(order, source, partial(keep, order))
    return (tiles,) if order.in_tile else (tiles, MergePhase(order))
