"""Reductions of few long rows: workers take blocks of them, with the same bits for any number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.analysis.access import nest_of
from mlc.dialects.analysis.shares import shares_columns
from mlc.dialects.plan import KernelOp
from tests.plans import RUNNABLE, planned

Array = Any


def several(x: Array) -> tuple[Array, ...]:
    """Merged into one walk."""
    return x.sum(-1), (x * x).sum(-1), x.max(-1)


def total(x: Array) -> Array:
    return x.sum(1)


def behind(x: Array) -> tuple[Array, ...]:
    m = x.max(-1)
    return m, np.log(np.exp(x - m[..., None]).sum(-1)) + m


def counted(x: Array) -> tuple[Array, ...]:
    """What ends early, and what searches for a position, keep their own ways."""
    return x.argmax(-1), (x > 4).any(-1), np.abs(x).min(-1)


@pytest.mark.parametrize("f", [several, behind, counted])
@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(1).standard_normal((3, 200003)).astype("f4"),
        np.random.default_rng(2).standard_normal((2, 2, 150001)),
        np.random.default_rng(3).standard_normal((400006, 5)).T,
        np.random.default_rng(4).integers(-90, 90, (15, 140000)).astype("i4"),
    ],
    ids=["3", "2x2", "strided", "15"],
)
def test_bits_do_not_depend_on_threads(f: Callable[..., Any], x: Array) -> None:
    runs = [mlc.compile(f, target=RUNNABLE, threads=n) for n in (1, 2, 3, 16)]
    first, *others = ([np.asarray(y) for y in run(x)] for run in runs)
    for other in others:
        assert [y.tobytes() for y in other] == [y.tobytes() for y in first]
    wide = x.astype(float) if x.dtype.kind == "f" else x
    if f is not behind or x.dtype.kind == "f":
        for found, wanted in zip(first, f(wide), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize(
    ("rows", "columns", "shares"),
    [
        (1, 10**6, False),
        (2, 10**6, True),
        (15, 131072, True),
        (15, 131071, False),
        (16, 10**6, False),
    ],
)
def test_few_and_long(rows: int, columns: int, shares: int) -> None:
    """By sizes alone, whatever the machine."""
    x = mlc.TensorSpec(rows, columns, dtype="f32")
    for target in ("avx2", "amx"):
        plan = planned(total, x, target=target).plan()
        (nest,) = (nest_of(op) for op in plan.walk() if isinstance(op, KernelOp))
        assert nest is not None
        assert shares_columns(nest) == shares
