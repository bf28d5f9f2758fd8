"""Copies that write along another axis than they read: squares are turned in registers."""

from __future__ import annotations

from functools import partial

from mlc.dialects.analysis.transposed_reads import square_side
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp
from mlc.dialects.tile.expression import letter
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
        found = Turned(s, op, _walked_with(s, op, c))
        return found if found.lanes > 1 and found.dtypes_agree() else None

    def __init__(self, s: TileScope, op: CopyOp, across: str) -> None:
        super().__init__(s, op)
        *self.outer, self.across = across  # walked as one: by the last of them
        self.along = self.order[-1]
        self.order = [c for c in self.order if c not in across]
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
        depth: Index = 1
        for c in (*self.outer, self.across):
            depth = b.mul(depth, s.least(self.op.extents[c].data, self.op.positions))
        at = {**at, **{f".{c}": Position(0) for c in self.outer}}

        def line(i: Index) -> None:
            super(Turned, self).row({**at, f".{self.across}": Position(i)}, source)

        if source.open or width.constant is None:
            b.loop(0, depth, 1, line)
            return
        whole = b.mul(b.div(depth, self.lanes), self.lanes)

        def squares(column: Index) -> None:
            b.loop(0, whole, self.lanes, partial(self.square, at, source, column))

        b.loop(0, width.constant, self.lanes, squares, (), NOT_UNROLLED)

        def last() -> None:
            end = b.sub(depth, self.lanes)  # squares that end where the rows do
            b.loop(0, width.constant or 0, self.lanes, lambda c: self.square(at, source, c, end))

        def rest() -> None:
            enough = b.compare("ge", depth, self.lanes)
            b.when(enough, last, lambda: b.loop(whole, depth, 1, line))

        b.when(b.compare("lt", whole, depth), rest)

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


def _walked_with(s: TileScope, op: CopyOp, c: str) -> str:
    """
    A letter after those before it that both memories walk as one with it, as a convolution's
    weights do all that is summed.
    """
    source, target = op.where()
    memory, word = s.memory[op.target], "".join(op.words.result)
    found, step = c, 1
    assert not isinstance(memory, ElementsOp)
    while (k := word.index(found[0])) > 0 and (before := word[k - 1]) != _dealt(op):
        (size, *more) = op.extents[found[0]].data
        axes = [target.index(letter(x)) if letter(x) in target else -1 for x in (before, found[0])]
        if more or size.constant is None or -1 in axes or not memory.strides:
            break
        step *= size.constant
        near, far = (memory.strides[a] for a in (axes[1], axes[0]))
        alone = not any(f".{before}" in dim.symbols() for dim in source[:-1])
        if not alone or ((f".{before}",), step) not in source[-1].terms:
            break
        if not isinstance(near, int) or far != near * size.constant:
            break
        found = before + found
    return found


def _dealt(op: CopyOp) -> str:
    return "" if op.deal is None else op.deal.data
