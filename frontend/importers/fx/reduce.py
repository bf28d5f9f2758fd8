# pyright: basic
"""Rows of reductions, scans, sorts and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.frontend.importers.fx.run import ROWS, At, row
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.numpy.sorting import top_k

Array = Any


def axes_of(x: Array, axes: Any) -> tuple[int, ...]:
    """Axes as PyTorch says them: none are all."""
    if axes is None or (isinstance(axes, list | tuple) and not axes):
        return tuple(range(x.ndim))
    several = axes if isinstance(axes, list | tuple) else [axes]
    return tuple(axis % max(1, x.ndim) for axis in several) if x.ndim else ()


def _folded(name: str) -> Any:
    def fold(at: At, x: Array, axes: Any = None, keepdim: bool = False) -> Array:
        if name in ("sum", "prod", "mean"):
            x = x.astype(at.dtype)
        return getattr(x, name)(axis=axes_of(x, axes), keepdims=keepdim)

    return fold


ROWS.update(
    {op: _folded(name)
     for op, name in {"sum": "sum", "mean": "mean", "prod": "prod", "amax": "max", "amin": "min",
                      "any": "any", "all": "all"}.items()}
)  # fmt: skip


@row("max", "min")
def _extremum(at: At, x: Array, axis: Any = None, keepdim: bool = False) -> Any:
    most = at.name == "max"
    if at.overload == "default":
        return x.max() if most else x.min()
    if at.overload == "other":
        return (np.maximum if most else np.minimum)(at.operand(x), at.operand(axis))
    if not x.ndim:
        return x, full((), 0, np.int64)
    values = (x.max if most else x.min)(axis=axis, keepdims=keepdim)
    places = None
    if at.uses(1):
        places = (np.argmax if most else np.argmin)(x, axis=axis, keepdims=keepdim)
    return values, places


@row("argmax", "argmin")
def _place(at: At, x: Array, axis: Any = None, keepdim: bool = False) -> Array:
    find = np.argmax if at.name == "argmax" else np.argmin
    if axis is None:
        return find(x.reshape(-1)).reshape(at.shape)
    return find(x, axis=axis, keepdims=keepdim) if x.ndim else full((), 0, np.int64)


@row("var", "std", "var_mean")
def _var(
    at: At, x: Array, axes: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None,
) -> Any:  # fmt: skip
    if isinstance(unbiased, bool) and at.overload != "correction":
        correction = int(unbiased)
    where, less = axes_of(x, axes), 1 if correction is None else correction
    found = (np.std if at.name == "std" else np.var)(x, where, ddof=less, keepdims=keepdim)
    return (found, x.mean(where, keepdims=keepdim)) if at.name == "var_mean" else found


@row("linalg_vector_norm")
def _norm(at: At, x: Array, order: Any = 2, axes: Any = None, keepdim: bool = False) -> Array:
    x, where = np.abs(x).astype(at.dtype), axes_of(x, axes)
    if order in (float("inf"), float("-inf")):
        return (x.max if order > 0 else x.min)(axis=where, keepdims=keepdim)
    if order == 0:
        return (x != 0).sum(axis=where, keepdims=keepdim)
    if order == 2:
        return np.sqrt((x * x).sum(axis=where, keepdims=keepdim))
    total = (x if order == 1 else x**order).sum(axis=where, keepdims=keepdim)
    return total if order == 1 else total ** (1 / order)


@row("dist")
def _dist(at: At, x: Array, y: Array, order: Any = 2) -> Array:
    return _norm(at, x - y, order)


@row("cumsum", "cumprod")
def _scan(at: At, x: Array, axis: int) -> Array:
    scan = np.cumsum if at.name == "cumsum" else np.cumprod
    return scan(x.astype(at.dtype), axis=axis) if x.ndim else x.astype(at.dtype)


@row("sort")
def _sort(at: At, x: Array, *given: Any, stable: Any = None, dim: int = -1,
          descending: bool = False) -> tuple[Array, Array]:  # fmt: skip
    numbers = [g for g in given if g is not None]
    if at.overload == "stable" and numbers and isinstance(numbers[0], bool):
        numbers = numbers[1:]
    axis = numbers[0] if numbers else dim
    down = numbers[1] if len(numbers) > 1 else descending
    if not x.ndim:
        return x, full((), 0, np.int64)
    if down:
        return top_k(x, x.shape[axis], axis)
    places = np.argsort(x, axis=axis, kind="stable")
    return np.take_along_axis(x, places, axis), places


@row("topk")
def _topk(at: At, x: Array, count: int, axis: int = -1, largest: bool = True,
          ordered: bool = True) -> tuple[Array, Array]:  # fmt: skip
    if not x.ndim:
        return x, full((), 0, np.int64)
    if largest:
        return top_k(x, count, axis)
    places = np.take(np.argsort(x, axis=axis, kind="stable"), arange(count), axis)
    return np.take_along_axis(x, places, axis), places


@row("searchsorted")
def _searchsorted(
    at: At, line: Array, x: Array, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Array = None,
) -> Array:  # fmt: skip
    if sorter is not None or line.ndim != 1:
        raise at.refuse("a search in other than one sorted line")
    return np.searchsorted(line, x, side="right" if right or side == "right" else "left")


@row("bucketize")
def _bucketize(
    at: At, x: Array, line: Array, *, out_int32: bool = False, right: bool = False
) -> Array:
    return np.searchsorted(line, x, side="right" if right else "left")


# products


@row("mm", "bmm", "matmul", "dot", "mv")
def _product(at: At, x: Array, y: Array) -> Array:
    return x @ y


@row("linear")
def _linear(at: At, x: Array, w: Array, bias: Array = None) -> Array:
    found = x @ w.T
    return found if bias is None else found + bias


@row("addbmm")
def _add_products(at: At, c: Array, x: Array, y: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    found = np.einsum("bij,bjk->ik", x, y) * alpha
    return found if beta == 0 else found + c * beta


@row("addmm", "baddbmm", "addmv")
def _add_product(at: At, c: Array, x: Array, y: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    found = x @ y
    found = found if alpha == 1 else found * alpha
    return found if beta == 0 else found + (c if beta == 1 else c * beta)
