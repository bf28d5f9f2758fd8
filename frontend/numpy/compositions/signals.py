"""Convolutions of lines, windows of arrays as views, products of stacks of vectors."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dims import tensor_type
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.window import ConvOp
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.shaping import normal_axes
from mlc.frontend.numpy.values import result, strong
from mlc.frontend.trace.autocast import rounding
from mlc.frontend.trace.kinds import is_series
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def _lines(function: str, a: Operand, v: Operand) -> tuple[Tracer, Tracer]:
    x, w = strong(a), strong(v)
    x, w = (mnp.reshape(y, (-1,)) if not y.ndim else y for y in (x, w))
    for y in (x, w):
        if y.ndim != 1:
            raise located(ShapeError, f"{function}: object too deep for desired array")
        if y.dims[0].constant == 0:
            raise located(ShapeError, f"{function}: an operand cannot be empty")
    row = np.result_type(x.dtype, w.dtype)
    return x.astype(row), w.astype(row)


def _slid(x: Tracer, w: Tracer, mode: str, function: str) -> Tracer:
    """sum_i x[k + i] w[i], with `w` the shorter one, from where `mode` says."""
    if mode not in ("full", "same", "valid"):
        raise located(ShapeError, f"{function}: mode must be one of 'valid', 'same', or 'full'")
    size = w.shape[0]
    before = {"full": size - 1, "same": size // 2, "valid": 0}[mode]
    after = {"full": size - 1, "same": size - 1 - size // 2, "valid": 0}[mode]
    row = x.dtype
    if row == np.bool_:
        x, w = x.astype(np.int64), w.astype(np.int64)
    if mode != "valid":
        x = mnp.pad(x, (before, after))
    count = x.dims[0] - w.dims[0] + 1
    declared = tensor_type(x.row.ir, (count,))
    letters, rounds = "(u+i),i->u", rounding(ConvOp, x.row)
    found = here().emit(ConvOp, x.value, w.value, letters=letters, declared=declared, **rounds)
    return result(found).astype(row)


@composed(np.convolve)
def convolve(a: Operand, v: Operand, mode: str = "full") -> Tracer:
    """sum_i a[k - i] v[i]."""
    x, w = _lines("convolve", a, v)
    if w.shape[0] > x.shape[0]:
        x, w = w, x
    return _slid(x, mnp.flip(w), mode, "convolve")


@composed(np.correlate)
def correlate(a: Operand, v: Operand, mode: str = "valid") -> Tracer:
    """sum_i a[k + i] conj(v[i])."""
    x, w = _lines("correlate", a, v)
    w = mnp.conj(w) if w.row.kind == "complex" else w
    if w.shape[0] > x.shape[0]:
        return mnp.flip(_slid(w, x, mode, "correlate"))
    return _slid(x, w, mode, "correlate")


@composed(np.lib.stride_tricks.sliding_window_view, but="the windows cannot be written")
def sliding_window_view(
    x: Operand,
    window_shape: Any,
    axis: Any = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Tracer:
    """All windows of an array, along new last axes."""
    source = strong(x)
    sizes = tuple(window_shape) if is_series(window_shape) else (window_shape,)
    axes = normal_axes(axis, source.ndim, "sliding_window_view")
    if writeable:
        raise located(NotSupportedError, "sliding_window_view: writeable=True is not supported.")
    if len(axes) != len(sizes):
        message = "sliding_window_view: must provide as many window sizes as axes."
        raise located(ShapeError, message)
    for place, size in zip(axes, sizes, strict=True):
        if size < 0:
            raise located(ShapeError, "sliding_window_view: `window_shape` is negative.")
        if size > source.shape[place]:
            raise located(ShapeError, "sliding_window_view: window shape larger than input array.")
        count = source.shape[place] - size + 1
        index = mnp.arange(count)[:, None] + mnp.arange(size)
        found = mnp.take(source, index, axis=place)
        source = mnp.moveaxis(found, place + 1, -1)
    return source


@composed(np.lib.stride_tricks.as_strided, but="a copy of what C-contiguous memory would show")
def as_strided(
    x: Operand,
    shape: Any = None,
    strides: Any = None,
    subok: bool = False,
    writeable: bool = True,
    check_bounds: bool | None = None,
) -> Tracer:
    """Elements at steps in memory, which must lie inside the array."""
    source = strong(x)
    sizes = source.shape if shape is None else tuple(shape)
    steps = source.strides if strides is None else tuple(strides)
    if len(sizes) != len(steps):
        raise located(ShapeError, "as_strided: expected as many strides as sizes.")
    width = source.itemsize
    if any(not isinstance(step, int) or step % width for step in steps):
        message = f"as_strided: strides must be known multiples of {width} bytes."
        raise located(NotSupportedError, message)
    last = sum((n - 1) * (s // width) for n, s in zip(sizes, steps, strict=True) if s > 0)
    first = sum((n - 1) * (s // width) for n, s in zip(sizes, steps, strict=True) if s < 0)
    if any(isinstance(n, int) and n == 0 for n in sizes):
        return mnp.empty(sizes, source.dtype)
    if first < 0 or last >= source.size:
        message = f"as_strided: elements {first} to {last} of an array with {source.size}."
        raise located(ShapeError, message, remedy="Use sliding_window_view, slices or reshape.")
    place: Any = 0
    for k, (n, s) in enumerate(zip(sizes, steps, strict=True)):
        line = mnp.arange(n) * (s // width)
        place = place + mnp.reshape(line, (-1, *(1 for _ in sizes[k + 1 :])))
    return mnp.take(mnp.ravel(source), mnp.broadcast_to(place, sizes))


@composed(getattr(np, "vecdot", None))
def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Tracer:
    """The products of vectors, of which the first is conjugated."""
    return mnp.linalg.vecdot(x1, x2, axis=axis)


@composed(getattr(np, "matvec", None))
def matvec(x1: Operand, x2: Operand, /) -> Tracer:
    """The products of matrices with vectors."""
    return mnp.matmul(x1, mnp.expand_dims(x2, -1))[..., 0]


@composed(getattr(np, "vecmat", None))
def vecmat(x1: Operand, x2: Operand, /) -> Tracer:
    """The products of vectors, which are conjugated, with matrices."""
    x = strong(x1)
    x = mnp.conj(x) if x.row.kind == "complex" else x
    return mnp.matmul(mnp.expand_dims(x, -2), x2)[..., 0, :]
