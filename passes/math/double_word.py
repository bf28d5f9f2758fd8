"""
Numbers as unevaluated sums of two floats, for steps whose rounding would be seen in the result.

SOURCE: T. J. Dekker, Numer. Math. 18, 1971; M. Joldes, J.-M. Muller, V. Popescu, Tight and rigorous
error bounds for basic building blocks of double-word arithmetic, ACM TOMS 44(2), 2017.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.lane_builder import LaneBuilder

Word2 = tuple[SSAValue, SSAValue]
"""high + low, |low| at most a few ulp(high)."""


def fast_two_sum(b: LaneBuilder, x: SSAValue, y: SSAValue) -> Word2:
    """x + y exactly, for |x| >= |y| or x = 0."""
    total = b.add(x, y)
    return total, b.add(b.sub(x, total), y)


def two_sum(b: LaneBuilder, x: SSAValue, y: SSAValue) -> Word2:
    """x + y exactly."""
    total = b.add(x, y)
    part = b.sub(total, x)
    return total, b.add(b.sub(x, b.sub(total, part)), b.sub(y, part))


def two_product(b: LaneBuilder, x: SSAValue, y: SSAValue) -> Word2:
    """x * y exactly, unless it underflows."""
    product = b.mul(x, y)
    return product, b.fma(x, y, b.negate(product))


def product(b: LaneBuilder, x: Word2, y: Word2) -> Word2:
    """x * y, within 2^-104 (f64)."""
    high, low = two_product(b, x[0], y[0])
    return high, b.fma(x[0], y[1], b.fma(x[1], y[0], low))


def quotient(b: LaneBuilder, x: Word2, y: Word2) -> Word2:
    """x / y with one division, within a few 2^-104 (f64); 1 / y must be a normal number."""
    inverse = b.div(b.constant(1.0), y[0])
    high = b.mul(x[0], inverse)
    minus = b.negate(high)
    rest = b.add(b.fma(minus, y[0], x[0]), b.fma(minus, y[1], x[1]))
    return high, b.mul(rest, inverse)


def square_root(b: LaneBuilder, x: Word2) -> Word2:
    """The root of x > 0, within a few 2^-104 (f64)."""
    high = b.sqrt(x[0])
    rest = b.add(b.fma(b.negate(high), high, x[0]), x[1])
    return high, b.div(b.mul(rest, b.constant(0.5)), high)
