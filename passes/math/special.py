"""
erf, erfc. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py, which holds them.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import fast_two_sum, product, quotient, two_product, two_sum
from mlc.passes.math.exponential import exp_word2
from mlc.passes.math.formats import (
    constants_of,
    polynomial,
    power_of_two,
    rounding_shift,
)
from mlc.passes.math.lane_builder import BINARY32, LaneBuilder

ERFC_CENTRE = 2.0
"""Where the argument of the polynomial for erfc is 0; tests/numerics/approximations.py."""


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
