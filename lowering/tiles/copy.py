"""Copies from memory to memory: loops over the target's letters, the last of them in vectors."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, FloorDiv
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.types import view_of
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.tiles.access import Access, fetch, point_of, put
from mlc.lowering.tiles.scope import TileScope
from mlc.lowering.tiles.team import share

AT_ONCE = 8
"""Rows that are read side by side: as many streams, and as many lines of one set of level 1, as any
machine has."""


def _is_divided(dim: Dim, name: str) -> bool:
    """Whether a letter stands in a quotient."""
    atoms = (atom for monomial, _ in dim.terms for atom in monomial)
    return any(isinstance(x, FloorDiv) and name in x.numerator.symbols() for x in atoms)


def _step(dim: Dim, name: str) -> int:
    """Of a letter that stands alone in a subscript, how far it goes."""
    return sum(n for monomial, n in dim.terms if monomial == (name,))


class Copy:
    """One copy on its way down."""

    def __init__(self, s: TileScope, op: CopyOp) -> None:
        self.s, self.op = s, op
        letters = {c: x.data for c, x in op.extents.items()}
        source, target = op.where()
        self.source = Access.of(op.source, source, op.positions, letters)
        self.target = Access.of(op.target, target, op.positions, letters)
        self.order = [c for axis in op.words.result for c in axis]
        if op.deal is not None:
            self.order.remove(op.deal.data)
            self.order.insert(0, op.deal.data)
        self.atoms = s.atoms(op.positions)
        self.fill = 0 if op.fill is None else op.fill.value.data
        self.lanes = self._lanes()
        self.ends: dict[str, tuple[Index, Index]] = {}  # of letters of which a part is walked

    def _lanes(self) -> int:
        """Elements of a vector along the last letter: 1 where vectors do not come out even."""
        c = self.order[-1]
        (size, *more) = self.op.extents[c].data
        last = [a for a, dim in enumerate(self.target.at) if f".{c}" in dim.symbols()]
        if more or size.constant is None or last != [len(self.target.at) - 1]:
            return 1
        if any(_is_divided(dim, f".{c}") for dim in self.source.at):
            return 1
        steps = {_step(self.source.at[axis], f".{c}") for axis in self.source.open}
        if steps - {0, 1}:
            return 1  # vectors in steps, of which some elements may lie outside
        return self.fitting(size.constant)

    def fitting(self, size: int) -> int:
        """Elements of vectors for so many."""
        lanes = self.s.widest
        while size % lanes:
            lanes //= 2
        return lanes

    def run(self) -> None:
        """
        Panels one by one; of panels that lie side by side in the source's rows a few rows at once:
        then all that is there of so many rows is read before the next ones.
        """
        b, order = self.s.b, self.order
        *_, rows = self.op.words.operands[0]
        if len(order) != 3 or [order[0], order[2]] != [*rows]:
            self.nest(0, {}, self.source)
            return
        size = self.s.least(self.op.extents[order[1]].data, self.op.positions)

        def some(first: Index) -> None:
            self.ends[order[1]] = first, b.min(b.add(first, AT_ONCE), size)
            self.nest(0, {}, self.source)

        b.loop(0, size, AT_ONCE, some)

    def nest(self, k: int, at: dict[str, Position], source: Access) -> None:
        """The loops from the k-th letter on."""
        b, c = self.s.b, self.order[k]
        if k == len(self.order) - 1:
            self.row(at, source)
            return
        size = self.s.least(self.op.extents[c].data, self.op.positions)
        low, high = self.ends.get(c, (0, size))
        if self.op.deal is not None and c == self.op.deal.data:
            low, high = share(b, size, self.s.thread, self.s.threads)

        def trip(i: Index) -> None:
            inner = {**at, f".{c}": Position(i)}
            axis = self.last_axis(inner)
            if axis is None or axis not in source.open:
                self.nest(k + 1, inner, source)
                return
            closed = Access(source.view, source.at, tuple(a for a in source.open if a != axis))
            b.when(
                self.is_whole(axis, inner),
                lambda: self.nest(k + 1, inner, closed),
                lambda: self.nest(k + 1, inner, source),
            )

        b.loop(low, high, 1, trip)

    def last_axis(self, at: dict[str, Position]) -> int | None:
        """The source's axis that vectors walk, where all its other letters just became known."""
        c, newest = self.order[-1], list(at)[-1]
        for axis, dim in enumerate(self.source.at):
            letters = {s for s in dim.symbols() if s[0] == "."} - {f".{c}"}
            if f".{c}" in dim.symbols() and newest in letters and letters <= at.keys():
                return axis
        return None

    def is_whole(self, axis: int, at: dict[str, Position]) -> SSAValue | bool:
        """Whether all elements of the last letter are there."""
        b, c = self.s.b, self.order[-1]
        first = self.s.position(
            self.source.at[axis], {**self.atoms, **at, f".{c}": Position(0)}
        ).base
        count = self.s.least(self.op.extents[c].data, self.op.positions)
        size = b.dim(view_of(self.source.view).shape[axis])
        inside = b.compare("le", b.add(first, count), size)
        if any(sign < 0 for _, sign in self.source.at[axis].terms):
            inside = b.both(inside, b.compare("ge", first, 0))
        return inside

    def row(self, at: dict[str, Position], source: Access) -> None:
        """All elements of the last letter."""
        s, c = self.s, self.order[-1]
        size = s.least(self.op.extents[c].data, self.op.positions)
        if isinstance(size, int) and size <= 8 * self.lanes and self.lanes > 1:
            for v in range(0, size, self.lanes):
                self.vector({**at, f".{c}": Position(v, 1)}, source, self.lanes)
            return

        def trip(i: Index) -> None:
            place = Position(i, 1) if self.lanes > 1 else Position(i)
            self.vector({**at, f".{c}": place}, source, self.lanes)

        s.b.loop(0, size, self.lanes, trip)

    def vector(self, at: dict[str, Position], source: Access, lanes: int) -> None:
        """One vector, or one element."""
        s, atoms = self.s, {**self.atoms, **at}
        point = point_of(s, source, atoms)
        steps = {p.step for a, p in enumerate(point) if a in source.open}
        if lanes > 1 and steps - {0, 1}:
            raise MlcError(
                f"tiles to loops: {self.op.name} {self.op.letters.data}: vectors walk an axis in"
                " steps where they may lie outside; expected another last letter"
            )
        put(s, self.target, atoms, lanes, fetch(s, source, atoms, lanes, self.fill))


class Straight(Copy):
    """A copy along what both sides lie along: the last vector ends where the row does."""

    def fitting(self, size: int) -> int:
        lanes = self.s.widest
        while lanes > max(size, 1):
            lanes //= 2
        return lanes

    def row(self, at: dict[str, Position], source: Access) -> None:
        s, c, lanes = self.s, self.order[-1], self.lanes
        size = s.least(self.op.extents[c].data, self.op.positions)
        rest = size % lanes if isinstance(size, int) else 0
        if not rest:
            super().row(at, source)
            return
        assert isinstance(size, int)
        whole = size - rest
        starts = range(0, whole, lanes) if whole <= 8 * lanes else range(0)
        for v in starts:
            self.vector({**at, f".{c}": Position(v, 1)}, source, lanes)
        if not starts:
            s.b.loop(
                0,
                whole,
                lanes,
                lambda i: self.vector({**at, f".{c}": Position(i, 1)}, source, lanes),
            )
        self.vector({**at, f".{c}": Position(size - lanes, 1)}, source, lanes)
