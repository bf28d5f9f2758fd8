"""
exp, log and tanh from additions, multiplications and bit patterns: no branches, no tables, every
special value right. Bounds are largest errors in units in the last place (ulp), measured over every
second f32 number and over random f64 ones; tests/numerics/test_vector_math.py holds them.

Coefficients: minimax polynomials, recomputed by tests/numerics/minimax.py. Constants that split
ln 2: high part with trailing zeros, low part ln 2 minus it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mlc.passes.loop.lane_builder import BINARY32, BINARY64, FloatFormat, LaneBuilder

LaneFunction = Callable[[LaneBuilder, SSAValue], SSAValue]

LOG2_E = 1.4426950408889634
INFINITY = float("inf")
NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What the functions need to know about a format."""

    ln2_high: float
    """ln 2 rounded to the format."""
    ln2_low: float
    """ln 2 - ln2_high."""
    ln2_short: float
    """ln 2 with enough trailing zeros that k * ln2_short is exact for every exponent k."""
    ln2_rest: float
    """ln 2 - ln2_short."""
    exp_low: float
    """Below, exp rounds to 0."""
    exp_high: float
    """Above, exp overflows."""
    tanh_one: float
    """From 2|x| = this on, tanh rounds to 1."""
    tanh_near_one: float
    """From 2|x| = this on, 1 - tanh has fewer than four bits left of it in the format."""
    smallest_normal: float
    exp_tail: tuple[float, ...]
    """(e^r - 1 - r) / r^2 on |r| <= ln 2."""
    expm1_tail: tuple[float, ...]
    """The same on 0 <= r <= ln 2."""
    log_tail: tuple[float, ...]
    """f32: (ln(1+f) - f + f^2/2) / f^3; f64: (2 atanh(s) - 2s) / s^3 in s^2."""


_OF_BINARY32 = Constants(
    ln2_high=0.6931471824645996,
    ln2_low=-1.9046542121259336e-09,
    ln2_short=0.693145751953125,
    ln2_rest=1.428606765330187e-06,
    exp_low=-104.0,
    exp_high=89.0,
    tanh_one=20.0,
    tanh_near_one=14.0,
    smallest_normal=2.0**-126,
    exp_tail=(
        0.5000003576278687,
        0.16666613519191742,
        0.04166125878691673,
        0.008336108177900314,
        0.001410468015819788,
        0.00019611445895861834,
    ),
    expm1_tail=(
        0.4999999701976776,
        0.16666744649410248,
        0.041659336537122726,
        0.008364901877939701,
        0.0013211090117692947,
        0.00026792334392666817,
    ),
    log_tail=(
        0.3333331346511841,
        -0.25000008940696716,
        0.2000211924314499,
        -0.1666799634695053,
        0.14219553768634796,
        -0.1240558996796608,
        0.11888153105974197,
        -0.11675631254911423,
        0.06746625900268555,
    ),
)
_OF_BINARY64 = Constants(
    ln2_high=0.6931471805599453,
    ln2_low=2.3190468138462996e-17,
    ln2_short=0.693147180559663,
    ln2_rest=2.8235290563031577e-13,
    exp_low=-746.0,
    exp_high=710.0,
    tanh_one=40.0,
    tanh_near_one=34.0,
    smallest_normal=2.0**-1022,
    exp_tail=(
        0.4999999999999993,
        0.1666666666666694,
        0.04166666666670236,
        0.008333333333269412,
        0.0013888888883543742,
        0.0001984126989310822,
        2.4801590846799118e-05,
        2.755730056094045e-06,
        2.7556154306764813e-07,
        2.5055043098869142e-08,
        2.106263227233746e-09,
        1.5935354642852238e-10,
    ),
    expm1_tail=(
        0.5000000000000001,
        0.16666666666666002,
        0.04166666666686277,
        0.00833333333045515,
        0.0013888889133563886,
        0.00019841256802318691,
        2.480204096416792e-05,
        2.7546867511745917e-06,
        2.771501183112345e-07,
        2.3563010077211765e-08,
        2.8722669377909377e-09,
    ),
    log_tail=(
        0.6666666666666734,
        0.399999999994147,
        0.2857142874238399,
        0.22222198573443866,
        0.18183564317950046,
        0.15314050634838658,
        0.14795950039128522,
    ),
)
CONSTANTS: Mapping[FloatFormat, Constants] = {BINARY32: _OF_BINARY32, BINARY64: _OF_BINARY64}


def _rounding_shift(form: FloatFormat) -> float:
    """
    1.5 * 2^mantissa_bits + bias: adding it to a small float rounds that to an integer n, and leaves
    n + bias in the low bits, one shift away from 2^n.
    """
    return 1.5 * 2.0**form.mantissa_bits + form.exponent_bias


def exp(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    e^x. f32: 1.62 ulp, f64: 1.55 ulp.

    e^x = 2^m * 2^m * e^r with m = round(x / (2 ln 2)), |r| <= ln 2: the scale is split evenly, so
    that one factor serves overflow and gradual underflow alike. e^r = 1 + (r + r^2 q(r)).
    SOURCE: W. J. Cody & W. Waite, Software Manual for the Elementary Functions, 1980, chapter 6.
    """
    c = CONSTANTS[b.format]
    shift = b.constant(_rounding_shift(b.format))
    x = b.at_least(b.at_most(x, c.exp_high), c.exp_low)
    shifted = b.fma(x, b.constant(LOG2_E / 2), shift)
    scale = b.from_bits(b.shift_left(b.bits(shifted), b.format.mantissa_bits))
    half_count = b.sub(shifted, shift)
    r = b.fma(half_count, b.constant(-2 * c.ln2_high), x)
    r = b.fma(half_count, b.constant(-2 * c.ln2_low), r)
    rise = b.fma(b.mul(r, r), b.polynomial(r, c.exp_tail), r)
    return b.mul(b.mul(b.add(rise, b.constant(1.0)), scale), scale)


def log(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Natural logarithm. f32: 0.84 ulp, f64: 0.88 ulp. log(±0) = -inf, negative: NaN.

    x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2). f32: ln(1+f) = f - f^2/2 + f^3 R(f). f64,
    where R would need 17 terms: s = f / (2 + f), ln(1+f) = f - (f^2/2 - s (f^2/2 + s^2 P(s^2))).
    SOURCE: Muller, Elementary Functions, 2016, chapter 11; P. T. P. Tang, ACM TOMS 16(4), 1990.
    """
    c = CONSTANTS[b.format]
    k, f = _split_exponent(b, x)
    half_square = b.mul(b.mul(f, f), b.constant(0.5))
    if b.format is BINARY32:
        cubic = b.mul(b.mul(f, f), b.mul(f, b.polynomial(f, c.log_tail)))
        tail = b.sub(cubic, half_square)
        tail = b.fma(k, b.constant(c.ln2_rest), tail)
        result = b.fma(k, b.constant(c.ln2_short), b.add(f, tail))
    else:
        s = b.div(f, b.add(f, b.constant(2.0)))
        z = b.mul(s, s)
        series = b.fma(z, b.polynomial(z, c.log_tail), half_square)
        tail = b.fma(s, series, b.mul(k, b.constant(c.ln2_rest)))
        rest = b.sub(f, b.sub(half_square, tail))
        result = b.fma(k, b.constant(c.ln2_short), rest)
    zero = b.constant(0.0)
    result = b.select(b.compare("olt", x, b.constant(INFINITY)), result, x)  # inf, NaN: themselves
    result = b.select(b.compare("oeq", x, zero), b.constant(-INFINITY), result)
    return b.select(b.compare("olt", x, zero), b.constant(NAN), result)


def _split_exponent(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """(k, f), floats, with x = 2^k (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)), for 0 < x < inf."""
    form = b.format
    bits = form.mantissa_bits
    subnormal = b.compare("olt", x, b.constant(CONSTANTS[form].smallest_normal))
    x = b.select(subnormal, b.mul(x, b.constant(2.0**bits)), x)
    correction = b.select(subnormal, b.constant(-float(bits)), b.constant(0.0))
    # Counting exponents from sqrt(1/2) instead of 1 puts the significand between its roots.
    root_half = 0x3F3504F3 if form is BINARY32 else 0x3FE6A09E667F3BCD
    offset = b.int_sub(b.bits(x), b.integer(root_half))
    k = b.add(b.to_float(b.shift_right_signed(offset, bits)), correction)
    significand = b.int_and(offset, b.integer((1 << bits) - 1))
    m = b.from_bits(b.int_add(significand, b.integer(root_half)))
    return k, b.sub(m, b.constant(1.0))


def tanh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Hyperbolic tangent. f32: 1.55 ulp, f64: 1.55 ulp.

    tanh|x| = t / (t + 2), t = e^{2|x|} - 1 = 2^n (e^r - 1) + (2^n - 1), n = floor(2|x| / ln 2), so
    that r >= 0 and nothing cancels. e^r - 1 = r + r^2 q(r).
    SOURCE: Muller, Elementary Functions, 2016, chapter 11; identity DLMF 4.28.
    """
    c = CONSTANTS[b.format]
    y = b.abs(x)
    y = b.at_most(b.add(y, y), c.tanh_one)
    n = b.floor(b.mul(y, b.constant(LOG2_E)))
    shifted = b.add(n, b.constant(_rounding_shift(b.format)))
    scale = b.from_bits(b.shift_left(b.bits(shifted), b.format.mantissa_bits))
    r = b.fma(n, b.constant(-c.ln2_high), y)
    r = b.fma(n, b.constant(-c.ln2_low), r)
    rise = b.fma(b.mul(r, r), b.polynomial(r, c.expm1_tail), r)
    t = b.fma(scale, rise, b.sub(scale, b.constant(1.0)))
    two, half = b.constant(2.0), b.constant(0.5)
    divisor = b.add(t, two)
    quotient = b.div(t, divisor)
    # What is left of t after the division, and what rounding took from the divisor, are known
    # exactly; 1 / divisor = (1 - quotient) / 2 turns them into a correction of the quotient, as
    # long as the quotient is not so near 1 that its distance from 1 says nothing.
    lost = b.sub(t, b.sub(divisor, two))
    lost = b.select(b.compare("olt", y, b.constant(c.tanh_near_one)), lost, b.constant(0.0))
    minus = b.negate(quotient)
    left = b.fma(minus, lost, b.fma(minus, divisor, t))
    quotient = b.fma(left, b.fma(minus, half, half), quotient)
    return b.copysign(quotient, x)
