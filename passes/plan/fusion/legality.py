"""
What a plan may do: facts about ops and the graph, each with the name that `why-not` reports (D22).

docs/plan.md lists the rules.
"""

from __future__ import annotations

from typing import Literal

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.analysis.views import STORED, is_view
from mlc.dialects.tensor.op import TensorOp

Stage = Literal["result", "prologue", "operand", "piece"]
"""Where a kernel reads: per result element, per summand, per factor of a contraction, per part."""

CHEAP = 4.0  # additions' worth of arithmetic that is rather repeated than stored: one cached load
MAX_OPS = 96  # ops per kernel; bounds the compile time of one module
MAX_VIEWS = 32  # views behind one another, copied into whatever reads the last of them
MAX_OUTPUTS = 8  # streams that one loop writes without thrashing a level-1 set of 8 ways

Rule = Literal["stored-result", "whole", "factor", "reduced", "reshape", "late", "size", "views"]
"""Why a value is stored that kernels could compute where they read it: docs/plan.md."""

WHY: dict[str, str] = {
    "stored-result": "somebody needs it in memory",
    "whole": "it is read at computed positions",
    "factor": "a factor of a contraction is read many times",
    "reshape": "it is read in another shape",
    "late": "what it reads is written over before its reader runs",
    "size": f"its reader holds {MAX_OPS} ops already",
    "views": f"it is seen through more than {MAX_VIEWS} views",
    "cost": "by cost",
    "forced": "as asked",
}

State = Literal["inline", "buffer"]

Chosen = Literal["inline", "buffer", "apart"]
"""A state, or "apart": in a kernel of its own."""

CHOSEN = "mlc.state"
"""Attribute of an op, where it has been decided on: whether kernels that read its result compute it
(`inline`), or one kernel writes it (`buffer`), which may be the op's own alone (`apart`)."""


def bound_views(function: FuncOp) -> None:
    """Marks what is seen through too many views, so that no kernel repeats more of them."""
    behind: dict[SSAValue, int] = {}
    for op in outside_kernels(function):
        if not isinstance(op, TensorOp) or not op.operands or not is_view(op):
            continue
        count = 1 + sum(behind.get(x, 0) for x in op.operands)
        if count > MAX_VIEWS and _is_index_map(op):
            op.attributes[STORED] = UnitAttr()
        else:
            behind[op.results[0]] = count


def ops_of(op: TensorOp) -> int:
    """What a kernel holds in which an op is computed: the op, and the views it reads through."""
    count, pending = 1, list(op.operands)
    while pending and count <= MAX_OPS:
        owner = pending.pop().owner
        if isinstance(owner, TensorOp) and owner.operands and is_view(owner):
            count += 1
            pending += owner.operands
    return count


def _is_index_map(op: TensorOp) -> bool:
    """Whether all ops of the class are views, in whatever shapes."""
    return op.MOVES and not op.SHARES_MEMORY
