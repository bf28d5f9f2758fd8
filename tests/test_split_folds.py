"""Walks whose states combine, in parts: with the same bits on any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from xdsl.context import Context

import mlc
from mlc.dialects.errors import PlanError
from mlc.dialects.tensor.tiles import TilesOp
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.plan.tiling.form_tiles import FormTilesPass
from mlc.passes.plan.tiling.split_folds import SplitFoldsPass
from mlc.runtime.interpret import interpret
from tests.plans import planned
from tests.sweeps import covering

Array = Any


def attention(q: Array, k: Array, v: Array) -> Array:
    s = q @ k.T * 0.125
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def some_masked(q: Array, k: Array, v: Array) -> Array:
    s = np.where(k[:, 0] > 0, q @ k.T * 0.125, -np.inf)
    e = np.exp2(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def moments(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    s = q @ k.T + 100.0
    return s.mean(-1), s.var(-1), s.max(-1)


def nearest(q: Array, k: Array, v: Array) -> Array:
    return ((q * q).sum(1)[:, None] - 2 * (q @ k.T) + (k * k).sum(1)[None]).argmin(1)


def closest(q: Array, k: Array, v: Array) -> Array:
    return np.abs(q[:, :1] - k[:, 0]).argmin(1)


def sums(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    s = np.tanh(q @ k.T)
    return s.sum(1), s.max(1)


def operands(rows: int, columns: int, dtype: Any = np.float32) -> list[Array]:
    rng = np.random.default_rng(rows)
    found = [rng.standard_normal((n, 64)).astype(dtype) for n in (rows, columns, columns)]
    found[1][: columns // 3, 0] = -1.0  # whole parts are masked, and the first of them
    return found


def results_of(found: Any) -> list[Array]:
    several = cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)
    return [np.asarray(x) for x in several]


@pytest.mark.parametrize(
    ("f", "rows"),
    covering([attention, some_masked, moments, nearest, sums], [96, 200], strength=1),
)
def test_few_rows_are_shared_by_columns(f: Callable[..., Any], rows: int) -> None:
    """One tile of rows, or fewer than cores: threads share what the walk carries, in parts."""
    x = operands(rows, 20011)
    wanted = results_of(f(*(a.astype(float) for a in x)))
    runs = [mlc.compile(f, target="avx2", threads=n) for n in (1, 2, 3, 16)]
    plan = runs[0].lower(*x).text("plan")
    if f is sums:
        assert 'fold("sum", "max")' in plan
    elif f is not some_masked or rows < 128:  # tiles of rows leave out more of what is masked
        assert "parts 32" in plan
    first, *others = (results_of(run(*x)) for run in runs)
    for found, exact in zip(first, wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-4)
    for other in others:
        assert [a.tobytes() for a in other] == [a.tobytes() for a in first]


def test_special_values_pass_from_part_to_part() -> None:
    """NaN and infinities, and rows of which nothing is left."""
    x = operands(96, 20011)
    x[0][3] = np.nan
    x[1][19000, 1] = np.inf
    x[1][:, 0] = np.where(np.arange(20011) == 12345, 1.0, -1.0)
    with np.errstate(all="ignore"):
        exact = some_masked(*(a.astype(float) for a in x))
        found = mlc.compile(some_masked, target="avx2", threads=2)(*x)
        np.testing.assert_allclose(found, exact, rtol=2e-5, atol=1e-5)
        x[1][:, 0] = -1.0
        assert np.isnan(mlc.compile(some_masked, target="avx2", threads=2)(*x)).all()


def test_the_first_of_equals_is_found_in_whatever_part() -> None:
    q, k, v = operands(96, 20011)
    k[:] = k[7]
    x = q, k, v
    assert not mlc.compile(nearest, target="avx2", threads=2)(*x).any()


@pytest.mark.parametrize(("columns", "parts"), covering([24, 130], [1, 3, 64], strength=1))
def test_any_number_of_parts(columns: int, parts: int) -> None:
    """More of them than trips too: what has no trip is the monoid's identity."""
    x = operands(5, columns, np.float64)
    for f in (attention, some_masked, moments, closest):
        module = planned(f, *x, target="avx2").at("tensor")
        FormTilesPass(tile=(8, 8)).apply(Context(), module)
        loops = [op for op in module.walk() if isinstance(op, TilesOp)]
        assert any(op.combine is not None for op in loops)
        whole = interpret(module, x)
        with pytest.raises(PlanError, match="mlc-split-folds: run it first"):
            FormKernelsPass().apply(Context(), module.clone())
        SplitFoldsPass(parts).apply(Context(), module)
        module.verify()
        assert not any(isinstance(op, TilesOp) and op.combine for op in module.walk())
        for found, other, exact in zip(interpret(module, x), whole, results_of(f(*x)), strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-9)
            np.testing.assert_allclose(other, exact, rtol=1e-9)


@pytest.mark.parametrize("made", ["half", "minus", "guarded"])
@pytest.mark.parametrize("rows", [96, 3000])
def test_what_is_made_of_the_maximum_may_be_no_number_yet(made: str, rows: int) -> None:
    """The first columns are all -inf; what sums follow may also fall when the maximum grows."""

    def f(q: Array, k: Array, v: Array) -> Array:
        s = np.where(k[:, 0] > 0, q @ k.T * 0.125, -np.inf)
        m = s.max(-1, keepdims=True)
        ways = {"half": m * 0.5, "minus": m * -0.5, "guarded": np.where(m == -np.inf, 0.0, m)}
        return np.exp(s - ways[made]).sum(-1)

    x = operands(rows, 8000)
    with np.errstate(all="ignore"):
        for _ in range(2):
            exact = f(*(a.astype(float) for a in x))
            found = [mlc.compile(f, target="avx2", threads=n)(*x) for n in (1, 3)]
            np.testing.assert_allclose(found[0], exact, rtol=1e-4)
            assert found[0].tobytes() == found[1].tobytes()
            x[1][:, 0] = -1.0  # nothing is left
