"""
`mlc-expand-math`: math functions without an instruction become polynomials.

A function is added by writing it in elementary.py and naming its op in `FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.passes.loop import elementary
from mlc.passes.loop.lane_builder import Constants, LaneBuilder

FUNCTIONS: Mapping[type[Operation], elementary.LaneFunction] = {
    math.ExpOp: elementary.exp,
    math.LogOp: elementary.log,
    math.TanhOp: elementary.tanh,
}


def expand(function: func.FuncOp) -> None:
    """Replaces every op of `FUNCTIONS` in the function, in place."""
    found = [op for op in function.walk() if type(op) in FUNCTIONS]
    if not found:
        return
    constants = Constants(function.body.block)
    for op in found:
        result = op.results[0]
        b = LaneBuilder(result.type, op, constants)
        value = FUNCTIONS[type(op)](b, b.widen(op.operands[0]))
        result.replace_all_uses_with(b.narrow(value, result.type))
        op.detach()
        op.erase()


@dataclass(frozen=True)
class ExpandMathPass(ModulePass):
    """
    math.exp %x  ->  arith, math.fma and bit casts that compute it within the bound that
    elementary.py states. Half-width floats are computed in f32.
    """

    name = "mlc-expand-math"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Expands in every function."""
        for function in op.walk():
            if isinstance(function, func.FuncOp) and function.body.blocks:
                expand(function)
