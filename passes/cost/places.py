"""Which array and which place a value in a nest is of, and what it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.tensor.control import ControlOp, IfOp, yield_of
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicUpdateOp


def straight(block: Block) -> Sequence[TensorOp]:
    """The ops of a block and of branches in it, not of loops."""
    found: list[TensorOp] = []
    for op in block.ops:
        if isinstance(op, IfOp):
            for inner in op.blocks:
                found += straight(inner)
        elif isinstance(op, TensorOp):
            found.append(op)
    return found


def array_of(value: SSAValue) -> SSAValue:
    """The array of which a value is a version: what the loops around begin with."""
    while True:
        value = root_of(value)
        owner = value.owner
        if isinstance(owner, DynamicUpdateOp):
            value = owner.operands[0]
        elif isinstance(owner, ControlOp):
            place = list(owner.results).index(cast("Any", value))
            value = (
                owner.starts[place] if owner.repeats else yield_of(owner.blocks[0]).values[place]
            )
        elif isinstance(value, BlockArgument) and isinstance(
            around := value.block.parent_op(), ControlOp
        ):
            carried = list(around.carried_in(value.block))
            if value not in carried:
                return value
            value = around.starts[carried.index(value)]
        else:
            return value


def depends(value: SSAValue, number: SSAValue) -> bool:
    """Whether a number is made of a trip's number, in the trip."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        x = pending.pop()
        if x is number:
            return True
        op = x.owner
        if x not in seen and isinstance(op, Operation) and op.parent is number.owner:
            pending += op.operands
        seen.add(x)
    return False
