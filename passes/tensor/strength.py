"""
Cheaper ops of the same meaning: elementwise chains by strength, and factors that leave sums.

Each rule says of which class it is (`rules.py`); most of these round differently, so they are not
exact. SOURCE: Aho, Lam, Sethi, Ullman, Compilers, 2nd ed., 2006, sections 8.5.4 and 9.1.7.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.tensor.bitwise import AndOp, NotOp, OrOp
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.division import PowOp
from mlc.dialects.tensor.elementwise import (
    AddOp,
    DivOp,
    ExpOp,
    LogOp,
    MulOp,
    NegOp,
    SqrtOp,
)
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.rounding import AbsOp, Rounding
from mlc.passes.tensor.constants import is_splat_of, splat, splat_constant
from mlc.passes.tensor.rules import Rewrite, Rules

STRENGTH = Rules()


# Exact


@STRENGTH.on(MulOp)
def multiply_by_minus_one(op: MulOp, b: Rewrite) -> SSAValue | None:
    """x * -1  ->  -x, not on complex numbers and bools"""
    if op.dtype.kind not in ("float", "int") or not is_splat_of(op.rhs, -1):
        return None
    return b(NegOp, op.lhs)


@STRENGTH.on(MulOp)
def multiply_negated(op: MulOp, b: Rewrite) -> SSAValue | None:
    """-x * -y  ->  x * y"""
    x, y = op.lhs.owner, op.rhs.owner
    if op.dtype.kind == "complex" or not isinstance(x, NegOp) or not isinstance(y, NegOp):
        return None
    return b(MulOp, x.x, y.x)


@STRENGTH.on(DivOp)
def divide_negated(op: DivOp, b: Rewrite) -> SSAValue | None:
    """-x / -y  ->  x / y"""
    x, y = op.lhs.owner, op.rhs.owner
    if op.dtype.kind != "float" or not isinstance(x, NegOp) or not isinstance(y, NegOp):
        return None
    return b(DivOp, x.x, y.x)


@STRENGTH.on(AbsOp)
def absolute_of_signed(op: AbsOp, b: Rewrite) -> SSAValue | None:
    """|-x|  ->  |x|;  ||x||  ->  |x|"""
    if op.dtype.kind != "float":
        return None
    if isinstance(op.x.owner, AbsOp):
        return op.x if op.x.type == op.result.type else None
    return b(AbsOp, op.x.owner.x) if isinstance(op.x.owner, NegOp) else None


@STRENGTH.on(Rounding)
def round_twice(op: Rounding, b: Rewrite) -> SSAValue | None:
    """floor(ceil(x))  ->  ceil(x): a whole number stays as it is"""
    return op.operands[0] if isinstance(op.operands[0].owner, Rounding) else None


@STRENGTH.on(NotOp)
def complement_twice(op: NotOp, b: Rewrite) -> SSAValue | None:
    """~~x  ->  x"""
    return op.x.owner.x if isinstance(op.x.owner, NotOp) else None


def _same_twice(op: AndOp | OrOp, b: Rewrite) -> SSAValue | None:
    """x & x  ->  x;  x | x  ->  x"""
    return op.lhs if op.lhs is op.rhs else None


for _idempotent in (AndOp, OrOp):
    STRENGTH.on(_idempotent)(_same_twice)


@STRENGTH.on(SelectOp)
def select_by_complement(op: SelectOp, b: Rewrite) -> SSAValue | None:
    """select(~c, x, y)  ->  select(c, y, x)"""
    inner = op.condition.owner
    if not isinstance(inner, NotOp):
        return None
    return b(SelectOp, inner.x, op.if_false, op.if_true)


@STRENGTH.on(PowOp)
def first_powers(op: PowOp, b: Rewrite) -> SSAValue | None:
    """x ** 1  ->  x;  x ** 0  ->  1, of NaN too (IEEE 754-2019, 9.2.1)"""
    if is_splat_of(op.rhs, 1):
        return op.lhs
    power = splat(op.rhs)
    return splat_constant(b, 1, op.dtype, op.shape) if power is not None and power == 0 else None


@STRENGTH.on(PowOp)
def square(op: PowOp, b: Rewrite) -> SSAValue | None:
    """x ** 2  ->  x * x, on floats rounded once, on integers wrapping around"""
    return b(MulOp, op.lhs, op.lhs) if is_splat_of(op.rhs, 2) else None


def _integers_twice(op: AddOp | MulOp, b: Rewrite) -> SSAValue | None:
    """(x + 2) + 3  ->  x + 5 on integers, which wrap around; products likewise"""
    return _constants_together(op, b) if op.dtype.is_integer else None


def _constants_together(op: AddOp | MulOp, b: Rewrite) -> SSAValue | None:
    inner, outer = op.lhs.owner, splat(op.rhs)
    if outer is None or not isinstance(inner, type(op)) or (first := splat(inner.rhs)) is None:
        return None
    with np.errstate(all="ignore"):
        both = np.add(first, outer) if isinstance(op, AddOp) else np.multiply(first, outer)
    if op.dtype.is_inexact and not (np.isfinite(both) and both != 0):
        return None
    return b(type(op), inner.lhs, splat_constant(b, both, op.dtype, op.shape))


for _op in (AddOp, MulOp):
    STRENGTH.on(_op)(_integers_twice)


# Reassociating


@STRENGTH.on(PowOp, numerics="standard")
def root_of_positive(op: PowOp, b: Rewrite) -> SSAValue | None:
    """|x| ** 0.5  ->  sqrt |x|; of exp(x) and x * x, too: no -0.0 and no -inf, where they differ"""
    x = op.lhs.owner
    positive = isinstance(x, (AbsOp, ExpOp)) or (isinstance(x, MulOp) and x.lhs is x.rhs)
    return b(SqrtOp, op.lhs) if positive and is_splat_of(op.rhs, 0.5) else None


@STRENGTH.on(ReduceOp, numerics="standard")
def factor_leaves_sum(op: ReduceOp, b: Rewrite) -> SSAValue | None:
    """sum(x * 3.0)  ->  sum(x) * 3.0, of factors from 1 on: smaller ones may keep sums finite"""
    inner = op.x.owner
    if op.monoid.data != "sum" or op.dtype.kind != "float" or not op.axes():
        return None
    if not isinstance(inner, MulOp) or not op.x.has_one_use():
        return None
    factor = splat(inner.rhs)
    if factor is None or not 1 <= abs(float(factor)) < math.inf:
        return None
    total = b(ReduceOp, inner.lhs, monoid=op.monoid, letters=op.letters)
    return b(MulOp, total, splat_constant(b, factor, op.dtype, op.shape))


# Approximate: wider bounds, or other results for infinities, zeros and numbers out of range


def _floats_twice(op: AddOp | MulOp, b: Rewrite) -> SSAValue | None:
    """(x * 2.5) * 3.0  ->  x * 7.5; sums likewise, where (x + 1e8) - 1e8 was meant to round"""
    return _constants_together(op, b) if op.dtype.kind == "float" and op.lhs.has_one_use() else None


for _op in (AddOp, MulOp):
    STRENGTH.on(_op, numerics="fast")(_floats_twice)


@STRENGTH.on(MulOp, numerics="fast")
def multiply_exponentials(op: MulOp, b: Rewrite) -> SSAValue | None:
    """exp(x) * exp(y)  ->  exp(x + y), if nobody else reads them; exp(x) may have overflowed"""
    x, y = op.lhs.owner, op.rhs.owner
    if not isinstance(x, ExpOp) or not isinstance(y, ExpOp) or op.lhs is op.rhs:
        return None
    if not op.lhs.has_one_use() or not op.rhs.has_one_use():
        return None
    return b(ExpOp, b(AddOp, x.x, y.x))


@STRENGTH.on(LogOp, numerics="fast")
def logarithm_of_exponential(op: LogOp, b: Rewrite) -> SSAValue | None:
    """log(exp(x))  ->  x; exp(x) may have overflowed or vanished"""
    return op.x.owner.x if op.dtype.kind == "float" and isinstance(op.x.owner, ExpOp) else None


@STRENGTH.on(ExpOp, numerics="fast")
def exponential_of_logarithm(op: ExpOp, b: Rewrite) -> SSAValue | None:
    """exp(log(x))  ->  x; negative x had no logarithm"""
    return op.x.owner.x if op.dtype.kind == "float" and isinstance(op.x.owner, LogOp) else None


@STRENGTH.on(PowOp, numerics="fast")
def root(op: PowOp, b: Rewrite) -> SSAValue | None:
    """x ** 0.5  ->  sqrt x, which differ for -0.0 and -inf"""
    return b(SqrtOp, op.lhs) if is_splat_of(op.rhs, 0.5) else None


@STRENGTH.on(DivOp, numerics="fast")
def multiply_by_inverse(op: DivOp, b: Rewrite) -> SSAValue | None:
    """x / 3.0  ->  x * (1 / 3.0), rounded twice"""
    divisor = splat(op.rhs)
    if op.dtype.kind != "float" or divisor is None or not abs(float(divisor)) >= 1e-30:
        return None
    if not math.isfinite(float(divisor)) or abs(float(divisor)) > 1e30:
        return None
    return b(MulOp, op.lhs, splat_constant(b, 1.0 / float(divisor), op.dtype, op.shape))


@STRENGTH.on(MulOp, numerics="fast")
def root_times_itself(op: MulOp, b: Rewrite) -> SSAValue | None:
    """sqrt(x) * sqrt(x)  ->  x; negative x had no root"""
    inner = op.lhs.owner
    if op.lhs is not op.rhs or op.dtype.kind != "float" or not isinstance(inner, SqrtOp):
        return None
    return inner.x
