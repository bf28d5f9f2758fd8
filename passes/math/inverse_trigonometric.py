"""
asin, acos, atan, atan2. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import fast_two_sum, quotient
from mlc.passes.math.formats import INFINITY, constants_of, polynomial
from mlc.passes.math.lane_builder import BINARY32, LaneBuilder

TAN_PI_8 = 0.41421356237309503
TAN_3_PI_8 = 2.414213562373095


def _arcsine(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
    """
    (far, s, low, t): far = |x| > 1/2; asin(s) = s + t with s = |x|, or s + low = sqrt((1-|x|)/2).
    """
    y = b.abs(x)
    far = b.compare("ogt", y, b.constant(0.5))
    half = b.constant(0.5)
    folded = b.fma(b.negate(y), half, half)
    z = b.select(far, folded, b.mul(y, y))
    root = b.sqrt(folded)
    rest = b.fma(b.negate(root), root, folded)
    # |x| = 1 folds to 0, where the correction would be 0 / 0
    low = b.div(rest, b.add(b.add(root, root), b.constant(constants_of(b).smallest_normal)))
    s = b.select(far, root, y)
    low = b.select(far, low, b.constant(0.0))
    return far, s, low, b.fma(b.mul(s, z), polynomial(b, "asin_tail", z), low)


def asin(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Arc sine. f32: 0.8 ulp, f64: 0.9 ulp. NaN beyond ±1.

    |x| <= 1/2: x + x^3 R(x^2); else pi/2 - 2 asin(sqrt((1 - |x|) / 2)).
    SOURCE: Muller, Elementary Functions, 2016, chapter 11; DLMF 4.24.
    """
    c = constants_of(b)
    far, s, _, t = _arcsine(b, x)
    high = b.constant(c.half_pi[0])
    two = b.constant(-2.0)
    whole, lost = fast_two_sum(b, high, b.mul(s, two))
    rest = b.fma(t, two, b.add(lost, b.constant(c.half_pi[1])))
    result = b.select(far, b.add(whole, rest), b.add(s, t))
    return b.copysign(result, x)


def acos(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Arc cosine. f32: 0.8 ulp, f64: 0.9 ulp. NaN beyond ±1.

    |x| <= 1/2: pi/2 - asin(x); x > 1/2: 2 asin(sqrt((1 - x) / 2)); x < -1/2: pi minus that.
    """
    c = constants_of(b)
    far, s, _, t = _arcsine(b, x)
    negative = b.below(x, 0.0)
    zero = b.constant(0.0)
    # base ± (s + t) times 1 or 2
    from_pi = b.both(far, negative)
    base = b.select(far, zero, b.constant(c.half_pi[0]))
    base = b.select(from_pi, b.constant(c.pi[0]), base)
    base_low = b.select(far, zero, b.constant(c.half_pi[1]))
    base_low = b.select(from_pi, b.constant(c.pi[1]), base_low)
    two = b.constant(2.0)
    factor = b.select(far, two, b.constant(-1.0))
    factor = b.select(negative, b.negate(factor), factor)
    whole, lost = fast_two_sum(b, base, b.mul(s, factor))
    return b.add(whole, b.add(lost, b.fma(t, factor, base_low)))


def _arctangent(b: LaneBuilder, y: SSAValue, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """
    (offset, u, low) with atan(y / x) = offset + (u + low), for y, x >= 0: the quotient, or its
    image under atan(q) = pi/4 + atan((q - 1) / (q + 1)) or pi/2 - atan(1 / q).
    """
    c = constants_of(b)
    middle = b.compare("ogt", y, b.mul(x, b.constant(TAN_PI_8)))
    steep = b.compare("ogt", y, b.mul(x, b.constant(TAN_3_PI_8)))
    difference = _ordered_difference(b, y, x)
    total = _ordered_sum(b, y, x)
    zero = b.constant(0.0)

    def pick(a: SSAValue, between: SSAValue, otherwise: SSAValue) -> SSAValue:
        return b.select(steep, a, b.select(middle, between, otherwise))

    above = pick(b.negate(x), difference[0], y), pick(zero, difference[1], zero)
    below = pick(y, total[0], x), pick(zero, total[1], zero)
    u, low = quotient(b, above, below)
    z = b.mul(u, u)
    low = b.fma(b.mul(u, z), polynomial(b, "atan_tail", z), low)
    first, second, _ = c.half_pi
    offset = pick(b.constant(first), b.constant(first / 2), zero)
    offset_low = pick(b.constant(second), b.constant(second / 2), zero)
    return offset, u, b.add(low, offset_low)


def _ordered_sum(b: LaneBuilder, y: SSAValue, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """y + x as a pair, for numbers within a factor of three of each other."""
    total = b.add(y, x)
    return total, b.add(b.sub(b.select(b.compare("ogt", y, x), y, x), total), _smaller(b, y, x))


def _ordered_difference(b: LaneBuilder, y: SSAValue, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """y - x as a pair, likewise."""
    total = b.sub(y, x)
    larger = b.compare("ogt", y, x)
    first = b.select(larger, y, b.negate(x))
    second = b.select(larger, b.negate(x), y)
    return total, b.add(b.sub(first, total), second)


def _smaller(b: LaneBuilder, y: SSAValue, x: SSAValue) -> SSAValue:
    return b.select(b.compare("ogt", y, x), x, y)


def atan(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Arc tangent. f32: 0.9 ulp, f64: 0.9 ulp.

    |x| > tan(pi/8): pi/4 + atan((|x| - 1) / (|x| + 1)); |x| > tan(3 pi/8): pi/2 - atan(1 / |x|);
    the quotient as a pair.
    SOURCE: S. L. Moshier, Methods and Programs for Mathematical Functions, 1989, chapter 3.
    """
    y = b.abs(x)
    # 1 / y must not underflow; from here on atan rounds to pi/2
    bounded = b.at_most(y, constants_of(b).huge)
    offset, u, low = _arctangent(b, bounded, b.constant(1.0))
    result = _rounded(b, offset, u, low)
    tiny = b.below(y, constants_of(b).tiny)
    return b.select(tiny, x, b.copysign(result, x))


def _rounded(b: LaneBuilder, offset: SSAValue, u: SSAValue, low: SSAValue) -> SSAValue:
    whole, lost = fast_two_sum(b, offset, u)
    return b.add(whole, b.add(lost, low))


def atan2(b: LaneBuilder, y: SSAValue, x: SSAValue) -> SSAValue:
    """
    The angle of the point (x, y). f32: 1.5 ulp, f64: 1.5 ulp. Zeros and infinities as IEEE
    754-2019, 9.2.1: atan2(±0, -0) = ±pi, atan2(±inf, -inf) = ±3 pi/4.

    atan(|y| / |x|), the quotient as a pair; pi minus that for negative x.
    """
    c = constants_of(b)
    up, right = b.abs(y), b.abs(x)
    up, right = _moderate(b, up, right)
    offset, u, low = _arctangent(b, up, right)
    # x < 0, -0 included: pi - (offset + u + low)
    sign = b.copysign(b.constant(1.0), x)
    behind = b.below(sign, 0.0)
    zero = b.constant(0.0)
    base, rest = fast_two_sum(b, b.select(behind, b.constant(c.pi[0]), zero), b.mul(offset, sign))
    rest = b.add(rest, b.select(behind, b.constant(c.pi[1]), zero))
    whole, lost = fast_two_sum(b, base, b.mul(u, sign))
    result = b.add(whole, b.add(lost, b.fma(low, sign, rest)))
    nothing = b.equals(up, 0.0)  # 0 / 0 included
    result = b.select(nothing, b.select(behind, b.constant(c.pi[0]), zero), result)
    result = b.copysign(result, y)
    return b.select(b.compare("uno", x, y), b.add(x, y), result)


def _moderate(b: LaneBuilder, y: SSAValue, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """
    Both times one power of 2, so that the reciprocals of the larger one and of the sum are normal
    numbers; infinities become ones and finite numbers beside them zeros, as the limits are.
    """
    highest, step = (2.0**120, 2.0**-12) if b.format is BINARY32 else (2.0**1000, 2.0**-60)
    lowest, lift = (2.0**-100, 2.0**40) if b.format is BINARY32 else (2.0**-900, 2.0**120)
    one = b.constant(1.0)
    infinite = b.either(b.equals(x, INFINITY), b.equals(y, INFINITY))
    zero = b.constant(0.0)
    finite_x = b.select(b.equals(x, INFINITY), one, b.select(infinite, zero, x))
    finite_y = b.select(b.equals(y, INFINITY), one, b.select(infinite, zero, y))
    larger = b.select(b.compare("ogt", finite_y, finite_x), finite_y, finite_x)
    factor = b.select(b.compare("ogt", larger, b.constant(highest)), b.constant(step), one)
    factor = b.select(b.below(larger, lowest), b.constant(lift), factor)
    return b.mul(finite_y, factor), b.mul(finite_x, factor)
