"""
sin, cos, tan, for every finite argument. Bounds are largest errors in units in the last place, over
the points of tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import Word2, fast_two_sum, quotient
from mlc.passes.math.formats import polynomial
from mlc.passes.math.lane_builder import LaneBuilder
from mlc.passes.math.reduction import reduce_by_half_pi


def sine_kernel(b: LaneBuilder, r: SSAValue, low: SSAValue) -> Word2:
    """sin(r + low), unrounded, for |r| <= pi/4: r + (r^3 S(r^2) + low)."""
    z = b.mul(r, r)
    return r, b.fma(b.mul(r, z), polynomial(b, "sin_tail", z), low)


def cosine_kernel(b: LaneBuilder, r: SSAValue, low: SSAValue) -> Word2:
    """cos(r + low), unrounded, for |r| <= pi/4: 1 - r^2/2 + (r^4 C(r^2) - r low)."""
    z = b.mul(r, r)
    half = b.mul(z, b.constant(0.5))
    one = b.constant(1.0)
    high = b.sub(one, half)
    lost = b.sub(b.sub(one, high), half)
    tail = b.fma(b.mul(z, z), polynomial(b, "cos_tail", z), b.negate(b.mul(r, low)))
    return high, b.add(lost, tail)


def flip(b: LaneBuilder, value: SSAValue, n: SSAValue, bit: int) -> SSAValue:
    """-value where that bit of n is set."""
    top = b.format.bits - 1
    sign = b.shift_left(b.int_and(n, b.integer(1 << bit)), top - bit)
    return b.from_bits(b.int_xor(b.bits(value), sign))


def sin(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Sine. f32: 1 ulp, f64: 1.1 ulp, for all finite x; NaN at ±inf.

    x = n pi/2 + r: ±sin(r) or ±cos(r) by the last two bits of n.
    """
    n, r, low = reduce_by_half_pi(b, x)
    s, c = sine_kernel(b, r, low), cosine_kernel(b, r, low)
    odd = b.is_odd(n)
    value = b.add(b.select(odd, c[0], s[0]), b.select(odd, c[1], s[1]))
    return b.select(b.equals(x, 0.0), x, flip(b, value, n, 1))


def cos(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Cosine. f32: 1 ulp, f64: 1.1 ulp, for all finite x; NaN at ±inf.

    As sin, one quadrant further.
    """
    n, r, low = reduce_by_half_pi(b, x)
    s, c = sine_kernel(b, r, low), cosine_kernel(b, r, low)
    odd = b.is_odd(n)
    value = b.add(b.select(odd, s[0], c[0]), b.select(odd, s[1], c[1]))
    return flip(b, value, b.int_add(n, b.integer(1)), 1)


def tan(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Tangent. f32: 1.3 ulp, f64: 1.4 ulp, for all finite x; NaN at ±inf.

    sin(r) / cos(r) or -cos(r) / sin(r), both as pairs.
    """
    n, r, low = reduce_by_half_pi(b, x)
    s = fast_two_sum(b, *sine_kernel(b, r, low))
    c = fast_two_sum(b, *cosine_kernel(b, r, low))
    odd = b.is_odd(n)
    above = b.select(odd, c[0], s[0]), b.select(odd, c[1], s[1])
    below = b.select(odd, s[0], c[0]), b.select(odd, s[1], c[1])
    value = b.add(*quotient(b, above, below))
    return b.select(b.equals(x, 0.0), x, flip(b, value, n, 0))
