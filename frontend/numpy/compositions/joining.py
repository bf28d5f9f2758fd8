"""Joining, cutting and growing arrays."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dtypes import BOOL
from mlc.dialects.errors import ShapeError
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.shaping import normal_axis
from mlc.frontend.numpy.values import is_operand, lift, strong
from mlc.frontend.trace.kinds import is_array, is_series, is_slice
from mlc.frontend.trace.known import known_array
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def _of_each(one: Any, arrays: tuple[Any, ...]) -> Any:
    found = tuple(one(strong(x)) for x in arrays)
    return found[0] if len(found) == 1 else found


@composed(np.atleast_2d)
def atleast_2d(*arys: Operand) -> Any:
    """Each array with two axes at least."""

    def raised(x: Tracer) -> Tracer:
        return x if x.ndim > 1 else mnp.reshape(x, (1, -1))

    return _of_each(raised, arys)


@composed(np.atleast_3d)
def atleast_3d(*arys: Operand) -> Any:
    """Each array with three axes at least."""

    def raised(x: Tracer) -> Tracer:
        if x.ndim == 2:
            return mnp.expand_dims(x, 2)
        return x if x.ndim > 2 else mnp.reshape(x, (1, -1, 1))

    return _of_each(raised, arys)


@composed(np.dstack)
def dstack(tup: Any) -> Tracer:
    """The arrays behind each other along the third axis."""
    return mnp.concatenate([atleast_3d(x) for x in tup], 2)


@composed(getattr(np, "unstack", None))
def unstack(x: Operand, /, *, axis: int = 0) -> tuple[Tracer, ...]:
    """The parts along an axis, one by one."""
    source = strong(x)
    if not source.ndim:
        raise located(ShapeError, "unstack: input array must be at least 1-d.")
    return tuple(iter(mnp.moveaxis(source, axis, 0)))


@composed(np.array_split)
def array_split(ary: Operand, indices_or_sections: Any, axis: Any = 0) -> list[Tracer]:
    """The array cut before positions, or into sections of which the first may be longer by one."""
    x = strong(ary)
    if is_series(indices_or_sections) or is_array(indices_or_sections):
        cuts = [int(c) for c in indices_or_sections]
        return mnp.split(x, cuts, axis)
    count = int(indices_or_sections)
    if count <= 0:
        raise located(ShapeError, "array_split: number sections must be larger than 0.")
    size = int(x.shape[normal_axis(axis, x.ndim, "array_split")])
    each, more = divmod(size, count)
    return mnp.split(x, [k * each + min(k, more) for k in range(1, count)], axis)


def _split_at(function: str, least: int, axis: Any) -> Any:
    def split(ary: Operand, indices_or_sections: Any) -> list[Tracer]:
        x = strong(ary)
        if x.ndim < least:
            message = f"{function} only works on arrays of {least} or more dimensions"
            raise located(ShapeError, message)
        cuts: Any = indices_or_sections
        cuts = [int(c) for c in cuts] if is_array(cuts) else cuts
        return mnp.split(x, cuts, 0 if function == "hsplit" and x.ndim == 1 else axis)

    split.__name__ = function
    split.__doc__ = f"numpy.split along axis {axis}."
    return split


hsplit = composed(np.hsplit)(_split_at("hsplit", 1, 1))
vsplit = composed(np.vsplit)(_split_at("vsplit", 2, 0))
dsplit = composed(np.dsplit)(_split_at("dsplit", 3, 2))


@composed(np.block)
def block(arrays: Any) -> Tracer:
    """Nested lists of blocks: the innermost are joined along the last axis."""
    depth = _depth(arrays)
    rank = max(depth, *(x.ndim for x in _leaves(arrays)))
    return _blocks(arrays, depth, rank)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise located(ShapeError, "block: empty lists are not allowed.")
    found = {_depth(x) for x in arrays}
    if len(found) > 1:
        raise located(ShapeError, "block: list depths are mismatched.")
    return 1 + found.pop()


def _leaves(arrays: Any) -> list[Tracer]:
    if not isinstance(arrays, list):
        return [strong(arrays)]
    return [leaf for x in arrays for leaf in _leaves(x)]


def _blocks(arrays: Any, depth: int, rank: int) -> Tracer:
    if not isinstance(arrays, list):
        return mnp.array(strong(arrays), ndmin=rank)
    return mnp.concatenate([_blocks(x, depth - 1, rank) for x in arrays], -depth)


@composed(np.rollaxis)
def rollaxis(a: Operand, axis: int, start: int = 0) -> Tracer:
    """An axis moved before another one."""
    x = strong(a)
    place = normal_axis(axis, x.ndim, "rollaxis")
    to = start + x.ndim if start < 0 else start
    if not 0 <= to <= x.ndim:
        normal_axis(to, x.ndim, "rollaxis")
    return mnp.moveaxis(x, place, to - 1 if place < to else to)


def _known(positions: Any, function: str) -> np.ndarray[Any, Any]:
    """Positions that decide sizes and places, as numbers."""
    if not isinstance(positions, Tracer):
        return np.asarray(positions)
    found = None if positions.origins else known_array(here(), positions.value)
    if found is None:
        message = f"{function}: the positions are traced, and decide about the program."
        raise located(NotSupportedError, message, remedy="Give them as Python ints, or as static=.")
    return found


def _place_list(obj: Any, size: int, function: str) -> np.ndarray[Any, Any]:
    if is_slice(obj):
        return np.arange(*obj.indices(size))
    return _known(obj, function)


def _is_traced_mask(obj: Any) -> bool:
    return isinstance(obj, Tracer) and obj.row is BOOL and known_array(here(), obj.value) is None


@composed(np.delete)
def delete(arr: Operand, obj: Any, axis: Any = None) -> Tracer:
    """The array without the elements at positions, or where a mask is true."""
    x = strong(arr)
    x, axis = (mnp.ravel(x), 0) if axis is None else (x, axis)
    place = normal_axis(axis, x.ndim, "delete")
    if _is_traced_mask(obj):
        return x[(*(slice(None),) * place, mnp.logical_not(obj))]
    size = int(x.shape[place])
    kept = np.delete(np.arange(size), _place_list(obj, size, "delete"))
    return mnp.take(x, mnp.array(kept), axis=place)


@composed(np.insert)
def insert(arr: Operand, obj: Any, values: Operand, axis: Any = None) -> Tracer:
    """The array with values before positions."""
    x, new = strong(arr), strong(values)
    x, axis = (mnp.ravel(x), 0) if axis is None else (x, axis)
    place = normal_axis(axis, x.ndim, "insert")
    if _is_traced_mask(obj):
        return _inserted(x, obj, new, place)
    size = int(x.shape[place])
    at = _place_list(obj, size, "insert")
    single = at.ndim == 0
    new = mnp.array(new, ndmin=x.ndim)
    if single:
        new = mnp.moveaxis(new, 0, place)
        count = int(new.shape[place])
    else:
        count = at.size
    if at.size == 1:
        at = np.repeat(np.ravel(at), int(new.shape[place]))
        count = at.size
    order = np.insert(np.arange(size), at, size + np.arange(count))
    wide = tuple(count if k == place else n for k, n in enumerate(x.shape))
    new = mnp.broadcast_to(new.astype(x.dtype), wide)
    return mnp.take(mnp.concatenate([x, new], place), mnp.array(order), axis=place)


def _inserted(x: Tracer, mask: Tracer, values: Tracer, axis: int) -> Tracer:
    """The array with values before the elements where a mask is true."""
    at = mnp.flatnonzero(mask)
    moved = mnp.moveaxis(x, axis, 0)
    size, count = moved.shape[0], at.shape[0]
    made = mnp.zeros((size + count, *moved.shape[1:]), x.dtype)
    wide = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    new = mnp.moveaxis(mnp.broadcast_to(values.astype(x.dtype), wide), axis, 0)
    made[mnp.arange(size) + mnp.cumsum(mask)] = moved
    made[at + mnp.arange(count)] = new
    return mnp.moveaxis(made, 0, axis)


@composed(np.resize)
def resize(a: Operand, new_shape: Any) -> Tracer:
    """The elements over and over, in another shape."""
    x = mnp.ravel(strong(a))
    shape = new_shape if is_series(new_shape) else (new_shape,)
    total = 1
    for size in shape:
        total = total * size
    if x.dims[0].constant == 0:
        return mnp.zeros(shape, x.dtype)
    return mnp.reshape(mnp.take(x, mnp.arange(total) % x.shape[0]), tuple(shape))


@composed(np.asfortranarray, but="the layout is the compiler's to choose")
def asfortranarray(a: Operand, dtype: Any = None, *, like: Any = None) -> Tracer:
    """The value as an array with at least one axis."""
    return mnp.ascontiguousarray(a, dtype)


@composed(np.require, but="the layout is the compiler's to choose")
def require(a: Operand, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Tracer:
    """The value as an array."""
    return mnp.asarray(a, dtype)


@composed(np.fromiter)
def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Tracer:  # noqa: A002
    """The elements that something gives, one after another."""
    made = lift(iter) if is_operand(iter) else mnp.asarray([*iter], dtype)
    if made.ndim != 1:
        raise located(ShapeError, "setting an array element with a sequence.")
    if count > made.shape[0]:
        message = (
            f"iterator too short: Expected {count} but iterator had only {made.shape[0]} items."
        )
        raise located(ShapeError, message)
    return mnp.array(made if count < 0 else made[:count], dtype)


@composed(np.copyto, writes=True)
def copyto(dst: Any, src: Operand, casting: str = "same_kind", where: Any = True) -> None:
    """dst[...] = src, where a mask holds."""
    from mlc.frontend.numpy.writing import write_out

    new = src if where is True else mnp.where(where, lift(src).astype(dst.dtype), dst)
    if where is not True and not np.can_cast(lift(src).dtype, dst.dtype, casting):  # pyright: ignore[reportArgumentType]
        new = src  # refused below
    write_out(dst, new, "copyto", casting, exact=False)
