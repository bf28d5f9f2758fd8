"""
An element in another dtype, as `mlc.convert` defines it.

Widths that have no instruction of their own go through f32: f16 and bf16 from integers, fp8 from
and to everything. f64 to f16 rounds once, as NumPy does; f64 to bf16 and fp8 rounds to f32 first,
as ml_dtypes does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BF16, BOOL, F8E4M3FN, F8E5M2, F16, F32, F64, I32, DType
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.lowering.loops.element import Lanes


def convert(e: Lanes, value: SSAValue, source: DType, target: DType) -> SSAValue:
    """`value` of dtype `source` as `target`."""
    if source is target:
        return value
    if source.kind == "storage":
        return convert(e, _decoded(e, value, source), F32, target)
    if target.kind == "storage":
        return _encoded(e, convert(e, value, source, F32), target)
    if source.kind == "complex":
        return _from_complex(e, value, source, target)
    if target.kind == "complex":
        part = convert(e, value, source, target.part)
        return e.pair(part, e.constant(0, target.part))
    if target is BOOL:
        return e.compare("ne", value, e.constant(0, source), source)
    if source.kind == "float":
        if target.kind == "float":
            return _between_floats(e, value, source, target)
        return e.cast("fptosi" if target.kind == "int" else "fptoui", value, target.register)
    if target.kind == "float":
        if target.bytes < 4:
            return convert(e, convert(e, value, source, F32), F32, target)
        return e.cast("sitofp" if source.kind == "int" else "uitofp", value, target.ir)
    return _between_integers(e, value, source, target)


def _from_complex(e: Lanes, value: SSAValue, source: DType, target: DType) -> SSAValue:
    real, imag = e.real(value), e.imag(value)
    if target is BOOL:
        parts = (convert(e, x, source.part, BOOL) for x in (real, imag))
        return e.apply(arith.OrIOp, *parts)
    if target.kind == "complex":
        return e.pair(*(convert(e, x, source.part, target.part) for x in (real, imag)))
    return convert(e, real, source.part, target)


def _between_integers(e: Lanes, value: SSAValue, source: DType, target: DType) -> SSAValue:
    if source is not BOOL and target.bytes <= source.bytes:
        narrower = target.bytes < source.bytes
        return e.cast("trunci", value, target.register) if narrower else value
    return e.cast("extsi" if source.kind == "int" else "extui", value, target.register)


def _between_floats(e: Lanes, value: SSAValue, source: DType, target: DType) -> SSAValue:
    if target.bytes > source.bytes:
        return e.cast("extf", value, target.ir)
    if source.bytes == target.bytes:  # f16 and bf16
        return e.cast("truncf", e.cast("extf", value, f32), target.ir)
    if source is F64 and target is F16:
        value = _rounded_to_odd(e, value)
    elif source is F64 and target is BF16:
        value = e.cast("truncf", value, f32)
    return e.cast("truncf", value, target.ir)


def _rounded_to_odd(e: Lanes, value: SSAValue) -> SSAValue:
    """
    f64 as f32, where what is lost sets the last bit: rounded once more, to f16, it is as if rounded
    once.

    SOURCE: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008
    """
    near = e.cast("truncf", value, f32)
    back = e.cast("extf", near, F64.ir)
    inexact = e.compare("ne", back, value, F64)
    size, true_size = e.apply(math.AbsFOp, back), e.apply(math.AbsFOp, value)
    too_far = e.compare("gt", size, true_size, F64)
    bits = e.bitcast(near, i32)
    bits = e.apply(arith.SubiOp, bits, e.cast("extui", too_far, i32))
    bits = e.apply(arith.OrIOp, bits, e.cast("extui", inexact, i32))
    return e.bitcast(bits, f32)


@dataclass(frozen=True, kw_only=True)
class _Format:
    """
    An fp8 format, and the f32 numbers at which its encoding changes.

    SOURCE: Micikevicius et al., "FP8 formats for deep learning", arXiv 2209.05433
    """

    mantissa_bits: int
    exponent_bias: int
    overflow: float  # the largest f32 that still rounds to a finite number
    beyond: int  # what larger ones become
    nan: int
    first_special: int  # encodings from here on are inf and NaN

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
}


def _decoded(e: Lanes, value: SSAValue, dtype: DType) -> SSAValue:
    """fp8 bits as f32: the fields moved into place, then scaled by the difference of the biases."""
    form = _FORMATS[dtype]
    wide = e.cast("extui", value, i32)
    size = e.apply(arith.AndIOp, wide, e.constant(0x7F, I32))
    placed = e.bitcast(e.apply(arith.ShLIOp, size, e.constant(form.shift, I32)), f32)
    number = e.apply(arith.MulfOp, placed, e.constant(2.0 ** (127 - form.exponent_bias), F32))
    special = e.constant(float("nan"), F32)
    if form.beyond != form.nan:
        is_inf = e.compare("eq", size, e.constant(form.beyond, I32), I32)
        special = e.select(is_inf, e.constant(float("inf"), F32), special)
    is_special = e.compare("ge", size, e.constant(form.first_special, I32), I32)
    bits = e.bitcast(e.select(is_special, special, number), i32)
    sign = e.apply(arith.AndIOp, wide, e.constant(0x80, I32))
    sign = e.apply(arith.ShLIOp, sign, e.constant(24, I32))
    return e.bitcast(e.apply(arith.OrIOp, bits, sign), f32)


def _encoded(e: Lanes, value: SSAValue, dtype: DType) -> SSAValue:
    """
    f32 rounded to nearest even as fp8 bits.

    Subnormal results are rounded by the addition of a number whose last place is theirs.
    """
    form = _FORMATS[dtype]
    bits = e.bitcast(value, i32)
    sign = e.apply(arith.ShRUIOp, bits, e.constant(24, I32))
    sign = e.apply(arith.AndIOp, sign, e.constant(0x80, I32))
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
    return e.cast("trunci", e.apply(arith.OrIOp, found, sign), i8)
