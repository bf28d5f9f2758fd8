# pyright: basic
"""Rows of whole layers: norms, attention, recurrent cells."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mlc.frontend import nn
from mlc.frontend.importers.fx.run import At, row
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.numpy.elementwise_math import rsqrt
from mlc.frontend.trace.loops import scan
from mlc.frontend.transforms.derivatives import vjp

Array = Any


@row("_softmax", "softmax")
def _softmax(at: At, x: Array, axis: int, wide: Any = None) -> Array:
    return nn.softmax(x.astype(at.dtype), axis) if x.ndim else full((), 1, at.dtype)


@row("_log_softmax", "log_softmax")
def _log_softmax(at: At, x: Array, axis: int, wide: Any = None) -> Array:
    return nn.log_softmax(x.astype(at.dtype), axis) if x.ndim else full((), 0, at.dtype)


def _standard(x: Array, axes: Sequence[int], epsilon: float) -> tuple[Array, Array, Array]:
    """(x - mean) / deviation, with both as axes of one."""
    mean = x.mean(tuple(axes), keepdims=True)
    centred = x - mean
    inverse = rsqrt((centred * centred).mean(tuple(axes), keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


@row("native_layer_norm")
def _layer_norm(
    at: At, x: Array, shape: Sequence[Any], scale: Array, bias: Array, epsilon: float
) -> tuple[Array, ...]:
    found, mean, inverse = _standard(x, range(x.ndim - len(shape), x.ndim), epsilon)
    found = found if scale is None else found * scale
    return found if bias is None else found + bias, mean, inverse


@row("native_group_norm")
def _group_norm(
    at: At, x: Array, scale: Array, bias: Array, count: Any, channels: Any, space: Any,
    groups: int, epsilon: float,
) -> tuple[Array, ...]:  # fmt: skip
    found, mean, inverse = _standard(x.reshape((count, groups, -1)), [2], epsilon)
    found = found.reshape(x.shape)
    found = found if scale is None else found * _per_channel(scale, x.ndim)
    found = found if bias is None else found + _per_channel(bias, x.ndim)
    return found, mean[:, :, 0], inverse[:, :, 0]


def _per_channel(v: Array, rank: int) -> Array:
    """A line along the second axis."""
    return v.reshape((-1, *[1] * (rank - 2)))


def _scaled(x: Array, mean: Array, inverse: Array, scale: Array, bias: Array) -> Array:
    factor = inverse if scale is None else scale * inverse
    found = (x - _per_channel(mean, x.ndim)) * _per_channel(factor, x.ndim)
    return found if bias is None else found + _per_channel(bias, x.ndim)


@row("_native_batch_norm_legit_no_training")
def _batch_norm(
    at: At, x: Array, scale: Array, bias: Array, mean: Array, variance: Array,
    momentum: float, epsilon: float,
) -> tuple[Array, ...]:  # fmt: skip
    inverse = rsqrt(variance + epsilon)
    return _scaled(x, mean, inverse, scale, bias), *_kept(at, mean, inverse)


def _kept(at: At, mean: Array, inverse: Array) -> tuple[Array, Array]:
    """What a norm by given statistics says that it took: on CPUs nothing."""
    if tuple(at.values[1].shape) == (0,):
        none = full((0,), 0, at.dtype)
        return none, none
    return mean, inverse


@row("_native_batch_norm_legit_functional", "_native_batch_norm_legit")
def _batch_norm_training(
    at: At, x: Array, scale: Array, bias: Array, *given: Any
) -> tuple[Array, ...]:
    *running, training, momentum, epsilon = given
    if not training:
        inverse = rsqrt(running[1] + epsilon)
        kept = _kept(at, running[0], inverse)
        return _scaled(x, running[0], inverse, scale, bias), *kept, *running
    mean, variance = nn.batch_statistics(x)
    inverse = rsqrt(variance + epsilon)
    found = _scaled(x, mean, inverse, scale, bias)
    if not running:
        return found, mean, inverse
    count = prod((x.shape[0], *x.shape[2:]))
    spread = variance * (count / (count - 1))
    before, after = 1 - momentum, momentum
    return (
        found, mean, inverse,
        running[0] * before + mean * after,
        running[1] * before + spread * after,
    )  # fmt: skip


# attention


def _for_all_heads(q: Array, x: Array) -> Array:
    """Keys, or values, of fewer heads than queries have: each serves several in a row."""
    if x.shape[1] == q.shape[1]:
        return x
    *lead, heads, length, width = x.shape
    each = q.shape[1] // heads
    wide = np.broadcast_to(x[:, :, None], (*lead, heads, each, length, width))
    return wide.reshape((*lead, heads * each, length, width))


def _scores(q: Array, k: Array, mask: Array, causal: bool, scale: Any) -> Array:
    scores = (q * (scale or q.shape[-1] ** -0.5)) @ np.swapaxes(k, -1, -2)
    if causal:
        here = arange(q.shape[-2])[:, None] >= arange(k.shape[-2])[None, :]
        scores = np.where(here, scores, -np.inf).astype(q.dtype)
    if mask is None:
        return scores
    return np.where(mask, scores, -np.inf).astype(q.dtype) if mask.dtype == bool else scores + mask


def _attention(q: Array, k: Array, v: Array, mask: Array, causal: bool, scale: Any) -> Array:
    k, v = _for_all_heads(q, k), _for_all_heads(q, v)
    scores = _scores(q, k, mask, causal, scale)
    if mask is None:
        return nn.softmax(scores, -1) @ v
    none = scores.max(-1, keepdims=True) == -np.inf  # a row that sees nothing is zero
    weights = nn.softmax(np.where(none, 0, scores).astype(q.dtype), -1)
    return np.where(none, 0, weights).astype(q.dtype) @ v


@row("_scaled_dot_product_flash_attention_for_cpu")
def _flash(
    at: At, q: Array, k: Array, v: Array, rate: float = 0.0, causal: bool = False, *,
    attn_mask: Array = None, scale: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    if rate:
        raise at.refuse("attention with dropout")
    found, total = _attention(q, k, v, attn_mask, causal, scale), None
    if at.uses(1):
        total = nn.logsumexp(_scores(q, _for_all_heads(q, k), attn_mask, causal, scale), -1)
    return found, total


@row("_scaled_dot_product_flash_attention_for_cpu_backward")
def _flash_backward(
    at: At, g: Array, q: Array, k: Array, v: Array, out: Array, total: Array, rate: float,
    causal: bool, *, attn_mask: Array = None, scale: Any = None,
) -> tuple[Array, ...]:  # fmt: skip
    _, pull = vjp(lambda q, k, v: _attention(q, k, v, attn_mask, causal, scale), q, k, v)
    return pull(g)


def _heads(x: Array, w: Array, b: Array, count: int) -> Array:
    """A product of rows, for each head. x: (batch, time, width) -> (batch, heads, time, width)."""
    found = x @ w.T + b
    return np.swapaxes(found.reshape((*found.shape[:2], count, -1)), 1, 2)


def _self_attention(
    given: Sequence[Array], heads: int, qkv: tuple[Array, Array],
    out: tuple[Array, Array], mask: Array, kind: int | None,
) -> tuple[Array, Array]:  # fmt: skip
    """
    What attention gives, and the weights; nothing is seen where a mask, of keys of each example if
    `kind` is 1, is not zero.
    """
    sides = zip(given, *(np.split(x, 3) for x in qkv), strict=True)
    q, k, v = (_heads(x, w, b, heads) for x, w, b in sides)
    seen = None
    if mask is not None:
        seen = (mask[:, None, None, :] if kind == 1 else mask) == 0
    weights = nn.softmax(_scores(q, k, seen, False, None), -1)
    joined = np.swapaxes(weights @ v, 1, 2).reshape(given[0].shape)
    return joined @ out[0].T + out[1], weights


@row("_native_multi_head_attention")
def _multi_head_attention(
    at: At, q: Array, k: Array, v: Array, width: int, heads: int, w: Array, b: Array,
    w_out: Array, b_out: Array, mask: Array = None, weighs: bool = True, mean: bool = True,
    kind: int | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    found, weights = _self_attention((q, k, v), heads, (w, b), (w_out, b_out), mask, kind)
    if not weighs:
        return found, None
    return found, weights.mean(1) if mean else weights


@row("_transformer_encoder_layer_fwd")
def _encoder_layer(
    at: At, x: Array, width: int, heads: int, w: Array, b: Array, w_out: Array, b_out: Array,
    gelu: bool, first: bool, epsilon: float, scale_1: Array, bias_1: Array, scale_2: Array,
    bias_2: Array, w_wide: Array, b_wide: Array, w_narrow: Array, b_narrow: Array,
    mask: Array = None, kind: int | None = None,
) -> Array:  # fmt: skip
    """`nn.TransformerEncoderLayer` in inference."""

    def attend(x: Array) -> Array:
        return _self_attention((x, x, x), heads, (w, b), (w_out, b_out), mask, kind)[0]

    def feed(x: Array) -> Array:
        wide = x @ w_wide.T + b_wide
        wide = nn.gelu(wide, approximate=False) if gelu else np.maximum(wide, 0)
        return wide @ w_narrow.T + b_narrow

    def norm(x: Array, scale: Array, bias: Array) -> Array:
        return _standard(x, (2,), epsilon)[0] * scale + bias

    if first:
        x = x + attend(norm(x, scale_1, bias_1))
        return x + feed(norm(x, scale_2, bias_2))
    x = norm(x + attend(x), scale_1, bias_1)
    return norm(x + feed(x), scale_2, bias_2)


# recurrent layers


@row("mkldnn_rnn_layer")
def _lstm(
    at: At, x: Array, w: Array, r: Array, b: Array, c: Array, h: Array, cell: Array,
    backwards: bool, sizes: Sequence[Any], mode: int, hidden: int, layers: int, biased: bool,
    both: bool, first: bool, train: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """One layer of an LSTM (mode 2), in one direction; x is (time, batch, inputs)."""
    if mode != 2 or both or sizes or layers != 1 or at.uses(3):  # 3: what the way back wants
        raise at.refuse("a recurrent layer other than an LSTM in one direction")
    each = x @ w.T + (b + c if biased else 0)

    def step(state: tuple[Array, Array], item: Array) -> tuple[tuple[Array, Array], Array]:
        last, kept = state
        i, f, new, o = np.split(item + last @ r.T, 4, axis=-1)
        kept = nn.sigmoid(f) * kept + nn.sigmoid(i) * np.tanh(new)
        found = nn.sigmoid(o) * np.tanh(kept)
        return (found, kept), found

    start = (h.reshape(h.shape[-2:]), cell.reshape(cell.shape[-2:]))
    (last, kept), ys = scan(step, start, each, reverse=backwards)
    none = full((0,), 0, np.uint8)
    shape = h.shape
    return ys, last.reshape(shape), kept.reshape(shape), none
