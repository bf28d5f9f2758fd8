"""
Products by instructions that take summed elements in groups (dialects/target/intrinsics.py): a
vector of sums takes a group of the lhs, repeated for each column, and a vector of groups of rhs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dot import DotOp as InstructionOp
from mlc.dialects.dot import RepeatOp, rows_named
from mlc.dialects.errors import MlcError
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.element import ElementsOp
from mlc.dialects.tile.types import frag_of, view_of
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import NOT_UNROLLED
from mlc.lowering.tiles.access import Access, fetch
from mlc.lowering.tiles.fragment import Fragment
from mlc.lowering.tiles.scope import TileScope

UNROLLED = 4
"""Places in a window that are steps of one trip. Measured: docs/measurements.md, Windows."""
MANY = 1 << 16  # places, where how many there are is no number
GROUPED = ("dot_bf16", "dot_u8s8", "dot_i16", "madd_i16", "dot_s8")
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
) -> Sequence[SSAValue]:
    """The sums that loops over summed letters carry; `step` adds the products of one place."""

    def nest(k: int, at: dict[str, Position], carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if k == len(letters):
            return step(at, carried)
        c = letters[k]
        size = s.least(op.summed[c].data, op.positions)

        def trip(i: Index, *sums: SSAValue) -> Sequence[SSAValue]:
            return nest(k + 1, {**at, f".{c}": Position(i)}, sums)

        if k and isinstance(size, int) and _are_few(op, letters[k:]):
            for i in range(size):
                carried = trip(i, *carried)
            return carried

        return s.b.loop(0, size, 1, trip, carried, NOT_UNROLLED)

    return nest(0, {}, begin)


def _are_few(op: DotOp, letters: Sequence[str]) -> bool:
    """Whether places on letters are steps of one trip."""
    total = 1
    for c in letters:
        (size, *more) = op.summed[c].data
        total *= MANY if more or size.constant is None else size.constant
    return total <= UNROLLED


class _Grouped:
    """One tile of a product on its way down."""

    def __init__(self, s: TileScope, op: DotOp, lhs: Access, rhs: Access) -> None:
        assert op.via is not None
        self.s, self.op, self.lhs, self.rhs = s, op, lhs, rhs
        self.kind = frag_of(op.result)
        lanes = s.lanes_of(self.kind)
        self.row = _row(op, lanes)
        self.tile = Fragment.of(self.kind.shape, lanes, ())
        self.atoms = s.atoms(op.positions)
        self.axes = ["".join(axis) for axis in op.words.result]
        *self.summed, self.place = op.summed
        self._check()

    def _check(self) -> None:
        op, row, c = self.op, self.row, f".{self.place}"
        if op.summed[self.place].data != (Dim.const(row.group),):
            raise wrong(op, f"expected a last letter after over of size {row.group}")
        panel = self.s.memory[self.rhs.view]
        side_by_side = (
            not isinstance(panel, ElementsOp)
            and panel.strides[-1] == 1
            and view_of(self.rhs.view).shape[-1] == Dim.const(row.group)
            and self.rhs.at[-1].symbols() == frozenset((c,))
            and (f".{self.axes[-1]}",) in [m for m, one in self.rhs.at[-2].terms if one == 1]
        )
        if not side_by_side:
            raise wrong(op, f"expected the rhs in panels: pack(b, panels N, group {row.group})")

    def fragment(self) -> Fragment:
        """The tile's sums."""
        s, dtype, lanes = self.s, self.kind.dtype, self.tile.lanes
        count = self.tile.vectors * sum(1 for _ in self.tile.rows)
        zero = s.b.element(0, dtype, lanes)
        begin = s.fragments[self.op.init].all() if self.op.init is not None else [zero] * count
        beyond = [zero] * (self.tile.vectors if self.op.zero is not None else 0)
        found = list(over_summed(s, self.op, self.summed, [*begin, *beyond], self.step))
        sums, beyond = found[:count], found[count:]
        if beyond:
            e = s.element_builder(lanes)
            sums = [e.apply(arith.SubiOp, x, beyond[k % len(beyond)]) for k, x in enumerate(sums)]
        return Fragment.of(self.kind.shape, lanes, sums)

    def step(self, at: dict[str, Position], carried: Sequence[SSAValue]) -> list[SSAValue]:
        """One group's products, added to all sums; then what the lhs is too much."""
        s, row, b = self.s, self.row, self.s.b
        many = self.tile.lanes * row.group
        columns = [
            self.operand(self.rhs, at, {self.axes[-1]: v * self.tile.lanes}, many)
            for v in range(self.tile.vectors)
        ]
        found: list[SSAValue] = []
        for place in self.tile.rows:
            outer = dict(zip(self.axes, place, strict=False))
            group = self.operand(self.lhs, at, outer, row.group)
            left = b.value(RepeatOp.of(group, many))
            for right in columns:
                found.append(self.dot(carried[len(found)], left, right))
        if self.op.zero is not None:
            shift = self.op.zero.value.data
            left = s.b.element(shift, view_of(self.lhs.view).dtype, many)
            for right in columns:
                found.append(self.dot(carried[len(found)], left, right))
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


def _row(op: DotOp, lanes: int) -> Intrinsic:
    """The row for vectors of so many sums."""
    assert op.via is not None
    dtypes = (view_of(op.lhs).dtype.name, view_of(op.rhs).dtype.name, frag_of(op.result).dtype.name)
    for row in rows_named(op.via.data):
        if row.shape[1] == lanes and row.dtypes == dtypes:
            return row
    raise wrong(op, f"no such instruction has vectors of {lanes} {dtypes[2]} for {dtypes[:2]}")


def wrong(op: DotOp, said: str) -> MlcError:
    """A product whose instruction does not take it so."""
    assert op.via is not None
    return MlcError(f"tiles to loops: {op.name}: via {op.via.data}: {said}")
