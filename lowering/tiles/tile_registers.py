"""
Products on tile registers: rows of 64 bytes of both factors, sums that go through memory of the
worker's stack to what follows, since other code between their instructions would have to save them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dot import DotOp as InstructionOp
from mlc.dialects.dot import TileLoadOp, TileStoreOp, TileType, TileZeroOp, rows_named
from mlc.dialects.lanes import vector_type
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.bounds import multiple
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.element import ElementsOp
from mlc.dialects.tile.expression import Positions
from mlc.dialects.tile.types import frag_of, view_of
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.tiles.access import Access
from mlc.lowering.tiles.fragment import Fragment
from mlc.lowering.tiles.rows import wrong
from mlc.lowering.tiles.scope import TileScope

IN_TILES = ("amx_bf16", "amx_s8")
"""The rows that are lowered here."""


def lower_in_tiles(s: TileScope, op: DotOp, lhs: Access, rhs: Access) -> Fragment:
    """Sums in tile registers, which loops over groups of summed elements carry."""
    return _InTiles(s, op, lhs, rhs).fragment()


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
        if group != (Dim.const(self.row.group),) or op.init is not None:
            raise wrong(op, f"expected groups of {self.row.group} last, and no sums to begin with")
        self.lhs = self.rows_along(lhs, (self.m, self.depth))
        self.rhs = self.rows_along(rhs, (self.depth, self.n))
        self.a, self.b, self.c = (
            x.dtype.register for x in (view_of(op.lhs), view_of(op.rhs), self.kind)
        )

    def rows_along(self, access: Access, axes: tuple[str, str]) -> _Rows:
        """
        A factor whose last axis is the second of these letters and places in a group, whichever
        view it is, and the axis before it is the first alone.
        """
        buffer, b = self.s.memory[access.view], self.s.b
        said = "the lhs where all of it lies, or pack(a, panels N, rows)"
        if axes[1] == self.n:
            said = f"the rhs in panels: pack(b, panels N, group {self.row.group})"
        if isinstance(buffer, ElementsOp) or access.open or buffer.strides[-1] != 1:
            raise wrong(self.op, f"expected {said}")
        at, group, place = access.at, self.row.group, f".{self.place}"
        if at[-1].symbols() == frozenset((place,)):  # an axis of its own: the factor is packed
            sizes = buffer.sizes
            panel, least = (sizes[-2], 1) if axes[1] == self.n else (sizes[-3], 0)
            if not isinstance(panel, int) or panel % self.row.shape[least]:
                raise wrong(self.op, f"expected panels of a multiple of {self.row.shape[least]}")
            joined = (*sizes[:-2], b.mul(sizes[-2], sizes[-1]))
            at = (*at[:-2], at[-2] * group + at[-1])
            memref = b.view(buffer.memref, joined)
        else:
            memref = buffer.memref
        moves = [{f".{axes[0]}"}, {f".{axes[1]}", place}]
        letters = [{s for s in dim.symbols() if s[0] == "."} for dim in at[-2:]]
        if letters != moves:
            raise wrong(self.op, f"expected {said}")
        return _Rows(memref, at)

    def fragment(self) -> Fragment:
        """The tile's sums, in memory."""
        s, b = self.s, self.s.b
        rows, columns = self.kind.shape
        height, width, depth = self.row.shape
        sums = TileType.of(height, width, self.c)
        places = [(i, j) for i in range(0, rows, height) for j in range(0, columns, width)]
        begin = [b.value(TileZeroOp.of(sums)) for _ in places]
        groups = depth // self.row.group
        bound = self.op.summed[self.depth].data
        if any(multiple(dim, Positions(self.op.positions)) % groups for dim in bound):
            raise wrong(self.op, f"expected pack(b, panels N, …, depth {depth})")
        found = self.nest(0, {}, groups, begin)
        cell = b.view(b.cell(self.c, rows * columns), (rows, columns))
        for (i, j), x in zip(places, found, strict=True):
            b.add_op(TileStoreOp.of(x, cell, [b.index(i), b.index(j)]))
        lanes = s.lanes_of(self.kind)

        def row(place: tuple[int, ...]) -> Sequence[SSAValue]:
            kind = vector_type(self.c, lanes)
            starts = range(0, columns, lanes)
            return [s.b.load_vector(cell, [*place, v], kind, None, None) for v in starts]

        return Fragment(self.kind.shape, lanes, row)

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
        """Some groups' products, added to all sums."""
        height, width, _ = self.row.shape
        rows, columns = self.kind.shape
        depth = groups * self.row.group
        lhs = TileType.of(height, depth, self.a)
        rhs = TileType.of(groups, width * self.row.group, self.b)
        right = [
            self.load(self.rhs, {**at, f".{self.n}": Position(j)}, rhs)
            for j in range(0, columns, width)
        ]
        found: list[SSAValue] = []
        for i in range(0, rows, height):
            left = self.load(self.lhs, {**at, f".{self.m}": Position(i)}, lhs)
            for y in right:
                op = InstructionOp.of(self.row.name, carried[len(found)], left, y)
                found.append(self.s.b.value(op))
        return found

    def load(self, rows: _Rows, at: dict[str, Position], kind: Attribute) -> SSAValue:
        """A tile of a factor."""
        assert isinstance(kind, TileType)
        atoms = {**self.atoms, **at, f".{self.place}": Position(0)}
        indices = [self.s.b.index(self.s.position(dim, atoms).base) for dim in rows.at]
        return self.s.b.value(TileLoadOp.of(rows.memref, indices, kind))
