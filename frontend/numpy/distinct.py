"""The different elements of an array, or its different parts along an axis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mlc.dialects.dtypes import I64
from mlc.frontend.numpy.counted import true_positions
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.numpy.elementwise import (
    astype,
    equal,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    not_equal,
    where,
)
from mlc.frontend.numpy.indexing import take
from mlc.frontend.numpy.placement import scattered
from mlc.frontend.numpy.reductions import any_
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.scans import cumsum
from mlc.frontend.numpy.shaping import concatenate, moveaxis, normal_axis, ravel, reshape
from mlc.frontend.numpy.sorting import argsort, number_of, searchsorted, sort, static_size
from mlc.frontend.numpy.values import lift, number, result, spread
from mlc.frontend.trace.symbolic import as_size, is_bound
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

Operand = Any


@public(np.unique)
def unique(
    ar: Operand,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,  # noqa: A002 - NumPy's name
    size: Any = None,
    fill_value: Any = None,
) -> Any:
    """
    The different elements, in order. With `size` so many of the smallest; the rest is `fill_value`
    (the smallest).

    With an axis, the different parts along it, ordered by their elements from the first on; parts
    with NaN differ from each other.
    """
    x = lift(ar)
    if axis is None:
        flat = ravel(x)
        # positions are carried along only for who asks for them
        order = argsort(flat) if return_index or return_inverse else None
        in_order = sort(flat) if order is None else take(flat, order)
        first = begins(in_order, equal_nan=equal_nan)
    else:
        place = normal_axis(axis, x.ndim, "unique")
        flat = moveaxis(x, place, 0)
        rows = reshape(flat, (flat.shape[0], -1))
        order = _row_order(rows)
        in_order = take(flat, order, axis=0)
        first = begins(take(rows, order, axis=0))
    rest = None if fill_value is None else astype(lift(fill_value), x.row.numpy)
    parts = _counted(in_order, first) if size is None else _of_size(in_order, first, size, rest)
    values = parts.of(in_order)
    found = [values if axis is None else moveaxis(values, 0, axis)]
    if return_index and order is not None:
        found.append(replace(parts, rest=None).of(order))
    if return_inverse and order is not None:
        zeros, place_of = number(0, I64, order.dims), cumsum(first) - 1
        inverse = result(scattered(zeros, "0,b->b", [order.value], place_of.value))
        found.append(reshape(inverse, x.shape) if axis is None else inverse)
    if return_counts:
        found.append(parts.ends - parts.starts)
    return found[0] if len(found) == 1 else tuple(found)


@dataclass(frozen=True)
class _Parts:
    """Where different parts begin and end, in order. `rest`: what stands behind them."""

    starts: Any
    ends: Any
    in_range: bool
    rest: Tracer | None = None

    def of(self, x: Tracer) -> Tracer:
        """The elements at the starts."""
        if self.in_range:
            return take(x, self.starts, axis=0)
        rest = x[0] if self.rest is None else self.rest
        one = reshape(result(spread(rest.value, x.dims[1:])), (1, *x.shape[1:]))
        return take(concatenate([x, one]), self.starts, axis=0)


def _counted(in_order: Tracer, first: Tracer) -> _Parts:
    """As many as there are."""
    starts = true_positions(first)
    place, count = arange(starts.shape[0]), starts.shape[0]
    ends = take(starts, minimum(place + 1, count - 1))
    return _Parts(starts, where(equal(place, count - 1), in_order.shape[0], ends), in_range=True)


def _of_size(in_order: Tracer, first: Tracer, size: Any, rest: Tracer | None) -> _Parts:
    """`size` of them."""
    count = static_size(size, "unique", "size")
    # equal parts lie together: where each different one begins, and where the one after it does
    starts: Any = searchsorted(cumsum(first) - 1, arange(as_size(count + 1)))
    return _Parts(starts[:-1], starts[1:], in_range=False, rest=rest)


def begins(parts: Tracer, *, equal_nan: bool = False) -> Tracer:
    """Whether each of the parts, which are in order, differs from the one before it."""
    size = parts.dims[0]
    place: Any = arange(as_size(size))
    if is_bound(size):  # there may be none
        here_, before = parts, take(parts, maximum(place - 1, 0), axis=0)
    else:
        here_, before = parts[1:], parts[:-1]
    differs = not_equal(here_, before)
    if parts.ndim > 1:
        differs = any_(differs, axis=1)
    elif parts.row.kind == "float" and equal_nan:
        differs = logical_and(differs, logical_not(logical_and(isnan(here_), isnan(before))))
    if is_bound(size):
        return logical_or(differs, equal(place, 0))
    return concatenate([full(_leading(parts), True, bool), differs])


def _row_order(rows: Tracer) -> Tracer:
    """The positions of rows in the order of their elements: by the last column first, stably."""
    from mlc.frontend.trace.loops import fori_loop

    columns = rows.dims[1] - 1

    def by_column(k: Any, order: Any) -> Any:
        return take(order, argsort(take(take(rows, number_of(columns) - k, axis=1), order)))

    return fori_loop(0, rows.shape[1], by_column, arange(rows.shape[0]))


def _leading(x: Tracer) -> Any:
    """(1,), or (0,) for an empty array."""
    return (0,) if x.dims[0].constant == 0 else (1,)
