"""
Algebraic identities that keep every bit, by op.

Exact under IEEE 754 with NaN, infinities and the sign of zero. SOURCE: IEEE 754-2019, sections 5
and 6.3.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.create import SizeOp
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.shape import ConcatOp
from mlc.passes.rules.load import deferred
from mlc.passes.tensor.constants import splat_constant
from mlc.passes.tensor.rules import Rewrite

ALGEBRA = deferred("algebra")
"""
Those of `passes/rules/algebra.rules`, and what no pattern states: conversions, whose condition is
an order of dtypes; sizes, which are reckoned from a dim; concatenations, of any number of parts.
"""


@ALGEBRA.on(ConvertOp)
def convert_to_same(op: ConvertOp, b: Rewrite) -> SSAValue | None:
    """convert f32 -> f32  ->  x"""
    return op.x if op.x.type == op.result.type else None


@ALGEBRA.on(ConvertOp)
def convert_widened(op: ConvertOp, b: Rewrite) -> SSAValue | None:
    """convert(convert(x: f32 -> f64) -> t)  ->  convert(x: f32 -> t), since f64 holds every f32"""
    inner = op.x.owner
    if not isinstance(inner, ConvertOp) or not _holds(inner.source, inner.dtype):
        return None
    # out of range, floats saturate and integers wrap around
    saturates = _is_whole(inner.source) and inner.dtype.is_inexact and _is_whole(op.dtype)
    if saturates and not _holds(inner.source, op.dtype):
        return None
    if op.dtype is inner.source:
        return inner.x
    return b(ConvertOp, inner.x, declared=tensor_of(op.result))


def _is_whole(dtype: DType) -> bool:
    return dtype.is_integer or dtype.stores_integers


_DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}  # of the significand, the hidden one too


def _holds(dtype: DType, wide: DType) -> bool:
    """Whether `wide` represents each value of the dtype exactly."""
    if wide.kind in ("bool", "storage"):
        return False
    if wide.kind == "complex":
        return dtype.part is wide.part or _holds(dtype.part, wide.part)
    if dtype.kind == "bool":
        return True
    if dtype.is_integer and wide.is_integer:
        return wide.lowest <= dtype.lowest and dtype.highest <= wide.highest
    if dtype.is_integer:
        return wide.kind == "float" and dtype.highest < 2 ** _DIGITS[wide.name]
    return wide.kind == "float" and wide.bytes >= 4 and dtype.bytes < wide.bytes


@ALGEBRA.on(SizeOp)
def known_size(op: SizeOp, b: Rewrite) -> SSAValue | None:
    """size(4)  ->  constant 4"""
    size = op.dim.constant
    return None if size is None else splat_constant(b, size, op.dtype, ())


@ALGEBRA.on(ConcatOp)
def concat_of_one(op: ConcatOp, b: Rewrite) -> SSAValue | None:
    """concat(x)  ->  x; empty parts are left out"""
    axis = op.axis.value.data
    kept = [x for x in op.parts if tensor_of(x).get_shape()[axis] != 0]
    if len(kept) == len(op.parts) > 1:
        return None
    if len(kept) < 2:
        return kept[0] if kept else op.parts[0]
    return b(ConcatOp, *kept, axis=op.axis)
