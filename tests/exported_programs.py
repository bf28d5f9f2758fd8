# pyright: basic
"""Functions whose StableHLO other compilers run as well: tests/test_stablehlo_export.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mlc

_random = np.random.default_rng(7)


def f32(*shape: int) -> Any:
    return _random.standard_normal(shape).astype(np.float32)


A, B, V = f32(4, 6), f32(6, 3), f32(6)
S = f32(4, 4)
N = np.array([[3, -1, 2], [0, 7, -5]], np.int32)
I = np.array([2, 0, 3, -1])  # noqa: E741
BITS = A > 0
SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 0.5], np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def network(x: Any, w: Any) -> Any:
    return softmax(np.maximum(x @ w, 0) + np.tanh(x @ w))


def loss(w: Any, x: Any) -> Any:
    return (np.tanh(x @ w) ** 2).sum() + np.log1p(np.exp(x @ w)).mean()


def bent(x: Any) -> Any:
    return mlc.grad(lambda x: (np.sin(x) * x).sum())(x).sum()


def power_iteration(x: Any) -> Any:
    v = np.ones(4, np.float32)
    for _ in range(20):
        v = x @ v
        v = v / np.sqrt((v * v).sum())
    return v


def collatz(n: Any) -> Any:
    def goes_on(state: Any) -> Any:
        return state[0] != 1

    def trip(state: Any) -> Any:
        n, k = state
        return np.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1

    return mlc.while_loop(goes_on, trip, (n, 0))[1]


def branches(x: Any) -> Any:
    return mlc.cond(x.sum() > 0, lambda: np.sin(x), lambda: x * x)


def recurrent(x: Any, w: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = np.tanh(row @ w[:, :3] + h)
        return h, h.sum()

    return mlc.scan(step, np.zeros(3, np.float32), x)


def scattered(x: Any, i: Any, v: Any) -> Any:
    y = x.copy()
    y[i] = v
    z = np.zeros_like(x)
    np.add.at(z, i, v)
    return y, z


def taken(x: Any, i: Any) -> Any:
    return x[i], x[:, i], np.take_along_axis(x, i[:, None], 1), x[i, i]


def placed(x: Any) -> Any:
    return (
        np.pad(x, ((1, 2), (0, 1)), constant_values=3),
        np.concatenate([x, x[::-1]], 1),
        x[1:, ::2],
    )


def convolved(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, stride=(2, 1), padding=((1, 1), (0, 2)), dilation=(1, 2))


def grouped(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, groups=2)


def pooled(x: Any) -> Any:
    return mlc.nn.max_pool(x, 2), mlc.nn.avg_pool(x, (3, 2), stride=(2, 2))


def orders(x: Any) -> Any:
    return np.sort(x, 1), np.argsort(x, 0, kind="stable"), np.partition(x, 2, 1)[:, :2].max(1)


def random_bits(x: Any) -> Any:
    return mlc.random.uniform(mlc.random.key(3), (5,)) + x[0, :5]


def picked(x: Any) -> Any:
    return np.argmax(x, 1), np.argmin(x, 0), np.any(x > 1, 1), np.all(x < 3), x.prod(1), np.ptp(x)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "network": (network, [A, B]),
    "gradient": (mlc.grad(loss), [B, A]),
    "second derivative": (mlc.grad(bent), [V]),
    "batched": (mlc.vmap(lambda r, w: np.exp(r @ w), in_axes=(0, None)), [A, B]),
    "power iteration": (power_iteration, [S]),
    "collatz": (collatz, [np.int64(27)]),
    "branches": (branches, [A]),
    "recurrent": (recurrent, [A, B]),
    "gradient of a recurrence": (mlc.grad(lambda w, x: recurrent(x, w)[1].sum()), [B, A]),
    "scattered": (scattered, [A, I[:3], f32(3, 6)]),
    "taken": (taken, [S, I]),
    "placed": (placed, [A]),
    "convolved": (convolved, [f32(2, 3, 7, 8), f32(5, 3, 3, 2)]),
    "gradient of a convolution": (
        mlc.grad(lambda w, x: (convolved(x, w) ** 2).sum()), [f32(5, 3, 3, 2), f32(2, 3, 7, 8)],
    ),
    "grouped convolution": (grouped, [f32(1, 4, 5, 5), f32(6, 2, 2, 2)]),
    "pooled": (pooled, [f32(1, 2, 6, 6)]),
    "gradient of pools": (mlc.grad(lambda x: (pooled(x)[0] ** 2).sum()), [f32(1, 2, 6, 6)]),
    "orders": (orders, [A]),
    "picked": (picked, [A]),
    "random bits": (random_bits, [A]),
    "running": (lambda x: (np.cumsum(x, 1), np.cumprod(x, 0), np.maximum.accumulate(x, 1)), [A]),
    "searched": (lambda x, v: np.searchsorted(np.sort(x), v), [V, A]),
    "einsum": (lambda x, y: (np.einsum("ij,jk->ki", x, y), np.einsum("ij,ij->i", x, x)), [A, B]),
    "outer": (lambda x: np.einsum("i,j->ij", x, x) + np.diag(x), [V]),
    "exponentials": (
        lambda x: (np.exp(x), np.exp2(x), np.expm1(x), np.log2(abs(x) + 1), np.log10(abs(x) + 1)),
        [A],
    ),
    "trigonometry": (
        lambda x: (np.sin(x), np.cos(x), np.tan(x), np.arctan(x), np.sinh(x), np.arcsinh(x)), [A],
    ),
    "inverse trigonometry": (
        lambda x: (np.arcsin(x / 9), np.arccos(x / 9), np.arctanh(x / 9), np.arccosh(x * x + 1)),
        [A],
    ),
    "roots": (lambda x: (np.sqrt(abs(x)), np.cbrt(x), np.hypot(x, 2 * x), 1 / np.sqrt(x * x)), [A]),
    "rounded": (
        lambda x: (np.floor(x), np.ceil(x), np.rint(x), np.trunc(x), np.sign(x), np.abs(x)),
        [SPECIAL],
    ),
    "classified": (
        lambda x: (np.isnan(x), np.isinf(x), np.isfinite(x), np.signbit(x), np.copysign(1.0, x)),
        [SPECIAL],
    ),
    "compared": (
        lambda x: (x < 1, x == 0, x != x, np.maximum(x, 1), np.fmax(x, 1), np.clip(x, -1, 1)),
        [SPECIAL],
    ),
    "next": (lambda x: np.nextafter(x, np.float32(2)), [SPECIAL]),
    "integers": (lambda n: (n // 3, n % 3, np.abs(n), n**2, n << 2, n >> 1, n & 6, n ^ 5, ~n), [N]),
    "unsigned": (
        lambda n: (n // 3, n % 5, n >> 1, np.maximum(n, 9), n * 7), [N.astype(np.uint32)],
    ),
    "small integers": (lambda n: (n + n, n * n, n // 2, n.sum()), [N.astype(np.int8)]),
    "bits": (lambda b: (b & ~b, b | b, b ^ True, b.sum(), np.where(b, 1, 2)), [BITS]),
    "products of bits": (lambda b: b @ b.T, [BITS]),
    "converted": (
        lambda x: (x.astype(np.int32), x.astype(np.float64), x.astype(bool), x.astype(np.float16)),
        [A],
    ),
    "half": (lambda x: (x @ x.T, x.sum(1), np.exp(x)), [A.astype(np.float16)]),
    "double": (lambda x: (x @ x.T, np.tanh(x), x.var()), [A.astype(np.float64)]),
    "complex": (
        lambda x: (x * x, np.abs(x), np.conj(x), x.real, np.exp(x), x / (x + 3)),
        [A + 1j * A[::-1]],
    ),
    "constants": (lambda x: x + np.arange(24, dtype=np.float32).reshape(4, 6) ** 2, [A]),
    "moments": (lambda x: (x.mean(0), x.std(1), np.median(x, 1), np.linalg.norm(x)), [A]),
    "special constants": (lambda x: np.where(x > 0, np.float32(np.inf), np.float32(-0.0)), [A]),
}  # fmt: skip
