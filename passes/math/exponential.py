"""
exp, exp2, expm1, sigmoid. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import Word2, fast_two_sum, two_product
from mlc.passes.math.formats import (
    constants_of,
    first_coefficient,
    polynomial,
    power_of_two,
    rounding_shift,
)
from mlc.passes.math.lane_builder import LaneBuilder


def _reduced(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """(2^m, r, low) with x = 2 m ln 2 + (r + low), |r| <= ln 2."""
    c = constants_of(b)
    shift = b.constant(rounding_shift(b.format))
    shifted = b.fma(x, b.constant(c.log2_e[0] / 2), shift)
    half_count = b.sub(shifted, shift)
    exact = b.fma(half_count, b.constant(-2 * c.ln2[0]), x)
    small = b.constant(-2 * c.ln2[1])
    r = b.fma(half_count, small, exact)
    return power_of_two(b, shifted), r, b.fma(half_count, small, b.sub(exact, r))


def exp_word2(b: LaneBuilder, x: SSAValue, low: SSAValue | None = None) -> tuple[SSAValue, Word2]:
    """(s, w): e^(x + low) = s^2 w, w within 2^-2 ulp, for x from exp_zero to exp_high."""
    scale, r, rest = _reduced(b, x)
    if low is not None:
        rest = b.add(rest, low)
    # 1 + r + c r^2 term by term: of what remains, the rounding does not count
    square, square_low = two_product(b, r, r)
    factor = first_coefficient(b, "exp_tail")
    second, second_low = two_product(b, square, factor)
    whole, lost = fast_two_sum(b, b.constant(1.0), r)
    whole, lost_again = fast_two_sum(b, whole, second)
    tail = b.fma(b.mul(square, r), polynomial(b, "exp_tail", r, 1), b.add(lost, lost_again))
    tail = b.add(tail, b.fma(square_low, factor, second_low))
    return scale, fast_two_sum(b, whole, b.fma(rest, b.add(whole, tail), tail))


def exp(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    e^x. f32: 1.75 ulp, f64: 1.65 ulp.

    e^x = 2^m * 2^m * e^r with m = round(x / (2 ln 2)), |r| <= ln 2: the scale is split evenly, so
    that one factor serves overflow and gradual underflow alike. e^r = 1 + (r + r^2 q(r)).
    SOURCE: W. J. Cody & W. Waite, Software Manual for the Elementary Functions, 1980, chapter 6.
    """
    c = constants_of(b)
    scale, r, _ = _reduced(b, b.at_least(b.at_most(x, c.exp_high), c.exp_zero))
    rise = b.fma(b.mul(r, r), polynomial(b, "exp_tail", r), r)
    return b.mul(b.mul(b.add(rise, b.constant(1.0)), scale), scale)


def exp2(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    2^x. f32: 1.4 ulp, f64: 1.4 ulp. Exact for whole x.

    As exp, with r = x - 2m exactly; 2^r = 1 + (r ln 2 + r^2 q(r)), ln 2 as a pair.
    """
    c = constants_of(b)
    x = b.at_least(b.at_most(x, c.exp2_high), c.exp2_zero)
    shift = b.constant(rounding_shift(b.format))
    shifted = b.fma(x, b.constant(0.5), shift)
    r = b.fma(b.sub(shifted, shift), b.constant(-2.0), x)
    low = b.mul(r, b.fma(r, polynomial(b, "exp2_tail", r), b.constant(c.ln2[1])))
    rise = b.fma(r, b.constant(c.ln2[0]), low)
    scale = power_of_two(b, shifted)
    return b.mul(b.mul(b.add(rise, b.constant(1.0)), scale), scale)


def expm1(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    e^x - 1. f32: 1.4 ulp, f64: 1.75 ulp.

    x = n ln 2 + r, |r| <= ln 2 / 2: e^x - 1 = ((2^n - 1) + 2^n r) + 2^n (e^r - 1 - r), with 2^(n-1)
    for 2^n until the end, so that the largest n does not overflow.
    SOURCE: Muller, Elementary Functions, 2016, chapter 11.
    """
    c = constants_of(b)
    bounded = b.at_least(b.at_most(x, c.exp_high), c.expm1_low)
    one_less = rounding_shift(b.format) - 1
    shift = b.constant(one_less)
    shifted = b.fma(bounded, b.constant(c.log2_e[0]), shift)
    n = b.sub(shifted, shift)
    r = b.fma(n, b.constant(-c.ln2[0]), bounded)
    r = b.fma(n, b.constant(-c.ln2[1]), r)
    tail = b.mul(b.mul(r, r), polynomial(b, "expm1_tail", r))
    half_scale = power_of_two(b, shifted)
    result = b.fma(half_scale, r, b.sub(half_scale, b.constant(0.5)))
    result = b.fma(half_scale, tail, result)
    result = b.add(result, result)
    # x + x^2/2 rounds to x
    return b.select(b.below(b.abs(x), c.tiny**2), x, result)


def sigmoid(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    1 / (1 + e^-x). f32: 1.1 ulp, f64: 1 ulp, subnormal results included.

    With z = e^-|x|, 1 / (1 + z) or z / (1 + z); z and 1 + z as pairs, the quotient corrected by its
    residual.
    """
    c = constants_of(b)
    one, zero = b.constant(1.0), b.constant(0.0)
    y = b.at_least(b.negate(b.abs(x)), c.exp_zero)
    scale, (high, low) = exp_word2(b, y)
    square = b.mul(scale, scale)
    z = b.mul(high, square)
    divisor, rest = fast_two_sum(b, one, z)
    rest = b.fma(low, square, rest)
    negative = b.compare("olt", x, zero)
    above, above_low = b.select(negative, high, one), b.select(negative, low, zero)
    inverse = b.div(one, divisor)
    q = b.mul(above, inverse)
    minus = b.negate(q)
    left = b.add(b.fma(minus, divisor, above), b.fma(minus, rest, above_low))
    q = b.fma(left, inverse, q)
    factor = b.select(negative, scale, one)
    return b.mul(b.mul(q, factor), factor)
