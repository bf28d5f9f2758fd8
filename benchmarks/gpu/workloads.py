"""What is measured: each workload once as NumPy writes it, and in the words of each peer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mlc

Function = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """A function of arrays of these shapes; `peers`: by name, of their library and the arrays."""

    name: str
    shapes: Sequence[tuple[int, ...]]
    dtype: str
    f: Function
    peers: Mapping[str, Function]
    flops: float = 0.0
    bytes: float = 0.0
    error: float = 2e-2  # of the norm, relative
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of mlc.compile
    tf32: bool = False  # whether peers may multiply so


def multiply(a: Any, b: Any) -> Any:
    return a @ b


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def chain(x: Any) -> Any:
    return np.tanh(x) * np.exp(-x * x) + np.log1p(x * x)


def sum_of_rows(x: Any) -> Any:
    return x.sum(axis=1)


def sum_of_columns(x: Any) -> Any:
    return x.sum(axis=0)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))
    return softmax(scores) @ v


def convolve(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, padding=1)


def running_sum(x: Any) -> Any:
    return np.cumsum(x)


# in the words of peers


def same(f: Function) -> Mapping[str, Function]:
    """What every library writes so."""

    def g(library: Any, *arrays: Any) -> Any:
        return f(*arrays)

    return {"torch": g, "jax": g}


def _conv2d(torch: Any, x: Any, w: Any) -> Any:
    return torch.nn.functional.conv2d(x, w, padding=1)


def _torch_softmax(torch: Any, x: Any) -> Any:
    return torch.softmax(x, -1)


def _jax_softmax(jax: Any, x: Any) -> Any:
    return jax.nn.softmax(x, -1)


def _chain_of(f: Any, x: Any) -> Any:
    return f.tanh(x) * f.exp(-x * x) + f.log1p(x * x)


def _jax_chain(jax: Any, x: Any) -> Any:
    return _chain_of(jax.numpy, x)


def _torch_running_sum(torch: Any, x: Any) -> Any:
    return x.cumsum(0)


def _jax_running_sum(jax: Any, x: Any) -> Any:
    return jax.numpy.cumsum(x)


def _torch_sort(torch: Any, x: Any) -> Any:
    return x.sort().values


def _jax_sort(jax: Any, x: Any) -> Any:
    return jax.numpy.sort(x)


def _attend(torch: Any, q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def _product(dtype: str, m: int, k: int, n: int, **more: Any) -> Workload:
    bytes_ = {"bf16": 2, "f32": 4, "f64": 8}[dtype]
    name = f"matmul_{'tf32' if more.get('tf32') else dtype}_{m}x{k}x{n}"
    return Workload(
        name, ((m, k), (k, n)), dtype, multiply, same(multiply), 2.0 * m * k * n,
        bytes_ * (m * k + k * n + m * n), **more,
    )  # fmt: skip


def _convolution(dtype: str, channels: int, size: int, **more: Any) -> Workload:
    images = 32
    return Workload(
        f"conv_{'tf32' if more.get('tf32') else dtype}_{channels}x{size}",
        ((images, channels, size, size), (channels, channels, 3, 3)), dtype, convolve,
        {"torch": _conv2d},
        2.0 * images * size**2 * channels**2 * 9, **more,
    )  # fmt: skip


FAST: dict[str, Any] = {"tf32": True, "options": {"numerics": "fast"}, "error": 3e-3}
WORKLOADS = (
    *(_product("bf16", n, n, n) for n in (1024, 4096, 8192)),
    *(_product("bf16", m, 4096, 14336) for m in (16, 128, 8192)),
    _product("f32", 4096, 4096, 4096, error=1e-5),
    _product("f32", 4096, 4096, 4096, **FAST),
    *(_product("f64", n, n, n, error=1e-13) for n in (1024, 4096)),
    *(_convolution("bf16", *shape) for shape in ((64, 56), (256, 14))),
    *(_convolution("f32", *shape, **FAST) for shape in ((64, 56), (256, 14))),
    _convolution("f32", 64, 56, error=1e-5),
    Workload(
        "softmax_16384x4096", ((16384, 4096),), "f32", softmax,
        {"torch": _torch_softmax, "jax": _jax_softmax}, bytes=8.0 * 16384 * 4096, error=1e-5,
    ),
    Workload(
        "chain_1e8", ((100_000_000,),), "f32", chain, {"torch": _chain_of, "jax": _jax_chain},
        bytes=8e8, error=1e-5,
    ),
    Workload(
        "sum_of_rows", ((32768, 8192),), "f32", sum_of_rows, same(sum_of_rows),
        bytes=4.0 * 32768 * 8192, error=1e-4,
    ),
    Workload(
        "sum_of_columns", ((32768, 8192),), "f32", sum_of_columns, same(sum_of_columns),
        bytes=4.0 * 32768 * 8192, error=1e-4,
    ),
    Workload(
        "running_sum", ((1 << 26,),), "f32", running_sum,
        {"torch": _torch_running_sum, "jax": _jax_running_sum}, bytes=8.0 * (1 << 26), error=1e-3,
    ),
    Workload(
        "sort", ((1 << 24,),), "f32", np.sort, {"torch": _torch_sort, "jax": _jax_sort},
        bytes=8.0 * (1 << 24), error=0.0,
    ),
    Workload(
        "attention_4x16x4096x128", ((4, 16, 4096, 128),) * 3, "bf16", attention,
        {"torch": _attend}, 4.0 * 4 * 16 * 4096**2 * 128,
    ),
)  # fmt: skip
