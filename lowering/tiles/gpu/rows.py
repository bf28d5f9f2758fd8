"""
Whole rows that a block's threads hold: each row belongs to adjacent threads, of which each has
vectors of it in turn, in registers from one phase to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from xdsl.ir import Operation, SSAValue

from mlc.dialects import vec
from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32, DType
from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_clusters import ClusterBarrierOp, SendOp
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tile.compute import ConvertOp, ReduceOp
from mlc.dialects.tile.element import MapOp
from mlc.dialects.tile.expression import letters_in
from mlc.dialects.tile.memory import LoadOp, StoreOp, axes_of
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, frag_of, view_of
from mlc.dialects.tile.work import WARP, WorkOp
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.tiles.access import Access, fetch, point_of, put, run_elements
from mlc.lowering.tiles.gpu.control import items_of
from mlc.lowering.tiles.scope import TileScope


@dataclass
class RowScope:
    """The walk over rows on its way down: where this thread stands, and what it holds."""

    s: TileScope
    b: GpuBuilder
    each: int  # threads of a row
    lanes: int
    row: Index  # of the tile
    thread: Index  # of the row
    blocks: int = 1  # that have a row together
    block: Index = 0  # of these
    met: bool = False  # whether all of these are known to run
    held: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])

    def columns(self, kind: FragType) -> list[tuple[Index, SSAValue | bool]]:
        """Where this thread's vectors of a tile begin, and whether they are there."""
        if len(kind.shape) == 1:
            return [(0, True)]
        size, step = kind.shape[1], self.blocks * self.each * self.lanes
        if size % self.lanes:
            raise MlcError(f"tiles to GPU: {kind}; expected a multiple of {self.lanes} columns")
        thread = self.b.add(self.b.mul(self.block, self.each), self.thread)
        mine = self.b.mul(thread, self.lanes)
        places = [self.b.add(mine, first) for first in range(0, size, step)]
        return [
            (at, True if (number + 1) * step <= size else self.b.compare("lt", at, size))
            for number, at in enumerate(places)
        ]

    def lanes_of(self, kind: FragType) -> int:
        """Of the vectors that hold a tile: a row's number is one."""
        return self.lanes if len(kind.shape) > 1 else 1

    def places(self, kind: FragType, column: Index) -> list[Position]:
        """Along each axis of a tile."""
        step = int(self.lanes > 1)
        return [Position(self.row), Position(column, step)][: len(kind.shape)]


def lower_rows(s: TileScope, op: WorkOp) -> None:
    """This block's item; or its items, each after as many as there are walkers."""
    assert op.threads is not None
    assert op.lanes is not None
    b = s.b
    assert isinstance(b, GpuBuilder)
    (step,) = (x.value.data for x in op.steps)
    each = op.threads.value.data // step
    thread, number = b.thread(), b.block_number()
    k = RowScope(
        s,
        b,
        each,
        op.lanes.value.data,
        0 if step == 1 else b.div(thread, each),
        thread if step == 1 else b.rem(thread, each),
    )
    if op.blocks > 1:
        k.blocks, k.block = op.blocks, b.rem(number, op.blocks)
        number = b.div(number, op.blocks)
    if op.walkers is None:
        _item(k, op, number)
        return
    folds = sum(isinstance(x, ReduceOp) for x in op.body.block.ops)
    if k.blocks > 1 and folds:
        _meet(k)

    def item(place: Index) -> None:
        _item(k, op, place)
        if folds == 1:  # others would send what belongs to their next row
            _apart(k)

    (count,) = items_of(s, op)
    b.loop(number, count, op.walkers.value.data, item)


def _item(k: RowScope, op: WorkOp, number: Index) -> None:
    (step,) = (x.value.data for x in op.steps)
    k.s.indices[op.body.block.args[0]] = k.b.mul(number, step)
    for inner in op.body.block.ops:
        if isinstance(inner, YieldOp):
            continue
        rule = _RULES.get(type(inner))
        if rule is None:
            raise MlcError(f"tiles to GPU: {inner.name} is not lowered for rows of a block")
        rule(k, inner)


def _meet(k: RowScope) -> None:
    """All blocks that have a row together run from here on: nobody sends to others before."""
    if not k.met:
        k.b.add_op(ClusterBarrierOp.create())
        k.met = True


def _apart(k: RowScope) -> None:
    """All threads that have a row together are done with what they have read of each other."""
    if k.blocks > 1:
        k.b.add_op(ClusterBarrierOp.create())
    else:
        k.b.barrier()


def _access(
    k: RowScope, op: LoadOp | StoreOp, kind: FragType, clamp: str = ""
) -> tuple[Access, list[str]]:
    axes = axes_of(op.axes, kind)
    if not 1 <= len(axes) <= 2:
        raise MlcError(f"tiles to GPU: {kind}; expected rows")
    sizes = {c: (Dim.const(n),) for c, n in zip(axes, kind.shape, strict=True)}
    named = axes[0] if clamp else ""
    return Access.of(op.view, op.where(), op.positions, sizes, named), list(axes)


def _load(k: RowScope, op: LoadOp) -> None:
    """Of rows that are not there the last one is read again: nothing is stored of them."""
    kind = frag_of(op.result)
    access, axes = _access(k, op, kind, clamp="m")
    atoms, lanes = k.s.atoms(op.positions), k.lanes_of(kind)
    found: list[SSAValue] = []
    for column, there in k.columns(kind):
        places = dict(zip((f".{c}" for c in axes), k.places(kind, column), strict=True))
        value = partial(fetch, k.s, access, {**atoms, **places}, lanes)
        found.append(_where(k, there, value, partial(k.b.element, 0, kind.dtype, lanes)))
    k.held[op.result] = found
    if op.ahead is not None:
        _ask(k, op, op.ahead.value.data)


def _ask(k: RowScope, op: LoadOp, ahead: int) -> None:
    """Has level 2 read what a later block will: where there are so many rows."""
    kind = frag_of(op.result)
    (access, axes), atoms, b = _access(k, op, kind), k.s.atoms(op.positions), k.b
    rows, buffer = view_of(op.view).shape, k.s.memory[op.view]
    if not isinstance(buffer, Buffer):
        return  # what is computed is not in memory

    def one(column: Index) -> None:
        row, *rest = k.places(kind, column)
        places = [Position(b.add(row.base, ahead)), *rest]
        named = {**atoms, **dict(zip((f".{c}" for c in axes), places, strict=True))}
        point = point_of(k.s, access, named)
        inside: SSAValue | bool = True
        for axis in (n for n, dim in enumerate(access.at) if axes[0] in letters_in([dim])):
            inside = b.both(inside, b.compare("lt", point[axis].base, b.dim(rows[axis])))

        def ask() -> None:
            bases, _ = buffer.indices(b, point)
            b.add_op(vec.PrefetchOp.of(buffer.memref, [b.index(i) for i in bases], 2))

        b.when(inside, ask)

    for column, there in k.columns(kind):
        b.when(there, partial(one, column))


def _where(
    k: RowScope,
    there: SSAValue | bool,
    value: Callable[[], SSAValue],
    other: Callable[[], SSAValue],
) -> SSAValue:
    if isinstance(there, bool):
        return value() if there else other()
    return k.b.pick(there, value, other)


def _map(k: RowScope, op: MapOp) -> None:
    """Vector by vector; what belongs to a row is one number in all lanes."""
    kind, arguments = frag_of(op.outs[0]), op.body.block.args
    starts = [k.s.index(d[0], op.positions) if (d := x.data) else 0 for x in op.starts]
    lanes, found = k.lanes_of(kind), list[Sequence[SSAValue]]()

    def vector(number: int, column: Index) -> list[SSAValue]:
        e = k.s.element_builder(lanes)
        at = zip(starts, k.places(kind, column), strict=False)
        moved = [Position(k.b.add(x, p.base), p.step) for x, p in at]
        of_rows = len(kind.shape) > 1
        values = [
            e.spread(k.held[x][0]) if of_rows and len(frag_of(x).shape) == 1 else k.held[x][number]
            for x in op.inputs
        ]
        places = dict[SSAValue, Position](zip(arguments[len(values) :], moved, strict=False))
        bound = dict[SSAValue, SSAValue](zip(arguments, values, strict=False))
        return run_elements(k.s, e, op, bound, places)

    for number, (column, there) in enumerate(k.columns(kind)):
        if isinstance(there, bool):
            found.append(vector(number, column))
            continue
        none = [k.b.element(0, frag_of(x).dtype, lanes) for x in op.outs]
        found.append(k.b.pick_all(there, partial(vector, number, column), lambda x=none: x))
    for number, out in enumerate(op.outs):
        k.held[out] = [values[number] for values in found]


def _convert(k: RowScope, op: ConvertOp) -> None:
    source, kind = frag_of(op.value), frag_of(op.result)
    e = k.s.element_builder(k.lanes_of(kind))
    k.held[op.result] = [e.convert(x, source.dtype, kind.dtype) for x in k.held[op.value]]


def _reduce(k: RowScope, op: ReduceOp) -> None:
    """A thread's vectors, their lanes, the threads of a warp, then its warps: a fixed tree."""
    kind = frag_of(op.inputs[0])
    if len(op.inputs) != 1 or len(kind.shape) != 2 or op.axis.value.data != 1:
        raise MlcError(f"tiles to GPU: {op.name} of {kind}; expected one along rows")
    fold = _Fold(k, op.monoid.data, kind.dtype)
    values = [
        _where(k, there, partial(_same, value), partial(fold.neutral, k.lanes))
        for value, (_, there) in zip(k.held[op.inputs[0]], k.columns(kind), strict=True)
    ]
    k.held[op.outs[0]] = [fold.threads(fold.lanes(fold.tree(values, k.lanes)))]


def _same(value: SSAValue) -> SSAValue:
    return value


@dataclass(frozen=True)
class _Fold:
    k: RowScope
    monoid: str
    dtype: DType

    def neutral(self, lanes: int) -> SSAValue:
        """What changes nothing."""
        (value,) = MONOIDS[self.monoid].identity(self.dtype)
        return self.k.b.element(value, self.dtype, lanes)

    def both(self, x: SSAValue, y: SSAValue, lanes: int) -> SSAValue:
        """Two combined."""
        e = self.k.s.element_builder(lanes)
        (found,) = MONOIDS[self.monoid].combine(e, self.dtype, (x,), (y,))
        return found

    def tree(self, values: Sequence[SSAValue], lanes: int) -> SSAValue:
        """All combined, neighbours first."""
        found: list[SSAValue] = list(values)
        while len(found) > 1:
            pairs = [self.both(x, y, lanes) for x, y in zip(found[::2], found[1::2], strict=False)]
            found = [*pairs, *found[2 * len(pairs) :]]
        return found[0]

    def lanes(self, value: SSAValue) -> SSAValue:
        """A vector's lanes."""
        b, lanes = self.k.b, self.k.lanes
        return self.tree([b.lane(value, n) for n in range(lanes)], 1) if lanes > 1 else value

    def warp(self, value: SSAValue, width: int) -> SSAValue:
        """Of so many adjacent threads, in each of them."""
        while width > 1:
            width //= 2
            value = self.both(value, self.k.b.shuffle("xor", value, width), 1)
        return value

    def threads(self, value: SSAValue) -> SSAValue:
        """Of all threads of a row, in each of them."""
        value = self.block(value)
        return value if self.k.blocks == 1 else self.cluster(value)

    def cluster(self, value: SSAValue) -> SSAValue:
        """Of blocks that have a row together: each sends its number to all, as f32 at least."""
        k, b, e = self.k, self.k.b, self.k.s.element_builder(1)
        sent = F32 if self.dtype.bytes < F32.bytes else self.dtype
        value = e.convert(value, self.dtype, sent)
        cell = b.shared(memory_type(sent), (k.blocks,))
        _meet(k)

        def send() -> None:
            b.add_op(SendOp.of(value, cell, b.index(k.block), b.index(k.thread)))

        b.when(b.compare("lt", k.thread, k.blocks), send)
        b.add_op(ClusterBarrierOp.create())
        loaded = (b.load(cell, [n]) for n in range(k.blocks))
        return self.tree([e.convert(x, sent, self.dtype) for x in loaded], 1)

    def block(self, value: SSAValue) -> SSAValue:
        """Of all threads of a block that have a row, in each of them."""
        k, b = self.k, self.k.b
        value = self.warp(value, min(k.each, WARP))
        warps = k.each // WARP
        if warps <= 1:
            return value
        cell = b.shared(memory_type(self.dtype), (warps,))
        lane = b.rem(k.thread, WARP)
        first = b.compare("eq", lane, 0)
        b.when(first, lambda: b.store(value, cell, [b.div(k.thread, WARP)]))
        b.barrier()
        return self.warp(b.load(cell, [b.rem(lane, warps)]), warps)


def _store(k: RowScope, op: StoreOp) -> None:
    """Vectors of rows, or of each row a number, by its first thread."""
    if op.where_ is not None:
        raise MlcError(f"tiles to GPU: {op.name}: conditions are not lowered; expected none")
    kind = frag_of(op.value)
    access, axes = _access(k, op, kind)
    atoms, lanes = k.s.atoms(op.positions), k.lanes_of(kind)
    for (column, there), value in zip(k.columns(kind), k.held[op.value], strict=True):
        places = dict(zip((f".{c}" for c in axes), k.places(kind, column), strict=True))
        mine = there
        if len(kind.shape) == 1:
            mine = k.b.both(k.b.compare("eq", k.thread, 0), k.b.compare("eq", k.block, 0))
        k.b.when(mine, partial(put, k.s, access, {**atoms, **places}, lanes, value))


_RULES: dict[type[Operation], Callable[..., None]] = {
    LoadOp: _load,
    MapOp: _map,
    ConvertOp: _convert,
    ReduceOp: _reduce,
    StoreOp: _store,
}
