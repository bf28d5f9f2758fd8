"""
An element in another dtype, as `mlc.convert` defines it.

Widths that have no instruction of their own go through f32: f16 and bf16 from integers, floats that
are only stored from and to everything (`stored.py`). f64 to f16 rounds once, as NumPy does; f64 to
bf16 and fp8 rounds to f32 first, as ml_dtypes does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BF16, BOOL, F16, F32, F64, I32, DType
from mlc.lowering.loops import stored

if TYPE_CHECKING:
    from mlc.lowering.loops.element import Lanes


def convert(e: Lanes, value: SSAValue, source: DType, target: DType) -> SSAValue:
    """`value` of dtype `source` as `target`."""
    if source is target:
        return value
    if source.kind == "storage":
        wide = I32 if source.stores_integers else F32
        return convert(e, stored.decoded(e, value, source), wide, target)
    if target.kind == "storage":
        if target.stores_integers:
            whole = convert(e, value, source, I32)
            saturates = source.is_inexact
            return stored.encoded_integer(e, whole, target, saturates=saturates)
        return stored.encoded(e, convert(e, value, source, F32), target)
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
