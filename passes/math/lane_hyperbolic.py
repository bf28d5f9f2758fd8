"""
cosh, tanh and the inverse hyperbolic functions by the tables of lane_tables.py; reciprocals and
roots from estimates. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py.

SOURCE: identities DLMF 4.28 and 4.37.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import fast_two_sum
from mlc.passes.math.formats import INFINITY, NAN, constants_of
from mlc.passes.math.lane_builder import LaneBuilder
from mlc.passes.math.lane_estimates import reciprocal, root_parts
from mlc.passes.math.lane_tables import exp_in_range, log1p_word2, split_power
from mlc.passes.math.logarithm import log_word2


def cosh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Hyperbolic cosine. f32: 1.6 ulp, f64: 1.6 ulp.

    (e^|x| + 1 / e^|x|) / 2.
    """
    power = exp_in_range(b, b.at_most(b.abs(x), constants_of(b).sinh_high), 0.25)
    result = b.add(b.div(b.constant(1 / 16), power), power)
    return b.add(result, result)


def tanh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Hyperbolic tangent of f64: 1.95 ulp.

    t / (t + 2), t = e^{2|x|} - 1, both as sums of what the table gives and the rest, through an
    inverse of 28 bits and the residual.
    """
    y = b.at_most(b.abs(x), constants_of(b).tanh_one / 2)
    one = b.constant(1.0)
    power, r, tail = split_power(b, b.add(y, y), 1.0)
    rise = b.add(r, tail)
    whole = b.sub(power, one)
    divisor, lost = fast_two_sum(b, power, one)
    inverse = reciprocal(b, b.fma(power, rise, divisor), steps=1)
    minus = b.mul(b.negate(b.fma(power, rise, whole)), inverse)
    left = b.fma(power, r, b.fma(power, tail, b.fma(minus, divisor, whole)))
    left = b.fma(minus, b.fma(power, rise, lost), left)
    return b.copysign(b.fma(left, inverse, b.negate(minus)), x)


def _log_of_twice(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """ln(2 x) for large x, within an ulp."""
    high, low = log_word2(b, x)
    result = b.add(high, b.add(low, b.constant(constants_of(b).ln2[0])))
    return b.select(b.below(x, INFINITY), result, x)


def asinh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic sine. f32: 1.75 ulp, f64: 1.9 ulp.

    ln(1 + (|x| + |x| (|x| / (1 + sqrt(1 + x^2))))); ln |x| + ln 2 for large x.
    """
    y, one = b.abs(x), b.constant(1.0)
    root, low = root_parts(b, b.fma(y, y, one))
    root = b.add(root, low)
    q = b.mul(y, b.mul(y, reciprocal(b, b.add(root, one))))
    result = log1p_word2(b, *fast_two_sum(b, y, q))
    large = b.compare("ogt", y, b.constant(constants_of(b).huge))
    found = b.where_any(large, lambda inside: (_log_of_twice(inside, y),), (result,))
    return b.copysign(found[0], x)


def acosh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic cosine. f32: 1.6 ulp, f64: 1.7 ulp. NaN below 1.

    With t = x - 1, ln(1 + (sqrt(t^2 + 2 t) + t)); ln x + ln 2 for large x.
    """
    t = b.sub(x, b.constant(1.0))
    root, rest = root_parts(b, b.fma(t, t, b.add(t, t)))
    high, low = fast_two_sum(b, root, t)
    result = log1p_word2(b, high, b.add(low, rest))
    large = b.compare("ogt", x, b.constant(constants_of(b).huge))
    found = b.where_any(large, lambda inside: (_log_of_twice(inside, x),), (result,))
    return b.select(b.below(x, 1.0), b.constant(NAN), found[0])


def atanh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic tangent. f32: 1.7 ulp, f64: 1.75 ulp. ±inf at ±1, NaN beyond.

    ln(1 + 2|x| / (1 - |x|)) / 2, the quotient as a pair.
    """
    y = b.abs(x)
    one = b.constant(1.0)
    divisor, rest = fast_two_sum(b, one, b.negate(y))
    above = b.add(y, y)
    inverse = reciprocal(b, divisor, steps=1)
    q = b.mul(above, inverse)
    minus = b.negate(q)
    left = b.fma(minus, rest, b.fma(minus, divisor, above))
    result = b.mul(log1p_word2(b, q, b.mul(left, inverse)), b.constant(0.5))

    def at_the_ends(inside: LaneBuilder) -> tuple[SSAValue]:
        infinite = inside.equals(y, 1.0)
        return (inside.select(infinite, inside.constant(INFINITY), inside.constant(NAN)),)

    ends = b.compare("oge", y, one)
    return b.copysign(b.where_any(ends, at_the_ends, (result,))[0], x)
