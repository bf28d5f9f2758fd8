"""
pow, cbrt, rsqrt, hypot. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import Word2, fast_two_sum, product, quotient, two_product
from mlc.passes.math.formats import (
    INFINITY,
    NAN,
    Pair,
    constants_of,
    polynomial,
    power_of_two,
    rounding_shift,
)
from mlc.passes.math.lane_builder import BINARY32, LaneBuilder
from mlc.passes.math.logarithm import split_exponent, split_normal

TWO_OVER_LN2: Pair = (2.8853900817779268, 4.0710547481862066e-17)
TWO_THIRDS_OVER_LN2: Pair = (0.9617966939259756, 5.0577616648125907e-17)
LARGEST_EXPONENT = 1020.0
"""2^±this and what is near it are normal numbers of f64."""
HUGE_EXPONENT = 2.0**70
"""To this power every float but 1 over- or underflows: log2 of the nearest is 2^-53."""


def _log2_word2(b: LaneBuilder, x: SSAValue) -> Word2:
    """
    log2(x) within 2^-65 for 0 < x < inf, f64: with s = f / (2 + f),
    k + s (2 + z (2/3 + z P(z))) / ln 2, z = s^2, the first two terms as pairs.
    """
    return _log2_of(b, *split_exponent(b, x))


def _log2_of(b: LaneBuilder, k: SSAValue, f: SSAValue) -> Word2:
    """log2(2^k (1 + f)), likewise."""
    divisor, lost = fast_two_sum(b, b.constant(2.0), f)
    s2 = quotient(b, (f, b.constant(0.0)), (divisor, lost))
    z = product(b, s2, s2)
    tail = b.mul(z[0], polynomial(b, "log2_tail", z[0]))
    inner, inner_low = fast_two_sum(b, b.constant(TWO_THIRDS_OVER_LN2[0]), tail)
    inner_low = b.add(inner_low, b.constant(TWO_THIRDS_OVER_LN2[1]))
    term = product(b, z, (inner, inner_low))
    factor, lost = fast_two_sum(b, b.constant(TWO_OVER_LN2[0]), term[0])
    lost = b.add(lost, b.add(term[1], b.constant(TWO_OVER_LN2[1])))
    fraction = product(b, s2, (factor, lost))
    total, lost = fast_two_sum(b, k, fraction[0])
    return total, b.add(lost, fraction[1])


def _exp2_word2(b: LaneBuilder, high: SSAValue, low: SSAValue) -> SSAValue:
    """2^(high + low), f64."""
    c = constants_of(b)
    bounded = b.at_least(b.at_most(high, c.exp2_high), c.exp2_zero)
    shift = b.constant(rounding_shift(b.format))
    shifted = b.fma(bounded, b.constant(0.5), shift)
    r = b.fma(b.sub(shifted, shift), b.constant(-2.0), bounded)
    low = b.select(b.compare("oeq", high, bounded), low, b.constant(0.0))
    scale = power_of_two(b, shifted)
    return b.mul(b.mul(_exp2_of_rest(b, r, low), scale), scale)


def _exp2_in_range(b: LaneBuilder, high: SSAValue, low: SSAValue) -> SSAValue:
    """2^(high + low), a normal number."""
    shift = b.constant(rounding_shift(b.format))
    shifted = b.add(high, shift)
    r = b.sub(high, b.sub(shifted, shift))
    return b.mul(_exp2_of_rest(b, r, low), power_of_two(b, shifted))


def _exp2_of_rest(b: LaneBuilder, r: SSAValue, low: SSAValue) -> SSAValue:
    """2^(r + low), |r| <= 1, f64."""
    ln2, ln2_low = constants_of(b).ln2
    t, rest = two_product(b, r, b.constant(ln2))
    rest = b.fma(r, b.constant(ln2_low), b.fma(low, b.constant(ln2), rest))
    tail = b.mul(b.mul(t, t), polynomial(b, "exp_tail", t))
    whole, lost = fast_two_sum(b, b.constant(1.0), t)
    tail = b.fma(rest, b.add(whole, tail), tail)  # e^(t + rest) = e^t (1 + rest)
    return b.add(whole, b.add(lost, tail))


def _magnitude(b: LaneBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x^y for 0 < x < inf, y finite."""
    if b.format is not BINARY32:
        high, low = _log2_word2(b, x)
        y = b.at_least(b.at_most(y, HUGE_EXPONENT), -HUGE_EXPONENT)
        total, rest = two_product(b, y, high)
        return _exp2_word2(b, total, b.fma(y, low, rest))
    return _power_of_f32(b, x, y)


def _power_of_f32(b: LaneBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The same in f64, to the 30 bits that f32 needs; subnormal x is a normal number there."""
    w = b.in_binary64()
    k, f = split_normal(w, w.widen(x))
    s = w.div(f, w.add(f, w.constant(2.0)))
    logarithm = w.fma(s, polynomial(w, "log2_short", w.mul(s, s)), k)
    exponent = w.mul(w.widen(y), logarithm)
    exponent = w.at_least(w.at_most(exponent, 160.0), -160.0)
    shift = w.constant(rounding_shift(w.format))
    shifted = w.add(exponent, shift)
    r = w.sub(exponent, w.sub(shifted, shift))
    power = w.fma(r, polynomial(w, "exp2_half", r), w.constant(1.0))
    return b.narrow(w.mul(power, power_of_two(w, shifted)), b.float_type)


def pow(b: LaneBuilder, x: SSAValue, y: SSAValue) -> SSAValue:  # noqa: A001 - its name
    """
    x^y. f32: 0.6 ulp, f64: 1.4 ulp; special cases as IEEE 754-2019, 9.2.1 (x^0 = 1^y = 1).

    2^(y log2 |x|), the logarithm and the product as pairs (f32: in f64). Bases that are not
    positive normal numbers, infinite and NaN exponents, and in f64 powers near the ends of the
    format share one branch.
    SOURCE: Muller, Elementary Functions, 2016, chapter 11.
    """
    if b.format is BINARY32:
        result = _power_of_f32(b, x, y)
        far = b.compare("uge", b.abs(y), b.constant(INFINITY))
    else:
        high, low = _log2_of(b, *split_normal(b, x))
        total, rest = two_product(b, y, high)
        result = _exp2_in_range(b, total, b.fma(y, low, rest))
        # also for infinite y and NaN
        far = b.compare("uge", b.abs(total), b.constant(LARGEST_EXPONENT))
    normal = b.constant(constants_of(b).smallest_normal)
    rare = b.either(b.compare("ult", x, normal), b.either(b.equals(x, INFINITY), far))

    def fixed(inside: LaneBuilder) -> tuple[SSAValue]:
        return (special_powers(inside, x, y, _magnitude(inside, inside.abs(x), y)),)

    return b.where_any(rare, fixed, (result,))[0]


def special_powers(b: LaneBuilder, x: SSAValue, y: SSAValue, result: SSAValue) -> SSAValue:
    """x^y from |x|^y, which may be anything where an operand is 0, infinite or NaN."""
    one, zero, infinity = b.constant(1.0), b.constant(0.0), b.constant(INFINITY)
    a, exponent = b.abs(x), b.abs(y)
    # zero and infinite bases and infinite exponents: 0 or inf
    grows = b.differ(b.below(a, 1.0), b.compare("ogt", y, zero))
    ends = b.either(b.equals(a, 0.0), b.equals(a, INFINITY))
    ends = b.either(ends, b.equals(exponent, INFINITY))
    result = b.select(ends, b.select(grows, infinity, zero), result)
    # negative bases: whole exponents only, odd ones keep the sign
    half = b.mul(exponent, b.constant(0.5))
    whole = b.compare("oeq", b.floor(exponent), exponent)
    odd = b.both(whole, b.compare("une", b.floor(half), half))
    result = b.select(odd, b.copysign(result, x), result)
    negative = b.both(b.below(x, 0.0), b.compare("one", x, b.constant(-INFINITY)))
    invalid = b.both(negative, b.compare("une", b.floor(exponent), exponent))
    result = b.select(invalid, b.constant(NAN), result)
    result = b.select(b.compare("uno", x, y), b.add(x, y), result)
    unit = b.both(b.equals(a, 1.0), b.equals(exponent, INFINITY))  # (-1)^inf too
    unit = b.either(b.either(unit, b.equals(x, 1.0)), b.equals(y, 0.0))
    return b.select(unit, one, result)


def cbrt(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Cube root. f32: 0.51 ulp, f64: 0.51 ulp.

    |x| = 8^q v, v in [1/2, 4): r = v^(-1/3) from a polynomial and one step of fourth order, then
    y = v r^2 with a step of Newton's, its residual exact.
    SOURCE: Muller, Elementary Functions, 2016, chapter 9.
    """
    a = b.abs(x)
    subnormal = b.below(a, constants_of(b).smallest_normal)
    lift = 3 * (b.format.mantissa_bits // 3 + 1)
    a = b.select(subnormal, b.mul(a, b.constant(2.0**lift)), a)
    bits = b.format.mantissa_bits
    exponent_bits = b.int_and(b.bits(a), b.integer(-1 << bits))
    k = b.to_float(
        b.int_sub(b.shift_right_signed(exponent_bits, bits), b.integer(b.format.exponent_bias))
    )
    m = b.from_bits(b.int_or(b.int_sub(b.bits(a), exponent_bits), b.bits(b.constant(1.0))))
    third = b.floor(b.mul(b.add(k, b.constant(0.5)), b.constant(1 / 3)))
    rest = b.fma(third, b.constant(-3.0), k)  # 0, 1, 2
    scale = power_of_two(b, b.add(third, b.constant(rounding_shift(b.format))))
    one = b.constant(1.0)
    first, second = b.equals(rest, 1.0), b.equals(rest, 2.0)
    v = b.mul(m, b.select(second, b.constant(4.0), b.select(first, b.constant(2.0), one)))
    roots = (b.constant(2.0 ** (-1 / 3)), b.constant(2.0 ** (-2 / 3)))
    r = b.mul(
        polynomial(b, "cbrt_start", m), b.select(second, roots[1], b.select(first, roots[0], one))
    )
    # r (1 - e)^(-1/3) with e = 1 - v r^3
    e = b.fma(b.negate(b.mul(v, r)), b.mul(r, r), one)
    series = b.fma(e, b.fma(e, b.constant(14 / 81), b.constant(2 / 9)), b.constant(1 / 3))
    r = b.fma(b.mul(r, e), series, r)
    square = b.mul(r, r)
    y = b.mul(v, square)
    # y^3 - v, with the rounding of y^2
    yy, yy_low = two_product(b, y, y)
    residual = b.fma(yy_low, y, b.fma(yy, y, b.negate(v)))
    y = b.fma(b.mul(residual, square), b.constant(-1 / 3), y)
    y = b.mul(y, scale)
    y = b.select(subnormal, b.mul(y, b.constant(2.0 ** (-lift // 3))), y)
    itself = b.differ(b.compare("one", x, b.constant(0.0)), b.equals(b.abs(x), INFINITY))
    return b.select(itself, b.copysign(y, x), x)  # zeros, infinities, NaN


def rsqrt(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """1 / sqrt(x), two correctly rounded steps. f32: 1.5 ulp, f64: 1.5 ulp. ±inf at ±0."""
    return b.div(b.constant(1.0), b.sqrt(x))


def unfused_hypot(b: LaneBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """As `hypot`, the bits of its reference. f32: 0.51 ulp, f64: 1.3 ulp."""
    return hypot(b, x, y, fused=False)


def hypot(b: LaneBuilder, x: SSAValue, y: SSAValue, *, fused: bool = True) -> SSAValue:
    """
    sqrt(x^2 + y^2). f32: 0.51 ulp, f64: 1.1 ulp; inf if either is infinite, even beside NaN.

    f32 in f64; f64 scaled by a power of 2 where squares would over- or underflow.
    """
    infinite = b.either(b.equals(b.abs(x), INFINITY), b.equals(b.abs(y), INFINITY))
    if b.format is BINARY32:
        w = b.in_binary64()
        u, v = w.widen(x), w.widen(y)
        result = b.narrow(w.sqrt(w.add(w.mul(u, u), w.mul(v, v))), b.float_type)
    else:
        u, v = b.abs(x), b.abs(y)
        larger = b.select(b.compare("ogt", v, u), v, u)
        one = b.constant(1.0)
        high, low = b.compare("ogt", larger, b.constant(2.0**500)), b.below(larger, 2.0**-450)
        down = b.select(low, b.constant(2.0**600), one)
        down = b.select(high, b.constant(2.0**-600), down)
        up = b.select(low, b.constant(2.0**-600), one)
        up = b.select(high, b.constant(2.0**600), up)
        u, v = b.mul(u, down), b.mul(v, down)
        larger = b.select(b.compare("ogt", v, u), v, u)
        smaller = b.select(b.compare("ogt", v, u), u, v)
        square = b.mul(smaller, smaller)
        if fused:
            total = b.fma(larger, larger, square)
        else:
            total = b.add(b.mul(larger, larger), square)
        result = b.mul(b.sqrt(total), up)
    return b.select(infinite, b.constant(INFINITY), result)
