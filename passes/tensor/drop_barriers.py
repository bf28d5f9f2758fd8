"""Nothing merges values any more: what kept them apart is dropped."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.tensor.markers import BarrierOp
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class DropBarriersPass(ModulePass):
    """`mlc.barrier` becomes its operand."""

    name = "mlc-drop-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(outside_kernels(op)):
            if isinstance(inner, BarrierOp):
                inner.result.replace_all_uses_with(inner.x)
                assert inner.parent is not None
                inner.parent.erase_op(inner)
