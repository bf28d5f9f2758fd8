"""Positions of true elements by a scan and a search, which GPUs have templates for."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.create import IotaOp
from mlc.dialects.tensor.positions import PositionsOp
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.sort import SearchsortedOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()


@dataclass(frozen=True)
class ExpandPositionsPass(ModulePass):
    """
    positions mask  ->  for j = 0, 1, …: how many places there are up to which no more than j
    elements are true
    """

    name = "mlc-expand-positions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RULES.sweep(op)


@RULES.on(PositionsOp)
def expanded(op: PositionsOp, b: Rewrite) -> SSAValue:
    """The op by a running count, in which each number is looked for."""
    ones = b(ConvertOp, op.mask, declared=tensor_type(I64.ir, shape_of(op.mask.type)))
    counts = b(ScanOp, ones, monoid="sum", direction="forward", kind="inclusive", axis=0)
    numbers = b(IotaOp, axis=0, declared=tensor_type(I64.ir, op.shape))
    return b(SearchsortedOp, counts, numbers, side="right")
