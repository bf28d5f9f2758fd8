# pyright: basic
"""Rows of ops that go element by element."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import mlc.frontend.importers.special as special
from mlc.frontend import nn
from mlc.frontend.importers.fx.run import ROWS, At, row
from mlc.frontend.numpy.creation import full
from mlc.frontend.numpy.elementwise_math import erf, erfc, lgamma, rsqrt
from mlc.frontend.transforms.derivatives import vjp

Array = Any


UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc,
    "reciprocal": lambda x: 1 / x, "rsqrt": rsqrt, "square": np.square, "erf": erf, "erfc": erfc,
    "sigmoid": nn.sigmoid, "relu": nn.relu, "silu": nn.silu, "hardswish": nn.hard_swish,
    "hardsigmoid": nn.hard_sigmoid, "relu6": nn.relu6, "mish": nn.mish,
    "erfinv": special.erf_inv, "special_i0e": special.bessel(0), "special_i1e": special.bessel(1),
    "special_i1": lambda x: special.bessel(1)(x) * np.exp(np.abs(x)),
    "lgamma": lgamma, "i0": np.i0, "bitwise_not": np.invert, "conj_physical": np.conj,
}  # fmt: skip
"""Computed in the element type of the result."""

TESTS: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs, "angle": np.angle,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not,
    "signbit": np.signbit, "real": np.real, "imag": np.imag,
    "clone": lambda x: x, "alias": lambda x: x, "detach": lambda x: x, "_to_copy": lambda x: x,
    "lift_fresh_copy": lambda x: x, "contiguous": lambda x: x, "_conj": np.conj,
    "convert_element_type": lambda x: x,
}  # fmt: skip
"""Computed in the element type of the operand, converted after."""

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "mul": operator.mul, "remainder": np.remainder, "fmod": np.fmod, "maximum": np.maximum,
    "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "atan2": np.arctan2,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "gcd": np.gcd, "lcm": np.lcm, "nextafter": np.nextafter,
    "special_zeta": special.zeta, "copysign": np.copysign, "hypot": np.hypot, "pow": operator.pow,
    "bitwise_left_shift": operator.lshift, "bitwise_right_shift": operator.rshift,
    "__lshift__": operator.lshift, "__rshift__": operator.rshift,
}  # fmt: skip
"""Computed in the element type of the result."""

COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
"""Computed in the element type in which the operands meet."""

LOGICAL = {"logical_and": np.logical_and, "logical_or": np.logical_or,
           "logical_xor": np.logical_xor}  # fmt: skip


def _unary(f: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda at, x: f(at.operand(x))


def _test(f: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda at, x, *_: f(x)


def _binary(f: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda at, x, y: f(at.operand(x), at.operand(y))


def _compared(f: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def compare(at: At, x: Array, y: Array) -> Array:
        dtype = at.common()
        return f(at.operand(x, dtype), at.operand(y, dtype))

    return compare


def _logical(f: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda at, x, y: f(at.operand(x, x.dtype), at.operand(y, y.dtype))


ROWS.update(
    {name: _unary(f) for name, f in UNARY.items()}
    | {name: _test(f) for name, f in TESTS.items()}
    | {name: _binary(f) for name, f in BINARY.items()}
    | {name: _compared(f) for name, f in COMPARED.items()}
    | {name: _logical(f) for name, f in LOGICAL.items()}
)


@row("ldexp")
def _scaled(at: At, x: Array, power: Array) -> Array:
    return at.operand(x) * np.exp2(at.operand(power))


@row("polygamma")
def _polygamma(at: At, order: int, x: Array) -> Array:
    x = at.operand(x)
    return special.polygamma(np.full_like(x, order), x)


@row("digamma")
def _digamma(at: At, x: Array) -> Array:
    return vjp(lgamma, at.operand(x))[1](full(at.shape, 1, at.dtype))[0]


@row("sign", "sgn")
def _sign(at: At, x: Array) -> Array:
    """As NumPy's, but 0 where x is no number."""
    return np.where(x != x, 0, np.sign(x)).astype(at.dtype)


@row("round")
def _round(at: At, x: Array, *, decimals: int = 0) -> Array:
    x = at.operand(x)
    if not decimals:
        return np.rint(x)
    scale = 10 ** abs(decimals)
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


@row("add")
def _add(at: At, x: Array, y: Array, *, alpha: Any = 1) -> Array:
    x, y = at.operand(x), at.operand(y)
    return x + (y if alpha == 1 else y * alpha)


@row("sub")
def _sub(at: At, x: Array, y: Array, *, alpha: Any = 1) -> Array:
    x, y = at.operand(x), at.operand(y)
    return x - (y if alpha == 1 else y * alpha)


@row("rsub")
def _rsub(at: At, x: Array, y: Array, alpha: Any = 1) -> Array:
    x, y = at.operand(x), at.operand(y)
    return y - (x if alpha == 1 else x * alpha)


@row("div", "true_divide")
def _div(at: At, x: Array, y: Array, *, rounding_mode: str | None = None) -> Array:
    x, y = at.operand(x), at.operand(y)
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    if rounding_mode == "trunc" and at.dtype.kind in "iu":
        found = np.floor_divide(x, y)
        return found + ((found < 0) & (found * y != x))
    return np.trunc(x / y) if rounding_mode == "trunc" else x / y


@row("where")
def _where(at: At, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, at.operand(x), at.operand(y))


@row("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(at: At, x: Array, low: Any = None, high: Any = None, **options: Any) -> Array:
    low, high = options.get("min", low), options.get("max", high)
    if at.name == "clamp_max":
        low, high = None, low
    if at.name == "hardtanh":
        low, high = -1 if low is None else low, 1 if high is None else high
    x = at.operand(x)
    x = x if low is None else np.maximum(x, at.operand(low))
    return x if high is None else np.minimum(x, at.operand(high))


@row("gelu")
def _gelu(at: At, x: Array, *, approximate: str = "none") -> Array:
    return nn.gelu(x, approximate=approximate == "tanh")


@row("leaky_relu")
def _leaky_relu(at: At, x: Array, slope: Any = 0.01) -> Array:
    return nn.leaky_relu(x, slope)


@row("softplus")
def _softplus(at: At, x: Array, beta: Any = 1, threshold: Any = 20) -> Array:
    return np.where(x * beta > threshold, x, nn.softplus(x * beta) / beta)


@row("elu")
def _elu(at: At, x: Array, alpha: Any = 1, scale: Any = 1, inner: Any = 1) -> Array:
    below = np.expm1(np.where(x > 0, 0, x) * inner) * (alpha * scale)
    return np.where(x > 0, x * scale, below)


@row("addcmul")
def _addcmul(at: At, x: Array, y: Array, z: Array, *, value: Any = 1) -> Array:
    product = at.operand(y) * at.operand(z)
    return at.operand(x) + (product if value == 1 else product * value)


@row("fma")
def _fma(at: At, x: Array, y: Array, z: Array) -> Array:
    return at.operand(x) * at.operand(y) + at.operand(z)


@row("lerp")
def _lerp(at: At, x: Array, y: Array, weight: Any) -> Array:
    return x + weight * (y - x)
