"""
Parts of a carried array that are read before it is written over, and used after: they are kept, so
that the write may happen in place.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.analysis.views import STORED
from mlc.dialects.dims import product, shape_of
from mlc.dialects.tensor.control import ForOp, WhileOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp

FRACTION = 4
"""A part of so many times fewer elements is rather kept than the whole array copied."""


def pin_reads(function: FuncOp) -> None:
    """
    t = x[i]; y = (x with u at j); … t …: marks the read of t as stored, if it is a small part.

    Views are read where they are used, which would be after the write.
    """
    for loop in outside_kernels(function):
        if not isinstance(loop, ForOp | WhileOp):
            continue
        block = loop.body.block
        order = {op: number for number, op in enumerate(block.ops)}
        for update in block.ops:
            if isinstance(update, DynamicUpdateOp) and _is_carried(update.x, loop):
                for read in _small_reads(update, order):
                    if any(_place(user, order) >= order[update] for user in _users(read)):
                        read.attributes[STORED] = UnitAttr()


def _is_carried(value: SSAValue, loop: ForOp | WhileOp) -> bool:
    """Whether an array is what the loop carries, perhaps with some writes."""
    root = root_of(value)
    while isinstance(root.owner, DynamicUpdateOp):
        root = root_of(root.owner.x)
    return root in loop.carried_in(loop.body.block)


def _small_reads(update: DynamicUpdateOp, order: dict[Operation, int]) -> Iterator[DynamicSliceOp]:
    """The parts that are read of what an update writes over, before it."""
    whole = product(shape_of(update.x.type)).constant
    for use in root_of(update.x).uses:
        read = use.operation
        if isinstance(read, DynamicSliceOp) and use.index == 0 and order.get(read, -1) >= 0:
            part = product(read.shape).constant
            small = part == 1 or (part and whole and part * FRACTION <= whole)
            if small and order[read] < order[update]:
                yield read


def _users(read: TensorOp) -> Iterator[Operation]:
    """Who computes with a part, behind views of it."""
    pending, seen = [read.results[0]], {read}
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if not isinstance(user, TensorOp) or not user.MOVES or STORED in user.attributes:
                yield user
            elif user not in seen:
                seen.add(user)
                pending.append(user.results[0])


def _place(op: Operation, order: dict[Operation, int]) -> int:
    """Where an op of a block stands, or what holds it."""
    while op not in order:
        above = op.parent_op()
        if above is None:
            return len(order)
        op = above
    return order[op]
