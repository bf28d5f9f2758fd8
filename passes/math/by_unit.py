"""
Functions of f32 for targets with a unit for them: a GPU estimates 2^x and 1 / x within an ulp or
two in one instruction, so that a polynomial is left only where an estimate would cancel.

Bounds are largest errors in units in the last place over every float, on an H200
(docs/measurements.md).
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math import exponential, hyperbolic, logarithm
from mlc.passes.math.formats import INFINITY, NAN, constants_of, polynomial
from mlc.passes.math.lane_builder import BINARY32, LaneBuilder

SCALES = 252.0
"""Exponents from -126 to 126 have a normal power of two."""

TANH_POLYNOMIAL = 0.6
"""Up to here 1 - 2 / (e^2x + 1) cancels."""


def _power(b: LaneBuilder, x: SSAValue, log2_base: tuple[float, float]) -> SSAValue:
    """
    2^(x log2_base) = 2^n 2^f: n is bounded, f is not, so that its estimate takes what n leaves:
    overflow, and the numbers that 2^n makes subnormal, rounded once.
    """
    high, low = log2_base
    share = b.fma(x, b.constant(high / SCALES), b.constant(0.5 - 0.5 / SCALES))  # n = floor
    shift = 1.5 * 2.0**b.format.mantissa_bits
    shifted = b.fma(b.saturate(share), b.constant(SCALES), b.constant(shift + 1.0))
    n = b.sub(shifted, b.constant(shift + 127.0))
    f = b.fma(x, b.constant(high), b.negate(n))
    if low:
        f = b.fma(x, b.constant(low), f)
    scale = b.from_bits(b.shift_left(b.bits(shifted), b.format.mantissa_bits))
    return b.mul(b.exp2_estimate(f), scale)


def exp(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """e^x. f32: 1.95 ulp."""
    if b.format is not BINARY32:
        return exponential.exp(b, x)
    return _power(b, x, constants_of(b).log2_e)


def exp2(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """2^x. f32: 1.7 ulp. Exact for whole x."""
    if b.format is not BINARY32:
        return exponential.exp2(b, x)
    return _power(b, x, (1.0, 0.0))


def tanh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Hyperbolic tangent. f32: 1.85 ulp.

    1 - 2 / (e^{2|x|} + 1), and x + x^3 p(x^2) near 0.
    """
    if b.format is not BINARY32:
        return hyperbolic.tanh(b, x)
    one = b.constant(1.0)
    y = b.abs(x)
    power = b.exp2_estimate(b.mul(y, b.constant(2.0 * constants_of(b).log2_e[0])))
    far = b.fma(b.reciprocal_estimate(b.add(power, one)), b.constant(-2.0), one)
    square = b.mul(x, x)
    near = b.fma(b.mul(square, polynomial(b, "tanh_tail", square)), y, y)
    return b.copysign(b.select(b.below(y, TANH_POLYNOMIAL), near, far), x)


def _reduced_log(b: LaneBuilder, k: SSAValue, f: SSAValue) -> SSAValue:
    """k ln 2 + ln(1 + f), 1 + f from sqrt(1/2) to sqrt(2)."""
    tail = b.fma(polynomial(b, "log_tail", f), f, b.constant(-0.5))
    return b.fma(k, b.constant(constants_of(b).ln2[0]), b.fma(b.mul(f, f), tail, f))


def log(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """Natural logarithm. f32: 0.95 ulp. log(±0) = -inf, negative: NaN."""
    if b.format is not BINARY32:
        return logarithm.log(b, x)
    return logarithm.rare_ends(b, x, _reduced_log)


def log1p(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    ln(1 + x). f32: 1.45 ulp. log1p(±0) = ±0, log1p(-1) = -inf, below: NaN.

    With k the exponent of 1 + x, 1 + f = 2^-k (1 + x): f = 2^-k x + (2^-k - 1), where only the
    last sum rounds.
    """
    if b.format is not BINARY32:
        return logarithm.log1p(b, x)
    offset = b.int_sub(
        b.bits(b.add(x, b.constant(1.0))), b.integer(logarithm.root_half_bits(b.format))
    )
    k = b.to_float(b.shift_right_signed(offset, b.format.mantissa_bits))
    exponent = b.int_and(offset, b.integer(-1 << b.format.mantissa_bits))
    scaled = b.from_bits(b.int_sub(b.bits(x), exponent))
    four = b.from_bits(b.int_sub(b.integer(0x40800000), exponent))  # 4 2^-k: k goes up to 128
    f = b.add(scaled, b.fma(four, b.constant(0.25), b.constant(-1.0)))
    result = b.copysign(_reduced_log(b, k, f), x)
    result = b.select(b.below(x, INFINITY), result, x)
    rare = b.compare("ole", x, b.constant(-1.0))
    ends = b.select(b.equals(x, -1.0), b.constant(-INFINITY), b.constant(NAN))
    return b.select(rare, ends, result)
