# pyright: basic
"""Ops of ONNX that fold, sort and multiply."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from mlc.dialects.dtypes import is_real
from mlc.frontend.importers.bounds import FAR, check_between
from mlc.frontend.importers.onnx.bounds import check_axes
from mlc.frontend.importers.onnx.run import ROWS, At, in_f32, row
from mlc.frontend.importers.onnx.shape import axes_of
from mlc.frontend.importers.onnx.values import PLACES, counted, cut, full, traced

Array = Any
Fold = Callable[[Array, tuple[int, ...]], Array]


def _in_f32(fold: Fold) -> Fold:
    """Of floats of 16 bits, whose squares and sums may be larger than any of them."""

    def wide(x: Array, axes: tuple[int, ...]) -> Array:
        narrow = is_real(x.dtype) and x.dtype.itemsize < 4
        return fold(x.astype(np.float32) if narrow else x, axes)

    return wide


@_in_f32
def _log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    if not x.size:
        return np.log(np.exp(x).sum(axes, keepdims=True))
    top = x.max(axes, keepdims=True)
    safe = np.where(np.isfinite(top), top, np.zeros_like(top))
    return np.log(np.exp(x - safe).sum(axes, keepdims=True)) + safe


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    if x.dtype.kind in "iu":
        count = prod(x.shape[a] for a in axes)
        return (x.sum(axes, keepdims=True) / count).astype(x.dtype)
    return x.mean(axes, keepdims=True)


def _extreme(name: str) -> Fold:
    def fold(x: Array, axes: tuple[int, ...]) -> Array:
        if x.dtype.kind == "b":
            return (x.any if name == "max" else x.all)(axes, keepdims=True)
        reduce = getattr(x, name)
        if all(isinstance(n := x.shape[a], int) and n for a in axes):
            return reduce(axes, keepdims=True)
        if is_real(x.dtype):
            least, most = -np.inf, np.inf
        else:
            limits = np.iinfo(x.dtype)
            least, most = limits.min, limits.max
        return reduce(axes, keepdims=True, initial=least if name == "max" else most)

    return fold


FOLDS: dict[str, Fold] = {
    "Sum": lambda x, a: x.sum(a, keepdims=True), "Prod": lambda x, a: x.prod(a, keepdims=True),
    "Mean": _mean, "Max": _extreme("max"), "Min": _extreme("min"),
    "L1": lambda x, a: np.abs(x).sum(a, keepdims=True),
    "L2": _in_f32(lambda x, a: np.sqrt((x * x).sum(a, keepdims=True))),
    "SumSquare": _in_f32(lambda x, a: (x * x).sum(a, keepdims=True)),
    "LogSum": _in_f32(lambda x, a: np.log(x.sum(a, keepdims=True))), "LogSumExp": _log_sum_exp,
}  # fmt: skip


def _reduction(fold: Fold) -> Callable[..., Array]:
    def apply(at: At, x: Array, axes: Array = None) -> Array:
        given = axes if axes is not None and np.size(at.known(axes, "axes")) else None
        said = at.get("axes") or None
        if given is None and said is None and at.get("noop_with_empty_axes", 0):
            return x
        chosen = (
            tuple(axes_of(at, given, x.ndim)) if given is not None or said else tuple(range(x.ndim))
        )
        found = fold(x, chosen).astype(x.dtype)
        if at.get("keepdims", 1):
            return found
        return found.reshape([n for a, n in enumerate(x.shape) if a not in chosen])

    return apply


for _name, _fold in FOLDS.items():
    ROWS[f"Reduce{_name}"] = _reduction(_fold)
    PLACES[f"Reduce{_name}"] = (1,)


@row("ArgMax", "ArgMin")
def _arg(at: At, x: Array) -> Array:
    axis = at.get("axis", 0) % max(x.ndim, 1)
    function = np.argmax if at.node.op == "ArgMax" else np.argmin
    if at.get("select_last_index", 0):
        found = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis)
    else:
        found = function(x, axis=axis)
    found = found.astype(np.int64)
    return np.expand_dims(found, axis) if at.get("keepdims", 1) else found


def _scan(function: Any) -> Callable[..., Array]:
    def apply(at: At, x: Array, axis: Array) -> Array:
        a = at.number(axis, "axis")
        check_axes("axis", a, x.ndim)
        a %= x.ndim
        backwards, without = at.get("reverse", 0), at.get("exclusive", 0)
        x = np.flip(x, a) if backwards else x
        found = function.accumulate(x, axis=a).astype(x.dtype)
        if without:
            start = np.full([1 if b == a else n for b, n in enumerate(x.shape)],
                            0 if function is np.add else 1, x.dtype)  # fmt: skip
            found = np.concatenate([start, cut(found, a, slice(0, -1))], axis=a)
        return np.flip(found, a) if backwards else found

    return apply


ROWS["CumSum"], ROWS["CumProd"] = _scan(np.add), _scan(np.multiply)


@row("TopK")
def _top_k(at: At, x: Array, k: Array = None) -> tuple[Array, Array]:
    count = int(at.get("k")) if k is None else at.number(k, "k")
    axis = at.get("axis", -1) % x.ndim
    check_between("k", count, 0, x.shape[axis] if isinstance(x.shape[axis], int) else FAR - 1)
    if at.get("largest", 1):
        order = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = np.flip(x.shape[axis] - 1 - order, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    order = cut(order, axis, slice(0, count))
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


@row("MatMul")
def _matmul(at: At, x: Array, y: Array) -> Array:
    return x @ y


@row("Gemm")
def _gemm(at: At, a: Array, b: Array, c: Array = None) -> Array:
    a = a.T if at.get("transA", 0) else a
    b = b.T if at.get("transB", 0) else b
    if isinstance(b, np.ndarray):  # known weights lie as the product walks them
        b = traced(np.ascontiguousarray(b))
    alpha, beta = at.get("alpha", 1.0), at.get("beta", 1.0)
    found = a @ b
    found = found if alpha == 1 else (found * np.asarray(alpha, np.float64)).astype(found.dtype)
    if c is None:
        return found
    return found + (c if beta == 1 else (c * np.asarray(beta, np.float64)).astype(c.dtype))


@row("Einsum")
def _einsum(at: At, *xs: Array) -> Array:
    return np.einsum(re.sub(r"\s", "", at.get("equation")), *xs)


@row("Det")
def _det(at: At, x: Array) -> Array:
    return np.linalg.det(x)


# softmax and its kin


def softmax(x: Array, axis: int) -> Array:
    """exp(x) to sum 1 along an axis."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Array:
    """Its logarithm."""
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def hardmax(x: Array, axis: int) -> Array:
    """1 at the first maximum along an axis."""
    best = np.expand_dims(np.argmax(x, axis), axis)
    return (counted(x.shape[axis], axis, x.ndim) == best).astype(x.dtype)


def _along(function: Callable[[Array, int], Array]) -> Callable[..., Array]:
    def apply(at: At, x: Array) -> Array:
        if at.version >= 13:
            return function(x, at.get("axis", -1) % x.ndim)
        axis = at.get("axis", 1) % x.ndim  # all axes from there on are one
        flat = x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))
        return function(flat, 1).reshape(x.shape)

    return apply


for _name, _function in {
    "Softmax": softmax, "LogSoftmax": log_softmax, "Hardmax": hardmax,
}.items():  # fmt: skip
    ROWS[_name] = in_f32(_along(_function))


@row("LpNormalization")
@in_f32
def _lp(at: At, x: Array) -> Array:
    axis, p = at.get("axis", -1), at.get("p", 2)
    size = (
        np.abs(x).sum(axis, keepdims=True) if p == 1 else np.sqrt((x * x).sum(axis, keepdims=True))
    )
    return np.where(size == 0, np.zeros_like(x), x / np.where(size == 0, np.ones_like(size), size))


@row("MeanVarianceNormalization")
@in_f32
def _mean_variance(at: At, x: Array) -> Array:
    axes = tuple(at.get("axes", (0, 2, 3)))
    centred = x - x.mean(axes, keepdims=True)
    return centred / (
        np.sqrt((centred * centred).mean(axes, keepdims=True)) + np.asarray(1e-9, x.dtype)
    )


@row("NegativeLogLikelihoodLoss")
def _nll(at: At, x: Array, target: Array, weight: Array = None) -> Array:
    return _loss(at, x, target, weight)


@row("SoftmaxCrossEntropyLoss")
def _sce(at: At, x: Array, target: Array, weight: Array = None) -> tuple[Array, Array]:
    logs = log_softmax(x, 1)
    return _loss(at, logs, target, weight), logs


def _loss(at: At, logs: Array, target: Array, weight: Array) -> Array:
    ignored, how = at.get("ignore_index"), at.get("reduction", "mean")
    classes = logs.shape[1]
    place = (
        target if ignored is None else np.where(target == ignored, np.zeros_like(target), target)
    )
    hit = np.expand_dims(place, 1) == counted(classes, 0, logs.ndim - 1)
    picked = np.where(hit, logs, np.zeros_like(logs)).sum(1)
    share = full(target.shape, 1, logs.dtype)
    if weight is not None:
        wide = weight.reshape(-1, *[1] * (logs.ndim - 2))
        share = np.where(hit, wide, np.zeros_like(wide)).sum(1)
    if ignored is not None:
        share = np.where(target == ignored, np.zeros((), logs.dtype), share)
    loss = -picked * share
    if how == "none":
        return loss
    return loss.sum() if how == "sum" else loss.sum() / share.sum()


@row("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
     "Multinomial")  # fmt: skip
def _random(at: At, *_: Array) -> Array:
    raise at.refuse("random numbers are not the same in any two systems; pass them as an input")
