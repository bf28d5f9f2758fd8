"""Attention and a block of GPT-2, forward and with gradients."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.contractions import gelu
from benchmarks.gpu.memory_bound import (
    jax_layer_norm,
    layer_norm,
    softmax,
    torch_layer_norm,
)
from benchmarks.gpu.workload import Array, Function, Group, Workload


def attend(q: Any, k: Any, v: Any) -> Any:
    """softmax(q kᵀ / √D) v. All: (B, H, S, D)."""
    return softmax((q @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))) @ v


def attend_causally(q: Any, k: Any, v: Any) -> Any:
    """The same of the keys up to each query's place."""
    scores = (q @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))
    keys: int = scores.shape[-1]
    place = np.arange(keys)
    return softmax(np.where(place[None, :] <= place[:, None], scores, -np.inf)) @ v


def _torch_attend(causal: bool, torch: Any, q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _attend_by(backend: str, causal: bool, torch: Any, q: Any, k: Any, v: Any) -> Any:
    attention = importlib.import_module("torch.nn.attention")
    with attention.sdpa_kernel(getattr(attention.SDPBackend, backend)):
        return _torch_attend(causal, torch, q, k, v)


def _jax_attend(causal: bool, jax: Any, q: Any, k: Any, v: Any) -> Any:
    """JAX wants (B, S, H, D): what that takes is part of its time."""
    q, k, v = (jax.numpy.swapaxes(x, 1, 2) for x in (q, k, v))
    return jax.numpy.swapaxes(_jax_attend_shd(causal, jax, q, k, v), 1, 2)


def _jax_attend_shd(causal: bool, jax: Any, q: Any, k: Any, v: Any) -> Any:
    by = "cudnn" if jax.default_backend() == "gpu" else None
    return jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation=by)


def _words(causal: bool) -> Mapping[str, Function]:
    return {
        "torch": partial(_torch_attend, causal),
        "cudnn": partial(_attend_by, "CUDNN_ATTENTION", causal),
        "flash": partial(_attend_by, "FLASH_ATTENTION", causal),
        "jax": partial(_jax_attend, causal),
    }


def attention(shape: tuple[int, int, int, int], causal: bool) -> Workload:
    """Of (B, H, S, D). Causal: half of the scores count."""
    b, h, s, d = shape
    return Workload(
        f"attention_{b}x{h}x{s}x{d}{'_causal' if causal else ''}", (Array(shape),) * 3,
        attend_causally if causal else attend, _words(causal),
        4.0 * b * h * s * s * d / (2 if causal else 1), exact="f32",
    )  # fmt: skip


def back(forward: Workload) -> Workload:
    """Forward and backward: seven products of scores' size for the two of the way forward."""
    return replace(
        forward, name=forward.name.replace("attention", "attention_back"), gradient="given",
        arrays=(*forward.arrays, forward.arrays[0]), flops=3.5 * forward.flops, captured=True,
    )  # fmt: skip


# A block of GPT-2: x: (B, S, D); weights in the order of their use, then the norms'


def _block(
    norm: Function, attended: Function, bend: Function, weights: tuple[Any, ...], x: Any
) -> Any:
    wq, bq, wo, bo, w1, b1, w2, b2, g1, c1, g2, c2 = weights
    x = x + attended(norm(x, g1, c1) @ wq + bq) @ wo + bo
    return x + bend(norm(x, g2, c2) @ w1 + b1) @ w2 + b2


def _numpy_block(heads: int, *arrays: Any) -> Any:
    def attended(qkv: Any) -> Any:
        b, s, width = qkv.shape
        parts = qkv.reshape(b, s, 3, heads, width // (3 * heads))
        q, k, v = np.transpose(parts, (2, 0, 3, 1, 4))
        return np.swapaxes(attend_causally(q, k, v), 1, 2).reshape(b, s, width // 3)

    return _block(layer_norm, attended, gelu, arrays[:-1], arrays[-1])


def _torch_block(heads: int, torch: Any, *arrays: Any) -> Any:
    def attended(qkv: Any) -> Any:
        b, s, width = qkv.shape
        q, k, v = qkv.view(b, s, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
        return _torch_attend(True, torch, q, k, v).transpose(1, 2).reshape(b, s, width // 3)

    bend = partial(torch.nn.functional.gelu, approximate="tanh")
    return _block(partial(torch_layer_norm, torch), attended, bend, arrays[:-1], arrays[-1])


def _jax_block(heads: int, jax: Any, *arrays: Any) -> Any:
    def attended(qkv: Any) -> Any:
        b, s, width = qkv.shape
        parts = qkv.reshape(b, s, 3, heads, width // (3 * heads))
        q, k, v = jax.numpy.moveaxis(parts, 2, 0)
        return _jax_attend_shd(True, jax, q, k, v).reshape(b, s, width // 3)

    bend = partial(jax.nn.gelu, approximate=True)
    return _block(partial(jax_layer_norm, jax), attended, bend, arrays[:-1], arrays[-1])


def block(batch: int, length: int, width: int, heads: int) -> Workload:
    """Forward; the causal half of the scores counts."""
    outs = ((width, 3 * width, 0.03), (width, width, 0.03), (width, 4 * width, 0.03))
    layers = (*outs, (4 * width, width, 0.02))
    weights = [a for m, n, by in layers for a in (Array((m, n), scale=by), Array((n,), scale=0.1))]
    tokens = batch * length
    return Workload(
        f"gpt2_block_{batch}x{length}x{width}",
        (*weights, *(Array((width,)),) * 4, Array((batch, length, width))),
        partial(_numpy_block, heads),
        {"torch": partial(_torch_block, heads), "jax": partial(_jax_block, heads)},
        24.0 * tokens * width**2 + 2.0 * tokens * length * width, captured=True,
    )  # fmt: skip


def trained(forward: Workload) -> Workload:
    """The gradient in all weights and x: twice the forward's products more."""
    return replace(
        forward, name=forward.name + "_training", gradient="squares", flops=3 * forward.flops,
        error=5e-2,
    )  # fmt: skip


SHAPES = ((16, 16, 1024, 64), (4, 16, 4096, 128), (1, 16, 16384, 128))
ATTENTION = tuple(attention(shape, causal) for shape in SHAPES for causal in (False, True))
SMALL = tuple(attention((2, 3, 16, 8), causal) for causal in (False, True))
GPT2, SMALL_GPT2 = block(8, 1024, 768, 12), block(2, 16, 24, 3)

GROUPS = (
    Group("attention", ATTENTION, SMALL),
    Group("attention_back", tuple(map(back, ATTENTION)), tuple(map(back, SMALL))),
    Group("block", (GPT2,), (SMALL_GPT2,)),
    Group("block_training", (trained(GPT2),), (trained(SMALL_GPT2),)),
)
