"""Loops over elements whose trips are found to be independent: workers may share them."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mlc.dialects.analysis.dependence import trips_together
from mlc.dialects.analysis.nests import is_number
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.tensor.control import PARALLEL, ControlOp, ForOp
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class FindParallelPass(ModulePass):
    """
    mlc.for … { single elements at places of the trip's own }  ->  the same {mlc.parallel}

    Of loops within one another the outermost; none that hands a number on from trip to trip.
    """

    name = "mlc-find-parallel"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if not isinstance(function, FuncOp) or not function.body.blocks:
                continue
            ranges = Ranges()
            for loop in function.body.block.ops:
                if isinstance(loop, ForOp) and _may_be(loop, ranges):
                    loop.attributes[PARALLEL] = UnitAttr()


def _may_be(loop: ForOp, ranges: Ranges) -> bool:
    if any(isinstance(x, ControlOp) and PARALLEL in x.attributes for x in loop.walk()):
        return False
    writes = [x for x in loop.walk() if isinstance(x, DynamicUpdateOp)]
    if not writes or not all(is_number(x.update) for x in writes):
        return False
    found = trips_together(loop, ranges)
    return found.conflict is None and not found.folds and not found.last
