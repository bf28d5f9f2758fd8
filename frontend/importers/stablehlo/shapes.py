# pyright: basic
"""Ops of StableHLO that move elements: shapes, slices, pads, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlc.frontend.importers.bounds import FAR, check_between
from mlc.frontend.importers.stablehlo.program import Op, TensorKind
from mlc.frontend.importers.stablehlo.text import numpy_of
from mlc.frontend.numpy.creation import arange, ones, zeros
from mlc.frontend.trace.constant import written
from mlc.frontend.trace.loops import fori_loop
from mlc.frontend.trace.program_sizes import natural
from mlc.frontend.trace.symbolic import as_dim, as_size

Array = Any
Combine = Callable[[Array, Array], Array]


def sizes_of(op: Op) -> tuple[int, ...]:
    """The first result's sizes, which its type says; ValueError where it leaves one open."""
    kind = op.kinds[0]
    assert isinstance(kind, TensorKind)
    if None in kind.shape:
        raise ValueError(f"the result's type leaves sizes open; expected dynamic_{op.name}")
    return tuple(n for n in kind.shape if n is not None)


def check_numbers(name: str, numbers: Sequence[Any], least: int) -> None:
    """ValueError where one of an attribute's numbers cannot be; sizes that vary can."""
    check_between(name, list(numbers), least, FAR - 1)


def broadcast_in_dim(op: Op, x: Array, shape: Sequence[Any]) -> Array:
    """Axis k of x becomes axis `dims[k]`."""
    dims = op.get("broadcast_dimensions", ())
    order = np.argsort(dims, kind="stable") if len(dims) else ()
    turned = x.transpose(*(int(k) for k in order)) if len(dims) > 1 else x
    places = {int(dims[k]): x.shape[int(k)] for k in order}
    return np.broadcast_to(turned.reshape([places.get(a, 1) for a in range(len(shape))]), shape)


def spread(x: Array, places: Sequence[int], rank: int) -> Array:
    """x with axes of one element between its own, which come to these places of `rank`."""
    sizes: list[Any] = [1] * rank
    for place, size in zip(places, x.shape, strict=True):
        sizes[place] = size
    return x.reshape(sizes)


def iota(op: Op, shape: Sequence[Any]) -> Array:
    """Numbers along an axis."""
    axis = int(op.get("iota_dimension", 0))
    kind = op.kinds[0]
    assert isinstance(kind, TensorKind)
    numbers = line(shape[axis], axis, len(shape)).astype(numpy_of(kind))
    known = isinstance(numbers, np.ndarray)
    return np.broadcast_to(written(numbers) if known else numbers, shape)


_WRITTEN = 1 << 16
"""Positions that are written as numbers: more are counted."""


def line(size: Any, axis: int, rank: int) -> Array:
    """0, 1, … along one of `rank` axes."""
    short = isinstance(size, int) and size <= _WRITTEN
    numbers = np.arange(size) if short else arange(size)
    return numbers.reshape([size if a == axis else 1 for a in range(rank)])


def slice_(op: Op, x: Array) -> Array:
    """`slice %x [1:3, 0:5:2]`."""
    names = ("start_indices", "limit_indices", "strides")
    ranges = zip(*(op.get(name) for name in names), strict=True)
    return x[tuple(slice(*map(int, each)) for each in ranges)]


def dynamic_slice(op: Op, x: Array, *starts: Array) -> Array:
    """A part of known sizes, moved so that it lies inside."""
    sizes = [int(n) for n in op.get("slice_sizes")]
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
        place + line(size, axis, rank)
        for axis, (place, size) in enumerate(zip(places, sizes, strict=True))
    )


def pad(
    x: Array, value: Array, low: Sequence[int], high: Sequence[int], inner: Sequence[int]
) -> Array:
    """Elements between and around; fewer where a number is negative."""
    check_numbers("low padding", low, 1 - FAR)
    check_numbers("high padding", high, 1 - FAR)
    check_numbers("interior padding", inner, 0)
    if any(not isinstance(i, int) or i for i in inner):
        spread = [n + _natural(n - 1) * i for n, i in zip(x.shape, inner, strict=True)]
        between = _full(spread, value)
        between[tuple(slice(None, None, i + 1) for i in inner)] = x
        x = between
    cut = tuple(
        slice(_natural(-a), n - _natural(-b)) for n, a, b in zip(x.shape, low, high, strict=True)
    )
    x = x[cut]
    around = [(_natural(a), _natural(b)) for a, b in zip(low, high, strict=True)]
    if all(isinstance(n, int) and not n for pair in around for n in pair):
        return x
    whole = _full([a + n + b for n, (a, b) in zip(x.shape, around, strict=True)], value)
    whole[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, around, strict=True))] = x
    return whole


def _natural(size: Any) -> Any:
    """max(size, 0)."""
    dim = as_dim(size)
    return max(size, 0) if dim is None else as_size(natural(dim))


def _full(shape: Sequence[int], value: Array) -> Array:
    """An array of the program, which can be written to."""
    if isinstance(value, np.ndarray):
        value = written(value)
    return np.broadcast_to(value, shape).copy()


def pad_op(op: Op, x: Array, value: Array) -> Array:
    """`pad %x, %v, low = […], high = […], interior = […]`."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return pad(x, value, *([int(n) for n in op.get(name)] for name in names))


def concatenate(op: Op, *xs: Array) -> Array:
    """Side by side along an axis."""
    return np.concatenate(xs, axis=int(op.get("dimension", 0)))


def reverse(op: Op, x: Array) -> Array:
    """The other way round along some axes."""
    return np.flip(x, tuple(op.get("dimensions", ()))) if x.ndim else x


def transpose(op: Op, x: Array) -> Array:
    """Axis k of the result is axis `dims[k]`."""
    return x.transpose(*op.get("permutation")) if x.ndim > 1 else x


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
        vector, rank = int(numbers.get("index_vector_dim", 0)), len(shape)
        check_between("axes of windows", window, 0, rank - 1)
        check_between("index_vector_dim", vector, 0, indices.ndim)
        inside = [*dropped, *batching, *start_map]
        check_between("axes of the operand", inside, 0, len(operand) - 1)
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
            starts[axis] = spread(start, outer, rank)
        for axis, side in zip(batching, beside, strict=True):
            place = outer[axes.index(side)]
            starts[axis] = line(shape[place], place, rank)
        kept = [a for a in range(len(operand)) if a not in dropped and a not in batching]
        self.at: list[Array] = []
        for axis in range(len(operand)):
            found = starts.get(axis, np.zeros([1] * rank, np.int64))
            if axis in kept:
                at = window[kept.index(axis)]
                found = found + line(shape[at], at, rank)
            self.at.append(found)


def _listed(numbers: Mapping[str, Any], *names: str) -> list[int]:
    return [int(n) for name in names for n in numbers.get(name, ())]


def gather(op: Op, x: Array, indices: Array, sizes: Sequence[Any] | None = None) -> Array:
    """Windows of x of some sizes, moved so that they lie inside."""
    numbers = op.get("dimension_numbers", {})
    if sizes is None:
        sizes = [int(n) for n in op.get("slice_sizes")]
    window = _listed(numbers, "offset_dims")
    shape = _gathered(sizes, indices.shape, numbers)
    places = Places(x.shape, indices, shape, window, numbers, clamp=sizes)
    found = x[tuple(places.at)] if places.at else x
    return np.broadcast_to(found, shape)


def _gathered(
    sizes: Sequence[Any], indices: Sequence[Any], numbers: Mapping[str, Any]
) -> list[Any]:
    """The shape of a gather's result: axes of windows where `offset_dims` says, others around."""
    window = _listed(numbers, "offset_dims")
    dropped = _listed(numbers, "collapsed_slice_dims", "operand_batching_dims")
    inner = iter(n for axis, n in enumerate(sizes) if axis not in dropped)
    vector = int(numbers.get("index_vector_dim", 0))
    outer = iter(n for axis, n in enumerate(indices) if axis != vector)
    rank = len(sizes) - len(dropped) + len(indices) - (vector < len(indices))
    check_between("offset_dims", window, 0, rank - 1)
    return [next(inner) if axis in window else next(outer) for axis in range(rank)]


class Targets:
    """Where a scatter's updates go: in an operand that has room for those that go nowhere."""

    def __init__(self, op: Op, operand: Sequence[Any], indices: Array, update: Array) -> None:
        numbers = op.get("scatter_dimension_numbers", {})
        window = _listed(numbers, "update_window_dims")
        self.scalar = not operand
        if self.scalar:  # one element, as often as there are updates
            operand, numbers = (1,), {**numbers, "inserted_window_dims": [0]}
        places = Places(operand, indices, update.shape, window, numbers, clamp=None)
        inside = ones(update.shape, bool)
        for at, size in zip(places.at, operand, strict=True):
            inside = inside & (at >= 0) & (at < size)
        # places outside go to a row of their own, which is cut off again
        first = np.where(inside, places.at[0], operand[0])
        others = [np.where(inside, np.broadcast_to(at, update.shape), 0) for at in places.at[1:]]
        self.where = (np.broadcast_to(first, update.shape), *others)

    def grown(self, x: Array) -> Array:
        """The operand with that row."""
        x = x.reshape(1) if self.scalar else x
        return np.concatenate([x, zeros((1, *x.shape[1:]), x.dtype)], axis=0)

    def cut(self, grown: Array) -> Array:
        """The operand without it."""
        return grown[:-1].reshape(()) if self.scalar else grown[:-1]


def scatters(how: str, dtype: np.dtype[Any]) -> bool:
    """Whether a scatter by this op is one of NumPy's: `np.add.at` and its kin, or `x[i] = u`."""
    return how in ("set", *_SCATTERED) and not (dtype.kind == "c" and how in ("maximum", "minimum"))


def scatter(op: Op, x: Array, indices: Array, update: Array, how: str) -> Array:
    """x with updates combined at their places by a monoid, `how`; none for what lies outside."""
    targets = Targets(op, x.shape, indices, update)
    if how != "set" and x.dtype.kind == "b":
        how = of_dtype(how, x.dtype).replace("or", "maximum").replace("and", "minimum")
        found = targets.grown(x).astype(np.int8)
        MONOIDS[how].at(found, targets.where, update.astype(np.int8))
        return targets.cut(found != 0)
    found = targets.grown(x)
    if how == "set":
        found[targets.where] = update
    else:
        MONOIDS[how].at(found, targets.where, update)
    return targets.cut(found)


def scatter_by(
    op: Op, combine: Callable[..., tuple[Array, ...]], xs: Sequence[Array], indices: Array,
    updates: Sequence[Array],
) -> tuple[Array, ...]:  # fmt: skip
    """Operands with updates combined at their places by a region: one update after the other."""
    targets = Targets(op, xs[0].shape, indices, updates[0])
    grown = tuple(targets.grown(x) for x in xs)
    if op.get("unique_indices") and len({x.shape for x in updates}) == 1:
        found = combine(*(x[targets.where] for x in grown), *updates)
        for x, value in zip(grown, found, strict=True):
            x[targets.where] = value
        return tuple(map(targets.cut, grown))
    flat = [x.reshape(-1) for x in updates]
    where = [at.reshape(-1) for at in targets.where]

    def trip(k: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        at = tuple(each[k] for each in where)
        found = combine(*(x[at] for x in state), *(x[k] for x in flat))
        new = tuple(x.copy() for x in state)
        for x, value in zip(new, found, strict=True):
            x[at] = value
        return new

    return tuple(map(targets.cut, fori_loop(0, flat[0].shape[0], trip, grown)))


_SCATTERED = ("add", "multiply", "minimum", "maximum")
MONOIDS: Mapping[str, np.ufunc] = {
    "add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
"""Ops of two arguments that may be in the region of a fold or a scatter."""


def of_dtype(how: str, dtype: np.dtype[Any]) -> str:
    """What such an op, or "set", is of truth values."""
    same = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
    return same.get(how, how) if dtype.kind == "b" else how
