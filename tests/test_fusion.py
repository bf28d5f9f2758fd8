"""What the plan makes of known programs: kernels, intermediates, bytes; and the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

import mlc
from mlc.dialects.plan import KernelOp
from mlc.passes.plan.form_kernels import FormKernelsPass
from mlc.runtime.interpret import entry_function
from mlc.text import parse_text

nn: Any = mlc.nn
Program = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]
RNG = np.random.default_rng(11)


def spec(*shape: int, dtype: str = "f32") -> mlc.TensorSpec:
    return mlc.TensorSpec(*shape, dtype=dtype)


def executable(f: Program, shapes: Shapes, **options: Any) -> Any:
    compiled: Any = mlc.compile(**options)(f)
    return compiled.lower(*(spec(*shape) for shape in shapes)).compile()


def randoms(shapes: Shapes, dtype: Any = np.float32) -> list[Any]:
    return [RNG.standard_normal(shape).astype(dtype) for shape in shapes]


def gradients(f: Program, count: int) -> Program:
    def loss(*x: Any) -> Any:
        return (f(*x) ** 2).sum()

    return mlc.grad(loss, argnums=tuple(range(count)))


# Vectors between the operations of a loop -------------------------------------------------------


def l2svm(xd: Any, xw: Any, y: Any, wd: Any, dd: Any, step: Any) -> Any:
    """
    The line search of the support vector machine, one step.

    SOURCE: Apache SystemDS, scripts/builtin/l2svm.dml; Boehm et al., VLDB 2018 (10 vectors, 4 with
    operators for pairs, none with operators made for the expression)
    """
    out = 1 - y * (xw + step * xd)
    sv = out > 0
    out = out * sv
    g = wd + step * dd - (out * y * xd).sum()
    h = dd + (xd * sv * xd).sum()
    return step - g / h


POINTS = 1_000_000
SVM: Shapes = ((POINTS,),) * 3 + ((),) * 3


def test_line_search_has_ten_vectors_four_in_pairs_and_none() -> None:
    apart = executable(l2svm, SVM, fusion="none").plan()
    vectors = [x.result for x in apart.intermediates if x.bytes >= POINTS]
    assert vectors.count(f"f32[{POINTS}]") == 10
    assert [x for x in vectors if x[:3] != "f32"] == [f"bool[{POINTS}]"]  # sv, before it is 0 or 1
    fused = executable(l2svm, SVM)
    assert not [x for x in fused.plan().intermediates if x.bytes >= POINTS]
    assert fused.plan().kernel_count == 2  # both sums; the quotient of two numbers
    assert fused.memory().peak_bytes < 65536


def test_line_search_in_pairs_has_four_vectors() -> None:
    """What operators such as a + s b, 1 - a b and sum(a b c) store."""
    alone: Any = mlc.compile(fusion="none")(l2svm)
    text = alone.lower(*(spec(*shape) for shape in SVM)).text("tensor")
    module = parse_text(text, "l2svm")
    ops = list(entry_function(module).walk())
    shaped = [op for op in ops if op.results and f"{POINTS}" in str(op.results[0].type)]
    views = ("mlc.broadcast", "mlc.constant")
    computed = [op for op in shaped if op.name not in views]
    # s xd | + xw | y ... | 1 - | > 0 | as f32 | out sv | out y | xd | xd sv | xd
    names = [op.name.removeprefix("mlc.") for op in computed]
    assert names[:7] == ["mul", "add", "mul", "sub", "compare", "convert", "mul"]
    stored = [computed[k] for k in (1, 3, 4, 6)]
    forced = tuple(f"store:{ops.index(op)}" for op in stored)
    FormKernelsPass(forced=forced).apply(Context(), module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    written = [str(x.type) for op in kernels for x in op.outs if f"{POINTS}" in str(x.type)]
    assert len(written) == 4


# One pass over a matrix -------------------------------------------------------------------------


def weighted(x: Any, w: Any, v: Any) -> Any:
    return x.T @ (w * (x @ v))


def regression_step(x: Any, p: Any, v: Any) -> Any:
    """Multinomial logistic regression: a product of the Hessian and a matrix."""
    q = p * (x @ v)
    return x.T @ (q - p * q.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("f", "shapes", "small"),
    [
        (weighted, ((100_000, 100), (100_000,), (100,)), ((3000, 100), (3000,), (100,))),
        (
            regression_step,
            ((100_000, 100), (100_000, 4), (100, 4)),
            ((3000, 90), (3000, 4), (90, 4)),
        ),
    ],
    ids=["weighted", "regression step"],
)
def test_matrix_is_read_once(f: Program, shapes: Shapes, small: Shapes) -> None:
    exe = executable(f, shapes)
    plan = exe.plan()
    assert not plan.intermediates
    matrix = shapes[0][0] * shapes[0][1] * 4
    (kernel,) = plan.kernels
    assert matrix <= kernel.bytes < 1.1 * matrix
    # a tile of the matrix and what else passes through a core's caches between two phases
    for phase in kernel.phases:
        assert phase.bytes < matrix / 64
    assert exe.memory().peak_bytes < matrix / 64
    x = randoms(small)
    want = f(*(a.astype(float) for a in x))
    np.testing.assert_allclose(mlc.compile(f)(*x), want, rtol=1e-4, atol=1e-3)


# Sums over pairs, whose matrix is never there ---------------------------------------------------


def factorised(x: Any, u: Any, v: Any) -> Any:
    """The loss of a factorisation that fits counts."""
    return (x * np.log(u @ v.T + np.float32(0.5))).sum()


def energy(x: Any, m: Any) -> Any:
    """N bodies: the potential energy, softened."""
    d = x[:, None, :] - x[None, :, :]
    return -(m[:, None] * m[None, :] / np.sqrt((d * d).sum(axis=-1) + np.float32(0.1))).sum()


def potential(x: Any, m: Any) -> Any:
    """N bodies: the potential at each."""
    d = x[:, None, :] - x[None, :, :]
    return -(m[None, :] / np.sqrt((d * d).sum(axis=-1) + np.float32(0.1))).sum(axis=1)


def kernel_sums(x: Any, y: Any, b: Any) -> Any:
    """Radial basis functions around y, weighted, at x."""
    d = x[:, None, :] - y[None, :, :]
    return np.exp(-(d * d).sum(axis=-1)) @ b


def nearest(x: Any, y: Any) -> Any:
    """Squared distances to the nearest neighbours."""
    d = x[:, None, :] - y[None, :, :]
    return (d * d).sum(axis=-1).min(axis=1)


def nearest_number(x: Any, y: Any) -> Any:
    """Which neighbour is the nearest."""
    d = x[:, None, :] - y[None, :, :]
    return (d * d).sum(axis=-1).argmin(axis=1)


MANY, FEW = 8192, (700, 900)

# Program, shapes by M and N, kernels forward and, at most, backward. Backward: what belongs to x
# sums over y, and what belongs to y over x: two loops, each of which computes the pairs anew. Where
# a loss of the sums comes first, their loop may stand alone; where x and y are one, both parts are
# added in the end.
PAIRS: dict[str, tuple[Program, Callable[[int, int], Shapes], int, int | None]] = {
    "factorised": (factorised, lambda m, n: ((m, n), (m, 16), (n, 16)), 1, 2),
    "energy": (energy, lambda m, _: ((m, 3), (m,)), 1, 4),
    "potential": (potential, lambda m, _: ((m, 3), (m,)), 1, 2),
    "kernel sums": (kernel_sums, lambda m, n: ((m, 3), (n, 3), (n,)), 1, 3),
    "nearest": (nearest, lambda m, n: ((m, 3), (n, 3)), 1, 2),
    "nearest number": (nearest_number, lambda m, n: ((m, 3), (n, 3)), 1, None),
}


def gradient_of(name: str) -> Program:
    """By what is not data."""
    f, shapes, *_ = PAIRS[name]
    first = 1 if name == "factorised" else 0
    numbers = tuple(range(first, len(shapes(1, 1))))

    def loss(*x: Any) -> Any:
        found = f(*x)
        return found if name in ("factorised", "energy") else (found * found).sum()

    return mlc.grad(loss, argnums=numbers)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_never_stored(name: str) -> None:
    f, shapes, forward, backward = PAIRS[name]
    sizes = shapes(MANY, MANY)
    pairs = MANY * MANY * 4
    programs = [(f, forward)] if backward is None else [(f, forward), (gradient_of(name), backward)]
    for program, kernels in programs:
        exe = executable(program, sizes)
        assert exe.plan().kernel_count <= kernels
        assert exe.memory().peak_bytes < 6 * 2**20 < pairs / 40  # of it 4 MiB of chunks' sums
        assert not [x for x in exe.plan().intermediates if x.bytes >= pairs // 4]


@pytest.mark.parametrize("name", PAIRS)
def test_sums_over_pairs(name: str) -> None:
    f, shapes, *_ = PAIRS[name]
    x = randoms(shapes(*FEW))
    if name == "factorised":
        x = [np.abs(a) for a in x]
    want = f(*(a.astype(float) for a in x))
    exe: Any = mlc.compile(f)
    assert any(k.phases for k in exe.lower(*x).compile().plan().kernels)
    np.testing.assert_allclose(exe(*x), want, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in PAIRS if PAIRS[name][3] is not None])
def test_gradients_of_sums_over_pairs(name: str) -> None:
    """Against the same in double with every value stored."""
    _, shapes, *_ = PAIRS[name]
    program = gradient_of(name)
    x = randoms(shapes(*FEW))
    if name == "factorised":
        x = [np.abs(a) for a in x]
    plain: Any = mlc.compile(fusion="none")(program)
    tiled: Any = mlc.compile(program)
    assert any(k.phases for k in tiled.lower(*x).compile().plan().kernels)
    for found, want in zip(tiled(*x), plain(*(a.astype(float) for a in x)), strict=True):
        scale = np.abs(want).max()
        np.testing.assert_allclose(found / scale, want / scale, rtol=1e-3, atol=2e-5)


# Kernels of layers ------------------------------------------------------------------------------


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    return nn.layer_norm(x, g, b)


def rms_norm(x: Any, g: Any) -> Any:
    return nn.rms_norm(x, g)


def mlp(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    return nn.gelu(x @ w + b) @ v + c


def plain_attention(q: Any, k: Any, v: Any) -> Any:
    return nn.attention(q, k, v)


def causal(q: Any, k: Any, v: Any) -> Any:
    return nn.attention(q, k, v, causal=True)


def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return nn.attention(q, k, v, bias=bias)


S, D = 8192, 64
HEAD: Shapes = ((S, D),) * 3
LAYERS: dict[str, tuple[Program, Shapes, int]] = {
    "softmax": (nn.softmax, ((4096, 1024),), 1),
    "layer norm": (layer_norm, ((4096, 1024), (1024,), (1024,)), 1),
    "rms norm": (rms_norm, ((4096, 1024), (1024,)), 1),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=-1), ((4096, 1024),), 1),
    "mlp": (mlp, ((512, 768), (768, 3072), (3072,), (3072, 768), (768,)), 2),
    "attention": (plain_attention, HEAD, 1),
    "causal": (causal, HEAD, 1),
    "biased": (biased, (*HEAD, (S, S)), 1),
    "groups": (plain_attention, ((8, S, D), (2, S, D), (2, S, D)), 1),
    "heads": (plain_attention, ((2, 8, 2048, D),) * 3, 1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_kernels_of_layers(name: str) -> None:
    f, shapes, kernels = LAYERS[name]
    exe = executable(f, shapes)
    plan = exe.plan()
    assert plan.kernel_count == kernels
    assert len(plan.intermediates) == kernels - 1  # the hidden layer
    if name not in ("mlp",):
        arena = exe.memory().arena_bytes
        assert arena <= exe.memory().results_bytes + 2**20


def cross_entropy(x: Any, y: Any) -> Any:
    return nn.cross_entropy(x, y)


def test_cross_entropy_is_one_kernel() -> None:
    f: Any = mlc.compile(cross_entropy)
    exe = f.lower(spec(4096, 1000), spec(4096, dtype="i64")).compile()
    assert exe.plan().kernel_count == 1
    assert not exe.plan().intermediates
    x, y = RNG.standard_normal((500, 300), dtype=np.float32), RNG.integers(0, 300, 500)
    wide = x.astype(float)
    want = (np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(500), y]).mean()
    np.testing.assert_allclose(f(x, y), want, rtol=1e-5)


BACKWARD = {
    # x, the weights' sums over rows and what goes to x share the tile of rows
    "softmax": 1,
    "logsumexp": 1,
    "layer norm": 1,
    "rms norm": 1,
}


@pytest.mark.parametrize("name", BACKWARD)
def test_kernels_of_gradients(name: str) -> None:
    f, shapes, _ = LAYERS[name]
    plan = executable(gradients(f, len(shapes)), shapes).plan()
    assert plan.kernel_count == BACKWARD[name]
    assert not plan.intermediates


# Numbers of attention ---------------------------------------------------------------------------


def attention_of(
    q: Any, k: Any, v: Any, *, is_causal: bool = False, bias: Any = None, mask: Any = None
) -> Any:
    """In double, with all scores."""
    q, k, v = (np.asarray(x).astype(float) for x in (q, k, v))
    with np.errstate(all="ignore"):
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
        if bias is not None:
            scores = scores + bias
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        if is_causal:
            m, n = scores.shape[-2:]
            scores = np.where(np.arange(n) <= np.arange(m)[:, None] + n - m, scores, -np.inf)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        return (e / e.sum(axis=-1, keepdims=True)) @ v


def tiled(f: Program, *x: Any) -> Any:
    """The result of code that has a tile loop."""
    compiled: Any = mlc.compile(f)
    assert any(k.phases for k in compiled.lower(*x).compile().plan().kernels)
    return compiled(*x)


def head(queries: int, keys: int, depth: int = 64, dtype: Any = np.float32) -> list[Any]:
    return randoms(((queries, depth), (keys, depth), (keys, depth)), dtype)


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


def test_rows_without_keys() -> None:
    """A row that sees nothing is not a number; one that sees one key has its value."""
    q, k, v = head(2048, 2048)
    mask = RNG.random((2048, 2048)) < 0.3
    mask[5] = False
    mask[100] = False
    mask[100, 1999] = True
    mask[300, :1900] = False
    mask[301] = mask[301] & (np.arange(2048) < 10)

    def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return nn.attention(q, k, v, mask=mask)

    found, want = tiled(masked, q, k, v, mask), attention_of(q, k, v, mask=mask)
    assert np.isnan(found[5]).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(found[100], v[1999], rtol=1e-6)


def test_bias_of_minus_infinity() -> None:
    q, k, v = head(2048, 2048)
    bias = RNG.standard_normal((2048, 2048)).astype(np.float32)
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


@pytest.mark.parametrize("f", [plain_attention, gradients(plain_attention, 3)], ids=["out", "grad"])
def test_bits_of_attention_do_not_depend_on_threads(f: Program) -> None:
    x = head(1030, 1100)
    one, two = (mlc.compile(threads=t)(f)(*x) for t in (1, 2))
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (one, two)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_vmap_of_attention() -> None:
    q, k, v = randoms(((3, 700, 32),) * 3)
    found = tiled(mlc.vmap(plain_attention), q, k, v)
    np.testing.assert_allclose(found, attention_of(q, k, v), rtol=1e-4, atol=2e-6)


def test_gradient_of_attention() -> None:
    x = head(1030, 1100)
    plain: Any = mlc.compile(fusion="none")(gradients(causal, 3))
    fused: Any = mlc.compile(gradients(causal, 3))
    for found, want in zip(fused(*x), plain(*(a.astype(float) for a in x)), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)
