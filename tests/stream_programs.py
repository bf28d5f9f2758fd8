"""Attention as NumPy users write it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mlc
from mlc.dialects.dtypes import named_dtype

Array = NDArray[Any]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scores(q: Any, k: Any) -> Any:
    return (q @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))


def full(q: Any, k: Any, v: Any) -> Any:
    return softmax(scores(q, k)) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    s = scores(q, k)
    columns: int = s.shape[-1]
    i = np.arange(columns)
    return softmax(np.where(i[None, :] <= i[:, None], s, -np.inf)) @ v


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return softmax(np.where(mask, scores(q, k), -np.inf)) @ v


def barred(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return softmax(np.where(mask, scores(q, k), -1e9)) @ v


def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return softmax(scores(q, k) + bias) @ v


def grouped(q: Any, k: Any, v: Any) -> Any:
    s = np.einsum("bhgmd,bhnd->bhgmn", q, k) * (1 / math.sqrt(q.shape[-1]))
    return np.einsum("bhgmn,bhnd->bhgmd", softmax(s), v)


def grouped_causal(q: Any, k: Any, v: Any) -> Any:
    s = np.einsum("bhgmd,bhnd->bhgmn", q, k) * (1 / math.sqrt(q.shape[-1]))
    columns: int = s.shape[-1]
    i = np.arange(columns)
    s = np.where(i[None, :] <= i[:, None], s, -np.inf)
    return np.einsum("bhgmn,bhnd->bhgmd", softmax(s), v)


def repeated(q: Any, k: Any, v: Any) -> Any:
    """Heads of keys and values for several of queries', as many write it."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    return full(q, k, v)


def heads_last(q: Any, k: Any, v: Any) -> Any:
    s = np.einsum("bmhd,bnhd->bhmn", q, k) * (1 / math.sqrt(q.shape[-1]))
    return np.einsum("bhmn,bnhd->bmhd", softmax(s), v)


def scaled_when_run(q: Any, k: Any, v: Any, n: Any) -> Any:
    return softmax((q @ np.swapaxes(k, -1, -2)) * (1 / np.sqrt(1 + n * n))) @ v


def divided(q: Any, k: Any, v: Any) -> Any:
    return softmax((q @ np.swapaxes(k, -1, -2)) / math.sqrt(q.shape[-1])) @ v


def divided_late(q: Any, k: Any, v: Any) -> Any:
    s = scores(q, k)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e @ v) / e.sum(-1, keepdims=True)


def wide(q: Any, k: Any, v: Any) -> Any:
    s = (q @ np.swapaxes(k, -1, -2)).astype(np.float32) / math.sqrt(q.shape[-1])
    columns: int = s.shape[-1]
    i = np.arange(columns)
    return softmax(np.where(i[None, :] <= i[:, None], s, -np.inf)).astype(v.dtype) @ v


HEADS, DEPTH = 2, 64


def of_one_product(x: Any) -> Any:
    """Of queries, keys and values side by side: (B, N, 3 H D)."""
    parts = x.reshape(*x.shape[:2], 3, HEADS, DEPTH)
    q, k, v = np.transpose(parts, (2, 0, 3, 1, 4))
    return np.swapaxes(causal(q, k, v), 1, 2).reshape(*x.shape[:2], HEADS * DEPTH)


def split_in_three(x: Any) -> Any:
    """The same, as others write it."""
    parts = (y.reshape(*x.shape[:2], HEADS, DEPTH) for y in np.split(x, 3, axis=-1))
    return np.swapaxes(full(*(np.swapaxes(y, 1, 2) for y in parts)), 1, 2)


def with_keys_of_all(x: Any) -> Any:
    """Heads of queries, and keys and values that all of them share."""
    q = x[..., : HEADS * DEPTH].reshape(*x.shape[:2], HEADS, DEPTH)
    k, v = x[..., HEADS * DEPTH : -DEPTH], x[..., -DEPTH:]
    s = np.einsum("bmhd,bnd->bhmn", q, k) * (1 / math.sqrt(DEPTH))
    return np.einsum("bhmn,bnd->bmhd", softmax(s), v)


def of_a_cache(q: Any, kv: Any) -> Any:
    """Keys and values of the heads but the first: (2, B, H + 1, N, D)."""
    return full(q, kv[0, :, 1:], kv[1, :, 1:])


def with_gradient(f: Any, count: int = 3) -> Any:
    """A function of its arguments and a cotangent: its result, and those of the first ones."""

    def both(*arguments: Any) -> Any:
        first, others, g = arguments[:count], arguments[count:-1], arguments[-1]
        result, pull = mlc.vjp(lambda *given: f(*given, *others), *first)
        return result, *pull(g)

    return both


@dataclass(frozen=True)
class Attention:
    """A function of arrays of these shapes; the first ones, its `factors`, are of one dtype."""

    f: Any
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "bf16"

    @property
    def factors(self) -> int:
        """Arguments that queries, keys and values are of."""
        return min(3, len(self.shapes))

    def __str__(self) -> str:
        return f"{self.f.__name__} {'x'.join(map(str, self.shapes[0]))} {self.dtype}"

    def dtypes(self) -> list[str]:
        """Of all arrays."""
        return [self.dtype] * self.factors + [
            "bool" if self.f in (masked, barred) else self.dtype
        ] * (len(self.shapes) - self.factors)

    def arrays(self) -> list[Array]:
        """Random ones; of a mask one row has nothing."""
        rng = np.random.default_rng(7)
        found: list[Array] = []
        for shape, dtype in zip(self.shapes, self.dtypes(), strict=True):
            if dtype == "bool":
                mask = rng.random(shape) < 0.5
                mask[..., 5, :] = False
                found.append(mask)
            else:
                found.append(rng.standard_normal(shape).astype(named_dtype(dtype).numpy))
        return found

    def expected(self, arrays: list[Array]) -> Array:
        """In f32."""
        with np.errstate(invalid="ignore"):
            return self.f(*(x if x.dtype == bool else x.astype(np.float32) for x in arrays))


def same(f: Any, *shape: int, dtype: str = "bf16") -> Attention:
    """Of three arrays of one shape."""
    return Attention(f, (shape,) * 3, dtype)


def attention(f: Any, rows: int, depth: int, dtype: str) -> Attention:
    """A function of the usual batch, with as many columns as rows."""
    one = (2, 4, rows, depth)
    if f in (grouped, grouped_causal):
        return Attention(f, ((2, 4, 4, rows, depth), one, one), dtype)
    more = {masked: ((rows, rows),), barred: ((rows, rows),), biased: ((4, rows, rows),)}
    return Attention(f, (*(one,) * 3, *more.get(f, ())), dtype)


PROGRAMS = [
    same(full, 1, 2, 200, 64),
    same(full, 140, 128, dtype="f16"),
    same(causal, 2, 1, 256, 64),
    same(causal, 1, 2, 140, 256),
    Attention(full, ((2, 100, 64), (2, 150, 64), (2, 150, 128))),
    Attention(masked, (*((2, 2, 130, 64),) * 3, (130, 130))),
    Attention(barred, (*((2, 2, 130, 64),) * 3, (130, 130))),
    Attention(biased, (*((2, 2, 130, 64),) * 3, (2, 130, 130))),
    Attention(grouped, ((1, 2, 2, 130, 64), (1, 2, 130, 64), (1, 2, 130, 64))),
    same(heads_last, 2, 130, 3, 64),
    same(divided_late, 2, 130, 64),
    same(divided, 2, 130, 64),
    same(wide, 2, 130, 64),
    Attention(scaled_when_run, (*((2, 130, 64),) * 3, ())),
]

PARTS = [
    Attention(of_one_product, ((2, 130, 3 * HEADS * DEPTH),)),
    Attention(split_in_three, ((2, 130, 3 * HEADS * DEPTH),), "f16"),
    Attention(with_keys_of_all, ((2, 130, (HEADS + 2) * DEPTH),)),
    Attention(of_a_cache, ((2, 2, 130, 64), (2, 2, 3, 150, 64))),
]
"""Of which factors are parts of arrays, which are read where they lie."""

GRADIENTS = [
    same(full, 1, 2, 200, 64),
    same(full, 140, 128, dtype="f16"),
    same(causal, 2, 1, 256, 64),
    same(causal, 3, 320, 128),
    same(causal, 2, 130, 64),
    same(full, 2, 300, 256),
    same(causal, 1, 320, 256),
    Attention(biased, (*((2, 2, 130, 64),) * 3, (2, 130, 130))),
    Attention(grouped, ((1, 2, 2, 130, 64), (1, 2, 130, 64), (1, 2, 130, 64))),
    Attention(grouped, ((1, 2, 3, 192, 128), (1, 2, 192, 128), (1, 2, 192, 128))),
    Attention(grouped_causal, ((1, 2, 2, 200, 64), (1, 2, 200, 64), (1, 2, 200, 64))),
    same(heads_last, 2, 130, 3, 64),
    same(divided, 2, 130, 64),
    same(wide, 2, 130, 64),
    same(wide, 2, 256, 128, dtype="f16"),
    Attention(scaled_when_run, (*((2, 130, 64),) * 3, ())),
]
"""Of which the gradient is streams too."""


def cotangent(program: Attention) -> Array:
    """Of the result."""
    shape = program.expected(program.arrays()).shape
    return np.random.default_rng(3).standard_normal(shape).astype(named_dtype(program.dtype).numpy)


def check_gradient(program: Attention, found: Any) -> None:
    """The result and three gradients, against those in f32 on this machine's processor."""
    arrays = [*program.arrays(), cotangent(program)]
    wide = [x if x.dtype == bool else x.astype(np.float32) for x in arrays]
    expected: Any = mlc.compile(with_gradient(program.f, program.factors))(*wide)
    for mine, theirs in zip(found, expected, strict=True):
        largest = np.abs(theirs).max()
        difference = np.abs(mine.astype(np.float32) - theirs).max()
        assert difference <= 0.01 * largest
