"""Choosing by conditions and positions, functions of slices and of single elements."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from mlc.dialects.dtypes import BOOL
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.compositions.making import indices
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.shaping import normal_axis
from mlc.frontend.numpy.values import lift, strong
from mlc.frontend.trace.kinds import is_array, is_series
from mlc.frontend.trace.tracer import Tracer

Operand = Any


@composed(np.select)
def select(condlist: Any, choicelist: Any, default: Operand = 0) -> Tracer:
    """The choice of the first condition that holds."""
    if len(condlist) != len(choicelist):
        message = "select: list of cases must be same length as list of conditions."
        raise located(ShapeError, message)
    if len(condlist) == 0:
        raise located(ShapeError, "select: with an empty condition list is not possible.")
    masks = [strong(c) for c in condlist]
    for k, mask in enumerate(masks):
        if mask.row.kind != "bool":
            message = f"select: invalid entry {k} in condlist: should be boolean."
            raise located(DTypeError, message)
    row = result_row([*choicelist, default])
    found: Any = lift(default).astype(row)
    for mask, choice in zip(reversed(masks), reversed(list(choicelist)), strict=True):
        found = mnp.where(mask, lift(choice).astype(row), found)
    return found


def result_row(values: list[Any]) -> np.dtype[Any]:
    """NumPy's dtype of arrays and numbers together."""
    from mlc.frontend.numpy.values import common_dtype

    return common_dtype("select", values).numpy


BEYOND = "a position beyond the shape is an IndexError"


def _inside(positions: Tracer, size: Any) -> Tracer:
    """The positions, which are read somewhere, so that one beyond the size is an error."""
    return mnp.take(mnp.arange(size), mnp.where(positions < 0, size, positions))


BAD_CHOICE = "a number that chooses nothing is an IndexError"


@composed(np.choose, but=BAD_CHOICE)
def choose(a: Operand, choices: Any, out: Any = None, mode: str = "raise") -> Tracer:
    """Of the arrays the one that each element names."""
    index = strong(a).astype(np.int64)
    several: Any = choices
    arrays = [strong(c) for c in (iter(lift(several)) if not is_series(several) else several)]
    row = np.result_type(*(x.dtype for x in arrays))
    index, *parts = mnp.broadcast_arrays(index, *(x.astype(row) for x in arrays))
    count = len(parts)
    if mode == "raise":
        index = mnp.where(index < 0, count, index)
    else:
        index = index % count if mode == "wrap" else mnp.clip(index, 0, count - 1)
    return mnp.take_along_axis(mnp.stack(parts), index[None], 0)[0]


@composed(np.piecewise, but="functions are called on all elements")
def piecewise(x: Operand, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tracer:
    """By conditions the function of the elements; the last one that holds counts."""
    from mlc.frontend.trace.access import call

    source = strong(x)
    masks = condlist if is_series(condlist) else [condlist]
    if is_series(condlist) and (not condlist or isinstance(condlist[0], bool)):
        masks = [condlist]
    masks = [strong(c).astype(bool) for c in masks]
    if len(masks) == 1 and masks[0].ndim > source.ndim:
        masks = list(masks[0])
    if len(funclist) not in (len(masks), len(masks) + 1):
        message = f"piecewise: with {len(masks)} condition(s), either {len(masks)} or"
        raise located(ShapeError, f"{message} {len(masks) + 1} functions are expected")
    if len(funclist) == len(masks) + 1:
        some: Any = masks[0]
        for mask in masks[1:]:
            some = some | mask
        masks.append(~some)
    found = mnp.zeros_like(source)
    for mask, function in zip(masks, funclist, strict=True):
        value = call(function, (source, *args), kw) if callable(function) else function
        found = mnp.where(mask, lift(value).astype(source.dtype), found)
    return found


@composed(np.putmask, writes=True)
def putmask(a: Any, mask: Operand, values: Operand) -> None:
    """a[mask] = values, which are repeated and taken by position."""
    _check_writable(a, "putmask")
    new = mnp.ravel(strong(values)).astype(a.dtype)
    wide = mnp.reshape(mnp.take(new, mnp.arange(a.size) % new.shape[0]), a.shape)
    mnp.write_all(a, mnp.where(mnp.asarray(mask).astype(bool), wide, a), "putmask")


@composed(np.place, writes=True)
def place(arr: Any, mask: Operand, vals: Operand) -> None:
    """arr[mask] = vals, which are repeated and taken one after the other."""
    _check_writable(arr, "place")
    new = mnp.ravel(strong(vals)).astype(arr.dtype)
    held = mnp.ravel(mnp.asarray(mask).astype(bool))
    order = (mnp.cumsum(held) - 1) % new.shape[0]
    wide = mnp.where(held, mnp.take(new, order), mnp.ravel(arr))
    mnp.write_all(arr, mnp.reshape(wide, arr.shape), "place")


@composed(np.put, writes=True, but="mode='raise' is checked when the program runs")
def put(a: Any, ind: Operand, v: Operand, mode: str = "raise") -> None:
    """a.flat[ind] = v, which are repeated."""
    _check_writable(a, "put")
    flat = mnp.reshape(a, (-1,))
    index = mnp.ravel(strong(ind))
    index = index.astype(np.int64) if index.row is BOOL else index  # 0 and 1, not a mask
    if mode != "raise":
        size = a.size
        index = index % size if mode == "wrap" else mnp.clip(index, 0, size - 1)
    new = mnp.ravel(strong(v)).astype(a.dtype)
    mnp.setitem(flat, index, mnp.take(new, mnp.arange(index.shape[0]) % new.shape[0]))


@composed(np.fill_diagonal, writes=True)
def fill_diagonal(a: Any, val: Operand, wrap: bool = False) -> None:
    """a[i, i, …] = val."""
    _check_writable(a, "fill_diagonal")
    if a.ndim < 2:
        raise located(ShapeError, "fill_diagonal: array must be at least 2-d")
    if wrap:
        raise located(NotSupportedError, "fill_diagonal: wrap=True is not supported.")
    if a.ndim > 2 and any(size != a.shape[0] for size in a.shape):
        message = "fill_diagonal: all dimensions of input must be of equal length"
        raise located(ShapeError, message)
    grid = indices(a.shape, sparse=True)
    mask = grid[0] == grid[1]
    for other in grid[2:]:
        mask = mask & (grid[0] == other)
    new = strong(val)
    if new.ndim:
        new = mnp.take(mnp.ravel(new), grid[0] % new.size)
    mnp.write_all(a, mnp.where(mask, new.astype(a.dtype), a), "fill_diagonal")


def _check_writable(a: Any, function: str) -> None:
    if not isinstance(a, Tracer):
        message = f"{function}: the array exists before the call; it would be written only once."
        raise located(NotSupportedError, message, remedy="Write into a copy: y = x.copy().")


@composed(np.unravel_index, but=BEYOND)
def unravel_index(indices: Operand, shape: Any, order: str = "C") -> tuple[Tracer, ...]:
    """Positions in the flattened array as positions along each axis."""
    sizes = list(shape) if is_series(shape) else [shape]
    rest = _inside(strong(indices).astype(np.int64), functools.reduce(operator.mul, sizes, 1))
    found: list[Tracer] = []
    for size in reversed(sizes) if order == "C" else sizes:
        found.append(rest % size)
        rest = rest // size
    return tuple(reversed(found) if order == "C" else found)


@composed(np.ravel_multi_index, but=BEYOND)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Tracer:
    """Positions along each axis as positions in the flattened array."""
    sizes = list(dims) if is_series(dims) else [dims]
    parts = list(multi_index)
    if len(parts) != len(sizes):
        message = f"ravel_multi_index: {len(sizes)} index arrays are expected, found {len(parts)}."
        raise located(ShapeError, message)
    modes = mode if is_series(mode) else (mode,) * len(sizes)
    pairs = list(zip(parts, sizes, modes, strict=True))
    found: Any = 0
    for part, size, how in pairs if order == "C" else reversed(pairs):
        index = strong(part).astype(np.int64)
        if how == "raise":
            index = _inside(index, size)
        else:
            index = index % size if how == "wrap" else mnp.clip(index, 0, size - 1)
        found = found * size + index
    return found


@composed(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Tracer:
    """The order by the last key, of equals by the one before it, and so on."""
    several = list(keys) if is_series(keys) else list(iter(strong(keys)))
    rows = [strong(key) for key in several]
    if not rows:
        raise located(DTypeError, "lexsort: need sequence of keys with len > 0.")
    axis = normal_axis(axis, rows[0].ndim, "lexsort")
    order = mnp.argsort(rows[0], axis, stable=True)
    for key in rows[1:]:
        again = mnp.argsort(mnp.take_along_axis(key, order, axis), axis, stable=True)
        order = mnp.take_along_axis(order, again, axis)
    return order


@composed(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: int, arr: Operand, *args: Any, **kwargs: Any) -> Tracer:
    """The function of each line along an axis."""
    from mlc.frontend.trace.access import call
    from mlc.frontend.transforms.vmap import vmap

    x = strong(arr)
    place = normal_axis(axis, x.ndim, "apply_along_axis")
    lines = mnp.moveaxis(x, place, -1)
    lead = lines.shape[:-1]

    def one(line: Any) -> Any:
        return strong(call(func1d, (line, *args), kwargs))

    found = vmap(one)(mnp.reshape(lines, (-1, lines.shape[-1])))
    rest = found.shape[1:]
    found = mnp.reshape(found, (*lead, *rest))
    count = len(rest)
    moved = tuple(range(len(lead), len(lead) + count))
    return mnp.moveaxis(found, moved, tuple(range(place, place + count))) if count else found


@composed(np.apply_over_axes)
def apply_over_axes(func: Any, a: Operand, axes: Any) -> Tracer:
    """A reduction over several axes, one after the other, which stay with size 1."""
    from mlc.frontend.trace.access import call

    found = strong(a)
    rank = found.ndim
    for axis in axes if is_series(axes) or is_array(axes) else (axes,):
        place = normal_axis(int(axis), rank, "apply_over_axes")
        after = strong(call(func, (found, place), {}))
        found = after if after.ndim == rank else mnp.expand_dims(after, place)
    return found


def vectorized(function: np.vectorize, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """np.vectorize of a function of numbers, which is traced once for all of them."""
    from mlc.frontend.trace.access import call
    from mlc.frontend.transforms.vmap import vmap

    if function.signature is not None or function.excluded:
        message = "np.vectorize with signature= or excluded= is not supported."
        raise located(NotSupportedError, message, remedy="Use mlc.vmap.")
    if kwargs:
        message = "np.vectorize: keyword arguments are not supported."
        raise located(NotSupportedError, message, remedy="Give arguments by position.")
    arrays = mnp.broadcast_arrays(*(strong(x) for x in args))
    shape = arrays[0].shape
    pyfunc: Any = function.pyfunc

    def one(*numbers: Any) -> Any:
        return call(pyfunc, numbers, {})

    found: Any = vmap(one)(*(mnp.reshape(x, (-1,)) for x in arrays))
    several = found if isinstance(found, tuple) else (found,)
    types: Any = function.otypes or [None] * len(several)
    made = tuple(
        mnp.reshape(x if t is None else x.astype(np.dtype(t)), shape)
        for x, t in zip(several, types, strict=True)
    )
    return made if isinstance(found, tuple) else made[0]


@composed(np.compress)
def compress(condition: Any, a: Operand, axis: Any = None, out: Any = None) -> Tracer:
    """The elements along an axis where the condition holds."""
    from mlc.frontend.numpy.positions import flatnonzero

    x = strong(a)
    x, axis = (mnp.ravel(x), 0) if axis is None else (x, axis)
    return mnp.take(x, flatnonzero(strong(condition)), axis=axis)


@composed(np.sort_complex)
def sort_complex(a: Operand) -> Tracer:
    """The elements in order, as complex numbers."""
    x = mnp.sort(strong(a))
    narrow = x.row.name in ("i8", "u8", "i16", "u16", "f32")
    if x.row.kind == "complex":
        return x
    return x.astype(np.complex64 if narrow else np.complex128)
