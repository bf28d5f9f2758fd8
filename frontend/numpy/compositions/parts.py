"""Numbers taken apart: fractions and exponents, divisors, bits."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.bitwise import PopcountOp
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import located
from mlc.frontend.numpy.elementwise_whole import bits_as
from mlc.frontend.numpy.registry import composed, refuse_complex
from mlc.frontend.numpy.values import float_dtype, is_integer, lift, result, strong
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def _floats(function: str, x: Operand) -> Tracer:
    refuse_complex(function, lift(x).row, "Take x.real, x.imag or abs(x).")
    return mnp.astype(lift(x), float_dtype(function, (x,)).numpy)


@composed(np.modf, numbers=True)
def modf(x: Operand) -> tuple[Tracer, Tracer]:
    """The fraction and the whole part, both with the sign of x."""
    source = _floats("modf", x)
    whole = mnp.trunc(source)
    part = mnp.where(mnp.isinf(source), 0, source - whole)
    return mnp.copysign(part, source), whole


@composed(np.frexp, numbers=True)
def frexp(x: Operand) -> tuple[Tracer, Tracer]:
    """The mantissa in [0.5, 1) and the exponent of 2."""
    source = _floats("frexp", x)
    wide = source.astype(np.float64)
    tiny = mnp.abs(wide) < 2.0**-1022
    scaled = mnp.where(tiny, wide * 2.0**54, wide)
    field = (bits_as(scaled, np.int64) >> 52) & 2047
    plain = mnp.isfinite(wide) & mnp.not_equal(wide, 0)
    exponent = mnp.where(plain, field - 1022 - mnp.where(tiny, 54, 0), 0).astype(np.int32)
    mantissa = mnp.where(plain, ldexp(wide, -exponent), wide)
    return mantissa.astype(source.dtype), exponent


@composed(np.ldexp, numbers=True)
def ldexp(x1: Operand, x2: Operand) -> Tracer:
    """x1 times 2 to the power x2."""
    power = strong(x2)
    if not (is_integer(power.row) or power.row.kind == "bool"):
        raise located(DTypeError, f"ldexp: the exponent is {power.dtype}; expected integers.")
    source = _floats("ldexp", x1)
    n = mnp.clip(power.astype(np.int64), -2200, 2200)
    if source.dtype != np.float64:  # every product of theirs is exact in float64
        return (source.astype(np.float64) * _power(mnp.clip(n, -600, 600))).astype(source.dtype)
    found = source
    for _ in range(2):  # so that only the last product rounds
        many = mnp.clip(n, -969, 1023)
        step = mnp.where((n > 1023) | (n < -1022), many, 0)
        found, n = found * _power(step), n - step
    return found * _power(mnp.clip(n, -1022, 1023))


def _power(n: Tracer) -> Tracer:
    """2 to the power of exponents that float64 has."""
    return bits_as((n + 1023) << 52, np.float64)


@composed(np.spacing, numbers=True)
def spacing(x: Operand) -> Tracer:
    """The distance to the next number away from 0."""
    source = _floats("spacing", x)
    return mnp.nextafter(source, mnp.copysign(mnp.full_like(source, np.inf), source)) - source


@composed(np.gcd, numbers=True)
def gcd(x1: Operand, x2: Operand) -> Tracer:
    """The greatest common divisor, by Euclid's algorithm."""
    return _divisor(*_whole("gcd", x1, x2))


def _divisor(a: Tracer, b: Tracer) -> Tracer:
    from mlc.frontend.trace.loops import while_loop

    def step(pair: Any) -> Any:
        a, b = pair
        more = b != 0
        rest = mnp.remainder(a, mnp.where(more, b, 1))
        return mnp.where(more, b, a), mnp.where(more, rest, 0)

    found, _ = while_loop(lambda pair: mnp.any(pair[1] != 0), step, (mnp.abs(a), mnp.abs(b)))
    return mnp.abs(found)


@composed(np.lcm, numbers=True)
def lcm(x1: Operand, x2: Operand) -> Tracer:
    """The least common multiple."""
    a, b = _whole("lcm", x1, x2)
    most = _divisor(a, b)
    return mnp.where(
        mnp.equal(most, 0), 0, mnp.abs(a // mnp.where(mnp.equal(most, 0), 1, most) * b)
    )


def _whole(function: str, x1: Operand, x2: Operand) -> tuple[Tracer, Tracer]:
    from mlc.frontend.numpy.values import common_dtype, common_operands

    row = common_dtype(function, (x1, x2))
    if not is_integer(row):
        raise located(DTypeError, f"{function} is not defined for {row.numpy}; expected integers.")
    a, b = common_operands(function, (x1, x2), row)
    return result(a), result(b)


@composed(np.bitwise_count, numbers=True)
def bitwise_count(x: Operand) -> Tracer:
    """How many bits of |x| are 1."""
    source = strong(x)
    if not (is_integer(source.row) or source.row.kind == "bool"):
        raise located(DTypeError, f"bitwise_count is not defined for {source.dtype}.")
    whole = source.astype(np.uint8) if source.row.kind == "bool" else source
    size = whole if whole.row.kind == "uint" else mnp.abs(whole)
    return result(here().emit(PopcountOp, size.value)).astype(np.uint8)


@composed(np.packbits)
def packbits(a: Operand, /, axis: Any = None, bitorder: str = "big") -> Tracer:
    """Eight truth values as the bits of a byte."""
    x = strong(a).astype(bool)
    x, axis = (mnp.ravel(x), 0) if axis is None else (x, axis)
    lines = mnp.moveaxis(x, axis, -1)
    size = lines.shape[-1]
    more = (size + 7) // 8 * 8 - size
    lines = mnp.pad(lines, [(0, 0)] * (lines.ndim - 1) + [(0, more)])
    bits = mnp.reshape(lines, (*lines.shape[:-1], (size + 7) // 8, 8)).astype(np.uint8)
    found = mnp.sum(bits * mnp.array(_weights(bitorder)), -1, dtype=np.uint8)
    return mnp.moveaxis(found, -1, axis)


@composed(np.unpackbits)
def unpackbits(a: Operand, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Tracer:
    """The bits of bytes, as many 0 and 1."""
    x = strong(a)
    if x.dtype != np.uint8:
        raise located(DTypeError, "unpackbits: expected an input array of unsigned byte data type")
    x, axis = (mnp.ravel(x), 0) if axis is None else (x, axis)
    lines = mnp.moveaxis(x, axis, -1)
    bits = (lines[..., None] & mnp.array(_weights(bitorder))) != 0
    found = mnp.reshape(bits.astype(np.uint8), (*lines.shape[:-1], lines.shape[-1] * 8))
    if count is not None:
        size, wanted = found.shape[-1], int(count)
        more = 0 if wanted < 0 else wanted - size
        if more > 0:
            found = mnp.pad(found, [(0, 0)] * (found.ndim - 1) + [(0, more)])
        elif wanted != size:
            found = found[..., :wanted]
    return mnp.moveaxis(found, -1, axis)


def _weights(bitorder: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if bitorder not in ("big", "little"):
        from mlc.dialects.errors import ShapeError

        raise located(ShapeError, "'bitorder' must be either 'little' or 'big'")
    powers = 1 << np.arange(8)
    return (powers[::-1] if bitorder == "big" else powers).astype(np.uint8)
