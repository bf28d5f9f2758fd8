"""Results of tile loops that are written where they belong: legality, as facts about the graph."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.places import donations_of
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import TileOp, TilesOp, enclosing_tiles
from mlc.passes.plan.ownership import handing
from mlc.passes.tensor.constants import repeated_element


def is_own(value: SSAValue) -> bool:
    """Whether a value must not be handed on: it is a part of others' memory, or placed there."""
    owner = value.owner
    return isinstance(owner, TileOp) or (isinstance(owner, TilesOp) and value in owner.own)


def is_shared(value: SSAValue, op: Operation) -> bool:
    """Whether what an op in a tile loop hands on is made outside: threads would share it."""
    loops = list(enclosing_tiles(op))
    if not loops:
        return False
    outermost = loops[-1]
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None and block is not outermost.body.block:
        above = block.parent_op()
        block = above.parent if above is not None else None
    return block is None


def is_placed(terminator: Operation, k: int) -> bool:
    """Whether the k-th value with which a region ends is a tile of a result."""
    loop = terminator.parent_op()
    return isinstance(terminator, YieldOp) and isinstance(loop, TilesOp) and k < loop.first_carried


def is_written_there(terminator: Operation, k: int, root: SSAValue) -> bool:
    """
    Whether the k-th result of a function, or tile of a result, is written where it belongs by what
    makes it: `root`, at which reshapes of the block look. Else it is copied there.
    """
    owner = root.owner
    if isinstance(owner, TilesOp):
        if root not in owner.own:
            return False
    elif not isinstance(owner, TensorOp) or _is_stored(owner):
        return False
    if not isinstance(terminator, YieldOp):
        return not (isinstance(owner, TilesOp) and _is_donated(terminator, k))
    loop = terminator.parent_op()
    assert isinstance(loop, TilesOp)
    if isinstance(owner, TileOp) or list(handing(root)) != [terminator]:
        return False
    reshaped = any(isinstance(use.operation, ReshapeOp) for use in root.uses)
    return loop.is_dense(k) or not reshaped


def _is_stored(op: TensorOp) -> bool:
    return isinstance(op, ConstantOp) and repeated_element(op) is None


def _is_donated(terminator: Operation, k: int) -> bool:
    function = terminator.parent_op()
    return isinstance(function, FuncOp) and k in donations_of(function).values()
