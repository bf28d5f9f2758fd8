"""The programs of `benchmarks.first_calls`, each for NumPy's names under mlc or under JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Maker = Callable[[Any, Any], tuple[Callable[..., Any], tuple[Any, ...]]]
"""(NumPy's names, `value_and_grad`) -> a function and its arguments."""

_rng = np.random.default_rng(5)


def _draw(*shape: int, scale: float = 1.0) -> Any:
    return (scale * _rng.standard_normal(shape)).astype(np.float32)


def small(xp: Any, _: Any) -> Any:
    """Elementwise."""

    def run(x: Any) -> Any:
        return x + x * x

    return run, (_draw(256, 64),)


def layer(xp: Any, _: Any) -> Any:
    """A layer of a perceptron."""

    def run(x: Any, w: Any, b: Any) -> Any:
        return xp.tanh(x @ w + b)

    return run, (_draw(256, 64), _draw(64, 64), _draw(64))


def mlp_step(xp: Any, value_and_grad: Any) -> Any:
    """A training step of a perceptron of three layers."""
    p: dict[str, Any] = {}
    for k, (rows, columns) in enumerate(((64, 256), (256, 256), (256, 10))):
        p |= {f"w{k}": _draw(rows, columns, scale=0.1), f"b{k}": _draw(columns)}

    def loss(p: Any, x: Any, y: Any) -> Any:
        for k in range(2):
            x = xp.maximum(x @ p[f"w{k}"] + p[f"b{k}"], 0)
        z = x @ p["w2"] + p["b2"]
        z = z - z.max(axis=1, keepdims=True)
        return (xp.log(xp.exp(z).sum(axis=1)) - (z * y).sum(axis=1)).mean()

    def step(p: Any, x: Any, y: Any) -> Any:
        value, g = value_and_grad(loss)(p, x, y)
        return value, {name: p[name] - 0.1 * g[name] for name in p}

    y = np.eye(10, dtype=np.float32)[_rng.integers(10, size=128)]
    return step, (p, _draw(128, 64), y)


def _blocks(count: int) -> Maker:
    def maker(xp: Any, value_and_grad: Any) -> Any:
        heads, width, rows = 4, 256, 128
        scale = width**-0.5

        def parameters() -> dict[str, Any]:
            p = {name: _draw(width, width, scale=scale) for name in ("wq", "wk", "wv", "wo")}
            p |= {"w1": _draw(width, 4 * width, scale=scale), "b1": _draw(4 * width, scale=scale)}
            p |= {"w2": _draw(4 * width, width, scale=scale / 2), "b2": _draw(width, scale=scale)}
            p |= {name: 1 + _draw(width, scale=0.1) for name in ("g1", "g2")}
            return p | {name: _draw(width, scale=0.1) for name in ("o1", "o2")}

        def norm(x: Any, g: Any, o: Any) -> Any:
            x = x - x.mean(axis=-1, keepdims=True)
            return x / xp.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * g + o

        def block(p: Any, x: Any, mask: Any) -> Any:
            h = norm(x, p["g1"], p["o1"])
            q, k, v = (
                xp.moveaxis((h @ p[n]).reshape(rows, heads, width // heads), 1, 0)
                for n in ("wq", "wk", "wv")
            )
            s = xp.where(mask, q @ xp.swapaxes(k, 1, 2) * (width // heads) ** -0.5, -1e30)
            e = xp.exp(s - s.max(axis=-1, keepdims=True))
            mixed = (e / e.sum(axis=-1, keepdims=True)) @ v
            x = x + xp.moveaxis(mixed, 0, 1).reshape(rows, width) @ p["wo"]
            h = norm(x, p["g2"], p["o2"]) @ p["w1"] + p["b1"]
            h = 0.5 * h * (1 + xp.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
            return x + h @ p["w2"] + p["b2"]

        def loss(ps: Any, x: Any, y: Any) -> Any:
            mask = xp.tril(xp.ones((rows, rows), dtype=bool))
            for p in ps:
                x = block(p, x, mask)
            return ((x - y) ** 2).mean()

        def step(ps: Any, x: Any, y: Any) -> Any:
            value, gs = value_and_grad(loss)(ps, x, y)
            return value, [
                {name: p[name] - 0.01 * g[name] for name in p} for p, g in zip(ps, gs, strict=True)
            ]

        return step, ([parameters() for _ in range(count)], _draw(rows, width), _draw(rows, width))

    return maker


def _kalman(steps: int) -> Maker:
    def maker(xp: Any, _: Any) -> Any:
        def run(f: Any, h: Any, q: Any, r: Any, x: Any, p: Any, zs: Any) -> Any:
            for k in range(steps):
                x = f @ x
                p = f @ p @ f.T + q
                s = h @ p @ h.T + r
                g = p @ h.T / s
                x = x + g @ (zs[k] - h @ x)
                p = p - g @ h @ p
            return x, p

        f = (np.eye(4) + 0.1 * np.eye(4, k=2)).astype(np.float32)
        h, eye = np.eye(1, 4, dtype=np.float32), np.eye(4, dtype=np.float32)
        return run, (f, h, eye * 0.01, np.ones((1, 1), np.float32), _draw(4), eye, _draw(50, 1))

    return maker


def _lorenz(steps: int) -> Maker:
    def maker(xp: Any, _: Any) -> Any:
        def run(x: Any, y: Any, z: Any) -> Any:
            for _ in range(steps):
                dx, dy, dz = 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z
                x, y, z = x + 0.01 * dx, y + 0.01 * dy, z + 0.01 * dz
            return x, y, z

        return run, (_draw(1000), _draw(1000), _draw(1000))

    return maker


def _heat(steps: int) -> Maker:
    def maker(xp: Any, _: Any) -> Any:
        def run(u: Any) -> Any:
            for _ in range(steps):
                inner = u[2:] + u[:-2] - 2.0 * u[1:-1]
                u = xp.concatenate([u[:1], u[1:-1] + 0.1 * inner, u[-1:]])
            return u

        return run, (_draw(1000),)

    return maker


def _convolutions(steps: int) -> Maker:
    def maker(xp: Any, _: Any) -> Any:
        def run(u: Any, w: Any) -> Any:
            for _ in range(steps):
                v = xp.pad(u, 1)
                u = sum(w[i, j] * v[i : i + 64, j : j + 64] for i in range(3) for j in range(3))
            return u

        return run, (_draw(64, 64), _draw(3, 3, scale=0.3))

    return maker


CASES: Mapping[str, Maker] = {
    "x + x * x": small,
    "tanh(x @ w + b)": layer,
    "perceptron, training step": mlp_step,
    "GPT-2 block, training step": _blocks(1),
    "12 blocks, training step": _blocks(12),
    "50 Kalman steps": _kalman(50),
    "200 Lorenz steps": _lorenz(200),
    "100 heat steps": _heat(100),
    "50 convolutions": _convolutions(50),
}
