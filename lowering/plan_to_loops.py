"""The pass from the plan level to the loops level."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.analysis.layouts import misfits
from mlc.dialects.errors import MlcError, PlanError
from mlc.dialects.numerics import is_strict
from mlc.dialects.program import Take, kept
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tile.kernel import CallOp
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops import lower_to_loops


@dataclass(frozen=True)
class PlanToLoopsPass(ModulePass):
    """Every `mlc.kernel` becomes a function of loops, the function around them the entry."""

    name = "mlc-plan-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for call in op.walk():  # of a text that `mlc-check-tiles` has not seen
            if isinstance(call, CallOp) and not target_of(op).launches_grids:
                for message in misfits(call):
                    raise PlanError(f"{call.name}: {message}")
        new = lower_plan(op)
        for old in reversed(list(op.body.block.ops)):
            op.body.block.erase_op(old, safe_erase=False)
        block = new.body.block
        for moved in list(block.ops):
            moved.detach()
            op.body.block.add_op(moved)
        op.attributes = dict(new.attributes)


def lower_plan(module: ModuleOp, take: Take = kept) -> ModuleOp:
    """
    A plan-level module at the loops level of its target; the module itself stays. `take` gets each
    function for CPUs when it is made.
    """
    if not target_of(module).launches_grids:
        return lower_to_loops(module, take)
    if is_strict(module):
        raise MlcError('numerics "strict" is for CPUs; GPUs combine sums in an order of their own')
    from mlc.lowering.gpu import lower_to_gpu

    return lower_to_gpu(module)
