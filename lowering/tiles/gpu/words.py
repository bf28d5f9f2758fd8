"""Numbers of 32 bits: addresses in shared memory, coordinates, parities."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation, SSAValue

from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import LoopBuilder

Word = int | SSAValue
"""A number that is known, or an i32."""


class Words:
    """Arithmetic that folds what is known."""

    def __init__(self, b: LoopBuilder) -> None:
        self.b = b

    def value(self, x: Word) -> SSAValue:
        """As a value."""
        return self.b.constant(IntegerAttr(x, i32), i32) if isinstance(x, int) else x

    def of_index(self, x: Index) -> Word:
        """A position; it fits."""
        if isinstance(x, int):
            return x
        return self.b.value(arith.IndexCastOp.create(operands=[x], result_types=[i32]))

    def index(self, x: Word) -> Index:
        """As a position."""
        if isinstance(x, int):
            return x
        return self.b.value(arith.IndexCastOp.create(operands=[x], result_types=[INDEX]))

    def _apply(self, op: type[Operation], x: Word, y: Word) -> SSAValue:
        return self.b.value(op(self.value(x), self.value(y)))  # pyright: ignore[reportCallIssue]

    def add(self, x: Word, y: Word) -> Word:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if x == 0 or y == 0:
            return y if x == 0 else x
        return self._apply(arith.AddiOp, x, y)

    def mul(self, x: Word, y: Word) -> Word:
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        if x == 1 or y == 1:
            return y if x == 1 else x
        return 0 if x == 0 or y == 0 else self._apply(arith.MuliOp, x, y)

    def both(self, x: Word, y: int) -> Word:
        """Bits that both have."""
        return x & y if isinstance(x, int) else self._apply(arith.AndIOp, x, y)

    def differ(self, x: Word, y: Word) -> Word:
        """Bits that one of them has."""
        if isinstance(x, int) and isinstance(y, int):
            return x ^ y
        if x == 0 or y == 0:
            return y if x == 0 else x
        return self._apply(arith.XOrIOp, x, y)

    def shifted(self, x: Word, bits: int) -> Word:
        """x / 2^bits; to the left where bits are less than 0."""
        if isinstance(x, int):
            return x >> bits if bits >= 0 else x << -bits
        if bits >= 0:
            return self._apply(arith.ShRUIOp, x, bits)
        return self._apply(arith.ShLIOp, x, -bits)

    def equal(self, x: Word, y: Word) -> SSAValue:
        """Whether they are."""
        return self.b.value(arith.CmpiOp(self.value(x), self.value(y), "eq"))

    def differs(self, x: Word, y: Word) -> SSAValue:
        """Whether they are not."""
        return self.b.value(arith.CmpiOp(self.value(x), self.value(y), "ne"))

    def less(self, x: Word, y: Word) -> SSAValue:
        """Whether one of two numbers that are not negative is."""
        return self.b.value(arith.CmpiOp(self.value(x), self.value(y), "ult"))

    def choose(self, condition: SSAValue, x: Word, y: Word) -> SSAValue:
        """One of two."""
        return self.b.value(arith.SelectOp(condition, self.value(x), self.value(y)))

    def both_hold(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Of two conditions."""
        return self.b.value(arith.AndIOp(x, y))
