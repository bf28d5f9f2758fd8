"""Running sums, products and extremes, and differences of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dtypes import BOOL, DType, numpy_dtype
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.scan import ScanOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.elementwise import not_equal, subtract
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import as_line, broadcast_to, concatenate, normal_axis
from mlc.frontend.numpy.values import convert, dtype_row, lift, result, strong
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def scanned(
    x: Tracer,
    monoid: str,
    axis: Any,
    function: str,
    *,
    row: DType | None = None,
    reverse: bool = False,
) -> Tracer:
    """The running reduction along an axis; of all elements in one row where the axis is None."""
    x = as_line(x, axis)
    place = normal_axis(0 if axis is None else axis, x.ndim, function)
    value = x.value if row is None else convert(x.value, row)
    direction = "backward" if reverse else "forward"
    return result(
        here().emit(ScanOp, value, monoid=monoid, direction=direction, kind="inclusive", axis=place)
    )


def _accumulator(x: Tracer, dtype: Any) -> DType:
    """The dtype in which NumPy adds up: that of its sums."""
    if dtype is not None:
        return dtype_row(dtype)
    return numpy_dtype(np.cumsum(np.zeros(1, x.row.numpy)).dtype)


@public(np.cumsum, casting="unsafe")
def cumsum(a: Operand, axis: Any = None, dtype: Any = None, out: Any = None) -> Tracer:
    """The sums of the elements up to each."""
    x = lift(a)
    return scanned(x, "sum", axis, "cumsum", row=_accumulator(x, dtype))


@public(np.cumprod, casting="unsafe")
def cumprod(a: Operand, axis: Any = None, dtype: Any = None, out: Any = None) -> Tracer:
    """The products of the elements up to each."""
    x = lift(a)
    return scanned(x, "prod", axis, "cumprod", row=_accumulator(x, dtype))


def _cumulative(
    function: str, monoid: str, x: Operand, axis: Any, dtype: Any, include_initial: bool
) -> Tracer:
    source = as_line(lift(x), 0)
    if axis is None and source.ndim != 1:
        raise located(ShapeError, f"{function}: axis= is required for arrays that are not 1-d.")
    place = normal_axis(0 if axis is None else axis, source.ndim, function)
    found = scanned(source, monoid, place, function, row=_accumulator(source, dtype))
    if not include_initial:
        return found
    from mlc.frontend.numpy.creation import full

    shape = tuple(1 if k == place else size for k, size in enumerate(found.shape))
    first = full(shape, 0 if monoid == "sum" else 1, found.row.numpy)
    return concatenate([first, found], place)


@public(getattr(np, "cumulative_sum", None))
def cumulative_sum(
    x: Operand, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Tracer:
    """The sums of the elements up to each; with `include_initial` a zero comes first."""
    return _cumulative("cumulative_sum", "sum", x, axis, dtype, include_initial)


@public(getattr(np, "cumulative_prod", None))
def cumulative_prod(
    x: Operand, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Tracer:
    """The products of the elements up to each; with `include_initial` a one comes first."""
    return _cumulative("cumulative_prod", "prod", x, axis, dtype, include_initial)


@public()
def cummax(a: Operand, axis: Any = 0) -> Tracer:
    """The largest of the elements up to each: ``np.maximum.accumulate``."""
    return scanned(lift(a), "max", axis, "cummax")


@public()
def cummin(a: Operand, axis: Any = 0) -> Tracer:
    """The smallest of the elements up to each: ``np.minimum.accumulate``."""
    return scanned(lift(a), "min", axis, "cummin")


@public()
def cumlogsumexp(a: Operand, axis: Any = 0) -> Tracer:
    """log(sum(exp(x))) of the elements up to each: ``np.logaddexp.accumulate``."""
    return scanned(lift(a), "logsumexp", axis, "cumlogsumexp")


MONOIDS: dict[Any, str] = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logaddexp: "logsumexp",
    np.logical_or: "max",
    np.logical_and: "min",
}
"""Ufuncs whose running reductions are scans."""


def monoid_accumulate(
    ufunc: np.ufunc, x: Tracer, axis: Any, function: str, dtype: Any, row: DType | None
) -> Tracer:
    """ufunc.accumulate of one of `MONOIDS`."""
    monoid = MONOIDS[ufunc]
    if row is None:
        row = x.row if dtype is None else dtype_row(dtype)
    if dtype is None and monoid in ("sum", "prod"):
        row = _accumulator(x, None)
    return scanned(x, monoid, axis, function, row=row)


def _ends(x: Tracer, value: Operand, axis: int) -> list[Tracer]:
    """What `diff` puts before or behind an array: a number is repeated along the other axes."""
    if value is None:
        return []
    end = strong(value)
    if end.ndim:
        return [end]
    return [broadcast_to(end, tuple(1 if k == axis else d for k, d in enumerate(x.shape)))]


@public(np.diff)
def diff(a: Operand, n: int = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Tracer:
    """The differences of neighbours along an axis, `n` times."""
    x = lift(a)
    if not x.ndim:
        raise located(ShapeError, "diff: the operand is a number; expected at least one axis.")
    if n < 0:
        raise located(ShapeError, f"diff: the order is {n}; expected 0 or more.")
    place = normal_axis(axis, x.ndim, "diff")
    if n and (prepend is not None or append is not None):
        x = concatenate([*_ends(x, prepend, place), x, *_ends(x, append, place)], place)
    lead = (slice(None),) * place
    is_bool = x.row is BOOL
    for _ in range(n):
        after: Any = x[(*lead, slice(1, None))]
        before: Any = x[(*lead, slice(None, -1))]
        x = not_equal(after, before) if is_bool else subtract(after, before)
    return x
