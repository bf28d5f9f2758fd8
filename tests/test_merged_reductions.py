"""Reductions of the same points in one kernel: NumPy's values, the same bits for any team."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.plans import planned

rng = np.random.default_rng(0)
LONG = tuple(rng.standard_normal(300_001).astype(np.float32) for _ in range(2))
ROWS = tuple(rng.standard_normal((37, 1003)).astype(np.float32) for _ in range(2))


def of_all(x: Any, y: Any) -> Any:
    return (x * y).sum(), (x - y).max(), np.abs(x).sum() + 1, x.min()


def live(x: Any, y: Any) -> Any:
    out = 1.0 - y * (x + 0.1 * y)
    positive = out > 0
    return 0.3 - np.sum(out * positive * y), 0.7 + np.sum(y * positive * y)


def of_rows(x: Any, y: Any) -> Any:
    return (x * y).sum(1), (x - y).max(1), np.sqrt(np.abs(x * y).sum(1)), x.mean(1) * 2


def in_turn(x: Any, y: Any) -> Any:
    s = x.sum()
    return s, (x - s).max(), (x * y).sum(), (x.astype(np.float64) * y).sum()


def of_kinds(x: Any, y: Any) -> Any:
    return x.sum(), x.argmax(), (x > y).any(), (x > 0).sum(), x.prod()


def bodies(x: Any, y: Any) -> Any:
    """A matrix that three products with a vector read, of whose results each needs the others."""
    p, q, m = x[0, :200], y[0, :200], x[1, :200]
    dx, dy = p[None, :] - p[:, None], q[None, :] - q[:, None]
    near = 1.0 / np.sqrt(dx * dx + dy * dy + 0.5)
    u, v = (dx * near) @ m, (dy * near) @ m
    return u, v * 2 - u, near @ m + v, (dx * near).T @ m


CASES: list[tuple[Callable[..., Any], Any]] = [
    (of_all, LONG), (live, LONG), (in_turn, LONG), (of_kinds, LONG),
    (of_all, ROWS), (of_rows, ROWS), (in_turn, ROWS), (of_kinds, ROWS),
    (bodies, ROWS),
]  # fmt: skip


@pytest.mark.parametrize(("function", "inputs"), CASES)
@pytest.mark.parametrize(
    "options", [{}, {"numerics": "strict"}, {"numerics": "fast"}, {"dynamic": True}]
)
def test_values_are_numpys_whatever_the_team(
    function: Callable[..., Any], inputs: Any, options: dict[str, Any]
) -> None:
    found: list[Any] = [mlc.compile(threads=n, **options)(function)(*inputs) for n in (1, 2, 3)]
    for x, expected in zip(found[0], function(*inputs), strict=True):
        np.testing.assert_allclose(x, expected, rtol=3e-4, atol=1e-2)
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(("function", "count"), [(live, 1), (of_all, 1), (in_turn, 2)])
def test_memory_is_read_once(function: Callable[..., Any], count: int) -> None:
    specs = [mlc.TensorSpec(300_001, dtype="f32")] * 2
    report = planned(function, *specs, target="avx2").report({})
    assert sum(kernel.bytes > 1000 for kernel in report.kernels) == count


def test_nothing_is_merged_without_fusion() -> None:
    specs = [mlc.TensorSpec(300_001, dtype="f32")] * 2
    text = planned(live, *specs, target="avx2", fusion="none").text("plan")
    assert text.count('mlc.reduce "sum"') == text.count('= mlc.kernel "magg"') == 2
