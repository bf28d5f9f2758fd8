"""Layers' products, losses, and what turns labels and tokens into vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import located
from mlc.frontend.nn.activation import log_sigmoid, softplus
from mlc.frontend.nn.normalisation import log_softmax, normalize
from mlc.frontend.numpy.contraction import matmul
from mlc.frontend.numpy.creation import arange
from mlc.frontend.numpy.elementwise import abs as magnitude
from mlc.frontend.numpy.elementwise import (
    add,
    astype,
    divide,
    equal,
    less,
    multiply,
    negative,
    not_equal,
    square,
    subtract,
    where,
)
from mlc.frontend.numpy.indexing import take, take_along_axis
from mlc.frontend.numpy.reductions import mean
from mlc.frontend.numpy.reductions import sum as total
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import expand_dims, moveaxis, normal_axis, squeeze
from mlc.frontend.numpy.values import dtype_row, is_integer, lift
from mlc.frontend.trace.tracer import Tracer

Operand = Any


@public()
def linear(x: Operand, w: Operand, bias: Operand = None) -> Tracer:
    """x w + bias. x: (…, K); w: (K, N); bias: (N,); out: (…, N)."""
    found = matmul(x, w)
    return found if bias is None else add(found, bias)


@public()
def embedding(table: Operand, ids: Operand) -> Tracer:
    """table[ids]. table: (V, D); ids: integers (…); out: (…, D)."""
    return take(table, ids, axis=0)


@public()
def one_hot(labels: Operand, classes: Any, dtype: Any = np.float32, axis: int = -1) -> Tracer:
    """1 where the class is the label, else 0. labels: (…); out: (…, classes)."""
    x = lift(labels, "one_hot")
    found = astype(equal(expand_dims(x, -1), arange(classes)), dtype_row(dtype).numpy)
    return found if axis in (-1, x.ndim) else moveaxis(found, -1, axis)


@public()
def dropout(x: Operand, rate: Any, key: Operand, *, training: bool = True) -> Tracer:
    """x with each element set to 0 with probability `rate`, the others scaled by 1 / (1 - rate)."""
    from mlc.frontend.random import bernoulli

    source = lift(x, "dropout")
    if not training or (isinstance(rate, int | float) and rate == 0):
        return source
    keeps = bernoulli(key, 1.0 - rate, source.shape)
    return where(keeps, divide(source, 1.0 - rate), 0)


def _reduced(loss: Tracer, reduction: str, function: str) -> Tracer:
    match reduction:
        case "mean":
            return mean(loss)
        case "sum":
            return total(loss)
        case "none":
            return loss
        case _:
            raise ValueError(
                f"{function}: reduction {reduction!r}; expected 'mean', 'sum' or 'none'"
            )


@public()
def cross_entropy(
    logits: Operand,
    labels: Operand,
    axis: int = -1,
    *,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    weight: Operand = None,
) -> Tracer:
    """
    -log(softmax(logits)[label]), its mean over the examples. logits: (…, C).

    labels: class numbers (…), or probabilities (…, C). `ignore_index` is a class number whose
    examples do not count. `weight`: (C,), the weight of each class.
    """
    x, y = lift(logits, "cross_entropy"), lift(labels, "cross_entropy")
    k = normal_axis(axis, x.ndim, "cross_entropy")
    logs = log_softmax(x, k)
    logs = moveaxis(logs, k, -1) if k != x.ndim - 1 else logs
    if not is_integer(y.row):
        target = moveaxis(y, k, -1) if k != x.ndim - 1 else y
        if label_smoothing:
            even = label_smoothing / x.shape[k]
            target = add(multiply(target, 1 - label_smoothing), even)
        parts = multiply(target, logs)
        parts = parts if weight is None else multiply(parts, weight)
        return _reduced(negative(total(parts, -1)), reduction, "cross_entropy")
    if y.dims != logs.dims[:-1]:
        raise located(
            ShapeError,
            f"cross_entropy: labels {spell(y.dims)} for logits {spell(x.dims)}; expected one class"
            f" number for each of {spell(logs.dims[:-1])}.",
        )
    counts = None if ignore_index is None else not_equal(y, ignore_index)
    known = y if counts is None else where(counts, y, 0)
    picked = squeeze(take_along_axis(logs, expand_dims(known, -1), -1), -1)
    share = None if weight is None else take(astype(weight, x.dtype), known)
    loss = negative(picked if share is None else multiply(picked, share))
    if label_smoothing:
        all_ = logs if weight is None else multiply(logs, weight)
        smooth = negative(total(all_, -1) if weight is not None else total(logs, -1))
        even = label_smoothing / x.shape[k]
        loss = add(multiply(loss, 1 - label_smoothing), multiply(smooth, even))
    share = lift(1).astype(x.dtype) if share is None else share
    if counts is None and weight is None:
        return _reduced(loss, reduction, "cross_entropy")
    part = share if counts is None else where(counts, share, 0)
    loss = loss if counts is None else where(counts, loss, 0)
    if reduction == "mean":
        return divide(total(loss), total(part))
    return _reduced(loss, reduction, "cross_entropy")


@public()
def nll_loss(logs: Operand, labels: Operand, *, reduction: str = "mean") -> Tracer:
    """-logs[label]. logs: (…, C), logarithms of probabilities; labels: (…)."""
    y = lift(labels, "nll_loss")
    picked = squeeze(take_along_axis(logs, expand_dims(y, -1), -1), -1)
    return _reduced(negative(picked), reduction, "nll_loss")


@public()
def binary_cross_entropy(logits: Operand, targets: Operand, *, reduction: str = "mean") -> Tracer:
    """-(t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x)))."""
    wins = multiply(targets, log_sigmoid(logits))
    fails = multiply(subtract(1, targets), negative(softplus(logits)))
    return _reduced(negative(add(wins, fails)), reduction, "binary_cross_entropy")


@public()
def mse_loss(x: Operand, y: Operand, *, reduction: str = "mean") -> Tracer:
    """(x - y)²."""
    return _reduced(square(subtract(x, y)), reduction, "mse_loss")


@public()
def l1_loss(x: Operand, y: Operand, *, reduction: str = "mean") -> Tracer:
    """|x - y|."""
    return _reduced(magnitude(subtract(x, y)), reduction, "l1_loss")


@public()
def huber_loss(x: Operand, y: Operand, delta: Any = 1.0, *, reduction: str = "mean") -> Tracer:
    """Half the square of x - y up to delta, and linear beyond."""
    away = subtract(x, y)
    size = magnitude(away)
    near = multiply(0.5, square(away))
    far = multiply(delta, subtract(size, multiply(0.5, delta)))
    return _reduced(where(less(size, delta), near, far), reduction, "huber_loss")


@public()
def kl_div(logs: Operand, targets: Operand, *, reduction: str = "mean") -> Tracer:
    """t (log(t) - x), 0 where t is; x holds logarithms of probabilities."""
    from mlc.frontend.numpy.elementwise import greater, log

    t = lift(targets, "kl_div")
    positive = greater(t, 0)
    found = where(positive, multiply(t, subtract(log(where(positive, t, 1)), logs)), 0)
    return _reduced(found, reduction, "kl_div")


@public()
def cosine_similarity(x: Operand, y: Operand, axis: int = -1, eps: float = 1e-8) -> Tracer:
    """The sum of products of two rows, each over its norm."""
    return total(multiply(normalize(x, 2, axis, eps), normalize(y, 2, axis, eps)), axis)
