"""
fmod and nextafter: exact functions of two floats.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.formats import INFINITY, NAN, constants_of
from mlc.passes.math.lane_builder import BINARY32, LaneBuilder

STEPS = {True: 13, False: 42}
"""Enough steps for the largest ratio: 2^276 in f32 and 2^2098 in f64, 22 and 50 bits a step."""


def fmod(b: LaneBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """
    x - trunc(x / y) y, exact, with the sign of x. NaN for infinite x and for y = 0.

    A quotient below 2^mantissa_bits is found by one division, which may be one too large; its
    residual is exact. Larger ones take a loop, entered when any lane needs it.
    """
    a, d = b.abs(x), b.abs(y)
    once = _step(b, a, d)
    most = b.constant(2.0 ** (b.format.mantissa_bits - 2))
    near = b.compare("ole", b.div(a, d), most)
    far = b.both(b.compare("ogt", a, d), b.differ(near, b.equals(b.constant(0.0), 0.0)))

    # a subnormal divisor's exponent says nothing about its size
    subnormal = b.below(d, constants_of(b).smallest_normal)
    lifted = b.mul(d, b.constant(2.0**b.format.mantissa_bits))
    normal = b.select(subnormal, lifted, d)

    def by_steps(inside: LaneBuilder) -> list[SSAValue]:
        count = STEPS[inside.format is BINARY32]
        rest = inside.repeat(count, lambda c, left: (_long_step(c, left[0], normal),), (a,))
        return [_step(inside, rest[0], d)]

    result = b.where_any(far, by_steps, (once,))[0]
    result = b.select(b.compare("olt", a, d), a, result)
    invalid = b.either(b.equals(d, 0.0), b.equals(a, INFINITY))
    result = b.select(invalid, b.constant(NAN), result)
    result = b.copysign(result, x)
    return b.select(b.compare("uno", x, y), b.add(x, y), result)


def _step(b: LaneBuilder, a: SSAValue, d: SSAValue) -> SSAValue:
    """a mod d for a / d < 2^mantissa_bits, a, d >= 0."""
    whole = b.trunc(b.div(a, d))
    rest = b.fma(b.negate(whole), d, a)
    return b.select(b.below(rest, 0.0), b.add(rest, d), rest)


def _long_step(b: LaneBuilder, a: SSAValue, d: SSAValue) -> SSAValue:
    """a modulo d or d 2^k, whichever the next digits of the quotient reach; d is normal."""
    bits = b.format.mantissa_bits
    # d 2^k in the binade that is `bits - 1` below that of a; exact, for k >= 0 only
    exponent = b.integer(((1 << (b.format.bits - 1 - bits)) - 1) << bits)
    top, own = b.int_and(b.bits(a), exponent), b.int_and(b.bits(d), exponent)
    further = b.int_sub(b.int_sub(top, own), b.integer((bits - 1) << bits))
    grows = b.int_compare("sgt", further, b.integer(0))
    scaled = b.from_bits(b.int_add(b.bits(d), further))
    return _step(b, a, b.select(grows, scaled, d))


def nextafter(b: LaneBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The float next to x towards y: bit patterns of one sign are ordered as their numbers are."""
    bits = b.bits(x)
    one = b.integer(1)
    outwards = b.differ(b.compare("olt", x, y), b.below(x, 0.0))
    stepped = b.select(outwards, b.int_add(bits, one), b.int_sub(bits, one))
    smallest = b.copysign(b.from_bits(one), y)
    result = b.select(b.equals(x, 0.0), smallest, b.from_bits(stepped))
    result = b.select(b.compare("oeq", x, y), y, result)
    return b.select(b.compare("uno", x, y), b.add(x, y), result)
