"""Elementwise functions: arithmetic, comparisons, logic, choice, conversion."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BOOL, F64, I32, I64, U64, DType
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor import elementwise as ops
from mlc.dialects.tensor.comparison import CompareOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.complex_parts import ImagOp, MagnitudeOp, RealOp
from mlc.dialects.tensor.functions import HypotOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.rounding import AbsOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.complexes import inverse, magnitude
from mlc.frontend.numpy.registry import public, refuse_bool, refuse_complex
from mlc.frontend.numpy.values import (
    beside,
    broadcast_shapes,
    common_dtype,
    common_operands,
    convert,
    dtype_row,
    float_dtype,
    is_inexact,
    is_integer,
    is_weak,
    lift,
    number,
    result,
    spread,
    strong,
)
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any
"""A traced or NumPy array, a NumPy scalar, a Python number, a symbolic size, or lists of these."""


def _binary(function: str, op: type[TensorOp], lhs: Operand, rhs: Operand, dtype: DType) -> Tracer:
    return result(here().emit(op, *common_operands(function, (lhs, rhs), dtype)))


def _unary(function: str, op: type[TensorOp], x: Operand) -> Tracer:
    dtype = float_dtype(function, (x,))
    operand = convert(lift(x, function).value, dtype)
    found = of_complex(function, operand, dtype)
    return result(here().emit(op, operand)) if found is None else found


def of_complex(function: str, x: SSAValue, dtype: DType) -> Tracer | None:
    """A function of complex numbers, where it is one of those that their parts give."""
    if dtype.kind != "complex":
        return None
    from mlc.frontend.numpy.complex_functions import OF_COMPLEX

    of_parts = OF_COMPLEX.get(function)
    return None if of_parts is None else of_parts(result(x))


def extreme(function: str, op: type[TensorOp], lhs: Operand, rhs: Operand) -> Tracer:
    """The larger or smaller one; of complex numbers by their real parts first."""
    dtype = common_dtype(function, (lhs, rhs))
    if dtype.kind != "complex":
        return _binary(function, op, lhs, rhs, dtype)
    from mlc.frontend.numpy import complex_functions

    x, y = (result(v) for v in common_operands(function, (lhs, rhs), dtype))
    return complex_functions.extreme(function, x, y)


@public(np.add, numbers=True)
def add(x1: Operand, x2: Operand) -> Tracer:
    """x1 + x2; on bool: or."""
    return _binary("add", ops.AddOp, x1, x2, common_dtype("add", (x1, x2)))


@public(np.subtract, numbers=True)
def subtract(x1: Operand, x2: Operand) -> Tracer:
    """x1 - x2."""
    dtype = common_dtype("subtract", (x1, x2))
    refuse_bool("subtract", dtype, "Use np.logical_xor(a, b), or convert with .astype(np.int64).")
    return _binary("subtract", ops.SubOp, x1, x2, dtype)


@public(np.multiply, numbers=True)
def multiply(x1: Operand, x2: Operand) -> Tracer:
    """x1 * x2; on bool: and."""
    return _binary("multiply", ops.MulOp, x1, x2, common_dtype("multiply", (x1, x2)))


@public(np.true_divide, np.divide, numbers=True)
def true_divide(x1: Operand, x2: Operand) -> Tracer:
    """x1 / x2; integers give float64."""
    dtype = common_dtype("divide", (x1, x2))
    return _binary("divide", ops.DivOp, x1, x2, dtype if is_inexact(dtype) else F64)


divide = true_divide


MAX_POWER = 64
"""Powers up to this are products: at most 11 multiplications."""


def constant_power(x1: Operand, x2: Any) -> Tracer:
    """x1 ** x2 for a constant whole x2 up to MAX_POWER (products), or 0.5 (square root)."""
    dtype = common_dtype("power", (x1, x2))
    dtype = dtype_row(np.int64) if dtype is BOOL else dtype
    base = lift(x1)
    if x2 == 0.5:
        return _unary("sqrt", ops.SqrtOp, astype(base, dtype.numpy))
    exponent = int(x2)
    size = -exponent if exponent < 0 else exponent
    if exponent < 0 and is_integer(dtype):
        raise located(
            NegativePowerError,
            "power: integers to negative integer powers are not allowed.",
            remedy="Convert the base: x.astype(np.float64) ** n.",
        )
    value = convert(base.value, dtype)
    product = _product_power(value, size, dtype, base)
    if exponent >= 0:
        return result(product)
    return result(here().emit(ops.DivOp, number(1.0, dtype, base.dims), product))


def _product_power(value: Any, exponent: int, dtype: DType, base: Tracer) -> Any:
    """By repeated squaring."""
    product = None
    while exponent:
        if exponent & 1:
            product = value if product is None else here().emit(ops.MulOp, product, value)
        exponent >>= 1
        if exponent:
            value = _square_of_size(value) or here().emit(ops.MulOp, value, value)
    return number(1, dtype, base.dims) if product is None else product


def _square_of_size(value: SSAValue) -> SSAValue | None:
    """
    Of a size or a length the square, which is that of what it is the size of, or what it is the
    root of: smooth at 0, where the size is not.
    """
    match value.owner:
        case AbsOp() as op:
            sides: tuple[SSAValue, ...] = (op.x,)
        case HypotOp() as op:
            sides = (op.lhs, op.rhs)
        case MagnitudeOp() as op:
            sides = (here().emit(RealOp, op.x), here().emit(ImagOp, op.x))
        case SelectOp() as op:
            return _under_root(op)
        case _:
            return None
    squares = [here().emit(ops.MulOp, x, x) for x in sides]
    return squares[0] if len(squares) == 1 else here().emit(ops.AddOp, *squares)


def _under_root(op: SelectOp) -> SSAValue | None:
    """What `root` is of, where it wrote the op."""
    test, root_of = op.condition.owner, op.if_false.owner
    if not isinstance(test, CompareOp) or not isinstance(root_of, ops.SqrtOp):
        return None
    return root_of.x if test.predicate.data == "eq" and test.lhs is root_of.x else None


class NegativePowerError(DTypeError, ValueError):
    """An integer array to a negative power, as NumPy refuses it."""


@public(np.square, numbers=True)
def square(x: Operand) -> Tracer:
    """x * x; of bool in int8."""
    source = lift(x, "square")
    if source.row is BOOL:
        source = astype(source, np.int8)
    made = _square_of_size(source.value)
    return multiply(source, source) if made is None else result(made)


@public(np.reciprocal, numbers=True)
def reciprocal(x: Operand) -> Tracer:
    """1 / x; of integers the whole part, and NumPy's value for 0; of bool in int8."""
    source = lift(x, "reciprocal")
    if source.row.kind == "complex":
        return inverse(source)
    if is_inexact(source.row):
        return _binary("reciprocal", ops.DivOp, 1.0, source, source.row)
    source = astype(source, np.int8) if source.row is BOOL else source
    row = source.row
    of_zero = row.lowest if row in (I32, I64) else 0  # what C gives for (int)(1.0 / 0)
    known = where(equal(source, 0), lift(row.numpy.type(of_zero)), row.numpy.type(0))
    return where(logical_or(equal(source, 1), equal(source, -1)), source, known)


@public(np.negative, numbers=True)
def negative(x: Operand) -> Tracer:
    """-x."""
    source = lift(x)
    refuse_bool("negative", source.row, "Use np.logical_not(x), or ~x.")
    return result(here().emit(ops.NegOp, source.value))


@public(np.positive, numbers=True)
def positive(x: Operand) -> Tracer:
    """A copy of x."""
    source = lift(x)
    refuse_bool("positive", source.row, "Use x.copy(), or convert with .astype(np.int64).")
    return result(source.value)


@public(np.abs, numbers=True)
def abs(x: Operand) -> Tracer:  # noqa: A001 - NumPy's name
    """|x|; of complex numbers their magnitude."""
    source = lift(x)
    if source.row.kind in ("bool", "uint"):
        return result(source.value)
    if source.row.kind == "complex":
        return magnitude(source)
    return result(here().emit(AbsOp, source.value))


@public(np.fabs, numbers=True)
def fabs(x: Operand) -> Tracer:
    """|x| as a float; not of complex numbers."""
    source = lift(x, "fabs")
    refuse_complex("fabs", source.row, "Use np.abs(x), the magnitude.")
    return _unary("fabs", AbsOp, source)


absolute = abs


@public(np.exp, numbers=True)
def exp(x: Operand) -> Tracer:
    """e to the power x."""
    return _unary("exp", ops.ExpOp, x)


@public(np.log, numbers=True)
def log(x: Operand) -> Tracer:
    """The natural logarithm."""
    return _unary("log", ops.LogOp, x)


@public(np.tanh, numbers=True)
def tanh(x: Operand) -> Tracer:
    """The hyperbolic tangent."""
    return _unary("tanh", ops.TanhOp, x)


@public(np.sqrt, numbers=True)
def sqrt(x: Operand) -> Tracer:
    """The square root."""
    return _unary("sqrt", ops.SqrtOp, x)


@public(np.maximum, numbers=True)
def maximum(x1: Operand, x2: Operand) -> Tracer:
    """The larger of both; NaN where either is."""
    return extreme("maximum", MaxOp, x1, x2)


@public(np.minimum, numbers=True)
def minimum(x1: Operand, x2: Operand) -> Tracer:
    """The smaller of both; NaN where either is."""
    return extreme("minimum", MinOp, x1, x2)


@public(np.clip)
def clip(
    a: Operand,
    a_min: Operand = None,
    a_max: Operand = None,
    out: Any = None,
    *,
    min: Operand = None,  # noqa: A002
    max: Operand = None,  # noqa: A002
) -> Tracer:
    """`a` limited to [a_min, a_max]."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x = strong(a, "clip")
    if is_integer(x.row):  # a Python int beyond the dtype limits nothing
        low = None if type(low) is int and low <= x.row.lowest else low
        high = None if type(high) is int and high >= x.row.highest else high
        low = None if isinstance(low, Tracer) and beside(low, x.row) < 0 else low
        high = None if isinstance(high, Tracer) and beside(high, x.row) > 0 else high
    if low is None and high is None:
        return positive(x)
    dtype = common_dtype("clip", [v for v in (x, low, high) if v is not None])
    limited = x
    if low is not None:
        limited = _binary("clip", MaxOp, limited, low, dtype)
    return limited if high is None else _binary("clip", MinOp, limited, high, dtype)


# Comparisons


def _compare(function: str, predicate: str, x1: Operand, x2: Operand) -> Tracer:
    from mlc.frontend.numpy.values import common_origins

    dtype = common_dtype(function, (x1, x2))
    beyond = _beyond(predicate, x1, x2, dtype)
    if beyond is not None:
        return beyond
    if is_integer(dtype) and dtype.bytes < I64.bytes and any(_is_weak_array(x) for x in (x1, x2)):
        dtype = I64  # a Python int that is an argument: the narrow dtype may not hold it
    operands = common_operands(function, (x1, x2), dtype)
    if dtype.kind == "complex" and predicate not in ("eq", "ne"):
        from mlc.frontend.numpy.complex_functions import ordered

        return ordered(predicate, *map(result, operands))
    made = result(here().emit(CompareOp, *operands, predicate=predicate))
    made.origins = common_origins((x1, x2)) if is_weak(x1) and is_weak(x2) else frozenset()
    return made


_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _is_weak_array(x: Operand) -> bool:
    return isinstance(x, Tracer) and x.weak


def _beyond(predicate: str, x1: Operand, x2: Operand, dtype: DType) -> Tracer | None:
    """The comparison with a Python int that the dtype cannot hold: the same for every element."""
    if not is_integer(dtype):
        return None
    for x, other, relation in ((x2, x1, predicate), (x1, x2, _SWAPPED[predicate])):
        if isinstance(x, Tracer) and dtype is U64:  # no wider dtype holds both
            side = beside(x, dtype)
        elif isinstance(x, int) and not isinstance(x, bool | np.generic):
            side = (x > dtype.highest) - (x < dtype.lowest)
        else:
            continue
        if not side:
            continue
        larger = ("ne", "lt", "le") if side > 0 else ("ne", "gt", "ge")
        return result(number(relation in larger, BOOL, lift(other).dims))
    return None


@public(np.equal, numbers=True)
def equal(x1: Operand, x2: Operand) -> Tracer:
    """x1 == x2."""
    return _compare("equal", "eq", x1, x2)


@public(np.not_equal, numbers=True)
def not_equal(x1: Operand, x2: Operand) -> Tracer:
    """x1 != x2."""
    return _compare("not_equal", "ne", x1, x2)


@public(np.less, numbers=True)
def less(x1: Operand, x2: Operand) -> Tracer:
    """x1 < x2."""
    return _compare("less", "lt", x1, x2)


@public(np.less_equal, numbers=True)
def less_equal(x1: Operand, x2: Operand) -> Tracer:
    """x1 <= x2."""
    return _compare("less_equal", "le", x1, x2)


@public(np.greater, numbers=True)
def greater(x1: Operand, x2: Operand) -> Tracer:
    """x1 > x2."""
    return _compare("greater", "gt", x1, x2)


@public(np.greater_equal, numbers=True)
def greater_equal(x1: Operand, x2: Operand) -> Tracer:
    """x1 >= x2."""
    return _compare("greater_equal", "ge", x1, x2)


@public(np.isnan, numbers=True)
def isnan(x: Operand) -> Tracer:
    """Where x is not a number."""
    return not_equal(x, x) if is_inexact(lift(x).row) else _everywhere(x, False)


def _everywhere(x: Operand, value: bool) -> Tracer:
    """What is known of every integer, without reading it."""
    return result(number(value, BOOL, lift(x).dims))


@public(np.isinf, numbers=True)
def isinf(x: Operand) -> Tracer:
    """Where x is infinite."""
    return equal(abs(x), np.inf) if is_inexact(lift(x).row) else _everywhere(x, False)


@public(np.isfinite, numbers=True)
def isfinite(x: Operand) -> Tracer:
    """Where x is neither infinite nor NaN."""
    return less(abs(x), np.inf) if is_inexact(lift(x).row) else _everywhere(x, True)


# Logic


def truth(x: Operand) -> Tracer:
    """x != 0 as bool."""
    source = lift(x)
    return source if source.row is BOOL else result(convert(source.value, BOOL))


@public(np.logical_and, numbers=True)
def logical_and(x1: Operand, x2: Operand) -> Tracer:
    """Both are true (not 0)."""
    return _binary("logical_and", ops.MulOp, truth(x1), truth(x2), BOOL)


@public(np.logical_or, numbers=True)
def logical_or(x1: Operand, x2: Operand) -> Tracer:
    """At least one is true."""
    return _binary("logical_or", ops.AddOp, truth(x1), truth(x2), BOOL)


@public(np.logical_xor, numbers=True)
def logical_xor(x1: Operand, x2: Operand) -> Tracer:
    """Exactly one is true."""
    return _compare("logical_xor", "ne", truth(x1), truth(x2))


@public(np.logical_not, numbers=True)
def logical_not(x: Operand) -> Tracer:
    """Not true."""
    return _compare("logical_not", "eq", truth(x), np.False_)


# Choice and conversion


@public(np.where)
def where(condition: Operand, x: Operand = None, y: Operand = None) -> Any:
    """x where the condition holds, else y; without them, the positions where it holds."""
    if x is None and y is None:
        from mlc.frontend.numpy.positions import nonzero

        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    held = truth(condition)
    dtype = common_dtype("where", (x, y))
    if_true, if_false = (lift(v) if not isinstance(v, bool | int | float) else v for v in (x, y))
    dims = [held.dims, *(v.dims for v in (if_true, if_false) if isinstance(v, Tracer))]
    names = ["condition", *(name_of(v) or "" for v in (if_true, if_false) if isinstance(v, Tracer))]
    shape = broadcast_shapes("where", dims, names)
    values = [
        spread(convert(v.value, dtype), shape) if isinstance(v, Tracer) else number(v, dtype, shape)
        for v in (if_true, if_false)
    ]
    return result(here().emit(SelectOp, spread(held.value, shape), *values))


@public(getattr(np, "astype", None))
def astype(x: Operand, dtype: Any, /, *, copy: bool = True, **_: object) -> Tracer:
    """The array in another dtype; floats to integers truncate, and saturate where too large."""
    return result(convert(lift(x).value, dtype_row(dtype)))


def root(x: Tracer) -> Tracer:
    """The square root of a sum of squares: a length, whose derivatives at 0 are 0, not NaN."""
    return where(equal(x, 0), 0, sqrt(x))
