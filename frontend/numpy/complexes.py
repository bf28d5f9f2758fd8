"""Complex numbers: their parts, conjugates and magnitudes."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BOOL, I8
from mlc.dialects.tensor.complex_parts import ComplexOp, ImagOp, MagnitudeOp, RealOp
from mlc.dialects.tensor.elementwise import NegOp
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import view_of
from mlc.frontend.numpy.values import convert, lift, number, result
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def _part(op: type[RealOp | ImagOp], whole: SSAValue) -> SSAValue:
    return here().emit(op, whole)


@public(np.real, numbers=True)
def real(val: Operand) -> Tracer:
    """The real part: a view; real numbers are their own."""
    x = lift(val, "real")
    if x.row.kind != "complex":
        return x
    return view_of(
        x,
        lambda whole: _part(RealOp, whole),
        lambda whole, new: here().emit(ComplexOp, new, _part(ImagOp, whole)),
    )


@public(np.imag, numbers=True)
def imag(val: Operand) -> Tracer:
    """The imaginary part: a view; 0 of real numbers."""
    x = lift(val, "imag")
    if x.row.kind == "complex":
        return view_of(
            x,
            lambda whole: _part(ImagOp, whole),
            lambda whole, new: here().emit(ComplexOp, _part(RealOp, whole), new),
        )
    zero = result(number(0, x.row, x.dims))
    zero.weak = x.weak  # of a Python number NumPy gives a Python number
    return zero


@public(np.conjugate, numbers=True)
def conjugate(x: Operand) -> Tracer:
    """The complex conjugate; real numbers are their own, bools as int8."""
    source = lift(x, "conjugate")
    if source.row.kind != "complex":
        return result(convert(source.value, I8) if source.row is BOOL else source.value)
    b = here().emit
    value = source.value
    return result(b(ComplexOp, b(RealOp, value), b(NegOp, b(ImagOp, value))))


conj = conjugate


def own_conjugate(x: Operand) -> Tracer:
    """`x.conj()`: the complex conjugate; other arrays, bools too, are their own."""
    source = lift(x, "conjugate")
    return conjugate(source) if source.row.kind == "complex" else source


def inverse(x: Tracer) -> Tracer:
    """1 / x of complex numbers, divided by the larger part first as NumPy does."""
    from mlc.frontend.numpy.elementwise import abs as absolute
    from mlc.frontend.numpy.elementwise import where

    re, im = real(x), imag(x)
    wide = absolute(im) <= absolute(re)
    large, small = where(wide, re, im), where(wide, im, re)
    ratio = small / large
    whole = large + small * ratio
    found = where(wide, 1, ratio) / whole, where(wide, ratio, 1) / -whole
    return result(here().emit(ComplexOp, *(part.value for part in found)))


def magnitude(x: Tracer) -> Tracer:
    """|x| of complex numbers."""
    return result(here().emit(MagnitudeOp, x.value))


@public(np.iscomplexobj)
def iscomplexobj(x: Operand) -> bool:
    """Whether the dtype is complex."""
    return lift(x).row.kind == "complex"


@public(np.isrealobj)
def isrealobj(x: Operand) -> bool:
    """Whether the dtype is not complex."""
    return lift(x).row.kind != "complex"


def of_parts(re: Tracer, im: Tracer) -> Tracer:
    """re + i im, of arrays of one shape and dtype."""
    return result(here().emit(ComplexOp, re.value, im.value))
