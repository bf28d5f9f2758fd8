"""Programs are one function each: what is called stands where it is called."""

from __future__ import annotations

from collections import Counter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.program import is_private
from mlc.dialects.tensor.calls import CallOp, uses_of_functions
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.call_graph import callees_first, inline_call, uses_functions


@dataclass(frozen=True)
class InlineCallsPass(ModulePass):
    """
    call @f(x)  ->  the ops of f

    Sizes of the call take the place of the function's symbols. Private functions that nobody calls
    any more are gone. PlanError where a function calls itself.
    """

    name = "mlc-inline-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if uses_functions(op):
            inline_calls(op)


def inline_calls(module: ModuleOp) -> None:
    """Puts all that is called in place of its calls, innermost first."""
    order = callees_first(module)
    uses = {f.sym_name.data: list(uses_of_functions(f)) for f in order}
    left = Counter(use.callee_name for found in uses.values() for use in found)
    by_name = {f.sym_name.data: f for f in order}
    for function in order:
        for use in uses[function.sym_name.data]:
            if isinstance(use, CallOp):
                left[use.callee_name] -= 1
                inline_call(use, by_name[use.callee_name], last=not left[use.callee_name])
    for function in reversed(order):
        if is_private(function) and not left[function.sym_name.data]:
            module.body.block.erase_op(function)
