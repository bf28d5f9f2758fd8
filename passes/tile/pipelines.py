"""Ops of rings and tokens as roles write them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects.tile.pipeline import ChannelType, GetOp, ReadyOp, ReleaseOp, WaitOp
from mlc.dialects.tile.types import FragType, TokenType, frag_of


def added(block: Block, op: Operation) -> SSAValue:
    """The first result of an op, which stands at the end of a block now."""
    block.add_op(op)
    return op.results[0]


def ready(tile: SSAValue) -> ReadyOp:
    """A tile that is there, as the token of a product."""
    return ReadyOp.create(operands=[tile], result_types=[TokenType(frag_of(tile))])


def got(block: Block, channel: SSAValue) -> Sequence[SSAValue]:
    """The slots of a ring's next place, which are full."""
    assert isinstance(channel.type, ChannelType)
    op = GetOp.create(operands=[channel], result_types=[*channel.type.slots])
    block.add_op(op)
    return op.slots


def wait(token: SSAValue, pending: int, kind: FragType | None = None) -> WaitOp:
    """For all products but the last so many; `kind`: of the tile that it gives."""
    return WaitOp.create(
        operands=[token],
        result_types=[] if kind is None else [kind],
        properties={"pending": IntegerAttr(pending, i64)},
    )


def release(channel: SSAValue, behind: int = 0) -> ReleaseOp:
    """Of all places of a ring but the last so many."""
    properties: dict[str, Attribute] = {"behind": IntegerAttr(behind, i64)} if behind else {}
    return ReleaseOp.create(operands=[channel], properties=properties)
