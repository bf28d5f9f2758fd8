"""
log, log2, log10, log1p. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import Word2, fast_two_sum, two_sum
from mlc.passes.math.formats import INFINITY, NAN, Pair, constants_of, polynomial
from mlc.passes.math.lane_builder import BINARY32, FloatFormat, LaneBuilder


def root_half_bits(form: FloatFormat) -> int:
    """The bits of sqrt(1/2)."""
    return 0x3F3504F3 if form is BINARY32 else 0x3FE6A09E667F3BCD


def split_exponent(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """(k, f), floats, with x = 2^k (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)), for 0 < x < inf."""
    bits = b.format.mantissa_bits
    subnormal = b.below(x, constants_of(b).smallest_normal)
    x = b.select(subnormal, b.mul(x, b.constant(2.0**bits)), x)
    correction = b.select(subnormal, b.constant(-float(bits)), b.constant(0.0))
    k, f = split_normal(b, x)
    return b.add(k, correction), f


def split_normal(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The same for normal numbers."""
    bits = b.format.mantissa_bits
    # Counting exponents from sqrt(1/2) instead of 1 puts the significand between its roots.
    root_half = b.integer(root_half_bits(b.format))
    offset = b.int_sub(b.bits(x), root_half)
    k = b.to_float(b.shift_right_signed(offset, bits))
    significand = b.int_and(offset, b.integer((1 << bits) - 1))
    m = b.from_bits(b.int_add(significand, root_half))
    return k, b.sub(m, b.constant(1.0))


def _series(b: LaneBuilder, f: SSAValue, half_square: SSAValue) -> SSAValue:
    """
    ln(1+f) - f + f^2/2. f32: f^3 R(f). f64, where R would need 17 terms: s = f / (2 + f),
    s (f^2/2 + s^2 P(s^2)).
    """
    if b.format is BINARY32:
        return b.mul(b.mul(f, f), b.mul(f, polynomial(b, "log_tail", f)))
    s = b.div(f, b.add(f, b.constant(2.0)))
    z = b.mul(s, s)
    return b.mul(s, b.fma(z, polynomial(b, "log_tail", z), half_square))


def _at_the_ends(b: LaneBuilder, x: SSAValue, result: SSAValue, pole: float = 0.0) -> SSAValue:
    """inf and NaN give themselves, the pole -inf, what lies below it NaN."""
    result = b.select(b.below(x, INFINITY), result, x)
    result = b.select(b.equals(x, pole), b.constant(-INFINITY), result)
    return b.select(b.below(x, pole), b.constant(NAN), result)


def rare_ends(
    b: LaneBuilder, x: SSAValue, function: Callable[[LaneBuilder, SSAValue, SSAValue], SSAValue]
) -> SSAValue:
    """
    function(b, k, f) with x = 2^k (1 + f); what is not a positive normal number goes through one
    branch for all lanes.
    """
    result = function(b, *split_normal(b, x))
    rare = b.either(
        b.below(x, constants_of(b).smallest_normal), b.compare("uge", x, b.constant(INFINITY))
    )

    def ends(inside: LaneBuilder) -> tuple[SSAValue]:
        return (_at_the_ends(inside, x, function(inside, *split_exponent(inside, x))),)

    return b.where_any(rare, ends, (result,))[0]


def _natural(b: LaneBuilder, k: SSAValue, f: SSAValue, further: SSAValue | None = None) -> SSAValue:
    """k ln 2 + ln(1 + f) + further, a small number."""
    c = constants_of(b)
    half_square = b.mul(b.mul(f, f), b.constant(0.5))
    low = b.mul(k, b.constant(c.ln2_short[1]))
    if further is not None:
        low = b.add(low, further)
    if b.format is BINARY32:
        tail = b.add(b.sub(_series(b, f, half_square), half_square), low)
        rest = b.add(f, tail)
    else:
        tail = b.add(_series(b, f, half_square), low)
        rest = b.sub(f, b.sub(half_square, tail))
    return b.fma(k, b.constant(c.ln2_short[0]), rest)


def log(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Natural logarithm. f32: 0.9 ulp, f64: 0.9 ulp. log(±0) = -inf, negative: NaN.

    x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2).
    SOURCE: Muller, Elementary Functions, 2016, chapter 11; P. T. P. Tang, ACM TOMS 16(4), 1990.
    """
    return rare_ends(b, x, _natural)


def log1p_word2(b: LaneBuilder, x: SSAValue, low: SSAValue | None = None) -> SSAValue:
    """ln(1 + x + low) for x > -1, |low| <= ulp(x): the error of 1 + x goes in to first order."""
    total, lost = two_sum(b, b.constant(1.0), x)
    if low is not None:
        lost = b.add(lost, low)
    k, f = split_normal(b, total)
    return _natural(b, k, f, b.div(lost, total))


def log1p(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    ln(1 + x). f32: 1 ulp, f64: 1 ulp. -inf at -1, NaN below.

    log of the rounded sum, corrected by what the rounding took, divided by the sum.
    SOURCE: Muller, Elementary Functions, 2016, chapter 11.
    """
    result = _at_the_ends(b, x, log1p_word2(b, x), -1.0)
    return b.select(b.below(b.abs(x), constants_of(b).tiny ** 2), x, result)


def log_word2(b: LaneBuilder, x: SSAValue, low: SSAValue | None = None) -> Word2:
    """ln(x + low) for 0 < x < inf, unrounded, within 2^-4 ulp; |low| <= ulp(x)."""
    c = constants_of(b)
    k, f = split_exponent(b, x)
    high, rest = _one_plus(b, f)
    total, lost = fast_two_sum(b, b.mul(k, b.constant(c.ln2_short[0])), high)
    rest = b.add(b.fma(k, b.constant(c.ln2_short[1]), rest), lost)
    if low is not None:
        rest = b.add(rest, b.div(low, x))
    return total, rest


def _one_plus(b: LaneBuilder, f: SSAValue) -> Word2:
    """ln(1 + f) as a pair."""
    half_square = b.mul(b.mul(f, f), b.constant(0.5))
    high, low = fast_two_sum(b, f, b.negate(half_square))
    return high, b.add(low, _series(b, f, half_square))


def _in_base(b: LaneBuilder, x: SSAValue, of_e: Pair, of_2: Pair) -> SSAValue:
    """k log(2) + ln(1 + f) log(e), in a base of which both logarithms are given as pairs."""

    def function(b: LaneBuilder, k: SSAValue, f: SSAValue) -> SSAValue:
        high, low = _one_plus(b, f)
        factor = b.constant(of_e[0])
        rest = b.fma(high, b.constant(of_e[1]), b.mul(low, factor))
        if of_2[1]:
            rest = b.fma(k, b.constant(of_2[1]), rest)
        whole = b.mul(k, b.constant(of_2[0])) if of_2[0] != 1.0 else k
        return b.add(b.fma(high, factor, whole), rest)

    return rare_ends(b, x, function)


def log2(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Logarithm to base 2. f32: 1.3 ulp, f64: 1.3 ulp. Exact for powers of 2.

    ln(1 + f) as a pair, times log2(e) as a pair.
    """
    return _in_base(b, x, constants_of(b).log2_e, (1.0, 0.0))


def log10(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Logarithm to base 10. f32: 1.5 ulp, f64: 1.5 ulp.

    As log2; the product of k and the first part of log10(2) is exact.
    """
    c = constants_of(b)
    return _in_base(b, x, c.log10_e, c.log10_2_short)
