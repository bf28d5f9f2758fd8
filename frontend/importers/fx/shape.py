# pyright: basic
"""Rows of ops that place elements: views, joins, fills, picks and writes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mlc.dialects.dims import MOST
from mlc.dialects.dtypes import is_real
from mlc.frontend import nn
from mlc.frontend.importers.fx.run import ROWS, At, agreed, constant, row
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.trace.symbolic import as_dim
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.transforms.derivatives import vjp

Array = Any

for _name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "_reshape_alias"):
    ROWS[_name] = lambda at, x, *_: x.reshape(at.shape)


@row("as_strided")
def _as_strided(at: At, x: Array, sizes: Any, strides: Any, offset: Any = None) -> Array:
    """The same tensor, but for the strides of axes of one element; no other."""
    value, made = at.node.args[0].meta["val"], at.values[0]
    moving = [axis for axis, n in enumerate(value.shape) if n != 1]
    if offset or made.shape != value.shape or any(
        made.stride(axis) != value.stride(axis) for axis in moving
    ):  # fmt: skip
        raise at.refuse("strides that are not those of its tensor")
    return x


@row("copy")
def _copy(at: At, x: Array, source: Array, blocking: bool = False) -> Array:
    return np.broadcast_to(source.astype(at.dtype), at.shape)


@row("permute")
def _permute(at: At, x: Array, order: Sequence[int]) -> Array:
    return x.transpose([axis % x.ndim for axis in order]) if x.ndim else x


@row("transpose", "t")
def _transpose(at: At, x: Array, first: int = 0, second: int = 1) -> Array:
    return np.swapaxes(x, first, second) if x.ndim > 1 else x


@row("expand")
def _expand(at: At, x: Array, shape: Any, *, implicit: bool = False) -> Array:
    return np.broadcast_to(x, at.shape)


def along(rank: int, axis: int, part: Any) -> tuple[Any, ...]:
    """A subscript that is `part` on one axis and everything on all others."""
    place = axis % rank
    return tuple(part if k == place else slice(None) for k in range(rank))


def _end(end: Any, size: Any) -> Any:
    """Where a slice ends; PyTorch says a number that no size reaches for the end of an axis."""
    if not isinstance(end, int):
        return end
    return min(end, size) if isinstance(size, int) else None if end > MOST // 2 else end


@row("slice")
def _slice(at: At, x: Array, axis: int = 0, start: Any = None, end: Any = None, step: int = 1):
    start = 0 if start is None else start
    if step == 1 and isinstance(start, int) and start >= 0:  # the meta data has clipped it
        end = start + at.shape[axis % x.ndim]
    else:
        end = _end(end, x.shape[axis])
    return x[along(x.ndim, axis, slice(start, end, step))]


def _put(x: Array, where: tuple[Any, ...], values: Any, *, accumulate: bool = False) -> Array:
    """A copy with other elements at some places."""
    found = x.copy()
    if accumulate:
        np.add.at(found, where, values)
    else:
        found[where] = values
    return found


@row("slice_scatter")
def _slice_scatter(
    at: At, x: Array, part: Array, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    return _put(x, along(x.ndim, axis, slice(start, _end(end, x.shape[axis]), step)), part)


@row("select")
def _select(at: At, x: Array, axis: int, index: Any) -> Array:
    return x[along(x.ndim, axis, index)]


@row("select_scatter")
def _select_scatter(at: At, x: Array, part: Array, axis: int, index: Any) -> Array:
    return _put(x, along(x.ndim, axis, index), part)


@row("cat")
def _cat(at: At, parts: Sequence[Array], axis: int = 0) -> Array:
    shape = at.shape
    parts = [p.astype(at.dtype) for p in parts if p.ndim == len(shape)]  # empty lines join anything
    dims = [None if k == axis % len(shape) else as_dim(n) for k, n in enumerate(shape)]
    return np.concatenate([agreed(p, dims) for p in parts], axis)


@row("stack")
def _stack(at: At, parts: Sequence[Array], axis: int = 0) -> Array:
    return np.stack([p.astype(at.dtype) for p in parts], axis)


@row("split_with_sizes", "split")
def _split(at: At, x: Array, sizes: Any, axis: int = 0) -> tuple[Array, ...]:
    found: list[Array] = []
    start: Any = 0
    for part in at.values:
        count = at.shape_of(part)[axis]
        found.append(x[along(x.ndim, axis, slice(start, start + count))])
        start = start + count
    return tuple(found)


@row("unbind")
def _unbind(at: At, x: Array, axis: int = 0) -> tuple[Array, ...]:
    return tuple(x[along(x.ndim, axis, k)] for k in range(len(at.values)))


@row("repeat")
def _repeat(at: At, x: Array, counts: Sequence[Any]) -> Array:
    return np.tile(x, tuple(counts))


@row("flip")
def _flip(at: At, x: Array, axes: Sequence[int]) -> Array:
    return np.flip(x, tuple(axes))


@row("diagonal")
def _diagonal(at: At, x: Array, offset: int = 0, first: int = 0, second: int = 1) -> Array:
    return np.diagonal(x, offset, first, second)


@row("constant_pad_nd")
def _pad(at: At, x: Array, widths: Sequence[Any], value: Any = 0) -> Array:
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    if any(isinstance(n, int) and n < 0 for pair in pairs for n in pair):
        cut = [slice(max(0, -a), n - max(0, -b))
               for (a, b), n in zip(pairs, x.shape, strict=True)]  # fmt: skip
        x, pairs = x[tuple(cut)], [(max(0, a), max(0, b)) for a, b in pairs]
    return np.pad(x, pairs, constant_values=value)


# fills


@row("full", "scalar_tensor", "full_like", "new_full")
def _full(at: At, *given: Any) -> Array:
    return full(at.shape, given[-1], at.dtype)


for _name, _value in {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1,
                      "new_ones": 1, "empty": 0, "empty_like": 0, "empty_strided": 0,
                      "new_empty": 0, "new_empty_strided": 0}.items():  # fmt: skip
    ROWS[_name] = lambda at, *_, value=_value: full(at.shape, value, at.dtype)


@row("fill")
def _fill(at: At, x: Array, value: Any) -> Array:
    if isinstance(value, Tracer):
        return np.broadcast_to(value.astype(at.dtype), at.shape)
    return full(at.shape, value, at.dtype)


def _line(at: At, start: Any, step: Any) -> Array:
    line = arange(at.shape[0])
    line = line.astype(at.dtype) if is_real(at.dtype) else line
    line = line if step == 1 else line * step
    return line if isinstance(start, int) and start == 0 else line + start


@row("arange")
def _arange(at: At, *given: Any) -> Array:
    start, step = {1: (0, 1), 2: (given[0], 1)}.get(len(given), (given[0], given[-1]))
    return _line(at, start, step)


@row("iota")
def _iota(at: At, length: Any, *, start: Any, step: Any, requires_grad: bool = False) -> Array:
    return _line(at, start, step)


@row("tril_indices", "triu_indices")
def _triangle(at: At, rows: int, columns: int, offset: int = 0) -> Array:
    find = np.tril_indices if at.name == "tril_indices" else np.triu_indices
    return constant(np.stack(find(rows, offset, columns)))


# picks and writes


def _subscript(at: At, places: Sequence[Any]) -> tuple[Any, ...]:
    if any(isinstance(p, Tracer) and p.dtype == bool for p in places):
        raise at.refuse("a mask as a subscript has a size that data decide")
    return tuple(slice(None) if p is None else p for p in places)


@row("index", "_unsafe_index")
def _index(at: At, x: Array, places: Sequence[Any]) -> Array:
    return x[_subscript(at, places)]


@row("index_put", "_unsafe_index_put")
def _index_put(
    at: At, x: Array, places: Sequence[Any], values: Array, accumulate: bool = False
) -> Array:
    return _put(x, _subscript(at, places), values, accumulate=accumulate)


@row("index_select")
def _index_select(at: At, x: Array, axis: int, index: Array) -> Array:
    return np.take(x, index, axis)


def _grid(x: Array, axis: int, index: Array) -> tuple[Any, ...]:
    """A subscript that says all axes of `index`: its numbers on one, its own places on others."""
    rank, place = x.ndim, axis % x.ndim
    return tuple(
        index if k == place
        else arange(index.shape[k]).reshape([-1 if j == k else 1 for j in range(rank)])
        for k in range(rank)
    )  # fmt: skip


@row("gather")
def _gather(at: At, x: Array, axis: int, index: Array, *, sparse_grad: bool = False) -> Array:
    return x[_grid(x, axis, index)] if x.ndim else x


@row("scatter", "scatter_add")
def _scatter(at: At, x: Array, axis: int, index: Array, values: Any) -> Array:
    if not x.ndim:
        index = index.reshape((1,))
        values = values.reshape((1,)) if isinstance(values, Tracer) else values
        return _scatter(at, x.reshape((1,)), 0, index, values).reshape(())
    if isinstance(values, Tracer) and values.ndim:
        values = values[tuple(slice(0, n) for n in index.shape)]
    return _put(x, _grid(x, axis, index), values, accumulate=at.name == "scatter_add")


_REDUCED = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum,
            "amin": np.minimum}  # fmt: skip


@row("scatter_reduce")
def _scatter_reduce(
    at: At, x: Array, axis: int, index: Array, values: Array, how: str, *, include_self: bool = True
) -> Array:
    if not x.ndim:
        raise at.refuse("a scatter into a number")
    where = _grid(x, axis, index)
    values = values[tuple(slice(0, n) for n in index.shape)]
    counts = full(x.shape, 1 if include_self else 0, np.int64)
    np.add.at(counts, where, 1)
    found = x.copy()
    if not include_self:
        found[where] = _neutral(how, x.dtype)
    _REDUCED[how].at(found, where, values)
    if how != "mean":
        return found
    counts = np.maximum(counts, 1).astype(x.dtype)
    return found / counts if is_real(x.dtype) else found // counts


def _neutral(how: str, dtype: np.dtype[Any]) -> Any:
    """What changes no result of a scatter."""
    if how not in ("amax", "amin"):
        return int(how == "prod")
    if is_real(dtype):
        return -np.inf if how == "amax" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if how == "amax" else limits.max


@row("masked_scatter")
def _masked_scatter(at: At, x: Array, mask: Array, source: Array) -> Array:
    mask = np.broadcast_to(mask, x.shape)
    return np.where(mask, source.reshape(-1)[_number(mask)].reshape(x.shape), x)


def _number(mask: Array) -> Array:
    """For each place of a mask how many are chosen before it."""
    return np.maximum(np.cumsum(mask.reshape(-1).astype(np.int64)) - 1, 0)


@row("masked_scatter_backward")
def _masked_scatter_backward(at: At, g: Array, mask: Array, sizes: Sequence[Any]) -> Array:
    mask = np.broadcast_to(mask, g.shape)
    found = full((prod(at.shape),), 0, at.dtype)
    np.add.at(found, _number(mask), np.where(mask, g, 0).reshape(-1))
    return found.reshape(at.shape)


@row("put")
def _put_flat(at: At, x: Array, index: Array, values: Array, accumulate: bool = False) -> Array:
    flat, where = x.reshape(-1), (index.reshape(-1),)
    return _put(flat, where, values.reshape(-1), accumulate=accumulate).reshape(at.shape)


@row("diagonal_scatter")
def _diagonal_scatter(
    at: At, x: Array, part: Array, offset: int = 0, first: int = 0, second: int = 1
) -> Array:
    numbers = arange(part.shape[-1])
    row, column = numbers + max(0, -offset), numbers + max(0, offset)
    turned = np.moveaxis(x, (first, second), (-2, -1))
    return np.moveaxis(_put(turned, (..., row, column), part), (-2, -1), (first, second))


@row("unfold")
def _unfold(at: At, x: Array, axis: int, size: int, step: int) -> Array:
    """Windows along an axis, their elements as a last one."""
    count = at.shape[axis % x.ndim]
    found = np.take(x, arange(count)[:, None] * step + arange(size), axis % x.ndim)
    return np.moveaxis(found, axis % x.ndim + 1, -1)


@row("embedding")
def _embedding(at: At, table: Array, ids: Array, *_: Any) -> Array:
    return nn.embedding(table, ids)


@row("embedding_dense_backward")
def _embedding_backward(
    at: At, g: Array, ids: Array, count: Any, padding: int, by_count: bool
) -> Array:
    if by_count:
        counts = full((count,), 0, np.int64)
        np.add.at(counts, ids, 1)
        g = g / counts[ids][..., None].astype(g.dtype)
    if padding >= 0:
        g = np.where((ids == padding)[..., None], 0, g).astype(g.dtype)
    _, pull = vjp(lambda w: nn.embedding(w, ids), full(at.shape, 0, at.dtype))
    return pull(g)[0]
