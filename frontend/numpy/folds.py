"""Ufuncs along an axis: reduce, accumulate and reduceat of any function of two arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dtypes import BOOL, DType, numpy_dtype
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.numpy.elementwise import astype, less, less_equal, logical_and, truth, where
from mlc.frontend.numpy.indexing import index_array, take
from mlc.frontend.numpy.registry import call_function
from mlc.frontend.numpy.scans import MONOIDS, monoid_accumulate
from mlc.frontend.numpy.shaping import (
    broadcast_to,
    concatenate,
    expand_dims,
    moveaxis,
    normal_axis,
    reduced_axes,
)
from mlc.frontend.numpy.values import dtype_row, lift, strong
from mlc.frontend.trace.known import known_array
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any

REDUCERS: dict[Any, Any] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
"""Reductions that have names of their own."""


def reduce(
    ufunc: np.ufunc,
    array: Operand,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """ufunc.reduce(array)."""
    named = REDUCERS.get(ufunc)
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "where": where}
    if named in (np.all, np.any):
        found = call_function(named, (array,), options)
        return found if initial is None else call_function(ufunc, (found, truth(initial)), {})
    if named is not None:
        if dtype is not None and named in (np.max, np.min):
            array = astype(lift(array), dtype)
        elif named in (np.sum, np.prod):
            options["dtype"] = dtype
        return call_function(named, (array,), {**options, "initial": initial})
    if where is not True:
        message = f"{ufunc.__name__}.reduce: where= is not supported yet for this function."
        raise located(NotSupportedError, message)
    return _folded(ufunc, strong(array), axis, dtype, keepdims, initial)


def _folded(
    ufunc: np.ufunc, x: Tracer, axis: Any, dtype: Any, keepdims: bool, initial: Any
) -> Tracer:
    """Element by element, in a loop of the program."""
    function = f"{ufunc.__name__}.reduce"
    x = astype(x, _loop_row(ufunc, x, dtype, function).numpy)
    axes = reduced_axes(axis, x.ndim, function)
    if len(axes) > 1 and ufunc.identity is None:
        message = f"{function}: the function is not reorderable, so one axis may be given."
        raise located(ShapeError, message)
    for place in sorted(axes, reverse=True):
        x = _folded_axis(ufunc, moveaxis(x, place, 0), initial)
        initial = None
    return expand_dims(x, axes) if keepdims and axes else x


def _folded_axis(ufunc: np.ufunc, rows: Tracer, initial: Any) -> Tracer:
    from mlc.frontend.trace.loops import fori_loop

    start = _identity(ufunc, rows.row) if initial is None else initial
    if start is None:
        if rows.dims[0].constant == 0:
            name = f"{ufunc.__name__}.reduce"
            raise located(ShapeError, f"{name}: a zero-size array has no identity.")
        here().assume(rows.dims[0] - 1, f"{ufunc.__name__}.reduce needs an element")
        first, begin = rows[0], 1
    else:
        first, begin = full(rows.shape[1:], start, rows.dtype), 0

    def step(k: Any, carry: Any) -> Any:
        return astype(call_function(ufunc, (carry, take(rows, k, axis=0)), {}), rows.dtype)

    return fori_loop(begin, rows.shape[0], step, first)


def _identity(ufunc: np.ufunc, row: DType) -> Any:
    """The number to begin with; of -1, all bits, in unsigned numbers the largest."""
    number: Any = ufunc.identity
    return row.highest if number == -1 and row.kind == "uint" else number


def _loop_row(ufunc: np.ufunc, x: Tracer, dtype: Any, function: str) -> DType:
    """The dtype in which elements are combined: that of the results, as of the operands."""
    if dtype is not None:
        return dtype_row(dtype, function)
    try:
        loop: Any = (None, x.row.numpy, None)
        found = ufunc.resolve_dtypes(loop, reduction=True)
    except TypeError:
        message = f"{function} is not defined for {x.row.numpy}."
        raise located(DTypeError, message) from None
    return numpy_dtype(found[0])


def accumulate(ufunc: np.ufunc, array: Operand, axis: Any = 0, dtype: Any = None) -> Tracer:
    """ufunc.accumulate(array)."""
    x, function = strong(array), f"{ufunc.__name__}.accumulate"
    if ufunc in MONOIDS:
        row = BOOL if ufunc in (np.logical_or, np.logical_and) else None
        return monoid_accumulate(ufunc, x, axis, function, dtype, row)
    from mlc.frontend.trace.loops import scan

    place = normal_axis(axis, x.ndim, function)
    rows = moveaxis(astype(x, _loop_row(ufunc, x, dtype, function).numpy), place, 0)
    if rows.dims[0].constant == 0:
        return moveaxis(rows, 0, place)

    def step(carry: Any, row: Any) -> Any:
        found = astype(call_function(ufunc, (carry, row), {}), rows.dtype)
        return found, found

    _, rest = scan(step, rows[0], rows[1:])
    return moveaxis(concatenate([rows[:1], rest]), 0, place)


def reduceat(
    ufunc: np.ufunc, array: Operand, indices: Any, axis: Any = 0, dtype: Any = None
) -> Tracer:
    """ufunc.reduceat(array, indices): of the elements from each index up to the next."""
    function = f"{ufunc.__name__}.reduceat"
    if ufunc not in REDUCERS:
        names = ", ".join(sorted(f.__name__ for f in REDUCERS))
        raise located(NotSupportedError, f"{function}: only of {names}.")
    x = strong(array)
    place = normal_axis(axis, x.ndim, function)
    x = moveaxis(x, place, -1)
    starts = _starts(index_array(indices), x, function)
    last = concatenate([starts[1:], full((1,), x.shape[-1], np.int64)])
    ends = where(less(starts, last), last, starts + 1)
    line = arange(x.shape[-1])
    inside = logical_and(less_equal(expand_dims(starts, 1), line), less(line, expand_dims(ends, 1)))
    initial = None
    if ufunc in (np.maximum, np.minimum):
        initial = _beyond(x.row, lowest=ufunc is np.maximum)
    wide = expand_dims(x, -2)
    spread_out = broadcast_to(wide, (*x.shape[:-1], starts.shape[0], x.shape[-1]))
    found = reduce(ufunc, spread_out, -1, dtype, initial=initial, where=inside)
    return moveaxis(found, -1, place)


def _beyond(row: DType, *, lowest: bool) -> Any:
    """What no element is smaller (or larger) than."""
    if row.kind == "float":
        return -np.inf if lowest else np.inf
    if row is BOOL:
        return not lowest
    return row.lowest if lowest else row.highest


def _starts(indices: Tracer, x: Tracer, function: str) -> Tracer:
    """The indices, which count from the front; one outside the axis is an IndexError."""
    from mlc.frontend.errors import OutOfBoundsError

    size = x.dims[-1].constant
    known = None if indices.origins else known_array(here(), indices.value)
    if known is not None and size is not None:
        if ((known < 0) | (known >= size)).any():
            message = f"{function}: an index is out of bounds for an axis of size {size}."
            raise located(OutOfBoundsError, message)
        return astype(indices, np.int64)
    wide = astype(indices, np.int64)
    line = arange(x.shape[-1])
    return take(line, where(less(wide, 0), x.shape[-1], wide))
