# pyright: basic
"""Norms, recurrent layers and resizing of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlc.frontend.importers.onnx.elementwise import sigmoid, softplus
from mlc.frontend.importers.onnx.run import At, in_f32, row, traced
from mlc.frontend.importers.onnx.values import arange, full
from mlc.frontend.trace.loops import scan

Array = Any


def _per_channel(v: Array, rank: int) -> Array:
    return v.reshape(-1, *[1] * (rank - 2))


@row("BatchNormalization")
def _batch_norm(at: At, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Any:
    epsilon = np.asarray(at.get("epsilon", 1e-5), x.dtype)
    training = at.get("training_mode", 0)
    outputs = ()
    if training:
        axes = (0, *range(2, x.ndim))
        own, spread = x.mean(axes), ((x - x.mean(axes, keepdims=True)) ** 2).mean(axes)
        share = np.asarray(at.get("momentum", 0.9), x.dtype)
        outputs = (mean * share + own * (1 - share), variance * share + spread * (1 - share))
        mean, variance = own, spread
    factor = (scale * (1 / np.sqrt(variance + epsilon))).astype(x.dtype)
    if not training:  # one product and one sum of each element, the bits of ONNX Runtime
        shift = (bias - mean * factor).astype(x.dtype)
        return x * _per_channel(factor, x.ndim) + _per_channel(shift, x.ndim)
    found = (x - _per_channel(mean, x.ndim)) * _per_channel(factor, x.ndim)
    return (found + _per_channel(bias, x.ndim)).astype(x.dtype), *outputs


@row("InstanceNormalization")
@in_f32
def _instance_norm(at: At, x: Array, scale: Array, bias: Array) -> Array:
    axes = tuple(range(2, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    spread = (centred * centred).mean(axes, keepdims=True) + np.asarray(
        at.get("epsilon", 1e-5), x.dtype
    )
    return centred / np.sqrt(spread) * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)


@row("LayerNormalization")
def _layer_norm(at: At, x: Array, scale: Array, bias: Array = None) -> tuple[Array, ...]:
    axis = at.get("axis", -1) % x.ndim
    axes = tuple(range(axis, x.ndim))
    wide = x.astype(np.float32) if at.get("stash_type", 1) == 1 else x
    mean = wide.mean(axes, keepdims=True)
    centred = wide - mean
    spread = (centred * centred).mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(spread + np.asarray(at.get("epsilon", 1e-5), wide.dtype))
    found = (centred * inverse).astype(x.dtype) * scale
    return found if bias is None else found + bias, mean, inverse


@row("RMSNormalization")
def _rms_norm(at: At, x: Array, scale: Array) -> Array:
    axes = tuple(range(at.get("axis", -1) % x.ndim, x.ndim))
    wide = x.astype(np.float32) if at.get("stash_type", 1) == 1 else x
    mean = (wide * wide).mean(axes, keepdims=True)
    found = wide / np.sqrt(mean + np.asarray(at.get("epsilon", 1e-5), wide.dtype))
    return found.astype(x.dtype) * scale


@row("GroupNormalization")
@in_f32
def _group_norm(at: At, x: Array, scale: Array, bias: Array) -> Array:
    groups = at.get("num_groups")
    parts = x.reshape(x.shape[0], groups, -1)
    centred = parts - parts.mean(2, keepdims=True)
    spread = (centred * centred).mean(2, keepdims=True)
    found = centred / np.sqrt(spread + np.asarray(at.get("epsilon", 1e-5), x.dtype))
    if at.version < 21:  # one number for each group
        found = found * scale.reshape(-1, 1) + bias.reshape(-1, 1)
        return found.reshape(x.shape)
    return found.reshape(x.shape) * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)


# recurrent layers


def _activation(name: str, alpha: float | None, beta: float | None) -> Callable[[Array], Array]:
    a = {"affine": 1.0, "leakyrelu": 0.01, "thresholdedrelu": 1.0, "scaledtanh": 1.0,
         "hardsigmoid": 0.2, "elu": 1.0}.get(name, 0.0) if alpha is None else alpha  # fmt: skip
    b = {"hardsigmoid": 0.5, "scaledtanh": 1.0}.get(name, 0.0) if beta is None else beta
    table: dict[str, Callable[[Array], Array]] = {
        "sigmoid": sigmoid, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0),
        "affine": lambda x: x * a + b, "leakyrelu": lambda x: np.where(x < 0, x * a, x),
        "thresholdedrelu": lambda x: np.where(x > a, x, x * 0),
        "scaledtanh": lambda x: np.tanh(x * b) * a,
        "hardsigmoid": lambda x: np.clip(x * a + b, 0, 1),
        "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)) * a, x),
        "softsign": lambda x: x / (1 + np.abs(x)), "softplus": softplus,
    }  # fmt: skip
    return table[name]


def _activations(at: At, defaults: Sequence[str], direction: int) -> list[Callable[[Array], Array]]:
    names = [n.lower() for n in at.get("activations") or list(defaults) * 2]
    alphas, betas = list(at.get("activation_alpha") or ()), list(at.get("activation_beta") or ())
    count = len(defaults)
    chosen = range(direction * count, (direction + 1) * count)
    return [
        _activation(
            names[k], alphas[k] if k < len(alphas) else None, betas[k] if k < len(betas) else None
        )
        for k in chosen
    ]


Step = Callable[[Sequence[Array], Array], tuple[Sequence[Array], Array]]


def _directions(
    at: At, x: Array, lengths: Array, starts: Sequence[Array], steps: Sequence[Step]
) -> tuple[Array, list[Array]]:
    """Outputs (time, directions, batch, hidden) and the last states of each direction."""
    outputs, lasts = [], []
    way = at.get("direction", "forward")
    for k, step in enumerate(steps):
        backwards = way == "reverse" or k == 1
        state = tuple(traced(s[k]) for s in starts)
        line = arange(x.shape[0])

        def trip(carry: Any, item: Any, step: Step = step) -> Any:
            each, t = item
            new, out = step(carry, each)
            if lengths is not None:
                alive = (t < lengths)[:, None]
                new = tuple(np.where(alive, n, c) for n, c in zip(new, carry, strict=True))
                out = np.where(alive, out, np.zeros_like(out))
            return tuple(new), out

        last, ys = scan(trip, state, (traced(x), traced(line)), reverse=backwards)
        outputs.append(ys)
        lasts.append(last)
    together = np.stack(outputs, 1)
    return together, [np.stack([last[k] for last in lasts], 0) for k in range(len(starts))]


def _recurrent(
    at: At, x: Array, lengths: Array, starts: Sequence[Array], steps: Sequence[Step]
) -> Any:
    if at.get("layout", 0):
        x = x.transpose(1, 0, 2)
        starts = [s if s is None else s.transpose(1, 0, 2) for s in starts]
    count, hidden = len(steps), int(at.get("hidden_size"))
    zero = full((count, x.shape[1], hidden), 0, x.dtype)
    begin = [zero if s is None else s for s in starts]
    ys, lasts = _directions(at, x, lengths, begin, steps)
    if at.get("layout", 0):
        return ys.transpose(2, 0, 1, 3), *(last.transpose(1, 0, 2) for last in lasts)
    return ys, *lasts


def _clipped(at: At) -> Callable[[Array], Array]:
    limit = at.get("clip")
    return (lambda v: np.clip(v, -limit, limit)) if limit else (lambda v: v)


@row("RNN")
def _rnn(at: At, x: Array, w: Array, r: Array, b: Array = None, lengths: Array = None,
         h: Array = None) -> Any:  # fmt: skip
    clip = _clipped(at)

    def step_of(k: int) -> Step:
        (f,) = _activations(at, ["Tanh"], k)
        bias = 0 if b is None else sum(np.split(b[k], 2))

        def step(state: Sequence[Array], each: Array) -> Any:
            new = f(clip(each @ w[k].T + state[0] @ r[k].T + bias))
            return (new,), new

        return step

    return _recurrent(at, x, lengths, [h], [step_of(k) for k in range(w.shape[0])])


@row("GRU")
def _gru(at: At, x: Array, w: Array, r: Array, b: Array = None, lengths: Array = None,
         h: Array = None) -> Any:  # fmt: skip
    clip, before = _clipped(at), at.get("linear_before_reset", 0)

    def step_of(k: int) -> Step:
        f, g = _activations(at, ["Sigmoid", "Tanh"], k)
        wz, wr, wh = np.split(w[k], 3)
        rz, rr, rh = np.split(r[k], 3)
        zero = np.zeros(6 * rz.shape[0], x.dtype)
        bz, br, bh, cz, cr, ch = np.split(zero if b is None else b[k], 6)

        def step(state: Sequence[Array], each: Array) -> Any:
            (last,) = state
            z = f(clip(each @ wz.T + last @ rz.T + bz + cz))
            reset = f(clip(each @ wr.T + last @ rr.T + br + cr))
            if before:
                new = g(clip(each @ wh.T + reset * (last @ rh.T + ch) + bh))
            else:
                new = g(clip(each @ wh.T + (reset * last) @ rh.T + ch + bh))
            found = (1 - z) * new + z * last
            return (found,), found

        return step

    return _recurrent(at, x, lengths, [h], [step_of(k) for k in range(w.shape[0])])


@row("LSTM")
def _lstm(at: At, x: Array, w: Array, r: Array, b: Array = None, lengths: Array = None,
          h: Array = None, c: Array = None, p: Array = None) -> Any:  # fmt: skip
    clip, coupled = _clipped(at), at.get("input_forget", 0)

    def step_of(k: int) -> Step:
        f, g, last_of = _activations(at, ["Sigmoid", "Tanh", "Tanh"], k)
        bias = 0 if b is None else sum(np.split(b[k], 2))
        peeps = [0, 0, 0] if p is None else np.split(p[k], 3)

        def step(state: Sequence[Array], each: Array) -> Any:
            last, cell = state
            i, o, forget, new = np.split(each @ w[k].T + last @ r[k].T + bias, 4, axis=-1)
            i = f(clip(i + peeps[0] * cell))
            forget = 1 - i if coupled else f(clip(forget + peeps[2] * cell))
            cell = forget * cell + i * g(clip(new))
            found = f(clip(o + peeps[1] * cell)) * last_of(cell)
            return (found, cell), found

        return step

    return _recurrent(at, x, lengths, [h, c], [step_of(k) for k in range(w.shape[0])])
