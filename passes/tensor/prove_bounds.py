"""Indices that are known to lie in their axis need no check, and parts that fit no clamping."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass

from mlc.dialects.analysis.invariants import LoopRanges
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.within import WithinOp
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class ProveBoundsPass(ModulePass):
    """
    %0 = mlc.within %i of <9>  ->  %i
    mlc.dynamic_slice %x[%i]   ->  mlc.dynamic_slice %x[%i] {fits}

    when `dialects/analysis/ranges.py` bounds what %i is: a trip number, and what is made of it; and

    %0 = mlc.within %i of <9>  ->  %0 = mlc.within %i of <9> {holds}

    when `dialects/analysis/invariants.py` does: by what loops keep, and by the conditions under
    which the op runs. It stays where it is, and so does what it guards.
    """

    name = "mlc-prove-bounds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ranges, kept = Ranges(), LoopRanges()
        ranges.bind_all(op)
        kept.bind_all(op)
        for inner in list(op.walk()):
            if isinstance(inner, WithinOp):
                if ranges.is_inside(inner.x, inner.extent):
                    inner.result.replace_all_uses_with(inner.x)
                    inner.detach()
                    inner.erase()
                elif inner.holds is None and kept.holds_inside(inner.x, inner.extent, inner):
                    inner.properties["holds"] = UnitAttr()
            elif isinstance(inner, DynamicSliceOp | DynamicUpdateOp) and _fits(inner, ranges):
                inner.properties["fits"] = UnitAttr()


def drop_unproven(module: ModuleOp) -> None:
    """
    Of a program that is read: what it claims to lie inside, and is not proven to, is checked again
    (clamped, or an IndexError), so that no text makes a call write beyond an array.
    """
    ranges, kept = Ranges(), LoopRanges()
    ranges.bind_all(module)
    kept.bind_all(module)
    for op in module.walk():
        if isinstance(op, WithinOp):
            if not kept.holds_inside(op.x, op.extent, op):
                op.holds = None
        elif isinstance(op, DynamicSliceOp | DynamicUpdateOp) and not _fits(op, ranges):
            op.fits = None


def _fits(op: DynamicSliceOp | DynamicUpdateOp, ranges: Ranges) -> bool:
    part = op.result if isinstance(op, DynamicSliceOp) else op.update
    axes = zip(op.offsets, shape_of(op.x.type), shape_of(part.type), strict=True)
    return all(ranges.is_inside(offset, size - count + 1) for offset, size, count in axes)
