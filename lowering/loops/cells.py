"""State of a loop in memory: a few integers, and the loop that goes on while they say so."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32, i64
from xdsl.ir import Block, Region, SSAValue

from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import LoopBuilder, buffer_type


class Cells:
    """Some i64 on the stack, read and written as indices."""

    def __init__(self, b: LoopBuilder, count: int) -> None:
        self.b = b
        self.memory = b.value(
            memref.AllocaOp.create(
                result_types=[buffer_type(i64, (count,))],
                properties={
                    "operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0]),
                    "alignment": IntegerAttr(64, i64),
                },
            )
        )

    def get(self, cell: Index) -> Index:
        """What a cell holds."""
        found = self.b.load(self.memory, [cell])
        return self.b.value(arith.IndexCastOp.create(operands=[found], result_types=[INDEX]))

    def set(self, cell: Index, value: Index) -> None:
        """Fills a cell."""
        operands = [self.b.index(value)]
        stored = self.b.value(arith.IndexCastOp.create(operands=operands, result_types=[i64]))
        self.b.store(stored, self.memory, [cell])


def repeat_while(b: LoopBuilder, goes_on: Callable[[], SSAValue], body: Callable[[], None]) -> None:
    """scf.while without carried values."""
    before, after = Block(), Block()
    with b.inside(before):
        before.add_op(scf.ConditionOp.create(operands=[goes_on()]))
    with b.inside(after):
        body()
        after.add_op(scf.YieldOp.create())
    b.add_op(scf.WhileOp.create(regions=[Region(before), Region(after)]))
