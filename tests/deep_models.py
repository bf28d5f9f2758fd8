"""An LSTM and a transformer, over steps and blocks that are a loop or written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mlc
import mlc.numpy as mnp
from mlc.frontend.trace.containers import flatten, unflatten

Scan = Callable[..., tuple[Any, Any]]
Parameters = dict[str, Any]


def written_out(f: Callable[[Any, Any], Any], init: Any, xs: Any) -> tuple[Any, Any]:
    """What `mlc.scan` gives, by as many copies of the body as there are rows in `xs`."""
    leaves, structure = flatten(xs)
    carry, ys = init, list[Any]()
    for k in range(leaves[0].shape[0]):
        carry, y = f(carry, unflatten(structure, [x[k] for x in leaves]))
        ys.append(y)
    return carry, None if ys[0] is None else mnp.stack(ys)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mnp.exp(-x))


def lstm_loss(p: Parameters, x: Any, y: Any, scan: Scan = mlc.scan) -> Any:
    """
    The mean squared distance of an LSTM's outputs from `y`. x: (T, B, D), y: (T, B, H), p: `wx` (D,
    4 H), `wh` (H, 4 H), `b` (4 H,). SOURCE: Hochreiter and Schmidhuber, Long short-term memory,
    Neural Computation 9(8), 1997, with the forget gate of Gers et al., 2000.
    """
    width = p["wh"].shape[0]

    def step(carry: tuple[Any, Any], row: Any) -> tuple[tuple[Any, Any], Any]:
        h, c = carry
        z = row @ p["wx"] + h @ p["wh"] + p["b"]
        i, f, g, o = (z[:, k * width : (k + 1) * width] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * mnp.tanh(g)
        h = sigmoid(o) * mnp.tanh(c)
        return (h, c), h

    zero = mnp.zeros((x.shape[1], width), x.dtype)
    _, hs = scan(step, (zero, zero), x)
    return ((hs - y) ** 2).mean()


def lstm_inputs(
    steps: int, batch: int, width: int, dtype: Any = np.float64
) -> tuple[Parameters, Any, Any]:
    """Parameters, x and y."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(width)).astype(dtype)

    p = {"wx": normal(width, 4 * width), "wh": normal(width, 4 * width), "b": normal(4 * width)}
    return p, normal(steps, batch, width), normal(steps, batch, width)


def normalized(x: Any, scale: Any) -> Any:
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / mnp.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-5) * scale


def block(x: Any, p: Parameters) -> Any:
    """One block: attention of one head, then a layer of GELUs, each beside its input."""
    h = normalized(x, p["s1"])
    q, k, v = (h @ p[name] for name in ("wq", "wk", "wv"))
    scores: Any = mnp.einsum("bqd,bkd->bqk", q, k) / np.sqrt(x.shape[-1])
    weights: Any = mnp.exp(scores - scores.max(axis=-1, keepdims=True))
    attention = weights / weights.sum(axis=-1, keepdims=True)
    x = x + mnp.einsum("bqk,bkd->bqd", attention, v) @ p["wo"]
    h = normalized(x, p["s2"]) @ p["w1"]
    return x + (h * sigmoid(1.702 * h)) @ p["w2"]


def transformer_loss(p: Parameters, x: Any, y: Any, scan: Scan = mlc.scan) -> Any:
    """Blocks whose parameters are stacked along first axes. x, y: (B, T, D)."""

    def step(x: Any, p: Parameters) -> tuple[Any, None]:
        return block(x, p), None

    x, _ = scan(step, x, p)
    return ((x - y) ** 2).mean()


def transformer_inputs(
    blocks: int, batch: int, steps: int, width: int, dtype: Any = np.float64
) -> tuple[Parameters, Any, Any]:
    """Parameters, x and y."""
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(width)).astype(dtype)

    p = {name: normal(blocks, width, width) for name in ("wq", "wk", "wv", "wo")}
    p |= {"w1": normal(blocks, width, 4 * width), "w2": normal(blocks, 4 * width, width) / 2}
    p |= {name: 1 + normal(blocks, width) / 10 for name in ("s1", "s2")}
    return p, normal(batch, steps, width), normal(batch, steps, width)
