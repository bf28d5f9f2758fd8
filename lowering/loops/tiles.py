"""
Tile loops: one parallel region over tiles, in which kernels run as phases on the thread they are
called from.

Each thread has a private area of the arena: its slots, then the scratch of its phases. What trips
fold is computed in chunks, whose number depends on sizes only; each leaves a partial state in the
arena, and the caller combines them in order (D1).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import par
from mlc.dialects.analysis.aliases import is_unwritten
from mlc.dialects.analysis.shares import DYNAMIC
from mlc.dialects.dims import Dim, as_tensor, product, shape_of, tensor_type
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.errors import PlanError
from mlc.dialects.plan import BufferAttr, KernelOp
from mlc.dialects.tensor.monoid import MONOIDS, Monoid
from mlc.dialects.tensor.tile import TileOp, is_dense, tile_in
from mlc.dialects.tensor.tiles import TilesOp, enclosing_tiles
from mlc.dialects.tile.kernel import CallOp
from mlc.dialects.tile.shares import MOST_CHUNKS, MOST_PARTIAL_BYTES
from mlc.lowering.loops import memory
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.builder import item_bytes, memory_type
from mlc.lowering.loops.control import ControlLowering, Location, Thread
from mlc.lowering.loops.element import Lanes

ALIGNMENT = 64  # bytes; a cache line
VECTOR = 64  # bytes; the widest of any machine


class TilesLowering(ControlLowering):
    """The part of the entry's lowering that knows tile loops."""

    positions: dict[SSAValue, Index]
    tile_places: dict[TilesOp, list[Location]]

    @abstractmethod
    def _slots(self, name: str) -> tuple[list[Index], Index]:
        """Where each slot of the function's attribute begins, and bytes of all."""

    @abstractmethod
    def _most_scratch(self, kernels: Iterable[KernelOp | CallOp]) -> Index:
        """Bytes of scratch that serve each of the kernels in turn."""

    def _reserve_for_tiles(self, total: Index) -> Index:
        """Lays out what tile loops need behind `total` bytes: the threads' areas, and partials."""
        b = self.b
        loops = [op for op in self.function.walk() if isinstance(op, TilesOp) and op.spreads]
        if not loops:
            return total
        self.private_slots, self.private_scratch = self._slots("mlc.private")
        phases = [k for op in loops for k in op.walk() if isinstance(k, KernelOp | CallOp)]
        self.private_bytes = b.add(self.private_scratch, self._most_scratch(phases))
        self.private_at = total
        self.partials_at = b.add(total, b.mul(self.private_bytes, self._available()))
        folding = [op for op in loops if op.folds and op.parts is None]
        sizes = [b.mul(self._offsets(op)[1], self._chunks(op)) for op in folding]
        return b.add(self.partials_at, self._largest(sizes))

    # tiles --------------------------------------------------------------------------------------

    def _tile(self, op: TileOp) -> None:
        """The part of a buffer lies in it."""
        begins = [self._position(x) for x in op.positions]
        home = self.homes[op.x]
        self.homes[op.result] = self._part(home, op.x.type, op.along, begins, op.result.type)

    def _position(self, value: SSAValue) -> Index:
        """A position, as an index."""
        known = self.positions.get(value)
        if known is not None:
            return known
        loaded = self.b.load(self.homes[value].base, [0])
        return self.b.value(arith.IndexCastOp.create(operands=[loaded], result_types=[INDEX]))

    def _part(
        self,
        home: Location,
        whole: Attribute,
        axes: Sequence[int],
        at: Sequence[Index],
        kind: Attribute,
    ) -> Location:
        """Where the part of a tensor lies that begins at positions on some axes."""
        b, shape = self.b, shape_of(whole)
        strides = home.strides
        if strides is None:
            strides = tuple(b.dim(product(shape[k + 1 :])) for k in range(len(shape)))
        offset: Index = 0
        for axis, position in zip(axes, at, strict=False):
            if axis >= 0:
                offset = b.add(offset, b.mul(position, strides[axis]))
        dense = home.strides is None and is_dense(shape, shape_of(kind))
        base_type = self._base_type(kind, not dense)
        sizes = [] if base_type.has_static_shape() else [b.index(b.dim(product(shape_of(kind))))]
        base = b.value(par.ShiftOp.of(home.base, b.index(offset), sizes, base_type))
        return Location(base, None if dense else strides)

    def _tile_place(self, op: Operation, k: int) -> Location:
        return self.tile_places[next(enclosing_tiles(op))][k]

    # loops --------------------------------------------------------------------------------------

    def _tiles(self, op: TilesOp) -> None:
        for k, value in enumerate(op.own):
            self.homes[value] = self._own_home(op, k)
        if op.spreads:
            self._spread(op)
            return

        def trip(index: Index, *parts: SSAValue) -> list[SSAValue]:
            self._bind(op.carried, parts)
            self._trip(op, index)
            self._turn()
            return self._all_parts(op.next, op.carried)

        if op.meeting:
            self.b.loop(0, self._rounds(op), 1, partial(self._round, op))
            return
        inits = self._all_parts(op.inits, op.carried)
        results = self.b.loop(0, self._trips(op), 1, trip, inits)
        self._bind(op.results[op.first_carried :], results)

    def _buffers(self, op: TilesOp) -> list[BufferAttr]:
        found = op.attributes.get("buffers")
        if not isinstance(found, ArrayAttr):
            raise PlanError("plan to loops: a tile loop has no buffers: run mlc-plan-buffers")
        return [x for x in cast("ArrayAttr[Attribute]", found) if isinstance(x, BufferAttr)]

    def _own_home(self, op: TilesOp, k: int) -> Location:
        """Where a result lies that has memory of its own."""
        place, (number, *_) = self._buffers(op)[k].data
        if place == "out":
            return Location(self.outputs[number])
        if place == "tile":
            return self._tile_place(op, number)
        slots = self.private if place == "private" else self.slots
        return Location(self._arena(slots[number], op.own[k].type))

    def _counts(self, op: TilesOp) -> list[Index]:
        """Tiles along each loop axis."""
        b = self.b
        sizes = zip(op.extents, op.steps, strict=True)
        return [b.ceil_div(b.dim(extent), step) for extent, step in sizes]

    def _trips(self, op: TilesOp) -> Index:
        return self.b.product(self._counts(op))

    def _rounds(self, op: TilesOp) -> Index:
        """Trips that may run at the same time, or as many rounds of trips that meet."""
        return self.b.product(self._counts(op)[: op.shared_axes])

    def _begins(self, op: TilesOp, index: Index, axes: int) -> list[Index]:
        """Where a tile begins on the first axes, the last of which moves fastest, and its sizes."""
        b, counts = self.b, self._counts(op)
        at: list[Index] = []
        for k in reversed(range(axes)):
            rest = b.div(index, counts[k]) if k else 0
            begin = b.mul(b.sub(index, b.mul(rest, counts[k])), op.steps[k])
            index = rest
            at.insert(0, begin)
            if name := op.symbols[k]:
                size = b.min(b.sub(b.dim(op.extents[k]), begin), op.steps[k])
                b.symbols[name] = b.index(size)  # a value: types have no number for it
        return at

    def _trip(self, op: TilesOp, index: Index) -> None:
        """One tile."""
        b = self.b
        outer = dict(b.symbols)
        at = self._begins(op, index, len(op.steps))
        for position, begin in zip(op.positions, at, strict=True):
            self.positions[position] = begin
            if any(not isinstance(use.operation, TileOp) for use in position.uses):
                self.homes[position] = Location(self._trip_number(begin))
        self.tile_places[op] = [
            self._part(self.homes[x], x.type, op.axes[k], at, op.tile_type(k))
            for k, x in enumerate(op.placed)
        ]
        for k, value in zip(op.meeting, op.so_far, strict=True):
            place = self.homes[value] = self.tile_places[op][k]
            self.standing[self.places.group(value)] = place
        self._block(op.body.block)
        b.symbols = outer

    def _spread(self, op: TilesOp) -> None:
        """Threads share the trips, or the chunks of them that are folded."""
        loads = self._loads(op)
        if self.team is None:
            self.b.region(self.context, self._workers([op]), partial(self._share, op, loads))
            if op.parts is None:
                self._combine(op)
            self._check()
            return
        self._share(op, loads, *self.team)
        if op.folds and op.parts is None:
            self._wait()
            self._alone(partial(self._combine, op))

    def _share(self, op: TilesOp, loads: Index, worker: SSAValue, workers: SSAValue) -> None:
        """What one worker does of a tile loop."""
        b = self.b
        pieces = self._chunks(op) if op.folds else self._rounds(op)
        count = b.min(workers, b.max(b.min(loads, pieces), 1))
        base = b.add(self.private_at, b.mul(worker, self.private_bytes))
        self.private = [b.add(base, offset) for offset in self.private_slots]
        self.thread = Thread(b.add(base, self.private_scratch))
        run = partial(self._chunk if op.folds else self._round if op.meeting else self._trip, op)

        def polled(i: Index) -> None:
            self._unless_cancelled(partial(run, i))

        if DYNAMIC in op.attributes:
            b.wait(self.context, worker, workers)
            b.take(self.context, pieces, worker, count, polled)
        else:
            each = b.ceil_div(pieces, count)
            low = b.min(b.mul(worker, each), pieces)
            b.loop(low, b.min(b.add(low, each), pieces), 1, polled)
        self.thread = None

    # trips that meet ----------------------------------------------------------------------------

    def _round(self, op: TilesOp, number: Index) -> None:
        """
        The trips that have one position on the axes of all results: from the monoids' identities,
        one after another.
        """
        b, shared = self.b, op.shared_axes
        outer = dict(b.symbols)
        at = self._begins(op, number, shared)
        for k in op.meeting:
            whole, axes = op.placed[k], op.axes[k][:shared]
            kind = tile_in(whole.type, axes, [op.tile_dim(n) for n in range(shared)])
            part = self._part(self.homes[whole], whole.type, axes, at, kind)
            self._put_neutral(op, part, kind, MONOIDS[op.monoids[k]])
        b.symbols = outer
        inside = b.product(self._counts(op)[shared:])
        first = b.mul(number, inside)

        def trip(i: Index) -> None:
            self._unless_cancelled(partial(self._trip, op, b.add(first, i)))

        b.loop(0, inside, 1, trip)

    def _put_neutral(self, op: TilesOp, place: Location, kind: Attribute, monoid: Monoid) -> None:
        """Writes the identity to a part of a result."""
        shape, strides = shape_of(kind), place.strides
        long = [k for k, n in enumerate(shape) if n != Dim.const(1)]
        if strides is None or all(k == long[-1] and strides[k] == 1 for k in long):
            self._fill(op, self._flat(place.base, kind), kind, monoid)
            return
        axis, size = long[0], shape[long[0]]
        row = tile_in(kind, (axis,), [Dim.const(1)])

        def one(i: Index) -> None:
            self._put_neutral(op, self._part(place, kind, (axis,), [i], row), row, monoid)

        self.b.loop(0, self.b.dim(size), 1, one)

    # folds --------------------------------------------------------------------------------------

    def _offsets(self, op: TilesOp) -> tuple[list[Index], Index]:
        """Where each carried value lies in a chunk's partial state, and bytes of all."""
        b, found = self.b, list[Index]()
        total: Index = 0
        for x in op.inits:
            found.append(total)
            item = item_bytes(memory_type(dtype_of(as_tensor(x.type).element_type)))
            total = b.add(total, b.round_up(b.dim(product(shape_of(x.type)) * item), ALIGNMENT))
        return found, total

    def _chunks(self, op: TilesOp) -> Index:
        """How many, by sizes alone."""
        b = self.b
        if op.parts is not None:
            return op.parts.value.data
        fits = b.div(MOST_PARTIAL_BYTES, b.max(self._offsets(op)[1], 1))
        return b.min(self._trips(op), b.min(b.max(fits, 1), MOST_CHUNKS))

    def _partial(self, op: TilesOp, k: int, chunk: Index) -> SSAValue:
        """Where a chunk leaves a carried value: with others that are combined, or as a result."""
        b = self.b
        if op.parts is not None:
            states = op.results[op.first_carried + k]
            kind = as_tensor(states.type)
            one = tensor_type(kind.element_type, (Dim.const(1), *shape_of(kind)[1:]))
            return self._part(self.homes[states], kind, (0,), [chunk], one).base
        offsets, state = self._offsets(op)
        at = b.add(b.add(self.partials_at, offsets[k]), b.mul(chunk, state))
        return self._arena(at, op.inits[k].type)

    def _chunk(self, op: TilesOp, number: Index) -> None:
        """Trips one after another, from the identity to a partial state."""
        b, trips, chunks = self.b, self._trips(op), self._chunks(op)
        low, high = (b.div(b.mul(x, trips), chunks) for x in (number, b.add(number, 1)))
        states = self._buffers(op)[len(op.own) :]
        for k, (value, buffer) in enumerate(zip(op.carried, states, strict=True)):
            slot = buffer.data[1][0]
            self.homes[value] = Location(self._arena(self.private[slot], value.type), slot=slot)
            own = self._flat(self.homes[value].base, value.type)
            if fold := op.folds[k]:
                self._fill(op, own, value.type, MONOIDS[fold])
            else:
                start = self._flat(self.homes[op.inits[k]].base, value.type)
                self._copy(op, start, own, value.type)

        def trip(index: Index, *parts: SSAValue) -> list[SSAValue]:
            self._bind(op.carried, parts)
            self._trip(op, index)
            return self._all_parts(op.next, op.carried)

        parts = b.loop(low, high, 1, trip, self._all_parts(op.carried, op.carried))
        self._bind(op.carried, parts)
        for k, value in enumerate(op.carried):
            old = self._flat(self.homes[value].base, value.type)
            self._copy(op, old, self._flat(self._partial(op, k, number), value.type), value.type)

    def _fill(self, op: TilesOp, target: Buffer, kind: Attribute, monoid: Monoid) -> None:
        """Writes the identity."""
        (identity,) = monoid.identity(target.dtype)

        def body(e: Lanes, at: tuple[Position]) -> None:
            memory.store(e, e.constant(identity, target.dtype), target, at)

        self._elements(op, kind, body)

    def _copy(self, op: TilesOp, old: Buffer, new: Buffer, kind: Attribute) -> None:
        def body(e: Lanes, at: tuple[Position]) -> None:
            memory.store(e, memory.load(e, old, at, None), new, at)

        self._elements(op, kind, body)

    def _combine(self, op: TilesOp) -> None:
        """Each start and the chunks' partial states, in order."""
        for k, fold in enumerate(op.folds):
            self._combine_one(op, k, MONOIDS[fold])

    def _combine_one(self, op: TilesOp, k: int, monoid: Monoid) -> None:
        kind = op.inits[k].type
        result = self._flat(self.homes[op.results[op.first_carried + k]].base, kind)
        init = op.inits[k]
        start = None if is_unwritten(init) else self._flat(self.homes[init].base, kind)
        dtype, wide = result.dtype, monoid.accumulator(result.dtype)
        (identity,) = monoid.identity(wide)

        def body(e: Lanes, at: tuple[Position]) -> None:
            def add(chunk: Index, *state: SSAValue) -> Sequence[SSAValue]:
                part = self._flat(self._partial(op, k, chunk), kind)
                found = e.convert(memory.load(e, part, at, None), dtype, wide)
                return monoid.combine(e, wide, state, (found,))

            if start is None:
                total = e.constant(identity, wide)
            else:
                total = e.convert(memory.load(e, start, at, None), dtype, wide)
            (total,) = self.b.loop(0, self._chunks(op), 1, add, [total])
            memory.store(e, e.convert(total, wide, dtype), result, at)

        self._elements(op, kind, body)

    def _flat(self, base: SSAValue, kind: Attribute) -> Buffer:
        """A tensor's memory as a list of elements."""
        count = self.b.dim(product(shape_of(kind)))
        dtype = dtype_of(as_tensor(kind).element_type)
        return Buffer(base, dtype, ((0,),), (count,), (1,))

    def _elements(
        self, op: TilesOp, kind: Attribute, body: Callable[[Lanes, tuple[Position]], None]
    ) -> None:
        """Runs the body for all elements of a tensor, as many at a time as the phases do."""
        b, count = self.b, self.b.dim(product(shape_of(kind)))
        schedules = [k.schedule for k in op.walk() if isinstance(k, KernelOp)]
        lanes = max((s.data.lanes for s in schedules if s is not None), default=1)
        if any(isinstance(k, CallOp) for k in op.walk()):  # whose vectors nothing here says
            lanes = max(lanes, VECTOR // dtype_of(as_tensor(kind).element_type).bytes)
        end = b.mul(b.div(count, lanes), lanes)

        def some(i: Index, mask: SSAValue | None = None) -> None:
            e = Lanes(b, {}, lanes, mask=mask, context=self.context, sites={})
            body(e, (Position(i, 1),))

        b.loop(0, end, lanes, some)
        if lanes > 1:
            rest = b.compare("lt", end, count)
            b.when(rest, lambda: some(end, b.mask(b.sub(count, end), lanes)))
