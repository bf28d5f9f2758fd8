"""
exp, exp2, log, log2, log10 by tables that registers hold: where the target looks them up and reads
exponents with one instruction, half the operations of exponential.py and logarithm.py. Bounds are
largest errors in units in the last place, over the points of tests/numerics/test_vector_math.py.

SOURCE: P. T. P. Tang, Table-driven implementation of the exponential function, ACM TOMS 15(2),
1989, and of the logarithm function, ACM TOMS 16(4), 1990.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.loop.formats import Pair, constants_of, polynomial, table
from mlc.passes.loop.lane_builder import BINARY32, LaneBuilder


def index_bits(b: LaneBuilder) -> int:
    """Tables have 2^this entries."""
    return 5 if b.format is BINARY32 else 4


def _fine_shift(b: LaneBuilder) -> SSAValue:
    """Adding it rounds a number to a multiple of one step of the table, whose index is then in the
    lowest bits."""
    return b.constant(1.5 * 2.0 ** (b.format.mantissa_bits - index_bits(b)))


def _power(b: LaneBuilder, shifted: SSAValue, n: SSAValue, rise: SSAValue) -> SSAValue:
    """2^n (1 + rise)"""
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
    return _power(b, shifted, n, rise)


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
    return _power(b, shifted, n, b.mul(r, polynomial(b, "exp2_by_table", r)))


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
