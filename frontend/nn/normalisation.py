"""Functions that relate elements to the others of their row: softmax, and normalisations."""

from __future__ import annotations

from typing import Any

from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.markers import StopGradientOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.elementwise import (
    add,
    divide,
    exp,
    isfinite,
    log,
    maximum,
    multiply,
    negative,
    root,
    subtract,
    where,
)
from mlc.frontend.numpy.elementwise_math import rsqrt
from mlc.frontend.numpy.reductions import max as largest
from mlc.frontend.numpy.reductions import mean as average
from mlc.frontend.numpy.reductions import sum as total
from mlc.frontend.numpy.reductions import var as variance
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import normal_axes, normal_axis, reshape, squeeze
from mlc.frontend.numpy.values import lift, result
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def _top(x: Operand, axis: Any) -> Tracer:
    """
    The largest elements along axes, kept. A constant for derivatives: what it is subtracted from
    does not depend on it but by rounding.
    """
    return result(here().emit(StopGradientOp, largest(x, axis, keepdims=True).value))


@public()
def softmax(x: Operand, axis: Any = -1) -> Tracer:
    """exp(x) over its sum along axes; without overflow."""
    shifted = exp(subtract(x, _top(x, axis)))
    return divide(shifted, total(shifted, axis, keepdims=True))


@public()
def log_softmax(x: Operand, axis: Any = -1) -> Tracer:
    """log(softmax(x)), without underflow."""
    shifted = subtract(x, _top(x, axis))
    return subtract(shifted, log(total(exp(shifted), axis, keepdims=True)))


@public()
def softmin(x: Operand, axis: Any = -1) -> Tracer:
    """softmax(-x)."""
    return softmax(negative(x), axis)


@public()
def logsumexp(x: Operand, axis: Any = None, keepdims: bool = False) -> Tracer:
    """log(sum(exp(x))) along axes, without overflow; -inf where all are."""
    source = lift(x, "logsumexp")
    axes = normal_axes(axis, source.ndim, "logsumexp")
    top = _top(source, axes)
    base = where(isfinite(top), top, 0)
    found = add(log(total(exp(subtract(source, base)), axes, keepdims=True)), base)
    return found if keepdims else squeeze(found, axes)


@public()
def standardise(x: Operand, axis: Any = -1, eps: float = 1e-5) -> Tracer:
    """x less its mean along axes, over its standard deviation."""
    away = subtract(x, average(x, axis, keepdims=True))
    spread = average(multiply(away, away), axis, keepdims=True)
    return multiply(away, rsqrt(add(spread, eps)))


def _scaled(y: Tracer, gamma: Operand, beta: Operand) -> Tracer:
    y = y if gamma is None else multiply(y, gamma)
    return y if beta is None else add(y, beta)


@public()
def layer_norm(
    x: Operand, gamma: Operand = None, beta: Operand = None, axis: Any = -1, eps: float = 1e-5
) -> Tracer:
    """
    Each row standardised, times gamma, plus beta. x: (…, n); gamma, beta: (n,).

    SOURCE: Ba, Kiros, Hinton, arXiv 1607.06450
    """
    return _scaled(standardise(x, axis, eps), gamma, beta)


@public()
def rms_norm(x: Operand, gamma: Operand = None, axis: Any = -1, eps: float = 1e-6) -> Tracer:
    """
    Each row over its root mean square, times gamma. x: (…, n); gamma: (n,).

    SOURCE: Zhang, Sennrich, arXiv 1910.07467
    """
    square = average(multiply(x, x), axis, keepdims=True)
    return _scaled(multiply(x, rsqrt(add(square, eps))), gamma, None)


def _along(v: Operand, rank: int, axis: int) -> Any:
    """A vector that lies along one axis of arrays of a rank."""
    if v is None:
        return None
    x = lift(v)
    return reshape(x, tuple(x.shape[0] if k == axis else 1 for k in range(rank)))


@public()
def batch_norm(
    x: Operand,
    mean: Operand = None,
    var: Operand = None,
    gamma: Operand = None,
    beta: Operand = None,
    axis: int = 1,
    eps: float = 1e-5,
) -> Tracer:
    """
    (x - mean) / sqrt(var + eps) * gamma + beta for each channel; x: (N, C, …), the others: (C,).

    Without mean and var those of the batch itself are taken: `batch_statistics` gives them.
    SOURCE: Ioffe, Szegedy, arXiv 1502.03167
    """
    source = lift(x, "batch_norm")
    k = normal_axis(axis, source.ndim, "batch_norm")
    if mean is None or var is None:
        mean, var = batch_statistics(source, k)
    centre, width, gamma, beta = (_along(v, source.ndim, k) for v in (mean, var, gamma, beta))
    return _scaled(multiply(subtract(source, centre), rsqrt(add(width, eps))), gamma, beta)


@public()
def batch_statistics(x: Operand, axis: int = 1) -> tuple[Tracer, Tracer]:
    """The mean and the (biased) variance of each channel: (C,) and (C,)."""
    source = lift(x, "batch_statistics")
    k = normal_axis(axis, source.ndim, "batch_statistics")
    others = tuple(a for a in range(source.ndim) if a != k)
    return average(source, others), variance(source, others)


@public()
def group_norm(
    x: Operand,
    groups: int,
    gamma: Operand = None,
    beta: Operand = None,
    axis: int = 1,
    eps: float = 1e-5,
) -> Tracer:
    """
    The channels of each of `groups` standardised together. x: (N, C, …); gamma, beta: (C,).

    SOURCE: Wu, He, arXiv 1803.08494
    """
    source = lift(x, "group_norm")
    k = normal_axis(axis, source.ndim, "group_norm")
    channels = source.dims[k].constant
    if channels is not None and channels % groups:
        raise located(
            ShapeError, f"group_norm: {channels} channels do not divide into {groups} groups."
        )
    shape = source.shape
    apart = reshape(source, (*shape[:k], groups, shape[k] // groups, *shape[k + 1 :]))
    axes = tuple(a for a in range(1, source.ndim + 1) if a != k)
    found = reshape(standardise(apart, axes, eps), shape)
    return _scaled(found, _along(gamma, source.ndim, k), _along(beta, source.ndim, k))


@public()
def instance_norm(
    x: Operand, gamma: Operand = None, beta: Operand = None, axis: int = 1, eps: float = 1e-5
) -> Tracer:
    """Each channel of each example standardised. x: (N, C, …); gamma, beta: (C,)."""
    source = lift(x, "instance_norm")
    k = normal_axis(axis, source.ndim, "instance_norm")
    axes = tuple(a for a in range(1, source.ndim) if a != k)
    found = standardise(source, axes, eps)
    return _scaled(found, _along(gamma, source.ndim, k), _along(beta, source.ndim, k))


@public()
def normalize(x: Operand, ord: Any = 2, axis: Any = -1, eps: float = 1e-12) -> Tracer:  # noqa: A002
    """x over its norm along an axis, which counts as eps where it is smaller."""
    from mlc.frontend.numpy.linalg import norm

    size = (
        root(total(multiply(x, x), axis, keepdims=True))
        if ord == 2
        else norm(x, ord, axis, keepdims=True)
    )
    return divide(x, maximum(size, eps))
