"""
Algebraic identities that keep every bit, by op.

Exact under IEEE 754 with NaN, infinities and the sign of zero; so `x + 0.0` stays (it turns -0.0
into 0.0) and so does `x * 0.0`. SOURCE: IEEE 754-2019, sections 5 and 6.3.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, Extremum, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import SizeOp
from mlc.dialects.tensor.elementwise import (
    AddOp,
    Binary,
    DivOp,
    MulOp,
    NegOp,
    SubOp,
)
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.shape import ConcatOp
from mlc.passes.tensor.constants import is_splat_of, splat, splat_constant
from mlc.passes.tensor.rules import Rewrite, Rules

ALGEBRA = Rules()
_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _constant_to_the_right(op: Binary, b: Rewrite) -> SSAValue | None:
    """c + x  ->  x + c"""
    if splat(op.lhs) is None or splat(op.rhs) is not None:
        return None
    return b(type(op), op.rhs, op.lhs)


for _commutative in (AddOp, MulOp, MaxOp, MinOp):
    ALGEBRA.on(_commutative)(_constant_to_the_right)


@ALGEBRA.on(AddOp)
def add_nothing(op: AddOp, b: Rewrite) -> SSAValue | None:
    """x + -0.0  ->  x;  on integers x + 0  ->  x;  x or false  ->  x"""
    zero = -0.0 if op.dtype.is_inexact else 0
    return op.lhs if is_splat_of(op.rhs, zero) else None


@ALGEBRA.on(AddOp)
def add_negated(op: AddOp, b: Rewrite) -> SSAValue | None:
    """x + -y  ->  x - y"""
    if isinstance(op.rhs.owner, NegOp):
        return b(SubOp, op.lhs, op.rhs.owner.x)
    if isinstance(op.lhs.owner, NegOp):
        return b(SubOp, op.rhs, op.lhs.owner.x)
    return None


@ALGEBRA.on(SubOp)
def subtract_nothing(op: SubOp, b: Rewrite) -> SSAValue | None:
    """x - 0.0  ->  x, but not x - -0.0, which turns -0.0 into 0.0"""
    return op.lhs if is_splat_of(op.rhs, 0.0) else None


@ALGEBRA.on(SubOp)
def subtract_from_nothing(op: SubOp, b: Rewrite) -> SSAValue | None:
    """-0.0 - x  ->  -x;  on integers 0 - x  ->  -x"""
    zero = -0.0 if op.dtype.is_inexact else 0
    return b(NegOp, op.rhs) if is_splat_of(op.lhs, zero) else None


@ALGEBRA.on(SubOp)
def subtract_negated(op: SubOp, b: Rewrite) -> SSAValue | None:
    """x - -y  ->  x + y"""
    return b(AddOp, op.lhs, op.rhs.owner.x) if isinstance(op.rhs.owner, NegOp) else None


@ALGEBRA.on(SubOp)
def subtract_self(op: SubOp, b: Rewrite) -> SSAValue | None:
    """x - x  ->  0 on integers (a float may be infinite or NaN)"""
    if op.lhs is not op.rhs or op.dtype.is_inexact:
        return None
    return splat_constant(b, 0, op.dtype, op.shape)


@ALGEBRA.on(MulOp)
def multiply_by_one(op: MulOp, b: Rewrite) -> SSAValue | None:
    """x * 1  ->  x;  not on complex numbers, where inf * (1 + 0j) is inf + nan j"""
    return op.lhs if op.dtype.kind != "complex" and is_splat_of(op.rhs, 1) else None


@ALGEBRA.on(MulOp)
def multiply_by_zero(op: MulOp, b: Rewrite) -> SSAValue | None:
    """x * 0  ->  0 on integers and bools"""
    return op.rhs if not op.dtype.is_inexact and is_splat_of(op.rhs, 0) else None


@ALGEBRA.on(DivOp)
def divide_by_power_of_two(op: DivOp, b: Rewrite) -> SSAValue | None:
    """x / 4.0  ->  x * 0.25, which rounds the same real number; x / 1.0  ->  x"""
    divisor = None if op.dtype.kind == "complex" else splat(op.rhs)
    if divisor is None or not _has_exact_inverse(float(divisor), op.dtype):
        return None
    if divisor == 1:
        return op.lhs
    return b(MulOp, op.lhs, splat_constant(b, 1.0 / float(divisor), op.dtype, op.shape))


def _has_exact_inverse(value: float, dtype: DType) -> bool:
    """Whether 1 / value is a normal power of two."""
    if not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return False
    limit = {"f16": 14, "f64": 1022}.get(dtype.name, 126)
    return abs(math.frexp(value)[1] - 1) < limit


@ALGEBRA.on(NegOp)
def negate_twice(op: NegOp, b: Rewrite) -> SSAValue | None:
    """-(-x)  ->  x"""
    return op.x.owner.x if isinstance(op.x.owner, NegOp) else None


@ALGEBRA.on(Extremum)
def extremum_of_one(op: Extremum, b: Rewrite) -> SSAValue | None:
    """max(x, x)  ->  x"""
    return op.lhs if op.lhs is op.rhs else None


@ALGEBRA.on(CompareOp)
def compare_constant_right(op: CompareOp, b: Rewrite) -> SSAValue | None:
    """c < x  ->  x > c"""
    if splat(op.lhs) is None or splat(op.rhs) is not None:
        return None
    return b(CompareOp, op.rhs, op.lhs, predicate=_SWAPPED[op.predicate.data])


@ALGEBRA.on(SelectOp)
def select_one_of_one(op: SelectOp, b: Rewrite) -> SSAValue | None:
    """select(c, x, x)  ->  x;  select(true, x, y)  ->  x"""
    if op.if_true is op.if_false:
        return op.if_true
    condition = splat(op.condition)
    if condition is None:
        return None
    return op.if_true if bool(condition) else op.if_false


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
    saturates = inner.source.is_integer and inner.dtype.is_inexact and op.dtype.is_integer
    if saturates and not _holds(inner.source, op.dtype):
        return None
    if op.dtype is inner.source:
        return inner.x
    return b(ConvertOp, inner.x, declared=tensor_of(op.result))


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
