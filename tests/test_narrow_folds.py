"""Tile loops over values of 16 bits: f32 inside, rounded where the program or memory rounds."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc
from mlc.dialects.dtypes import F32
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.tiles import TilesOp
from tests.plans import HOSTED, RUNNABLE, planned, spec
from tests.sweeps import covering
from tests.test_attention_in_tiles import below_diagonal, entropies, masked, trips, weighed, written
from tests.test_both_ways import HEADS, both_ways
from tests.test_fusion import RNG, Program, biased, causal, plain_attention, randoms

BF16: Any = ml_dtypes.bfloat16
DTYPES: dict[str, Any] = {"bf16": BF16, "f16": np.float16}


def eps_of(dtype: str) -> float:
    return 2.0 ** -(7 if dtype == "bf16" else 10)


def rms(found: Any, want: Any) -> float:
    return float(np.sqrt(np.mean((np.asarray(found, float) - np.asarray(want)) ** 2)))


def largest(f: Program, *x: Any, target: str) -> int:
    """Bytes of the largest value that is stored between kernels."""
    levels = planned(f, *x, target=target)
    symbols = {name: {"H": 4, "N": 2048}[name] for name in levels.signature.symbols}
    return max((i.bytes for i in levels.report(symbols).intermediates), default=0)


def mixed(q: Any, k: Any, v: Any) -> Any:
    """As mixed precision is written: products of 16 bits, softmax in float32."""
    scores = (q @ np.swapaxes(k, -1, -2)).astype(np.float32) * 0.125
    scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(v.dtype) @ v


def widened(q: Any, k: Any, v: Any) -> Any:
    """Attention of what is converted before the products."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    return plain_attention(q, k, v)


def soft_minimum(x: Any, y: Any) -> Any:
    s = x @ y.T
    top = s.max(axis=-1, keepdims=True)
    return np.log(np.exp(s - top).sum(axis=-1)) + top[..., 0]


def by_powers_of_two(q: Any, k: Any) -> Any:
    s = q @ k.T
    e = np.exp2(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ k


def moments(x: Any, y: Any) -> Any:
    s = x @ y.T
    return s.var(axis=-1)


def squares(x: Any, y: Any) -> Any:
    """Of differences from a mean whose sum and number are of 16 bits."""
    s = x @ y.T
    return ((s - s.sum(axis=-1, keepdims=True) / s.shape[-1]) ** 2).sum(axis=-1)


def nearest(x: Any, y: Any) -> Any:
    distances = (y * y).sum(axis=-1) - 2 * (x @ y.T)
    return distances.argmin(axis=-1), distances.min(axis=-1)


# Nothing is stored ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "dtype", "target"),
    covering(
        [plain_attention, causal, mixed, widened],
        list(DTYPES),
        ["avx2", "avx512", "amx", "neon", "mmla"],
        strength=1,
    ),
)
def test_attention_stores_no_matrix(f: Program, dtype: str, target: str) -> None:
    for heads in (spec(4, 2048, 64, dtype=dtype), spec("H", "N", 64, dtype=dtype)):
        assert largest(f, heads, heads, heads, target=target) <= 4 * 2048 * 4
    heads = spec(4, 2048, 64, dtype=dtype)
    if f is not plain_attention:  # where half is left out; of all others the cost decides
        assert largest(weighed(f), *(heads,) * 4, target=target) <= 4 * 2048 * 64 * 4


@pytest.mark.parametrize(
    "f", [soft_minimum, by_powers_of_two, moments, squares, nearest, entropies]
)
@pytest.mark.parametrize("target", ["avx2", "amx"])
def test_reductions_of_products_store_no_matrix(f: Program, target: str) -> None:
    x = spec(8192, 64, dtype="bf16")
    assert largest(f, x, x, target=target) <= 8192 * 64 * 4


def test_gradients_add_up_in_f32() -> None:
    """Sums along rows and columns are one loop, whose tiles of sums are f32."""
    heads = spec(HEADS, 1024, 64, dtype="bf16")
    levels = planned(weighed(causal), *(heads,) * 4, target="amx")
    (loop,) = both_ways(levels.plan())
    assert {element_dtype(x) for x in loop.results} == {F32}


def test_products_are_those_of_16_bits() -> None:
    """Keys and values are read as they lie, weights are rounded to what the machine multiplies."""
    heads = (spec(8, 1024, 64, dtype="bf16"),) * 4
    assert planned(causal, *heads[:3], target="amx").text("plan").count("via(amx_bf16)") == 2
    grads = planned(weighed(causal), *heads, target="amx")
    assert grads.text("plan").count("via(amx_bf16)") >= 6
    assert "tdpbf16ps" in planned(causal, *heads[:3], target="amx").asm()
    # no instruction multiplies bf16: nothing is rounded before products
    text = planned(causal, *heads[:3], target="avx2").text("plan")
    inner = text[text.index("mlc.if") :]
    assert inner.count("tensor<1x128x128xbf16>") == 0


# Numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "dtype", "cpu"),
    covering([plain_attention, causal, written, mixed, widened], list(DTYPES), HOSTED, strength=1),
)
def test_no_worse_than_what_is_stored(f: Program, dtype: str, cpu: str) -> None:
    """Forward and backward, beside the same program in double."""
    x = randoms(((2, 515, 64),) * 4, DTYPES[dtype])
    x[0] *= 2
    wide = [a.astype(float) for a in x]
    for g, count in ((f, 3), (weighed(f), 4)):
        exact: Any = mlc.compile(fusion="none")(plain_attention if f is widened else f)
        if count == 4:
            exact = mlc.compile(fusion="none")(weighed(plain_attention if f is widened else f))
        wants = exact(*wide[:count])
        found: Any = mlc.compile(target=cpu)(g)(*x[:count])
        stored: Any = mlc.compile(target=cpu, fusion="none")(g)(*x[:count])
        if count == 3:
            wants, found, stored = [wants], [found], [stored]
        for want, one, other in zip(wants, found, stored, strict=True):
            assert one.dtype == other.dtype
            assert rms(one, want) <= 1.02 * rms(other, want)


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_statistics_that_gradients_read_are_not_rounded(dtype: str) -> None:
    """exp(s - m) with m rounded to bf16 would be wrong by a quarter where scores are around 60."""
    q, k, v, w = randoms(((3, 600, 64),) * 4, DTYPES[dtype])
    q, k = q + DTYPES[dtype](1), k + DTYPES[dtype](1)
    x = [q * DTYPES[dtype](4), k, v, w]
    wants: Any = mlc.compile(fusion="none")(weighed(causal))(*(a.astype(float) for a in x))
    found: Any = mlc.compile(weighed(causal))(*x)
    eps = eps_of(dtype)
    for one, want in zip(found, wants, strict=True):
        assert rms(one, want) <= 2 * eps * rms(want, 0)


def test_sums_of_many_small_numbers() -> None:
    """A state of bf16 would stay at 256."""
    x, y = np.ones((700, 64), BF16) / BF16(64), np.ones((8192, 64), BF16)

    def sums(x: Any, y: Any) -> Any:
        s = np.abs(x @ y.T)
        return s.sum(axis=-1), s.sum(axis=-2)

    compiled: Any = mlc.compile(sums)
    rows, columns = compiled(x, y)
    assert set(np.asarray(rows, float)) == {8192.0}
    assert set(np.asarray(columns, float)) == {float(BF16(700))}


@pytest.mark.parametrize("f", [soft_minimum, by_powers_of_two, moments, squares, entropies])
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_merged_reductions(f: Program, dtype: str) -> None:
    x, y = randoms(((300, 64), (4096, 64)), DTYPES[dtype])
    x, y = x / DTYPES[dtype](4), y + DTYPES[dtype](0.25)
    want: Any = mlc.compile(f)(x.astype(float), y.astype(float))
    found: Any = mlc.compile(f)(x, y)
    eps = eps_of(dtype)
    assert found.dtype == DTYPES[dtype]
    np.testing.assert_allclose(
        found.astype(float), want, rtol=2 * eps, atol=eps * np.abs(want).max()
    )


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_nearest_neighbours(dtype: str) -> None:
    """By distances that are not rounded; the first of equal ones."""
    x, y = randoms(((300, 32), (5003, 32)), DTYPES[dtype])
    y[4000:4500] = y[:500]
    compiled: Any = mlc.compile(nearest)
    places, distances = compiled(x, y)
    a, b = x.astype(float), y.astype(float)
    norms = np.asarray((b * b).sum(axis=-1).astype(DTYPES[dtype]), float)  # squares stay in f32
    exact = norms - 2 * (a @ b.T)
    eps = eps_of(dtype)
    chosen = np.take_along_axis(exact, places[:, None], axis=1)[:, 0]
    assert (chosen - exact.min(axis=1)).max() <= 4 * eps * np.abs(norms).max()
    assert not (places >= 4000)[np.isin(places, np.arange(4000, 4500))].any()
    np.testing.assert_allclose(distances.astype(float), exact.min(axis=1), rtol=4 * eps, atol=eps)


def test_what_the_program_rounds_stays_rounded() -> None:
    """257 and 256.5 are 256 in bf16: the first of them is the nearest."""
    x = np.zeros((600, 16), np.float32)
    y = np.full((4096, 16), 32.0, np.float32)
    x[:, 0], y[:, 0] = 1.0, 300.0
    y[1000, 0], y[3000, 0] = 257.0, 256.5

    def first(x: Any, y: Any) -> Any:
        return (x @ y.T).astype(BF16).argmin(axis=-1)

    def exact(x: Any, y: Any) -> Any:
        return (x @ y.T).argmin(axis=-1)

    compiled: Any = mlc.compile(first)
    unrounded: Any = mlc.compile(exact)
    assert set(compiled(x, y)) == {1000}
    assert set(unrounded(x, y)) == {3000}
    loops = [op for op in compiled.lower(x, y).levels.plan().walk() if isinstance(op, TilesOp)]
    assert loops


def told(x: Any, y: Any) -> Any:
    """What depends on how values lie in 16 bits: overflow, neighbours, signs, bits."""
    s = x @ y.T
    large = s * x.dtype.type(8192) * x.dtype.type(8)
    bits = s.view(np.int16).astype(np.int32)
    following = np.nextafter(s, np.abs(large))
    finite, infinite = np.isfinite(large), np.isinf(large)
    sums = finite.sum(axis=-1), infinite.sum(axis=-1), np.signbit(s).sum(axis=-1), bits.sum(axis=-1)
    return *sums, following.max(axis=-1)


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_what_tells_how_values_lie_sees_rounded_ones(dtype: str) -> None:
    x, y = (RNG.integers(-2, 3, (n, 16)).astype(DTYPES[dtype]) for n in (512, 8192))
    compiled: Any = mlc.compile(told)
    with np.errstate(over="ignore"):
        wants = compiled.reference(x, y)
    loops = [op for op in compiled.lower(x, y).levels.plan().walk() if isinstance(op, TilesOp)]
    assert loops
    for found, want in zip(compiled(x, y), wants, strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values(value: float) -> None:
    x = randoms(((600, 64), (1024, 64), (1024, 64)), BF16)
    for array in x:
        array[77, 5] = value
    found: Any = mlc.compile(plain_attention)(*x)
    want: Any = mlc.compile(fusion="none")(plain_attention)(*(a.astype(float) for a in x))
    np.testing.assert_array_equal(np.isnan(found.astype(float)), np.isnan(want))


def test_rows_without_keys_and_biases() -> None:
    q, k, v = randoms(((1024, 64),) * 3, BF16)
    mask: Any = below_diagonal(1024, 1024)
    mask[3] = mask[900] = False
    found: Any = mlc.compile(masked)(q, k, v, mask)
    np.testing.assert_allclose(
        found[[3, 900]].astype(float), np.tile(v.astype(float).mean(axis=0), (2, 1)), atol=2e-3
    )
    bias: Any = np.where(mask, 0.5, -np.inf).astype(BF16)
    found = mlc.compile(biased)(q, k, v, bias)
    assert np.isnan(found[[3, 900]].astype(float)).all()
    assert np.isfinite(np.delete(found.astype(float), [3, 900], axis=0)).all()


# Masks, lengths, threads, strict ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_tiles_that_a_mask_leaves_out_are_skipped(dtype: str) -> None:
    """Through conversions too."""
    x = randoms(((2048, 64),) * 3, DTYPES[dtype])
    assert trips(causal, *x) == [136, 136]
    assert trips(mixed, *x) == [136, 136]
    if dtype == "bf16":
        assert trips(masked, *x, below_diagonal(2048, 2048)) == [136, 136]


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_one_compilation_for_all_lengths(dtype: str) -> None:
    f: Any = mlc.compile(dynamic={"q": {0: "M"}, "k": {0: "N"}, "v": {0: "N"}})(plain_attention)
    eps = eps_of(dtype)
    for m, n in ((1, 1), (17, 16), (127, 130), (500, 1027)):
        x = randoms(((m, 64), (n, 64), (n, 64)), DTYPES[dtype])
        want: Any = mlc.compile(plain_attention)(*(a.astype(float) for a in x))
        np.testing.assert_allclose(f(*x).astype(float), want, rtol=4 * eps, atol=4 * eps)
    assert f.stats().compilations == 1


@pytest.mark.parametrize("f", [plain_attention, moments, nearest])
def test_few_rows_are_split_among_threads(f: Program) -> None:
    """States of parts of the columns, in f32, are combined in order: the same bits."""
    x = randoms(((100, 64), (40_000, 64), (40_000, 64)), BF16)[: 3 if f is plain_attention else 2]
    runs: list[Any] = [mlc.compile(f, target=RUNNABLE, threads=n) for n in (1, 2, 3)]
    loops = [op for op in runs[0].lower(*x).levels.plan().walk() if isinstance(op, TilesOp)]
    assert any(op.parts for op in loops)
    first, *others = ([np.asarray(y, float) for y in run(*x)] for run in runs)
    for found in others:
        np.testing.assert_array_equal(first, found)


@pytest.mark.parametrize("f", [causal, weighed(causal)], ids=["out", "grad"])
def test_bits_do_not_depend_on_threads(f: Program) -> None:
    x = randoms(((3, 530, 64),) * (3 if f is causal else 4), BF16)
    runs: list[Any] = [mlc.compile(f, target=RUNNABLE, threads=n) for n in (1, 2, 3)]
    first, *others = (run(*x) for run in runs)
    for found in others:
        for one, other in zip(first, found, strict=True):
            np.testing.assert_array_equal(one.astype(float), other.astype(float))


def test_strict_numerics_round_each_value() -> None:
    x, y = randoms(((300, 64), (2048, 64)), BF16)

    def sums(x: Any, y: Any) -> Any:
        s = x @ y.T
        return (s * s).sum(axis=-1), s.max(axis=-1)

    compiled: Any = mlc.compile(numerics="strict")(sums)
    for one, want in zip(compiled(x, y), compiled.reference(x, y), strict=True):
        np.testing.assert_array_equal(one.astype(float), want.astype(float))
