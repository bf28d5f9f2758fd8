"""Derivatives are taken: what said how is replaced by what it means."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from mlc.dialects.tensor.markers import StopGradientOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.rules import inline_rule


@dataclass(frozen=True)
class InlineRulesPass(ModulePass):
    """`mlc.rule` becomes its body, `mlc.stop_gradient` its operand."""

    name = "mlc-inline-rules"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            for region in function.regions:
                for block in region.blocks:
                    _inline(block)


def _inline(block: Block) -> None:
    op = block.first_op
    while op is not None:
        for region in op.regions[:1] if isinstance(op, RuleOp) else op.regions:
            for inner in region.blocks:
                _inline(inner)
        following = op.next_op
        if isinstance(op, StopGradientOp):
            op.result.replace_all_uses_with(op.x)
            block.erase_op(op)
        elif isinstance(op, RuleOp):
            inline_rule(op)
        op = following
