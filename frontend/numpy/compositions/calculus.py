"""Differences, integrals, products of arrays, statistics of pairs."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.shaping import normal_axes, normal_axis
from mlc.frontend.numpy.values import is_inexact, strong
from mlc.frontend.trace.kinds import is_series
from mlc.frontend.trace.tracer import Tracer

Operand = Any


@composed(np.ptp, casting="unsafe")
def ptp(a: Operand, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tracer:
    """The largest less the smallest element along axes."""
    return mnp.max(a, axis, keepdims=keepdims) - mnp.min(a, axis, keepdims=keepdims)


@composed(np.ediff1d)
def ediff1d(ary: Operand, to_end: Any = None, to_begin: Any = None) -> Tracer:
    """The differences of neighbours in the flattened array, between other numbers."""
    x = mnp.ravel(strong(ary))
    parts = [x[1:] - x[:-1]]
    for ends, at in ((to_begin, 0), (to_end, len(parts) + 1)):
        if ends is not None:
            parts.insert(at, mnp.ravel(strong(ends)).astype(x.dtype))
    return mnp.concatenate(parts)


def _at(x: Tracer, axis: int, part: slice) -> Tracer:
    return x[(slice(None),) * axis + (part,)]


@composed(np.gradient)
def gradient(f: Operand, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided ones at the ends, along each axis."""
    x = strong(f)
    x = x if is_inexact(x.row) else x.astype(np.float64)
    axes = normal_axes(axis, x.ndim, "gradient")
    if not varargs:
        steps: list[Any] = [1.0] * len(axes)
    elif len(varargs) == 1 and not strong(varargs[0]).ndim:
        steps = [varargs[0]] * len(axes)
    elif len(varargs) == len(axes):
        steps = list(varargs)
    else:
        raise located(DTypeError, "gradient: invalid number of arguments.")
    if edge_order > 2:
        raise located(ShapeError, "gradient: 'edge_order' greater than 2 not supported.")
    found = tuple(_along(x, k, step, edge_order) for k, step in zip(axes, steps, strict=True))
    return found[0] if len(found) == 1 else found


def _along(x: Tracer, axis: int, step: Any, order: int) -> Tracer:
    size = x.shape[axis]
    if size < order + 1:
        message = "gradient: shape of array too small to calculate a numerical gradient, at least"
        raise located(ShapeError, f"{message} (edge_order + 1) elements are required.")
    spacing = strong(step)
    before, here_, after = (
        _at(x, axis, part) for part in (slice(None, -2), slice(1, -1), slice(2, None))
    )
    wide = (*(1 for _ in range(axis)), -1, *(1 for _ in range(x.ndim - axis - 1)))
    if spacing.ndim:
        if spacing.ndim > 1:
            raise located(ShapeError, "gradient: distances must be either scalars or 1d")
        if spacing.shape[0] != size:
            message = "gradient: when 1d, distances must match the length of the dimension."
            raise located(ShapeError, message)
        if not is_inexact(spacing.row):
            spacing = spacing.astype(np.float64)
        d = mnp.reshape(spacing[1:] - spacing[:-1], wide)
        d1, d2 = _at(d, axis, slice(None, -1)), _at(d, axis, slice(1, None))
        middle = (
            -d2 / (d1 * (d1 + d2)) * before
            + (d2 - d1) / (d1 * d2) * here_
            + d1 / (d2 * (d1 + d2)) * after
        )
        first, last = _at(d, axis, slice(0, 1)), _at(d, axis, slice(-1, None))
        second, next_to_last = _at(d, axis, slice(1, 2)), _at(d, axis, slice(-2, -1))
    else:
        spacing = step if not isinstance(step, Tracer) else spacing
        middle = (after - before) / (2.0 * spacing)
        first = last = second = next_to_last = spacing
    parts = [_at(x, axis, slice(k, k + 1)) for k in range(order + 1)]
    ends = [_at(x, axis, slice(-k - 1, -k or None)) for k in range(order + 1)]
    if order == 1:
        start, end = (parts[1] - parts[0]) / first, (ends[0] - ends[1]) / last
    else:
        start = _edge(parts, first, second, 1)
        end = _edge(ends, last, next_to_last, -1)
    return mnp.concatenate([start, middle, end], axis).astype(x.dtype)


def _edge(x: list[Tracer], near: Any, far: Any, sign: int) -> Tracer:
    """The derivative at an end, of the parabola through its neighbours."""
    a = -(2.0 * near + far) / (near * (near + far))
    b = (near + far) / (near * far)
    c = -near / (far * (near + far))
    return sign * (a * x[0] + b * x[1] + c * x[2])


@composed(np.trapezoid)
def trapezoid(y: Operand, x: Operand = None, dx: Any = 1.0, axis: int = -1) -> Tracer:
    """The integral by trapezia along an axis."""
    values = strong(y)
    place = normal_axis(axis, values.ndim, "trapezoid")
    d: Any = dx
    if x is not None:
        places = strong(x)
        if places.ndim == 1:
            d = places[1:] - places[:-1]
            d = mnp.reshape(d, (-1, *(1 for _ in range(values.ndim - place - 1))))
        else:
            d = mnp.diff(places, axis=axis)
    both = _at(values, place, slice(1, None)) + _at(values, place, slice(None, -1))
    return mnp.sum(d * both / 2.0, place)


@composed(np.cross)
def cross(
    a: Operand,
    b: Operand,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: Any = None,
) -> Tracer:
    """The vector product of vectors of 2 or 3 elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = strong(a), strong(b)
    x, y = (
        mnp.moveaxis(v, normal_axis(k, v.ndim, "cross"), -1) for v, k in ((x, axisa), (y, axisb))
    )
    sizes = x.shape[-1], y.shape[-1]
    if any(size not in (2, 3) for size in sizes):
        message = "cross: both input arrays must be (arrays of) 3-dimensional vectors."
        raise located(ShapeError, message)
    row = np.promote_types(x.dtype, y.dtype)
    x, y = x.astype(row), y.astype(row)
    p, q = ([v[..., k] for k in range(v.shape[-1])] for v in (x, y))
    if sizes == (2, 2):
        return p[0] * q[1] - p[1] * q[0]
    zero = mnp.zeros((), row)
    p, q = ([*v, zero][:3] for v in (p, q))
    parts = [p[k - 2] * q[k - 1] - p[k - 1] * q[k - 2] for k in range(3)]
    found = mnp.stack(mnp.broadcast_arrays(*parts), -1)
    return mnp.moveaxis(found, -1, normal_axis(axisc, found.ndim, "cross"))


@composed(np.linalg.cross)
def vector_cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Tracer:
    """The vector product of vectors of 3 elements."""
    if any(strong(v).shape[axis] != 3 for v in (x1, x2)):
        message = "cross: both input arrays must be (arrays of) 3-dimensional vectors."
        raise located(ShapeError, message)
    return cross(x1, x2, axis=axis)


@composed(np.kron)
def kron(a: Operand, b: Operand) -> Tracer:
    """Each element of `a` times the whole of `b`."""
    x, y = strong(a), strong(b)
    rank = max(x.ndim, y.ndim)
    x, y = mnp.array(x, ndmin=rank), mnp.array(y, ndmin=rank)
    odd = mnp.reshape(x, tuple(n for size in x.shape for n in (size, 1)))
    even = mnp.reshape(y, tuple(n for size in y.shape for n in (1, size)))
    return mnp.reshape(odd * even, tuple(m * n for m, n in zip(x.shape, y.shape, strict=True)))


@composed(np.unwrap)
def unwrap(p: Operand, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Tracer:
    """The values with multiples of the period added, so that neighbours are near."""
    x = strong(p)
    place = normal_axis(axis, x.ndim, "unwrap")
    steps = mnp.diff(x, axis=place)
    discont = period / 2 if discont is None else discont
    row = np.result_type(steps.dtype, period)
    if np.issubdtype(row, np.integer):
        half, odd = divmod(period, 2)
        ambiguous = odd == 0
    else:
        half, ambiguous = period / 2, True
    low = -half
    moved = mnp.mod(steps - low, period) + low
    if ambiguous:
        moved = mnp.where((moved == low) & (steps > 0), half, moved)
    correction = mnp.where(mnp.abs(steps) < discont, 0, moved - steps)
    first = _at(x, place, slice(0, 1)).astype(row)
    rest = _at(x, place, slice(1, None)) + mnp.cumsum(correction, place)
    return mnp.concatenate([first, rest.astype(row)], place)


# Statistics of pairs


@composed(np.cov, but="fweights and aweights are not supported")
def cov(
    m: Operand,
    y: Operand = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Tracer:
    """The covariances of rows (of columns where not `rowvar`)."""
    if fweights is not None or aweights is not None:
        raise located(NotSupportedError, "cov: weights are not supported.")
    if ddof is not None and ddof != int(ddof):
        raise located(ShapeError, "cov: ddof must be integer")
    x = strong(m)
    if x.ndim > 2 or (y is not None and strong(y).ndim > 2):
        raise located(ShapeError, "cov: an operand has more than 2 dimensions")
    row = np.result_type(x.dtype, np.float64) if dtype is None else np.dtype(dtype)
    if y is not None and dtype is None:
        row = np.result_type(row, strong(y).dtype)
    x = _variables(x.astype(row), rowvar)
    if y is not None:
        x = mnp.concatenate([x, _variables(strong(y).astype(row), rowvar)], 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    away = x - mnp.mean(x, 1, keepdims=True)
    count = mnp.maximum(mnp.asarray(x.shape[1] - ddof), 0).astype(away.real.dtype)
    product = mnp.matmul(away, mnp.conj(mnp.transpose(away)))
    return mnp.squeeze(product * mnp.true_divide(1, count))


def _variables(x: Tracer, rowvar: bool) -> Tracer:
    if x.ndim < 2:
        return mnp.reshape(x, (1, -1))
    return x if rowvar or x.dims[0].constant == 1 else mnp.transpose(x)


@composed(np.corrcoef)
def corrcoef(x: Operand, y: Operand = None, rowvar: bool = True, *, dtype: Any = None) -> Tracer:
    """The correlations of rows (of columns where not `rowvar`)."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    size = mnp.sqrt(mnp.diag(c).real)
    c = c / size[:, None] / size[None, :]
    if c.row.kind != "complex":
        return mnp.clip(c, -1, 1)
    from mlc.frontend.numpy.complexes import of_parts

    return of_parts(mnp.clip(c.real, -1, 1), mnp.clip(c.imag, -1, 1))


def _edges(x: Tracer, bins: Any, ends: Any) -> Tracer:
    """The borders of one axis."""
    return mnp.histogram_bin_edges(x, bins, ends)


@composed(np.histogramdd)
def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - NumPy's name
    density: Any = None,
    weights: Any = None,
) -> tuple[Tracer, tuple[Tracer, ...]]:
    """How many points lie in each cell of a grid."""
    if is_series(sample):
        points = [mnp.ravel(strong(x)) for x in sample]
    else:
        table = strong(sample)
        table = table if table.ndim > 1 else mnp.reshape(table, (-1, 1))
        points = list(iter(mnp.transpose(table)))
    rank = len(points)
    several = list(bins) if is_series(bins) else [bins] * rank
    if len(several) != rank:
        message = "histogramdd: the dimension of bins must be equal to the dimension of the sample."
        raise located(ShapeError, message)
    ranges = [None] * rank if range is None else list(range)
    edges = [_edges(x, b, r) for x, b, r in zip(points, several, ranges, strict=True)]
    place: Any = 0
    outside: Any = False
    total: Any = 1
    for x, edge in zip(points, edges, strict=True):
        count = edge.shape[0] - 1
        at = mnp.searchsorted(edge, x, "right") - 1
        at = mnp.where(x == edge[-1], count - 1, at)
        outside = (at < 0) | (at >= count) | outside
        place, total = place * count + at, total * count
    place = mnp.where(outside, total, place)
    weight = None if weights is None else mnp.ravel(strong(weights))
    found = mnp.bincount(place, weight, length=total + 1)[:-1]
    shape = tuple(edge.shape[0] - 1 for edge in edges)
    found = mnp.reshape(found.astype(np.float64), shape)
    if density:
        for k, edge in enumerate(edges):
            wide = tuple(-1 if j == k else 1 for j, _ in enumerate(edges))
            found = found / mnp.reshape(mnp.diff(edge), wide)
        found = found / mnp.sum(found * _volumes(edges))
    return found, tuple(edges)


def _volumes(edges: list[Tracer]) -> Any:
    """The size of each cell."""
    found: Any = 1.0
    for k, edge in enumerate(edges):
        wide = (-1, *(1 for _ in edges[k + 1 :]))
        found = found * mnp.reshape(mnp.diff(edge), wide)
    return found


@composed(np.histogram2d)
def histogram2d(
    x: Operand,
    y: Operand,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - NumPy's name
    density: Any = None,
    weights: Any = None,
) -> tuple[Tracer, Tracer, Tracer]:
    """How many points lie in each cell of a grid."""
    several = bins if is_series(bins) and len(bins) == 2 else [bins, bins]
    found, (first, second) = histogramdd([x, y], list(several), range, density, weights)
    return found, first, second
