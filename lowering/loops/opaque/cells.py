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


DEPTH, MOVED = range(2)


class Segments:
    """
    Segments of a row that wait to be sorted, as a stack: of each a few indices. A row whose
    elements move too often is given up.
    """

    def __init__(self, b: LoopBuilder, width: int, count: int) -> None:
        self.b = b
        self.width = width
        self.cells = Cells(b, width * count)
        self.state = Cells(b, 2)  # segments on the stack, elements moved so far
        self.state.set(DEPTH, 0)
        self.state.set(MOVED, 0)

    def depth(self) -> Index:
        """How many there are."""
        return self.state.get(DEPTH)

    def push(self, *segment: Index) -> None:
        """Lays a segment on top."""
        depth = self.state.get(DEPTH)
        first = self.b.mul(depth, self.width)
        for k, value in enumerate(segment):
            self.cells.set(self.b.add(first, k), value)
        self.state.set(DEPTH, self.b.add(depth, 1))

    def pop(self) -> tuple[Index, ...]:
        """Takes the segment on top."""
        depth = self.b.sub(self.state.get(DEPTH), 1)
        self.state.set(DEPTH, depth)
        first = self.b.mul(depth, self.width)
        return tuple(self.cells.get(self.b.add(first, k)) for k in range(self.width))

    def move(self, elements: Index) -> None:
        """Counts elements that were moved."""
        self.state.set(MOVED, self.b.add(self.state.get(MOVED), elements))

    def run(self, patience: Index, take: Callable[[], None], give_up: Callable[[], None]) -> None:
        """`take` until there are none; `give_up` if more than `patience` elements were moved."""
        b = self.b

        def goes_on() -> SSAValue:
            waiting = b.compare("gt", self.state.get(DEPTH), 0)
            both = b.both(waiting, b.compare("le", self.state.get(MOVED), patience))
            assert isinstance(both, SSAValue)
            return both

        repeat_while(b, goes_on, take)
        b.when(b.compare("gt", self.state.get(MOVED), patience), give_up)
