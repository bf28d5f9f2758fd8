"""Which values of a program differ along the batch axis."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tensor.control import ControlOp
from mlc.passes.tensor.batching.control import rule_of


class Spread:
    """
    The values that vary, starting from some. Marks are only ever added, so a loop is walked until
    nothing is new: that is the least set.
    """

    def __init__(self, varying: Iterable[SSAValue]) -> None:
        self.values = set(varying)

    def mark(self, values: Iterable[SSAValue]) -> bool:
        """These vary; says whether that is news."""
        before = len(self.values)
        self.values.update(values)
        return len(self.values) > before

    def varies(self, value: SSAValue) -> bool:
        """Whether the value differs along the batch axis."""
        return value in self.values

    def block(self, block: Block) -> None:
        """Marks what varies in a block."""
        for op in block.ops:
            if not self.touches(op):
                continue
            if isinstance(op, ControlOp):
                rule_of(op).spread(self, op)
            else:
                self.mark(op.results)

    def touches(self, op: Operation) -> bool:
        """Whether the op, or one inside it, reads a value that varies."""
        if not op.regions:
            return any(x in self.values for x in op.operands)
        return any(x in self.values for inner in op.walk() for x in inner.operands)
