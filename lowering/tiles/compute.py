"""Fragments: products, maps, what is loaded and stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from mlc.dialects import vec
from mlc.dialects.dims import Dim
from mlc.dialects.dot import RoundOp, rows_named
from mlc.dialects.dtypes import BF16, F32
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tile.compute import ConvertOp, DotOp, ExtractOp
from mlc.dialects.tile.element import MapOp
from mlc.dialects.tile.expression import letters_in
from mlc.dialects.tile.memory import LoadOp, PrefetchOp, StoreOp, axes_of
from mlc.dialects.tile.region import yielded
from mlc.dialects.tile.types import FragType, frag_of, view_of
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.element import Lanes
from mlc.lowering.tiles.access import Access, fetch, guard_of, point_of, put, run_elements
from mlc.lowering.tiles.fragment import Fragment, waits
from mlc.lowering.tiles.rows import GROUPED, UNROLLED, lower_grouped, over_summed
from mlc.lowering.tiles.scope import TileScope
from mlc.lowering.tiles.tile_registers import IN_TILES, TilesInMemory, lower_in_tiles, zeros

LINE_BYTES = 64
ROWS = ("fma", "mul_add")
"""The rows that multiply single elements, in vectors."""


def _place(axes: Sequence[str], row: tuple[int, ...], v: int, lanes: int) -> dict[str, Position]:
    """The letters of a tile at one of its vectors."""
    places = [Position(k) for k in row]
    if axes:
        places.append(Position(v * lanes, 1 if lanes > 1 else 0))
    return {f".{c}": place for c, place in zip(axes, places, strict=True)}


def _sizes(axes: Sequence[str], kind: FragType) -> dict[str, tuple[Dim, ...]]:
    return {c: (Dim.const(n),) for c, n in zip(axes, kind.shape, strict=True)}


# products ---------------------------------------------------------------------------------------


def lower_dot(s: TileScope, op: DotOp) -> None:
    """Vectors of sums that a loop over the summed letters carries."""
    kind, words = frag_of(op.result), op.words
    row = op.via.data if op.via is not None else ROWS[0]
    lower = next((x for rows, x in _LOWERED if row in rows), None)
    if lower is None and row not in ROWS:
        known = (*ROWS, *(row for rows, _ in _LOWERED for row in rows))
        raise MlcError(
            f"tiles to loops: {op.name}: via {row} is not lowered yet; expected one of "
            + ", ".join(known)
        )
    axes = ["".join(axis) for axis in words.result]
    for value in (op.lhs, op.rhs):
        if isinstance(value.type, FragType):
            raise MlcError(f"tiles to loops: {op.name}: operand {value.type}; expected a view")
    summed = list(op.summed)
    letters = {**_sizes(axes, kind), **{c: x.data for c, x in op.summed.items()}}
    clamp = op.clamp.data if op.clamp is not None else ""
    left, right = (
        Access.of(view, at, op.positions, letters, clamp)
        for view, at in zip((op.lhs, op.rhs), op.where(), strict=True)
    )
    if lower is not None:
        if op.prefetch is not None:
            raise MlcError(f"tiles to loops: {op.name}: via {row} is not prefetched; expected fma")
        s.fragments[op.result] = lower(s, op, left, right)
        return
    product = _Product(s, op, left, right, axes, summed)
    s.fragments[op.result] = Fragment.of(kind.shape, product.lanes, product.sums())


_LOWERED = ((GROUPED, lower_grouped), (IN_TILES, lower_in_tiles))
"""Rows that take summed elements in groups, and what lowers them."""


class _Product:
    """One tile of a product on its way down."""

    def __init__(
        self, s: TileScope, op: DotOp, lhs: Access, rhs: Access, axes: list[str], summed: list[str]
    ) -> None:
        self.s, self.op, self.axes, self.summed = s, op, axes, summed
        self.kind = frag_of(op.result)
        self.lanes = s.lanes_of(self.kind)
        self.tile = Fragment.of(self.kind.shape, self.lanes, ())
        self.atoms = s.atoms(op.positions)
        self.lhs, self.rhs = lhs, rhs

    def sums(self) -> list[SSAValue]:
        """The tile's vectors, row by row."""
        s, b, dtype = self.s, self.s.b, self.kind.dtype
        if self.op.init is not None:
            begin = s.fragments[self.op.init].all()
        else:
            count = self.tile.vectors * sum(1 for _ in self.tile.rows)
            begin = [b.element(0, dtype, self.lanes)] * count

        at_once = 1 if self.overlaps() else UNROLLED
        return list(over_summed(s, self.op, self.summed, begin, self.step, at_once))

    def overlaps(self) -> bool:
        """
        Whether rows of the lhs meet elements that other rows meet at the next places: LLVM keeps
        those of several places, and has no registers for sums. Measured: docs/measurements.md,
        Models.
        """
        rows = {f".{c}" for axis in self.axes[:-1] for c in axis}
        places = {f".{c}" for c in self.summed[-1:]}
        return any(rows & dim.symbols() and places & dim.symbols() for dim in self.lhs.at)

    def step(self, at: dict[str, Position], sums: Sequence[SSAValue]) -> list[SSAValue]:
        """One summed element's products, added to all sums."""
        for which, steps in enumerate(self.op.prefetch or ()):
            if steps.value.data:
                self.prefetch(which, steps.value.data, at)
        e = self.s.element_builder(self.lanes)
        known: dict[object, SSAValue] = {}
        found: list[SSAValue] = []
        for row in self.tile.rows:
            for v in range(self.tile.vectors):
                x = self.factor(self.lhs, 0, row, v, at, known)
                y = self.factor(self.rhs, 1, row, v, at, known)
                found.append(self.multiply_add(e, x, y, sums[len(found)]))
        return found

    def prefetch(self, which: int, steps: int, at: dict[str, Position]) -> None:
        """Asks for the cache lines that a factor is read from so many steps later."""
        s, access, letter = self.s, (self.lhs, self.rhs)[which], f".{self.summed[-1]}"
        buffer = s.memory[access.view]
        if not isinstance(buffer, Buffer):  # what is computed is not in memory
            return
        later = {**at, letter: Position(s.b.add(at[letter].base, steps))}
        in_line = max(1, LINE_BYTES // view_of(access.view).dtype.bytes)
        rows, vectors = list(self.tile.rows), [0]
        if self.axes and self.axes[-1] in "".join(self.op.words.operands[which]):
            rows = rows[:1]
            vectors = list(range(0, self.tile.vectors, max(1, in_line // self.lanes)))
        elif len(self.axes) > 1 and self.axes[-2] in letters_in([access.at[-1]]):
            rows = rows[::in_line]
        for row in rows:
            for v in vectors:
                atoms = {**self.atoms, **later, **_place(self.axes, row, v, self.lanes)}
                point = point_of(s, access, atoms)
                indices = [s.b.index(place.base) for place in point]
                s.b.add_op(vec.PrefetchOp.of(buffer.memref, indices))

    def factor(
        self,
        access: Access,
        which: int,
        row: tuple[int, ...],
        v: int,
        at: dict[str, Position],
        known: dict[object, SSAValue],
    ) -> SSAValue:
        """A factor of one vector of products: a vector, or one element in every lane."""
        word = self.op.words.operands[which]
        own = [c for c in self.axes if any(c in axis for axis in word)]
        moves = bool(self.axes) and self.axes[-1] in own
        places = {c: place for c, place in zip(self.axes, row, strict=False) if c in own}
        key = (which, tuple(places.items()), v if moves else -1)
        if key not in known:
            atoms = {**self.atoms, **at, **_place(self.axes, row, v, self.lanes)}
            lanes = self.lanes if moves else 1
            value = fetch(self.s, access, atoms, lanes)
            e = self.s.element_builder(lanes)
            value = e.convert(value, view_of(access.view).dtype, self.kind.dtype)
            known[key] = value if moves or self.lanes == 1 else self.s.b.splat(value, self.lanes)
        return known[key]

    def multiply_add(self, e: Lanes, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        """x * y + z in the dtype of the sums, rounded as the row says."""
        via = self.op.via.data if self.op.via is not None else ""
        if via == "mul_add" and self.kind.dtype.is_inexact:
            return e.apply(arith.AddfOp, e.apply(arith.MulfOp, x, y), z)
        if self.kind.dtype.is_inexact:
            return e.fma(x, y, z)
        return e.apply(arith.AddiOp, e.apply(arith.MuliOp, x, y), z)


# elements ---------------------------------------------------------------------------------------


def lower_map(s: TileScope, op: MapOp) -> None:
    """Elements of all operands, a vector at a time."""
    kind = frag_of(op.outs[0])
    lanes = s.lanes_of(kind)
    inputs = [s.fragments[x] for x in op.inputs]
    arguments = op.body.block.args
    starts = [s.index(d[0], op.positions) if (d := x.data) else 0 for x in op.starts]
    whole = Fragment.of(kind.shape, lanes, ())

    def vector(row: tuple[int, ...], v: int, values: Sequence[SSAValue]) -> list[SSAValue]:
        at = [Position(k) for k in row] + [Position(v * lanes, 1 if lanes > 1 else 0)]
        moved = [Position(s.b.add(x, p.base), p.step) for x, p in zip(starts, at, strict=False)]
        places: dict[SSAValue, Position] = dict(zip(arguments[len(inputs) :], moved, strict=True))
        bound: dict[SSAValue, SSAValue] = dict(zip(arguments, values, strict=False))
        return run_elements(s, s.element_builder(lanes), op, bound, places)

    def row(place: tuple[int, ...]) -> list[list[SSAValue]]:
        given = [x.row(place) for x in inputs]
        return [vector(place, v, [x[v] for x in given]) for v in range(whole.vectors)]

    if waits(op):
        s.fragments[op.outs[0]] = Fragment(
            kind.shape,
            lanes,
            lambda place: [x[0] for x in row(place)],
            partial(zeros, s.b, kind.shape) if _is_zero(op) else None,
        )
        return
    found = [values for place in whole.rows for values in row(place)]
    for k, out in enumerate(op.outs):
        s.fragments[out] = Fragment.of(kind.shape, lanes, [values[k] for values in found])


def _is_zero(op: MapOp) -> bool:
    """Whether every element is the number 0, whose bits all are."""
    made = yielded(op.body.block)[0].owner
    return isinstance(made, ConstantOp) and not any(made.value.data.data)


def lower_load(s: TileScope, op: LoadOp) -> None:
    """Memory into registers, row by row: of rows that lie outside nothing is read."""
    kind = frag_of(op.result)
    rows = _Rows(s, op.view, op.where(), op.positions, axes_of(op.axes, kind), kind)
    fill = 0 if op.fill is None else op.fill.value.data
    outside = [s.b.element(fill, kind.dtype, rows.lanes)] * rows.vectors

    def row(place: tuple[int, ...]) -> Sequence[SSAValue]:
        def inside() -> list[SSAValue]:
            return [
                fetch(s, rows.access, rows.atoms(place, v), rows.lanes, fill)
                for v in range(rows.vectors)
            ]

        there = rows.are_there(place)
        if isinstance(there, bool):
            return inside() if there else outside
        return s.b.pick_all(there, inside, lambda: outside)

    tile = Fragment(kind.shape, rows.lanes, row)
    if not waits(op):
        s.fragments[op.result] = Fragment.of(kind.shape, rows.lanes, tile.all())
        return
    memory = TilesInMemory.of(s, rows.whole, op.positions, rows.axes)
    tiles = partial(memory.load, kind.shape) if memory is not None else None
    s.fragments[op.result] = replace(tile, tiles=tiles)


def lower_store(s: TileScope, op: StoreOp) -> None:
    """Registers into memory, row by row: rows that lie outside are not computed either."""
    kind, tile = frag_of(op.value), s.fragments[op.value]
    where = () if op.where_ is None else op.where_.data
    rows = _Rows(s, op.view, op.where(), op.positions, axes_of(op.axes, kind), kind)
    if tile.held and not where:
        memory = TilesInMemory.of(s, rows.whole, op.positions, rows.axes)
        if memory is not None:
            memory.store(kind.shape, tile.held)
            return
    for row in tile.rows:

        def write(row: tuple[int, ...] = row) -> None:
            for v, value in enumerate(tile.row(row)):
                put(s, rows.access, rows.atoms(row, v), rows.lanes, value, where)

        s.b.when(rows.are_there(row), write)


class _Rows:
    """A tile in memory: what may lie outside row by row is asked once for each row."""

    def __init__(
        self,
        s: TileScope,
        view: SSAValue,
        at: tuple[Dim, ...],
        positions: Sequence[SSAValue],
        axes: Sequence[str],
        kind: FragType,
    ) -> None:
        self.s, self.axes, self.lanes = s, axes, s.lanes_of(kind)
        self.vectors = kind.shape[-1] // self.lanes if kind.shape else 1
        self.known = s.atoms(positions)
        whole = Access.of(view, at, positions, _sizes(axes, kind))
        moving = f".{axes[-1]}" if axes else ""
        self.by_row = tuple(a for a in whole.open if moving not in at[a].symbols())
        self.access = replace(whole, open=tuple(a for a in whole.open if a not in self.by_row))
        self.whole = whole

    def atoms(self, row: tuple[int, ...], v: int) -> dict[str, Position]:
        """The op's positions and letters at one vector."""
        return {**self.known, **_place(self.axes, row, v, self.lanes)}

    def are_there(self, row: tuple[int, ...]) -> SSAValue | bool:
        """Whether a row lies in the memory."""
        access = replace(self.whole, open=self.by_row)
        point = point_of(self.s, access, {**self.known, **_place(self.axes, row, 0, 1)})
        return guard_of(self.s, access, point, 1).whole


def lower_prefetch(s: TileScope, op: PrefetchOp, kind: FragType) -> None:
    """Each cache line of a tile, wherever it lies: asking never faults."""
    buffer = s.memory[op.view]
    if not isinstance(buffer, Buffer):
        return
    rows = _Rows(s, op.view, op.where(), op.positions, axes_of(op.axes, kind), kind)
    in_line = max(1, LINE_BYTES // kind.dtype.bytes // rows.lanes)
    write, access = op.write is not None, replace(rows.access, open=())
    for row in Fragment.of(kind.shape, rows.lanes, ()).rows:
        for v in range(0, rows.vectors, in_line):
            point = point_of(s, access, rows.atoms(row, v))
            indices = [s.b.index(place.base) for place in point]
            s.b.add_op(vec.PrefetchOp.of(buffer.memref, indices, write=write))


def lower_extract(s: TileScope, op: ExtractOp) -> None:
    """A part of a tile: its last axis whole, or cut between vectors."""
    whole, kind = s.fragments[op.value], frag_of(op.result)
    *outer, (start, stop) = op.parts
    if stop == -1 or start % whole.lanes or (stop - start) % whole.lanes:
        raise MlcError(
            f"tiles to loops: {op.name}: the part cuts vectors of {whole.lanes} elements"
        )

    def row(place: tuple[int, ...]) -> Sequence[SSAValue]:
        rest = iter(place)
        outside = tuple(a if b == -1 else a + next(rest) for a, b in outer)
        return whole.row(outside)[start // whole.lanes : stop // whole.lanes]

    s.fragments[op.result] = Fragment(kind.shape, whole.lanes, row)


def lower_convert(s: TileScope, op: ConvertOp) -> None:
    """Another dtype, vector by vector: where it has one use, as that asks for them."""
    source, kind = frag_of(op.value), frag_of(op.result)
    tile = s.fragments[op.value]

    narrows = (source.dtype, kind.dtype) == (F32, BF16) and 32 * tile.lanes == s.vector_bits
    rounds = narrows and s.rounds and _is_flushed(op.value)

    def row(place: tuple[int, ...]) -> Sequence[SSAValue]:
        if rounds:
            return [s.b.value(RoundOp.of(x)) for x in tile.row(place)]
        e = s.element_builder(tile.lanes)
        return [e.convert(x, source.dtype, kind.dtype) for x in tile.row(place)]

    found = Fragment(kind.shape, tile.lanes, row)
    alone = op.result.get_user_of_unique_use() is not None
    s.fragments[op.result] = found if alone else Fragment.of(kind.shape, tile.lanes, found.all())


def _is_flushed(value: SSAValue) -> bool:
    """
    Whether no sum of a product on tile registers is subnormal: its instruction makes them zero.
    Where vectors multiply, rounding by integers takes as long (Zen 4: 0.96 to 0.99).
    """
    dot = value.owner
    if not isinstance(dot, DotOp) or dot.via is None:
        return False
    row = rows_named(dot.via.data)[0]
    return row.in_tiles and row.flushes


def lower_fragment(s: TileScope, op: Operation) -> None:
    """Any op on fragments that CPUs have."""
    match op:
        case DotOp():
            lower_dot(s, op)
        case MapOp():
            lower_map(s, op)
        case LoadOp():
            lower_load(s, op)
        case StoreOp():
            lower_store(s, op)
        case ExtractOp():
            lower_extract(s, op)
        case ConvertOp():
            lower_convert(s, op)
        case _:
            raise MlcError(f"tiles to loops: {op.name} is not lowered for CPUs")
