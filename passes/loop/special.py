"""
erf, erfc, lgamma. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.loop.double_word import Word2, fast_two_sum, product, quotient, two_product, two_sum
from mlc.passes.loop.exponential import exp_word2
from mlc.passes.loop.formats import (
    INFINITY,
    constants_of,
    first_coefficient,
    polynomial,
    power_of_two,
    rounding_shift,
)
from mlc.passes.loop.lane_builder import BINARY32, LaneBuilder
from mlc.passes.loop.logarithm import log_word2
from mlc.passes.loop.trigonometric import cosine_kernel, sine_kernel

ERFC_CENTRE = 2.0
"""Where the argument of the polynomial for erfc is 0; tests/numerics/approximations.py."""

HALF_LOG_2_PI = (0.9189385332046728, -3.8782941580672414e-17)
LGAMMA_SLOPE = (0.42278433509846713, 4.942915152430645e-18)
"""1 - Euler's constant, the derivative of lgamma at 2."""
LOG_PI = (1.1447298858494002, 1.0265951162707826e-17)


def _erfc_positive(b: LaneBuilder, a: SSAValue, *, fine: bool) -> SSAValue:
    """
    erfc(a) for a >= 1/2: e^(-a^2) (1 + p(q)) / (1 + 2a), q = (a - c) / (a + c), all as pairs.
    `fine`: also q is rounded but once, for half an ulp less.

    SOURCE: M. M. Shepherd & J. G. Laframboise, Math. Comp. 36, 1981, for the variable q.
    """
    c = constants_of(b)
    a = b.at_most(a, c.erfc_zero)
    one, centre = b.constant(1.0), b.constant(ERFC_CENTRE)
    if fine:
        difference = two_sum(b, a, b.constant(-ERFC_CENTRE))
        q = b.add(*quotient(b, difference, two_sum(b, a, centre)))
    else:
        q = b.div(b.sub(a, centre), b.add(a, centre))
    p = polynomial(b, "erfc_scaled", q)
    factor = quotient(b, (one, p), fast_two_sum(b, b.add(a, a), one))
    factor = fast_two_sum(b, *factor)
    square, lost = two_product(b, a, a)
    scale, power = exp_word2(b, b.negate(square), b.negate(lost))
    high, rest = product(b, factor, power)
    return b.mul(b.mul(b.add(high, rest), scale), scale)


def _erfc_of_f32(b: LaneBuilder, a: SSAValue) -> SSAValue:
    """The same in f64, to the 30 bits that f32 needs."""
    w = b.in_binary64()
    y = w.widen(b.at_most(a, constants_of(b).erfc_zero))
    one, centre = w.constant(1.0), w.constant(ERFC_CENTRE)
    q = w.div(w.sub(y, centre), w.add(y, centre))
    factor = w.div(w.add(polynomial(w, "erfc_short", q), one), w.add(w.add(y, y), one))
    exponent = w.mul(w.mul(y, y), w.constant(-constants_of(w).log2_e[0]))
    shift = w.constant(rounding_shift(w.format))
    shifted = w.add(exponent, shift)
    r = w.sub(exponent, w.sub(shifted, shift))
    power = w.fma(r, polynomial(w, "exp2_half", r), one)
    return b.narrow(w.mul(w.mul(power, factor), power_of_two(w, shifted)), b.float_type)


def erf(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Error function. f32: 1.2 ulp, f64: 1.4 ulp.

    |x| < 1: x + x P(x^2); else 1 - erfc(|x|).
    """
    y = b.abs(x)
    near = b.fma(x, polynomial(b, "erf_near", b.mul(x, x)), x)
    far = b.sub(b.constant(1.0), _erfc_positive(b, b.at_least(y, 0.5), fine=False))
    result = b.select(b.below(y, 1.0), near, b.copysign(far, x))
    return b.select(b.equals(x, 0.0), x, result)


def erfc(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    1 - erf(x). f32: 0.8 ulp, f64: 1.7 ulp, subnormal results included.

    |x| < 1/2: (1 - x) - x P(x^2); else e^(-x^2) times a smooth function, or 2 minus that.
    """
    y = b.abs(x)
    one = b.constant(1.0)
    whole, lost = fast_two_sum(b, one, b.negate(x))
    minus = b.negate(x)
    near = b.add(whole, b.fma(minus, polynomial(b, "erf_near", b.mul(x, x)), lost))
    bounded = b.at_least(y, 0.5)
    if b.format is BINARY32:
        tail = _erfc_of_f32(b, bounded)
    else:
        tail = _erfc_positive(b, bounded, fine=True)
    far = b.select(b.below(x, 0.0), b.sub(b.constant(2.0), tail), tail)
    return b.select(b.below(y, 0.5), near, far)


def lgamma(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    ln |gamma(x)|; inf at 0, -1, -2, … and at ±inf. f32: 0.6 ulp, f64: 1.6 ulp for x > 0; for x < 0
    f32: 2 ulp; f64: 2 ulp where |lgamma| > 1/4, and 2^-52 absolute near its zeros.

    x < 8: moved to [1.45, 2.45] by gamma(x + 1) = x gamma(x), where lgamma(2 + u) =
    u (s + u P(u)); x >= 8: Stirling's series; x < 0: the reflection formula.
    SOURCE: DLMF 5.5.1, 5.5.3, 5.11.1.
    """
    if b.format is BINARY32:
        wide = b.in_binary64()
        return b.narrow(lgamma(wide, wide.widen(x)), b.float_type)
    y = b.abs(x)
    high, low = _lgamma_positive(b, y)
    negative = b.below(x, 0.0)
    found = b.where_any(
        negative, lambda inside: (_reflected(inside, y, high, low),), (b.add(high, low),)
    )
    result = b.select(b.below(y, INFINITY), found[0], y)
    result = b.select(b.equals(y, 0.0), b.constant(INFINITY), result)
    return b.select(b.compare("uno", x, x), x, result)


def _lgamma_positive(b: LaneBuilder, y: SSAValue) -> Word2:
    """lgamma(y) for 0 < y < inf."""
    one, zero = b.constant(1.0), b.constant(0.0)
    # gamma(y) = factors * gamma(moved) or gamma(moved) / factors
    factors: Word2 = one, zero
    moved = y
    for k in range(1, 7):
        more = b.compare("ogt", y, b.constant(k + 1.45))
        factor = b.select(more, b.sub(y, b.constant(float(k))), one)
        factors = product(b, factors, (factor, zero)) if k > 1 else (factor, zero)
        moved = b.select(more, factor, moved)
    small, smaller = b.below(y, 1.45), b.below(y, 0.45)
    next_one, next_low = two_sum(b, y, one)
    twice = product(b, (next_one, next_low), (y, zero))
    factors = (
        b.select(smaller, twice[0], b.select(small, y, factors[0])),
        b.select(smaller, twice[1], b.select(small, zero, factors[1])),
    )
    # u = moved - 2, without losing the digits of small y
    u = b.select(small, b.sub(y, one), b.sub(moved, b.constant(2.0)))
    u = b.select(smaller, y, u)
    near = _lgamma_near_two(b, u)
    large = b.compare("oge", y, b.constant(8.0))
    logarithm = log_word2(b, b.select(large, y, factors[0]), b.select(large, zero, factors[1]))
    sign = b.select(small, b.constant(-1.0), one)
    by_moving = two_sum(b, b.mul(logarithm[0], sign), near[0])
    moved_low = b.add(b.fma(logarithm[1], sign, near[1]), by_moving[1])
    stirling = _stirling(b, y, logarithm)
    return (
        b.select(large, stirling[0], by_moving[0]),
        b.select(large, stirling[1], moved_low),
    )


def _lgamma_near_two(b: LaneBuilder, u: SSAValue) -> Word2:
    """lgamma(2 + u) = u s + u^2 (p + u P(u)), the first two terms exactly."""
    slope, slope_low = LGAMMA_SLOPE
    linear, linear_low = two_product(b, u, b.constant(slope))
    square, square_low = two_product(b, u, u)
    curve = first_coefficient(b, "lgamma_tail")
    second, second_low = two_product(b, square, curve)
    total, rest = two_sum(b, linear, second)
    rest = b.add(rest, b.add(linear_low, b.fma(u, b.constant(slope_low), second_low)))
    rest = b.fma(square_low, curve, rest)
    return total, b.fma(b.mul(square, u), polynomial(b, "lgamma_tail", u, 1), rest)


def _stirling(b: LaneBuilder, y: SSAValue, logarithm: Word2) -> Word2:
    """(y - 1/2) (ln y - 1) + (ln(2 pi) - 1) / 2 + S(1/y^2) / y, y >= 8."""
    inverse = b.div(b.constant(1.0), y)
    series = b.mul(inverse, polynomial(b, "stirling", b.mul(inverse, inverse)))
    less, lost = fast_two_sum(b, logarithm[0], b.constant(-1.0))
    lost = b.add(lost, logarithm[1])
    # above 2^1000 the result is infinite or the half does not count, and must not turn into NaN
    high, low = product(b, (b.sub(y, b.constant(0.5)), b.constant(0.0)), (less, lost))
    low = b.select(b.below(high, INFINITY), low, b.constant(0.0))
    total, rest = fast_two_sum(b, high, b.constant(HALF_LOG_2_PI[0] - 0.5))
    rest = b.select(b.below(high, INFINITY), rest, b.constant(0.0))
    return total, b.add(b.add(rest, low), series)


def _reflected(b: LaneBuilder, y: SSAValue, high: SSAValue, low: SSAValue) -> SSAValue:
    """lgamma(-y) = ln(pi / (y |sin(pi y)|)) - lgamma(y)."""
    whole = b.round_even(y)
    t = b.abs(b.sub(y, whole))  # exact, in [0, 1/2]
    far = b.compare("ogt", t, b.constant(0.25))
    t = b.select(far, b.sub(b.constant(0.5), t), t)
    pi = constants_of(b).pi
    angle, angle_low = two_product(b, t, b.constant(pi[0]))
    angle_low = b.fma(t, b.constant(pi[1]), angle_low)
    s, c = sine_kernel(b, angle, angle_low), cosine_kernel(b, angle, angle_low)
    sine = fast_two_sum(b, b.select(far, c[0], s[0]), b.select(far, c[1], s[1]))
    pole = b.equals(sine[0], 0.0)
    first = log_word2(b, b.select(pole, b.constant(1.0), sine[0]), sine[1])
    second = log_word2(b, y)
    total, rest = two_sum(b, b.constant(LOG_PI[0]), b.negate(first[0]))
    total, lost = two_sum(b, total, b.negate(second[0]))
    rest = b.add(rest, lost)
    total, lost = two_sum(b, total, b.negate(high))
    rest = b.add(b.add(rest, lost), b.constant(LOG_PI[1]))
    rest = b.sub(b.sub(b.sub(rest, first[1]), second[1]), low)
    result = b.add(total, rest)
    small = b.below(y, 2.0**-60)  # sin(pi y) / pi may underflow; lgamma(-y) = -ln(y) there
    result = b.select(small, b.negate(b.add(*second)), result)
    return b.select(pole, b.constant(INFINITY), result)
