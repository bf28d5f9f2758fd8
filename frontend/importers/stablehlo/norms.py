# pyright: basic
"""Ops of StableHLO that are made of others: batch norms, `einsum`, `torch_index_select`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlc.frontend.importers.stablehlo.program import Op
from mlc.frontend.importers.stablehlo.shapes import line

Array = Any


class _Features:
    """The axis of features of an operand, and sums over all others."""

    def __init__(self, op: Op, x: Array) -> None:
        axis = int(op.get("feature_index"))
        self.others = tuple(a for a in range(x.ndim) if a != axis)
        self.shape = [n if a == axis else 1 for a, n in enumerate(x.shape)]
        self.epsilon = np.array(op.get("epsilon"), x.dtype)
        self.count = math.prod(x.shape[a] for a in self.others)

    def over(self, x: Array) -> Array:
        """A number for each feature, over the whole operand."""
        return x.reshape(self.shape)

    def total(self, x: Array) -> Array:
        """The sum for each feature."""
        return x.sum(axis=self.others)


def inference(
    op: Op, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
) -> tuple[Array, ...]:
    """`batch_norm_inference`."""
    f = _Features(op, x)
    centred, spread = x - f.over(mean), np.sqrt(f.over(variance) + f.epsilon)
    return (f.over(scale) * (centred / spread) + f.over(offset),)


def training(op: Op, x: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
    """`batch_norm_training`: the result, mean and variance."""
    f = _Features(op, x)
    mean = f.total(x) / f.count
    centred = x - f.over(mean)
    variance = f.total(centred * centred) / f.count
    return *inference(op, x, scale, offset, mean, variance), mean, variance


def gradient(
    op: Op, x: Array, scale: Array, mean: Array, variance: Array, slope: Array
) -> tuple[Array, ...]:
    """`batch_norm_grad`: of the operand, of scale and offset."""
    f = _Features(op, x)
    centred, spread = x - f.over(mean), np.sqrt(f.over(variance) + f.epsilon)
    along = f.total(slope * centred)
    rest = slope * f.count - f.over(f.total(slope)) - centred * f.over(along) / spread**2
    return f.over(scale) * rest / (spread * f.count), along / spread.reshape(-1), f.total(slope)


def einsum(op: Op, *xs: Array) -> tuple[Array, ...]:
    """`einsum`, `unary_einsum`."""
    return (np.einsum(str(op.get("einsum_config")), *xs),)


def index_select(op: Op, x: Array, indices: Array) -> tuple[Array, ...]:
    """`torch_index_select`: rows of x, for each of the first `batch_dims` axes its own ones."""
    axis, batch = int(op.get("dim")), int(op.get("batch_dims"))
    if not batch:
        return (np.take(x, np.clip(indices, 0, x.shape[axis] - 1), axis=axis),)
    moved = np.moveaxis(x, axis, batch)
    rows = np.clip(indices, 0, x.shape[axis] - 1)
    grids = [line(n, k, rows.ndim) for k, n in enumerate(x.shape[:batch])]
    found = moved[(*grids, rows)]
    outer, inner = rows.ndim - batch, axis - batch
    order = [
        *range(batch), *(batch + outer + k for k in range(inner)), *range(batch, batch + outer),
        *range(batch + outer + inner, found.ndim),
    ]  # fmt: skip
    return (found.transpose(order),)


ROWS: Mapping[str, Callable[..., tuple[Array, ...]]] = {
    "batch_norm_inference": inference, "batch_norm_training": training,
    "batch_norm_grad": gradient, "einsum": einsum, "unary_einsum": einsum,
    "torch_index_select": index_select,
}  # fmt: skip
