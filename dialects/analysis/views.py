"""Views: ops of which kernels hold a copy where they read, and what lies behind them."""

from __future__ import annotations

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.tensor.control import ForOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import TileOp, is_position

STORED = "mlc.stored"
"""Attribute of a view: what it gives is written, and read from memory."""


def is_view(op: Operation) -> bool:
    """Ops that kernels hold a copy of: index maps, and values made of nothing."""
    return isinstance(op, TensorOp) and op.only_moves and STORED not in op.attributes


def is_stored_constant(op: Operation) -> bool:
    """A constant that is a buffer: its elements differ (or there are none)."""
    return isinstance(op, ConstantOp) and not op.only_moves


def is_splat(value: SSAValue) -> bool:
    """A constant of equal elements."""
    return isinstance(value.owner, ConstantOp) and value.owner.only_moves


def through_reshapes(value: SSAValue, block: Block) -> SSAValue:
    """The buffer that reshapes of this block look at."""
    while isinstance(value.owner, ReshapeOp) and value.owner.parent is block:
        value = value.owner.x
    return value


def is_trip_number(value: SSAValue) -> bool:
    """Whether a value counts the trips of a loop."""
    loop = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    return is_position(value) or (isinstance(loop, ForOp) and loop.body.block.args[0] is value)


def is_buffer(value: SSAValue) -> bool:
    """Whether a value is in memory wherever kernels are formed: never computed inside one."""
    owner = value.owner
    if isinstance(value, BlockArgument) or not isinstance(owner, TensorOp):
        return True
    return isinstance(owner, ConstantOp | ReshapeOp | TileOp) and not owner.only_moves


def root(value: SSAValue) -> SSAValue:
    """What a view looks at."""
    while isinstance(value.owner, TensorOp) and is_view(value.owner) and value.owner.operands:
        value = value.owner.operands[0]
    return value
