"""
Exponentials, logarithms, their relatives and cbrt by tables that registers hold: where the target
looks them up and reads exponents with one instruction, half the operations of exponential.py and
logarithm.py. Bounds are largest errors in units in the last place, over the points of
tests/numerics/test_vector_math.py.

SOURCE: P. T. P. Tang, Table-driven implementation of the exponential function, ACM TOMS 15(2),
1989, and of the logarithm function, ACM TOMS 16(4), 1990.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.loop.double_word import fast_two_sum, two_product
from mlc.passes.loop.formats import INFINITY, NAN, Pair, constants_of, polynomial, table
from mlc.passes.loop.lane_builder import BINARY32, LaneBuilder
from mlc.passes.loop.logarithm import log_word2


def index_bits(b: LaneBuilder) -> int:
    """Tables have 2^this entries."""
    return 5 if b.format is BINARY32 else 4


def _fine_shift(b: LaneBuilder) -> SSAValue:
    """Adding it rounds a number to a multiple of one step of the table, whose index is then in the
    lowest bits."""
    return b.constant(1.5 * 2.0 ** (b.format.mantissa_bits - index_bits(b)))


def times_power(b: LaneBuilder, shifted: SSAValue, n: SSAValue, rise: SSAValue) -> SSAValue:
    """2^n (1 + rise), `shifted` being n + the shift that rounds to the table's steps."""
    entry = b.lookup(b.bits(shifted), table(b, "exp2"))
    return b.scale(b.fma(entry, rise, entry), n)


def exp(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    e^x. f32: 1.1 ulp, f64: 1.15 ulp.

    x = n ln 2 + r, n a multiple of a step of the table of 2^n, and e^r = 1 + (r + r^2 q(r)).
    """
    c = constants_of(b)
    x = b.at_least(b.at_most(x, c.exp_high), c.exp_low)
    shift = _fine_shift(b)
    shifted = b.fma(x, b.constant(c.log2_e[0]), shift)
    n = b.sub(shifted, shift)
    r = b.fma(n, b.constant(-c.ln2[0]), x)
    r = b.fma(n, b.constant(-c.ln2[1]), r)
    rise = b.fma(b.mul(r, r), polynomial(b, "exp_by_table", r), r)
    return times_power(b, shifted, n, rise)


def exp2(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    2^x. f32: 1.1 ulp, f64: 1.1 ulp. Exact for whole x.

    As exp, with r = x - n exactly.
    """
    c = constants_of(b)
    x = b.at_least(b.at_most(x, c.exp2_high), c.exp2_low)
    shift = _fine_shift(b)
    shifted = b.add(x, shift)
    n = b.sub(shifted, shift)
    r = b.sub(x, n)
    return times_power(b, shifted, n, b.mul(r, polynomial(b, "exp2_by_table", r)))


def _logarithm(b: LaneBuilder, x: SSAValue, base: str, of_2: Pair, of_e: float) -> SSAValue:
    """
    k log(2) - log(c) + log(1 + f) with x = 2^k m, m in [3/4, 3/2), f = m c - 1, c and log(c) from
    tables. Zeros, infinities, NaN and negative numbers need nothing of their own: their exponents
    are -inf and inf, the significands of the last two NaN.

    Near 1 one rounding counts; elsewhere k log(2) - log(c) is rounded too, up to one ulp where the
    result lies in the binade below, and in log so is ln 2 (0.31 ulp in f64).
    """
    m = b.significand(x)
    k = b.sub(b.exponent(x), b.exponent(m))
    index = b.shift_right_signed(b.bits(m), b.format.mantissa_bits - index_bits(b))
    f = b.fma(m, b.lookup(index, table(b, f"{base}_inverse")), b.constant(-1.0))
    entry = b.lookup(index, table(b, base))
    high = b.add(k, entry) if of_2[0] == 1.0 else b.fma(k, b.constant(of_2[0]), entry)
    tail = polynomial(b, f"{base}_by_table", f)
    square = b.mul(f, f)
    if of_e == 1.0:
        return b.add(high, b.fma(square, tail, f))
    rest = b.mul(square, tail)
    if of_2[1]:
        rest = b.fma(k, b.constant(of_2[1]), rest)
    return b.add(high, b.fma(f, b.constant(of_e), rest))


def log(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """Natural logarithm. f32: 1.65 ulp, f64: 1.9 ulp. log(±0) = -inf, negative: NaN."""
    return _logarithm(b, x, "log", (constants_of(b).ln2[0], 0.0), 1.0)


def log2(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """Logarithm to base 2. f32: 1.6 ulp, f64: 1.9 ulp. Exact for powers of 2."""
    return _logarithm(b, x, "log2", (1.0, 0.0), constants_of(b).log2_e[0])


def log10(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """Logarithm to base 10. f32: 1.6 ulp, f64: 1.6 ulp."""
    c = constants_of(b)
    return _logarithm(b, x, "log10", c.log10_2_short, c.log10_e[0])


def _log1p_word2(b: LaneBuilder, x: SSAValue, low: SSAValue | None = None) -> SSAValue:
    """
    ln(1 + x + low) for finite x > -1, |low| <= ulp(x); -inf at -1, NaN below. What the rounding of
    1 + x took is added to f, where it is a multiple of f's last place.
    """
    larger, smaller = b.at_least(x, 1.0), b.at_most(x, 1.0)
    total = b.add(larger, smaller)
    lost = b.sub(smaller, b.sub(total, larger))
    if low is not None:
        lost = b.add(lost, low)
    m = b.significand(total)
    k = b.sub(b.exponent(total), b.exponent(m))
    index = b.shift_right_signed(b.bits(m), b.format.mantissa_bits - index_bits(b))
    inverse = b.lookup(index, table(b, "log_inverse"))
    # no sum of floats but 0 is below 2^-64, and 0 2^inf would be NaN
    lost = b.scale(lost, b.at_most(b.negate(k), 64.0))
    f = b.fma(lost, inverse, b.fma(m, inverse, b.constant(-1.0)))
    entry = b.lookup(index, table(b, "log"))
    c = constants_of(b)
    rest = f
    if low is None:
        high = b.fma(k, b.constant(c.ln2[0]), entry)
    else:  # the argument has errors of its own
        high, lost = fast_two_sum(b, b.mul(k, b.constant(c.ln2_short[0])), entry)
        rest = b.add(f, b.fma(k, b.constant(c.ln2_short[1]), lost))
    return b.add(high, b.fma(b.mul(f, f), polynomial(b, "log_by_table", f), rest))


def log1p(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """ln(1 + x). f32: 1.65 ulp, f64: 1.9 ulp. -inf at -1, NaN below."""
    result = b.copysign(_log1p_word2(b, x), x)
    return b.select(b.below(x, INFINITY), result, x)


def atanh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic tangent. f32: 1.75 ulp, f64: 1.75 ulp. ±inf at ±1, NaN beyond.

    ln(1 + 2|x| / (1 - |x|)) / 2, the quotient as a pair; 2^1000 for an infinite one.
    SOURCE: DLMF 4.37.
    """
    y = b.abs(x)
    one = b.constant(1.0)
    divisor, rest = fast_two_sum(b, one, b.negate(y))
    above = b.add(y, y)
    q = b.div(above, divisor)
    minus = b.negate(q)
    left = b.fma(minus, rest, b.fma(minus, divisor, above))
    # 1 / divisor = (q + 2) / 2
    half = b.constant(0.5)
    low = b.mul(left, b.fma(q, half, one))
    result = b.mul(_log1p_word2(b, q, low), half)
    result = b.select(b.equals(y, 1.0), b.constant(INFINITY), result)
    return b.copysign(b.select(b.compare("ule", y, one), result, b.constant(NAN)), x)


def _log_of_twice(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """ln(2 x) for large x, within an ulp."""
    high, low = log_word2(b, x)
    result = b.add(high, b.add(low, b.constant(constants_of(b).ln2[0])))
    return b.select(b.below(x, INFINITY), result, x)


def asinh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic sine. f32: 1.75 ulp, f64: 1.75 ulp.

    ln(1 + (|x| + |x| (|x| / (1 + sqrt(1 + x^2))))); ln |x| + ln 2 for large x.
    SOURCE: DLMF 4.37.
    """
    y, one = b.abs(x), b.constant(1.0)
    root = b.sqrt(b.fma(y, y, one))
    q = b.mul(y, b.div(y, b.add(root, one)))
    result = _log1p_word2(b, *fast_two_sum(b, y, q))
    large = b.compare("ogt", y, b.constant(constants_of(b).huge))
    found = b.where_any(large, lambda inside: (_log_of_twice(inside, y),), (result,))
    return b.copysign(found[0], x)


def acosh(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Inverse hyperbolic cosine. f32: 1.75 ulp, f64: 1.75 ulp. NaN below 1.

    With t = x - 1, ln(1 + (sqrt(t^2 + 2 t) + t)); ln x + ln 2 for large x.
    SOURCE: DLMF 4.37.
    """
    t = b.sub(x, b.constant(1.0))
    square = b.fma(t, t, b.add(t, t))
    root = b.sqrt(square)
    rest = b.fma(b.negate(root), root, square)
    # at 1 the correction would be 0 / 0
    divisor = b.add(b.add(root, root), b.constant(constants_of(b).smallest_normal))
    high, low = fast_two_sum(b, root, t)
    result = _log1p_word2(b, high, b.add(low, b.div(rest, divisor)))
    large = b.compare("ogt", x, b.constant(constants_of(b).huge))
    found = b.where_any(large, lambda inside: (_log_of_twice(inside, x),), (result,))
    return b.select(b.below(x, 1.0), b.constant(NAN), found[0])


def cbrt(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    Cube root. f32: 0.51 ulp, f64: 0.51 ulp.

    |x| = 8^q v, v = 2^n m with n in -1, 0, 1: r = v^(-1/3) from tables of n and of m's first bits,
    then y = v r^2 with a step of Newton's, its residual exact.
    SOURCE: Muller, Elementary Functions, 2016, chapter 9.
    """
    a = b.abs(x)
    m = b.significand(a)
    k = b.sub(b.exponent(a), b.exponent(m))
    shift = b.constant(1.5 * 2.0**b.format.mantissa_bits)
    third = b.sub(b.fma(k, b.constant(1 / 3), shift), shift)
    n = b.fma(third, b.constant(-3.0), k)
    index = b.shift_right_signed(b.bits(m), b.format.mantissa_bits - index_bits(b))
    f = b.fma(m, b.lookup(index, table(b, "log_inverse")), b.constant(-1.0))
    roots = table(b, "inverse_root")
    thirds = (1.0, 2.0 ** (-1 / 3), *[0.0] * (len(roots) - 3), 2.0 ** (1 / 3))
    # zeros and infinities have no n
    n = b.select(b.below(n, 1.0), n, b.constant(1.0))
    r = b.mul(b.lookup(b.bits(b.add(n, shift)), thirds), b.lookup(index, roots))
    r = b.fma(b.mul(r, f), polynomial(b, "inverse_root_by_table", f), r)
    v = b.scale(m, n)
    square = b.mul(r, r)
    y = b.mul(v, square)
    # y^3 - v, with the rounding of y^2
    yy, yy_low = two_product(b, y, y)
    residual = b.fma(yy_low, y, b.fma(yy, y, b.negate(v)))
    y = b.fma(b.mul(residual, square), b.constant(-1 / 3), y)
    return b.copysign(b.scale(y, third), x)
