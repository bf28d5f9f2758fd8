"""
Products by instructions that take summed elements in groups (dialects/target/intrinsics.py).

Of one that makes a row of sums, a vector of sums takes a group of the lhs, repeated for each
column, and a vector of groups of the rhs. Of one that makes a small matrix of sums, it takes groups
of rows of the lhs, which lie side by side in a panel as columns of the rhs do; what begins sums, or
follows them, has rows: vectors of parts of such matrices. They may be shorter than the sums', where
wider elements are computed of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dot import DotOp as InstructionOp
from mlc.dialects.dot import RepeatOp, rows_named
from mlc.dialects.errors import MlcError
from mlc.dialects.lanes import lanes_of
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.bounds import multiple
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.element import ElementsOp
from mlc.dialects.tile.expression import Positions, letter
from mlc.dialects.tile.types import FragType, frag_of, view_of
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import NOT_UNROLLED, LoopBuilder
from mlc.lowering.tiles.access import Access, fetch
from mlc.lowering.tiles.fragment import Fragment
from mlc.lowering.tiles.scope import TileScope

UNROLLED = 4
"""Places in a window that are steps of one trip. Measured: docs/measurements.md, Windows."""
MANY = 1 << 16  # places, where how many there are is no number
GROUPED = (
    "dot_bf16", "dot_u8s8", "dot_i16", "madd_i16", "dot_s8", "mmla_bf16", "mmla_s8",
)  # fmt: skip
"""The rows that are lowered here."""


def lower_grouped(s: TileScope, op: DotOp, lhs: Access, rhs: Access) -> Fragment:
    """Vectors of sums that a loop over groups of summed elements carries."""
    return _Grouped(s, op, lhs, rhs).fragment()


def over_summed(
    s: TileScope,
    op: DotOp,
    letters: Sequence[str],
    begin: Sequence[SSAValue],
    step: Callable[[dict[str, Position], Sequence[SSAValue]], Sequence[SSAValue]],
    at_once: int = UNROLLED,
) -> Sequence[SSAValue]:
    """
    The sums that loops over summed letters carry; `step` adds the products of one place. Windows of
    up to `at_once` places are steps of one trip.
    """

    def nest(k: int, at: dict[str, Position], carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if k == len(letters):
            return step(at, carried)
        c = letters[k]
        size = s.least(op.summed[c].data, op.positions)

        def trip(i: Index, *sums: SSAValue) -> Sequence[SSAValue]:
            return nest(k + 1, {**at, f".{c}": Position(i)}, sums)

        if k and isinstance(size, int) and _count(op, letters[k:]) <= at_once:
            for i in range(size):
                carried = trip(i, *carried)
            return carried

        return s.b.loop(0, size, 1, trip, carried, NOT_UNROLLED)

    return nest(0, {}, begin)


def _count(op: DotOp, letters: Sequence[str]) -> int:
    """How many places letters have together."""
    total = 1
    for c in letters:
        (size, *more) = op.summed[c].data
        total *= MANY if more or size.constant is None else size.constant
    return total


class _Grouped:
    """One tile of a product on its way down."""

    def __init__(self, s: TileScope, op: DotOp, lhs: Access, rhs: Access) -> None:
        assert op.via is not None
        self.s, self.op, self.lhs, self.rhs = s, op, lhs, rhs
        self.kind = frag_of(op.result)
        self.lanes = s.lanes_of(self.kind)
        self.row = _row(op, self.kind, s.vector_bits)
        self.tall, self.wide, _ = self.row.shape
        self.atoms = s.atoms(op.positions)
        self.axes = ["".join(axis) for axis in op.words.result]
        *self.summed, self.place = op.summed
        self._check()

    def _check(self) -> None:
        op, group = self.op, self.row.group
        if op.summed[self.place].data != (Dim.const(group),):
            raise wrong(op, f"expected a last letter after over of size {group}")
        if not self.side_by_side(self.rhs, self.axes[-1], self.wide):
            raise wrong(op, f"expected the rhs in panels: pack(b, panels N, group {group})")
        rows = "".join(self.axes[-2:-1])
        if self.tall > 1 and not self.side_by_side(self.lhs, rows, self.tall):
            raise wrong(op, f"expected the lhs in panels: pack(a, panels N, group {group})")

    def side_by_side(self, access: Access, axis: str, count: int) -> bool:
        """Whether groups of so many rows or columns lie side by side, in one panel."""
        panel, group = self.s.memory[access.view], self.row.group
        if isinstance(panel, ElementsOp) or tuple(panel.strides[-2:]) != (group, 1):
            return False
        inside, last = access.at[-2:]
        start = inside - letter(axis)
        return (
            last.symbols() == frozenset((f".{self.place}",))
            and view_of(access.view).shape[-1] == Dim.const(group)
            and ((f".{axis}",), 1) in inside.terms
            and multiple(start, Positions(self.op.positions)) % count == 0
        )

    def fragment(self) -> Fragment:
        """The tile's sums."""
        s = self.s
        columns = self.kind.shape[-1]
        count = prod(self.kind.shape) // (self.tall * self.wide)
        zero = s.b.element(0, self.kind.dtype, self.tall * self.wide)
        begin = [zero] * count
        if self.op.init is not None:
            begin = self.matrices(s.fragments[self.op.init])
        beyond = [zero] * (columns // self.wide if self.op.zero is not None else 0)
        found = list(over_summed(s, self.op, self.summed, [*begin, *beyond], self.step))
        sums, beyond = found[:count], found[count:]
        if beyond:
            e = s.element_builder(self.tall * self.wide)
            sums = [e.apply(arith.SubiOp, x, beyond[k % len(beyond)]) for k, x in enumerate(sums)]
        return Fragment.of(self.kind.shape, self.lanes, self.rows(sums))

    def step(self, at: dict[str, Position], carried: Sequence[SSAValue]) -> list[SSAValue]:
        """One group's products, added to all sums; then what the lhs is too much."""
        s, row, b = self.s, self.row, self.s.b
        many = self.wide * row.group
        right = [
            self.operand(self.rhs, at, {self.axes[-1]: j}, many)
            for j in range(0, self.kind.shape[-1], self.wide)
        ]
        found: list[SSAValue] = []
        rows = Fragment.of(self.kind.shape, self.lanes, ()).rows
        for place in [*rows][:: self.tall]:
            outer = dict(zip(self.axes, place, strict=False))
            left = self.operand(self.lhs, at, outer, self.tall * row.group)
            if self.tall == 1:
                left = b.value(RepeatOp.of(left, many))
            for x in right:
                found.append(self.dot(carried[len(found)], left, x))
        if self.op.zero is not None:
            shift = self.op.zero.value.data
            left = s.b.element(shift, view_of(self.lhs.view).dtype, many)
            for x in right:
                found.append(self.dot(carried[len(found)], left, x))
        return found

    def operand(
        self, access: Access, at: dict[str, Position], places: dict[str, int], lanes: int
    ) -> SSAValue:
        """Elements that lie side by side, from the first place of a group on."""
        letters = {f".{c}": Position(k) for c, k in places.items()}
        atoms = {**self.atoms, **at, **letters, f".{self.place}": Position(0, 1)}
        return fetch(self.s, access, atoms, lanes)

    def dot(self, acc: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.s.b.value(InstructionOp.of(self.row.name, acc, lhs, rhs))

    def number(self, i: int, j: int) -> int:
        """Where an element of the tile is in the vectors of sums, counted through all of them."""
        tall, wide = self.tall, self.wide
        matrix = i // tall * (self.kind.shape[-1] // wide) + j // wide
        return matrix * tall * wide + i % tall * wide + j % wide

    def matrices(self, rows: Fragment) -> list[SSAValue]:
        """The vectors of sums that a tile begins with."""
        columns, elements = self.kind.shape[-1], prod(self.kind.shape)
        order = sorted(range(elements), key=lambda k: self.number(*divmod(k, columns)))
        return regrouped(self.s.b, rows.all(), order, self.tall * self.wide)

    def rows(self, sums: Sequence[SSAValue]) -> list[SSAValue]:
        """The vectors of the tile's rows."""
        columns, elements = self.kind.shape[-1], prod(self.kind.shape)
        order = [self.number(*divmod(k, columns)) for k in range(elements)]
        return regrouped(self.s.b, sums, order, self.lanes)


def regrouped(
    b: LoopBuilder, vectors: Sequence[SSAValue], order: Sequence[int], lanes: int
) -> list[SSAValue]:
    """
    Vectors of so many lanes, or single elements, of the elements of others in another order: by
    their numbers, counted through all vectors.
    """
    if lanes_of(vectors[0].type) is None:
        vectors = [b.splat(x, 1) for x in vectors]
    found = [_gathered(b, vectors, order[k : k + lanes]) for k in range(0, len(order), lanes)]
    return found if lanes > 1 else [b.lane(x, 0) for x in found]


def _gathered(b: LoopBuilder, vectors: Sequence[SSAValue], order: Sequence[int]) -> SSAValue:
    """One vector of them: one shuffle for each two that it is of."""
    lanes = lanes_of(vectors[0].type) or 1
    places = [divmod(k, lanes) for k in order]
    of = [*dict.fromkeys(vector for vector, _ in places)]
    if len(of) > 2:
        half = len(order) // 2
        x, y = (_gathered(b, vectors, part) for part in (order[:half], order[half:]))
        return b.shuffled(x, y, range(len(order)))
    taken = [of.index(vector) * lanes + lane for vector, lane in places]
    if taken == [*range(lanes)]:
        return vectors[of[0]]
    return b.shuffled(vectors[of[0]], vectors[of[-1]], taken)


def _row(op: DotOp, kind: FragType, vector_bits: int) -> Intrinsic:
    """The row of the widest vectors that the tile comes out even in."""
    assert op.via is not None
    dtypes = (view_of(op.lhs).dtype.name, view_of(op.rhs).dtype.name, kind.dtype.name)
    rows, columns = (1, 1, *kind.shape)[-2:]
    fitting = [
        row
        for row in rows_named(op.via.data)
        if row.dtypes == dtypes
        and row.vector_bits <= vector_bits
        and (rows % row.shape[0], columns % row.shape[1]) == (0, 0)
    ]
    if not fitting:
        raise wrong(op, f"no such instruction makes {rows} x {columns} {dtypes[2]} of {dtypes[:2]}")
    return max(fitting, key=lambda row: row.shape[1])


def wrong(op: DotOp, said: str) -> MlcError:
    """A product whose instruction does not take it so."""
    assert op.via is not None
    return MlcError(f"tiles to loops: {op.name}: via {op.via.data}: {said}")
