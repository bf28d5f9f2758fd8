"""Products and convolutions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mlc
from benchmarks.gpu.workload import ITEM_BYTES, Array, Group, Workload, same


def multiply(a: Any, b: Any) -> Any:
    return a @ b


def multiply_nt(a: Any, b: Any) -> Any:
    return a @ b.T


def multiply_tn(a: Any, b: Any) -> Any:
    return a.T @ b


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def linear_gelu(x: Any, w: Any, b: Any) -> Any:
    return gelu(x @ w + b)


def _torch_linear_gelu(torch: Any, x: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.gelu(x @ w + b, approximate="tanh")


def _jax_linear_gelu(jax: Any, x: Any, w: Any, b: Any) -> Any:
    return jax.nn.gelu(x @ w + b, approximate=True)


def _triton_product(kernels: Any, a: Any, b: Any) -> Any:
    return kernels.product(a, b)


def _triton_product_nt(kernels: Any, a: Any, b: Any) -> Any:
    return kernels.product(a, b.T)


def _triton_product_tn(kernels: Any, a: Any, b: Any) -> Any:
    return kernels.product(a.T, b)


def convolve(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, padding=1)


def _torch_convolve(torch: Any, x: Any, w: Any) -> Any:
    return torch.nn.functional.conv2d(x, w, padding=1)


WAYS = {
    "nn": (multiply, _triton_product),
    "nt": (multiply_nt, _triton_product_nt),
    "tn": (multiply_tn, _triton_product_tn),
}


def product(
    dtype: str, m: int, k: int, n: int, way: str = "nn", batch: tuple[int, ...] = (), **more: Any
) -> Workload:
    """out[…, m, n] = sum_k a[…, m, k] b[…, k, n]; `way`: which factor lies transposed."""
    f, triton = WAYS[way]
    a, b = ((k, m) if way == "tn" else (m, k)), ((n, k) if way == "nt" else (k, n))
    kind = "tf32" if more.get("tf32") else dtype
    sizes = "x".join(map(str, (*batch, m, k, n)))
    words = same(f)
    if dtype == "bf16" and not batch:
        words["triton"] = triton
    return Workload(
        f"matmul_{kind}_{'' if way == 'nn' else way + '_'}{sizes}",
        (Array((*batch, *a), dtype), Array((*batch, *b), dtype)), f, words,
        flops=2.0 * prod(batch) * m * k * n,
        bytes=float(ITEM_BYTES[dtype] * prod(batch) * (m * k + k * n + m * n)), **more,
    )  # fmt: skip


def linear(m: int, k: int, n: int) -> Workload:
    """gelu(x w + b). x: (M, K), w: (K, N), b: (N,)."""
    return Workload(
        f"linear_gelu_{m}x{k}x{n}", (Array((m, k)), Array((k, n), scale=0.02), Array((n,))),
        linear_gelu, {"torch": _torch_linear_gelu, "jax": _jax_linear_gelu}, 2.0 * m * k * n,
    )  # fmt: skip


def convolution(dtype: str, channels: int, size: int, images: int = 32, **more: Any) -> Workload:
    """Windows of 3 by 3, of as many channels as come out."""
    return Workload(
        f"conv_{'tf32' if more.get('tf32') else dtype}_{channels}x{size}",
        (
            Array((images, channels, size, size), dtype),
            Array((channels, channels, 3, 3), dtype),
        ), convolve, {"torch": _torch_convolve}, 2.0 * images * size**2 * channels**2 * 9, **more,
    )  # fmt: skip


SQUARES = (1024, 2048, 4096, 8192, 16384)
ROWS = (16, 128, 1024, 8192)
PROJECTIONS = ((4096, 14336), (14336, 4096), (4096, 4096))
FAST: dict[str, Any] = {"tf32": True, "options": {"numerics": "fast"}, "error": 3e-3}

GROUPS = (
    Group(
        "contractions",
        (
            *(product("bf16", n, n, n) for n in SQUARES),
            *(product("bf16", m, k, n) for m in ROWS for k, n in PROJECTIONS),
            *(product("bf16", 4096, 4096, 4096, way) for way in ("nt", "tn")),
            product("bf16", 1024, 1024, 1024, batch=(64,)),
        ),
        (
            *(product("bf16", 24, 40, 16, way) for way in WAYS),
            product("bf16", 16, 24, 8, batch=(3,)),
        ),
    ),
    Group("linear_gelu", (linear(8192, 4096, 14336),), (linear(24, 40, 16),)),
    Group(
        "f32", (product("f32", 4096, 4096, 4096, error=1e-5),),
        (product("f32", 24, 40, 16, error=1e-5),),
    ),
    Group("tf32", (product("f32", 4096, 4096, 4096, **FAST),), ()),
    Group(
        "f64", tuple(product("f64", n, n, n, error=1e-13) for n in (1024, 4096)),
        (product("f64", 24, 40, 16, error=1e-13),),
    ),
    Group(
        "convolutions",
        (
            *(convolution("bf16", *shape) for shape in ((64, 56), (256, 14))),
            *(convolution("f32", *shape, **FAST) for shape in ((64, 56), (256, 14))),
            convolution("f32", 64, 56, error=1e-5),
        ), (),
    ),
)  # fmt: skip
