"""Elementwise arithmetic of whole numbers: floor division, remainders, powers, bits, shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import tensor_type
from mlc.dialects.dtypes import BOOL, DType
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor import bitwise, division
from mlc.dialects.tensor.op import TensorOp
from mlc.frontend.errors import located
from mlc.frontend.numpy import elementwise
from mlc.frontend.numpy.elementwise import Operand
from mlc.frontend.numpy.elementwise_math import Binary
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.values import (
    common_dtype,
    common_operands,
    convert,
    dtype_at,
    dtype_row,
    is_integer,
    lift,
    result,
)
from mlc.frontend.trace.kinds import is_number, is_scalar
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bits_as",
    "divmod",
    "floor_divide",
    "fmod",
    "invert",
    "left_shift",
    "mod",
    "pow",
    "power",
    "remainder",
    "right_shift",
]

INT8 = np.int8


def _emitted(name: str, op: type[TensorOp], x1: Operand, x2: Operand, dtype: DType) -> Tracer:
    return result(here().emit(op, *common_operands(name, (x1, x2), dtype)))


def _numbers(name: str, x1: Operand, x2: Operand) -> DType:
    """The common dtype; bools count as int8, as in NumPy."""
    dtype = common_dtype(name, (x1, x2))
    return dtype_row(INT8) if dtype is BOOL else dtype


def _division(name: str, op: type[TensorOp], *ufuncs: Any) -> Binary:
    def apply(x1: Operand, x2: Operand) -> Tracer:
        return _emitted(name, op, x1, x2, _numbers(name, x1, x2))

    apply.__name__ = name
    apply.__doc__ = op.__doc__
    return public(*ufuncs, numbers=True)(apply)


floor_divide = _division("floor_divide", division.FloorDivOp, np.floor_divide)
mod = remainder = _division("remainder", division.ModOp, np.remainder)
fmod = _division("fmod", division.RemOp, np.fmod)


@public(np.divmod, numbers=True)
def divmod(x1: Operand, x2: Operand) -> tuple[Tracer, Tracer]:  # noqa: A001 - NumPy's name
    """(x1 // x2, x1 % x2)."""
    return floor_divide(x1, x2), remainder(x1, x2)


@public(np.power, numbers=True)
def power(x1: Operand, x2: Operand) -> Tracer:
    """
    x1 ** x2. Small constant whole exponents are products, 0.5 is the square root; integers to a
    negative integer power are an error.
    """
    if isinstance(x2, Tracer) and x2.origins:
        x2.__index__()  # of a number argument: asks for it as a static one
    if _is_small(x2):
        return elementwise.constant_power(x1, x2)
    dtype = _numbers("power", x1, x2)
    if dtype.kind == "complex":
        from mlc.frontend.numpy.complex_power import complex_power

        return complex_power(x1, x2, dtype)
    return _emitted("power", division.PowOp, x1, x2, dtype)


def _is_small(exponent: Any) -> bool:
    """Whether it is a constant whose power is a product or a square root."""
    if not (is_number(exponent) or is_scalar(exponent)):
        return False
    if isinstance(exponent, complex | np.complexfloating):
        return False
    value = float(exponent)
    largest = elementwise.MAX_POWER
    return value == 0.5 or (value.is_integer() and -largest <= value <= largest)


pow = power  # noqa: A001 - the array API's name


def _bits(name: str, op: type[TensorOp], ufunc: Any) -> Binary:
    def apply(x1: Operand, x2: Operand) -> Tracer:
        return _emitted(name, op, x1, x2, _whole(name, common_dtype(name, (x1, x2))))

    apply.__name__ = name
    apply.__doc__ = op.__doc__
    return public(ufunc, numbers=True)(apply)


def _whole(name: str, dtype: DType) -> DType:
    if dtype is BOOL or is_integer(dtype):
        return dtype
    message = f"{name} of {dtype.numpy} is not supported; expected bool or integers."
    remedy = "Compare first, e.g. (x > 0) & (y > 0), with the parentheses."
    raise located(DTypeError, message, remedy=remedy)


bitwise_and = _bits("bitwise_and", bitwise.AndOp, np.bitwise_and)
bitwise_or = _bits("bitwise_or", bitwise.OrOp, np.bitwise_or)
bitwise_xor = _bits("bitwise_xor", bitwise.XorOp, np.bitwise_xor)


@public(np.invert, numbers=True)
def invert(x: Operand) -> Tracer:
    """Not, on bool; -x - 1 on integers."""
    source = lift(x, "invert")
    _whole("invert", source.row)
    return result(here().emit(bitwise.NotOp, source.value))


bitwise_invert = bitwise_not = invert


def _shift(name: str, op: type[TensorOp], ufunc: Any) -> Binary:
    def apply(x1: Operand, x2: Operand) -> Tracer:
        return _emitted(name, op, x1, x2, _whole(name, _numbers(name, x1, x2)))

    apply.__name__ = name
    apply.__doc__ = op.__doc__
    return public(ufunc, numbers=True)(apply)


bitwise_left_shift = left_shift = _shift("left_shift", bitwise.ShlOp, np.left_shift)
bitwise_right_shift = right_shift = _shift("right_shift", bitwise.ShrOp, np.right_shift)


@public()
def bits_as(x: Operand, dtype: Any) -> Tracer:
    """The same bits as another dtype of the same size: NumPy's `x.view(dtype)`, a view as well."""
    from mlc.frontend.numpy.shaping import view_of

    source, target = lift(x, "view"), dtype_row(dtype, "view")
    row = source.row
    if source.weak:
        source = result(source.value)  # of a Python number there is no view

    def cast(value: SSAValue, row: DType) -> SSAValue:
        if dtype_at(value) is row:
            return value
        if row is BOOL and is_integer(dtype_at(value)) and dtype_at(value).bytes == BOOL.bytes:
            return convert(value, BOOL)
        if dtype_at(value) is BOOL and is_integer(row) and row.bytes == BOOL.bytes:
            return convert(value, row)  # a byte, 0 or 1
        declared = tensor_type(row.ir, source.dims)
        return here().emit(bitwise.BitcastOp, value, declared=declared)

    def put(_: SSAValue, new: SSAValue) -> SSAValue:
        return cast(new, row)

    return view_of(source, lambda value: cast(value, target), put)
