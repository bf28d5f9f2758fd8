"""Copies into panels whose summed elements lie in groups side by side: "(kc)(Jn) -> Jknc"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from mlc.dialects.lanes import lanes_of
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp
from mlc.dialects.tile.types import view_of
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.tiles.access import Access, fetch, put
from mlc.lowering.tiles.copy import Copy, Straight
from mlc.lowering.tiles.scope import TileScope
from mlc.lowering.tiles.turned import Turned

GROUP = 64
"""Bytes of the vectors that are cut into groups."""


def lower_copy(s: TileScope, op: CopyOp) -> None:
    """The whole copy, or a worker's share of it."""
    kind = _kind(op)
    copy = kind(s, op) if kind is not None else Turned.of(s, op) or Straight(s, op)
    copy.run()


def _kind(op: CopyOp) -> type[_Groups] | None:
    """How panels of groups are filled; None where the copy makes none."""
    word, names = op.words.result, _names(op)
    if names is None:
        return None
    _, depth, along, place = (f".{c}" for c in names)
    group, columns = (op.extents[c[1:]].data[0].constant for c in (place, along))
    (*_, last), _ = op.where()
    if group not in (2, 4, 8) or columns is None:
        return None
    if {((depth,), group), ((place,), 1)} <= set(last.terms) and along not in last.symbols():
        return Cut if word[1] == depth[1:] else Rows
    if ((along,), 1) in last.terms and not {depth, place} & last.symbols():
        return Interleaved if word[1] == depth[1:] else None
    return None


def _names(op: CopyOp) -> tuple[str, str, str, str] | None:
    """The letters of panels, groups, rows or columns, and places: of "(kc)(Jm) -> Jkmc" J k m c."""
    source, word = op.words.operands[0], op.words.result
    if len(word) != 4 or len(source) != 2 or any(len(axis) != 1 for axis in word):
        return None
    if len(source[0]) != 2 or len(source[1]) != 2 or source[0][1] != word[-1]:
        return None
    return source[1][0], source[0][0], source[1][1], source[0][1]


class _Groups(Copy):
    """A copy to panels, groups of summed elements, rows or columns, and places in a group."""

    def __init__(self, s: TileScope, op: CopyOp) -> None:
        super().__init__(s, op)
        names = _names(op)
        assert names is not None
        self.panel, self.depth, self.along, self.place = names
        self.group, self.width = (
            op.extents[c].data[0].constant or 1 for c in (self.place, self.along)
        )

    def place_at(self, at: Mapping[str, Position]) -> dict[str, Position]:
        """The first element of a group and those behind it."""
        return {**self.atoms, **at, f".{self.place}": Position(0, 1)}


class Interleaved(_Groups):
    """Of a factor whose rows lie across the groups: vectors of a group's rows, stored in turn."""

    def __init__(self, s: TileScope, op: CopyOp) -> None:
        super().__init__(s, op)
        self.order = [self.depth, self.panel, self.along]
        self.lanes = s.widest
        while self.width % self.lanes:
            self.lanes //= 2

    def vector(self, at: dict[str, Position], source: Access, lanes: int) -> None:
        s, along, place = self.s, f".{self.along}", f".{self.place}"
        rows = [
            fetch(s, source, {**self.atoms, **at, place: Position(k)}, lanes, self.fill)
            for k in range(self.group)
        ]
        start = self.place_at({**at, along: Position(at[along].base)})
        put(s, self.target, start, lanes * self.group, in_turn(s.b, rows))


class Cut(_Groups):
    """
    Of a factor whose rows lie along the groups: vectors of a row, stored group by group; of all
    rows of a panel at once where a register holds such a vector, and two are one table of lanes.
    """

    def __init__(self, s: TileScope, op: CopyOp) -> None:
        super().__init__(s, op)
        self.order = [self.panel, self.along, self.depth]
        self.groups = GROUP // (self.group * view_of(op.target).dtype.bytes)

    def nest(self, k: int, at: dict[str, Position], source: Access) -> None:
        """Around the loop over a panel's rows: whether all of them are there."""
        s, b, along = self.s, self.s.b, f".{self.along}"
        rows = [axis for axis in source.open if along in source.at[axis].symbols()]
        if self.order[k] != self.along or not self.has_tables() or {*rows} & {*source.low}:
            super().nest(k, at, source)
            return
        last = {**self.place_at(at), along: Position(self.width - 1)}
        inside: SSAValue | bool = True
        for axis in rows:
            end = s.position(source.at[axis], last).base
            inside = b.both(inside, b.compare("lt", end, b.dim(view_of(source.view).shape[axis])))
        whole = replace(source, open=tuple(axis for axis in source.open if axis not in rows))
        one_by_one = super().nest
        b.when(inside, lambda: self.panels(at, whole), lambda: one_by_one(k, at, source))

    def has_tables(self) -> bool:
        """Whether vectors are permuted by one instruction, and a panel's rows are few of them."""
        target = self.s.memory[self.op.target]
        steps = (self.width * self.group, self.group, 1)
        laid = not isinstance(target, ElementsOp) and tuple(target.strides[-3:]) == steps
        return self.s.vector_bits == 8 * GROUP and self.width <= self.groups and laid

    def panels(self, at: dict[str, Position], source: Access) -> None:
        """All rows of a panel: as many groups at once as lie inside, then one by one."""
        b, along, depth = self.s.b, f".{self.along}", f".{self.depth}"
        many, count, closed = self.parts({**at, along: Position(0)}, source)
        b.loop(0, many, self.groups, lambda i: self.turned(at, closed, i))

        def rest(row: Index) -> None:
            place = {**at, along: Position(row)}
            b.loop(many, count, 1, lambda i: self.one({**place, depth: Position(i)}, source))

        if many != count:
            b.loop(0, self.width, 1, rest)

    def turned(self, at: dict[str, Position], source: Access, first: Index) -> None:
        """A vector of groups of each row, stored as vectors of groups of all rows in turn."""
        s, along, depth = self.s, f".{self.along}", f".{self.depth}"
        lanes = self.groups * self.group
        rows = [
            fetch(
                s,
                source,
                self.place_at({**at, along: Position(r), depth: Position(first)}),
                lanes,
                self.fill,
            )
            for r in range(self.width)
        ]
        for vector in range(self.width):
            places = [divmod(vector * self.groups + k, self.width) for k in range(self.groups)]
            row, value = places[0]
            where = {**at, along: Position(value), depth: Position(s.b.add(first, row))}
            put(s, self.target, self.place_at(where), lanes, self.gathered(rows, places))

    def gathered(self, rows: Sequence[SSAValue], places: Sequence[tuple[int, int]]) -> SSAValue:
        """A vector of groups, each by its number and its row's."""
        group, lanes = self.group, self.groups * self.group
        first, *others = dict.fromkeys(row for _, row in places)
        found, done = rows[first], False
        for other in others or [first]:
            order: list[int] = []
            for k, (number, row) in enumerate(places):
                kept = number if row == first and not done else k
                start = lanes + number * group if row == other else kept * group
                order += range(start, start + group)
            found, done = self.s.b.shuffled(found, rows[other], order), True
        return found

    def row(self, at: dict[str, Position], source: Access) -> None:
        """One row: as many groups at once as lie inside, then one by one."""
        many, count, closed = self.parts(at, source)
        b = self.s.b
        b.loop(0, many, self.groups, lambda i: self.several(at, closed, i))
        b.loop(many, count, 1, lambda i: self.one({**at, f".{self.depth}": Position(i)}, source))

    def parts(self, at: dict[str, Position], source: Access) -> tuple[Index, Index, Access]:
        """Groups that are copied by whole vectors, all groups, and where those vectors lie."""
        s, b, depth = self.s, self.s.b, f".{self.depth}"
        count = s.least(self.op.extents[self.depth].data, self.op.positions)
        axis = len(source.at) - 1
        first = s.position(source.at[axis], {**self.place_at(at), depth: Position(0)}).base
        inside: Index = count
        closed = source
        if axis in source.open:
            left = b.max(b.sub(b.dim(view_of(source.view).shape[axis]), first), 0)
            inside = b.min(count, b.div(left, self.group))
            closed = replace(source, open=tuple(x for x in source.open if x != axis))
        return b.mul(b.div(inside, self.groups), self.groups), count, closed

    def several(self, at: dict[str, Position], source: Access, first: Index) -> None:
        """A vector of groups."""
        lanes = self.groups * self.group
        start = self.place_at({**at, f".{self.depth}": Position(first)})
        self.put(at, first, fetch(self.s, source, start, lanes, self.fill))

    def put(self, at: dict[str, Position], first: Index, values: SSAValue) -> None:
        """The groups of a vector, each to its place."""
        s, group = self.s, self.group
        for k in range(self.groups):
            where = self.place_at({**at, f".{self.depth}": Position(s.b.add(first, k))})
            own = range(k * group, (k + 1) * group)
            put(s, self.target, where, group, s.b.shuffled(values, values, own))

    def one(self, at: dict[str, Position], source: Access) -> None:
        """One group, which may end outside."""
        atoms = self.place_at(at)
        value = fetch(self.s, source, atoms, self.group, self.fill)
        put(self.s, self.target, atoms, self.group, value)


class Rows(Cut):
    """Of such a factor to panels whose rows lie along the groups too: vectors as they are."""

    def has_tables(self) -> bool:
        """Nothing is permuted."""
        return False

    def put(self, at: dict[str, Position], first: Index, values: SSAValue) -> None:
        start = self.place_at({**at, f".{self.depth}": Position(first)})
        put(self.s, self.target, start, self.groups * self.group, values)


def in_turn(b: LoopBuilder, values: Sequence[SSAValue]) -> SSAValue:
    """The elements of vectors, of each one in turn; of single elements the vector of them."""
    unit, found = 1, list(values)
    if lanes_of(found[0].type) is None:
        found = [b.splat(x, 1) for x in found]
    while len(found) > 1:
        found = [_pair(b, x, y, unit) for x, y in zip(found[::2], found[1::2], strict=True)]
        unit *= 2
    return found[0]


def _pair(b: LoopBuilder, x: SSAValue, y: SSAValue, unit: int) -> SSAValue:
    """Of two vectors so many elements in turn."""
    lanes = lanes_of(x.type) or 1
    order = [
        start + k + from_
        for start in range(0, lanes, unit)
        for from_ in (0, lanes)
        for k in range(unit)
    ]
    return b.shuffled(x, y, order)
