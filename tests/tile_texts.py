"""What the tile programs in tests/data/tiles mean in NumPy; no step divides their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.tile.kernel import KernelOp
from mlc.text import parse_text

Array = NDArray[Any]
FOLDER = Path(__file__).parent / "data" / "tiles"


def module_of(text: str, name: str = "text.mlir") -> ModuleOp:
    """The module, verified."""
    module = parse_text(text, name)
    module.verify()
    return module


def kernel_of(text: str) -> KernelOp:
    """The first kernel of a text, in a module of its own."""
    (kernel, *_) = (op for op in module_of(text).body.block.ops if isinstance(op, KernelOp))
    return kernel


@dataclass(frozen=True)
class Text:
    """Arguments of a kernel, and its meaning; `error` bounds what rounding may do."""

    draw: Callable[[np.random.Generator, dict[str, int]], list[Array]]
    meaning: Callable[..., tuple[Array, ...]]
    error: float
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])


def text_of(name: str) -> str:
    """The text of this name, as it lies beside the tests."""
    return (FOLDER / f"{name.split()[0]}.mlir").read_text()


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Random f32."""
    return rng.standard_normal(shape).astype(np.float32)


def gelu(x: Array) -> Array:
    """By the logistic function."""
    return x / (1 + np.exp(-1.595769 * x))


def _gemm(a: Array, b: Array, bias: Array) -> tuple[Array, ...]:
    return (gelu(a.astype(np.float64) @ b + bias),)


def _bf16(a: Array, b: Array) -> tuple[Array, ...]:
    return (a.astype(np.float64) @ b.astype(np.float64),)


def _conv(x: Array, w: Array, bn: Array) -> tuple[Array, ...]:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    found = np.einsum("ncyxij,fcij->nfyx", windows, w) * bn[:, None, None]
    return (np.maximum(found, 0),)


def _attention(q: Array, k: Array, v: Array, mask: Array) -> tuple[Array, ...]:
    scores = np.where(mask, 0.35 * np.einsum("hmd,hnd->hmn", q.astype(np.float64), k), -1e30)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e @ v / e.sum(-1, keepdims=True),)


def _lstm(h: Array, w: Array, c: Array) -> tuple[Array, ...]:
    i, f, o, z = np.moveaxis(np.einsum("mk,kgu->mgu", h.astype(np.float64), w), 1, 0)
    now = f * c + i * np.tanh(z)
    return now, o * np.tanh(now)


def _cases(x: Array, w: Array) -> tuple[Array, ...]:
    wide = x.astype(np.float64)
    if len(x) >= 8 and len(x) * w.shape[1] >= 64:
        return (np.exp(wide) @ w).T, 0.5 + wide.sum(0, keepdims=True)
    return (wide @ w).T, np.full((1, 24), 0.5)


def _hopper(a: Array, b: Array, bias: Array) -> tuple[Array, ...]:
    return (a.astype(np.float64) @ b.astype(np.float64).T + bias,)


TEXTS: dict[str, Text] = {
    "gemm": Text(
        lambda rng, s: [
            normal(rng, s["G"], s["M"], 40), normal(rng, s["G"], 40, 40), normal(rng, 40)
        ],
        _gemm, 2e-5, {"G": 2, "M": 17},
    ),
    "bf16": Text(
        lambda rng, s: [normal(rng, *d).astype(bfloat16) for d in ((s["M"], 64), (64, 40))],
        _bf16, 1e-4, {"M": 45},
    ),
    "conv": Text(
        lambda rng, s: [normal(rng, 2, 3, 10, 8), normal(rng, 6, 3, 3, 3), normal(rng, 6)],
        _conv, 2e-5,
    ),
    "attention": Text(
        lambda rng, s: [
            normal(rng, 2, 26, 8), normal(rng, 2, 48, 8), normal(rng, 2, 48, 8),
            rng.random((26, 48)) < 0.7,
        ],
        _attention, 1e-5,
    ),
    "lstm": Text(
        lambda rng, s: [normal(rng, 5, 20), 0.3 * normal(rng, 20, 4, 20), normal(rng, 5, 20)],
        _lstm, 1e-5,
    ),
    "cases": Text(
        lambda rng, s: [normal(rng, s["M"], 24), normal(rng, 24, s["N"])],
        _cases, 2e-4, {"M": 17, "N": 11},
    ),
    "cases (small)": Text(
        lambda rng, s: [normal(rng, s["M"], 24), normal(rng, 24, s["N"])],
        _cases, 1e-5, {"M": 5, "N": 11},
    ),
    "hopper": Text(
        lambda rng, s: [
            normal(rng, s["M"], s["K"]).astype(bfloat16),
            normal(rng, s["N"], s["K"]).astype(bfloat16), normal(rng, s["N"]),
        ],
        _hopper, 0.07, {"M": 70, "N": 35, "K": 40},  # results are rounded to bf16
    ),
}  # fmt: skip
