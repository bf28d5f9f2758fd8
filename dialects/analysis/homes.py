"""Where values are made."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue


def block_of(value: SSAValue) -> Block | None:
    """The block of an argument, or of the op that makes a value; None of one that is detached."""
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent
