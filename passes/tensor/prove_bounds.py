"""
Indices that are known to lie in their axis need no check, parts that fit no clamping, and divisors
that are not 0 no check either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.invariants import LoopRanges
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.division import DivisorOp
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
    which the op runs. It stays where it is, and so does what it guards. Both may say that a divisor
    is not 0, which then needs no check either:

    %0 = mlc.divisor %n of "int //"  ->  %n
    """

    name = "mlc-prove-bounds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ranges, kept = Ranges(), LoopRanges()
        ranges.bind_all(op)
        kept.bind_all(op)
        for inner in list(op.walk()):
            if isinstance(inner, WithinOp):
                if ranges.is_inside(inner.x, inner.extent):
                    _replace(inner, inner.x)
                elif inner.holds is None and kept.holds_inside(inner.x, inner.extent, inner):
                    inner.properties["holds"] = UnitAttr()
            elif isinstance(inner, DynamicSliceOp | DynamicUpdateOp) and _fits(inner, ranges):
                inner.properties["fits"] = UnitAttr()
        _drop_checks([x for x in op.walk() if isinstance(x, DivisorOp)], kept)


def _drop_checks(divisors: Sequence[DivisorOp], kept: LoopRanges) -> None:
    """Divisors that are not 0, or of which an op before has asked that, are as they are."""
    checked: dict[tuple[SSAValue, Block | None], SSAValue] = {}
    for op in divisors:
        around = _blocks_around(op)
        before = next((y for block in around if (y := checked.get((op.x, block)))), None)
        if before is not None:
            _replace(op, before)
        elif kept.divides(op.x, op):
            _replace(op, op.x)
        else:
            checked[op.x, op.parent] = op.result


def _blocks_around(op: Operation) -> Iterator[Block]:
    block = op.parent
    while block is not None:
        yield block
        block = block.parent_block()


def _replace(op: DivisorOp | WithinOp, by: SSAValue) -> None:
    op.result.replace_all_uses_with(by)
    op.detach()
    op.erase()


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
