# pyright: basic
"""Ops of StableHLO that move elements: shapes, slices, pads, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlc.frontend.importers.stablehlo.program import Op, TensorKind
from mlc.frontend.trace.constant import written

Array = Any
Combine = Callable[[Array, Array], Array]


def sizes_of(op: Op) -> tuple[int, ...]:
    """The first result's sizes, which are known."""
    kind = op.kinds[0]
    assert isinstance(kind, TensorKind)
    return tuple(n or 0 for n in kind.shape)


def broadcast_in_dim(op: Op, x: Array) -> Array:
    """Axis k of x becomes axis `dims[k]`."""
    dims = op.get("dims", op.get("broadcast_dimensions", ()))
    shape = sizes_of(op)
    order = np.argsort(dims, kind="stable") if len(dims) else ()
    turned = x.transpose(*(int(k) for k in order)) if len(dims) > 1 else x
    places = {int(dims[k]): x.shape[int(k)] for k in order}
    return np.broadcast_to(turned.reshape([places.get(a, 1) for a in range(len(shape))]), shape)


def iota(op: Op) -> Array:
    """Numbers along an axis."""
    from mlc.frontend.importers.stablehlo.text import numpy_of

    shape, axis = sizes_of(op), int(op.get("dim", op.get("iota_dimension", 0)))
    kind = op.kinds[0]
    assert isinstance(kind, TensorKind)
    line = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return np.broadcast_to(line.astype(numpy_of(kind)), shape)


def slice_(op: Op, x: Array) -> Array:
    """`slice %x [1:3, 0:5:2]`."""
    ranges = op.get("ranges")
    if ranges is None:
        names = ("start_indices", "limit_indices", "strides")
        ranges = list(zip(*(op.get(name) for name in names), strict=True))
    return x[tuple(slice(a, b, c) for a, b, c in ranges)]


def dynamic_slice(op: Op, x: Array, *starts: Array) -> Array:
    """A part of known sizes, moved so that it lies inside."""
    sizes = op.get("sizes", op.get("slice_sizes"))
    places = _clamped(starts, [n - m for n, m in zip(x.shape, sizes, strict=True)])
    grids = _grids(places, sizes)
    return x[grids] if grids else x


def dynamic_update_slice(op: Op, x: Array, update: Array, *starts: Array) -> Array:
    """x with a part written over."""
    sizes = update.shape
    places = _clamped(starts, [n - m for n, m in zip(x.shape, sizes, strict=True)])
    grids = _grids(places, sizes)
    found = x.copy()
    if not grids:
        return update
    found[grids] = update
    return found


def _clamped(starts: Sequence[Array], most: Sequence[int]) -> list[Array]:
    return [
        np.clip(start.astype(np.int64), 0, top) for start, top in zip(starts, most, strict=True)
    ]


def _grids(places: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, ...]:
    """Indices of a part that begins at `places`, one array for each axis."""
    rank = len(sizes)
    return tuple(
        place + np.arange(size).reshape([-1 if a == axis else 1 for a in range(rank)])
        for axis, (place, size) in enumerate(zip(places, sizes, strict=True))
    )


def pad(
    x: Array, value: Array, low: Sequence[int], high: Sequence[int], inner: Sequence[int]
) -> Array:
    """Elements between and around; fewer where a number is negative."""
    if any(inner):
        spread = [n + max(n - 1, 0) * i for n, i in zip(x.shape, inner, strict=True)]
        between = _full(spread, value)
        between[tuple(slice(None, None, i + 1) for i in inner)] = x
        x = between
    cut = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for n, a, b in zip(x.shape, low, high, strict=True)
    )
    x = x[cut]
    around = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    if not any(a or b for a, b in around):
        return x
    whole = _full([a + n + b for n, (a, b) in zip(x.shape, around, strict=True)], value)
    whole[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, around, strict=True))] = x
    return whole


def _full(shape: Sequence[int], value: Array) -> Array:
    """An array of the program, which can be written to."""
    if isinstance(value, np.ndarray):
        value = written(value)
    return np.broadcast_to(value, shape).copy()


def pad_op(op: Op, x: Array, value: Array) -> Array:
    """`pad %x, %v, low = […], high = […], interior = […]`."""
    names = ("low", "high", "interior")
    long = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return pad(x, value, *(op.get(a, op.get(b)) for a, b in zip(names, long, strict=True)))


def concatenate(op: Op, *xs: Array) -> Array:
    """Side by side along an axis."""
    return np.concatenate(xs, axis=int(op.get("dim", op.get("dimension", 0))))


def reverse(op: Op, x: Array) -> Array:
    """The other way round along some axes."""
    return np.flip(x, tuple(op.get("dims", op.get("dimensions", ())))) if x.ndim else x


def transpose(op: Op, x: Array) -> Array:
    """Axis k of the result is axis `dims[k]`."""
    return x.transpose(*op.get("dims", op.get("permutation"))) if x.ndim > 1 else x


# gather and scatter


class Places:
    """
    Where each element of a gather's result, or of a scatter's updates, lies in the operand: one
    array of indices for each axis of the operand, and which of them are inside.
    """

    def __init__(
        self,
        operand: Sequence[int],
        indices: Array,
        shape: Sequence[int],
        window: Sequence[int],
        numbers: Mapping[str, Any],
        *,
        clamp: Sequence[int] | None,
    ) -> None:
        """`shape`: of result or updates; `window`: its axes that move inside a window."""
        names = ("collapsed_slice_dims", "inserted_window_dims")
        dropped = {*_listed(numbers, *names)}
        batching = _listed(numbers, "operand_batching_dims", "input_batching_dims")
        beside = _listed(numbers, "start_indices_batching_dims", "scatter_indices_batching_dims")
        start_map = _listed(numbers, "start_index_map", "scatter_dims_to_operand_dims")
        vector = int(numbers.get("index_vector_dim", 0))
        rank = len(shape)
        outer = [a for a in range(rank) if a not in window]
        if vector == indices.ndim:
            indices = indices[..., None]
        moved = np.moveaxis(indices, vector, -1) if vector != indices.ndim - 1 else indices
        axes = [a for a in range(indices.ndim) if a != vector]  # of indices, in the outer's order
        starts: dict[int, Array] = {}
        for k, axis in enumerate(start_map):
            start = moved[..., k].astype(np.int64)
            if clamp is not None:
                start = np.clip(start, 0, operand[axis] - clamp[axis])
            starts[axis] = self._spread(start, outer, shape)
        for axis, side in zip(batching, beside, strict=True):
            place = outer[axes.index(side)]
            starts[axis] = self._line(place, shape)
        kept = [a for a in range(len(operand)) if a not in dropped and a not in batching]
        self.at: list[Array] = []
        for axis in range(len(operand)):
            found = starts.get(axis, np.zeros([1] * rank, np.int64))
            if axis in kept:
                found = found + self._line(window[kept.index(axis)], shape)
            self.at.append(found)

    @staticmethod
    def _spread(start: Array, outer: Sequence[int], shape: Sequence[int]) -> Array:
        sizes = [1] * len(shape)
        for axis, size in zip(outer, start.shape, strict=True):
            sizes[axis] = size
        return start.reshape(sizes)

    @staticmethod
    def _line(axis: int, shape: Sequence[int]) -> Array:
        return np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])


def _listed(numbers: Mapping[str, Any], *names: str) -> list[int]:
    return [int(n) for name in names for n in numbers.get(name, ())]


def gather(op: Op, x: Array, indices: Array) -> Array:
    """Windows of x, moved so that they lie inside."""
    numbers = op.get("dimension_numbers", {})
    sizes = [int(n) for n in op.get("slice_sizes")]
    shape = sizes_of(op)
    window = _listed(numbers, "offset_dims")
    places = Places(x.shape, indices, shape, window, numbers, clamp=sizes)
    found = x[tuple(places.at)] if places.at else x
    return np.broadcast_to(found, shape)


def scatter(op: Op, x: Array, indices: Array, update: Array, how: str) -> Array:
    """x with updates combined at their places by a monoid, `how`; none for what lies outside."""
    numbers = op.get("scatter_dimension_numbers", {})
    window = _listed(numbers, "update_window_dims")
    if not x.ndim:  # one element, as often as there are updates
        x, numbers = x.reshape(1), {**numbers, "inserted_window_dims": [0]}
        found = _scattered(x, indices, update, how, window, numbers)
        return found.reshape(())
    return _scattered(x, indices, update, how, window, numbers)


def _scattered(
    x: Array, indices: Array, update: Array, how: str, window: Sequence[int],
    numbers: Mapping[str, Any],
) -> Array:  # fmt: skip
    places = Places(x.shape, indices, update.shape, window, numbers, clamp=None)
    inside = np.ones(update.shape, bool)
    for at, size in zip(places.at, x.shape, strict=True):
        inside = inside & (at >= 0) & (at < size)
    # places outside go to a row of their own, which is cut off again
    first = np.where(inside, places.at[0], x.shape[0])
    others = [np.where(inside, np.broadcast_to(at, update.shape), 0) for at in places.at[1:]]
    grown = np.concatenate([x, np.zeros((1, *x.shape[1:]), x.dtype)], axis=0)
    where = (np.broadcast_to(first, update.shape), *others)
    if how == "set":
        grown[where] = update
    else:
        MONOIDS[how].at(grown, where, update)
    return grown[:-1]


MONOIDS: Mapping[str, np.ufunc] = {
    "add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
"""Ops of two arguments that may be in the region of a fold or a scatter."""


def of_dtype(how: str, dtype: np.dtype[Any]) -> str:
    """What such an op, or "set", is of truth values."""
    same = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
    return same.get(how, how) if dtype.kind == "b" else how
