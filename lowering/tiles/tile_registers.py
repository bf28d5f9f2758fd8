"""
Products on tile registers: rows of 64 bytes of both factors. Sums come from memory and go to it as
tiles where nothing else touches them; to other code through memory of the worker's stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Attribute, Block, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dot import DotOp as InstructionOp
from mlc.dialects.dot import TileLoadOp, TileStoreOp, TileType, TileZeroOp, rows_named
from mlc.dialects.lanes import vector_type
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.bounds import multiple
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.element import ElementsOp
from mlc.dialects.tile.expression import Positions
from mlc.dialects.tile.types import FragType, frag_of, view_of
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.tiles.access import Access
from mlc.lowering.tiles.fragment import Fragment
from mlc.lowering.tiles.rows import wrong
from mlc.lowering.tiles.scope import TileScope

IN_TILES = ("amx_bf16", "amx_s8")
"""The rows that are lowered here."""


def lower_in_tiles(s: TileScope, op: DotOp, lhs: Access, rhs: Access) -> Fragment:
    """Sums in tile registers, which loops over groups of summed elements carry."""
    return _InTiles(s, op, lhs, rhs).fragment()


def begins_products(value: SSAValue) -> TileType | None:
    """The registers that a fragment is wanted in, which only products in tiles begin with."""
    users = [use.operation for use in value.uses]
    dots = [op for op in users if isinstance(op, DotOp) and op.init is value]
    named = {op.via.data for op in dots if op.via is not None}
    if not dots or len(dots) < len(users) or len(named) != 1 or named - set(IN_TILES):
        return None
    height, width, _ = rows_named(named.pop())[0].shape
    return TileType.of(height, width, frag_of(value).dtype.register)


def places(shape: Sequence[int], kind: TileType) -> list[tuple[int, int]]:
    """Where the registers that cover a fragment begin."""
    height, width = kind.shape
    return [(i, j) for i in range(0, shape[0], height) for j in range(0, shape[1], width)]


def zeros(b: LoopBuilder, shape: Sequence[int], kind: TileType) -> list[SSAValue]:
    """Registers of zeros."""
    return [b.value(TileZeroOp.of(kind)) for _ in places(shape, kind)]


def in_tiles(
    s: TileScope, kind: FragType, registers: TileType, values: Sequence[SSAValue]
) -> Fragment:
    """
    A fragment that tile registers hold; its rows go through the stack, once in each block of the
    program that asks for them.
    """
    columns, lanes = kind.shape[-1], s.lanes_of(kind)
    cells: dict[Block, SSAValue] = {}

    def cell() -> SSAValue:
        around: Block | None = s.home
        while around is not None and around not in cells:
            around = around.parent_block()
        if around is not None:
            return cells[around]
        b = LoopBuilder(s.home)  # rows may be asked for in blocks of their own
        cells[s.home] = found = b.view(
            b.cell(registers.element_type, kind.shape[0] * columns), kind.shape
        )
        for (i, j), x in zip(places(kind.shape, registers), values, strict=True):
            b.add_op(TileStoreOp.of(x, found, [b.index(i), b.index(j)]))
        return found

    def row(place: tuple[int, ...]) -> Sequence[SSAValue]:
        vector, memory = vector_type(registers.element_type, lanes), cell()
        starts = range(0, columns, lanes)
        return [s.b.load_vector(memory, [*place, v], vector, None, None) for v in starts]

    return Fragment(kind.shape, lanes, row, held=values)


def registers(s: TileScope, fragment: Fragment, kind: TileType) -> Sequence[SSAValue]:
    """The tile registers that cover a fragment: as it has them, or through the stack."""
    if fragment.held:
        return fragment.held
    if fragment.tiles is not None:
        return fragment.tiles(kind)
    b, shape = s.b, fragment.shape
    cell = b.view(b.cell(kind.element_type, shape[0] * shape[1]), shape)
    for row in fragment.rows:
        for v, vector in enumerate(fragment.row(row)):
            b.store_vector(vector, cell, [*row, v * fragment.lanes], None)
    at = places(shape, kind)
    return [b.value(TileLoadOp.of(cell, [b.index(i), b.index(j)], kind)) for i, j in at]


@dataclass(frozen=True)
class TilesInMemory:
    """A fragment where it lies in rows of memory, none of it outside."""

    s: TileScope
    memory: SSAValue
    at: tuple[Dim, ...]
    atoms: Mapping[str, Position]
    axes: Sequence[str]

    @staticmethod
    def of(
        s: TileScope, access: Access, positions: Sequence[SSAValue], axes: Sequence[str]
    ) -> TilesInMemory | None:
        """None where tile registers cannot be loaded from it, or stored to it."""
        buffer = s.memory[access.view]
        if isinstance(buffer, ElementsOp) or access.open or len(axes) != 2:
            return None
        rows = tuple(((f".{c}",), 1) for c in axes)
        letters = [{x for x in dim.symbols() if x[0] == "."} for dim in access.at]
        expected: list[set[str]] = [*(set[str]() for _ in letters[2:]), *({f".{c}"} for c in axes)]
        if letters != expected or buffer.strides[-1] != 1:
            return None
        if any(term not in dim.terms for term, dim in zip(rows, access.at[-2:], strict=True)):
            return None
        return TilesInMemory(s, buffer.memref, access.at, s.atoms(positions), axes)

    def load(self, shape: Sequence[int], kind: TileType) -> list[SSAValue]:
        """As registers."""
        b = self.s.b
        where = [self.indices(place) for place in places(shape, kind)]
        return [b.value(TileLoadOp.of(self.memory, at, kind)) for at in where]

    def store(self, shape: Sequence[int], values: Sequence[SSAValue]) -> None:
        """From registers."""
        kind = values[0].type
        assert isinstance(kind, TileType)
        for value, place in zip(values, places(shape, kind), strict=True):
            self.s.b.add_op(TileStoreOp.of(value, self.memory, self.indices(place)))

    def indices(self, place: tuple[int, int]) -> list[SSAValue]:
        """Of the register that begins there."""
        own = {f".{c}": Position(x) for c, x in zip(self.axes, place, strict=True)}
        atoms = {**self.atoms, **own}
        return [self.s.b.index(self.s.position(dim, atoms).base) for dim in self.at]


@dataclass(frozen=True)
class _Rows:
    """A factor as rows of memory: all axes but the last two as they are, and the rest of a row."""

    memref: SSAValue
    at: tuple[Dim, ...]


class _InTiles:
    """One tile of a product on its way down."""

    def __init__(self, s: TileScope, op: DotOp, lhs: Access, rhs: Access) -> None:
        assert op.via is not None
        self.s, self.op, self.kind = s, op, frag_of(op.result)
        self.row: Intrinsic = rows_named(op.via.data)[0]
        self.atoms = s.atoms(op.positions)
        *self.outer, self.depth, self.place = op.summed
        self.m, self.n = ("".join(axis) for axis in op.words.result)
        group = op.summed[self.place].data
        if group != (Dim.const(self.row.group),):
            raise wrong(op, f"expected groups of {self.row.group} last")
        self.lhs = self.rows_along(lhs, (self.m, self.depth))
        self.rhs = self.rows_along(rhs, (self.depth, self.n))
        self.a, self.b, self.c = (
            x.dtype.register for x in (view_of(op.lhs), view_of(op.rhs), self.kind)
        )

    def rows_along(self, access: Access, axes: tuple[str, str]) -> _Rows:
        """
        A factor whose last axis is the second of these letters and places in a group, whichever
        view it is; another axis is the first alone, and comes before it in the view of it here.
        """
        buffer, b = self.s.memory[access.view], self.s.b
        said = "the lhs where all of it lies, or pack(a, panels N, rows)"
        if axes[1] == self.n:
            said = f"the rhs in panels: pack(b, panels N, group {self.row.group})"
        if isinstance(buffer, ElementsOp) or access.open or buffer.strides[-1] != 1:
            raise wrong(self.op, f"expected {said}")
        at, place = access.at, f".{self.place}"
        sizes, strides = buffer.sizes, buffer.strides
        packed = at[-1].symbols() == frozenset((place,))  # places have an axis of their own
        if packed:
            at = (*at[:-2], at[-2] * self.row.group + at[-1])
            sizes = (*sizes[:-2], b.mul(sizes[-2], sizes[-1]))
            strides = (*strides[:-2], 1)
        first, second = f".{axes[0]}", f".{axes[1]}"
        letters = [{s for s in dim.symbols() if s[0] == "."} for dim in at]
        rows = letters.index({first}) if {first} in letters else len(at)
        order = [*(k for k in range(len(at) - 1) if k != rows), rows, len(at) - 1]
        others = set[str]().union(*(letters[k] for k in order[:-2]))
        if rows >= len(at) - 1 or letters[-1] != {second, place} or others & {first, second, place}:
            raise wrong(self.op, f"expected {said}")
        if packed:
            in_rows = axes[1] != self.n
            panel, least = (sizes[rows], 0) if in_rows else (buffer.sizes[-2], 1)
            if not isinstance(panel, int) or panel % self.row.shape[least]:
                raise wrong(self.op, f"expected panels of a multiple of {self.row.shape[least]}")
        memref = buffer.memref
        if order != sorted(order):
            memref = b.view(memref, [sizes[k] for k in order], [strides[k] for k in order])
        elif packed:
            memref = b.view(memref, sizes)
        return _Rows(memref, tuple(at[k] for k in order))

    def fragment(self) -> Fragment:
        """The tile's sums, in memory."""
        s, b = self.s, self.s.b
        rows, columns = self.kind.shape
        height, width, depth = self.row.shape
        sums = TileType.of(height, width, self.c)
        if self.op.init is None:
            begin = zeros(b, (rows, columns), sums)
        else:
            begin = registers(s, s.fragments[self.op.init], sums)
        groups = depth // self.row.group
        bound = self.op.summed[self.depth].data
        if any(multiple(dim, Positions(self.op.positions)) % groups for dim in bound):
            raise wrong(self.op, f"expected pack(b, panels N, …, depth {depth})")
        return in_tiles(s, self.kind, sums, self.nest(0, {}, groups, begin))

    def nest(
        self, k: int, at: dict[str, Position], groups: int, carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """The loops over summed letters: of the last as many groups at once as a tile has."""
        letter = (*self.outer, self.depth)[k]
        size = self.s.least(self.op.summed[letter].data, self.op.positions)

        def trip(i: Index, *sums: SSAValue) -> Sequence[SSAValue]:
            inner = {**at, f".{letter}": Position(i)}
            if k < len(self.outer):
                return self.nest(k + 1, inner, groups, sums)
            return self.step(inner, groups, sums)

        return self.s.b.loop(0, size, groups if k == len(self.outer) else 1, trip, carried)

    def step(
        self, at: dict[str, Position], groups: int, carried: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Some groups' products, added to all sums; tiles are loaded where they are needed."""
        height, width, _ = self.row.shape
        rows, columns = self.kind.shape
        depth = groups * self.row.group
        lhs = TileType.of(height, depth, self.a)
        rhs = TileType.of(groups, width * self.row.group, self.b)
        right: dict[int, SSAValue] = {}
        found: list[SSAValue] = []
        for i in range(0, rows, height):
            left = self.load(self.lhs, {**at, f".{self.m}": Position(i)}, lhs)
            for j in range(0, columns, width):
                if j not in right:
                    right[j] = self.load(self.rhs, {**at, f".{self.n}": Position(j)}, rhs)
                op = InstructionOp.of(self.row.name, carried[len(found)], left, right[j])
                found.append(self.s.b.value(op))
        return found

    def load(self, rows: _Rows, at: dict[str, Position], kind: Attribute) -> SSAValue:
        """A tile of a factor."""
        assert isinstance(kind, TileType)
        atoms = {**self.atoms, **at, f".{self.place}": Position(0)}
        indices = [self.s.b.index(self.s.position(dim, atoms).base) for dim in rows.at]
        return self.s.b.value(TileLoadOp.of(rows.memref, indices, kind))
