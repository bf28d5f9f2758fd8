"""Common subexpressions: equal ops on equal operands are computed once (value numbering)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.tensor.comparison import CompareOp, MaxOp, MinOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp
from mlc.dialects.tensor.op import TensorOp

COMMUTATIVE = (AddOp, MulOp, MaxOp, MinOp)
_SYMMETRIC = ("eq", "ne")


@dataclass(frozen=True)
class CsePass(ModulePass):
    """Visits ops in order; a region sees what its surroundings computed, but not the reverse."""

    name = "mlc-cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            for region in function.regions:
                for block in region.blocks:
                    _number(block, {})


def _number(block: Block, known: dict[Hashable, SSAValue]) -> None:
    op = block.first_op
    while op is not None:
        following = op.next_op
        if isinstance(op, TensorOp):
            key = _key(op)
            first = known.get(key)
            if first is None:
                known[key] = op.results[0]
            else:
                op.results[0].replace_all_uses_with(first)
                block.erase_op(op)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _number(inner, dict(known))
        op = following


def _key(op: TensorOp) -> Hashable:
    """Equal for ops that compute the same value."""
    operands = [id(x) for x in op.operands]
    if isinstance(op, COMMUTATIVE) or (
        isinstance(op, CompareOp) and op.predicate.data in _SYMMETRIC
    ):
        operands.sort()
    properties = op.properties
    return (
        type(op),
        *operands,
        *(properties[name] for name in sorted(properties)),
        op.results[0].type,
    )
