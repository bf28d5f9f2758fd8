"""A block that reads nothing from around it: what it did read are arguments."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue


def close_block(
    block: Block, ops: Sequence[Operation], ends: Sequence[SSAValue]
) -> dict[SSAValue, SSAValue]:
    """
    Values from around the block that its `ops`, all that are in it, read, or that are among its
    `ends`: each with a new argument, behind those there are, that takes its place in the ops.
    """
    inside: set[SSAValue] = {*block.args, *(x for op in ops for x in op.results)}
    inside |= {x for op in ops for region in op.regions for b in region.blocks for x in b.args}
    found: dict[SSAValue, SSAValue] = {}

    def argument(value: SSAValue) -> SSAValue:
        if value not in found:
            found[value] = block.insert_arg(value.type, len(block.args))
            found[value].name_hint = value.name_hint
        return found[value]

    for op in ops:
        if any(x not in inside for x in op.operands):
            op.operands = [x if x in inside else argument(x) for x in op.operands]
    for x in ends:
        if x not in inside:
            argument(x)
    return found
