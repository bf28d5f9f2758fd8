"""
``numpy.fft`` inside compiled functions: transforms of one axis by pocketfft, the rest made of them.

float32 is transformed to complex64 and float64 to complex128, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects.dims import Dim
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.library import complex_of
from mlc.dialects.tensor.placing import PadOp
from mlc.frontend.errors import AxisError, located
from mlc.frontend.numpy.complexes import conjugate, real
from mlc.frontend.numpy.creation import arange
from mlc.frontend.numpy.elementwise import astype, divide, multiply, sqrt
from mlc.frontend.numpy.library import LinAlgShapeError, call_library, library_dtype
from mlc.frontend.numpy.padding import roll
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import concatenate, moveaxis, normal_axes, normal_axis
from mlc.frontend.numpy.values import lift, number, result, strong
from mlc.frontend.trace.kinds import is_series
from mlc.frontend.trace.symbolic import as_dim, as_size
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any
ZERO = Dim.const(0)


def _no_points(function: str, count: object) -> ShapeError:
    return located(ShapeError, f"{function}: {count} data points; expected at least one.")


def _sized(x: Tracer, size: Any, axis: int, function: str) -> Tracer:
    """`x` cut off, or filled with zeros, to `size` elements along an axis."""
    wanted = as_dim(size)
    if wanted is None:
        raise located(LinAlgShapeError, f"{function}: the length {size!r} is not an integer.")
    if wanted.constant is not None and wanted.constant < 1:
        raise _no_points(function, wanted)
    if wanted == x.dims[axis]:
        return x
    none = [ZERO] * x.ndim
    high = (*none[:axis], wanted - x.dims[axis], *none[axis + 1 :])
    return result(here().emit(PadOp, x.value, number(0, x.row), low=tuple(none), high=high))


def _scaled(x: Tracer, count: Dim, norm: Any, *, forward: bool) -> Tracer:
    """The library divides backward transforms by their length; `norm` says who divides."""
    if norm not in (None, "backward", "ortho", "forward"):
        message = f"fft: norm={norm!r}; expected 'backward', 'ortho' or 'forward'."
        raise located(ShapeError, message)
    part = np.dtype(x.row.part.numpy)
    if norm == "ortho":
        root = sqrt(lift(as_size(count)).astype(part))
        return divide(x, root) if forward else multiply(x, root)
    if norm == "forward":
        size = lift(as_size(count)).astype(part)
        return divide(x, size) if forward else multiply(x, size)
    return x


def _last(x: Tracer, axis: int, routine: str, function: str) -> Tracer:
    """The routine along one axis."""
    if axis == x.ndim - 1:
        return call_library(routine, x, function=function)[0]
    return moveaxis(call_library(routine, moveaxis(x, axis, -1), function=function)[0], -1, axis)


def _complex(a: Operand, function: str) -> Tracer:
    x = lift(a, function)
    return astype(x, complex_of(library_dtype(function, (x,))).numpy)


def _one(a: Tracer, n: Any, axis: Any, norm: Any, name: str) -> Tracer:
    if not a.ndim:
        raise located(AxisError, f"{name}: a number has no axis to transform.")
    k = normal_axis(axis, a.ndim, name)
    x = a if n is None else _sized(a, n, k, name)
    if x.dims[k].constant == 0:
        raise _no_points(name, 0)
    found = _last(x, k, name, name)
    return _scaled(found, x.dims[k], norm, forward=name in ("fft", "rfft"))


@public(np.fft.fft)
def fft(a: Operand, n: Any = None, axis: Any = -1, norm: Any = None) -> Tracer:
    """out[k] = sum over j of a[j] exp(-2πi jk/n), along an axis."""
    return _one(_complex(a, "fft"), n, axis, norm, "fft")


@public(np.fft.ifft)
def ifft(a: Operand, n: Any = None, axis: Any = -1, norm: Any = None) -> Tracer:
    """The inverse of `fft`."""
    return _one(_complex(a, "ifft"), n, axis, norm, "ifft")


@public(np.fft.rfft)
def rfft(a: Operand, n: Any = None, axis: Any = -1, norm: Any = None) -> Tracer:
    """The first n // 2 + 1 terms of the transform of real numbers."""
    x = lift(a, "rfft")
    dtype = library_dtype("rfft", (x,))
    if dtype.kind == "complex":
        raise located(DTypeError, "rfft: complex numbers have two halves; use fft.")
    return _one(astype(x, dtype.numpy), n, axis, norm, "rfft")


@public(np.fft.irfft)
def irfft(a: Operand, n: Any = None, axis: Any = -1, norm: Any = None) -> Tracer:
    """The inverse of `rfft`: n real numbers, 2 (m - 1) where n is not given."""
    x = _complex(a, "irfft")
    k = normal_axis(axis, x.ndim, "irfft")
    count = (x.dims[k] - 1) * 2 if n is None else as_dim(n)
    if count is None or (count.constant is not None and count.constant < 1):
        raise _no_points("irfft", count)
    x = _sized(x, as_size(count // 2 + 1), k, "irfft")
    found = _from_half(x, k, count)
    return _scaled(found, count, norm, forward=False)


def _from_half(x: Tracer, axis: int, count: Dim) -> Tracer:
    """Real numbers of the first half of their spectrum."""
    if (count // 2) * 2 == count:
        return _last(x, axis, "irfft_even", "irfft")
    if ((count - 1) // 2) * 2 + 1 == count:
        return _last(x, axis, "irfft_odd", "irfft")
    half = moveaxis(x, axis, -1)  # whether the length is even, only a call knows
    rest = half[..., 1 : as_size(count - count // 2)][..., ::-1]
    whole = concatenate((half, conjugate(rest)), axis=-1)
    return moveaxis(real(call_library("ifft", whole, function="irfft")[0]), -1, axis)


def _swapped(norm: Any) -> Any:
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


@public(np.fft.hfft)
def hfft(a: Operand, n: Any = None, axis: Any = -1, norm: Any = None) -> Tracer:
    """The transform of numbers with Hermitian symmetry, which is real."""
    return irfft(conjugate(lift(a, "hfft")), n, axis, _swapped(norm))


@public(np.fft.ihfft)
def ihfft(a: Operand, n: Any = None, axis: Any = -1, norm: Any = None) -> Tracer:
    """The inverse of `hfft`."""
    return conjugate(rfft(a, n, axis, _swapped(norm)))


# Several axes


def _axes(x: Tracer, s: Any, axes: Any, name: str) -> tuple[list[Any], tuple[int, ...]]:
    """The lengths and the axes."""
    if s is not None and not is_series(s):
        raise located(DTypeError, f"{name}: s={s!r}; expected one length for each axis.")
    if axes is None:
        first = 0 if s is None else x.ndim - len(s)
        axes = tuple(range(first, x.ndim))
    found = normal_axes(tuple(axes), x.ndim, name)
    sizes = [None] * len(found) if s is None else list(s)
    if len(sizes) != len(found):
        raise located(ShapeError, f"{name}: {len(sizes)} lengths for {len(found)} axes.")
    return [None if size == -1 else size for size in sizes], found


@public(np.fft.fftn)
def fftn(a: Operand, s: Any = None, axes: Any = None, norm: Any = None) -> Tracer:
    """`fft` along several axes; all where none are named."""
    sizes, found = _axes(lift(a), s, axes, "fftn")
    x = _complex(a, "fftn") if found else strong(a)
    for size, axis in reversed(list(zip(sizes, found, strict=True))):
        x = fft(x, size, axis, norm)
    return x


@public(np.fft.ifftn)
def ifftn(a: Operand, s: Any = None, axes: Any = None, norm: Any = None) -> Tracer:
    """`ifft` along several axes."""
    sizes, found = _axes(lift(a), s, axes, "ifftn")
    x = _complex(a, "ifftn") if found else strong(a)
    for size, axis in reversed(list(zip(sizes, found, strict=True))):
        x = ifft(x, size, axis, norm)
    return x


@public(np.fft.rfftn)
def rfftn(a: Operand, s: Any = None, axes: Any = None, norm: Any = None) -> Tracer:
    """`rfft` along the last of several axes, then `fft` along the others."""
    x = lift(a, "rfftn")
    sizes, found = _axes(x, s, axes, "rfftn")
    if not found:
        raise located(AxisError, "rfftn: at least one axis is needed.")
    x = rfft(x, sizes[-1], found[-1], norm)
    for size, axis in reversed(list(zip(sizes[:-1], found[:-1], strict=True))):
        x = fft(x, size, axis, norm)
    return x


@public(np.fft.irfftn)
def irfftn(a: Operand, s: Any = None, axes: Any = None, norm: Any = None) -> Tracer:
    """The inverse of `rfftn`."""
    x = lift(a, "irfftn")
    sizes, found = _axes(x, s, axes, "irfftn")
    if not found:
        raise located(AxisError, "irfftn: at least one axis is needed.")
    for size, axis in zip(sizes[:-1], found[:-1], strict=True):
        x = ifft(x, size, axis, norm)
    return irfft(x, sizes[-1], found[-1], norm)


@public(np.fft.fft2)
def fft2(a: Operand, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Tracer:
    """`fft` along two axes."""
    return fftn(a, s, axes, norm)


@public(np.fft.ifft2)
def ifft2(a: Operand, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Tracer:
    """`ifft` along two axes."""
    return ifftn(a, s, axes, norm)


@public(np.fft.rfft2)
def rfft2(a: Operand, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Tracer:
    """`rfftn` along two axes."""
    return rfftn(a, s, axes, norm)


@public(np.fft.irfft2)
def irfft2(a: Operand, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Tracer:
    """`irfftn` along two axes."""
    return irfftn(a, s, axes, norm)


# Frequencies


@public(np.fft.fftfreq)
def fftfreq(n: Any, d: Any = 1.0) -> Tracer:
    """The frequency of each term of `fft`: 0, 1, …, -2, -1, over n d."""
    size = lift(n, "fftfreq").__index__() if isinstance(n, Tracer) else n
    steps = arange(size)
    half = (size - 1) // 2
    return divide(steps - astype(steps > half, np.int64) * size, multiply(size, d))


@public(np.fft.rfftfreq)
def rfftfreq(n: Any, d: Any = 1.0) -> Tracer:
    """The frequency of each term of `rfft`."""
    return divide(arange(n // 2 + 1), multiply(n, d))


@public(np.fft.fftshift)
def fftshift(x: Operand, axes: Any = None) -> Tracer:
    """The zero frequency moved to the middle."""
    return _shifted(x, axes, inverse=False)


@public(np.fft.ifftshift)
def ifftshift(x: Operand, axes: Any = None) -> Tracer:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, inverse=True)


def _shifted(x: Operand, axes: Any, *, inverse: bool) -> Tracer:
    source = lift(x, "fftshift")
    found = normal_axes(axes, source.ndim, "fftshift")
    sizes: Sequence[Any] = [source.shape[k] for k in found]
    shifts = tuple(-(size // 2) if inverse else size // 2 for size in sizes)
    return roll(source, shifts, found)


__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
