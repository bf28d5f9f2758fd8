"""
Numbers that the elementary functions need to know about f32 and f64, and their polynomials.

Pairs (`high`, `low`) are a number rounded to the format, and what that rounding took from it;
tests/numerics/test_vector_math.py recomputes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from mlc.lazy_dataclass import dataclass
from mlc.passes.math import coefficients_f32, coefficients_f64
from mlc.passes.math.lane_builder import BINARY32, BINARY64, FloatFormat, LaneBuilder

INFINITY = float("inf")
NAN = float("nan")

Pair = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class FormatConstants:
    """What the functions need to know about a format."""

    ln2: Pair
    ln2_short: Pair
    """The first has so many trailing zeros that its product with any exponent is exact."""
    log2_e: Pair
    log10_e: Pair
    log10_2_short: Pair
    """As `ln2_short`, of log10(2)."""
    pi: Pair
    half_pi: tuple[float, float, float]
    exp_low: float
    """Below, exp rounds to 0."""
    exp_zero: float
    """Its 2^m (exponential.py) is 0: nothing below has to be rounded, which takes long."""
    exp_high: float
    """Above, exp overflows."""
    exp2_low: float
    exp2_zero: float
    exp2_high: float
    expm1_low: float
    """Below, expm1 rounds to -1."""
    tanh_one: float
    """From 2|x| = this on, tanh rounds to 1."""
    tanh_near_one: float
    """From 2|x| = this on, 1 - tanh has fewer than four bits left of it in the format."""
    sinh_high: float
    """Above, sinh and cosh overflow."""
    tiny: float
    """Below, x - x^3 rounds to x."""
    huge: float
    """Above, x + 1/x rounds to x, and the square of the root of this is finite."""
    smallest_normal: float
    reduced_by_fma: float
    """Up to here, three terms of pi/2 leave an argument of sin right to the last bit."""
    erfc_zero: float
    """Above, erfc rounds to 0."""


CONSTANTS: Mapping[FloatFormat, FormatConstants] = {
    BINARY32: FormatConstants(
        ln2=(0.6931471824645996, -1.9046542121259336e-09),
        ln2_short=(0.693145751953125, 1.428606765330187e-06),
        log2_e=(1.4426950216293335, 1.925963033500011e-08),
        log10_e=(0.4342944920063019, -1.0103049952192578e-08),
        log10_2_short=(0.301025390625, 4.605039066518657e-06),
        pi=(3.1415927410125732, -8.742277657347586e-08),
        half_pi=(1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        exp_low=-104.0,
        exp_zero=-176.06,
        exp_high=89.0,
        exp2_low=-151.0,
        exp2_zero=-254.0,
        exp2_high=129.0,
        expm1_low=-20.0,
        tanh_one=20.0,
        tanh_near_one=14.0,
        sinh_high=89.45,
        tiny=2.0**-13,
        huge=2.0**60,
        smallest_normal=2.0**-126,
        reduced_by_fma=2.0**15,
        erfc_zero=10.1,
    ),
    BINARY64: FormatConstants(
        ln2=(0.6931471805599453, 2.3190468138462996e-17),
        ln2_short=(0.693147180559663, 2.8235290563031577e-13),
        log2_e=(1.4426950408889634, 2.0355273740931033e-17),
        log10_e=(0.4342944819032518, 1.098319650216765e-17),
        log10_2_short=(0.30102999566383914, 1.42050232272661e-13),
        pi=(3.141592653589793, 1.2246467991473532e-16),
        half_pi=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        exp_low=-746.0,
        exp_zero=-1418.2,
        exp_high=710.0,
        exp2_low=-1076.0,
        exp2_zero=-2046.0,
        exp2_high=1025.0,
        expm1_low=-40.0,
        tanh_one=40.0,
        tanh_near_one=34.0,
        sinh_high=710.5,
        tiny=2.0**-27,
        huge=2.0**500,
        smallest_normal=2.0**-1022,
        reduced_by_fma=2.0**28,
        erfc_zero=27.3,
    ),
}

_POLYNOMIALS: Mapping[FloatFormat, Mapping[str, tuple[float, ...]]] = {
    BINARY32: coefficients_f32.POLYNOMIALS,
    BINARY64: coefficients_f64.POLYNOMIALS,
}

_TABLES: Mapping[FloatFormat, Mapping[str, tuple[float, ...]]] = {
    BINARY32: coefficients_f32.TABLES,
    BINARY64: coefficients_f64.TABLES,
}


def constants_of(b: LaneBuilder) -> FormatConstants:
    """The constants of the builder's format."""
    return CONSTANTS[b.format]


def polynomial(b: LaneBuilder, name: str, x: SSAValue, start: int = 0) -> SSAValue:
    """The minimax polynomial of that name without its first `start` terms, over x^start."""
    return b.polynomial(x, _POLYNOMIALS[b.format][name][start:])


def table(b: LaneBuilder, name: str) -> tuple[float, ...]:
    """The table of that name."""
    return _TABLES[b.format][name]


def first_coefficient(b: LaneBuilder, name: str) -> SSAValue:
    """The constant term of the polynomial."""
    return b.constant(_POLYNOMIALS[b.format][name][0])


def rounding_shift(form: FloatFormat) -> float:
    """
    1.5 * 2^mantissa_bits + bias: adding it to a small float rounds that to an integer n, and leaves
    n + bias in the low bits, one shift away from 2^n.
    """
    return 1.5 * 2.0**form.mantissa_bits + form.exponent_bias


def power_of_two(b: LaneBuilder, shifted: SSAValue) -> SSAValue:
    """2^n from n + `rounding_shift`."""
    return b.from_bits(b.shift_left(b.bits(shifted), b.format.mantissa_bits))


def keep_tiny(b: LaneBuilder, x: SSAValue, result: SSAValue) -> SSAValue:
    """x where f(x) = x + O(x^3) rounds to x, zeros and their signs included; else the result."""
    return b.select(b.below(b.abs(x), constants_of(b).tiny), x, result)
