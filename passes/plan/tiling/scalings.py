"""Multiplications of sums by constants: what tiles add is multiplied instead."""

from __future__ import annotations

from typing import cast

from xdsl.ir import SSAValue

from mlc.dialects.analysis.views import is_splat
from mlc.dialects.tensor.elementwise import DivOp, MulOp, NegOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.passes.plan.tiling.tile_groups import fold_of
from mlc.passes.plan.tiling.tile_scope import Rows, TileScope


def scalings_of(fold: TensorOp) -> list[TensorOp]:
    """
    The multiplications by constants that alone read a sum, one after another: what tiles add is
    multiplied instead, so that nothing is left to do after the loop.
    """
    found: list[TensorOp] = []
    if fold_of(fold) != "sum":
        return found
    op = fold
    while True:
        uses = list(op.results[0].uses)
        user = uses[0].operation if len(uses) == 1 else None
        if user is None or user.parent is not fold.parent:
            return found
        if not isinstance(user, NegOp) and not (
            isinstance(user, MulOp | DivOp)
            and (uses[0].index == 0 or isinstance(user, MulOp))
            and _is_factor(user.operands[1 - uses[0].index])
            and user.dtype.is_inexact
        ):
            return found
        op = cast("TensorOp", user)
        found.append(op)


def scaled(scope: TileScope, op: TensorOp, value: SSAValue, rows: Rows) -> SSAValue:
    """What a tile adds to a sum, times what the sum is multiplied by."""
    operands = [scope.tile(x, rows) if _is_factor(x) else value for x in op.operands]
    return scope.clone(op, operands, rows)


def _is_factor(value: SSAValue) -> bool:
    """Whether a value is a repeated constant."""
    while isinstance(value.owner, BroadcastOp):
        value = value.owner.x
    return is_splat(value)
