"""Copies that write along another axis than they read: squares are turned in registers."""

from __future__ import annotations

from functools import partial

from mlc.dialects.analysis.transposed_reads import square_side
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import NOT_UNROLLED
from mlc.lowering.loops.turn import turned
from mlc.lowering.tiles.access import Access, fetch, put
from mlc.lowering.tiles.copy import Copy
from mlc.lowering.tiles.scope import TileScope


class Turned(Copy):
    """A copy whose source lies along a letter `across`, its target along its own last one."""

    @staticmethod
    def of(s: TileScope, op: CopyOp) -> Turned | None:
        """The copy; None where it does not turn what it copies, or not by whole vectors."""
        source, target = op.where()
        buffer, along = s.memory[op.source], op.words.result[-1]
        if isinstance(buffer, ElementsOp) or not buffer.strides or buffer.strides[-1] != 1:
            return None
        across = [c for c in op.extents if ((f".{c}",), 1) in source[-1].terms]
        if len(across) != 1 or len(along) != 1 or across[0] == along or across[0] == _dealt(op):
            return None
        (c,) = across
        places = [dim for dim in target if f".{c}" in dim.symbols()]
        rows = [dim for dim in source[:-1] if ((f".{along}",), 1) in dim.terms]
        apart = f".{along}" not in source[-1].symbols() and len(rows) == 1
        if not apart or len(places) != 1 or any(f".{c}" in dim.symbols() for dim in source[:-1]):
            return None
        found = Turned(s, op, c)
        return found if found.lanes > 1 and found.dtypes_agree() else None

    def __init__(self, s: TileScope, op: CopyOp, across: str) -> None:
        super().__init__(s, op)
        self.across, self.along = across, self.order[-1]
        self.order.remove(across)
        self.lanes = square_side(self.lanes)

    def dtypes_agree(self) -> bool:
        """Whether elements are whole vectors' of both memories."""
        source, target = self.s.memory[self.op.source], self.s.memory[self.op.target]
        assert not isinstance(source, ElementsOp)
        assert not isinstance(target, ElementsOp)
        return source.dtype is target.dtype and source.dtype.bytes in (4, 8)

    def row(self, at: dict[str, Position], source: Access) -> None:
        """All of both letters: squares, then what is left, and what may lie outside, by vectors."""
        s, b = self.s, self.s.b
        (width, *_) = self.op.extents[self.along].data
        depth = s.least(self.op.extents[self.across].data, self.op.positions)

        def line(i: Index) -> None:
            super(Turned, self).row({**at, f".{self.across}": Position(i)}, source)

        if source.open or width.constant is None:
            b.loop(0, depth, 1, line)
            return
        whole = b.mul(b.div(depth, self.lanes), self.lanes)

        def squares(column: Index) -> None:
            b.loop(0, whole, self.lanes, partial(self.square, at, source, column))

        b.loop(0, width.constant, self.lanes, squares, (), NOT_UNROLLED)
        b.loop(whole, depth, 1, line)

    def square(self, at: dict[str, Position], source: Access, column: Index, i: Index) -> None:
        """So many rows of the source become as many of the target."""
        s, b, lanes = self.s, self.s.b, self.lanes
        along, across = f".{self.along}", f".{self.across}"
        here = {**self.atoms, **at, across: Position(i, 1)}
        rows = [
            fetch(s, source, {**here, along: Position(b.add(column, k))}, lanes)
            for k in range(lanes)
        ]
        for k, value in enumerate(turned(b, rows, self.item_bytes())):
            place = {along: Position(column, 1), across: Position(b.add(i, k))}
            put(s, self.target, {**self.atoms, **at, **place}, lanes, value)

    def item_bytes(self) -> int:
        """Of one element."""
        source = self.s.memory[self.op.source]
        assert not isinstance(source, ElementsOp)
        return source.dtype.bytes


def _dealt(op: CopyOp) -> str:
    return "" if op.deal is None else op.deal.data
