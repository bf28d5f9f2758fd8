"""
lgamma. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import Word2, fast_two_sum, product, two_product, two_sum
from mlc.passes.math.formats import (
    INFINITY,
    Pair,
    constants_of,
    first_coefficient,
    polynomial,
)
from mlc.passes.math.lane_builder import BINARY32, LaneBuilder
from mlc.passes.math.logarithm import log1p_word2, log_word2
from mlc.passes.math.trigonometric import cosine_kernel, sine_kernel

HALF_LOG_2_PI = (0.9189385332046728, -3.8782941580672414e-17)
LGAMMA_SLOPE = (0.42278433509846713, 4.942915152430645e-18)
"""1 - Euler's constant, the derivative of lgamma at 2."""
LOG_PI = (1.1447298858494002, 1.0265951162707826e-17)

ZEROS: tuple[Pair, ...] = (
    (2.4570247382208006, 3.7075610815513266e-17),
    (2.7476826467274127, -9.055340329338315e-17),
    (3.14358088834998, 2.1818179852331714e-16),
    (3.955294284858598, 1.999428391746348e-17),
    (4.039361839740537, -2.1143995503980602e-16),
)
"""The first five y where lgamma(-y) = 0; the others lie ever nearer to the integers from 5 on."""
ENDS = (2.6, 3.0, 3.5, 4.0, 4.5)
"""Up to which y each of them is the nearest."""
VALLEY = (2.535, 2.665)
"""Where lgamma(-y), between its first zeros, is about its least value, -0.12."""
VALLEY_CENTRE = 2.61
RECIPROCAL_GAMMA: tuple[Pair, ...] = (
    (1.0, 0.0),
    (0.5772156649015329, -4.942915152430645e-18),
    (-0.6558780715202539, 2.137185197068536e-17),
    (-0.04200263503409524, 1.4920306285650505e-18),
    (0.16653861138229148, 1.0189144546842026e-17),
    (-0.04219773455554433, -3.3579992682480134e-18),
    (-0.009621971527876973, -5.300031368830263e-19),
)
"""1 / gamma(1 + t) = sum of these t^k, and the polynomial reciprocal_gamma_tail for the rest."""


def lgamma(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    ln |gamma(x)|; inf at 0, -1, -2, … and at ±inf. f32: 0.6 ulp, f64: 1.75 ulp.

    x < 8: moved to [1.45, 2.45] by gamma(x + 1) = x gamma(x), where lgamma(2 + u) =
    u (s + u P(u)); x >= 8: Stirling's series; x < 0: the reflection formula, but near a zero the
    logarithm of 1 / |gamma|, which has no poles.
    SOURCE: DLMF 5.5.1, 5.5.3, 5.11.1.
    """
    if b.format is BINARY32:
        wide = b.in_binary64()
        return b.narrow(_in_f64(wide, wide.widen(x), fine=False), b.float_type)
    return _in_f64(b, x, fine=True)


def _in_f64(b: LaneBuilder, x: SSAValue, *, fine: bool) -> SSAValue:
    """`fine`: all digits of f64 also near zeros."""
    y = b.abs(x)
    high, low = _lgamma_positive(b, y)
    negative = b.below(x, 0.0)
    found = b.where_any(
        negative,
        lambda inside: (_negative(inside, y, (high, low), fine=fine),),
        (b.add(high, low),),
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


def _negative(b: LaneBuilder, y: SSAValue, positive: Word2, *, fine: bool) -> SSAValue:
    """lgamma(-y), from lgamma(y)."""
    result = _reflected(b, y, *positive)
    if not fine:
        return result
    # the parts of the result, which grow with y, have errors that are not small beside it
    limit = b.at_least(b.mul(y, b.constant(1 / 18)), 0.25)
    near_zero = b.compare("olt", b.abs(result), limit)
    return b.where_any(near_zero, lambda inside: (_near_a_zero(inside, y),), (result,))[0]


def _near_a_zero(b: LaneBuilder, y: SSAValue) -> SSAValue:
    """lgamma(-y) = -ln(1 + excess), excess = 1 / |gamma(-y)| - 1 as a pair."""
    high, low = _reciprocal_gamma(b, y)
    high, lost = two_sum(b, high, b.constant(-1.0))
    low = b.add(low, lost)
    for k in reversed(range(len(ZEROS))):
        high, low = b.choose(b.below(y, ENDS[k]), _excess_by_zero(b, y, k), (high, low))
    between = b.both(b.compare("ogt", y, b.constant(VALLEY[0])), b.below(y, VALLEY[1]))
    high, low = b.choose(between, _excess_in_valley(b, y), (high, low))
    return b.negate(log1p_word2(b, *fast_two_sum(b, high, low)))


def _excess_by_zero(b: LaneBuilder, y: SSAValue, k: int) -> Word2:
    """The excess is a polynomial in the distance from the k-th zero, times that distance."""
    zero, zero_low = ZEROS[k]
    name = f"lgamma_zero_{k + 1}"
    # the difference is exact; the polynomial needs the zero's second part as well
    distance = fast_two_sum(b, b.sub(b.constant(zero), y), b.constant(zero_low))
    change = b.mul(distance[0], polynomial(b, name, distance[0], 1))
    return product(b, distance, (first_coefficient(b, name), change))


def _excess_in_valley(b: LaneBuilder, y: SSAValue) -> Word2:
    """Between the first two zeros, too far from both: from the middle."""
    distance = b.sub(b.constant(VALLEY_CENTRE), y)
    change = b.mul(distance, polynomial(b, "lgamma_valley", distance, 1))
    return first_coefficient(b, "lgamma_valley"), change


def _reciprocal_gamma(b: LaneBuilder, y: SSAValue) -> Word2:
    """1 / |gamma(-y)| = |t| (1 - t) (2 - t) … (n - t) / gamma(1 + t), y = n - t, |t| < 1/80."""
    n = b.round_even(y)
    t = b.sub(n, y)  # exact
    high, low = polynomial(b, "reciprocal_gamma_tail", t), b.constant(0.0)
    for first, second in reversed(RECIPROCAL_GAMMA):
        high, lost = two_product(b, t, high)
        low = b.fma(t, low, lost)
        high, lost = fast_two_sum(b, b.constant(first), high)
        low = b.add(b.add(low, b.constant(second)), lost)

    def factor(inside: LaneBuilder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        k, *word = values
        times = product(inside, (word[0], word[1]), fast_two_sum(inside, k, inside.negate(t)))
        wanted = inside.compare("ole", k, n)
        return inside.add(k, inside.constant(1.0)), *inside.choose(wanted, times, word)

    # from -18 on, the numbers next to an integer are farther from it than the zeros
    start = product(b, (b.abs(t), b.constant(0.0)), (high, low))
    _, high, low = b.repeat(17, factor, (b.constant(1.0), *start))
    return high, low


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
