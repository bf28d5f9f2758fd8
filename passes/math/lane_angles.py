"""
tan, atan, atan2 and tanh by tables that registers hold: the addition theorem takes the argument to
its distance from a point of the table, and a short polynomial does the rest. Bounds are largest
errors in units in the last place, over the points of tests/numerics/test_vector_math.py.

SOURCE: P. T. P. Tang, Table-lookup algorithms for elementary functions and their error analysis,
Proc. 10th IEEE Symposium on Computer Arithmetic, 1991; identities DLMF 4.21 and 4.35.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math import inverse_trigonometric, lane_hyperbolic, trigonometric
from mlc.passes.math.double_word import fast_two_sum
from mlc.passes.math.formats import constants_of, polynomial, table
from mlc.passes.math.lane_builder import BINARY32, BINARY64, LaneBuilder
from mlc.passes.math.lane_estimates import root_parts
from mlc.passes.math.reduction import reduce_by_half_pi
from mlc.passes.math.trigonometric import flip


def _first_octant(b: LaneBuilder, above: SSAValue, below: SSAValue) -> SSAValue:
    """
    atan(above / below) for 0 <= above <= below, below a normal number and not the largest ones.

    atan(c) + atan(t), t = (above - c below) / (below + c above), c the point of the table that is
    nearest to a rough quotient; c = 0 makes t the quotient itself.
    """
    points = table(b, "atan_point")
    ratio = b.mul(above, b.reciprocal_estimate(below))
    shift = b.constant(1.5 * 2.0**b.format.mantissa_bits)
    index = b.bits(b.fma(ratio, b.constant(len(points) - 1.0), shift))
    c = b.lookup(index, points)
    t = b.div(b.fma(b.negate(c), below, above), b.fma(c, above, below))
    z = b.mul(t, t)
    angle = b.fma(b.mul(t, z), polynomial(b, "atan_by_table", z), t)
    return b.add(b.lookup(index, table(b, "atan")), angle)


TAN_POINTS_PER_RADIAN = {BINARY32: 19.67, BINARY64: 9.48}
"""The last of the points on either side of 0 serve a little more than pi/4."""


def tan(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Tangent. f32: 1.75 ulp, f64: 1.95 ulp, for all finite x; NaN at ±inf.

    x = n pi/2 + c + d: t + (u + t u (t + u) / (1 - t u)), t = tan(c), u = tan(d), or -1 over that.
    """
    n, r, low = reduce_by_half_pi(b, x)
    shift = b.constant(1.5 * 2.0**b.format.mantissa_bits)
    index = b.bits(b.fma(r, b.constant(TAN_POINTS_PER_RADIAN[b.format]), shift))
    d = b.sub(r, b.lookup(index, table(b, "tan_point")))
    entry = b.lookup(index, table(b, "tan"))
    z = b.mul(d, d)
    u = b.add(d, b.fma(b.mul(d, z), polynomial(b, "tan_by_table", z), low))
    one = b.constant(1.0)
    product = b.mul(entry, u)
    bend = b.div(b.mul(product, b.add(entry, u)), b.sub(one, product))
    rest = b.add(u, bend)
    value = b.add(entry, rest)
    if b.format is BINARY32:  # its step of Newton's also knows what `value` was rounded by
        lost = b.add(b.sub(entry, value), rest)
        inverse = b.reciprocal_estimate(value)
        minus = b.negate(inverse)
        left = b.fma(minus, lost, b.fma(minus, value, one))
        inverse = b.fma(inverse, left, inverse)
    else:
        inverse = b.div(one, value)
    value = b.select(b.is_odd(n), inverse, value)
    return b.select(b.equals(x, 0.0), x, flip(b, value, n, 0))


def atan(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Arc tangent. f32: 1.75 ulp, f64: 1.5 ulp.

    |x| > 1: pi/2 - atan(1 / |x|).
    """
    c = constants_of(b)
    y = b.at_most(b.abs(x), c.huge)  # from here on atan rounds to pi/2
    angle = _first_octant(b, b.at_most(y, 1.0), b.at_least(y, 1.0))
    steep = b.compare("ogt", y, b.constant(1.0))
    angle = b.select(steep, b.sub(b.constant(c.half_pi[0]), angle), angle)
    return b.copysign(angle, x)


def atan2(b: LaneBuilder, y: SSAValue, x: SSAValue) -> SSAValue:
    """
    The angle of the point (x, y). f32: 1.75 ulp, f64: 1.6 ulp. Zeros and infinities as IEEE
    754-2019, 9.2.1: atan2(±0, -0) = ±pi, atan2(±inf, -inf) = ±3 pi/4.

    The angle within the first octant, reflected at the diagonal and at the axis. Points whose
    larger coordinate is zero, subnormal or near overflow go the way of other targets.
    """
    c = constants_of(b)
    up, right = b.abs(y), b.abs(x)
    steep = b.compare("ogt", up, right)
    below = b.select(steep, up, right)
    angle = _first_octant(b, b.select(steep, right, up), below)
    angle = b.select(steep, b.sub(b.constant(c.half_pi[0]), angle), angle)
    behind = b.int_compare("slt", b.bits(x), b.integer(0))  # -0 included
    angle = b.select(behind, b.sub(b.constant(c.pi[0]), angle), angle)
    # one comparison of bits, as unsigned numbers, for both ends
    lowest, highest = (2.0**-100, 2.0**120) if b.format is BINARY32 else (2.0**-900, 2.0**1000)
    place = b.int_sub(b.bits(below), b.bits(b.constant(lowest)))
    reach = b.int_sub(b.bits(b.constant(highest)), b.bits(b.constant(lowest)))
    rare = b.int_compare("ugt", place, reach)
    found = b.where_any(
        rare, lambda inside: (inverse_trigonometric.atan2(inside, y, x),), (b.copysign(angle, y),)
    )
    return found[0]


TANH_OFFSET = 0.75
"""Added to |x|, its first bits number the table's intervals: narrow ones first."""
TANH_BITS = 3
"""Intervals per octave: 2^this."""


def tanh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Hyperbolic tangent. f32: 1.4 ulp, f64: 1.65 ulp.

    f32: with u = tanh(d), tanh(c + d) = tanh(c) + u (1 - tanh(c)^2) / (1 + u tanh(c)), c the middle
    of an interval, 0 in the first. f64, where sixteen points are too few: by exponentials.
    """
    if b.format is not BINARY32:
        return lane_hyperbolic.tanh(b, x)
    y = b.at_most(b.abs(x), constants_of(b).tanh_one / 2)
    place = b.add(y, b.constant(TANH_OFFSET))
    index = b.shift_right_signed(b.bits(place), b.format.mantissa_bits - TANH_BITS)
    d = b.sub(y, b.lookup(index, table(b, "tanh_point")))
    entry = b.lookup(index, table(b, "tanh"))
    z = b.mul(d, d)
    u = b.fma(b.mul(d, z), polynomial(b, "tanh_by_table", z), d)
    slope = b.mul(u, b.lookup(index, table(b, "tanh_slope")))
    rise = b.div(slope, b.fma(u, entry, b.constant(1.0)))
    return b.copysign(b.add(entry, rise), x)


def _arcsine(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """(far, s, t): far = |x| > 1/2; asin(s) = s + t with s = |x|, or sqrt((1 - |x|) / 2)."""
    y, half = b.abs(x), b.constant(0.5)
    far = b.compare("ogt", y, half)
    folded = b.fma(b.negate(y), half, half)
    root, low = root_parts(b, folded)
    if b.format is not BINARY32:
        root, low = fast_two_sum(b, root, low)
    z = b.select(far, folded, b.mul(y, y))
    s = b.select(far, root, y)
    t = b.mul(b.mul(s, z), polynomial(b, "asin_tail", z))
    return far, s, b.select(far, b.add(t, low), t)


def asin(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Arc sine. f32: 1.75 ulp, f64: 1.75 ulp. NaN beyond ±1.

    |x| <= 1/2: x + x^3 R(x^2); else pi/2 - 2 asin(sqrt((1 - |x|) / 2)).
    SOURCE: Muller, Elementary Functions, 2016, chapter 11; DLMF 4.24.
    """
    c = constants_of(b)
    far, s, t = _arcsine(b, x)
    two = b.constant(-2.0)
    whole, rest = b.fma(s, two, b.constant(c.half_pi[0])), b.fma(t, two, b.constant(c.half_pi[1]))
    result = b.add(b.select(far, whole, s), b.select(far, rest, t))
    return b.copysign(result, x)


def acos(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Arc cosine. f32: 1.25 ulp, f64: 1.25 ulp. NaN beyond ±1.

    |x| <= 1/2: pi/2 - asin(x); x > 1/2: 2 asin(sqrt((1 - x) / 2)); x < -1/2: pi minus that.
    """
    c = constants_of(b)
    far, s, t = _arcsine(b, x)
    # offset ± (s + t), once or twice: the sign is that of x, turned where x is far
    offset, low = b.constant(c.half_pi[0]), b.constant(c.half_pi[1])
    negative = b.int_compare("slt", b.bits(x), b.integer(0))
    zero = b.constant(0.0)
    beyond = b.select(negative, b.constant(c.pi[0]), zero)
    beyond_low = b.select(negative, b.constant(c.pi[1]), zero)
    offset, low = b.select(far, beyond, offset), b.select(far, beyond_low, low)
    factor = b.select(far, b.constant(2.0), b.constant(-1.0))
    factor = b.from_bits(b.int_xor(b.bits(factor), b.int_and(b.bits(x), b.bits(b.constant(-0.0)))))
    return b.add(b.fma(s, factor, offset), b.fma(t, factor, low))


def _of_half_turns(b: LaneBuilder, y: SSAValue, shifted: SSAValue, h: SSAValue) -> SSAValue:
    """±sin(y - h pi) for f32, h the nearest number of half turns, negative for odd `shifted`."""
    r = y
    for part in HALF_TURN:
        r = b.fma(h, b.constant(-part), r)
    z = b.mul(r, r)
    value = b.fma(b.mul(r, z), polynomial(b, "sin_of_half_turns", z), r)
    return flip(b, value, b.bits(shifted), 0)


HALF_TURN = (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15)
"""pi in f32: the first two are `pi`, the last what they leave."""


def sin(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Sine. f32: 1.996 ulp over all of its numbers, f64: 1.1 ulp, for all finite x; NaN at ±inf.

    f32, x = n pi + r: ±sin(r), one polynomial. f64, where that needs too many terms: as on other
    targets.
    """
    if b.format is not BINARY32:
        return trigonometric.sin(b, x)
    y = b.abs(x)
    shift = b.constant(1.5 * 2.0**b.format.mantissa_bits)
    shifted = b.fma(y, b.constant(ONE_OVER_PI), shift)
    value = _of_half_turns(b, y, shifted, b.sub(shifted, shift))
    sign = b.int_and(b.bits(x), b.bits(b.constant(-0.0)))
    value = b.from_bits(b.int_xor(b.bits(value), sign))
    far = b.compare("uge", y, b.constant(constants_of(b).reduced_by_fma))
    return b.where_any(far, lambda inside: (trigonometric.sin(inside, x),), (value,))[0]


ONE_OVER_PI = 0.3183098861837907


def cos(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Cosine. f32: 1.996 ulp over all of its numbers, f64: 1.1 ulp, for all finite x; NaN at ±inf.

    As sin, with |x| + pi/2 = n pi + r.
    """
    if b.format is not BINARY32:
        return trigonometric.cos(b, x)
    y, half = b.abs(x), b.constant(0.5)
    shift = b.constant(1.5 * 2.0**b.format.mantissa_bits)
    shifted = b.add(b.fma(y, b.constant(ONE_OVER_PI), half), shift)
    value = _of_half_turns(b, y, shifted, b.sub(b.sub(shifted, shift), half))
    far = b.compare("uge", y, b.constant(constants_of(b).reduced_by_fma))
    return b.where_any(far, lambda inside: (trigonometric.cos(inside, x),), (value,))[0]
