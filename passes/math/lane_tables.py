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

from mlc.passes.math.double_word import two_product
from mlc.passes.math.formats import Pair, constants_of, polynomial, table
from mlc.passes.math.lane_builder import BINARY32, BINARY64, LaneBuilder

LARGEST = {BINARY32: 3.4028234663852886e38, BINARY64: 1.7976931348623157e308}
LOG10_2 = 0.3010299956639812
"""The nearest f64, 0.05 ulp off; the nearest f32 is almost half an ulp off."""


def index_bits(b: LaneBuilder) -> int:
    """Tables have 2^this entries."""
    return 5 if b.format is BINARY32 else 4


def _fine_shift(b: LaneBuilder) -> SSAValue:
    """Adding it rounds a number to a multiple of one step of the table, whose index is then in the
    lowest bits."""
    return b.constant(1.5 * 2.0 ** (b.format.mantissa_bits - index_bits(b)))


def times_power(
    b: LaneBuilder,
    shifted: SSAValue,
    n: SSAValue,
    rise: SSAValue,
    part: float = 1.0,
    is_zero: SSAValue | None = None,
) -> SSAValue:
    """
    2^n (1 + rise) part, `shifted` being n + the shift that rounds to the table's steps.

    `is_zero`: where the result is 0 and no rounded number: machines take a hundred cycles to round
    one that is too small, and masked elements of a softmax are such.
    """
    entry = b.lookup(b.bits(shifted), tuple(x * part for x in table(b, "exp2")))
    if is_zero is not None:
        entry = b.select(is_zero, b.constant(0.0), entry)
    return b.scale(b.fma(entry, rise, entry), n)


def exp_in_range(
    b: LaneBuilder, x: SSAValue, part: float = 1.0, is_zero: SSAValue | None = None
) -> SSAValue:
    """e^x part, where it is finite."""
    c = constants_of(b)
    shift = _fine_shift(b)
    shifted = b.fma(x, b.constant(c.log2_e[0]), shift)
    n = b.sub(shifted, shift)
    r = b.fma(n, b.constant(-c.ln2[0]), x)
    r = b.fma(n, b.constant(-c.ln2[1]), r)
    rise = b.fma(b.mul(r, r), polynomial(b, "exp_by_table", r), r)
    return times_power(b, shifted, n, rise, part, is_zero)


def exp(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    e^x. f32: 1.1 ulp, f64: 1.15 ulp.

    x = n ln 2 + r, n a multiple of a step of the table of 2^n, and e^r = 1 + (r + r^2 q(r)).
    """
    c = constants_of(b)
    bounded = b.at_least(b.at_most(x, c.exp_high), c.exp_low)
    return exp_in_range(b, bounded, is_zero=b.below(x, c.exp_low))


def split_power(b: LaneBuilder, x: SSAValue, part: float) -> tuple[SSAValue, SSAValue, SSAValue]:
    """
    (2^n part, r, t) with e^x = 2^n (1 + r + t), x = n ln 2 + r as in exp; t also knows what r and
    the table's entry for 2^n were rounded by.
    """
    c = constants_of(b)
    shift = _fine_shift(b)
    shifted = b.fma(x, b.constant(c.log2_e[0]), shift)
    n, index = b.sub(shifted, shift), b.bits(shifted)
    r = b.fma(n, b.constant(-c.ln2[0]), x)
    low = b.fma(n, b.constant(-c.ln2[1]), b.lookup(index, table(b, "exp2_low")))
    # low is so large in f64 that its product with r counts
    near = r if b.format is BINARY32 else b.fma(n, b.constant(-c.ln2[1]), r)
    tail = b.fma(b.mul(near, near), polynomial(b, "expm1_by_table", near), low)
    return b.scale(b.lookup(index, tuple(x * part for x in table(b, "exp2"))), n), r, tail


def expm1(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    e^x - 1. f32: 1.75 ulp, f64: 1.75 ulp.

    (2^n - 1) + 2^n (e^r - 1), halves until the end, so that the largest n does not overflow.
    """
    c = constants_of(b)
    half, r, tail = split_power(b, b.at_least(b.at_most(x, c.exp_high), c.expm1_low), 0.5)
    result = b.fma(half, b.add(r, tail), b.sub(half, b.constant(0.5)))
    return b.copysign(b.add(result, result), x)


def exp2(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """
    2^x. f32: 1.1 ulp, f64: 1.1 ulp. Exact for whole x.

    As exp, with r = x - n exactly.
    """
    c = constants_of(b)
    is_zero = b.below(x, c.exp2_low)
    x = b.at_least(b.at_most(x, c.exp2_high), c.exp2_low)
    shift = _fine_shift(b)
    shifted = b.add(x, shift)
    n = b.sub(shifted, shift)
    r = b.sub(x, n)
    rise = b.mul(r, polynomial(b, "exp2_by_table", r))
    return times_power(b, shifted, n, rise, is_zero=is_zero)


def _logarithm(b: LaneBuilder, x: SSAValue, base: str, of_2: Pair, of_e: float) -> SSAValue:
    """
    k log(2) - log(c) + log(1 + f) with x = 2^k m, m in [1, 3/2), or x = 2^(k+1) m, m in [3/4, 1),
    whose table holds log(2) - log(c); f = m c - 1. Zeros, infinities, NaN and negative numbers need
    nothing of their own: their exponents are -inf and inf, the significands of the last two NaN.

    Near 1 one rounding counts; elsewhere k log(2) - log(c) is rounded too, up to one ulp where the
    result lies in the binade below, and so is log(2).
    """
    m, k = b.significand(x), b.exponent(x)
    if of_2[1]:
        k = b.sub(k, b.exponent(m))
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
    """Natural logarithm. f32: 1.6 ulp, f64: 1.6 ulp. log(±0) = -inf, negative: NaN."""
    return _logarithm(b, x, "log", (constants_of(b).ln2[0], 0.0), 1.0)


def log2(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """Logarithm to base 2. f32: 1.4 ulp, f64: 1.4 ulp. Exact for powers of 2."""
    return _logarithm(b, x, "log2", (1.0, 0.0), constants_of(b).log2_e[0])


def log10(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """Logarithm to base 10. f32: 1.6 ulp, f64: 1.6 ulp."""
    c = constants_of(b)
    of_2 = c.log10_2_short if b.format is BINARY32 else (LOG10_2, 0.0)
    return _logarithm(b, x, "log10", of_2, c.log10_e[0])


def log1p_word2(b: LaneBuilder, x: SSAValue, low: SSAValue | None = None) -> SSAValue:
    """
    ln(1 + x + low) for x >= -1, |low| <= 2^-20 x; -inf at -1, NaN below; with low, x is finite.

    As `_logarithm` of 1 + x; f = c 2^-k x + (c 2^-k - 1) does not know what 1 + x was rounded by:
    c has so few bits that the difference is exact where its last place counts.
    """
    total = b.add(b.constant(1.0), x)
    m, k = b.significand(total), b.exponent(total)
    index = b.shift_right_signed(b.bits(m), b.format.mantissa_bits - index_bits(b))
    whole = table(b, "log_inverse")
    half = len(whole) // 2
    inverses = (*whole[:half], *(c / 2 for c in whole[half:]))
    # no sum of floats but 0 is below 2^-64, and 0 times 2^inf would be NaN
    inverse = b.scale(b.lookup(index, inverses), b.at_most(b.negate(k), 64.0))
    finite = b.at_most(x, LARGEST[b.format]) if low is None else x
    f = b.fma(inverse, finite, b.sub(inverse, b.constant(1.0)))
    if low is not None:
        f = b.fma(inverse, low, f)
    k = b.fma(m, b.constant(0.0), k)  # NaN below -1
    high = b.fma(k, b.constant(constants_of(b).ln2[0]), b.lookup(index, table(b, "log")))
    return b.add(high, b.fma(b.mul(f, f), polynomial(b, "log_by_table", f), f))


def log1p(b: LaneBuilder, x: SSAValue) -> SSAValue:
    """ln(1 + x). f32: 1.6 ulp, f64: 1.6 ulp. -inf at -1, NaN below."""
    return b.copysign(log1p_word2(b, x), x)


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
