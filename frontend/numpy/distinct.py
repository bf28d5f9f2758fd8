"""The different elements of an array, or its different parts along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dtypes import I64
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.numpy.elementwise import (
    astype,
    isnan,
    logical_and,
    logical_not,
    not_equal,
)
from mlc.frontend.numpy.indexing import take
from mlc.frontend.numpy.placement import scattered
from mlc.frontend.numpy.reductions import any_
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.scans import cumsum
from mlc.frontend.numpy.shaping import concatenate, moveaxis, normal_axis, ravel, reshape
from mlc.frontend.numpy.sorting import argsort, number_of, searchsorted, sort, static_size
from mlc.frontend.numpy.values import lift, number, result, spread
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.tracer import Tracer

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
    The `size` smallest different elements, in order; the rest is `fill_value` (the smallest).

    With an axis, the different parts along it, ordered by their elements from the first on; parts
    with NaN differ from each other.
    """
    count = static_size(size, "unique", "size")
    x = lift(ar)
    if axis is None:
        flat = ravel(x)
        # positions are carried along only for who asks for them
        order = argsort(flat) if return_index or return_inverse else None
        in_order = sort(flat) if order is None else take(flat, order)
        differs = not_equal(in_order[1:], in_order[:-1])
        if x.row.kind == "float" and equal_nan:
            both = logical_and(isnan(in_order[1:]), isnan(in_order[:-1]))
            differs = logical_and(differs, logical_not(both))
    else:
        place = normal_axis(axis, x.ndim, "unique")
        flat = moveaxis(x, place, 0)
        rows = reshape(flat, (flat.shape[0], -1))
        order = _row_order(rows)
        in_order = take(flat, order, axis=0)
        rows = take(rows, order, axis=0)
        differs = any_(not_equal(rows[1:], rows[:-1]), axis=1)
    first = concatenate([full(_leading(flat), True, bool), differs])
    place_of = cumsum(first) - 1
    # equal parts lie together: where each different one begins, and where the one after it does
    starts = searchsorted(place_of, arange(as_size(count + 1)))
    rest = in_order[0] if fill_value is None else astype(lift(fill_value), x.row.numpy)
    values = _begun(in_order, starts[:-1], rest)
    found = [values if axis is None else moveaxis(values, 0, axis)]
    if return_index and order is not None:
        found.append(_begun(order, starts[:-1], order[0]))
    if return_inverse and order is not None:
        zeros = number(0, I64, flat.dims[:1])
        inverse = result(scattered(zeros, "0,b->b", [order.value], place_of.value))
        found.append(reshape(inverse, x.shape) if axis is None else inverse)
    if return_counts:
        found.append(starts[1:] - starts[:-1])
    return found[0] if len(found) == 1 else tuple(found)


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


def _begun(parts: Tracer, starts: Tracer, rest: Tracer) -> Tracer:
    """The parts at the starts; `rest` where a start is behind them all."""
    one = reshape(result(spread(rest.value, parts.dims[1:])), (1, *parts.shape[1:]))
    return take(concatenate([parts, one]), starts, axis=0)
