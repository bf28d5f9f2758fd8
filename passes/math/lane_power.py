"""
pow by tables that registers hold: natural logarithm and product as pairs, then exp. Bounds are
largest errors in units in the last place, over the points of tests/numerics/test_vector_math.py.

SOURCE: P. T. P. Tang, ACM TOMS 15(2), 1989, and 16(4), 1990, for the tables.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import Word2, fast_two_sum, two_product
from mlc.passes.math.formats import constants_of, polynomial, table
from mlc.passes.math.lane_builder import LaneBuilder
from mlc.passes.math.lane_tables import index_bits, times_power
from mlc.passes.math.power import special_powers


def _log_word2(b: LaneBuilder, a: SSAValue) -> Word2:
    """
    ln(a), |error| <= 2^-10 ulp(ln a); -inf or NaN at 0, NaN or inf at inf.

    k ln(2) - ln(c) + ln(1 + f), f = m c - 1, k as in lane_tables.py. c has so few bits that f is
    exact, -ln(c) in its first part so few that the sum with k ln(2) is. f - f^2/2 is a pair, the
    rest a polynomial.
    """
    m, k = b.significand(a), b.exponent(a)
    index = b.shift_right_signed(b.bits(m), b.format.mantissa_bits - 5)
    f = b.fma(m, b.lookup(index, table(b, "short_inverse")), b.constant(-1.0))
    c = constants_of(b)
    whole = b.fma(k, b.constant(c.ln2_short[0]), b.lookup(index, table(b, "short_log")))
    rest = b.fma(k, b.constant(c.ln2_short[1]), b.lookup(index, table(b, "short_log_low")))
    minus_half = b.mul(f, b.constant(-0.5))
    near = b.fma(minus_half, f, f)
    rest = b.add(rest, b.fma(minus_half, f, b.sub(f, near)))
    high, lost = fast_two_sum(b, whole, near)
    cube = b.mul(b.mul(f, f), f)
    rest = b.fma(cube, polynomial(b, "log_by_short_table", f), rest)
    return high, b.add(lost, rest)


def pow(b: LaneBuilder, x: SSAValue, y: SSAValue) -> SSAValue:  # noqa: A001 - its name
    """
    x^y. f32: 1.2 ulp, f64: 1.5 ulp; special cases as IEEE 754-2019, 9.2.1 (x^0 = 1^y = 1).

    e^(y ln |x|). A product that is large or NaN says that an operand is special or that the result
    is not finite or near 0: those lanes and negative bases share one branch.
    """
    c = constants_of(b)
    high, low = _log_word2(b, b.abs(x))
    product, rest = two_product(b, y, high)
    rest = b.fma(y, low, rest)
    shift = b.constant(1.5 * 2.0 ** (b.format.mantissa_bits - index_bits(b)))
    total = b.add(product, rest)
    shifted = b.fma(total, b.constant(c.log2_e[0]), shift)
    n = b.sub(shifted, shift)
    r = b.fma(n, b.constant(-c.ln2_short[0]), product)
    r = b.add(r, b.fma(n, b.constant(-c.ln2_short[1]), rest))
    rise = b.fma(b.mul(r, r), polynomial(b, "exp_by_table", r), r)
    result = times_power(b, shifted, n, rise)
    unusual = b.compare("uge", b.abs(total), b.constant(-c.exp_low))
    unusual = b.either(unusual, b.int_compare("slt", b.bits(x), b.integer(0)))

    def fixed(inside: LaneBuilder) -> tuple[SSAValue]:
        plain = inside.below(inside.abs(total), -c.exp_low)
        ends = inside.select(
            inside.below(product, 0.0), inside.constant(0.0), inside.constant(float("inf"))
        )
        return (special_powers(inside, x, y, inside.select(plain, result, ends)),)

    return b.where_any(unusual, fixed, (result,))[0]
