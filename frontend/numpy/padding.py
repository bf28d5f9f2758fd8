"""Bigger arrays around smaller ones, turned and shifted arrays, diagonals, repetition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp, PadOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy import shaping
from mlc.frontend.numpy.creation import arange, iota, shape_argument
from mlc.frontend.numpy.elementwise import astype, equal, greater, less, where
from mlc.frontend.numpy.elementwise_whole import mod
from mlc.frontend.numpy.indexing import take
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.scans import cumsum
from mlc.frontend.numpy.shaping import (
    as_line,
    concatenate,
    flip,
    normal_axes,
    normal_axis,
    ravel,
    reshape,
)
from mlc.frontend.numpy.sorting import searchsorted
from mlc.frontend.numpy.values import (
    constant,
    convert,
    dtype_at,
    fitting,
    lift,
    number,
    result,
    spread,
    strong,
)
from mlc.frontend.trace.kinds import is_array, is_series
from mlc.frontend.trace.known import known_dim
from mlc.frontend.trace.program_sizes import roomy_symbol
from mlc.frontend.trace.symbolic import as_dim, as_size
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any
Positions = NDArray[Any]
ZERO = Dim.const(0)


def _pairs(value: Any, rank: int, function: str) -> list[tuple[Any, Any]]:
    """(before, after) for each axis, from every form that NumPy takes."""
    if is_array(value):
        value = value.tolist()
    if not is_series(value):
        return [(value, value)] * rank
    if not any(is_series(part) for part in value):
        if len(value) in (1, 2):
            return [(value[0], value[-1])] * rank
        value = [(part, part) for part in value]
    pairs = [(part[0], part[-1]) for part in value]
    if len(pairs) == 1:
        return pairs * rank
    if len(pairs) != rank:
        raise located(ShapeError, f"{function}: {len(pairs)} pairs for {rank} axes.")
    return pairs


@public(np.pad)
def pad(array: Operand, pad_width: Any, mode: Any = "constant", **options: Any) -> Tracer:
    """The array with elements before and after it on each axis."""
    x = lift(array)
    widths = [_width(p) for p in _pairs(pad_width, x.ndim, "pad")]
    if mode in ("constant", "empty"):
        return _constant(x, widths, _pairs(options.get("constant_values", 0), x.ndim, "pad"))
    side = _SIDES.get(mode)
    if side is None:
        raise located(NotSupportedError, f"pad: mode={mode!r}; expected one of NumPy's names.")
    padded = [axis for axis, ends in enumerate(widths) if ends != (ZERO, ZERO)]
    for axis in padded:
        if x.dims[axis] == ZERO:
            message = (
                f"pad: can't extend empty axis {axis} using modes other than 'constant' or 'empty'."
            )
            raise located(ShapeError, message)
        here().assume(x.dims[axis] - 1, f"pad mode={mode!r} of an axis with elements")
    of_axis = [_Options(options, axis, x.ndim, mode) for axis in range(x.ndim)]

    def along(x: Tracer, axes: list[int]) -> Tracer:
        """Padded along these axes. Ends that are elements of the array are made piece by piece."""
        if not axes:
            return x
        axis, *others = axes
        low, high = widths[axis]
        parts = side(x, axis, low, high, of_axis[axis])
        if len(parts) > 1 and mode in _COPIES and not of_axis[axis].is_odd and len(axes) <= PIECED:
            return concatenate([along(part, others) for part in parts], axis)
        return along(concatenate(parts, axis) if len(parts) > 1 else parts[0], others)

    return along(x, padded)


def _known(positions: Positions) -> Tracer:
    """Positions that are known while tracing."""
    return result(constant(positions.astype(np.int64), I64))


def _width(pair: tuple[Any, Any]) -> tuple[Dim, Dim]:
    found = [known_dim(v) for v in pair]
    if any(d is None or (d.constant is not None and d.constant < 0) for d in found):
        raise located(ShapeError, f"pad: the widths {pair} can't be negative.")
    low, high = found
    assert low is not None
    assert high is not None
    return low, high


class _Options:
    """The options of one axis."""

    def __init__(self, options: dict[str, Any], axis: int, rank: int, mode: str) -> None:
        self.mode = mode
        self.ends = _pairs(options.get("end_values", 0), rank, "pad")[axis]
        self.length = _pairs(options.get("stat_length"), rank, "pad")[axis]
        kind = options.get("reflect_type", "even")
        if kind not in ("even", "odd"):
            raise located(ShapeError, f"pad: reflect_type={kind!r}; expected 'even' or 'odd'.")
        self.is_odd = kind == "odd" and mode in ("reflect", "symmetric")


def _constant(x: Tracer, widths: list[tuple[Dim, Dim]], values: list[tuple[Any, Any]]) -> Tracer:
    """One pad where one value surrounds the array, else one for each side."""
    flat = [v for pair in values for v in pair]
    if all(isinstance(v, int | float) and v == flat[0] for v in flat):
        return _padded(x, flat[0] if flat else 0, widths)
    for axis, ((low, high), (first, last)) in enumerate(zip(widths, values, strict=True)):
        none = [(ZERO, ZERO)] * x.ndim
        x = _padded(x, first, [*none[:axis], (low, ZERO), *none[axis + 1 :]])
        x = _padded(x, last, [*none[:axis], (ZERO, high), *none[axis + 1 :]])
    return x


def _padded(x: Tracer, value: Any, widths: list[tuple[Dim, Dim]]) -> Tracer:
    low, high = tuple(a for a, _ in widths), tuple(c for _, c in widths)
    if all(d == ZERO for d in (*low, *high)):
        return x
    fill = fitting(lift(value), x.row)
    return result(here().emit(PadOp, x.value, fill, low=low, high=high))


def _between(x: Tracer, before: Tracer | None, after: Tracer | None) -> list[Tracer]:
    return [part for part in (before, x, after) if part is not None]


def _at(x: Tracer, axis: int, part: slice) -> Tracer:
    return x[(*(slice(None),) * axis, part)]


def _repeated(x: Tracer, axis: int, count: Dim) -> Tracer | None:
    """An array with one element along the axis, as many times."""
    if count == ZERO:
        return None
    return result(spread(x.value, (*x.dims[:axis], count, *x.dims[axis + 1 :])))


def _edge(x: Tracer, axis: int, low: Dim, high: Dim, options: _Options) -> list[Tracer]:
    first, last = _at(x, axis, slice(0, 1)), _at(x, axis, slice(-1, None))
    return _between(x, _repeated(first, axis, low), _repeated(last, axis, high))


def _mirrored(x: Tracer, axis: int, low: Dim, high: Dim, options: _Options) -> list[Tracer]:
    """reflect, symmetric, wrap: slices where one copy is enough, else positions known now."""
    size = x.dims[axis]
    if options.is_odd:
        return [_mirrored_at_a_point(x, axis, low, high, options.mode)]
    limit = size - 1 if options.mode == "reflect" else size
    fits = [(limit - d).constant for d in (low, high)]
    if size.constant is not None and any(room is None or room < 0 for room in fits):
        if low.constant is None or high.constant is None:
            raise located(NotSupportedError, "pad: a symbolic width of a mirrored array.")
        places = _padded_positions(size.constant, low.constant, high.constant, options.mode)
        return [take(x, _known(places), axis=axis)]
    for room in (limit - low, limit - high):
        here().assume(room, f"pad {options.mode} within the array")
    a: Any = as_size(low)
    c: Any = as_size(high)
    n: Any = x.shape[axis]
    slices: dict[str, tuple[slice, slice]] = {
        "wrap": (slice(n - a, None), slice(0, c)),
        "reflect": (slice(1, a + 1), slice(n - 1 - c, n - 1)),
        "symmetric": (slice(0, a), slice(n - c, None)),
    }
    before, after = (_at(x, axis, s) for s in slices[options.mode])
    if options.mode != "wrap":
        before, after = flip(before, axis), flip(after, axis)
    return _between(x, None if low == ZERO else before, None if high == ZERO else after)


def _mirrored_at_a_point(x: Tracer, axis: int, low: Dim, high: Dim, mode: str) -> Tracer:
    """
    reflect and symmetric of type "odd": twice the outermost element, less the mirrored ones.

    What is wider than the array is made of whole periods, each mirrored at the new end.
    """
    shared = 1 if mode == "reflect" else 0  # the outermost element is not repeated
    size = x.dims[axis]
    if size == Dim.const(1):
        parts = _between(x, _repeated(x, axis, low), _repeated(x, axis, high))
        return concatenate(parts, axis)
    numbers = [d.constant for d in (size, low, high)]
    if None in numbers:
        for room in (size - shared - low, size - shared - high):
            here().assume(room, f"pad {mode} within the array")
        return _once_at_a_point(x, axis, as_size(low), as_size(high), shared)
    extent, left, right = (n for n in numbers if n is not None)
    period = extent - shared
    while left or right:
        whole = (extent - shared) // period * period
        a, c = min(left, whole), min(right, whole)
        x = _once_at_a_point(x, axis, a, c, shared)
        extent, left, right = extent + a + c, left - a, right - c
    return x


def _once_at_a_point(x: Tracer, axis: int, a: Any, c: Any, shared: int) -> Tracer:
    """`a` elements before and `c` after, from as many in the array."""
    n: Any = x.shape[axis]
    before = flip(_at(x, axis, slice(shared, a + shared)), axis)
    after = flip(_at(x, axis, slice(n - shared - c, n - shared)), axis)
    first, last = _at(x, axis, slice(0, 1)), _at(x, axis, slice(-1, None))
    return concatenate([2 * first - before, x, 2 * last - after], axis)


def _padded_positions(size: int, low: int, high: int, mode: str) -> Positions:
    return np.pad(np.arange(size), (low, high), mode)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]


def _statistic(x: Tracer, axis: int, low: Dim, high: Dim, options: _Options) -> list[Tracer]:
    from mlc.frontend.numpy import reductions

    if options.mode == "mean" and x.row.kind != "float":
        raise located(NotSupportedError, "pad: mode='mean' of integers is not supported yet.")
    function: Callable[..., Tracer] = {
        "maximum": reductions.max,
        "minimum": reductions.min,
        "mean": reductions.mean,
    }[options.mode]
    first, last = options.length
    start = x if first is None else _at(x, axis, slice(0, first))
    end = x if last is None else _at(x, axis, slice(x.shape[axis] - last, None))
    before, after = (function(part, axis=axis, keepdims=True) for part in (start, end))
    return _between(x, _repeated(before, axis, low), _repeated(after, axis, high))


def _ramp(x: Tracer, axis: int, low: Dim, high: Dim, options: _Options) -> list[Tracer]:
    """From the given end value towards the outermost element, which is not repeated."""

    def side(edge: Tracer, end: Any, count: Dim) -> Tracer | None:
        if count == ZERO:
            return None
        shape = tuple(as_size(count) if k == axis else 1 for k in range(x.ndim))
        step = reshape(arange(as_size(count)), shape)
        start = astype(lift(end), np.float64)
        value = start + (astype(edge, np.float64) - start) / as_size(count) * step
        whole = astype(value, x.row.numpy)
        if not x.row.is_integer:
            return whole
        return where(greater(whole, value), whole - 1, whole)  # NumPy rounds integers down here

    first, last = options.ends
    before = side(_at(x, axis, slice(0, 1)), first, low)
    after = side(_at(x, axis, slice(-1, None)), last, high)
    return _between(x, before, None if after is None else flip(after, axis))


_COPIES = ("edge", "reflect", "symmetric", "wrap")
PIECED = 2  # axes along which the array is cut at once: each has three times as many pieces

_SIDES: dict[str, Callable[[Tracer, int, Dim, Dim, _Options], list[Tracer]]] = {
    "edge": _edge,
    "reflect": _mirrored,
    "symmetric": _mirrored,
    "wrap": _mirrored,
    "maximum": _statistic,
    "minimum": _statistic,
    "mean": _statistic,
    "linear_ramp": _ramp,
}


# Turning and shifting


@public(np.roll)
def roll(a: Operand, shift: Any, axis: Any = None) -> Tracer:
    """The elements shifted along axes; what leaves at the end comes in at the start."""
    x = lift(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    if is_series(axis) or is_series(shift):
        axes = normal_axes_repeated(axis, x.ndim)
        shifts = list(shift) if is_series(shift) else [shift] * len(axes)
        axes = axes * len(shifts) if len(axes) == 1 else axes
        for one, place in zip(shifts, axes, strict=True):
            x = roll(x, one, place)
        return x
    place = normal_axis(axis, x.ndim, "roll")
    size, by = x.dims[place], as_dim(shift)
    if by is None or by.constant is None or size.constant is None:
        n = x.shape[place]
        return take(x, mod(arange(n) - shift, n), axis=place)
    cut = (-by.constant) % max(size.constant, 1)
    if cut == 0:
        return result(x.value)
    return concatenate([_at(x, place, slice(cut, None)), _at(x, place, slice(0, cut))], place)


def normal_axes_repeated(axis: Any, rank: int) -> list[int]:
    """The axes from the front; one may occur again."""
    several = list(axis) if is_series(axis) else [axis]
    return [normal_axis(one, rank, "roll") for one in several]


@public(np.fliplr)
def fliplr(m: Operand) -> Tracer:
    """The columns in reverse order."""
    return flip(m, 1)


@public(np.flipud)
def flipud(m: Operand) -> Tracer:
    """The rows in reverse order."""
    return flip(m, 0)


@public(np.rot90)
def rot90(m: Operand, k: int = 1, axes: Any = (0, 1)) -> Tracer:
    """The plane of two axes turned by k right angles."""
    x = lift(m)
    first, second = normal_axes(tuple(axes), x.ndim, "rot90")
    turns = k % 4
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return shaping.swapaxes(flip(x, second), first, second)
    return flip(shaping.swapaxes(x, first, second), second) if turns else x


# Diagonals


@public(np.diagonal)
def diagonal(a: Operand, offset: int = 0, axis1: Any = 0, axis2: Any = 1) -> Tracer:
    """The elements x[i, i + offset] of two axes, as a new last axis."""
    x = lift(a)
    rows, columns = normal_axes((axis1, axis2), x.ndim, "diagonal")
    size = [x.dims[rows], x.dims[columns]]
    down, right = max(-offset, 0), max(offset, 0)
    room = [size[0] - down, size[1] - right]
    if room[0].constant is not None and room[1].constant is not None:
        count = Dim.const(max(min(room[0].constant, room[1].constant), 0))
    elif room[0] == room[1]:
        count = room[0]
    else:
        message = f"diagonal: which of {room[0]} and {room[1]} is smaller is not known."
        raise located(NotSupportedError, message)
    counting = result(iota(I64, (count,), 0))
    index = [counting + down, counting + right]
    letters = iter(ALPHABET[1:])
    word = "".join(
        "0" if k == rows else "1" if k == columns else next(letters) for k in range(x.ndim)
    )
    out = "".join(c for c in word if not c.isdigit())
    places = [v.value for v in index]
    return result(here().emit(GatherOp, x.value, *places, letters=f"{word},a,a->{out}a"))


@public(np.diag)
def diag(v: Operand, k: int = 0) -> Tracer:
    """The diagonal of a matrix, or the matrix with a diagonal and zeros."""
    x = lift(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise located(ShapeError, f"diag: the array has {x.ndim} axes; expected 1 or 2.")
    n = x.dims[0] + abs(k)
    low = Dim.const(max(-k, 0))
    column = _padded(x, 0, [(low, n - x.dims[0] - low)])
    rows, columns = (result(iota(I64, (n, n), axis)) for axis in (0, 1))
    filler = result(number(0, x.row, (n, n)))
    return where(equal(columns - rows, k), reshape(column, (as_size(n), 1)), filler)


@public(np.diagflat)
def diagflat(v: Operand, k: int = 0) -> Tracer:
    """The matrix with the flattened array as a diagonal."""
    return diag(ravel(v), k)


# Repetition


def _is_known(number: Tracer) -> bool:
    """Whether a number decides about the program, as a Python int does."""
    return bool(number.origins) or number.from_constants() is not None


@public(np.repeat)
def repeat(
    a: Operand, repeats: Any, axis: Any = None, *, total_repeat_length: Any = None
) -> Tracer:
    """Each element as many times as one number says for all, or an array for each."""
    if (is_array(repeats) and repeats.ndim) or is_series(repeats):
        x = as_line(strong(a), axis)
        place = normal_axis(0 if axis is None else axis, x.ndim, "repeat")
        size = x.dims[place].constant
        counts = np.asarray(repeats)
        if size is not None and counts.size not in (1, size):
            message = f"repeat: {counts.size} counts for an axis with {size} elements."
            raise located(ShapeError, message)
        if size is not None and counts.size in (1, size):
            return take(x, _known(np.repeat(np.arange(size), counts)), axis=place)
    if not isinstance(repeats, Tracer) or (repeats.ndim == 0 and _is_known(repeats)):
        return shaping.repeat(a, repeats, axis)
    if repeats.row.kind not in ("bool", "int", "uint"):
        message = f"repeat: the counts are {repeats.row.numpy}; expected integers."
        raise located(DTypeError, message)
    x = as_line(strong(a), axis)
    place = normal_axis(0 if axis is None else axis, x.ndim, "repeat")
    counts: Any = result(spread(convert(repeats.value, I64), (x.dims[place],)))
    if total_repeat_length is None:
        least, all_ = counts.min(initial=0), counts.sum()
        total = roomy_symbol("repeat", where(less(least, 0), -1, all_).value)
    else:
        (total,) = shape_argument(total_repeat_length, "repeat")
    ends = cumsum(counts)
    source = searchsorted(ends, arange(as_size(total)), "right")
    return take(x, source, axis=place)


@public(np.append)
def append(arr: Operand, values: Operand, axis: Any = None) -> Tracer:
    """The values behind the array."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)])
    return concatenate([arr, values], axis)


# Parts whose place is a value


@public()
def dynamic_slice(x: Operand, offsets: Any, sizes: Any) -> Tracer:
    """x[o : o + size] on every axis, with offsets that may be traced; they are clamped to fit."""
    source = lift(x)
    starts = [convert(lift(o).value, I64) for o in offsets]
    shape = shape_argument(tuple(sizes), "dynamic_slice")
    from mlc.dialects.dims import tensor_type

    declared = tensor_type(dtype_at(source.value).ir, shape)
    return result(here().emit(DynamicSliceOp, source.value, *starts, declared=declared))


@public()
def dynamic_update(x: Operand, update: Operand, offsets: Any) -> Tracer:
    """`x` with `update` written at offsets that may be traced; they are clamped to fit."""
    target = lift(x)
    new = convert(lift(update).value, target.row)
    starts = [convert(lift(o).value, I64) for o in offsets]
    return result(here().emit(DynamicUpdateOp, target.value, new, *starts))


@public(np.tril_indices)
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tracer, Tracer]:
    """The positions of the lower triangle."""
    rows, columns = np.tril_indices(n, k, m)
    return _known(rows), _known(columns)


@public(np.triu_indices)
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tracer, Tracer]:
    """The positions of the upper triangle."""
    rows, columns = np.triu_indices(n, k, m)
    return _known(rows), _known(columns)
