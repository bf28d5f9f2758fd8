"""What the plan makes of known programs: kernels, intermediates, bytes; and the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.levels import Levels
from tests.plans import RUNNABLE, TARGETS, planned, spec
from tests.sweeps import covering

nn: Any = mlc.nn
Program = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]
RNG = np.random.default_rng(11)


def levels_of(f: Program, shapes: Shapes, cpu: str, **options: Any) -> Levels:
    return planned(f, *(spec(*shape) for shape in shapes), target=cpu, **options)


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


def test_line_search_has_ten_vectors_and_none(cpu: str) -> None:
    apart = levels_of(l2svm, SVM, cpu, fusion="none").report({})
    vectors = [x.result for x in apart.intermediates if x.bytes >= POINTS]
    assert vectors.count(f"f32[{POINTS}]") == 10
    assert [x for x in vectors if x[:3] != "f32"] == [f"bool[{POINTS}]"]  # sv, before it is 0 or 1
    fused = levels_of(l2svm, SVM, cpu)
    assert not [x for x in fused.report({}).intermediates if x.bytes >= POINTS]
    assert fused.report({}).kernel_count == 1  # both sums and their quotient, in one walk
    assert fused.memory({}).peak_bytes < POINTS / 8  # tiles of the vectors, for each thread


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
def test_matrix_is_read_once(f: Program, shapes: Shapes, small: Shapes, cpu: str) -> None:
    levels = levels_of(f, shapes, cpu)
    plan = levels.report({})
    assert not plan.intermediates
    matrix = shapes[0][0] * shapes[0][1] * 4
    (kernel,) = plan.kernels
    assert matrix <= kernel.bytes < 1.1 * matrix
    # a tile of the matrix and what else passes through a core's caches between two phases
    for phase in kernel.phases:
        assert phase.bytes < matrix / 64
    assert levels.memory({}).peak_bytes < matrix / 64
    if cpu == RUNNABLE:
        x = randoms(small)
        want = f(*(a.astype(float) for a in x))
        np.testing.assert_allclose(mlc.compile(target=cpu)(f)(*x), want, rtol=1e-4, atol=1e-3)


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


def gram_sums(x: Any, y: Any, b: Any) -> Any:
    """The same with distances from products: |x|^2 + |y|^2 - 2 x y."""
    d = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2 * (x @ y.T)
    return np.exp(-d) @ b


def nearest(x: Any, y: Any) -> Any:
    """Squared distances to the nearest neighbours."""
    d = x[:, None, :] - y[None, :, :]
    return (d * d).sum(axis=-1).min(axis=1)


def nearest_number(x: Any, y: Any) -> Any:
    """Which neighbour is the nearest."""
    d = x[:, None, :] - y[None, :, :]
    return (d * d).sum(axis=-1).argmin(axis=1)


MANY, FEW = 8192, (1900, 2100)

# Program, shapes by M and N, kernels forward and, at most, backward. Backward: what belongs to x
# sums over y, and what belongs to y over x: two loops, each of which computes the pairs anew. Where
# a loss of the sums comes first, their loop may stand alone; where x and y are one, both parts are
# added in the end.
PAIRS: dict[str, tuple[Program, Callable[[int, int], Shapes], int, int | None]] = {
    "factorised": (factorised, lambda m, n: ((m, n), (m, 16), (n, 16)), 1, 2),
    "energy": (energy, lambda m, _: ((m, 3), (m,)), 1, 4),
    "potential": (potential, lambda m, _: ((m, 3), (m,)), 1, 2),
    "kernel sums": (kernel_sums, lambda m, n: ((m, 3), (n, 3), (n,)), 1, 3),
    # |y|^2 is known before the loop
    "gram sums": (gram_sums, lambda m, n: ((m, 3), (n, 3), (n,)), 2, 4),
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


@pytest.mark.parametrize(("name", "cpu"), covering([*PAIRS], TARGETS, strength=1))
def test_pairs_are_never_stored(name: str, cpu: str) -> None:
    f, shapes, forward, backward = PAIRS[name]
    sizes = shapes(MANY, MANY)
    pairs = MANY * MANY * 4
    programs = [(f, forward)] if backward is None else [(f, forward), (gradient_of(name), backward)]
    for program, kernels in programs:
        levels = levels_of(program, sizes, cpu, threads=1)
        assert levels.report({}).kernel_count <= kernels
        # of it 4 MiB of chunks' sums
        assert levels.memory({}).peak_bytes < 6 * 2**20 < pairs / 40
        assert not [x for x in levels.report({}).intermediates if x.bytes >= pairs // 4]


@pytest.mark.parametrize("name", PAIRS)
def test_sums_over_pairs(name: str) -> None:
    f, shapes, *_ = PAIRS[name]
    x = randoms(shapes(*FEW))
    if name == "factorised":
        x = [np.abs(a) for a in x]
    want = f(*(a.astype(float) for a in x))
    exe: Any = mlc.compile(target=RUNNABLE)(f)
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
    tiled: Any = mlc.compile(target=RUNNABLE)(program)
    assert any(k.phases for k in tiled.lower(*x).compile().plan().kernels)
    for found, want in zip(tiled(*x), plain(*(a.astype(float) for a in x)), strict=True):
        scale = np.abs(want).max()
        np.testing.assert_allclose(found / scale, want / scale, rtol=1e-3, atol=2e-5)


# Kernels of layers ------------------------------------------------------------------------------


def logsumexp(x: Any) -> Any:
    return nn.logsumexp(x, axis=-1)


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
    "logsumexp": (logsumexp, ((4096, 1024),), 1),
    "mlp": (mlp, ((512, 768), (768, 3072), (3072,), (3072, 768), (768,)), 2),
    "attention": (plain_attention, HEAD, 1),
    "causal": (causal, HEAD, 1),
    "biased": (biased, (*HEAD, (S, S)), 1),
    "groups": (plain_attention, ((8, S, D), (2, S, D), (2, S, D)), 1),
    "heads": (plain_attention, ((2, 8, 2048, D),) * 3, 1),
}


@pytest.mark.parametrize(("name", "cpu"), covering([*LAYERS], TARGETS, strength=1))
def test_kernels_of_layers(name: str, cpu: str) -> None:
    f, shapes, kernels = LAYERS[name]
    levels = levels_of(f, shapes, cpu, threads=1)
    plan = levels.report({})
    assert plan.kernel_count == kernels
    assert len(plan.intermediates) == kernels - 1  # the hidden layer
    if name not in ("mlp",):
        arena = levels.memory({}).arena_bytes
        assert arena <= levels.memory({}).results_bytes + 2**20


def cross_entropy(x: Any, y: Any) -> Any:
    return nn.cross_entropy(x, y)


LABELLED = spec(4096, 1000), spec(4096, dtype="i64")


def layer_of_rows(x: Any, w: Any, bias: Any, rest: Any) -> Any:
    """A product with a bias, an activation and what is added to it."""
    return np.tanh(x @ w + bias) + rest


@pytest.mark.parametrize("lead", [(1,), (2,), (1, 1), (1, 3)])
def test_what_follows_a_product_is_its_epilogue_for_any_batch(
    lead: tuple[int, ...], cpu: str
) -> None:
    shapes: Shapes = ((*lead, 64, 96), (96, 128), (128,), (*lead, 64, 128))
    assert levels_of(layer_of_rows, shapes, cpu).report({}).kernel_count == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 5, 6), (6, 7)),
        ((5, 6), (1, 6, 7)),
        ((1, 1, 6), (6, 7)),
        ((1, 5, 6), (6,)),
        ((6,), (1, 6, 7)),
        ((1, 3, 5, 6), (3, 6, 7)),
        ((3, 5, 6), (1, 3, 6, 7)),
        ((1, 1, 5, 6), (3, 6, 7)),
        ((1, 5, 6), (1, 1, 6, 7)),
    ],
)
def test_products_of_one_matrix_with_its_gradients(left: tuple[int, ...], right: Any) -> None:
    x, y = randoms((left, right), np.float64)
    np.testing.assert_allclose(mlc.compile(np.matmul)(x, y), x @ y, rtol=1e-12)
    got: Any = mlc.compile(gradients(np.matmul, 2))(x, y)
    for k in range(2):
        ways: list[Any] = [np.zeros(left), np.zeros(right)]
        ways[k] = RNG.standard_normal(ways[k].shape)
        slope = 2 * ((x @ y) * (ways[0] @ y + x @ ways[1])).sum()
        np.testing.assert_allclose((got[k] * ways[k]).sum(), slope, rtol=1e-10, atol=1e-10)


def test_cross_entropy_is_one_kernel(cpu: str) -> None:
    plan = planned(cross_entropy, *LABELLED, target=cpu).report({})
    assert plan.kernel_count == 1
    assert not plan.intermediates


def test_cross_entropy_is_numpys() -> None:
    f: Any = mlc.compile(cross_entropy)
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


@pytest.mark.parametrize(("name", "cpu"), covering([*BACKWARD], TARGETS, strength=1))
def test_kernels_of_gradients(name: str, cpu: str) -> None:
    f, shapes, _ = LAYERS[name]
    plan = levels_of(gradients(f, len(shapes)), shapes, cpu).report({})
    assert plan.kernel_count == BACKWARD[name]
    assert not plan.intermediates


def test_gradient_of_mlp_has_its_six_products(cpu: str) -> None:
    """
    And the biases' gradients, sums over what a product wrote. Stored are what products read: h, dy
    and dz, and of the activation no more than z and one value beside it.
    """
    f, shapes, _ = LAYERS["mlp"]
    plan = levels_of(gradients(f, len(shapes)), shapes, cpu).report({})
    assert plan.kernel_count == 6 + 2
    assert sum("contract" in k.ops for k in plan.kernels) == 6
    assert len(plan.intermediates) <= 5


def test_gradient_of_cross_entropy_is_two_kernels(cpu: str) -> None:
    """The labels' places are scattered first, into what the rows' loop then reads."""
    plan = planned(mlc.grad(cross_entropy), *LABELLED, target=cpu).report({})
    assert plan.kernel_count == 2


def shared(a: Any, b: Any, s: Any) -> Any:
    """
    What two expressions share.

    SOURCE: Boehm et al., On Optimizing Operator Fusion Plans, VLDB 2018, materialization points
    """
    c = a + s * b
    return (c / 2) ** (c - 1), np.exp(c - 1)


def test_both_plans_of_a_shared_value_are_costed(cpu: str) -> None:
    levels = levels_of(shared, ((1000, 1000), (1000, 1000), ()), cpu)
    assert levels.report({}).kernel_count == 1
    said = {remark.op: remark.decision for remark in levels.remarks()}
    for name in ("mlc.add", "mlc.sub"):  # C, and C - 1
        decision = said[name]
        assert decision is not None
        assert decision.other_s is not None
        assert decision.decision == "inline"
        assert 0 < decision.chosen_s < decision.other_s
