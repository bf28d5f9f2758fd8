"""The pass from the plan level to the loops level."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.lowering.loops import lower_to_loops


@dataclass(frozen=True)
class PlanToLoopsPass(ModulePass):
    """Every `mlc.kernel` becomes a function of loops, the function around them the entry."""

    name = "mlc-plan-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        new = lower_to_loops(op)
        for old in reversed(list(op.body.block.ops)):
            op.body.block.erase_op(old, safe_erase=False)
        block = new.body.block
        for moved in list(block.ops):
            moved.detach()
            op.body.block.add_op(moved)
        op.attributes = dict(new.attributes)
