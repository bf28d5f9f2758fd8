# pyright: basic
"""Rows of ops that read between elements, of distances, and of bags of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlc.frontend import nn
from mlc.frontend.importers.fx.run import At, constant, row
from mlc.frontend.importers.onnx.sampling import grid_sample
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.transforms.derivatives import vjp

Array = Any

_MODES, _AROUND = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


def _sampled(mode: int, around: int, corners: bool) -> Callable[[Array, Array], Array]:
    said = _MODES[mode], _AROUND[around], corners
    return lambda x, grid: grid_sample(x, grid, *said)


@row("grid_sampler_2d", "grid_sampler_3d", "grid_sampler")
def _grid_sample(at: At, x: Array, grid: Array, mode: int, around: int, corners: bool) -> Array:
    return _sampled(mode, around, corners)(x, grid)


@row("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def _grid_sample_backward(
    at: At, g: Array, x: Array, grid: Array, mode: int, around: int, corners: bool, wanted: Any
) -> tuple[Array, ...]:
    sample = _sampled(mode, around, corners)
    of_x = vjp(lambda x: sample(x, grid), x)[1](g)[0] if wanted[0] else None
    return of_x, vjp(lambda places: sample(x, places), grid)[1](g)[0]


# distances


def _distance(apart: Array, order: float) -> Array:
    """The norm of the last axis."""
    size = np.abs(apart)
    if order == 0:
        return (size != 0).sum(-1).astype(apart.dtype)
    if order == float("inf"):
        return size.max(-1)
    if order == 1:
        return size.sum(-1)
    return (size**order).sum(-1) ** (1 / order)


def _pull_of_distance(g: Array, apart: Array, found: Array, order: float) -> Array:
    """The cotangent of `apart`; 0 where there is no distance."""
    g, found = g[..., None], found[..., None]
    size, sign = np.abs(apart), np.sign(apart)
    if order == 0:
        return np.zeros_like(apart)
    if order == 1:
        return g * sign
    if order == float("inf"):
        return np.where(size == found, g * sign, 0)
    near = found == 0
    ratio = np.where(near, 0, size) / np.where(near, 1, found)
    pulled = g * sign * np.where(size == 0, 1, ratio) ** (order - 1)
    return np.where((size == 0) | near, 0, pulled)


@row("_cdist_forward")
def _distances(at: At, x: Array, y: Array, order: float, mode: Any = None) -> Array:
    return _distance(x[..., :, None, :] - y[..., None, :, :], order)


@row("_cdist_backward")
def _distances_backward(at: At, g: Array, x: Array, y: Array, order: float, found: Array) -> Array:
    return _pull_of_distance(g, x[..., :, None, :] - y[..., None, :, :], found, order).sum(-2)


def _pairs(count: int) -> tuple[Array, Array]:
    """The first and the second of all pairs of numbers below."""
    first, second = np.triu_indices(count, 1)
    return constant(first), constant(second)


@row("_pdist_forward")
def _distances_of_pairs(at: At, x: Array, order: float = 2) -> Array:
    if not isinstance(x.shape[0], int):
        raise at.refuse("distances of pairs whose number varies")
    first, second = _pairs(x.shape[0])
    return _distance(x[first] - x[second], order)


@row("_pdist_backward")
def _distances_of_pairs_backward(at: At, g: Array, x: Array, order: float, found: Array) -> Array:
    first, second = _pairs(x.shape[0])
    pulled = _pull_of_distance(g, x[first] - x[second], found, order)
    made = np.zeros_like(x)
    np.add.at(made, first, pulled)
    np.add.at(made, second, -pulled)
    return made


# products of three, and weights of a given length


@row("_trilinear")
def _trilinear(
    at: At, x: Array, y: Array, z: Array, of_x: Sequence[int], of_y: Sequence[int],
    of_z: Sequence[int], summed: Sequence[int], unrolled: int = 1,
) -> Array:  # fmt: skip
    """The sum of products over axes; `of_x`: axes that x lacks."""
    rank, beyond = x.ndim + len(of_x), (of_x, of_y, of_z)
    letters = "abcdefghijklm"[:rank]
    said = ["".join(c for k, c in enumerate(letters) if k not in left) for left in beyond]
    left = "".join(c for k, c in enumerate(letters) if k not in summed)
    return np.einsum(f"{','.join(said)}->{left}", x, y, z)


@row("_weight_norm_interface")
def _weight_norm(at: At, v: Array, g: Array, axis: int = 0) -> tuple[Array, Array]:
    size = _length(v, axis)
    return v * (g / size.astype(v.dtype)), size


def _length(v: Array, axis: int) -> Array:
    others = tuple(k for k in range(v.ndim) if k != axis % v.ndim)
    return np.sqrt((v * v).sum(others, keepdims=True))


@row("_weight_norm_interface_backward")
def _weight_norm_backward(
    at: At, cotangent: Array, v: Array, g: Array, size: Array, axis: int
) -> tuple[Array, ...]:
    return vjp(lambda v, g: v * (g / _length(v, axis)), v, g)[1](cotangent)


# bags: sums and means of rows that lie behind one another

_SUM, _MEAN = 0, 1


@row("_embedding_bag", "_embedding_bag_forward_only")
def _bags(
    at: At, table: Array, ids: Array, starts: Array, by_count: bool = False, mode: int = _SUM,
    sparse: bool = False, weights: Array = None, with_end: bool = False, padding: int = -1,
) -> tuple[Array, ...]:  # fmt: skip
    said = _bag_of(at, ids, starts, mode, by_count or sparse)
    counts = _counts(ids, said, at.shape[0], padding)
    made = _bagged(ids, said, counts, mode, padding, at.shape[0])
    found = made(table) if weights is None else made(table, weights)
    shapes = list(map(at.shape_of, at.values[1:]))
    empty = full((0,), 0, ids.dtype)
    return found, *map(_fitted, (said, counts, empty), shapes)


def _fitted(line: Array, shape: tuple[Any, ...]) -> Array:
    """What the way back is told, as long as the graph says: PyTorch leaves out what it can make."""
    if line.shape == shape:
        return line
    made = full(shape, 0, line.dtype)
    if len(shape) == 1 and shape != (0,):  # with one for the end of the last bag
        made[: line.shape[0]] = line
    return made


def _bag_of(at: At, ids: Array, starts: Array, mode: int, otherwise: bool) -> Array:
    """For each id the bag that it is in."""
    if mode > _MEAN or otherwise:
        raise at.refuse("bags other than sums and means")
    return np.searchsorted(starts, arange(ids.shape[0]), side="right") - 1


def _counts(ids: Array, bag: Array, bags: Any, padding: int) -> Array:
    counts = full((bags,), 0, ids.dtype)
    np.add.at(counts, bag, (ids != padding).astype(ids.dtype))
    return counts


def _bagged(
    ids: Array, bag: Array, counts: Array, mode: int, padding: int, bags: Any
) -> Callable[..., Array]:
    """The bags, of a table and of a weight for each id."""

    def made(table: Array, weights: Array = None) -> Array:
        rows = nn.embedding(table, ids)
        rows = rows if weights is None else rows * weights[:, None]
        if padding >= 0:
            rows = np.where((ids == padding)[:, None], 0, rows).astype(table.dtype)
        sums = full((bags, table.shape[1]), 0, table.dtype)
        np.add.at(sums, bag, rows)
        if mode == _SUM:
            return sums
        return sums / np.maximum(counts, 1)[:, None].astype(table.dtype)

    return made


@row("_embedding_bag_backward")
def _bags_backward(
    at: At, g: Array, ids: Array, starts: Array, bag: Array, sizes: Array, most: Array,
    count: Any, by_count: bool, mode: int, sparse: bool, weights: Array, padding: int = -1,
) -> Array:  # fmt: skip
    bag = _bag_of(at, ids, starts, mode, by_count or sparse)
    counts = _counts(ids, bag, g.shape[0], padding)
    made = _bagged(ids, bag, counts, mode, padding, g.shape[0])
    given = () if weights is None else (weights,)
    return vjp(lambda table: made(table, *given), full(at.shape, 0, at.dtype))[1](g)[0]


@row("_embedding_bag_per_sample_weights_backward")
def _bag_weights_backward(
    at: At, g: Array, table: Array, ids: Array, starts: Array, bag: Array, mode: int,
    padding: int = -1,
) -> Array:  # fmt: skip
    bag = _bag_of(at, ids, starts, mode, False)  # PyTorch may have left it out
    found = (g[bag] * nn.embedding(table, ids)).sum(-1)
    return found if padding < 0 else np.where(ids == padding, 0, found).astype(g.dtype)
