"""Values larger than a cache, and than all arguments and results, are stored on no processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.levels import Levels
from tests.plans import RUNNABLE, planned, spec

nn: Any = mlc.nn
Program = Callable[..., Any]
MIB = 2**20


def square(f: Program) -> Program:
    return lambda *x: (f(*x) ** 2).sum()


def attention(q: Any, k: Any, v: Any) -> Any:
    """As one writes it with NumPy."""
    scores = q @ k.T / np.float32(8)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T / np.float32(8)
    scores = np.where(np.tri(len(q), dtype=bool), scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def energy(x: Any, m: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return -(m[:, None] * m[None, :] / np.sqrt((d * d).sum(axis=-1) + np.float32(0.1))).sum()


def distances(x: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return np.sqrt((d * d).sum(axis=-1) + np.float32(0.001)).sum()


def radial(x: Any, y: Any, b: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return np.exp(-(d * d).sum(axis=-1)) @ b


def gram(x: Any, y: Any, b: Any) -> Any:
    d = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2 * (x @ y.T)
    return np.exp(-d) @ b


def clusters(x: Any, c: Any) -> Any:
    """k-means: the distances to the nearest centres."""
    return ((x[:, None, :] - c[None, :, :]) ** 2).sum(axis=-1).min(axis=1).sum()


def contrast(a: Any, b: Any) -> Any:
    """The logarithm of a softmax over all pairs, at the diagonal."""
    return (nn.logsumexp(a @ b.T, axis=1) - (a * b).sum(axis=1)).sum()


def tables(a: Any, b: Any) -> Any:
    """Two sums over one matrix, along either axis."""
    m = np.arctan2(a[:, None], b[None, :])
    return m.sum(axis=0) @ b + m.max(axis=1) @ a


N = 8192
HEAD = (spec(N, 64),) * 3
HEADS = spec(8, 4096, 64), spec(2, 4096, 64), spec(2, 4096, 64)
POINTS = spec(N, 3), spec(N, 3), spec(N)
KINDS: dict[str, tuple[Program, tuple[mlc.TensorSpec, ...], tuple[int, ...]]] = {
    "attention": (square(nn.attention), HEAD, (0, 1, 2)),
    "causal": (square(lambda *x: nn.attention(*x, causal=True)), HEAD, (0, 1, 2)),
    "groups": (square(nn.attention), HEADS, (0, 1, 2)),
    "written attention": (square(attention), HEAD, (0, 1, 2)),
    "written causal": (square(causal), HEAD, (0, 1, 2)),
    "energy": (energy, POINTS[1:], (0,)),
    "energy and masses": (energy, POINTS[1:], (0, 1)),
    "distances": (distances, POINTS[:1], (0,)),
    "radial": (square(radial), POINTS, (0, 1, 2)),
    "radial, many features": (square(radial), (*HEAD[:2], spec(N)), (0, 1, 2)),
    "gram": (square(gram), (spec(N, 32), spec(N, 32), spec(N)), (0, 1, 2)),
    "many clusters": (clusters, (spec(200_000, 16), spec(256, 16)), (1,)),
    "few clusters": (clusters, (spec(200_000, 16), spec(64, 16)), (0, 1)),
    "contrast": (contrast, HEAD[:2], (0, 1)),
}


def allocates(levels: Levels) -> int:
    return levels.memory({}).peak_bytes


@pytest.mark.parametrize("name", KINDS)
def test_gradients_store_no_large_value(name: str, cpu: str) -> None:
    f, arguments, numbers = KINDS[name]
    levels = planned(mlc.grad(f, argnums=numbers), *arguments, target=cpu, threads=1)
    assert allocates(levels) < 48 * MIB
    assert max((x.bytes for x in levels.report({}).intermediates), default=0) < 16 * MIB


@pytest.mark.parametrize("name", KINDS)
def test_values_are_not_stored_either(name: str, cpu: str) -> None:
    f, arguments, _ = KINDS[name]
    assert allocates(planned(f, *arguments, target=cpu, threads=1)) < 16 * MIB


def test_sums_along_either_axis_compute_the_matrix_again(cpu: str) -> None:
    levels = planned(tables, spec(10_000), spec(10_000), target=cpu, threads=1)
    assert allocates(levels) < 16 * MIB


def test_a_size_that_the_call_knows_is_assumed_large(cpu: str) -> None:
    x = mlc.TensorSpec("N", 3)
    levels = planned(mlc.grad(distances), x, target=cpu, threads=1)
    assert levels.memory({"N": N}).peak_bytes < 16 * MIB


def said(levels: Levels) -> list[str]:
    return [r.text for r in levels.remarks() if "larger than the last-level cache" in r.text]


def test_a_remark_names_what_is_not_stored_and_both_times() -> None:
    f, arguments, numbers = KINDS["attention"]
    (text,) = said(planned(mlc.grad(f, argnums=numbers), *arguments, target="avx2", threads=1))
    assert "not stored: f32[8192, 8192]" in text
    assert "by the search's estimate" in text
    assert "limit: 1.5 times" in text


def test_a_remark_says_why_a_large_value_is_stored() -> None:
    def sorted_products(x: Any, y: Any) -> Any:
        return np.sort(x @ y.T, axis=1)[:, ::512].sum(axis=1)

    levels = planned(sorted_products, spec(N, 8), spec(N, 8), target="avx2", threads=1)
    assert allocates(levels) > 4 * N * N
    assert any("f32[8192, 8192] (268,435,456 bytes) is stored" in text for text in said(levels))
    assert any("no plan without it is known" in text for text in said(levels))


def test_what_fits_or_is_given_is_no_large_value(cpu: str) -> None:
    """A matrix among the arguments is as large as what is computed of it."""
    assert not said(planned(square(attention), *(spec(512, 64),) * 3, target=cpu))
    assert not said(planned(square(np.exp), spec(N, N), target=cpu))


def test_gradients_without_the_matrix_have_their_values() -> None:
    x = np.random.default_rng(3).standard_normal((2100, 3), dtype=np.float32)
    f = mlc.compile(target=RUNNABLE)(mlc.grad(distances))
    plain = mlc.compile(fusion="none")(mlc.grad(distances))
    np.testing.assert_allclose(f(x), plain(x.astype(float)), rtol=1e-3, atol=1e-2)
