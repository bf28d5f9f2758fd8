"""Functions that walk their rows several times, whose kernels may read them once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mlc.dialects.dtypes import named_dtype

Array = Any


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Array, g: Array, b: Array) -> Array:
    mu = x.mean(-1, keepdims=True)
    v = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(v + 1e-5) * g + b


def residual_norm(x: Array, y: Array, g: Array) -> tuple[Array, Array]:
    z = x + y
    return z, z / np.sqrt((z * z).mean(-1, keepdims=True) + 1e-5) * g


def statistics(x: Array) -> tuple[Array, Array, Array]:
    m = x.max(-1)
    e = np.exp(x - m[..., None])
    s = e.sum(-1, keepdims=True)
    return m, e / s, s


def cross_entropy(x: Array, labels: Array) -> Array:
    m = x.max(-1)
    s = np.log(np.exp(x - m[:, None]).sum(-1)) + m
    return s - x[np.arange(x.shape[0]), labels]


def softmax_backward(p: Array, g: Array) -> Array:
    return p * (g - (p * g).sum(-1, keepdims=True))


def rounded(x: Array) -> Array:
    y = (x - x.max(-1, keepdims=True)).astype("float16").astype("float32")
    return y / y.sum(-1, keepdims=True)


def results_of(found: Any) -> list[Array]:
    """What a function gives, one or several."""
    return [*cast("tuple[Any, ...]", found)] if isinstance(found, tuple) else [found]


@dataclass(frozen=True)
class Rows:
    """A function, the shapes of its arguments, and of the first ones the dtype."""

    f: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "f32"
    integers: int = 0  # of the last arguments, below so many

    def arrays(self, rng: np.random.Generator) -> list[Array]:
        """Arguments."""
        kind, count = named_dtype(self.dtype).numpy, len(self.shapes) - self.integers
        found = [rng.standard_normal(s).astype(kind) for s in self.shapes[:count]]
        return found + [rng.integers(0, 100, s) for s in self.shapes[count:]]

    def expected(self, arrays: list[Array]) -> list[tuple[Array, float]]:
        """Results in f32, and how close to each one must be."""
        count = len(self.shapes) - self.integers
        wide = [x.astype(np.float64) if k < count else x for k, x in enumerate(arrays)]
        found: Any = self.f(*wide)
        long = self.shapes[0][-1] > 1 << 16  # so that sums in f32 are less exact
        close = {"f32": 2e-4 if long else 1e-5, "f16": 4e-3, "bf16": 3e-2}[self.dtype]
        return [(x, close) for x in results_of(found)]

    def __str__(self) -> str:
        sizes = ",".join("x".join(map(str, s)) for s in self.shapes[:1])
        return f"{self.f.__name__} {sizes} {self.dtype}"


PROGRAMS = [
    Rows(softmax, ((16, 4096),)),
    Rows(softmax, ((5, 1000),)),
    Rows(softmax, ((300, 37),)),
    Rows(softmax, ((9, 8),)),
    Rows(softmax, ((2, 3, 33, 64),), "bf16"),
    Rows(softmax, ((3, 32768),)),
    Rows(softmax, ((2, 131072),)),
    Rows(softmax, ((2, 131072),), "bf16"),
    Rows(layer_norm, ((2, 100000), (100000,), (100000,))),
    Rows(layer_norm, ((33, 4096), (4096,), (4096,))),
    Rows(layer_norm, ((4, 9, 768), (768,), (768,)), "bf16"),
    Rows(layer_norm, ((7, 100), (100,), (100,)), "f16"),
    Rows(residual_norm, ((8, 16, 768), (8, 16, 768), (768,)), "bf16"),
    Rows(residual_norm, ((19, 2000), (19, 2000), (2000,))),
    Rows(statistics, ((4, 9, 1000),)),
    Rows(cross_entropy, ((64, 5000), (64,)), integers=1),
    Rows(softmax_backward, ((12, 513), (12, 513))),
    Rows(rounded, ((12, 512),)),
]
