"""Generators that a compiled function seeds: NumPy's numbers, at every call."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from tests.against_numpy import agree

X = np.arange(20.0).reshape(5, 4)


def _draws(xp: Any, x: Any) -> Any:
    rng = np.random.default_rng(7)
    noise = rng.random(x.shape)
    noise[0] = 1
    more = x * rng.standard_normal(4) + rng.normal(2.0, 0.5, (5, 1)) + rng.random()
    return noise, more, rng.integers(0, 9, 3) + 0 * x[:3, 0].astype(int), rng.uniform(-1, 1, 4) + x


def _orders(xp: Any, x: Any) -> Any:
    rng = np.random.default_rng(3)
    y, row = x.copy(), x[:, 0].copy()
    rng.shuffle(y)
    rng.shuffle(row)
    some = rng.choice(x, 3), rng.choice(row, (2, 2)), rng.choice(x, 2, replace=False, axis=1)
    return y, row, *some, rng.permutation(x), rng.permutation(row), x + rng.permutation(4)


def _streams(xp: Any, x: Any) -> Any:
    bits = np.random.Philox(5), np.random.PCG64(5), np.random.SFC64(5)
    return tuple(x + np.random.Generator(b).standard_normal(4) for b in bits)


@pytest.mark.parametrize("function", [_draws, _orders, _streams])
def test_the_stream_is_numpys(function: Any) -> None:
    agree(function, X, eager=False)
    compiled = mlc.compile(lambda x: function(np, x))
    for a, b in zip(compiled(X), compiled(X + 0), strict=True):
        np.testing.assert_array_equal(a, b)


def _in_a_loop(x: Any) -> Any:
    rng = np.random.default_rng(0)
    return mlc.fori_loop(0, 3, lambda k, s: s + rng.random(4), x)


def test_what_is_refused() -> None:
    kept = np.random.default_rng(1)
    for refused in (
        lambda x: x + np.random.default_rng().random(4),
        lambda x: x + np.random.default_rng(x[0, 0].astype(int)).random(4),
        lambda x: x + kept.random(4),
        lambda x: x + np.random.default_rng(0).gamma(x),
        _in_a_loop,
    ):
        with pytest.raises(mlc.NotSupportedError):
            mlc.compile(refused)(X)


def test_derivatives_and_batches() -> None:
    def loss(x: Any) -> Any:
        return (x * np.random.default_rng(2).random(4)).sum()

    want = np.random.default_rng(2).random(4)
    np.testing.assert_array_equal(mlc.grad(loss)(X[0]), want)
    np.testing.assert_allclose(mlc.compile(mlc.vmap(loss))(X), X @ want)


def scaled(s: Any, n: int) -> Any:
    rng = np.random.default_rng(1)
    return (
        *(rng.normal(0, s, n), rng.uniform(0, s, (n, 2)), rng.exponential(s, size=3)),
        *(rng.random((n, 2)), rng.integers(0, n, 4), rng.normal(s, 1.0), rng.permutation(n)),
    )


def test_sizes_and_scales_may_be_arguments() -> None:
    compiled = mlc.compile(scaled)
    for s, n in ((2.0, 3), (0.5, 4), (3.0, 4)):
        for found, wanted in zip(compiled(s, n), scaled(s, n), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_python_integer_among_the_arguments_is_a_seed() -> None:
    @mlc.compile
    def drawn(seed: Any) -> Any:
        rng = np.random.default_rng(seed)
        return rng.standard_normal(4), rng.integers(0, 10, size=3)

    for seed in (7, 8):
        rng = np.random.default_rng(seed)
        normal, integers = drawn(seed)
        np.testing.assert_array_equal(normal, rng.standard_normal(4))
        np.testing.assert_array_equal(integers, rng.integers(0, 10, size=3))
