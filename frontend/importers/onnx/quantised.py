# pyright: basic
"""Quantised ops of ONNX: sums of whole numbers are exact, each scale is applied once."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dtypes import is_known, numpy_dtype
from mlc.frontend.importers.onnx.elementwise import is_whole
from mlc.frontend.importers.onnx.run import At, row
from mlc.frontend.importers.onnx.windows import Windows, convolve
from mlc.frontend.importers.saturated import saturated

Array = Any


def _along(v: Array, x: Array, axis: int, block: int = 0) -> Array:
    """Scales of an axis, or of blocks of it, as broad as x."""
    if v is None or v.ndim == 0 or (v.ndim == 1 and v.shape[0] == 1 and x.ndim != 1):
        return v if v is None or v.ndim == 0 else v.reshape(())
    axis = axis % x.ndim
    if v.ndim == 1:
        return v.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    each = block or -(-x.shape[axis] // v.shape[axis])
    wide = np.repeat(v, each, axis=axis)
    return wide[tuple(slice(0, n) for n in x.shape)]


def _saturated(y: Array, dtype: np.dtype[Any]) -> Array:
    if is_whole(dtype):
        row = numpy_dtype(dtype)
        return np.clip(y, row.lowest, row.highest).astype(dtype)
    return saturated(y, dtype)


@row("QuantizeLinear")
def _quantize(at: At, x: Array, scale: Array, zero: Array = None) -> Array:
    from mlc.frontend.importers.onnx.graph import dtype_of

    kind = int(at.get("output_dtype", 0))
    dtype = np.dtype(np.uint8) if zero is None else zero.dtype
    if kind and zero is None:
        found = dtype_of(kind)
        if found is None:
            raise at.refuse(f"output_dtype = {kind}, which is not supported")
        dtype = found
    if not is_known(dtype):
        raise at.refuse(f"results of {dtype}, which programs do not have")
    axis, block = at.get("axis", 1), int(at.get("block_size", 0))
    y = x / _along(scale, x, axis, block).astype(x.dtype)
    if is_whole(dtype):
        y = np.rint(y)
        if zero is not None:
            y = y + _along(zero, x, axis, block).astype(y.dtype)
    return _saturated(y, dtype)


@row("DequantizeLinear")
def _dequantize(at: At, x: Array, scale: Array, zero: Array = None) -> Array:
    axis, block = at.get("axis", 1), int(at.get("block_size", 0))
    wide = x.astype(np.int32 if is_whole(x.dtype) else np.float32)
    if zero is not None:
        wide = wide - _along(zero, x, axis, block).astype(wide.dtype)
    return wide.astype(scale.dtype) * _along(scale, x, axis, block)


@row("DynamicQuantizeLinear")
def _dynamic(at: At, x: Array) -> tuple[Array, ...]:
    low, high = np.minimum(x.min(), 0), np.maximum(x.max(), 0)
    scale = (high - low) / np.float32(255)
    safe = np.where(scale == 0, np.float32(1), scale)
    zero = np.clip(np.rint(-low / safe), 0, 255)
    y = np.clip(np.rint(x / safe) + zero, 0, 255)
    return y.astype(np.uint8), scale.astype(np.float32), zero.astype(np.uint8)


def _lifted(x: Array, zero: Array, axis: int | None = None) -> Array:
    wide = x.astype(np.int32)
    if zero is None:
        return wide
    z = zero.astype(np.int32)
    if z.ndim == 1 and z.shape[0] > 1 and axis is not None:
        z = z.reshape([-1 if a == axis % x.ndim else 1 for a in range(x.ndim)])
    elif z.ndim == 1 and z.shape[0] == 1:
        z = z.reshape(())
    return wide - z


@row("MatMulInteger")
def _matmul_integer(
    at: At, a: Array, b: Array, a_zero: Array = None, b_zero: Array = None
) -> Array:
    return _lifted(a, a_zero, -2) @ _lifted(b, b_zero, -1)


@row("QLinearMatMul")
def _qlinear_matmul(at: At, a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array,
                    b_zero: Array, y_scale: Array, y_zero: Array) -> Array:  # fmt: skip
    total = _lifted(a, a_zero, -2) @ _lifted(b, b_zero, -1)
    scale = a_scale.astype(np.float32) * b_scale.astype(np.float32) / y_scale.astype(np.float32)
    y = np.rint(total.astype(np.float32) * scale) + y_zero.astype(np.float32)
    return _saturated(y, y_zero.dtype)


@row("QLinearConv")
def _qlinear_conv(
    at: At,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    w: Array,
    w_scale: Array,
    w_zero: Array,
    y_scale: Array,
    y_zero: Array,
    bias: Array = None,
) -> Array:
    windows = Windows(at, x.shape[2:], w.shape[2:])
    total = convolve(
        windows.padded(_lifted(x, x_zero), 0),
        _lifted(w, w_zero, 0),
        windows,
        int(at.get("group", 1)),
    )
    if bias is not None:
        total = total + bias.reshape(-1, *[1] * (x.ndim - 2))
    scale = x_scale * w_scale / y_scale
    if scale.ndim == 1 and scale.shape[0] > 1:
        scale = scale.reshape(-1, *[1] * (x.ndim - 2))
    y = np.rint(total.astype(np.float32) * scale) + y_zero.astype(np.float32)
    return _saturated(y, y_zero.dtype)
