"""Indices that go up or down with the trips of a loop are checked before it, at both its ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from mlc.dialects.dtypes import I64
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.bitwise import AndOp
from mlc.dialects.tensor.comparison import CompareOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, YieldOp, is_inside
from mlc.dialects.tensor.create import ConstantOp, SizeOp, full
from mlc.dialects.tensor.elementwise import AddOp, SubOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.within import WithinOp
from mlc.lazy_dataclass import dataclass

MOST_OPS = 32
"""Of a body that stands there twice."""


@dataclass(frozen=True)
class CheckBeforeLoopsPass(ModulePass):
    """
    mlc.for %i to %n { mlc.within (%a + %i) of <9> … }
        ->  mlc.if (0 <= %a < 9 and 0 <= %a + (%n - 1) < 9)
                { mlc.for … { mlc.within … {holds} … } } else { mlc.for … as it was }

    of innermost loops in the loop of a nest: an index that a trip makes one larger or smaller lies
    in the axis between two places that do. Where they do not all, which trip fails, and what those
    before it have done, is as before.

    SOURCE: Bodík, Gupta, Sarkar, "ABCD: Eliminating Array Bounds Checks on Demand", PLDI 2000, 7.1.
    """

    name = "mlc-check-before-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = [x for x in op.walk() if isinstance(x, KernelOp) and x.is_nest]
        loops = [x for kernel in kernels for x in kernel.walk() if isinstance(x, ForOp)]
        for loop in loops:
            checks = [] if isinstance(loop.parent_op(), KernelOp) else _checks(loop)
            if checks:
                _split(loop, checks)


def _checks(loop: ForOp) -> list[WithinOp]:
    """The checks of a short body that may stand before its loop."""
    ops = list(loop.body.block.ops)
    if len(ops) > MOST_OPS or any(isinstance(op, ControlOp) for op in ops):
        return []
    found = [op for op in ops if isinstance(op, WithinOp) and op.holds is None]
    return [op for op in found if _slope(op.x, loop) in (-1, 0, 1)]


def _slope(value: SSAValue, loop: ForOp) -> int | None:
    """How much larger a trip makes a value; None where that is not known."""
    if value is loop.body.block.args[0]:
        return 1
    if not is_inside(value, loop):
        return 0
    match value.owner:
        case AddOp() | SubOp() as op:
            x, y = (_slope(part, loop) for part in op.operands)
            sign = 1 if isinstance(op, AddOp) else -1
            return None if x is None or y is None else x + sign * y
        case ConstantOp() | SizeOp():
            return 0
        case _:
            return None


def _split(loop: ForOp, checks: Sequence[WithinOp]) -> None:
    """The loop as it was where the checks of its first or last trip fail, else without them."""
    b = OpBuilder(Builder(InsertPoint.before(loop)).insert)
    zero, one = (full(b, number, I64, ()) for number in (0, 1))
    ends = (zero, b(SubOp, loop.count, one))
    found: list[SSAValue] = []
    for index, extent in dict.fromkeys((check.x, check.size) for check in checks):
        size = b(SizeOp, dims=extent)
        for end in ends:
            x = _in_trip(index, loop, end, b)
            found.append(b(CompareOp, x, zero, predicate="ge"))
            found.append(b(CompareOp, x, size, predicate="lt"))
    as_it_was = _region(loop)
    for check in checks:
        check.properties["holds"] = UnitAttr()
    branch = IfOp(reduce(lambda x, y: b(AndOp, x, y), found), _region(loop), as_it_was)
    Rewriter.replace_op(loop, branch)


def _region(loop: ForOp) -> Region:
    """A branch that runs a loop like this one."""
    copy = loop.clone()
    return Region(Block([copy, YieldOp.create(operands=copy.results)]))


def _in_trip(value: SSAValue, loop: ForOp, number: SSAValue, b: OpBuilder) -> SSAValue:
    """What a value is in the trip of that number, before the loop."""
    if value is loop.body.block.args[0]:
        return number
    if not is_inside(value, loop):
        return value
    owner = value.owner
    assert isinstance(owner, TensorOp)
    made = owner.on([_in_trip(x, loop, number, b) for x in owner.operands])
    b.insert(made)
    return made.results[0]
