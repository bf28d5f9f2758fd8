"""math: the ops that LLVM has an instruction for; the others become polynomials before this."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import Operation

from mlc.lowering.emit.arith import constant_of, intrinsic
from mlc.lowering.emit.function import FunctionText, Rules
from mlc.lowering.emit.types import suffix

RULES = Rules()

_INTRINSIC: dict[type[Operation], str] = {
    math.AbsFOp: "fabs",
    math.CeilOp: "ceil",
    math.FloorOp: "floor",
    math.TruncOp: "trunc",
    math.RoundOp: "round",
    math.RoundEvenOp: "roundeven",
    math.CopySignOp: "copysign",
    math.SqrtOp: "sqrt",
    math.FmaOp: "fma",
    math.CtPopOp: "ctpop",
}


def _rsqrt(e: FunctionText, op: math.RsqrtOp) -> None:
    """1 / sqrt(x): two correctly rounded steps, not the approximate instruction."""
    result = op.results[0]
    spelled = e.type(result.type)
    root = e.put(f"call {spelled} @llvm.sqrt.{suffix(result.type)}({spelled} {e[op.operands[0]]})")
    one = constant_of(e, 1.0, result.type)
    e.define(result, f"fdiv {e.flags(op)}{spelled} {one}, {root}")


for _op, _name in _INTRINSIC.items():
    RULES[_op] = intrinsic(_name)
# The flag says whether an operand (the smallest integer; zero) gives poison: it does not.
RULES[math.AbsIOp] = intrinsic("abs", ", i1 false")
RULES[math.CountLeadingZerosOp] = intrinsic("ctlz", ", i1 false")
RULES[math.CountTrailingZerosOp] = intrinsic("cttz", ", i1 false")
RULES.on(math.RsqrtOp, _rsqrt)
