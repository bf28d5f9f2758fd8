"""Loops that are said to be parallel must be: no trip reads or writes what another one writes."""

from __future__ import annotations

import linecache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.dependence import Conflict, trips_together
from mlc.dialects.dims import shape_of
from mlc.dialects.errors import ParallelError
from mlc.dialects.tensor.control import PARALLEL, ForOp
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import place


@dataclass(frozen=True)
class CheckParallelPass(ModulePass):
    """
    mlc.for … attributes {mlc.parallel}  ->  the same, or ParallelError

    Trips may change their own elements of arrays, and add up numbers; see
    `dialects/analysis/dependence.py`.
    """

    name = "mlc-check-parallel"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for loop in op.walk():
            if isinstance(loop, ForOp) and PARALLEL in loop.attributes:
                conflict = trips_together(loop).conflict
                if conflict is not None:
                    raise ParallelError(_told(loop, conflict))


def _told(loop: ForOp, conflict: Conflict) -> str:
    if conflict.second is None:
        remedy = (
            "Sums, products, minima and maxima over the trips may be parallel, and elements of"
            " arrays at a place of the trip's own; else go over range(…)."
        )
    else:
        remedy = "Go over range(…), or write to a place of each trip's own."
    return f"mlc.prange: {meeting(loop, conflict)}\n{remedy}"


def meeting(loop: ForOp, conflict: Conflict) -> str:
    """The lines that meet, and two trips that do."""
    first, second = conflict.first, conflict.second
    if second is None:
        return f"a trip needs what the one before it leaves:{_line(first)}"
    does = "writes" if isinstance(second, DynamicUpdateOp) else "reads"
    found = "trips may meet in one element of an array. One writes it here:"
    other = "another writes it as well" if first is second else f"another {does} it here:"
    lines = f"{found}{_line(first)}\n{other}{'' if first is second else _line(second)}"
    if conflict.trips is not None:
        lines += "\nTrips {} and {} do, for example.".format(*sorted(conflict.trips))
    elif _is_by_data(loop, first) or _is_by_data(loop, second):
        lines += "\nWhere it lies, data decide."
    return lines


def _line(op: Operation) -> str:
    if not (where := place(op)):
        return f" {op.name}"
    name, _, line = where.rpartition(":")
    return f"\n  {where}   {linecache.getline(name, int(line)).strip()}"


def _is_by_data(loop: ForOp, op: Operation) -> bool:
    """Whether a place is read from memory."""
    seen: set[SSAValue] = set()
    todo = [x for x in op.operands if not shape_of(x.type)]
    while todo:
        value = todo.pop()
        owner = value.owner
        if value in seen or not isinstance(owner, Operation):
            continue
        seen.add(value)
        if any(shape_of(x.type) for x in owner.operands):
            return True
        todo += owner.operands
    return False
