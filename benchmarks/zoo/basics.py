"""Elementwise chains, normalisations and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.zoo.model import Arrays, Draw, Model

# ---- elementwise


def chain(a: Any, b: Any, c: Any, d: Any) -> Any:
    """E = D + (A + B) C."""
    return d + (a + b) * c


def exponential_chain(a: Any, b: Any) -> Any:
    """Two results from one exponential. SOURCE: S141."""
    c = a + 0.5 * b
    return (c / 2) * (c - 1), np.exp(c - 1)


def activations(x: Any) -> Any:
    """Vector math in a row."""
    return np.tanh(x) * np.exp(-x * x) + np.log(1 + x * x)


def _vectors(count: int) -> Callable[[Draw, int], Arrays]:
    return lambda draw, n: tuple(draw(n) for _ in range(count))


# ---- rows


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x: Any) -> Any:
    y = x - x.max(axis=-1, keepdims=True)
    return y - np.log(np.exp(y).sum(axis=-1, keepdims=True))


def logsumexp(x: Any) -> Any:
    top = x.max(axis=-1)
    return top + np.log(np.exp(x - top[:, None]).sum(axis=-1))


def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
    y = x - x.mean(axis=-1, keepdims=True)
    return y / np.sqrt((y * y).mean(axis=-1, keepdims=True) + 1e-5) * gamma + beta


def rms_norm(x: Any, gamma: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * gamma


def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
    """Over axis 0, with the moments of the batch."""
    mean = x.mean(axis=0)
    y = x - mean
    return y / np.sqrt((y * y).mean(axis=0) + 1e-5) * gamma + beta


def cross_entropy(x: Any, labels: Any) -> Any:
    return -np.take_along_axis(log_softmax(x), labels[:, None], 1).mean()


def rows_and_columns(x: Any) -> Any:
    return x.sum(axis=0), x.max(axis=1), (x * x).sum()


_ROWS = (16, 512, 4096)


MODELS = (
    Model("chain", chain, _vectors(4), (4_000, 200_000, 4_000_000)),
    Model("exponential_chain", exponential_chain, _vectors(2), (4_000, 200_000, 4_000_000)),
    Model("activations", activations, _vectors(1), (4_000, 200_000, 4_000_000)),
    Model("softmax", softmax, lambda draw, n: (draw(n, 512),), _ROWS),
    Model("log_softmax", log_softmax, lambda draw, n: (draw(n, 512),), _ROWS),
    Model("logsumexp", logsumexp, lambda draw, n: (draw(n, 512),), _ROWS),
    Model("layer_norm", layer_norm, lambda draw, n: (draw(n, 512), draw(512), draw(512)), _ROWS),
    Model("rms_norm", rms_norm, lambda draw, n: (draw(n, 512), draw(512)), _ROWS),
    Model(
        "batch_norm", batch_norm, lambda draw, n: (draw(n, 128), draw(128), draw(128)), _ROWS, 2e-4
    ),
    Model(
        "cross_entropy", cross_entropy, lambda draw, n: (draw(n, 100), draw.integers(100, n)), _ROWS
    ),
    Model("rows_and_columns", rows_and_columns, lambda draw, n: (draw(n, 1000),), (16, 512, 4096)),
)
