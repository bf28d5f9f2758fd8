"""What is computed of sums of products of terms, element by element."""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.dtypes import F32
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp, MulOp
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.rounding import IsfiniteOp
from mlc.dialects.tensor.terms import SCALE
from mlc.dialects.tile.element import MapOp, scalar
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType


def smaller(sums: SSAValue, kind: FragType) -> MapOp:
    """
    Sums of products of smaller terms, to which those of larger ones are added. Where a factor is
    infinite or NaN, its first term alone says what comes of it.
    """
    body = Block(arg_types=[scalar(F32.ir)])
    b = OpBuilder(body.add_op)
    (x,) = body.args
    scale, zero = full(b, 1 / SCALE, F32, ()), full(b, 0.0, F32, ())
    body.add_op(YieldOp.of(b(SelectOp, b(IsfiniteOp, x), b(MulOp, x, scale), zero)))
    return MapOp.of([sums], (), (), [kind], Region(body))


def plus(x: SSAValue, y: SSAValue, kind: FragType) -> MapOp:
    """x + y."""
    body = Block(arg_types=[scalar(F32.ir)] * 2)
    total: Operation = AddOp.make(*body.args)
    body.add_ops([total, YieldOp.of(total.results[0])])
    return MapOp.of([x, y], (), (), [kind], Region(body))
