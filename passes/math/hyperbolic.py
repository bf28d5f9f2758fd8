"""
sinh, cosh, tanh, asinh, acosh, atanh. Bounds are largest errors in units in the last place, over
the points of tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import fast_two_sum, quotient, square_root, two_product, two_sum
from mlc.passes.math.formats import (
    INFINITY,
    NAN,
    constants_of,
    keep_tiny,
    polynomial,
    power_of_two,
    rounding_shift,
)
from mlc.passes.math.lane_builder import LaneBuilder
from mlc.passes.math.logarithm import log1p_word2


def _halves(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue, SSAValue]:
    """
    (2^n / 4, 2^-n / 4, r, cosh(r) - 1, sinh(r) - r) with |x| = n ln 2 + r.

    Quarters instead of halves: 2^n / 4 does not overflow where the results are finite.
    """
    k = constants_of(b)
    form = b.format
    y = b.at_most(b.abs(x), k.sinh_high)
    shift = b.constant(rounding_shift(form) - 2)
    shifted = b.fma(y, b.constant(k.log2_e[0]), shift)
    n = b.sub(shifted, shift)
    up = power_of_two(b, shifted)
    product = (2 * form.exponent_bias - 4) << form.mantissa_bits
    down = b.from_bits(b.int_sub(b.integer(product), b.bits(up)))
    # from here on 2^-n is below the last place of 2^n, and its exponent leaves the format
    down = b.select(b.below(y, float(form.mantissa_bits)), down, b.constant(0.0))
    r = b.fma(n, b.constant(-k.ln2[0]), y)
    r = b.fma(n, b.constant(-k.ln2[1]), r)
    z = b.mul(r, r)
    even = b.mul(z, polynomial(b, "cosh_tail", z))
    odd = b.mul(b.mul(r, z), polynomial(b, "sinh_tail", z))
    return up, down, r, even, odd


def sinh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Hyperbolic sine. f32: 1.6 ulp, f64: 1.75 ulp.

    sinh(a + r) = sinh(a) + (sinh(a) (cosh(r) - 1) + cosh(a) sinh(r)), a = n ln 2.
    """
    up, down, r, even, odd = _halves(b, x)
    c, s = b.add(up, down), b.sub(up, down)
    lost = b.sub(b.sub(up, s), down)
    quarter = b.add(b.fma(c, r, s), b.fma(s, even, b.fma(c, odd, lost)))
    return keep_tiny(b, x, b.copysign(b.add(quarter, quarter), x))


def cosh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Hyperbolic cosine. f32: 1.4 ulp, f64: 1.4 ulp.

    cosh(a + r) = cosh(a) + (cosh(a) (cosh(r) - 1) + sinh(a) sinh(r)), a = n ln 2.
    """
    up, down, r, even, odd = _halves(b, x)
    c, s = b.add(up, down), b.sub(up, down)
    lost = b.add(b.sub(up, c), down)
    quarter = b.add(b.fma(s, r, c), b.fma(c, even, b.fma(s, odd, lost)))
    return b.add(quarter, quarter)


def tanh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Hyperbolic tangent. f32: 1.55 ulp, f64: 1.65 ulp.

    tanh|x| = t / (t + 2), t = e^{2|x|} - 1 = 2^n (e^r - 1) + (2^n - 1), n = floor(2|x| / ln 2), so
    that r >= 0 and nothing cancels. e^r - 1 = r + r^2 q(r).
    SOURCE: Muller, Elementary Functions, 2016, chapter 11; identity DLMF 4.28.
    """
    c = constants_of(b)
    y = b.abs(x)
    y = b.at_most(b.add(y, y), c.tanh_one)
    n = b.floor(b.mul(y, b.constant(c.log2_e[0])))
    scale = power_of_two(b, b.add(n, b.constant(rounding_shift(b.format))))
    r = b.fma(n, b.constant(-c.ln2[0]), y)
    r = b.fma(n, b.constant(-c.ln2[1]), r)
    rise = b.fma(b.mul(r, r), polynomial(b, "expm1_positive", r), r)
    t = b.fma(scale, rise, b.sub(scale, b.constant(1.0)))
    two, half = b.constant(2.0), b.constant(0.5)
    divisor = b.add(t, two)
    ratio = b.div(t, divisor)
    # What is left of t after the division, and what rounding took from the divisor, are known
    # exactly; 1 / divisor = (1 - ratio) / 2 turns them into a correction of the ratio, as
    # long as the ratio is not so near 1 that its distance from 1 says nothing.
    lost = b.sub(t, b.sub(divisor, two))
    lost = b.select(b.below(y, c.tanh_near_one), lost, b.constant(0.0))
    minus = b.negate(ratio)
    left = b.fma(minus, lost, b.fma(minus, divisor, t))
    ratio = b.fma(left, b.fma(minus, half, half), ratio)
    return b.copysign(ratio, x)


def asinh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic sine. f32: 1.1 ulp, f64: 1.1 ulp.

    asinh|x| = ln(1 + (|x| + x^2 / (1 + sqrt(1 + x^2)))), the argument as a pair; ln 2|x| + ... for
    large x, through x 2^-k.
    SOURCE: DLMF 4.37; Muller, Elementary Functions, 2016, chapter 11.
    """
    c = constants_of(b)
    one, zero = b.constant(1.0), b.constant(0.0)
    y = b.abs(x)
    large = b.compare("ogt", y, b.constant(c.huge))
    a = b.select(large, one, y)
    square = two_product(b, a, a)
    total, lost = two_sum(b, one, square[0])
    root, root_low = square_root(b, (total, b.add(lost, square[1])))
    divisor, rest = fast_two_sum(b, root, one)
    q, q_low = quotient(b, square, (divisor, b.add(rest, root_low)))
    high, low = two_sum(b, a, q)
    high = b.select(large, y, high)  # ln(2y): ln(y) + ln 2 below
    low = b.select(large, zero, b.add(low, q_low))
    result = log1p_word2(b, high, low)
    result = b.select(large, b.add(result, b.constant(c.ln2[0])), result)
    result = b.select(b.below(y, INFINITY), result, y)
    return keep_tiny(b, x, b.copysign(result, x))


def acosh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic cosine. f32: 1.1 ulp, f64: 1.1 ulp. NaN below 1.

    With t = x - 1, ln(1 + (t + sqrt(t (t + 2)))), the argument as a pair.
    SOURCE: DLMF 4.37.
    """
    c = constants_of(b)
    one, zero = b.constant(1.0), b.constant(0.0)
    large = b.compare("ogt", x, b.constant(c.huge))
    t, t_low = fast_two_sum(b, b.select(large, one, x), b.constant(-1.0))
    plus, lost = two_sum(b, t, b.constant(2.0))
    inside, rest = two_product(b, t, plus)
    rest = b.add(b.fma(t, b.add(lost, t_low), rest), b.mul(t_low, plus))
    root, root_low = square_root(b, (inside, rest))
    root_low = b.select(b.equals(t, 0.0), zero, root_low)
    high, low = two_sum(b, root, t)
    high = b.select(large, x, high)
    low = b.select(large, zero, b.add(b.add(low, root_low), t_low))
    result = log1p_word2(b, high, low)
    result = b.select(large, b.add(result, b.constant(c.ln2[0])), result)
    result = b.select(b.below(x, INFINITY), result, x)
    return b.select(b.below(x, 1.0), b.constant(NAN), result)


def atanh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic tangent. f32: 1.1 ulp, f64: 1.1 ulp. ±inf at ±1, NaN beyond.

    ln(1 + 2|x| / (1 - |x|)) / 2, the quotient as a pair.
    SOURCE: DLMF 4.37.
    """
    y = b.abs(x)
    one, zero = b.constant(1.0), b.constant(0.0)
    divisor = fast_two_sum(b, one, b.negate(y))
    q, q_low = quotient(b, (b.add(y, y), zero), divisor)
    result = b.mul(log1p_word2(b, q, q_low), b.constant(0.5))
    result = b.select(b.below(y, 1.0), result, b.constant(NAN))
    result = b.select(b.equals(y, 1.0), b.constant(INFINITY), result)
    return keep_tiny(b, x, b.copysign(result, x))
