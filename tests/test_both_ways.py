"""Sums over rows and over columns of the same values: one loop, whose trips meet at their tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.plan.memory.plan_buffers import PlanBuffersPass
from mlc.passes.plan.tiling.form_tiles import FormTilesPass
from mlc.passes.plan.tiling.split_folds import SplitFoldsPass
from mlc.runtime.interpret import interpret
from tests.plans import HOSTED, RUNNABLE, TARGETS, planned, spec
from tests.sweeps import covering
from tests.test_attention_in_tiles import below_diagonal, masked, trips, weighed, written
from tests.test_fusion import Program, causal, plain_attention, randoms

HEADS = 16  # as many as any of the targets has cores


def by_heads(q: Any, k: Any, v: Any) -> Any:
    """Attention of arrays with their heads behind the sequence, as one product makes them."""
    return np.swapaxes(written(*(np.swapaxes(x, 1, 2) for x in (q, k, v))), 1, 2)


def moments(x: Any, y: Any) -> Any:
    s = np.tanh(x @ np.swapaxes(y, -1, -2))
    return s.sum(-1), s.max(-2), (s * s).sum(-2)


def margins(x: Any, y: Any) -> Any:
    s = np.exp(-(x @ np.swapaxes(y, -1, -2)))
    return s @ y, 2.0 * (np.swapaxes(s, -1, -2) @ x)


def both_ways(module: ModuleOp) -> list[TilesOp]:
    return [op for op in module.walk() if isinstance(op, TilesOp) and op.meeting]


@pytest.mark.parametrize(
    ("f", "target"), covering([causal, written, plain_attention], TARGETS, strength=1)
)
def test_gradients_take_five_products_a_tile(f: Program, target: str) -> None:
    """Two forward, none of them again; nothing between them is stored, on the way to any code."""
    levels = planned(weighed(f), *(spec(HEADS, 2048, 64),) * 4, target=target)
    (loop,) = both_ways(levels.plan())
    products = [op for op in levels.plan().walk() if isinstance(op, ContractOp)]
    assert sum(loop.is_ancestor(op) for op in products) == 5
    assert len(products) == 5 + 2 + 1  # and of rows of the result with their cotangents
    report = levels.report({})
    assert max(x.bytes for x in report.intermediates) <= 4 * HEADS * 2048 * 64
    assert "scf.for" in levels.text("loops")


@pytest.mark.parametrize(
    ("f", "shape", "cpu"),
    covering(
        [causal, written, by_heads, plain_attention],
        [(8, 300, 64), (1, 9, 330, 32), (2, 8, 256, 16)],
        HOSTED,
        strength=1,
    ),
)
def test_gradients_of_attention(f: Program, shape: tuple[int, ...], cpu: str) -> None:
    if f is by_heads:
        shape = (2, 270, 8, 16)
    x = randoms((shape,) * 4)
    plain: Any = mlc.compile(fusion="none")(weighed(f))
    fused: Any = mlc.compile(target=cpu)(weighed(f))
    for found, want in zip(fused(*x), plain(*(a.astype(float) for a in x)), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("f", [causal, by_heads])
def test_bits_do_not_depend_on_threads(f: Program) -> None:
    x = randoms((((2, 8, 300, 64) if f is causal else (2, 300, 8, 64)),) * 4)
    runs = [mlc.compile(weighed(f), target=RUNNABLE, threads=n) for n in (1, 2, 3, 16)]
    assert both_ways(runs[0].lower(*x).levels.plan())
    first, *others = ([np.asarray(y) for y in run(*x)] for run in runs)
    for found in others:
        for one, other in zip(first, found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_tiles_that_a_mask_leaves_out_are_skipped() -> None:
    """Of 8 x 8 tiles of 64 rows those below the diagonal run, with a mask that is given or made."""
    x = randoms(((8, 512, 64),) * 4)
    below = 8 * (8 * 9 // 2)
    assert trips(weighed(written), *x, target=RUNNABLE).count(below) == 5
    assert trips(weighed(masked), *x, below_diagonal(512, 512), target=RUNNABLE).count(below) == 5


def test_rows_without_keys_and_special_values() -> None:
    """Rows that see nothing weigh all alike; what is not a number stays where it is seen."""
    x = randoms(((8, 330, 32), (8, 300, 32), (8, 300, 32), (8, 330, 32)))
    mask = below_diagonal(330, 300)
    mask[3] = mask[200] = False
    f: Any = mlc.compile(weighed(masked), target=RUNNABLE)
    plain: Any = mlc.compile(fusion="none")(weighed(masked))
    for one, want in zip(f(*x, mask), plain(*(a.astype(float) for a in x), mask), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-4)
    x[0][1, 250, 5] = np.nan
    found = f(*x, below_diagonal(330, 300))
    assert all(np.isfinite(np.delete(a, 1, axis=0)).all() for a in found)
    assert np.isnan(found[0][1, 250]).all()
    assert np.isfinite(found[0][1, :200]).all()
    assert np.isnan(found[1][1, :250]).any(axis=-1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("f", [moments, margins])
def test_any_sums_of_a_product(f: Callable[..., Any], dtype: Any) -> None:
    x = randoms(((16, 700, 32), (16, 900, 32)), dtype)
    x = [a / 8 for a in x]
    run: Any = mlc.compile(f, target=RUNNABLE)
    assert both_ways(run.lower(*x).levels.plan())
    for found, want in zip(run(*x), f(*(a.astype(float) for a in x)), strict=True):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=1e-4)


def test_one_compilation_for_all_lengths() -> None:
    sizes = {"x": {1: "M"}, "y": {1: "N"}}
    f: Any = mlc.compile(target=RUNNABLE, dynamic=sizes)(margins)
    for m, n in ((1, 1), (3, 260), (300, 513), (64, 129), (0, 5)):
        x = [a / 8 for a in randoms(((8, m, 32), (8, n, 32)))]
        for found, want in zip(f(*x), margins(*(a.astype(float) for a in x)), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    assert f.stats().compilations == 1


@pytest.mark.parametrize(
    ("f", "tile"), covering([causal, written, by_heads], [(8, 8), (16, 5), (7, 12)], strength=1)
)
def test_the_reference_agrees(f: Program, tile: tuple[int, int]) -> None:
    """The program, its loops, their kernels, and these with their memory mean the same."""
    x = randoms(((2, 20, 3, 8) if f is by_heads else (2, 3, 20, 8),) * 4)
    levels = planned(weighed(f), *(spec(*a.shape) for a in x), target="avx2")
    module = levels.at("tensor").clone()
    wanted = interpret(module, x)
    FormTilesPass(tile=tile).apply(Context(), module)
    assert both_ways(module)
    for step in (None, SplitFoldsPass(), FormKernelsPass(), PlanBuffersPass()):
        if step is not None:
            step.apply(Context(), module)
        module.verify()
        for found, want in zip(interpret(module, x), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
