"""
The check that every operand is defined before its use and in scope.

xDSL's `verify()` accepts a use before its definition in one block; everything below our passes
assumes that there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException


def verify_dominance(op: Operation) -> None:
    """VerifyException naming the first op with an operand that is not defined yet."""
    for user, message in faults(op):
        raise VerifyException(f"{user.name} {message}")


def faults(op: Operation) -> Iterator[tuple[Operation, str]]:
    """Every op inside `op` with an operand that it cannot see, and the message about it."""
    for user, index in _faults(op, frozenset()):
        value = user.operands[index]
        name = f"%{value.name_hint}" if value.name_hint else f"operand {index}"
        owner = value.owner
        by = "" if isinstance(owner, Block) else f" by '{owner.name}'"
        where = (
            "in a region it does not see"
            if isinstance(value, BlockArgument)
            else "later or elsewhere"
        )
        yield (
            user,
            f"uses {name}, which is defined {where}{by};"
            " expected every value to be defined before its uses",
        )


def _faults(op: Operation, visible: frozenset[SSAValue]) -> Iterator[tuple[Operation, int]]:
    """(op, operand number) of uses inside `op` that see no definition."""
    if op.has_trait(IsolatedFromAbove):
        visible = frozenset()
    for region in op.regions:
        blocks = list(region.blocks)
        if len(blocks) == 1:
            yield from _block_faults(blocks[0], set(visible))
        elif blocks:
            yield from _graph_faults(region, blocks, visible)


def _block_faults(block: Block, seen: set[SSAValue]) -> Iterator[tuple[Operation, int]]:
    seen.update(block.args)
    for op in block.ops:
        for index, operand in enumerate(op.operands):
            if operand not in seen:
                yield op, index
        if op.regions:
            yield from _faults(op, frozenset(seen))
        seen.update(op.results)


def _graph_faults(
    region: Region, blocks: list[Block], visible: frozenset[SSAValue]
) -> Iterator[tuple[Operation, int]]:
    """Several blocks: what the blocks that strictly dominate one define is visible in it."""
    order = DominanceInfo(region)
    for block in blocks:
        seen = set(visible)
        for other in blocks:
            if order.strictly_dominates(other, block):
                seen.update(other.args)
                for op in other.ops:
                    seen.update(op.results)
        yield from _block_faults(block, seen)
