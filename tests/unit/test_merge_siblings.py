"""Contractions of one tensor as one: the same numbers, one kernel, nothing copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc import nn
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import named_target
from tests.plans import RUNNABLE, TARGETS, planned
from tests.sweeps import covering

RNG = np.random.default_rng(8)
ROWS, DEPTH, HEADS, WIDTH = 96, 48, 3, 16


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def heads(y: Any) -> Any:
    return y.reshape(ROWS, -1, WIDTH).transpose(1, 0, 2)


def attention(x: Any, wq: Any, wk: Any, wv: Any, bq: Any, bk: Any, bv: Any) -> Any:
    """softmax(q kᵀ) v of several heads."""
    q, k, v = heads(x @ wq + bq), heads(x @ wk + bk), heads(x @ wv + bv)
    scores = q @ k.transpose(0, 2, 1) / np.float32(4)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True)) @ v).transpose(1, 0, 2).reshape(ROWS, HEADS * WIDTH)


def merged(f: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[int, int]:
    """Products at the end of the tensor level, and bytes that the plan copies."""
    levels = planned(f, *arguments, **options)
    text = levels.text("tensor")
    products = text.count(" = mlc.contract ") + text.count(" = mlc.conv ")
    return products, levels.report({}).copied_bytes


def test_queries_keys_and_values_are_one_product_and_views(cpu: str) -> None:
    width = HEADS * WIDTH
    arguments = [normal(ROWS, DEPTH), *(normal(DEPTH, width) / 7 for _ in range(3))]
    arguments += [normal(width) for _ in range(3)]
    # the projections, the scores, the averages
    assert merged(attention, *arguments, target=cpu) == (3, 0)


def test_queries_keys_and_values_have_their_values() -> None:
    width = HEADS * WIDTH
    arguments = [normal(ROWS, DEPTH), *(normal(DEPTH, width) / 7 for _ in range(3))]
    arguments += [normal(width) for _ in range(3)]
    found = mlc.compile(target=RUNNABLE)(attention)(*arguments)
    np.testing.assert_allclose(found, attention(*arguments), rtol=2e-5, atol=2e-5)


WIDTHS = [(16, 48), (17, 33, 5), (64, 64, 64), (1, 100)]


def products(turned: bool) -> Callable[..., Any]:
    def f(x: Any, *factors: Any) -> Any:
        return sum((x @ (w.T if turned else w)).max(axis=1) for w in factors)

    return f


def with_factors(widths: tuple[int, ...], turned: bool) -> list[Any]:
    shapes = [(n, DEPTH) if turned else (DEPTH, n) for n in widths]
    return [normal(ROWS, DEPTH), *(normal(*shape) for shape in shapes)]


def is_narrow(columns: int, cpu: str) -> bool:
    """Whether a product reads so many columns where they lie, without packing."""
    target = named_target(cpu)
    assert isinstance(target, CpuTarget)
    return columns <= 4 * target.lanes(32)


@pytest.mark.parametrize(("widths", "turned", "cpu"), covering(WIDTHS, [False, True], TARGETS))
def test_factors_that_are_packed_are_packed_as_one(
    widths: tuple[int, ...], turned: bool, cpu: str
) -> None:
    arguments = with_factors(widths, turned)
    apart = is_narrow(sum(widths), cpu)
    expected = len(widths) if apart else 1
    assert merged(products(turned), *arguments, target=cpu)[0] == expected


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("turned", [False, True])
def test_factors_of_any_width(widths: tuple[int, ...], turned: bool) -> None:
    """Panels inside one factor, across two, and past the last."""
    f, arguments = products(turned), with_factors(widths, turned)
    found = mlc.compile(target=RUNNABLE)(f)(*arguments)
    reference = mlc.compile(f).reference(*arguments)
    np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-4)


def test_sibling_convolutions_are_one(cpu: str) -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        first: Any = nn.conv(x, a)
        second: Any = nn.conv(x, b)
        return first.max((1, 2, 3)) + second.min((1, 2, 3))

    arguments = normal(2, 6, 11, 11), normal(24, 6, 3, 3), normal(40, 6, 3, 3)
    assert merged(f, *arguments, target=cpu) == (1, 0)
    if cpu != RUNNABLE:
        return
    found = mlc.compile(target=cpu)(f)(*arguments)
    np.testing.assert_allclose(found, mlc.compile(f).reference(*arguments), rtol=1e-4, atol=1e-4)


def test_rows_in_batches_of_unknown_number(cpu: str) -> None:
    """There are at least the 32 rows of one entry."""

    def f(x: Any, a: Any, b: Any) -> Any:
        return (x @ a).max(axis=2) + (x @ b).max(axis=2)

    arguments = normal(3, 32, 24), normal(24, 40), normal(24, 24)
    count = merged(f, *arguments, dynamic={"x": {0: "B"}}, target=cpu)[0]
    assert count == (2 if is_narrow(64, cpu) else 1)
    if cpu != RUNNABLE:
        return
    g = mlc.compile(dynamic={"x": {0: "B"}}, target=cpu)(f)
    for count in (3, 1, 0):
        x = arguments[0][:count]
        np.testing.assert_allclose(g(x, *arguments[1:]), f(x, *arguments[1:]), rtol=1e-5, atol=1e-5)


def test_remark_says_what_is_saved_or_why_not(cpu: str) -> None:
    def results(x: Any, a: Any, b: Any) -> Any:
        return x @ a, x @ b

    def sums(x: Any, a: Any, b: Any) -> Any:
        return (x @ a).max(axis=1) + (x @ b).max(axis=1)

    arguments = normal(64, 32), normal(32, 40), normal(32, 40)
    (kept,) = planned(results, *arguments, target=cpu).remarks()
    assert "stay apart: a result leaves the function or region" in kept.text
    said = planned(sums, *arguments, target=cpu).remarks()
    assert any("1 kernels and 8192 bytes of reading less" in remark.text for remark in said)
