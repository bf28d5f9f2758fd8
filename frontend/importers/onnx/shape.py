# pyright: basic
"""Ops of ONNX that move, cut, join and make arrays."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import ceil, prod
from typing import Any

import numpy as np

from mlc.frontend.importers.bounds import FAR, check_between
from mlc.frontend.importers.onnx.bounds import check_axes, check_room, check_split
from mlc.frontend.importers.onnx.graph import dtype_of
from mlc.frontend.importers.onnx.run import At, is_known, row, traced
from mlc.frontend.importers.onnx.values import (
    arange,
    broadcast,
    broadcast_shape,
    counted,
    cut,
    full,
    has_sizes,
    of_sizes,
    roomy,
    taken,
)

Array = Any


def axes_of(at: At, given: Array, rank: int, name: str = "axes") -> list[int]:
    """Axes from an attribute or an input, counted from the front; all where none is said."""
    value = at.get(name)
    if given is not None:
        value = at.ints(given, name)
    if value is None:
        return list(range(rank))
    check_axes(name, [int(a) for a in np.ravel(value)], rank)
    return sorted(int(a) % max(rank, 1) for a in np.ravel(value))


@row("Shape")
def _shape(at: At, x: Array) -> Array:
    rank = x.ndim
    start, end = at.get("start", 0), at.get("end", rank)
    return of_sizes(x.shape[slice(*slice(start, end).indices(rank))])


@row("Size")
def _size(at: At, x: Array) -> Array:
    return of_sizes([prod(x.shape)]).reshape(())


@row("Constant")
def _constant(at: At) -> Array:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints", "sparse_value"):
        value = at.get(name)
        if value is not None:
            kind = {"value_float": np.float32, "value_floats": np.float32}.get(name)
            kind = np.int64 if name.startswith("value_int") else kind
            return np.asarray(value, kind)
    raise at.refuse("its value is text")


@row("ConstantOfShape")
def _constant_of_shape(at: At, shape: Array) -> Array:
    sizes = at.ints(shape, "the shape")
    check_between("the shape", sizes, 0, FAR - 1)
    value = at.get("value")
    value = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return full(sizes, value.reshape(-1)[0], value.dtype)


@row("Reshape")
def _reshape(at: At, x: Array, shape: Array = None) -> Array:
    wanted = at.get("shape") if shape is None else at.ints(shape, "the shape")
    check_between("the shape", wanted, -1, FAR - 1)
    keeps = not at.get("allowzero", 0)
    return x.reshape(
        [x.shape[k] if keeps and isinstance(n, int) and n == 0 else n for k, n in enumerate(wanted)]
    )


@row("Flatten")
def _flatten(at: At, x: Array) -> Array:
    axis = at.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


@row("Transpose")
def _transpose(at: At, x: Array) -> Array:
    order = at.get("perm")
    return x.transpose(*(order or range(x.ndim)[::-1])) if x.ndim > 1 else x


@row("Squeeze")
def _squeeze(at: At, x: Array, axes: Array = None) -> Array:
    if axes is None and at.get("axes") is None:
        return x.reshape([n for n in x.shape if n != 1])
    dropped = axes_of(at, axes, x.ndim)
    return x.reshape([n for a, n in enumerate(x.shape) if a not in dropped])


@row("Unsqueeze")
def _unsqueeze(at: At, x: Array, axes: Array = None) -> Array:
    given = at.get("axes") if axes is None else at.ints(axes, "axes")
    rank = x.ndim + len(given)
    check_axes("axes", given, rank)
    places = {int(a) % rank for a in given}
    left = iter(x.shape)
    return x.reshape([1 if a in places else next(left) for a in range(rank)])


@row("Expand")
def _expand(at: At, x: Array, shape: Array) -> Array:
    sizes = at.ints(shape, "the shape")
    check_between("the shape", sizes, 0, FAR - 1)
    return broadcast(x, broadcast_shape(x.shape, sizes))


@row("Tile")
def _tile(at: At, x: Array, repeats: Array, axis: Array = None) -> Array:
    if axis is not None:
        counts = [1] * x.ndim
        counts[int(at.known(axis, "axis"))] = int(at.known(repeats, "tiles"))
    else:
        counts = at.ints(repeats, "repeats")
        if len(counts) != x.ndim:
            raise at.refuse(f"repeats = {counts}; expected a number for each of {x.ndim} axes")
    check_between("repeats", counts, 0, FAR - 1)
    return np.tile(roomy(x, [n * m for n, m in zip(x.shape, counts, strict=True)]), counts)


@row("Concat")
def _concat(at: At, *xs: Array) -> Array:
    return np.concatenate(xs, axis=at.get("axis", 1 if at.version < 4 else None))


@row("Slice")
def _slice(at: At, x: Array, starts: Array = None, ends: Array = None, axes: Array = None,
           steps: Array = None) -> Array:  # fmt: skip
    first = at.get("starts") if starts is None else at.ints(starts, "starts")
    last = at.get("ends") if ends is None else at.ints(ends, "ends")
    given = at.get("axes") if axes is None else at.ints(axes, "axes")
    by = [1] * len(first) if steps is None else at.ints(steps, "steps")
    given = list(given or range(len(first)))
    check_axes("axes", given, x.ndim)
    where = [slice(None)] * x.ndim
    for a, begin, end, step in zip(given, first, last, by, strict=True):
        where[a] = _cut(x.shape[a], begin, end, step)
    return x[tuple(where)]


def _cut(size: int, begin: int, end: int, step: int) -> slice:
    """What Python calls a slice that ONNX clamps."""
    if not all(isinstance(n, int) for n in (size, begin, end)):
        return _cut_sizes(size, begin, end, step)
    begin, end = (n + size if n < 0 else n for n in (begin, end))
    if step > 0:
        return slice(min(max(begin, 0), size), min(max(end, 0), size), step)
    begin, end = min(max(begin, -1), size - 1), min(max(end, -1), size - 1)
    return slice(begin, None if end < 0 else end, step) if begin >= 0 else slice(0, 0)


def _cut_sizes(size: Any, begin: Any, end: Any, step: int) -> slice:
    """Of an axis whose size varies: what is beyond every array stands for its end."""
    last = isinstance(end, int) and abs(end) >= FAR
    if step > 0:
        begin = 0 if isinstance(begin, int) and begin <= -FAR else begin
        return slice(begin, None if last else end, step)
    first = isinstance(begin, int) and begin >= FAR
    return slice(None if first or begin is size else begin, None if last else end, step)


@row("Split")
def _split(at: At, x: Array, parts: Array = None) -> tuple[Array, ...]:
    axis, count = at.get("axis", 0), len(at.node.outputs)
    given = at.get("split") if parts is None else at.ints(parts, "split")
    if given is None:
        size = x.shape[axis]
        each = -(-size // count)
        given = [max(0, min(each, size - k * each)) for k in range(count)]
    check_split(given, x.shape[axis])
    ends = accumulate(given, initial=0)
    return tuple(cut(x, axis % x.ndim, slice(begin, end)) for begin, end in pairwise(ends))


@row("Pad")
def _pad(at: At, x: Array, pads: Array = None, value: Array = None, axes: Array = None) -> Array:
    given = at.get("pads", at.get("paddings")) if pads is None else at.ints(pads, "pads")
    chosen = list(range(x.ndim)) if axes is None else at.ints(axes, "axes")
    half = len(given) // 2
    check_between("pads", given, 1 - FAR, FAR - 1)
    check_axes("axes", chosen, x.ndim)
    around = [[0, 0] for _ in range(x.ndim)]
    for k, a in enumerate(chosen):
        around[a] = [given[k], given[half + k]]
    mode = at.get("mode", "constant")
    cut = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, around, strict=True)
    )
    x = x[cut]
    around = [(max(a, 0), max(b, 0)) for a, b in around]
    if not any(a or b for a, b in around):
        return x
    shape = [n + a + b for n, (a, b) in zip(x.shape, around, strict=True)]
    if mode != "constant":
        return np.pad(roomy(x, shape), around, mode=mode)
    if value is None:
        value = np.asarray(at.get("value", 0.0), x.dtype)
    whole = np.broadcast_to(traced(value).reshape(()).astype(x.dtype), shape).copy()
    whole[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, around, strict=True))] = x
    return whole


@row("Gather")
def _gather(at: At, x: Array, places: Array) -> Array:
    return taken(x, places, at.get("axis", 0))


@row("GatherElements")
def _gather_elements(at: At, x: Array, places: Array) -> Array:
    axis = at.get("axis", 0) % x.ndim
    places = np.where(places < 0, places + x.shape[axis], places)
    return x[_grid(places, axis)]


def _grid(places: Array, axis: int) -> tuple[Array, ...]:
    """Indices that lead to `places` along an axis."""
    rank = places.ndim
    return tuple(
        places if a == axis else broadcast(counted(n, a, rank), places.shape)
        for a, n in enumerate(places.shape)
    )


@row("TensorScatter")
def _tensor_scatter(at: At, past: Array, update: Array, begin: Array = None) -> Array:
    """Rows of each example of a cache, written from a place on."""
    axis = at.get("axis", -2) % past.ndim
    found, new = np.moveaxis(traced(past), axis, 1).copy(), np.moveaxis(traced(update), axis, 1)
    line = arange(past.shape[0])[:, None]
    places = arange(update.shape[axis]) + (0 * line if begin is None else begin.reshape(-1, 1))
    if at.get("mode", "linear") == "circular":
        places = places % past.shape[axis]
    found[line, places] = new
    return np.moveaxis(found, 1, axis)


@row("GatherND")
def _gather_nd(at: At, x: Array, places: Array) -> Array:
    batch, depth = at.get("batch_dims", 0), places.shape[-1]
    index = [places[..., k] for k in range(depth)]
    index = [np.where(i < 0, i + x.shape[batch + k], i) for k, i in enumerate(index)]
    lines = [counted(n, a, places.ndim - 1) for a, n in enumerate(places.shape[:batch])]
    return x[(*lines, *index)]


_COMBINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _put(at: At, x: Array, where: tuple[Array, ...], update: Array) -> Array:
    found, how = traced(x).copy(), at.get("reduction", "none")
    if how == "none":
        found[where] = update
    else:
        _COMBINED[how].at(found, where, update)
    return found


@row("ScatterElements", "Scatter")
def _scatter_elements(at: At, x: Array, places: Array, update: Array) -> Array:
    axis = at.get("axis", 0) % x.ndim
    places = np.where(places < 0, places + x.shape[axis], places)
    return _put(at, x, _grid(places, axis), update)


@row("ScatterND")
def _scatter_nd(at: At, x: Array, places: Array, update: Array) -> Array:
    index = [places[..., k] for k in range(places.shape[-1])]
    return _put(
        at, x, tuple(np.where(i < 0, i + x.shape[k], i) for k, i in enumerate(index)), update
    )


@row("Compress")
def _compress(at: At, x: Array, keeps: Array) -> Array:
    axis = at.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    if not is_known(keeps):
        if x.ndim > 1:
            raise at.refuse("which slices it keeps is computed by the model")
        return x[: keeps.shape[0]][keeps]
    return np.take(x, np.flatnonzero(np.asarray(keeps)), axis=axis)


@row("OneHot")
def _one_hot(at: At, places: Array, depth: Array, values: Array) -> Array:
    n = at.number(depth, "the depth")
    check_between("the depth", n, 1, FAR - 1)
    axis = at.get("axis", -1)
    axis = axis + places.ndim + 1 if axis < 0 else axis
    whole = places.astype(np.int64)
    whole = np.where(whole < 0, whole + n, whole)
    hit = np.expand_dims(whole, axis) == counted(n, axis, places.ndim + 1)
    return np.where(hit, values[1], values[0])


@row("Range")
def _range(at: At, start: Array, end: Array, step: Array) -> Array:
    ends = [at.known(x, "the range") for x in (start, end, step)]
    if any(has_sizes(x) for x in ends):
        return arange(*(at.number(x, "the range") for x in ends))
    numbers: list[Any] = [x.reshape(())[()] for x in ends]
    begin, last, by = (x.item() for x in numbers)
    check_room(ceil((last - begin) / by), "the range")
    return np.arange(*numbers, dtype=numbers[0].dtype)


@row("EyeLike")
def _eye_like(at: At, x: Array) -> Array:
    kind = at.get("dtype")
    dtype = x.dtype if kind is None else dtype_of(int(kind))
    rows, columns = arange(x.shape[0])[:, None], arange(x.shape[1])
    return (columns - rows == at.get("k", 0)).astype(dtype)


@row("Trilu")
def _trilu(at: At, x: Array, k: Array = None) -> Array:
    offset = 0 if k is None else at.number(k, "k")
    upper = at.get("upper", 1)
    apart = arange(x.shape[-1]) - arange(x.shape[-2])[:, None]
    keeps = apart >= offset if upper else apart <= offset
    return np.where(keeps, x, np.zeros_like(x))


@row("NonZero")
def _non_zero(at: At, x: Array) -> Array:
    if is_known(x):
        return np.array(np.nonzero(x), np.int64).reshape(max(np.ndim(x), 1), -1)
    return np.stack(np.nonzero(x))


@row("Unique")
def _unique(at: At, x: Array) -> tuple[Array, ...]:
    known = at.known(x, "what it looks at")
    axis, ordered = at.get("axis"), at.get("sorted", 1)
    values, first, inverse, counts = np.unique(known, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not ordered:
        order = np.argsort(first)
        back = np.argsort(order)
        values = np.take(values, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], back[inverse]
    return values, *(x.astype(np.int64) for x in (first, inverse, counts))


@row("DepthToSpace")
def _depth_to_space(at: At, x: Array) -> Array:
    b, (n, c, h, w) = at.get("blocksize"), x.shape
    if at.get("mode", "DCR") == "DCR":
        y = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c // b**2, h * b, w * b)


@row("SpaceToDepth")
def _space_to_depth(at: At, x: Array) -> Array:
    b, (n, c, h, w) = at.get("blocksize"), x.shape
    y = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if at.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return y.transpose(*order).reshape(n, c * b * b, h // b, w // b)


@row("ReverseSequence")
def _reverse_sequence(at: At, x: Array, lengths: Array) -> Array:
    time, batch = at.get("time_axis", 0), at.get("batch_axis", 1)
    line = counted(x.shape[time], time, x.ndim)
    length = lengths.reshape([x.shape[batch] if a == batch else 1 for a in range(x.ndim)])
    places = broadcast(np.where(line < length, length - 1 - line, line), x.shape)
    return np.take_along_axis(x, places, time)


@row("CenterCropPad")
def _center_crop_pad(at: At, x: Array, shape: Array) -> Array:
    wanted = at.ints(shape, "the shape")
    check_between("the shape", wanted, 0, FAR - 1)
    axes = [a % x.ndim for a in at.get("axes", range(x.ndim))]
    for a, n in zip(axes, wanted, strict=True):
        have = x.shape[a]
        if have > n:
            begin = (have - n) // 2
            x = cut(x, a, slice(begin, begin + n))
        elif have < n:
            begin = (n - have) // 2
            around = [(begin, n - have - begin) if b == a else (0, 0) for b in range(x.ndim)]
            x = np.pad(roomy(x, [*x.shape[:a], n, *x.shape[a + 1 :]]), around)
    return x
