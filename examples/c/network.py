# pyright: basic, reportInvalidTypeForm=false
# annotations are the types that `mlc build` compiles for
"""
A network that reads digits, for C: `make` turns both functions into objects and headers.

    python network.py        # writes digits.bin: images, labels and the weights to start from
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mlc

HIDDEN, CLASSES, PIXELS = 64, 10, 64
BATCH = mlc.TensorSpec("B", PIXELS)


def scores(w1: Any, b1: Any, w2: Any, b2: Any, x: Any) -> Any:
    """Images (B, 64) to scores (B, 10)."""
    return np.maximum(x @ w1 + b1, 0) @ w2 + b2


@mlc.compile(donate=("w1", "b1", "w2", "b2"))
def step(
    w1: mlc.TensorSpec(PIXELS, HIDDEN),
    b1: mlc.TensorSpec(HIDDEN),
    w2: mlc.TensorSpec(HIDDEN, CLASSES),
    b2: mlc.TensorSpec(CLASSES),
    x: BATCH,
    y: mlc.TensorSpec("B", dtype="i64"),
    rate: mlc.TensorSpec(),
) -> Any:
    """The weights after one step of gradient descent, where they lie, and the loss before it."""

    def loss(w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return mlc.nn.cross_entropy(scores(w1, b1, w2, b2, x), y)

    weights = (w1, b1, w2, b2)
    value, slope = mlc.value_and_grad(loss, argnums=(0, 1, 2, 3))(*weights)
    return *(w - rate * g for w, g in zip(weights, slope, strict=True)), value


@mlc.compile
def classify(
    w1: mlc.TensorSpec(PIXELS, HIDDEN),
    b1: mlc.TensorSpec(HIDDEN),
    w2: mlc.TensorSpec(HIDDEN, CLASSES),
    b2: mlc.TensorSpec(CLASSES),
    x: BATCH,
) -> Any:
    """Which digit each image shows."""
    return scores(w1, b1, w2, b2, x).argmax(axis=1)


def numbers() -> tuple[Any, ...]:
    """Images (1797, 64) with values 0 … 1, labels (1797,), and weights to start from."""
    with np.load(DIGITS) as data:
        images, labels = data["images"], data["labels"]
    rng = np.random.default_rng(0)
    w1 = rng.normal(0, (2 / PIXELS) ** 0.5, (PIXELS, HIDDEN)).astype(np.float32)
    w2 = rng.normal(0, (2 / HIDDEN) ** 0.5, (HIDDEN, CLASSES)).astype(np.float32)
    x = images.reshape(-1, PIXELS).astype(np.float32) / np.float32(16)
    return (
        x,
        labels.astype(np.int64),
        *(w1, np.zeros(HIDDEN, np.float32), w2, np.zeros(CLASSES, np.float32)),
    )


DIGITS = Path(__file__).parent.parent / "digits.npz"

if __name__ == "__main__":
    Path("digits.bin").write_bytes(b"".join(x.tobytes() for x in numbers()))
