"""Layers, networks, and steps of their training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import mlc
import mlc.numpy as mnp
from benchmarks.zoo.basics import cross_entropy, layer_norm
from benchmarks.zoo.model import Arrays, Draw, Model
from mlc import nn

# ---- layers


def gelu_mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return nn.gelu(x @ w1 + b1) @ w2 + b2


def attention(q: Any, k: Any, v: Any) -> Any:
    """q, k, v: (heads, positions, depth)."""
    return nn.attention(q, k, v)


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    return nn.attention(q, k, v, causal=True)


def biased_attention(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return nn.attention(q, k, v, bias=bias)


def grouped_attention(q: Any, k: Any, v: Any) -> Any:
    """Every key serves four queries."""
    return nn.attention(q, k, v)


def _transformer(p: Mapping[str, Any], x: Any) -> Any:
    """One block, attention and GELUs each beside its input. x: (positions, width)."""
    heads = 4
    h = layer_norm(x, p["g1"], p["o1"])
    n, width = x.shape
    q, k, v = (
        mnp.moveaxis((h @ p[name]).reshape(n, heads, width // heads), 1, 0)
        for name in ("wq", "wk", "wv")
    )
    mixed = mnp.moveaxis(nn.attention(q, k, v, causal=True), 0, 1).reshape(n, width)
    x = x + mixed @ p["wo"]
    h = layer_norm(x, p["g2"], p["o2"])
    return x + gelu_mlp(h, p["w1"], p["b1"], p["w2"], p["b2"])


def transformer_step(p: Any, x: Any, y: Any) -> Any:
    """Loss and gradient of one block."""

    def loss(p: Any) -> Any:
        return ((_transformer(p, x) - y) ** 2).mean()

    value, gradient = mlc.value_and_grad(loss)(p)
    return value, {name: p[name] - 0.01 * gradient[name] for name in p}


def _block(draw: Draw, n: int) -> tuple[dict[str, Any], Any]:
    width = 64 if n < 64 else 256
    scale = width**-0.5
    p = {name: draw(width, width, scale=scale) for name in ("wq", "wk", "wv", "wo")}
    p |= {"w1": draw(width, 4 * width, scale=scale), "b1": draw(4 * width, scale=scale)}
    p |= {"w2": draw(4 * width, width, scale=scale / 2), "b2": draw(width, scale=scale)}
    p |= {name: 1 + draw(width, scale=0.1) for name in ("g1", "g2")}
    p |= {name: draw(width, scale=0.1) for name in ("o1", "o2")}
    return p, draw(n, width)


def _heads(groups: int) -> Callable[[Draw, int], Arrays]:
    def inputs(draw: Draw, n: int) -> Arrays:
        return draw(4, n, 64), draw(4 // groups, n, 64), draw(4 // groups, n, 64)

    return inputs


def _mlp(draw: Draw, n: int) -> Arrays:
    wide = 64 if n < 64 else 512
    return draw(n, wide), draw(wide, 4 * wide), draw(4 * wide), draw(4 * wide, wide), draw(wide)


_POSITIONS = (24, 256, 1024)


# ---- training of small networks


def mlp_step(p: Any, x: Any, labels: Any) -> Any:
    """Loss, gradient and update of a perceptron with one hidden layer."""

    def loss(p: Any) -> Any:
        hidden = np.maximum(x @ p["w1"] + p["b1"], 0)
        return cross_entropy(hidden @ p["w2"] + p["b2"], labels)

    value, gradient = mlc.value_and_grad(loss)(p)
    return value, {name: p[name] - 0.1 * gradient[name] for name in p}


def cnn_step(p: Any, x: Any, labels: Any) -> Any:
    """Loss, gradient and update of two convolutions, a pooling and a layer. x: (B, H, W, C)."""

    def loss(p: Any) -> Any:
        h = np.maximum(nn.conv(x, p["k1"], padding=1, layout="channels_last") + p["c1"], 0)
        h = np.maximum(nn.conv(h, p["k2"], padding=1, layout="channels_last") + p["c2"], 0)
        h = h.reshape(-1, h.shape[1] // 2, 2, h.shape[2] // 2, 2, h.shape[3]).max(axis=(2, 4))
        return cross_entropy(h.reshape(h.shape[0], -1) @ p["w"] + p["b"], labels)

    value, gradient = mlc.value_and_grad(loss)(p)
    return value, {name: p[name] - 0.1 * gradient[name] for name in p}


def _perceptron(draw: Draw, n: int) -> Arrays:
    p = {"w1": draw(64, 256, scale=0.1), "b1": draw(256), "w2": draw(256, 10, scale=0.1)}
    return p | {"b2": draw(10)}, draw(n, 64), draw.integers(10, n)


def _convolutions(draw: Draw, n: int) -> Arrays:
    p = {"k1": draw(3, 3, 3, 16, scale=0.3), "c1": draw(16), "c2": draw(32)}
    p |= {"k2": draw(3, 3, 16, 32, scale=0.1), "w": draw(16 * 32, 10, scale=0.1), "b": draw(10)}
    return p, draw(n, 8, 8, 3), draw.integers(10, n)


# ---- recurrent networks


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm_cell(x: Any, h: Any, c: Any, wx: Any, wh: Any, b: Any) -> Any:
    """SOURCE: Hochreiter and Schmidhuber, Neural Computation 9(8), 1997."""
    width = h.shape[1]
    z = x @ wx + h @ wh + b
    i, f, g, o = (z[:, k * width : (k + 1) * width] for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def lstm(xs: Any, h: Any, c: Any, wx: Any, wh: Any, b: Any) -> Any:
    """xs: (steps, batch, width)."""

    def step(carry: Any, x: Any) -> Any:
        new = lstm_cell(x, carry[0], carry[1], wx, wh, b)
        return new, new[0]

    _, hs = mlc.scan(step, (h, c), xs)
    return hs


def _recurrent(steps: int) -> Callable[[Draw, int], Arrays]:
    def inputs(draw: Draw, n: int) -> Arrays:
        lead = (steps,) if steps else ()
        state = (draw(n, 128), draw(n, 128))
        weights = (draw(128, 512, scale=0.1), draw(128, 512, scale=0.1), draw(512))
        return draw(*lead, n, 128), *state, *weights

    return inputs


# ---- convolutions and pooling


def conv_batch_norm(x: Any, w: Any, mean: Any, var: Any, gamma: Any, beta: Any) -> Any:
    """Inference: the moments are known. x: (B, H, W, C)."""
    y = nn.conv(x, w, padding=1, layout="channels_last")
    return np.maximum((y - mean) / np.sqrt(var + 1e-5) * gamma + beta, 0)


def pooling(x: Any) -> Any:
    return nn.max_pool(x, 2, layout="channels_last"), nn.avg_pool(x, 2, layout="channels_last")


MODELS = (
    Model("gelu_mlp", gelu_mlp, _mlp, (16, 64, 1024)),
    Model("attention", attention, _heads(1), _POSITIONS),
    Model("causal_attention", causal_attention, _heads(1), _POSITIONS),
    Model(
        "biased_attention",
        biased_attention,
        lambda draw, n: (*_heads(1)(draw, n), draw(4, n, n)),
        _POSITIONS,
    ),
    Model("grouped_attention", grouped_attention, _heads(4), _POSITIONS),
    Model("transformer", _transformer, _block, (16, 128, 512), 1e-4),
    Model(
        "transformer_step",
        transformer_step,
        lambda draw, n: (*_block(draw, n), draw(n, 64 if n < 64 else 256)),
        (16, 128, 512),
        1e-3,
    ),
    Model("mlp_step", mlp_step, _perceptron, (16, 256, 8192), 2e-4),
    Model("cnn_step", cnn_step, _convolutions, (4, 64, 512), 2e-4),
    Model("lstm_cell", lstm_cell, _recurrent(0), (4, 64, 1024)),
    Model("lstm", lstm, _recurrent(16), (2, 32, 256), 1e-4),
    Model(
        "conv_batch_norm",
        conv_batch_norm,
        lambda draw, n: (
            draw(n, 16, 16, 32),
            draw(3, 3, 32, 32),
            *(draw.unit(32) for _ in range(4)),
        ),
        (1, 8, 64),
    ),
    Model("pooling", pooling, lambda draw, n: (draw(n, 32, 32, 16),), (1, 16, 128)),
)
