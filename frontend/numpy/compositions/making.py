"""Grids, ranges, special matrices and windows: arrays that are made of few numbers."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.errors import ShapeError
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.registry import composed, subscripted
from mlc.frontend.numpy.values import strong
from mlc.frontend.trace.kinds import is_slice, is_tuple
from mlc.frontend.trace.symbolic import as_dim
from mlc.frontend.trace.tracer import Tracer

Operand = Any


@composed(np.meshgrid)
def meshgrid(
    *xi: Operand, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Tracer, ...]:
    """The coordinates of a grid, an array for each axis."""
    if indexing not in ("xy", "ij"):
        raise located(ShapeError, "meshgrid: valid values for `indexing` are 'xy' and 'ij'.")
    count = len(xi)
    axes = list(range(count))
    if indexing == "xy" and count > 1:
        axes[:2] = 1, 0
    thin = [
        mnp.reshape(strong(x), tuple(-1 if k == axis else 1 for k in range(count)))
        for x, axis in zip(xi, axes, strict=True)
    ]
    return tuple(thin) if sparse else mnp.broadcast_arrays(*thin)


@composed(np.indices)
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """The positions of a grid, an array for each axis."""
    sizes = tuple(dimensions)
    thin = [
        mnp.reshape(
            mnp.arange(size, dtype=dtype), tuple(-1 if k == axis else 1 for k in range(len(sizes)))
        )
        for axis, size in enumerate(sizes)
    ]
    if sparse:
        return tuple(thin)
    if not sizes:
        return mnp.empty((0,), dtype)
    return mnp.stack([mnp.broadcast_to(x, sizes) for x in thin])


@composed(np.ix_)
def ix_(*args: Operand) -> tuple[Tracer, ...]:
    """Arrays of positions that together index a grid."""
    parts = [strong(x) for x in args]
    for x in parts:
        if x.ndim != 1:
            raise located(ShapeError, "ix_: cross index must be 1 dimensional.")
        if x.row.kind == "bool":
            message = "ix_: a mask gives positions whose count depends on the data."
            raise located(NotSupportedError, message, remedy="Give the positions.")
    count = len(parts)
    return tuple(
        mnp.reshape(x, tuple(-1 if k == axis else 1 for k in range(count)))
        for axis, x in enumerate(parts)
    )


@composed(np.fromfunction)
def fromfunction(
    function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any
) -> Any:
    """The function of the positions of a grid."""
    from mlc.frontend.trace.access import call

    return call(function, tuple(indices(shape, dtype)), kwargs)


@subscripted(np.mgrid)
def mgrid(key: Any) -> Any:
    """``np.mgrid[0:3, 0:1:5j]``"""
    if not is_tuple(key):
        return _grid_line(key)
    lines = _lines(key)
    grids = meshgrid(*lines, indexing="ij")
    return mnp.stack(grids)


@subscripted(np.ogrid)
def ogrid(key: Any) -> Any:
    """``np.ogrid[0:3, 0:1:5j]``"""
    if not is_tuple(key):
        return _grid_line(key)
    return meshgrid(*_lines(key), indexing="ij", sparse=True)


def _lines(key: tuple[Any, ...]) -> list[Tracer]:
    lines = [_grid_line(part) for part in key]
    row = np.result_type(*(x.dtype for x in lines))
    return [x.astype(row) for x in lines]


def _grid_line(part: Any) -> Tracer:
    """A slice as numbers: an imaginary step is their count."""
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    if isinstance(step, complex):
        return mnp.linspace(start, part.stop, int(abs(step)))
    return mnp.arange(start, part.stop, step)


@subscripted(np.r_)
def r_(key: Any) -> Any:
    """``np.r_[0:3, x, 7]``: one after another."""
    return _joined(key, ndmin=1, trans1d=-1)


@subscripted(np.c_)
def c_(key: Any) -> Any:
    """``np.c_[x, y]``: as columns."""
    return _joined(key, ndmin=2, trans1d=0)


def _joined(key: Any, *, ndmin: int, trans1d: int) -> Tracer:
    parts = list(key) if is_tuple(key) else [key]
    axis = -1
    if parts and isinstance(parts[0], str):
        head = parts.pop(0)
        if head in ("r", "c"):
            raise located(NotSupportedError, f"np.r_[{head!r}, …]: matrices are not supported.")
        try:
            numbers = [int(n) for n in head.split(",")]
        except ValueError:
            raise located(ShapeError, f"np.r_: unknown special directive {head!r}") from None
        axis = numbers[0]
        ndmin = numbers[1] if len(numbers) > 1 else ndmin
        trans1d = numbers[2] if len(numbers) > 2 else trans1d
    found = [_raised(part, ndmin, trans1d) for part in parts]
    weak = [x for x, part in zip(found, parts, strict=True) if _is_number(part)]
    rows = [x.dtype for x in found if not any(x is w for w in weak)]
    numbers_ = [part for part in parts if _is_number(part)]
    row = np.result_type(*rows, *numbers_)
    return mnp.concatenate([x.astype(row) for x in found], axis)


def _is_number(part: Any) -> bool:
    return isinstance(part, int | float | complex) and not isinstance(part, np.generic)


def _raised(part: Any, ndmin: int, trans1d: int) -> Tracer:
    """The part with `ndmin` axes at least, its own from axis `trans1d` on."""
    if is_slice(part):
        x = _grid_line(part)
        if ndmin > 1:
            x = mnp.reshape(x, (*(1 for _ in range(ndmin - 1)), -1))
            x = mnp.swapaxes(x, -1, trans1d) if trans1d != -1 else x
        return x
    x = strong(part)
    own = x.ndim
    x = mnp.array(x, ndmin=ndmin) if own < ndmin else x
    if 0 < own < ndmin and trans1d != -1:
        count = ndmin - own
        at = trans1d if trans1d >= 0 else trans1d + count + 1
        spare = list(range(count))
        x = mnp.transpose(x, (*spare[:at], *range(count, ndmin), *spare[at:]))
    return x


@composed(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tracer:
    """`num` powers of the base, evenly spaced exponents."""
    found = mnp.power(base, mnp.linspace(start, stop, num, endpoint))
    found = mnp.moveaxis(found, 0, axis) if axis else found
    return found if dtype is None else found.astype(dtype)


@composed(np.geomspace)
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tracer:
    """`num` numbers, each the same multiple of the one before."""
    first, last = mnp.asarray(start) * 1.0, mnp.asarray(stop) * 1.0
    if first.row.kind == "complex" or last.row.kind == "complex":
        raise located(NotSupportedError, "geomspace of complex numbers is not supported.")
    sign = mnp.sign(first)
    logs = mnp.linspace(mnp.log10(first * sign), mnp.log10(last * sign), num, endpoint)
    found = mnp.power(10.0, logs)
    count = as_dim(num)
    size = found.shape[0]
    place = mnp.reshape(mnp.arange(size), (-1, *(1 for _ in found.shape[1:])))
    found = mnp.where(mnp.equal(place, 0), first * sign, found)
    if endpoint and count != as_dim(1):
        found = mnp.where(place == size - 1, last * sign, found)
    found = found * sign
    found = mnp.moveaxis(found, 0, axis) if axis else found
    return found if dtype is None else found.astype(dtype)


@composed(np.vander)
def vander(x: Operand, N: Any = None, increasing: bool = False) -> Tracer:
    """The powers of the elements, the highest first."""
    base = strong(x)
    if base.ndim != 1:
        raise located(ShapeError, "vander: x must be a one-dimensional array or sequence.")
    row = np.promote_types(base.dtype, int)
    base = base.astype(row)
    count = base.shape[0] if N is None else N
    if isinstance(count, int):
        powers = [mnp.ones_like(base)]
        for _ in range(count - 1):
            powers.append(powers[-1] * base)
        powers = powers[:count] if increasing else powers[:count][::-1]
        if not powers:
            return mnp.empty((base.shape[0], 0), row)
        return mnp.stack(powers, axis=1)
    line = mnp.arange(count)
    return mnp.power(base[:, None], line if increasing else count - 1 - line)


@composed(np.diag_indices)
def diag_indices(n: Any, ndim: int = 2) -> tuple[Tracer, ...]:
    """The positions of the diagonal."""
    return (mnp.arange(n),) * ndim


@composed(np.diag_indices_from)
def diag_indices_from(arr: Operand) -> tuple[Tracer, ...]:
    """The positions of an array's diagonal."""
    x = strong(arr)
    if x.ndim < 2:
        raise located(ShapeError, "diag_indices_from: input array must be at least 2-d")
    if any(size != x.shape[0] for size in x.shape):
        raise located(ShapeError, "diag_indices_from: all dimensions must be of equal length")
    return diag_indices(x.shape[0], x.ndim)


@composed(np.tril_indices_from)
def tril_indices_from(arr: Operand, k: int = 0) -> tuple[Tracer, Tracer]:
    """The positions of the lower triangle of an array."""
    return mnp.tril_indices(*_sides(arr, "tril_indices_from", k))


@composed(np.triu_indices_from)
def triu_indices_from(arr: Operand, k: int = 0) -> tuple[Tracer, Tracer]:
    """The positions of the upper triangle of an array."""
    return mnp.triu_indices(*_sides(arr, "triu_indices_from", k))


def _sides(arr: Operand, function: str, k: int) -> tuple[int, int, int]:
    x = strong(arr)
    if x.ndim != 2:
        raise located(ShapeError, f"{function}: input array must be 2-d")
    rows, columns = x.shape
    return int(rows), k, int(columns)


def _window(M: Any, shape: Any) -> Tracer:
    """The function of -(M-1), -(M-3), …, M-1."""
    size = as_dim(M)
    if size is None:
        size = as_dim(int(M))
    if size is not None and size.constant is not None and size.constant <= 1:
        return mnp.ones(max(size.constant, 0))
    places = mnp.arange(1 - M, M, 2).astype(np.float64)
    return shape(places, mnp.asarray(M - 1).astype(np.float64))


@composed(np.hanning)
def hanning(M: Any) -> Tracer:
    """The Hann window: a raised cosine."""
    return _window(M, lambda n, last: 0.5 + 0.5 * mnp.cos(np.pi * n / last))


@composed(np.hamming)
def hamming(M: Any) -> Tracer:
    """The Hamming window: a cosine on a pedestal."""
    return _window(M, lambda n, last: 0.54 + 0.46 * mnp.cos(np.pi * n / last))


@composed(np.blackman)
def blackman(M: Any) -> Tracer:
    """The Blackman window: two cosines."""
    return _window(
        M,
        lambda n, last: (
            0.42 + 0.5 * mnp.cos(np.pi * n / last) + 0.08 * mnp.cos(2.0 * np.pi * n / last)
        ),
    )


@composed(np.bartlett)
def bartlett(M: Any) -> Tracer:
    """The Bartlett window: a triangle."""
    return _window(M, lambda n, last: mnp.where(n <= 0, 1 + n / last, 1 - n / last))


@composed(np.kaiser)
def kaiser(M: Any, beta: Any) -> Tracer:
    """The Kaiser window, from the Bessel function."""
    from mlc.frontend.numpy.compositions.bessel import i0

    if M == 1:
        return mnp.ones(1)
    places = mnp.arange(M).astype(np.float64)
    half = (mnp.asarray(M).astype(np.float64) - 1) / 2.0
    scale = mnp.asarray(beta).astype(np.float64)
    return i0(scale * mnp.sqrt(1 - ((places - half) / half) ** 2.0)) / i0(scale)
