"""
What a plan may do: facts about ops and the graph, each with the name that `why-not` reports (D22).

docs/plan.md lists the rules.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.control import ForOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import INDEX_MAPS, PLACING, DynamicUpdateOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, SliceOp, TransposeOp
from mlc.dialects.tensor.tiles import TileOp, is_position
from mlc.passes.tensor.constants import repeated_element

Stage = Literal["result", "prologue", "operand", "piece"]
"""Where a kernel reads: per result element, per summand, per factor of a contraction, per part."""

SAME, ONCE, AGAIN = 0, 1, 2
"""How a kernel reads a value: at its own point; each element at most once; elements repeatedly."""

CHEAP = 4.0  # additions' worth of arithmetic that is rather repeated than stored: one cached load
MAX_OPS = 96  # ops per kernel; bounds the compile time of one module
MAX_VIEWS = 32  # views behind one another, copied into whatever reads the last of them
MAX_OUTPUTS = 8  # streams that one loop writes without thrashing a level-1 set of 8 ways

STORED = "mlc.stored"
"""Attribute of a view: what it gives is written, and read from memory."""

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


def is_view(op: Operation) -> bool:
    """Ops that kernels hold a copy of: index maps, and values made of nothing."""
    return STORED not in op.attributes and moves_only(op)


def moves_only(op: Operation) -> bool:
    """Index maps, and values made of nothing."""
    known = _is_view_class(type(op))
    if known is not None:
        return known
    if isinstance(op, TileOp):
        return not op.looks_at_memory
    if isinstance(op, ReshapeOp):
        return op.unit_axes_only()
    return not is_stored_constant(op)


@cache
def _is_view_class(kind: type[Operation]) -> bool | None:
    """What holds for each op of a class; None: it depends."""
    if issubclass(kind, (BroadcastOp, TransposeOp, SliceOp, IotaOp, SizeOp, *INDEX_MAPS)):
        return True
    return None if issubclass(kind, (TileOp, ReshapeOp, ConstantOp)) else False


def bound_views(function: FuncOp) -> None:
    """Marks what is seen through too many views, so that no kernel repeats more of them."""
    behind: dict[SSAValue, int] = {}
    for op in function.walk():
        if not isinstance(op, TensorOp) or not op.operands or not is_view(op):
            continue
        count = 1 + sum(behind.get(x, 0) for x in op.operands)
        if count > MAX_VIEWS and _is_view_class(type(op)):
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


def is_stored_constant(op: Operation) -> bool:
    """A constant that is a buffer: its elements differ (or there are none)."""
    return isinstance(op, ConstantOp) and repeated_element(op) is None


def is_splat(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp) and not is_stored_constant(value.owner)


def through_reshapes(value: SSAValue, block: Block) -> SSAValue:
    """The buffer that reshapes of this block look at."""
    while isinstance(value.owner, ReshapeOp) and value.owner.parent is block:
        value = value.owner.x
    return value


def is_trip_number(value: SSAValue) -> bool:
    loop = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    return is_position(value) or (isinstance(loop, ForOp) and loop.body.block.args[0] is value)


def is_buffer(value: SSAValue) -> bool:
    """Whether a value is in memory wherever kernels are formed: never computed inside one."""
    owner = value.owner
    if isinstance(value, BlockArgument) or not isinstance(owner, TensorOp):
        return True
    if isinstance(owner, TileOp):
        return owner.looks_at_memory
    return is_stored_constant(owner) or (
        isinstance(owner, ReshapeOp) and not owner.unit_axes_only()
    )


def reads_of(op: TensorOp, operand: int) -> int:
    """How often the op reads elements of an operand."""
    known = _reads_of_class(type(op))
    if known is not None:
        return known
    if isinstance(op, (*PLACING, TileOp)) and not shape_of(op.operands[operand].type):
        return AGAIN
    moved = isinstance(op, DynamicUpdateOp) and operand == 1
    return ONCE if moved or moves_only(op) else SAME


@cache
def _reads_of_class(kind: type[TensorOp]) -> int | None:
    """What holds for each op and operand of a class; None: it depends."""
    if issubclass(kind, BroadcastOp):
        return AGAIN
    if issubclass(kind, (*PLACING, TileOp, DynamicUpdateOp, ReshapeOp, ConstantOp)):
        return None
    return ONCE if _is_view_class(kind) else SAME


def root(value: SSAValue) -> SSAValue:
    """What a view looks at."""
    while isinstance(value.owner, TensorOp) and is_view(value.owner) and value.owner.operands:
        value = value.owner.operands[0]
    return value
