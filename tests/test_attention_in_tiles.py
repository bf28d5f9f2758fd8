"""Attention in tiles against attention with all scores: special values, lengths, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import IfOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.profile import Profiler
from tests.plans import planned, spec
from tests.sweeps import covering
from tests.test_fusion import RNG, Program, biased, causal, gradients, nn, plain_attention, randoms


def attention_of(
    q: Any, k: Any, v: Any, *, is_causal: bool = False, bias: Any = None, mask: Any = None
) -> Any:
    """In double, with all scores."""
    q, k, v = (np.array(x, dtype=float) for x in (q, k, v))
    with np.errstate(all="ignore"):
        scores: Any = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        if bias is not None:
            scores = scores + bias
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        if is_causal:
            sizes: tuple[int, ...] = scores.shape
            m, n = sizes[-2:]
            scores = np.where(np.arange(n) <= np.arange(m)[:, None] + (n - m), scores, -np.inf)
        top: Any = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        e = np.exp(scores - top)
        return (e / e.sum(axis=-1, keepdims=True)) @ v


def tiled(f: Program, *x: Any) -> Any:
    """The result of code that has a tile loop."""
    compiled: Any = mlc.compile(f)
    assert any(k.phases for k in compiled.lower(*x).compile().plan().kernels)
    return compiled(*x)


def head(queries: int, keys: int, depth: int = 64, dtype: Any = np.float32) -> list[Any]:
    return randoms(((queries, depth), (keys, depth), (keys, depth)), dtype)


def entropies(q: Any, k: Any) -> Any:
    """Of the weights of each query: what is summed has the difference as a factor too."""
    scores = q @ k.T
    rest = scores - scores.max(axis=-1, keepdims=True)
    e = np.exp(rest)
    total = e.sum(axis=-1)
    return np.log(total) - (e * rest).sum(axis=-1) / total


@pytest.mark.parametrize("shape", [(512, 16384), (300, 20011)])
def test_sums_with_the_difference_as_a_factor_walk_again(shape: tuple[int, int]) -> None:
    """Rescaling by exp(m_before - m_now) would leave the other factor as it was."""
    q, k, _ = head(*shape)
    wide = entropies(q.astype(float), k.astype(float))
    np.testing.assert_allclose(tiled(entropies, q, k), wide, rtol=1e-4, atol=1e-5)


def weighted(exponential: Any) -> Program:
    """Attention by any exponential, causal."""

    def f(q: Any, k: Any, v: Any) -> Any:
        scores = np.where(np.tri(q.shape[0], dtype=bool), q @ k.T * 0.125, -1e30)
        e = exponential(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True) @ v

    return f


def test_any_exponential_follows_the_maximum() -> None:
    """One walk over the columns, which skips what is masked, as with exp."""
    x = head(2048, 2048)
    found = tiled(weighted(np.exp2), *x)
    wide = weighted(np.exp2)(*(a.astype(float) for a in x))
    np.testing.assert_allclose(found, wide, rtol=1e-4, atol=1e-5)
    assert trips(weighted(np.exp2), *x) == [136, 136]


def test_two_exponentials_of_one_maximum() -> None:
    def both(q: Any, k: Any) -> Any:
        scores = q @ k.T
        rest = scores - scores.max(axis=-1, keepdims=True)
        return np.exp(rest).sum(axis=-1), np.exp2(rest).sum(axis=-1)

    q, k, _ = head(512, 8192)
    assert len(trips(both, q, k)) == 1
    for found, want in zip(tiled(both, q, k), both(q.astype(float), k.astype(float)), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4)


def spread(q: Any, k: Any) -> Any:
    scores = q @ k.T
    return scores.mean(axis=-1), scores.var(axis=-1), (scores - 1e3).std(axis=-1)


@pytest.mark.parametrize("keys", [4096, 5003])
def test_squares_of_differences_from_a_mean_are_joined(keys: int) -> None:
    """One walk over the columns, from each tile's own mean: nothing cancels, nothing is stored."""
    q, k, _ = head(600, keys)
    assert len(trips(spread, q, k)) == 1
    wide = spread(q.astype(float), k.astype(float))
    for found, want in zip(tiled(spread, q, k), wide, strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_variances_with_special_values(value: float) -> None:
    q, k, _ = head(600, 5003)
    q[7, 3] = value
    found = tiled(spread, q, k)[1]
    assert np.isnan(found[7])
    assert np.isfinite(np.delete(found, 7)).all()


@pytest.mark.parametrize(
    ("queries", "keys"), [(2048, 2048), (2003, 1999), (1500, 3001), (3001, 1500), (1, 70_000)]
)
def test_attention_of_any_lengths(queries: int, keys: int) -> None:
    q, k, v = head(queries, keys)
    plain: Any = mlc.compile(plain_attention)
    np.testing.assert_allclose(plain(q, k, v), attention_of(q, k, v), rtol=1e-4, atol=2e-6)
    if queries <= keys:
        want = attention_of(q, k, v, is_causal=True)
        np.testing.assert_allclose(mlc.compile(causal)(q, k, v), want, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("dtype", "bound"), [(np.float64, 1e-12), (np.float16, 3e-3)], ids=["f64", "f16"]
)
def test_attention_of_other_dtypes(dtype: Any, bound: float) -> None:
    q, k, v = head(2048, 2100, dtype=dtype)
    found: Any = mlc.compile(plain_attention)(q, k, v)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(float), attention_of(q, k, v), rtol=bound, atol=bound)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_attention_with_special_values(value: float, where: int) -> None:
    """Not a number exactly where the reference has none."""
    x = head(2048, 2048)
    x[where][77, 5] = value
    x[where][2000, 6] = value
    found, want = tiled(plain_attention, *x), attention_of(*x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=2e-6)


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Masked scores are numbers, so that a row without keys has the mean of the values."""
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) * 0.125, -1e30)
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return (e / np.sum(e, axis=-1, keepdims=True)) @ v


def test_rows_without_keys() -> None:
    """A row that sees nothing is not a number; one that sees one key has its value."""
    q, k, v = head(2048, 2048)
    mask: Any = RNG.random((2048, 2048)) < 0.3
    mask[5] = False
    mask[100] = False
    mask[100, 1999] = True
    mask[300, :1900] = False
    mask[301] = mask[301] & (np.arange(2048) < 10)

    def excluded(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return nn.attention(q, k, v, mask=mask)

    found, want = tiled(excluded, q, k, v, mask), attention_of(q, k, v, mask=mask)
    assert np.isnan(found[5]).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(found[100], v[1999], rtol=1e-6)


def test_bias_of_minus_infinity() -> None:
    q, k, v = head(2048, 2048)
    bias: Any = RNG.standard_normal((2048, 2048)).astype(np.float32)
    bias[RNG.random((2048, 2048)) < 0.5] = -np.inf
    bias[7] = -np.inf
    found, want = tiled(biased, q, k, v, bias), attention_of(q, k, v, bias=bias)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=2e-6)


def test_heads_in_groups_and_strides() -> None:
    q, k, v = randoms(((8, 600, 64), (2, 700, 64), (2, 700, 64)))
    want = attention_of(q, np.repeat(k, 4, axis=0), np.repeat(v, 4, axis=0))
    np.testing.assert_allclose(tiled(plain_attention, q, k, v), want, rtol=1e-4, atol=2e-6)
    turned = [np.asfortranarray(q), k[:, ::-1], np.swapaxes(np.swapaxes(v, 1, 2).copy(), 1, 2)]
    want = attention_of(q, np.repeat(k[:, ::-1], 4, axis=0), np.repeat(v, 4, axis=0))
    found: Any = mlc.compile(plain_attention)(*turned)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=2e-6)


def test_one_compilation_for_all_lengths() -> None:
    f: Any = mlc.compile(dynamic={"q": {0: "M"}, "k": {0: "N"}, "v": {0: "N"}})(plain_attention)
    for m, n in ((1, 1), (2, 3), (17, 16), (127, 130), (500, 501), (1300, 1027)):
        q, k, v = head(m, n)
        np.testing.assert_allclose(f(q, k, v), attention_of(q, k, v), rtol=1e-4, atol=2e-6)
    assert f(*head(0, 5)).shape == (0, 64)
    assert f.stats().compilations == 1


def test_tiles_hold_rows_of_one_head() -> None:
    """
    What rows have summed so far is read and written by each trip over columns: tiles are of few
    rows and many columns, and not of all rows of many heads.
    """
    heads = spec(4, 8, 512, 64)
    plan = planned(masked, heads, heads, heads, spec(512, 512, dtype="bool"), target="avx512")
    outer, inner = (op for op in plan.plan().walk() if isinstance(op, TilesOp))
    assert outer.steps[:2] == (1, 1)
    assert 16 <= outer.steps[2] <= 256
    assert inner.steps[0] >= 128


def trips(f: Program, *x: Any, target: str = "host") -> list[int]:
    """How often the products of a call's tile loop run, on one thread."""
    compiled: Any = mlc.compile(threads=1, target=target)(f)
    profiler = Profiler(compiled.lower(*x).levels, phases=True)
    runs = profiler.run(x, 0.0).runs
    kernels = [op for op in profiler.plan.walk() if isinstance(op, KernelOp)]
    return [n for n, op in zip(runs, kernels, strict=True) if op.template.data == "contraction"]


def below_diagonal(m: int, n: int) -> Any:
    return np.arange(n) <= np.arange(m)[:, None]


def test_tiles_that_a_mask_leaves_out_are_skipped() -> None:
    """Of 16 x 16 tiles those below the diagonal run, with a mask that is given or of positions."""
    x = head(2048, 2048)
    assert trips(masked, *x, below_diagonal(2048, 2048)) == [136, 136]
    assert trips(causal, *x) == [136, 136]


def test_no_tile_of_a_row_without_keys_is_skipped() -> None:
    """Its weights are equal where masked scores are numbers: the mean of all values."""
    q, k, v = head(2048, 2000)
    mask = below_diagonal(2048, 2000)
    mask[3] = mask[900] = False
    mask[901] = np.arange(2000) == 1999
    found = tiled(masked, q, k, v, mask)
    np.testing.assert_allclose(found[3], v.mean(axis=0), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found[900], v.mean(axis=0), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found[901], v[1999], rtol=1e-5)
    rest = np.setdiff1d(np.arange(2048), (3, 900))
    want = attention_of(q, k, v, mask=mask)
    np.testing.assert_allclose(found[rest], want[rest], rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_special_values_behind_a_mask(value: float) -> None:
    """In what skipped tiles would read they do not spread; rows that see them have them."""
    q, k, v = head(2048, 2048)
    k[800, 5] = v[800, 6] = value
    found = tiled(masked, q, k, v, below_diagonal(2048, 2048))
    want = attention_of(q, k[:512], v[:512], mask=below_diagonal(2048, 512))
    np.testing.assert_allclose(found[:512], want[:512], rtol=1e-4, atol=2e-6)
    assert not np.isfinite(found[800:, 6]).any()
    q[100, 3] = value
    found = tiled(masked, q, k, v, below_diagonal(2048, 2048))
    assert np.isnan(found[100]).all()
    np.testing.assert_allclose(found[128:512], want[128:512], rtol=1e-4, atol=2e-6)


def test_strict_numerics_skip_nothing() -> None:
    x = (spec(2048, 64),) * 3
    for numerics, branches in (("standard", 1), ("strict", 0)):
        plan = planned(causal, *x, target="avx512", numerics=numerics).plan()
        assert sum(isinstance(op, IfOp) for op in plan.walk()) == branches


@pytest.mark.parametrize("f", [plain_attention, gradients(plain_attention, 3)], ids=["out", "grad"])
def test_bits_of_attention_do_not_depend_on_threads(f: Program) -> None:
    x = head(1030, 1100)
    results: list[list[Any]] = []
    for threads in (1, 2):
        compiled: Any = mlc.compile(threads=threads)(f)
        found: Any = compiled(*x)
        results.append([found] if f is plain_attention else list(found))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_vmap_of_attention() -> None:
    q, k, v = randoms(((3, 700, 32),) * 3)
    found = tiled(mlc.vmap(plain_attention), q, k, v)
    np.testing.assert_allclose(found, attention_of(q, k, v), rtol=1e-4, atol=2e-6)


def written(q: Any, k: Any, v: Any) -> Any:
    """Below the diagonal, as one writes it with NumPy."""
    scores = q @ np.swapaxes(k, -1, -2) / 8.0
    scores = np.where(np.tril(np.ones(scores.shape[-2:], dtype=bool)), scores, -1e9)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def weighed(f: Program) -> Program:
    """Gradients of a sum that does not need the result, by q, k and v."""

    def loss(q: Any, k: Any, v: Any, w: Any, *rest: Any) -> Any:
        return (f(q, k, v, *rest) * w).sum()

    return mlc.grad(loss, argnums=(0, 1, 2))


@pytest.mark.parametrize(
    ("f", "shape"),
    covering(
        [causal, written],
        [(1030, 64), (2, 515, 32), (1, 4, 512, 64), (3, 1, 700, 64)],
        strength=1,
    ),
)
def test_gradient_of_attention(f: Program, shape: tuple[int, ...]) -> None:
    x = randoms((shape, shape, shape, shape), np.float32)
    plain: Any = mlc.compile(fusion="none")(weighed(f))
    fused: Any = mlc.compile(weighed(f))
    for found, want in zip(fused(*x), plain(*(a.astype(float) for a in x)), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


def test_gradients_skip_what_a_mask_leaves_out() -> None:
    """Of 16 x 16 tiles those below the diagonal run, in each of three walks."""
    x = head(2048, 2048)
    x.append(x[0] + 1)
    assert trips(weighed(written), *x).count(136) == 9
    assert trips(weighed(masked), *x, below_diagonal(2048, 2048)).count(136) == 9


@pytest.mark.parametrize("target", ["avx2", "avx512", "neon"])
@pytest.mark.parametrize("f", [causal, written], ids=["causal", "written"])
def test_gradients_store_no_matrix_where_half_of_it_is_left_out(f: Program, target: str) -> None:
    heads = (spec(4, 1024, 64),) * 4
    report = planned(weighed(f), *heads, target=target).report({})
    assert max(x.bytes for x in report.intermediates) <= 4 * 4 * 1024 * 64


def test_gradients_of_rows_without_keys() -> None:
    """Weights of rows that see nothing are equal, and do not depend on their scores."""
    x = [*head(1100, 1030), head(1100, 1030)[0]]
    mask = below_diagonal(1100, 1030)
    mask[3] = mask[900] = False
    plain: Any = mlc.compile(fusion="none")(weighed(masked))
    found: Any = mlc.compile(weighed(masked))(*x, mask)
    for one, want in zip(found, plain(*(a.astype(float) for a in x), mask), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-4)
    assert not found[0][[3, 900]].any()


@pytest.mark.parametrize("f", [causal, written], ids=["causal", "written"])
def test_bits_of_gradients_do_not_depend_on_threads(f: Program) -> None:
    x = randoms(((3, 530, 64),) * 4, np.float32)
    first: Any = mlc.compile(threads=1)(weighed(f))(*x)
    for threads in (2, 3, 16):
        found: Any = mlc.compile(threads=threads)(weighed(f))(*x)
        for one, other in zip(first, found, strict=True):
            np.testing.assert_array_equal(one, other)
