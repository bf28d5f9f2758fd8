"""Values larger than a cache, and than all arguments and results, are stored on no processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

import mlc
from mlc.dialects.tensor.tiles import TilesOp
from mlc.levels import Levels
from mlc.passes.plan.tiling.form_tiles import FormTilesPass
from mlc.runtime.interpret import interpret
from mlc.text import parse_text
from tests.plans import RUNNABLE, TARGETS, planned, spec
from tests.sweeps import covering

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


def labels(x: Any, w: Any, y: Any) -> Any:
    """The cross-entropy of a classifier with integer labels."""
    z = x @ w
    return (nn.logsumexp(z, axis=1) - np.take_along_axis(z, y[:, None], axis=1)[:, 0]).mean()


def written_labels(x: Any, w: Any, y: Any) -> Any:
    z = nn.log_softmax(x @ w, axis=1)
    return -z[np.arange(len(y)), y].mean()


def one_hot(x: Any, w: Any, y: Any) -> Any:
    """The cross-entropy with labels as rows of an identity matrix."""
    return -(np.eye(50_000, dtype=np.float32)[y] * nn.log_softmax(x @ w, axis=1)).sum()


def heads(x: Any, w: Any) -> Any:
    """Attention whose heads lie side by side in one product."""
    q, k, v = ((x @ w[i]).reshape(len(x), 4, -1).transpose(1, 0, 2) for i in range(3))
    return nn.attention(q, k, v).transpose(1, 0, 2).reshape(len(x), -1)


def two_layers(x: Any, w: Any) -> Any:
    return nn.attention(*(nn.attention(x, x, x) @ w[i] for i in range(3)))


def nearest(x: Any, y: Any) -> Any:
    d = (x * x).sum(axis=1)[:, None] - 2 * (x @ y.T) + (y * y).sum(axis=1)
    return d.argmin(axis=1)


def closest(x: Any, y: Any) -> Any:
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1).argmin(axis=1)


def farthest(x: Any, y: Any) -> Any:
    return (x @ y.T).argmax(axis=1)


def tables(a: Any, b: Any) -> Any:
    """Two sums over one matrix, along either axis."""
    m = np.arctan2(a[:, None], b[None, :])
    return m.sum(axis=0) @ b + m.max(axis=1) @ a


N = 8192
HEAD = (spec(N, 64),) * 3
HEADS = spec(8, 4096, 64), spec(2, 4096, 64), spec(2, 4096, 64)
POINTS = spec(N, 3), spec(N, 3), spec(N)
CLASSES = spec(2048, 64), spec(64, 50_000), spec(2048, dtype="i32")
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
    "labels": (labels, CLASSES, (0, 1)),
    "written labels": (written_labels, CLASSES, (0, 1)),
    "one hot": (one_hot, CLASSES, (0, 1)),
    "heads": (square(heads), (spec(4096, 128), spec(3, 128, 128)), (0, 1)),
    "two layers": (square(two_layers), (spec(N, 64), spec(3, 64, 64)), (1,)),
}
FINDING: dict[str, tuple[Program, tuple[mlc.TensorSpec, ...]]] = {
    "nearest": (nearest, HEAD[:2]),
    "closest": (closest, POINTS[:2]),
    "farthest": (farthest, HEAD[:2]),
    "classes": (lambda *x: (x[0] @ x[1]).argmax(axis=1) == x[2], CLASSES),
}


def allocates(levels: Levels) -> int:
    return levels.memory({}).peak_bytes


@pytest.mark.parametrize(("name", "cpu"), covering([*KINDS], TARGETS, strength=1))
def test_gradients_store_no_large_value(name: str, cpu: str) -> None:
    f, arguments, numbers = KINDS[name]
    levels = planned(mlc.grad(f, argnums=numbers), *arguments, target=cpu, threads=1)
    assert allocates(levels) < 48 * MIB
    assert max((x.bytes for x in levels.report({}).intermediates), default=0) < 16 * MIB


@pytest.mark.parametrize(("name", "cpu"), covering([*KINDS], TARGETS, strength=1))
def test_values_are_not_stored_either(name: str, cpu: str) -> None:
    f, arguments, _ = KINDS[name]
    assert allocates(planned(f, *arguments, target=cpu, threads=1)) < 16 * MIB


@pytest.mark.parametrize("name", FINDING)
def test_positions_are_found_without_storing(name: str, cpu: str) -> None:
    f, arguments = FINDING[name]
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
    f, arguments, numbers = KINDS["written attention"]
    (text,) = said(planned(mlc.grad(f, argnums=numbers), *arguments, target="avx2", threads=1))
    assert "not stored: f32[8192, 8192]" in text
    assert "by the search's estimate" in text
    assert "limit: 1.6 times" in text


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


SPECIAL = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -3.0, 5.0, 5.0])


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "u1"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_tiles_are_those_of_rows(name: str, dtype: str) -> None:
    """The first of equals and the first NaN, whatever tile has it; 0 where all are the least."""
    rng = np.random.default_rng(5)
    numbers = SPECIAL if dtype[0] == "f" else np.array([0, 1, 100, 255])
    x = rng.choice(numbers, (60, 2)).astype(dtype)
    y = rng.choice(numbers[2:], (40, 2)).astype(dtype)
    x[:5], y[:, 0] = x[5:6], y[0, 0]

    def f(x: Any, y: Any) -> Any:
        far = np.maximum(x[:, None, :], y[None, :, :]).max(axis=-1)
        return getattr(far, name)(axis=1)

    module = parse_text(
        mlc.compile(target="avx2")(f).lower(x, y).levels.text("tensor"), "a program"
    )
    FormTilesPass(tile=(8, 7)).apply(Context(), module)
    module.verify()
    assert sum(isinstance(op, TilesOp) for op in module.walk()) == 2
    (found,) = interpret(module, [x, y], {})
    np.testing.assert_array_equal(found, f(x, y))


def triangle(y: Any, z: Any, _: Any) -> Any:
    return np.where(np.arange(8)[:, None] < np.arange(8), 1.0, 0.0)[y[:, None], z]


def added(y: Any, _: Any, x: Any) -> Any:
    return (x[None, :] + np.zeros((8, 1)))[y]


def differences(y: Any, _: Any, x: Any) -> Any:
    return (x[:, None] - x)[y]


MADE_UP: dict[str, Program] = {
    "rows": lambda *a: np.eye(8)[a[0]],
    "columns": lambda *a: np.eye(4, 8, k=2)[:, a[0]],
    "diagonal": lambda *a: np.eye(8)[a[0], a[0]],
    "pairs": triangle,
    "differences": differences,
    "one axis": lambda *a: (np.arange(8.0) * 2 - 1)[a[0]],
    "of a number": added,
}


@pytest.mark.parametrize("name", MADE_UP)
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_made_up_is_computed_at_the_indices(name: str, *, dynamic: bool) -> None:
    f = MADE_UP[name]
    compiled = mlc.compile(f, dynamic=True) if dynamic else mlc.compile(f)
    y, z, x = np.array([3, -1, 0, 7, -8]), np.array([1, -2]), np.linspace(-1, 1, 8)
    np.testing.assert_array_equal(compiled(y, z, x), f(y, z, x))
    for wrong in (8, -9):
        y[2] = wrong
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for an axis of"):
            compiled(y, z, x)


@pytest.mark.parametrize("f", [labels, written_labels])
def test_labels_are_found_without_the_matrix(f: Program) -> None:
    """Values, gradients, labels counted from the end, and the error of one that does not exist."""
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((700, 16)), rng.standard_normal((16, 6000))
    y = rng.integers(-6000, 6000, 700)
    both = mlc.value_and_grad(f, argnums=(0, 1))
    compiled = mlc.compile(target=RUNNABLE, threads=1)(both)
    assert allocates(compiled.lower(x, w, y).levels) < 4 * MIB
    value, gradients = compiled(x, w, y)
    z = x @ w
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(value, -np.log(p[np.arange(700), y]).mean(), rtol=1e-9)
    p[np.arange(700), y] -= 1
    np.testing.assert_allclose(gradients[0], p @ w.T / 700, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gradients[1], x.T @ p / 700, rtol=1e-9, atol=1e-12)
    y[5] = 6000
    with pytest.raises(IndexError, match="index 6000 is out of bounds for an axis of size 6000"):
        compiled(x, w, y)
