"""
What programs only store, to and from f32 and i32: fp8, fp4 and integers of 2 and 4 bits, an element
a byte. Floats round to nearest even, as ml_dtypes rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import (
    F4E2M1FN,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F32,
    I32,
    DType,
)
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.lowering.loops.element import Lanes


@dataclass(frozen=True, kw_only=True)
class _Format:
    """
    A format with a sign, and the f32 numbers at which its encoding changes.

    SOURCE: Micikevicius et al., "FP8 formats for deep learning", arXiv 2209.05433; those that end
    in FNUZ: Noune et al., "8-bit numerical formats for deep neural networks", arXiv 2206.02915;
    fp4: OCP Microscaling Formats (MX) Specification 1.0
    """

    mantissa_bits: int
    exponent_bias: int
    overflow: float  # the largest f32 that still rounds to a finite number
    beyond: int  # what larger ones become
    nan: int
    first_special: int | None = None  # encodings from here on are inf and NaN; None: none is
    sign: int = 0x80
    one_zero: bool = False  # the encoding of -0 is NaN

    @property
    def shift(self) -> int:
        """How many bits of f32's mantissa the format lacks."""
        return 23 - self.mantissa_bits


_FORMATS = {
    F8E4M3FN: _Format(
        mantissa_bits=3,
        exponent_bias=7,
        overflow=464.0,
        beyond=0x7F,
        nan=0x7F,
        first_special=0x7F,
    ),
    F8E5M2: _Format(
        mantissa_bits=2,
        exponent_bias=15,
        overflow=61439.99609375,
        beyond=0x7C,
        nan=0x7E,
        first_special=0x7C,
    ),
    F8E4M3FNUZ: _Format(
        mantissa_bits=3,
        exponent_bias=8,
        overflow=247.9999847412109375,
        beyond=0x80,
        nan=0x80,
        one_zero=True,
    ),
    F8E5M2FNUZ: _Format(
        mantissa_bits=2,
        exponent_bias=16,
        overflow=61439.99609375,
        beyond=0x80,
        nan=0x80,
        one_zero=True,
    ),
    F4E2M1FN: _Format(
        mantissa_bits=1,
        exponent_bias=1,
        overflow=6.999999523162841796875,
        beyond=0x7,
        nan=0x8,
        sign=0x8,
    ),
}


def decoded(e: Lanes, value: SSAValue, dtype: DType) -> SSAValue:
    """Stored bits as f32, or as i32 where they are integers."""
    wide = e.cast("extui", value, i32)
    if dtype.stores_integers:
        return _low_bits(e, wide, dtype)
    if dtype is F8E8M0FNU:
        return _power_of_two(e, wide)
    form = _FORMATS[dtype]
    # the fields moved into place, then scaled by the difference of the biases
    size = e.apply(arith.AndIOp, wide, e.constant(form.sign - 1, I32))
    placed = e.bitcast(e.apply(arith.ShLIOp, size, e.constant(form.shift, I32)), f32)
    number = e.apply(arith.MulfOp, placed, e.constant(2.0 ** (127 - form.exponent_bias), F32))
    if form.first_special is not None:
        special = e.constant(float("nan"), F32)
        if form.beyond != form.nan:
            is_inf = e.compare("eq", size, e.constant(form.beyond, I32), I32)
            special = e.select(is_inf, e.constant(float("inf"), F32), special)
        is_special = e.compare("ge", size, e.constant(form.first_special, I32), I32)
        number = e.select(is_special, special, number)
    elif form.one_zero:
        is_nan = e.compare("eq", wide, e.constant(form.nan, I32), I32)
        number = e.select(is_nan, e.constant(float("nan"), F32), number)
    bits = e.bitcast(number, i32)
    sign = e.apply(arith.AndIOp, wide, e.constant(form.sign, I32))
    sign = e.apply(arith.ShLIOp, sign, e.constant(32 - form.sign.bit_length(), I32))
    return e.bitcast(e.apply(arith.OrIOp, bits, sign), f32)


def encoded(e: Lanes, value: SSAValue, dtype: DType) -> SSAValue:
    """
    f32 rounded to nearest even as stored bits.

    Subnormal results are rounded by the addition of a number whose last place is theirs.
    """
    if dtype is F8E8M0FNU:
        return _exponent(e, value)
    form = _FORMATS[dtype]
    bits = e.bitcast(value, i32)
    sign = e.apply(arith.ShRUIOp, bits, e.constant(32 - form.sign.bit_length(), I32))
    sign = e.apply(arith.AndIOp, sign, e.constant(form.sign, I32))
    size = e.apply(arith.AndIOp, bits, e.constant(0x7FFFFFFF, I32))
    absolute = e.bitcast(size, f32)
    # normal: add half a unit (a little less where the last place is even), with the new bias
    odd = e.apply(arith.ShRUIOp, size, e.constant(form.shift, I32))
    odd = e.apply(arith.AndIOp, odd, e.constant(1, I32))
    rebias = (form.exponent_bias - 127) * 2**23 + 2 ** (form.shift - 1) - 1
    normal = e.apply(arith.AddiOp, e.apply(arith.AddiOp, size, e.constant(rebias, I32)), odd)
    normal = e.apply(arith.ShRUIOp, normal, e.constant(form.shift, I32))
    least = 2.0 ** (1 - form.exponent_bias)  # the smallest normal number
    magic = e.constant(least * 2.0**form.shift, F32)
    tiny = e.apply(
        arith.SubiOp, e.bitcast(e.apply(arith.AddfOp, absolute, magic), i32), e.bitcast(magic, i32)
    )
    is_tiny = e.compare("lt", absolute, e.constant(least, F32), F32)
    found = e.select(is_tiny, tiny, normal)
    too_large = e.compare("gt", absolute, e.constant(form.overflow, F32), F32)
    found = e.select(too_large, e.constant(form.beyond, I32), found)
    is_nan = e.compare("ne", value, value, F32)
    found = e.select(is_nan, e.constant(form.nan, I32), found)
    if form.one_zero:  # no sign beside 0, nor beside NaN, which has it
        nothing = e.constant(0, I32)
        plain = e.apply(arith.AndIOp, found, e.constant(form.sign - 1, I32))
        sign = e.select(e.compare("eq", plain, nothing, I32), nothing, sign)
    return e.cast("trunci", e.apply(arith.XOrIOp, found, sign), i8)


def encoded_integer(e: Lanes, value: SSAValue, dtype: DType, *, saturates: bool) -> SSAValue:
    """i32 as bits of an integer of 2 or 4 bits, its low ones or the nearest one that there is."""
    if saturates:
        low, high = (e.constant(bound, I32) for bound in (dtype.lowest, dtype.highest))
        value = e.select(e.compare("lt", value, low, I32), low, value)
        value = e.select(e.compare("gt", value, high, I32), high, value)
    mask = e.constant(int(dtype.highest) - int(dtype.lowest), I32)
    return e.cast("trunci", e.apply(arith.AndIOp, value, mask), i8)


def _low_bits(e: Lanes, wide: SSAValue, dtype: DType) -> SSAValue:
    away = e.constant(32 - dtype.bits, I32)
    back = arith.ShRSIOp if dtype.lowest < 0 else arith.ShRUIOp
    return e.apply(back, e.apply(arith.ShLIOp, wide, away), away)


def _power_of_two(e: Lanes, wide: SSAValue) -> SSAValue:
    """
    e8m0: 2 to the power of the bits less 127, 255 is NaN.

    SOURCE: OCP Microscaling Formats (MX) Specification 1.0
    """
    placed = e.bitcast(e.apply(arith.ShLIOp, wide, e.constant(23, I32)), f32)
    is_least = e.compare("eq", wide, e.constant(0, I32), I32)
    found = e.select(is_least, e.constant(2.0**-127, F32), placed)
    is_nan = e.compare("eq", wide, e.constant(255, I32), I32)
    return e.select(is_nan, e.constant(float("nan"), F32), found)


def _exponent(e: Lanes, value: SSAValue) -> SSAValue:
    """
    e8m0, the nearest power of 2, the larger one of two; what is not positive is NaN. As ml_dtypes
    has it, all between the least power and the next is the next.
    """
    bits = e.bitcast(value, i32)
    rounded = e.apply(arith.AddiOp, bits, e.constant(1 << 22, I32))
    rounded = e.apply(arith.ShRUIOp, rounded, e.constant(23, I32))
    above = e.cast("extui", e.compare("gt", bits, e.constant(1 << 22, I32), I32), i32)
    small = e.compare("lt", bits, e.constant(1 << 23, I32), I32)
    found = e.select(small, above, rounded)
    is_number = e.compare("gt", value, e.constant(0, F32), F32)  # false of NaN
    found = e.select(is_number, found, e.constant(255, I32))
    return e.cast("trunci", found, i8)
