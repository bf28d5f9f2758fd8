"""Contractions of one tensor as one: the same numbers, one kernel, nothing copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc import nn

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
    lowered = mlc.compile(**options)(f).lower(*arguments)
    text = lowered.text("tensor")
    products = text.count(" = mlc.contract ") + text.count(" = mlc.conv ")
    return products, lowered.compile().plan().copied_bytes


def test_queries_keys_and_values_are_one_product_and_views() -> None:
    width = HEADS * WIDTH
    arguments = [normal(ROWS, DEPTH), *(normal(DEPTH, width) / 7 for _ in range(3))]
    arguments += [normal(width) for _ in range(3)]
    assert merged(attention, *arguments) == (3, 0)  # the projections, the scores, the averages
    found = mlc.compile(attention)(*arguments)
    np.testing.assert_allclose(found, attention(*arguments), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("widths", [(16, 48), (17, 33, 5), (64, 64, 64), (1, 100)])
@pytest.mark.parametrize("turned", [False, True])
def test_factors_of_any_width(widths: tuple[int, ...], turned: bool) -> None:
    """Panels inside one factor, across two, and past the last."""

    def f(x: Any, *factors: Any) -> Any:
        return sum((x @ (w.T if turned else w)).max(axis=1) for w in factors)

    shapes = [(n, DEPTH) if turned else (DEPTH, n) for n in widths]
    arguments = [normal(ROWS, DEPTH), *(normal(*shape) for shape in shapes)]
    assert merged(f, *arguments)[0] == 1
    found = mlc.compile(f).lower(*arguments).compile()(*arguments)
    reference = mlc.compile(f).reference(*arguments)
    np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-4)


def test_sibling_convolutions_are_one() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        first: Any = nn.conv(x, a)
        second: Any = nn.conv(x, b)
        return first.max((1, 2, 3)) + second.min((1, 2, 3))

    arguments = normal(2, 6, 11, 11), normal(24, 6, 3, 3), normal(40, 6, 3, 3)
    assert merged(f, *arguments) == (1, 0)
    found = mlc.compile(f)(*arguments)
    np.testing.assert_allclose(found, mlc.compile(f).reference(*arguments), rtol=1e-4, atol=1e-4)


def test_rows_in_batches_of_unknown_number() -> None:
    """There are at least the 32 rows of one entry."""

    def f(x: Any, a: Any, b: Any) -> Any:
        return (x @ a).max(axis=2) + (x @ b).max(axis=2)

    arguments = normal(3, 32, 24), normal(24, 40), normal(24, 24)
    assert merged(f, *arguments, dynamic={"x": {0: "B"}})[0] == 1
    g = mlc.compile(dynamic={"x": {0: "B"}})(f)
    for count in (3, 1, 0):
        x = arguments[0][:count]
        np.testing.assert_allclose(g(x, *arguments[1:]), f(x, *arguments[1:]), rtol=1e-5, atol=1e-5)


def test_remark_says_what_is_saved_or_why_not() -> None:
    def results(x: Any, a: Any, b: Any) -> Any:
        return x @ a, x @ b

    def sums(x: Any, a: Any, b: Any) -> Any:
        return (x @ a).max(axis=1) + (x @ b).max(axis=1)

    arguments = normal(64, 32), normal(32, 40), normal(32, 40)
    (kept,) = mlc.compile(results).lower(*arguments).compile().remarks()
    assert "stay apart: a result leaves the function or region" in kept
    said = mlc.compile(sums).lower(*arguments).compile().remarks()
    assert any("1 kernels and 8192 bytes of reading less" in text for text in said)
