"""What memory bounds: rows, elementwise chains, sums, a transposition, a scan and a sort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.gpu.workload import Array, Function, Group, Workload, same


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _torch_softmax(torch: Any, x: Any) -> Any:
    return torch.softmax(x, -1)


def _jax_softmax(jax: Any, x: Any) -> Any:
    return jax.nn.softmax(x, -1)


def _triton_softmax(kernels: Any, x: Any) -> Any:
    return kernels.softmax(x)


def _norm(library: Any, x: Any, scale: Any, shift: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred / library.sqrt(variance + 1e-5) * scale + shift


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return _norm(np, x, scale, shift)


def torch_layer_norm(torch: Any, x: Any, scale: Any, shift: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], scale, shift)


def jax_layer_norm(jax: Any, x: Any, scale: Any, shift: Any) -> Any:
    return _norm(jax.numpy, x, scale, shift)


def add_multiply_add(a: Any, b: Any, c: Any, d: Any) -> Any:
    return d + (a + b) * c


def _triton_add_multiply_add(kernels: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return kernels.add_multiply_add(a, b, c, d)


def _chain_of(f: Any, x: Any) -> Any:
    return f.tanh(x) * f.exp(-x * x) + f.log1p(x * x)


def chain(x: Any) -> Any:
    return _chain_of(np, x)


def _jax_chain(jax: Any, x: Any) -> Any:
    return _chain_of(jax.numpy, x)


def _triton_chain(kernels: Any, x: Any) -> Any:
    return kernels.chain(x)


def sum_of_rows(x: Any) -> Any:
    return x.sum(axis=1)


def sum_of_columns(x: Any) -> Any:
    return x.sum(axis=0)


def transpose(x: Any) -> Any:
    return x.T + 0


def _torch_transpose(torch: Any, x: Any) -> Any:
    return x.T.contiguous()


def _jax_transpose(jax: Any, x: Any) -> Any:
    return transpose(x)


def running_sum(x: Any) -> Any:
    return np.cumsum(x)


def _torch_running_sum(torch: Any, x: Any) -> Any:
    return x.cumsum(0)


def _jax_running_sum(jax: Any, x: Any) -> Any:
    return jax.numpy.cumsum(x)


def _torch_sort(torch: Any, x: Any) -> Any:
    return x.sort().values


def _jax_sort(jax: Any, x: Any) -> Any:
    return jax.numpy.sort(x)


CHAIN: Mapping[str, Function] = {
    "torch": _chain_of, "jax": _jax_chain, "triton": _triton_chain,
}  # fmt: skip
SOFTMAX: Mapping[str, Function] = {
    "torch": _torch_softmax, "jax": _jax_softmax, "triton": _triton_softmax,
}  # fmt: skip


def _workload(
    name: str, shape: tuple[int, ...], f: Function, words: Mapping[str, Function], **more: Any
) -> Workload:
    """Of one array of f32, read once and written once where `bytes` does not say otherwise."""
    sizes = "x".join(map(str, shape))
    more = {"bytes": 8.0 * np.prod(shape), "error": 1e-5, **more}
    return Workload(f"{name}_{sizes}", (Array(shape, "f32"),), f, words, **more)


def _softmax(*shape: int) -> Workload:
    return _workload("softmax", shape, softmax, SOFTMAX)


def _layer_norm(m: int, n: int) -> Workload:
    return Workload(
        f"layer_norm_{m}x{n}", (Array((m, n), "f32"), Array((n,), "f32"), Array((n,), "f32")),
        layer_norm, {"torch": torch_layer_norm, "jax": jax_layer_norm}, bytes=8.0 * m * n,
        error=1e-5,
    )  # fmt: skip


def _elementwise(n: int) -> tuple[Workload, ...]:
    return (
        Workload(
            f"add_multiply_add_{n}", (Array((n,), "f32"),) * 4, add_multiply_add,
            {**same(add_multiply_add), "triton": _triton_add_multiply_add}, bytes=20.0 * n,
            error=1e-6,
        ),
        _workload("chain", (n,), chain, CHAIN),
    )  # fmt: skip


def _sums(m: int, n: int) -> tuple[Workload, ...]:
    return tuple(
        _workload(f.__name__, (m, n), f, same(f), bytes=4.0 * m * n)
        for f in (sum_of_columns, sum_of_rows)
    )


def _transpose(n: int) -> Workload:
    words = {"torch": _torch_transpose, "jax": _jax_transpose}
    return _workload("transpose", (n, n), transpose, words, error=0.0)


def _scan_and_sort(scanned: int, sorted_: int) -> tuple[Workload, ...]:
    scan = {"torch": _torch_running_sum, "jax": _jax_running_sum}
    sort = {"torch": _torch_sort, "jax": _jax_sort}
    return (
        _workload("running_sum", (scanned,), running_sum, scan, error=1e-3),
        _workload("sort", (sorted_,), np.sort, sort, error=0.0),
    )


GROUPS = (
    Group("softmax", (_softmax(16384, 4096), _softmax(256, 131072)), (_softmax(6, 40),)),
    Group("layer_norm", (_layer_norm(16384, 4096),), (_layer_norm(6, 40),)),
    Group("elementwise", _elementwise(200_000_000), _elementwise(1000)),
    Group("sums", _sums(32768, 8192), _sums(24, 40)),
    Group("transpose", (_transpose(16384),), (_transpose(24),)),
    Group("scan_and_sort", _scan_and_sort(1 << 26, 1 << 24), _scan_and_sort(1000, 1000)),
)
