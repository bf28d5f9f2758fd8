"""
x = n pi/2 + (r + low), |r| <= pi/4, for every finite x: what sin, cos and tan start with.

SOURCE: W. J. Cody & W. Waite, Software Manual for the Elementary Functions, 1980, chapter 8;
M. Payne & R. Hanek, ACM SIGNUM Newsletter 18(1), 1983, for large x.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import Word2, fast_two_sum, two_product, two_sum
from mlc.passes.math.formats import CONSTANTS, constants_of, rounding_shift
from mlc.passes.math.lane_builder import BINARY32, BINARY64, LaneBuilder

DIGITS = (
    0x145F306DC9C882,
    0x14A7F09D5F47D4,
    0x1A6EE06DB14ACC,
    0x13C439041FE516,
    0x0757BD778AC36E,
    0x091B8E909374B8,
    0x00324977504E8C,
    0x121CFE1DEB1CB1,
    0x0534E7DD1046BE,
    0x14BAED1213A671,
    0x18135A2FBF209C,
    0x191D639835339F,
    0x093908BF177BF2,
    0x0A0EC7FE25FFF7,
    0x102CC07F79788C,
    0x0B5A0A6D1F6D36,
    0x0FD9E4F96136E9,
    0x1D18FD9A797FA8,
    0x16BA93DD63F5F2,
    0x1F17B3D0739F78,
    0x14A525D4D7F6BF,
    0x0C47E357421580,
    0x198237E3DB5D5F,
    0x10CFBC209AF436,
    0x03B53C722C2BDC,
)
"""
2 / pi = sum of DIGITS[i] * 2^(-53 (i + 1)): each an integer below 2^53, hence a float64.
"""

WINDOW = 5
"""Digits that matter for one argument: 265 bits, of which 107 are whole turns at most."""


def reduce_by_half_pi(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """(n, r, low) with n as an integer; only its last two bits mean something."""
    c = constants_of(b)
    shift = b.constant(rounding_shift(b.format) - b.format.exponent_bias)
    first, second, third = c.half_pi
    shifted = b.fma(x, b.constant(_two_over_pi(b)), shift)
    n = b.sub(shifted, shift)
    # exact: the difference is a multiple of the last place of pi/2 and below 1
    exact = b.fma(n, b.constant(-first), x)
    product, rest = two_product(b, n, b.constant(second))
    # where the product is more than twice the rest, `lost` is within an ulp of r, as r itself is;
    # where neither is, nothing is lost
    r, lost = fast_two_sum(b, exact, b.negate(product))
    low = b.fma(n, b.constant(-third), b.sub(lost, rest))
    near = b.below(b.abs(x), c.reduced_by_fma)
    far = b.differ(near, b.equals(b.constant(0.0), 0.0))
    found = b.where_any(far, lambda inside: _far(inside, x), (b.bits(shifted), r, low))
    return found[0], found[1], found[2]


def _two_over_pi(b: LaneBuilder) -> float:
    return 0.6366197466850281 if b.format is BINARY32 else 0.6366197723675814


def _far(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The same for large x, in f64 for both formats."""
    if b.format is BINARY64:
        n, (r, low) = _payne_hanek(b, x)
        return b.bits(n), r, low
    w = b.in_binary64()
    n, (r, low) = _payne_hanek(w, w.widen(x))
    short = b.narrow(r, b.float_type)
    rest = b.narrow(w.add(w.sub(r, w.widen(short)), low), b.float_type)
    shift = b.constant(rounding_shift(BINARY32) - BINARY32.exponent_bias)
    # n mod 4 again: the shifted n of f64 does not fit
    whole = w.sub(n, w.constant(rounding_shift(BINARY64) - BINARY64.exponent_bias))
    return b.bits(b.add(b.narrow(whole, b.float_type), shift)), short, rest


def _payne_hanek(b: LaneBuilder, x: SSAValue) -> tuple[SSAValue, Word2]:
    """(n + shift, r) for |x| >= 2^15, n modulo a multiple of 4."""
    form = b.format
    field = b.int_and(b.bits(b.abs(x)), b.integer(0x7FF << form.mantissa_bits))
    biased = b.to_float(b.shift_right_signed(field, form.mantissa_bits))
    # Digits before the start, times x, are multiples of 4: floor((exponent - 54) / 53).
    above = b.add(biased, b.constant(-54.0 - form.exponent_bias + 0.5))
    start = b.at_least(b.floor(b.mul(above, b.constant(1 / 53))), 0.0)
    scale_exponent = b.fma(start, b.constant(-53.0), b.constant(rounding_shift(form)))
    scaled = b.mul(x, b.from_bits(b.shift_left(b.bits(scale_exponent), form.mantissa_bits)))
    four, quarter = b.constant(-4.0), b.constant(0.25)

    def modulo_four(value: SSAValue) -> SSAValue:
        return b.fma(b.round_even(b.mul(value, quarter)), four, value)

    terms: list[SSAValue] = []
    for k, digit in enumerate(_window(b, start)):
        factor = b.mul(scaled, b.constant(2.0 ** (-53 * k)))
        product, rest = two_product(b, factor, digit)
        terms += [modulo_four(product) if k < 2 else product]
        terms += [modulo_four(rest) if k == 0 else rest] if k < 4 else []
    return _fraction(b, terms)


def _window(b: LaneBuilder, start: SSAValue) -> list[SSAValue]:
    """DIGITS[start], … by halving; start <= 18. One bit of `start` at a time."""
    values = [b.constant(digit * 2.0**-53) for digit in DIGITS]
    for step in (16, 8, 4, 2, 1):
        taken = b.compare("oge", start, b.constant(float(step)))
        start = b.select(taken, b.sub(start, b.constant(float(step))), start)
        count = WINDOW + step - 1
        values = [
            b.select(taken, values[k + step], values[k]) if k + step < len(values) else values[k]
            for k in range(min(count, len(values)))
        ]
    return values


def _fraction(b: LaneBuilder, terms: list[SSAValue]) -> tuple[SSAValue, Word2]:
    """(n + shift, r pi/2) with sum of the terms = n + r, |r| <= 1/2."""
    total, middle, low = terms[0], b.constant(0.0), b.constant(0.0)
    for term in terms[1:]:
        total, lost = two_sum(b, total, term)
        middle, lost = two_sum(b, middle, lost)
        low = b.add(low, lost)
    shift = b.constant(rounding_shift(b.format) - b.format.exponent_bias)
    shifted = b.add(total, shift)
    total, lost = two_sum(b, b.sub(total, b.sub(shifted, shift)), middle)
    r, lost = fast_two_sum(b, total, b.add(lost, low))
    first, second, _ = CONSTANTS[b.format].half_pi
    high, rest = two_product(b, r, b.constant(first))
    rest = b.add(rest, b.fma(r, b.constant(second), b.mul(lost, b.constant(first))))
    return shifted, (high, rest)
