# pyright: basic
"""Ops of ONNX element by element. SOURCE: ONNX operator schemas, opset 28."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import float8_e8m0fnu

from mlc.dialects.dtypes import is_known as is_dtype
from mlc.dialects.dtypes import is_real, numpy_dtype
from mlc.frontend.importers.onnx.graph import dtype_of
from mlc.frontend.importers.onnx.run import ROWS, At, is_known, row, traced
from mlc.frontend.importers.onnx.values import full, has_sizes
from mlc.frontend.importers.saturated import saturated

Array = Any


def erf(x: Array) -> Array:
    """The error function, also of what is known."""
    from mlc.frontend.numpy.elementwise_math import erf as function

    return function(traced(x))


def _unary(function: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda at, x: function(x)


for _name, _function in {
    "Abs": np.abs, "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin,
    "Asinh": np.arcsinh, "Atan": np.arctan, "Atanh": np.arctanh, "Ceil": np.ceil, "Cos": np.cos,
    "Cosh": np.cosh, "Exp": np.exp, "Floor": np.floor, "IsNaN": np.isnan, "Log": np.log,
    "Not": np.logical_not, "Round": np.rint, "Sign": np.sign, "Sin": np.sin, "Sinh": np.sinh,
    "Sqrt": np.sqrt, "Tan": np.tan, "Tanh": np.tanh, "BitwiseNot": np.bitwise_not, "Erf": erf,
    "Neg": lambda x: -x, "Identity": lambda x: x,
}.items():  # fmt: skip
    ROWS[_name] = _unary(_function)


def _binary(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def apply(at: At, x: Array, y: Array) -> Array:
        if at.version < 7 and at.get("broadcast", 0) and x.ndim > y.ndim:
            axis = at.get("axis")
            begin = x.ndim - y.ndim if axis is None else int(axis)
            y = y.reshape([1] * begin + list(y.shape) + [1] * (x.ndim - begin - y.ndim))
        return function(x, y)

    return apply


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "O" or y.dtype.kind == "O":
        return x // y  # sizes, which are not negative
    if x.dtype.kind not in "iu":
        return x / y
    if x.dtype.kind == "u":
        return x // y
    down = x // y
    rest = x - down * y
    return down + ((rest != 0) & ((x < 0) != (y < 0))).astype(x.dtype)


for _name, _function in {
    "Add": lambda x, y: x + y, "Sub": lambda x, y: x - y, "Mul": lambda x, y: x * y,
    "Div": _divide, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
    "Equal": lambda x, y: x == y, "Greater": lambda x, y: x > y, "Less": lambda x, y: x < y,
    "GreaterOrEqual": lambda x, y: x >= y, "LessOrEqual": lambda x, y: x <= y,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
}.items():  # fmt: skip
    ROWS[_name] = _binary(_function)


@row("Pow")
def _power(at: At, x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu" and is_real(y.dtype):
        return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    if x.dtype.kind in "iu":
        return np.power(x, y.astype(x.dtype))
    return np.power(x, y.astype(x.dtype)).astype(x.dtype)


@row("Mod")
def _mod(at: At, x: Array, y: Array) -> Array:
    return np.fmod(x, y) if at.get("fmod", 0) else np.remainder(x, y)


@row("BitShift")
def _shift(at: At, x: Array, y: Array) -> Array:
    return x << y if at.get("direction") == "LEFT" else x >> y


def _folded(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def apply(at: At, first: Array, *others: Array) -> Array:
        for x in others:
            first = function(first, x)
        return first

    return apply


ROWS["Max"], ROWS["Min"] = _folded(np.maximum), _folded(np.minimum)
ROWS["Sum"] = _folded(lambda x, y: x + y)


@row("Mean")
def _mean(at: At, *xs: Array) -> Array:
    return ROWS["Sum"](at, *xs) / len(xs)


@row("Where")
def _where(at: At, c: Array, x: Array, y: Array) -> Array:
    return np.where(c, x, y)


@row("IsInf")
def _is_inf(at: At, x: Array) -> Array:
    up, down = at.get("detect_positive", 1), at.get("detect_negative", 1)
    found = np.isinf(x)
    if not up:
        found = found & (x < 0)
    return found if down else found & (x > 0)


@row("Clip")
def _clip(at: At, x: Array, low: Array = None, high: Array = None) -> Array:
    low = at.get("min") if low is None else low
    high = at.get("max") if high is None else high
    x = x if low is None else np.maximum(x, np.asarray(low, x.dtype) if is_known(low) else low)
    return (
        x if high is None else np.minimum(x, np.asarray(high, x.dtype) if is_known(high) else high)
    )


@row("Cast")
def _cast(at: At, x: Array) -> Array:
    return _as(at, x, _to(at))


@row("CastLike")
def _cast_like(at: At, x: Array, like: Array) -> Array:
    return _as(at, x, like.dtype)


def _as(at: At, x: Array, dtype: np.dtype[Any]) -> Array:
    if has_sizes(x):
        if dtype.kind in "iu":
            return x
        x = traced(x)
    if dtype.kind == "b" and x.dtype.kind != "b":
        return x != 0
    if is_whole(dtype) and dtype.kind == "V":  # of 2 and 4 bits: the low ones, of floats too
        return x.astype(np.int32).astype(dtype)
    saturates = bool(at.get("saturate", 1))
    if dtype == float8_e8m0fnu:
        return _power_of_two(at, x.astype(np.float32), saturates)
    return saturated(x, dtype) if saturates and "float8" in dtype.name else x.astype(dtype)


def _power_of_two(at: At, x: Array, saturates: bool) -> Array:
    """What is 0, negative or too large is the nearest power of 2 that there is, or NaN."""
    least, most = scalar(x, 2.0**-127), scalar(x, 2.0**127)
    x = np.clip(x, least, most) if saturates else np.where(x < least, scalar(x, np.nan), x)
    near = x.astype(float8_e8m0fnu).astype(np.float32)
    if (mode := at.get("round_mode", "up")) == "up":
        near = np.where(near < x, near * 2, near)
    elif mode == "down":
        near = np.where(near > x, near / 2, near)
    return near.astype(float8_e8m0fnu)


def is_whole(dtype: np.dtype[Any]) -> bool:
    """Whether it is an integer, of less than a byte too."""
    return dtype.kind in "iu" or (is_dtype(dtype) and numpy_dtype(dtype).stores_integers)


@row("BitCast")
def _bit_cast(at: At, x: Array) -> Array:
    return x.view(_to(at))


def _to(at: At) -> np.dtype[Any]:
    dtype = dtype_of(int(at.get("to")))
    if dtype is None:
        raise at.refuse(f"to = {at.get('to')}, a dtype that is not supported")
    return dtype


# activations


def scalar(x: Array, value: float) -> Array:
    """A number of the dtype of x."""
    return np.asarray(value, x.dtype)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), for large numbers of either sign."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


ROWS["Sigmoid"], ROWS["Softplus"] = _unary(sigmoid), _unary(softplus)
ROWS["Reciprocal"] = _unary(lambda x: 1 / x)
ROWS["Relu"] = _unary(lambda x: np.maximum(x, 0))
ROWS["Softsign"] = _unary(lambda x: x / (1 + np.abs(x)))
ROWS["Mish"] = _unary(lambda x: x * np.tanh(softplus(x)))
ROWS["HardSwish"] = _unary(lambda x: x * np.clip(x / 6 + 0.5, 0, 1))


@row("LeakyRelu")
def _leaky(at: At, x: Array) -> Array:
    return np.where(x < 0, x * scalar(x, at.get("alpha", 0.01)), x)


@row("PRelu")
def _prelu(at: At, x: Array, slope: Array) -> Array:
    if (
        slope.ndim == 1
        and slope.shape[0] == (x.shape[1] if x.ndim > 1 else None)
        and at.version < 7
    ):
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return np.where(x < 0, x * slope, x)


@row("Elu")
def _elu(at: At, x: Array) -> Array:
    return np.where(x < 0, scalar(x, at.get("alpha", 1.0)) * np.expm1(np.minimum(x, 0)), x)


@row("Celu")
def _celu(at: At, x: Array) -> Array:
    alpha = scalar(x, at.get("alpha", 1.0))
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(np.minimum(x, 0) / alpha))


@row("Selu")
def _selu(at: At, x: Array) -> Array:
    alpha = scalar(x, at.get("alpha", 1.67326319217681884765625))
    gamma = scalar(x, at.get("gamma", 1.05070102214813232421875))
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@row("ThresholdedRelu")
def _thresholded(at: At, x: Array) -> Array:
    return np.where(x > scalar(x, at.get("alpha", 1.0)), x, 0 * x)


@row("HardSigmoid")
def _hard_sigmoid(at: At, x: Array) -> Array:
    alpha, beta = (scalar(x, at.get(n, d)) for n, d in (("alpha", 0.2), ("beta", 0.5)))
    return np.clip(x * alpha + beta, 0, 1)


@row("Shrink")
def _shrink(at: At, x: Array) -> Array:
    border, bias = (scalar(x, at.get(n, d)) for n, d in (("lambd", 0.5), ("bias", 0.0)))
    return np.where(x < -border, x + bias, np.where(x > border, x - bias, 0 * x))


@row("Gelu")
def _gelu(at: At, x: Array) -> Array:
    if at.get("approximate", "none") == "tanh":
        inner = scalar(x, np.sqrt(2 / np.pi)) * (x + scalar(x, 0.044715) * x * x * x)
        return scalar(x, 0.5) * x * (1 + np.tanh(inner))
    return scalar(x, 0.5) * x * (1 + erf(x * scalar(x, np.sqrt(0.5))))


@row("Swish")
def _swish(at: At, x: Array) -> Array:
    return x * sigmoid(x * scalar(x, at.get("alpha", 1.0)))


@row("Dropout")
def _dropout(at: At, x: Array, ratio: Array = None, training: Array = None) -> Any:
    if training is not None and bool(at.known(training, "training_mode")):
        share = 0.5 if ratio is None else float(at.known(ratio, "ratio"))
        if share:
            raise at.refuse("training_mode with a ratio: random bits that only ONNX Runtime has")
    return x, full(x.shape, True, bool)
