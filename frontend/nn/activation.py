"""Activations: one number at a time. Every function takes and gives an array of any shape."""

from __future__ import annotations

import math
from typing import Any

from mlc.frontend.numpy.elementwise import (
    abs as magnitude,
)
from mlc.frontend.numpy.elementwise import (
    add,
    clip,
    divide,
    exp,
    greater,
    less_equal,
    minimum,
    multiply,
    negative,
    where,
)
from mlc.frontend.numpy.elementwise import tanh as tanh
from mlc.frontend.numpy.elementwise_math import erf, expm1, log1p
from mlc.frontend.numpy.elementwise_math import sigmoid as sigmoid
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import split
from mlc.frontend.trace.tracer import Tracer

Operand = Any

# Klambauer et al., "Self-Normalizing Neural Networks", NeurIPS 2017, equation 14
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@public()
def relu(x: Operand) -> Tracer:
    """max(x, 0), whose derivative at 0 is 0."""
    return where(less_equal(x, 0), 0, x)


@public()
def relu6(x: Operand) -> Tracer:
    """min(max(x, 0), 6)."""
    return minimum(relu(x), 6)


@public()
def leaky_relu(x: Operand, negative_slope: Any = 0.01) -> Tracer:
    """x where it is positive, else negative_slope * x."""
    return where(greater(x, 0), x, multiply(x, negative_slope))


prelu = leaky_relu


def _negative_part(x: Operand) -> Tracer:
    """min(x, 0), whose derivative at 0 is that from below."""
    return where(greater(x, 0), 0, x)


@public()
def elu(x: Operand, alpha: Any = 1.0) -> Tracer:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return where(greater(x, 0), x, multiply(alpha, expm1(_negative_part(x))))


@public()
def celu(x: Operand, alpha: Any = 1.0) -> Tracer:
    """x where it is positive, else alpha * (exp(x / alpha) - 1)."""
    return where(greater(x, 0), x, multiply(alpha, expm1(divide(_negative_part(x), alpha))))


@public()
def selu(x: Operand) -> Tracer:
    """`elu` scaled so that activations keep mean 0 and variance 1."""
    return multiply(SELU_SCALE, elu(x, SELU_ALPHA))


@public()
def gelu(x: Operand, approximate: Any = True) -> Tracer:
    """
    x times the normal distribution function of x; with `approximate` (or "tanh") by tanh.

    SOURCE: Hendrycks and Gimpel, arXiv 1606.08415
    """
    if approximate in (True, "tanh"):
        cubic = add(x, multiply(0.044715, multiply(multiply(x, x), x)))
        inner = multiply(math.sqrt(2 / math.pi), cubic)
        return multiply(multiply(0.5, x), add(1, tanh(inner)))
    return multiply(multiply(0.5, x), add(1, erf(multiply(x, math.sqrt(0.5)))))


@public()
def silu(x: Operand) -> Tracer:
    """x * sigmoid(x), also called swish."""
    return multiply(x, sigmoid(x))


swish = silu


@public()
def softplus(x: Operand) -> Tracer:
    """log(1 + exp(x)), without overflow."""
    # each side of 0 is the whole function in other words, so that derivatives are those of both
    positive = greater(x, 0)
    return add(where(positive, x, 0), log1p(exp(where(positive, negative(x), x))))


@public()
def log_sigmoid(x: Operand) -> Tracer:
    """log(sigmoid(x)), without underflow."""
    return negative(softplus(negative(x)))


@public()
def softsign(x: Operand) -> Tracer:
    """x / (1 + |x|)."""
    return divide(x, add(1, magnitude(x)))


@public()
def mish(x: Operand) -> Tracer:
    """x * tanh(softplus(x))."""
    return multiply(x, tanh(softplus(x)))


@public()
def hard_tanh(x: Operand) -> Tracer:
    """x clipped to [-1, 1]."""
    return clip(x, -1, 1)


@public()
def hard_sigmoid(x: Operand) -> Tracer:
    """relu6(x + 3) / 6."""
    return divide(relu6(add(x, 3)), 6)


@public()
def hard_swish(x: Operand) -> Tracer:
    """x * hard_sigmoid(x)."""
    return multiply(x, hard_sigmoid(x))


@public()
def glu(x: Operand, axis: int = -1) -> Tracer:
    """The first half along an axis times the sigmoid of the second."""
    first, second = split(x, 2, axis)
    return multiply(first, sigmoid(second))


@public()
def swiglu(x: Operand, axis: int = -1) -> Tracer:
    """The silu of the first half along an axis times the second. SOURCE: Shazeer, 2002.05202"""
    first, second = split(x, 2, axis)
    return multiply(silu(first), second)
