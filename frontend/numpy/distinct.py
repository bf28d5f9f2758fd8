"""The different elements of an array, or its different parts along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.letters import ALPHABET
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.numpy.elementwise import (
    astype,
    isnan,
    less,
    logical_and,
    logical_not,
    not_equal,
    where,
)
from mlc.frontend.numpy.indexing import take
from mlc.frontend.numpy.placement import placed_bins, scattered
from mlc.frontend.numpy.reductions import any_
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.scans import cumsum
from mlc.frontend.numpy.shaping import concatenate, moveaxis, normal_axis, ravel, reshape
from mlc.frontend.numpy.sorting import argsort, number_of, static_size
from mlc.frontend.numpy.values import lift, number, result, spread
from mlc.frontend.tracer import Tracer

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
        order = argsort(flat)
        in_order = take(flat, order)
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
    kept = where(less(place_of, number_of(count)), place_of, number_of(count))
    slot = where(first, kept, number_of(count))
    rest = in_order[0] if fill_value is None else astype(lift(fill_value), x.row.numpy)
    values = _filled(rest, count, slot, in_order)
    found = [values if axis is None else moveaxis(values, 0, axis)]
    if return_index:
        found.append(_filled(order[0], count, slot, order))
    if return_inverse:
        zeros = number(0, I64, flat.dims[:1])
        inverse = result(scattered(zeros, "0,b->b", [order.value], place_of.value))
        found.append(reshape(inverse, x.shape) if axis is None else inverse)
    if return_counts:
        ones = number(1, I64, flat.dims[:1])
        found.append(placed_bins(count + 1, kept, ones)[:-1])
    return found[0] if len(found) == 1 else tuple(found)


def _row_order(rows: Tracer) -> Tracer:
    """The positions of rows in the order of their elements: by the last column first, stably."""
    from mlc.frontend.loops import fori_loop

    columns = rows.dims[1] - 1

    def by_column(k: Any, order: Any) -> Any:
        return take(order, argsort(take(take(rows, number_of(columns) - k, axis=1), order)))

    return fori_loop(0, rows.shape[1], by_column, arange(rows.shape[0]))


def _leading(x: Tracer) -> Any:
    """(1,), or (0,) for an empty array."""
    return (0,) if x.dims[0].constant == 0 else (1,)


def _filled(rest: Tracer, count: Dim, slot: Tracer, values: Tracer) -> Tracer:
    """`count` parts: values at their slots, `rest` elsewhere."""
    inner = values.dims[1:]
    start = spread(rest.value, (count + 1, *inner))
    word = ALPHABET[: len(inner)]
    row = ALPHABET[len(inner)]
    letters = f"0{word},{row}->{row}{word}"
    return result(scattered(start, letters, [slot.value], values.value))[:-1]
