"""Results of tile loops that are written where they belong: legality, as facts about the graph."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects.analysis.aliases import donations_of
from mlc.dialects.analysis.views import is_stored_constant
from mlc.dialects.tensor.control import YieldOp, is_inside
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import TileOp, TilesOp, enclosing_tiles
from mlc.passes.plan.memory.in_place.ownership import handing


def is_own(value: SSAValue) -> bool:
    """Whether a value must not be handed on: it is a part of others' memory, or placed there."""
    owner = value.owner
    return isinstance(owner, TileOp) or (isinstance(owner, TilesOp) and value in owner.own)


def is_shared(value: SSAValue, op: Operation) -> bool:
    """Whether what an op in a tile loop hands on is made outside: threads would share it."""
    loops = list(enclosing_tiles(op))
    if not loops:
        return False
    return not is_inside(value, loops[-1])


def is_placed(terminator: Operation, k: int) -> bool:
    """
    Whether the k-th value with which a region ends is a tile of a result. Where trips meet at it,
    it is handed on instead, from what it held before.
    """
    loop = terminator.parent_op()
    if not isinstance(terminator, YieldOp) or not isinstance(loop, TilesOp):
        return False
    return k < loop.first_carried and k not in loop.meeting


def is_written_there(terminator: Operation, k: int, root: SSAValue) -> bool:
    """
    Whether the k-th result of a function, or tile of a result, is written where it belongs by what
    makes it: `root`, at which reshapes of the block look. Else it is copied there.
    """
    owner = root.owner
    if isinstance(owner, TilesOp):
        if root not in owner.own:
            return False
    elif not isinstance(owner, TensorOp) or is_stored_constant(owner):
        return False
    if not isinstance(terminator, YieldOp):
        return not (isinstance(owner, TilesOp) and _is_donated(terminator, k))
    loop = terminator.parent_op()
    assert isinstance(loop, TilesOp)
    if isinstance(owner, TileOp) or list(handing(root)) != [terminator]:
        return False
    reshaped = any(isinstance(use.operation, ReshapeOp) for use in root.uses)
    return loop.is_dense(k) or not reshaped


def _is_donated(terminator: Operation, k: int) -> bool:
    function = terminator.parent_op()
    return isinstance(function, FuncOp) and k in donations_of(function).values()
