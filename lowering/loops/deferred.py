"""What is computed only where it is chosen: long chains of truth values that one choice reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dtypes import BOOL, dtype_of
from mlc.dialects.tensor.bitwise import AndOp, OrOp
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.op import TensorOp, tensor_of

LEAST = 3
"""
Ops that are worth a branch. measured: the class of a best value in a table of Smith and Waterman's,
165 us as a choice, 67 us as a branch (docs/measurements.md, Kernels as they are written).
"""


def deferred(block: Block) -> Mapping[Operation, Sequence[TensorOp]]:
    """
    The choices of a block whose first side is a chain of truth values that nothing else reads: most
    are which class a number has that is replaced by a better one, and that happens rarely.
    """
    found: dict[Operation, Sequence[TensorOp]] = {}
    for op in block.ops:
        if isinstance(op, SelectOp) and _is_truth(op.result):
            chain = _chain(op)
            if len(chain) >= LEAST:
                found[op] = [x for x in block.ops if x in chain and isinstance(x, TensorOp)]
    return found


def _chain(choice: SelectOp) -> set[Operation]:
    """The ops of the choice's block that make what it gives where its test is true."""
    found = set[Operation]()
    pending = [choice.if_true]
    while pending:
        value = pending.pop()
        op = value.owner
        if not isinstance(op, SelectOp | AndOp | OrOp | CompareOp) or not _is_truth(value):
            continue
        users = {use.operation for use in value.uses}
        own = users <= found or (value is choice.if_true and users == {choice})
        if own and op.parent is choice.parent and value not in (choice.condition, choice.if_false):
            found.add(op)
            pending += op.operands
    return found


def _is_truth(value: SSAValue) -> bool:
    kind = tensor_of(value)
    return not kind.get_shape() and dtype_of(kind.element_type) is BOOL
