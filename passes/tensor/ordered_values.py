"""
Which values of a function lie with their axes in one order, whatever it is, and where a value that
lies in one is read in another.
"""

from __future__ import annotations

from dataclasses import field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ForOp, IfOp, WhileOp, YieldOp, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.parts import Order
from mlc.passes.tensor.axis_order import asks_no_order, bound_operands

Control = ForOp | WhileOp | IfOp


@dataclass(frozen=True)
class Read:
    """An operand; `like`: the value in whose order it is read, None: as the program has it."""

    op: Operation
    operand: int
    like: SSAValue | None

    @property
    def value(self) -> SSAValue:
        """What is read."""
        return self.op.operands[self.operand]


@dataclass
class OrderedValues:
    """
    The values of a function that have as many axes as an order: constants, which lie in any, apart.

    Slices and what puts them together lie as what they are of. Elsewhere a value may be brought
    into another order where it is read: where an elementwise op reads it, a loop begins, or a
    branch or a trip ends.
    """

    order: Order
    reads: list[Read] = field(default_factory=list[Read])
    given: set[SSAValue] = field(default_factory=set[SSAValue])
    """Made by who knows one order: arguments, and results of ops that name all axes."""
    made: list[SSAValue] = field(default_factory=list[SSAValue])
    """Made in the order of their group."""
    _above: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    @classmethod
    def of(cls, function: FuncOp, order: Order) -> OrderedValues:
        """Those of a function."""
        found = cls(order)
        block = function.body.block
        found.given.update(x for x in block.args if found.has(x))
        found._block(block)
        return found

    def has(self, value: SSAValue) -> bool:
        """Whether a value has as many axes."""
        return len(shape_of(value.type)) == len(self.order)

    def group(self, value: SSAValue) -> SSAValue:
        """The value that stands for those that lie as this one does."""
        while (above := self._above.get(value)) is not None:
            value = above
        return value

    def _unite(self, one: SSAValue, other: SSAValue) -> None:
        one, other = self.group(one), self.group(other)
        if one is not other:
            self._above[other] = one

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, Control):
                self._control(op)
            elif isinstance(op, TensorOp):
                self._tensor_op(op)
            elif not isinstance(op, YieldOp):
                self._other(op)

    def _control(self, op: Control) -> None:
        """What a trip is given, and the results, are one group."""
        self.made += [x for x in op.results if self.has(x)]
        for inner in op.blocks:
            for result, x in zip(op.results, op.carried_in(inner), strict=False):
                if self.has(x):
                    self.made.append(x)
                    self._unite(result, x)
            self._block(inner)
        first = len(op.operands) - len(op.starts)
        for k, result in enumerate(op.results):
            for inner in op.yielding():
                self._read(yield_of(inner), k, result)
            if op.starts:
                self._read(op, first + k, result)

    def _tensor_op(self, op: TensorOp) -> None:
        result = op.results[0]
        has_order = self.has(result) and not isinstance(op, ConstantOp)
        bound = bound_operands(op) if has_order else None
        if bound is not None or (has_order and asks_no_order(op, result, self.order)):
            self.made.append(result)
        elif has_order:
            self.given.add(result)
        for k, x in enumerate(op.operands):
            if not self.has(x):
                continue
            if bound is None or k not in bound:
                if not asks_no_order(op, x, self.order):
                    self._read(op, k, None)
            else:
                self._read(op, k, result)
                if not isinstance(op, Elementwise) and not isinstance(x.owner, ConstantOp):
                    self._unite(result, x)

    def _other(self, op: Operation) -> None:
        """An op that knows one order, with all that is in it."""
        self.given.update(x for x in op.results if self.has(x))
        for k in range(len(op.operands)):
            self._read(op, k, None)
        if isinstance(op, KernelOp):
            return
        for region in op.regions:
            for block in region.blocks:
                self.given.update(x for x in block.args if self.has(x))
                for inner in block.ops:
                    self._other(inner)

    def _read(self, op: Operation, operand: int, like: SSAValue | None) -> None:
        if self.has(op.operands[operand]):
            self.reads.append(Read(op, operand, like))
