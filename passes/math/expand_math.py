"""
`mlc-expand-math`: math functions without an instruction become polynomials.

A function is added by writing it in its family's file and naming its op in `FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.context import Context
from xdsl.dialects import func, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import functions
from mlc.dialects.errors import PlanError
from mlc.dialects.lanes import element_of
from mlc.dialects.numerics import Numerics, numerics_of
from mlc.dialects.target.attribute import target_of
from mlc.dialects.target.facts import MathUnit
from mlc.lazy_dataclass import dataclass
from mlc.passes.math import (
    by_unit,
    exponential,
    hyperbolic,
    inverse_trigonometric,
    lane_angles,
    lane_hyperbolic,
    lane_power,
    lane_tables,
    log_gamma,
    logarithm,
    power,
    special,
    stepping,
    trigonometric,
)
from mlc.passes.math.integer_power import expand_power
from mlc.passes.math.lane_builder import COMPUTED, Constants, LaneBuilder

LaneFunction = Callable[..., SSAValue]
"""(builder, operands…) -> result"""

FUNCTIONS: Mapping[type[Operation], LaneFunction] = {
    math.ExpOp: exponential.exp,
    math.Exp2Op: exponential.exp2,
    math.ExpM1Op: exponential.expm1,
    functions.SigmoidOp: exponential.sigmoid,
    math.LogOp: logarithm.log,
    math.Log2Op: logarithm.log2,
    math.Log10Op: logarithm.log10,
    math.Log1pOp: logarithm.log1p,
    math.SinOp: trigonometric.sin,
    math.CosOp: trigonometric.cos,
    math.TanOp: trigonometric.tan,
    math.AsinOp: inverse_trigonometric.asin,
    math.AcosOp: inverse_trigonometric.acos,
    math.AtanOp: inverse_trigonometric.atan,
    math.Atan2Op: inverse_trigonometric.atan2,
    math.SinhOp: hyperbolic.sinh,
    math.CoshOp: hyperbolic.cosh,
    math.TanhOp: hyperbolic.tanh,
    math.AsinhOp: hyperbolic.asinh,
    math.AcoshOp: hyperbolic.acosh,
    math.AtanhOp: hyperbolic.atanh,
    math.ErfOp: special.erf,
    functions.ErfcOp: special.erfc,
    functions.LgammaOp: log_gamma.lgamma,
    math.PowFOp: power.pow,
    math.CbrtOp: power.cbrt,
    math.RsqrtOp: power.rsqrt,
    functions.HypotOp: power.hypot,
    functions.RemainderOp: stepping.fmod,
    functions.NextAfterOp: stepping.nextafter,
}

BY_TABLE: Mapping[type[Operation], LaneFunction] = {
    math.ExpOp: lane_tables.exp,
    math.Exp2Op: lane_tables.exp2,
    math.LogOp: lane_tables.log,
    math.Log2Op: lane_tables.log2,
    math.Log10Op: lane_tables.log10,
    math.Log1pOp: lane_tables.log1p,
    math.ExpM1Op: lane_tables.expm1,
    math.CoshOp: lane_hyperbolic.cosh,
    math.AtanhOp: lane_hyperbolic.atanh,
    math.AsinhOp: lane_hyperbolic.asinh,
    math.AcoshOp: lane_hyperbolic.acosh,
    math.AsinOp: lane_angles.asin,
    math.AcosOp: lane_angles.acos,
    math.SinOp: lane_angles.sin,
    math.CosOp: lane_angles.cos,
    math.CbrtOp: lane_tables.cbrt,
    math.PowFOp: lane_power.pow,
    math.TanOp: lane_angles.tan,
    math.AtanOp: lane_angles.atan,
    math.Atan2Op: lane_angles.atan2,
    math.TanhOp: lane_angles.tanh,
}
"""What takes the place of `FUNCTIONS` where the target looks up tables in registers."""

BY_UNIT: Mapping[type[Operation], LaneFunction] = {
    math.ExpOp: by_unit.exp,
    math.Exp2Op: by_unit.exp2,
    math.LogOp: by_unit.log,
    math.Log1pOp: by_unit.log1p,
    math.TanhOp: by_unit.tanh,
}
"""What takes the place of `FUNCTIONS` where the target estimates 2^x and 1 / x."""

CHOSEN: Mapping[MathUnit, Mapping[type[Operation], LaneFunction]] = {
    MathUnit.NONE: FUNCTIONS,
    MathUnit.LANE_TABLES: {**FUNCTIONS, **BY_TABLE},
    MathUnit.SPECIAL: {**FUNCTIONS, **BY_UNIT},
}


BY_NUMERICS: Mapping[Numerics, Mapping[type[Operation], LaneFunction]] = {
    "strict": {functions.HypotOp: power.unfused_hypot},
    "standard": {},
    "fast": {},
}
"""What takes the place of all of them."""


def expand(
    function: func.FuncOp, unit: MathUnit = MathUnit.NONE, numerics: Numerics = "standard"
) -> None:
    """Replaces every op of `FUNCTIONS` in the function, in place."""
    chosen = {**CHOSEN[unit], **BY_NUMERICS[numerics]}
    every = list(function.walk())
    found = [op for op in every if type(op) in FUNCTIONS]
    powers = [op for op in every if isinstance(op, functions.IntegerPowerOp)]
    if not found and not powers:
        return
    constants = Constants(function.body.block)
    for op in powers:
        expand_power(op, constants)
    for op in found:
        result = op.results[0]
        if not isinstance(element_of(result.type), COMPUTED):
            raise PlanError(
                f"mlc-expand-math: {op.name} of {result.type}; expected f16, bf16, f32 or f64, or a"
                " vector of these"
            )
        b = LaneBuilder(result.type, op, constants, unit=unit)
        value = chosen[type(op)](b, *(b.widen(x) for x in op.operands))
        result.replace_all_uses_with(b.narrow(value, result.type))
        op.detach()
        op.erase()


@dataclass(frozen=True)
class ExpandMathPass(ModulePass):
    """
    math.exp %x  ->  arith, math.fma and bit casts that compute it within the bound that
    each function states. Half-width floats are computed in f32.
    """

    name = "mlc-expand-math"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Expands in every function, for the module's target."""
        for function in op.body.block.ops:
            if isinstance(function, func.FuncOp) and function.body.blocks:
                self.apply_to(function, op)

    def apply_to(self, function: func.FuncOp, module: ModuleOp) -> None:
        """Expands in one function, for the target of a module."""
        expand(function, target_of(module).math_unit, numerics_of(module))
