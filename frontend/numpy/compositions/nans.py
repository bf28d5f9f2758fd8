"""Reductions that leave NaN out."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.frontend import numpy as mnp
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.shaping import normal_axes
from mlc.frontend.numpy.sorting import joined_rows
from mlc.frontend.numpy.values import is_inexact, strong
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.tracer import Tracer

Operand = Any
ABSENT = "of nothing but NaN the warning is left out"


def _numbers(a: Operand, where: Any = True) -> tuple[Tracer, Any]:
    """The array, and where its numbers are."""
    x = strong(a)
    if not is_inexact(x.row):
        return x, where
    held = ~mnp.isnan(x)
    return x, held if where is True else held & where


def _whole(x: Tracer) -> bool:
    return not is_inexact(x.row)


@composed(np.nansum, casting="unsafe")
def nansum(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The sum of the numbers along axes."""
    x, held = _numbers(a, where)
    return mnp.sum(x, axis, dtype, None, keepdims, initial, held)


@composed(np.nanprod, casting="unsafe")
def nanprod(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The product of the numbers along axes."""
    x, held = _numbers(a, where)
    return mnp.prod(x, axis, dtype, None, keepdims, initial, held)


@composed(np.nanmean, casting="unsafe", but=ABSENT)
def nanmean(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Tracer:
    """The mean of the numbers along axes."""
    x, held = _numbers(a, where)
    return mnp.mean(x, axis, dtype, None, keepdims, where=held)


@composed(np.nanvar, casting="unsafe", but=ABSENT)
def nanvar(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: Any = None,
) -> Tracer:
    """The mean squared distance of the numbers from their mean; NaN where there are too few."""
    ddof = ddof if correction is None else correction
    x, held = _numbers(a, where)
    if _whole(x):
        return mnp.var(x, axis, dtype, None, ddof, keepdims, where=where)
    found = mnp.var(x, axis, dtype, None, ddof, keepdims, where=held)
    enough = mnp.sum(held, axis, keepdims=keepdims) > ddof
    return mnp.where(enough, found, np.nan).astype(found.dtype)


@composed(np.nanstd, casting="unsafe", but=ABSENT)
def nanstd(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: Any = None,
) -> Tracer:
    """The square root of `nanvar`."""
    from mlc.frontend.numpy.elementwise import root

    return root(nanvar(a, axis, dtype, None, ddof, keepdims, where=where, correction=correction))


def _extreme(largest: bool, a: Operand, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    name = "max" if largest else "min"
    x = strong(a)
    if _whole(x):
        return getattr(mnp, name)(x, axis, None, keepdims, initial, where)
    beyond = -np.inf if largest else np.inf
    isnan = mnp.isnan(x)
    found = getattr(mnp, name)(mnp.where(isnan, beyond, x), axis, None, keepdims, initial, where)
    absent = isnan if where is True else isnan | ~mnp.asarray(where)
    if initial is None:
        return mnp.where(mnp.all(absent, axis, keepdims=keepdims), np.nan, found)
    return found


@composed(np.nanmax, casting="unsafe", but=ABSENT)
def nanmax(
    a: Operand,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The largest number along axes."""
    return _extreme(True, a, axis, keepdims, initial, where)


@composed(np.nanmin, casting="unsafe", but=ABSENT)
def nanmin(
    a: Operand,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The smallest number along axes."""
    return _extreme(False, a, axis, keepdims, initial, where)


def _position(largest: bool, a: Operand, axis: Any, keepdims: bool) -> Tracer:
    name = "argmax" if largest else "argmin"
    x = strong(a)
    if _whole(x):
        return getattr(mnp, name)(x, axis, keepdims=keepdims)
    absent = mnp.isnan(x)
    beyond = -np.inf if largest else np.inf
    found = getattr(mnp, name)(mnp.where(absent, beyond, x), axis, keepdims=keepdims)
    # a place that there is not, so that reading it is an error
    size = x.size if axis is None else x.shape[axis]
    line = mnp.arange(size)
    none = mnp.all(absent, axis, keepdims=keepdims)
    return mnp.take(line, mnp.where(none, size, found))


NO_NUMBER = "of nothing but NaN the error is an IndexError"


@composed(np.nanargmax, casting="unsafe", but=NO_NUMBER)
def nanargmax(a: Operand, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tracer:
    """The position of the largest number along an axis."""
    return _position(True, a, axis, keepdims)


@composed(np.nanargmin, casting="unsafe", but=NO_NUMBER)
def nanargmin(a: Operand, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tracer:
    """The position of the smallest number along an axis."""
    return _position(False, a, axis, keepdims)


@composed(np.nancumsum, casting="unsafe")
def nancumsum(a: Operand, axis: Any = None, dtype: Any = None, out: Any = None) -> Tracer:
    """The sums of the numbers up to each element."""
    x = strong(a)
    return mnp.cumsum(x if _whole(x) else mnp.where(mnp.isnan(x), 0, x), axis, dtype)


@composed(np.nancumprod, casting="unsafe")
def nancumprod(a: Operand, axis: Any = None, dtype: Any = None, out: Any = None) -> Tracer:
    """The products of the numbers up to each element."""
    x = strong(a)
    return mnp.cumprod(x if _whole(x) else mnp.where(mnp.isnan(x), 1, x), axis, dtype)


@composed(np.nanquantile, casting="unsafe", but=ABSENT + "; only method='linear'")
def nanquantile(
    a: Operand,
    q: Operand,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Tracer:
    """The value below which the share q of the numbers lies."""
    x = strong(a)
    if _whole(x):
        return mnp.quantile(x, q, axis, method=method, keepdims=keepdims)
    if method != "linear" or weights is not None:
        from mlc.frontend.errors import NotSupportedError, located

        raise located(NotSupportedError, "nanquantile: only method='linear', without weights.")
    axes = normal_axes(axis, x.ndim, "nanquantile")
    rows = joined_rows(x, axes, "nanquantile")[0]
    in_order = mnp.sort(rows)  # NaN comes last
    count = mnp.sum(~mnp.isnan(rows), axis=-1)
    share = mnp.asarray(q, dtype=np.float64)
    last = mnp.maximum(count - 1, 0)
    place = mnp.reshape(share, (*share.shape, *(1 for _ in last.shape))) * last
    low = mnp.floor(place).astype(np.int64)
    high = mnp.minimum(low + 1, last)
    part = (place - low).astype(x.dtype)
    below, above = (_at(in_order, k, share.ndim) for k in (low, high))
    step = above - below
    found = mnp.where(part >= 0.5, above - step * (1 - part), below + step * part)
    found = mnp.where(mnp.equal(count, 0), np.nan, found).astype(x.dtype)
    if not keepdims:
        return found
    kept = tuple(1 if k in axes else size for k, size in enumerate(x.shape))
    return mnp.reshape(found, (*share.shape, *kept))


def _at(in_order: Tracer, places: Tracer, lead: int) -> Tracer:
    """The element of each row at the place that each share asks for."""
    size = as_size(in_order.dims[-1])
    wide = mnp.broadcast_to(in_order, (*places.shape, size)) if lead else in_order
    return mnp.take_along_axis(wide, mnp.expand_dims(places, -1), -1)[..., 0]


@composed(np.nanpercentile, casting="unsafe", but=ABSENT + "; only method='linear'")
def nanpercentile(
    a: Operand,
    q: Operand,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Tracer:
    """The value below which q per cent of the numbers lie."""
    share = mnp.asarray(q, dtype=np.float64) / 100
    return nanquantile(a, share, axis, None, False, method, keepdims, weights=weights)


@composed(np.nanmedian, casting="unsafe", but=ABSENT)
def nanmedian(
    a: Operand,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Tracer:
    """The number in the middle, or the mean of the two there."""
    x = strong(a)
    if _whole(x):
        return mnp.median(x, axis, keepdims=keepdims)
    axes = normal_axes(axis, x.ndim, "nanmedian")
    rows = joined_rows(x, axes, "nanmedian")[0]
    count = mnp.sum(~mnp.isnan(rows), axis=-1)
    in_order = mnp.sort(rows)
    below, above = (_at(in_order, mnp.maximum(k, 0), 0) for k in ((count - 1) // 2, count // 2))
    above = mnp.where(mnp.equal(count, 0), np.nan, above)
    found = mnp.where(below == above, below, (below + above) / 2).astype(x.dtype)
    if not keepdims:
        return found
    return mnp.reshape(found, tuple(1 if k in axes else n for k, n in enumerate(x.shape)))
