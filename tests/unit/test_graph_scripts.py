"""Scripts of the course: orders of products, what leaves loops, and what is never made."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import mlc
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.reduce import ContractOp
from mlc.text import parse_text

RNG = np.random.default_rng(4)
PAGES = 96


def lowered(f: Any, *arguments: Any) -> tuple[Any, Any]:
    """The module at the end of the tensor level, and the executable."""
    low = mlc.compile(f).lower(*arguments)
    executable = low.compile()
    return parse_text(low.text("tensor"), "tensor"), executable


def in_loops(module: Any) -> Counter[str]:
    """How often each op stands in a loop."""
    found: Counter[str] = Counter()
    for op in module.walk():
        above = op.parent_op()
        while above is not None and not (isinstance(above, ControlOp) and above.repeats):
            above = above.parent_op()
        if above is not None:
            found[op.name] += 1
    return found


def pagerank(g: Any, e: Any, u: Any, p: Any, alpha: Any) -> Any:
    """p = alpha (G p) + (1 - alpha) (e u p), as DAPHNE's paper writes it."""

    def step(carried: Any) -> Any:
        i, p = carried
        return i + 1, alpha * (g @ p) + (1 - alpha) * (e @ u @ p)

    return mlc.while_loop(lambda carried: carried[0] < 20, step, (np.int64(0), p))[1]


def test_pagerank_multiplies_vectors_and_scales_once() -> None:
    g = RNG.random((PAGES, PAGES)).astype(np.float32)
    g /= g.sum(axis=0)
    e, u = np.ones((PAGES, 1), np.float32), np.full((1, PAGES), 1 / PAGES, np.float32)
    p, alpha = np.full((PAGES, 1), 1 / PAGES, np.float32), np.float32(0.85)
    module, executable = lowered(pagerank, g, e, u, p, alpha)
    matrix = f"f32[{PAGES}, {PAGES}]"
    plan = executable.plan()
    assert not [k for k in plan.kernels if matrix in k.results]  # e @ u is never made
    inside = in_loops(module)
    assert inside["mlc.contract"] == 3  # G p, u p and e times that
    assert inside["mlc.sub"] == 0  # 1 - alpha is known before the loop
    want = p
    for _ in range(20):
        want = alpha * (g @ want) + (1 - alpha) * (e @ (u @ want))
    np.testing.assert_allclose(mlc.compile(pagerank)(g, e, u, p, alpha), want, rtol=1e-5)


def regression(x: Any, y: Any, lam: Any) -> Any:
    """Linear regression by conjugate gradients: the script of twenty lines."""
    r = -(x.T @ y)
    p, norm, w = -r, (r * r).sum(), np.zeros_like(r)
    target = norm * np.float32(1e-10)

    def step(carried: Any) -> Any:
        i, w, r, p, norm = carried
        q = x.T @ (x @ p) + lam * p
        alpha = norm / (p * q).sum()
        w, r = w + alpha * p, r + alpha * q
        new = (r * r).sum()
        return i + 1, w, r, -r + (new / norm) * p, new

    def go_on(carried: Any) -> Any:
        return (carried[0] < 30) & (carried[4] > target)

    return mlc.while_loop(go_on, step, (np.int64(0), w, r, p, norm))[1]


def test_regression_never_turns_its_matrix() -> None:
    x, y = RNG.standard_normal((200, 12)), RNG.standard_normal(200)
    lam = np.float64(0.1)
    module, executable = lowered(regression, x, y, lam)
    inside = in_loops(module)
    assert inside["mlc.contract"] == 2
    assert inside["mlc.transpose"] == 0
    plan = executable.plan()
    assert not [k for k in plan.kernels if "f64[12, 200]" in k.results]
    # the residual's norm is carried, not computed twice: (p q).sum() and (r r).sum()
    assert inside["mlc.reduce"] == 2
    want = np.linalg.solve(x.T @ x + lam * np.eye(12), x.T @ y)
    np.testing.assert_allclose(mlc.compile(regression)(x, y, lam), want, rtol=1e-4, atol=1e-5)


def test_chain_with_a_vector_is_three_vectors() -> None:
    a, b, c = (RNG.standard_normal((128, 128)).astype(np.float32) for _ in range(3))
    v = RNG.standard_normal(128).astype(np.float32)

    def f(a: Any, b: Any, c: Any, v: Any) -> Any:
        return a @ b @ c @ v

    module, _ = lowered(f, a, b, c, v)
    products = [op for op in module.walk() if isinstance(op, ContractOp)]
    assert [shape_of(op.result.type) for op in products] == [(Dim.const(128),)] * 3
    assert [op.flops() for op in products] == [Dim.const(2 * 128**2)] * 3


def test_scaled_sum_times_a_matrix_is_one_loop() -> None:
    """R = (A + s B) C, elementwise: nothing is written but R."""
    a, b, c = (RNG.standard_normal((40, 30)).astype(np.float32) for _ in range(3))

    @mlc.compile
    def f(a: Any, b: Any, c: Any, s: Any) -> Any:
        return (a + s * b) * c

    plan = f.lower(a, b, c, np.float32(0.5)).compile().plan()
    assert len(plan.kernels) == 1
    assert not plan.intermediates
    np.testing.assert_allclose(f(a, b, c, np.float32(0.5)), (a + 0.5 * b) * c, rtol=1e-6)


def test_branches_share_what_both_compute() -> None:
    """The product stands before them, once."""

    def f(x: Any, c: Any) -> Any:
        def then(x: Any) -> Any:
            return np.exp(x @ x)

        def otherwise(x: Any) -> Any:
            return (x @ x) + 1

        return mlc.cond(c, then, otherwise, x)

    x = RNG.standard_normal((32, 32)).astype(np.float32) / 6
    module, _ = lowered(f, x, np.True_)
    products = [op for op in module.walk() if op.name == "mlc.contract"]
    assert len(products) == 1
    for c in (np.True_, np.False_):
        want = np.exp(x @ x) if c else (x @ x) + 1
        np.testing.assert_allclose(mlc.compile(f)(x, c), want, rtol=1e-5, atol=1e-6)
