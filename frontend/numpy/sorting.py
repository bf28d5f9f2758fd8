"""Order and counting: sort, unique, searchsorted, bincount, histogram, interp, quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dims import Dim, product
from mlc.dialects.dtypes import F64, I64, DType
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.comparison import ShareOp
from mlc.dialects.tensor.partition import ArgpartitionOp, PartitionOp
from mlc.dialects.tensor.sort import ArgsortOp, SearchsortedOp, Sorting, SortOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.creation import arange, full, shape_argument
from mlc.frontend.numpy.elementwise import (
    absolute,
    astype,
    clip,
    divide,
    equal,
    greater,
    greater_equal,
    isnan,
    less,
    logical_and,
    logical_or,
    maximum,
    minimum,
    where,
)
from mlc.frontend.numpy.elementwise_whole import floor_divide, mod
from mlc.frontend.numpy.indexing import take, take_along_axis
from mlc.frontend.numpy.placement import placed_bins
from mlc.frontend.numpy.reductions import max as largest
from mlc.frontend.numpy.reductions import min as smallest
from mlc.frontend.numpy.reductions import sum as total
from mlc.frontend.numpy.registry import public, refuse_bool, refuse_complex
from mlc.frontend.numpy.shaping import (
    as_line,
    concatenate,
    moveaxis,
    normal_axes,
    normal_axis,
    ravel,
    reshape,
)
from mlc.frontend.numpy.values import common_dtype, convert, lift, number, result
from mlc.frontend.trace.kinds import is_number
from mlc.frontend.trace.known import known_array
from mlc.frontend.trace.symbolic import as_dim, is_bound
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def _ordered(
    op: type[Sorting], a: Operand, axis: Any, order: str, function: str, **properties: Any
) -> Tracer:
    """sort or argsort along an axis, which is moved to the end and back."""
    x = ravel(a) if axis is None else lift(a)
    x = as_line(x, axis) if function in ("argsort", "argpartition") else x
    if x.row.kind == "complex":
        return _ordered_complex(x, -1 if axis is None else axis, order, function)
    place = normal_axis(-1 if axis is None else axis, x.ndim, function)
    last = place == x.ndim - 1
    moved = x if last else moveaxis(x, place, -1)
    found = result(here().emit(op, moved.value, order=order, **properties))
    return found if last else moveaxis(found, -1, place)


def _ordered_complex(x: Tracer, axis: Any, order: str, function: str) -> Tracer:
    """By the real parts, of equal ones by the imaginary parts; those with NaN last."""
    from mlc.frontend.numpy.complexes import imag, real
    from mlc.frontend.numpy.compositions.choosing import lexsort

    if order != "ascending" or function not in ("sort", "argsort"):
        raise located(NotSupportedError, f"{function} of complex numbers is not supported yet.")
    re, im = real(x), imag(x)
    unknown = astype(isnan(re), np.int8) * 2 + astype(isnan(im), np.int8)
    places = lexsort((im, re, unknown), axis)
    return places if function == "argsort" else take_along_axis(x, places, axis)


@public(np.sort)
def sort(
    a: Operand, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Tracer:
    """The elements along an axis in ascending order, NaN last."""
    if order is not None:
        raise located(NotSupportedError, "sort: order= is for structured arrays.")
    return _ordered(SortOp, a, axis, "ascending", "sort")


@public(np.argsort)
def argsort(
    a: Operand, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Tracer:
    """The positions of the elements along an axis in ascending order; always stable."""
    if order is not None:
        raise located(NotSupportedError, "argsort: order= is for structured arrays.")
    return _ordered(ArgsortOp, a, axis, "ascending", "argsort")


@public(np.partition)
def partition(a: Operand, kth: Any, axis: Any = -1, kind: str = "introselect") -> Tracer:
    """The elements with the k-th smallest at its place; all in order where k is not one number."""
    return _partitioned(PartitionOp, SortOp, a, kth, axis, "partition")


@public(np.argpartition)
def argpartition(a: Operand, kth: Any, axis: Any = -1, kind: str = "introselect") -> Tracer:
    """The positions that put the k-th smallest element at its place."""
    return _partitioned(ArgpartitionOp, ArgsortOp, a, kth, axis, "argpartition")


def _partitioned(
    op: type[PartitionOp | ArgpartitionOp],
    sorts: type[SortOp | ArgsortOp],
    a: Operand,
    kth: Any,
    axis: Any,
    function: str,
) -> Tracer:
    x = lift(a) if axis is not None else ravel(a)
    x = as_line(x, axis) if function == "argpartition" else x
    place = normal_axis(-1 if axis is None else axis, x.ndim, function)
    length = x.dims[place].constant
    known = as_dim(kth)
    rank = None if known is None else known.constant
    if rank is None or length is None:
        return _ordered(sorts, x, place, "ascending", function)
    if not -length <= rank < length:
        raise located(ShapeError, f"{function}: rank {rank} of an axis with {length} elements.")
    return _ordered(op, x, place, "ascending", function, kth=rank % length, keep="all")


@public()
def top_k(a: Operand, k: int, axis: Any = -1) -> tuple[Tracer, Tracer]:
    """The k largest elements along an axis, the largest first, and their positions."""
    x = lift(a)
    place = normal_axis(axis, x.ndim, "top_k")
    size = x.dims[place].constant
    if size is not None and k > size:
        raise located(ShapeError, f"top_k: {k} elements of an axis with {size}.")
    if size is None or k <= 0 or 2 * k > size:
        order = _ordered(ArgsortOp, x, place, "descending", "top_k")
        order = order[(*(slice(None),) * place, slice(0, k))]
        return take_along_axis(x, order, place), order
    # of equal elements those in front, in their order, as in the order of all
    first = _ordered(ArgpartitionOp, x, place, "descending", "top_k", kth=k - 1, keep="first")
    order = _ordered(ArgsortOp, take_along_axis(x, first, place), place, "descending", "top_k")
    order = take_along_axis(first, order, place)
    return take_along_axis(x, order, place), order


@public(np.searchsorted)
def searchsorted(a: Operand, v: Operand, side: str = "left", sorter: Any = None) -> Tracer:
    """Where to insert each value into a sorted array so that it stays sorted."""
    table, x = lift(a), lift(v)
    if sorter is not None:
        table = take(table, sorter)
    row = common_dtype("searchsorted", (table, x))
    values = (convert(table.value, row), convert(x.value, row))
    return result(here().emit(SearchsortedOp, *values, side=side))


@public(np.digitize)
def digitize(x: Operand, bins: Operand, right: bool = False) -> Tracer:
    """The bin, between ascending borders, that each value belongs to."""
    return searchsorted(bins, x, "left" if right else "right")


def static_size(value: Any, function: str, name: str) -> Dim:
    """The size of a result that otherwise depends on the data; an error that asks for it."""
    if value is None:
        message = f"{function}: the size of the result depends on the data; give {name}=."
        raise located(
            NotSupportedError, message, remedy=f"{function}(x, {name}=n) with a number n."
        )
    (size,) = shape_argument(value, function)
    return size


def number_of(size: Dim) -> Tracer:
    """A size as a traced integer."""
    from mlc.dialects.tensor.create import SizeOp

    return result(here().emit(SizeOp, dims=(size,)))


def _bins(index: Any) -> Dim:
    """How many bins there are, up to the largest number."""
    from mlc.frontend.trace.program_sizes import roomy_symbol

    below = less(index.min(initial=0), 0)
    count = index.max(initial=-1) + 1
    return roomy_symbol("bincount", convert(where(below, -1, count).value, I64))


@public(np.bincount)
def bincount(x: Operand, weights: Any = None, minlength: Any = 0, *, length: Any = None) -> Tracer:
    """How often 0, 1, … occur; a number outside `length` (or `minlength`) is an IndexError."""
    index = lift(x)
    if not index.row.is_integer and index.row.kind != "bool":
        message = f"bincount: the numbers are {index.row.numpy}; expected integers."
        raise located(DTypeError, message)
    index = astype(index, np.int64)
    wanted = as_dim(minlength)
    known = length if length is not None or wanted is None or wanted.constant == 0 else minlength
    if known is None:
        count = _bins(index)
    else:
        count = static_size(known, "bincount", "minlength")
        # negative numbers are errors, not positions
        index = where(less(index, 0), number_of(count), index)
    if weights is None:
        return placed_bins(count, index, number(1, I64, index.dims))
    return placed_bins(count, index, convert(lift(weights).value, F64))


@public(np.histogram_bin_edges)
def histogram_bin_edges(
    a: Operand,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - NumPy's name
    weights: Any = None,
) -> Tracer:
    """The borders of the bins that `histogram` counts in."""
    if isinstance(bins, str):
        raise located(NotSupportedError, f"histogram: bins={bins!r} depends on the data.")
    if as_dim(bins) is None:
        return lift(bins)
    x = lift(a)
    row = x.row if x.row.kind == "float" else F64
    low, high = _ends(x, range)
    count = int(bins)
    edges = _border(low, high, count, arange(count))
    edges = concatenate([edges, reshape(high, (1,))])
    return astype(edges, row.numpy)


def _ends(x: Tracer, ends: Any) -> tuple[Tracer, Tracer]:
    """
    The outermost borders: half on either side of one value. NumPy computes borders from the
    elements' least and largest value in their own dtype, and others in float64.
    """
    low, high = (smallest(x), largest(x)) if ends is None else (lift(v) for v in ends)
    row = x.row if ends is None and x.row.kind == "float" else F64
    low, high = astype(low, row.numpy), astype(high, row.numpy)
    flat = equal(low, high)
    return where(flat, low - 0.5, low), where(flat, high + 0.5, high)


def _border(low: Tracer, high: Tracer, bins: int, number: Tracer) -> Tracer:
    """Borders of bins of one width, by number: each step is rounded, as NumPy's 16 bits are."""
    dtype = low.row.numpy
    wide = np.float32 if low.row.bytes == 2 else dtype

    def rounded(x: Tracer) -> Tracer:
        return astype(astype(x, dtype), wide)

    first = astype(low, wide)
    width = rounded(rounded(astype(high, wide) - first) / bins)
    return astype(first + rounded(rounded(number) * width), dtype)


def _even_bin(x: Tracer, bins: int, ends: Any, row: DType) -> Tracer:
    """
    The bin of each element within the outermost borders, from its distance; a neighbour where
    rounding crossed a border. The borders are computed as `histogram_bin_edges` does.
    """
    low, high = _ends(x, ends)
    wide = astype(high, np.float64) - astype(low, np.float64)
    share = (astype(x, np.float64) - astype(low, np.float64)) * (bins / wide)
    # of elements outside and NaN no bin is asked for
    place = astype(clip(share, 0.0, float(bins - 1)), np.int64)
    before = less(x, astype(_border(low, high, bins, place), row.numpy))
    behind = greater_equal(x, astype(_border(low, high, bins, place + 1), row.numpy))
    behind = logical_and(behind, less(place, bins - 1))
    return where(before, place - 1, where(behind, place + 1, place))


@public(np.histogram)
def histogram(
    a: Operand,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - NumPy's name
    density: Any = None,
    weights: Any = None,
) -> tuple[Tracer, Tracer]:
    """How many elements lie between neighbouring borders; the last bin has both of its."""
    x = ravel(a)
    edges = histogram_bin_edges(x, bins, range)
    count = edges.dims[0] - 1
    if as_dim(bins) is not None:
        row = x.row if x.row.kind == "float" else F64
        place = _even_bin(x, int(bins), range, row)
    else:
        place = searchsorted(edges, x, "right") - 1
        place = where(equal(x, edges[-1]), number_of(count - 1), place)
    outside = logical_or(less(x, edges[0]), greater(x, edges[-1]))
    if x.row.kind == "float":
        outside = logical_or(outside, isnan(x))
    place = where(outside, number_of(count), place)
    if weights is None:
        found = placed_bins(count + 1, place, number(1, I64, x.dims))[:-1]
    else:
        weight = ravel(weights)
        row = weight.row if weight.row.is_inexact else F64
        found = placed_bins(count + 1, place, convert(weight.value, row))[:-1]
    if density:
        width = astype(edges[1:] - edges[:-1], np.float64)
        found = divide(divide(found, width), total(found))
    return found, edges


@public(np.interp)
def interp(
    x: Operand, xp: Operand, fp: Operand, left: Any = None, right: Any = None, period: Any = None
) -> Tracer:
    """
    The piecewise linear function through (xp, fp) at x; xp ascends. With a `period` x and xp count
    modulo it, in any order, and `left` and `right` mean nothing.
    """
    at, places, values = (astype(lift(v), np.float64) for v in (x, xp, fp))
    if places.ndim != 1 or places.dims != values.dims:
        raise located(ShapeError, "interp: xp and fp must be 1-d arrays of one length.")
    if period is not None:
        at, places, values = _periodic(at, places, values, period)
        left = right = None
    last = places.dims[0] - 1
    low, high = values[0] if left is None else left, values[-1] if right is None else right
    before = clip(searchsorted(places, at, "right") - 1, 0, maximum(number_of(last) - 1, 0))
    after = minimum(before + 1, number_of(last))
    x0, x1, y0, y1 = (
        take(places, before),
        take(places, after),
        take(values, before),
        take(values, after),
    )
    width = where(equal(x1, x0), 1.0, x1 - x0)
    found = (y1 - y0) / width * (at - x0) + y0
    found = where(equal(at, places[-1]), values[-1], found)
    found = where(less(at, places[0]), low, found)
    return where(greater(at, places[-1]), high, found)


def _periodic(
    at: Tracer, places: Tracer, values: Tracer, period: Any
) -> tuple[Tracer, Tracer, Tracer]:
    """Positions within one period; the points in order, with a neighbour from either side."""
    if is_number(period) and period == 0:
        raise located(ShapeError, "interp: the period is 0; expected another number.")
    length = absolute(astype(lift(period), np.float64))
    at, places = mod(at, length), mod(places, length)
    order = argsort(places, stable=True)
    places, values = take(places, order), take(values, order)
    around = [places[-1:] - length, places, places[:1] + length]
    return at, concatenate(around), concatenate([values[-1:], values, values[:1]])


# Quantiles


def joined_rows(
    a: Operand, axis: Any, function: str
) -> tuple[Tracer, tuple[Any, ...], tuple[int, ...]]:
    """The array with the axes that are looked at joined as its last one."""
    x = lift(a)
    axes = normal_axes(axis, x.ndim, function)
    kept = tuple(size for k, size in enumerate(x.shape) if k not in axes)
    moved = moveaxis(x, axes, tuple(range(-len(axes), 0))) if axes else x
    count = product(x.dims[k] for k in axes)
    if count.constant == 0:
        raise located(ShapeError, f"{function}: no elements to choose from.")
    from mlc.frontend.trace.symbolic import as_size

    return reshape(moved, (*kept, as_size(count))), kept, axes


def _kept_axes(found: Tracer, a: Operand, axes: tuple[int, ...], lead: int) -> Tracer:
    shape = tuple(1 if k in axes else size for k, size in enumerate(lift(a).shape))
    return reshape(found, (*found.shape[:lead], *shape))


@public(np.quantile)
def quantile(
    a: Operand,
    q: Operand,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Tracer:
    """The value below which the share q of the elements lies; NaN if one is NaN."""
    if method not in ("linear", "lower", "higher", "midpoint", "nearest") or out is not None:
        raise located(NotSupportedError, f"quantile: method={method!r} is not supported yet.")
    refuse_complex("quantile", lift(a).row, "Take x.real, x.imag or abs(x).")
    x, _, axes = joined_rows(a, axis, "quantile")
    row = x.row if x.row.kind == "float" else F64
    if method in ("linear", "midpoint"):
        refuse_bool("quantile", x.row, "Convert with .astype(np.int8).")
        x = astype(x, row.numpy)
    in_order = moveaxis(sort(x), -1, 0)
    share = _share_of(lift(q))
    last = number_of(x.dims[-1] - 1)
    place = astype(share, np.float64) * last
    low = minimum(astype(place, np.int64), last)
    high = minimum(low + 1, last)
    several = share.ndim > 0 and share.row.kind == "float"
    part = astype(place - low, np.result_type(row.numpy, share.row.numpy) if several else row.numpy)
    part = reshape(part, (*part.shape, *(1 for _ in x.shape[:-1])))
    below, above = (take(in_order, i, axis=0) for i in (low, high))
    found = _between(below, above, part, low, method)
    if x.row.kind == "float":
        worst = in_order[-1]
        found = where(isnan(worst), worst, found)
    return _kept_axes(found, a, axes, share.ndim) if keepdims else found


def _share_of(share: Tracer) -> Tracer:
    """The share, which must lie in [0, 1]: judged here if it is known, else when it runs."""
    known = None if share.origins else known_array(here(), share.value)
    if known is None:
        floats = share if share.row.kind == "float" else astype(share, np.float64)
        return astype(result(here().emit(ShareOp, floats.value)), share.row.numpy)
    if not ((known >= 0) & (known <= 1)).all():
        raise located(ShapeError, f"quantile: {ShareOp.FAULT}.")
    return share


def _between(below: Tracer, above: Tracer, part: Tracer, low: Tracer, method: str) -> Tracer:
    """What lies between neighbours; as NumPy, from the nearer one."""
    if method == "lower":
        return below
    if method == "higher":
        return where(equal(part, 0), below, above)
    if method == "midpoint":
        return where(equal(part, 0), below, below + (above - below) * 0.5)
    if method == "nearest":
        odd = reshape(equal(mod(low, 2), 1), part.shape)
        rounds_up = logical_or(greater(part, 0.5), logical_and(equal(part, 0.5), odd))
        return where(rounds_up, above, below)
    step = above - below
    return where(greater_equal(part, 0.5), above - step * (1 - part), below + step * part)


@public(np.percentile)
def percentile(
    a: Operand,
    q: Operand,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Tracer:
    """The value below which q per cent of the elements lie."""
    share = lift(q)
    return quantile(a, astype(share, np.float64) / 100, axis, out, False, method, keepdims)


@public(np.median)
def median(
    a: Operand,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Tracer:
    """The element in the middle, or the mean of the two there; NaN if one is NaN."""
    if out is not None:
        raise located(NotSupportedError, "median: out= is not supported yet.")
    x, _, axes = joined_rows(a, axis, "median")
    row: DType = x.row if x.row.kind == "float" else F64
    in_order, size = moveaxis(sort(x), -1, 0), number_of(x.dims[-1])
    first, second = floor_divide(size - 1, 2), floor_divide(size, 2)
    if is_bound(x.dims[-1]):  # there may be none, of which the median is NaN
        behind = full((1, *in_order.shape[1:]), np.nan, row.numpy)
        in_order = concatenate([astype(in_order, row.numpy), behind])
        first, last = maximum(first, 0), take(in_order, maximum(size - 1, 0), axis=0)
    else:
        last = in_order[-1]
    below, above, worst = (
        astype(part, row.numpy)
        for part in (take(in_order, first, axis=0), take(in_order, second, axis=0), last)
    )
    found = where(equal(below, above), below, (below + above) / 2)
    found = where(isnan(worst), worst, found)
    return _kept_axes(found, a, axes, 0) if keepdims else found
