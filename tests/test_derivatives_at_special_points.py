"""
Derivatives at ties, kinks, zeros and infinities, where a rule decides: NumPy-written functions by
the reference interpreter. Equal elements share a derivative; what `where` did not choose never
shows; lengths have the derivative 0 at 0; logarithmic sums are shares of their terms.
"""

# NumPy's types do not describe traced arrays
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc import nn

Array = NDArray[np.float64]
INF = float("inf")
One = Callable[[Any], Any]
Table = dict[str, tuple[One, list[float], list[float]]]


def _gradient(f: Callable[..., Any], *x: Any, by: int | tuple[int, ...] = 0) -> Any:
    arrays = [np.asarray(v, np.float64) for v in x]

    def total(*values: Any) -> Any:
        return np.sum(f(*values))

    with np.errstate(all="ignore"):
        return mlc.compile(mlc.grad(total, by)).reference(*arrays)


def _deep(x: Any) -> Any:
    found: Any = np.where(x > 0, np.exp(np.log(np.sqrt(x))) * 2, x)
    return found


def _nested(x: Any) -> Any:
    inner: Any = np.where(x > 2, 1 / (x - 2), np.sqrt(3 - x))
    found: Any = np.where(x > 0, inner, np.log(-x - 5))
    return found


def _spread(x: Any) -> Any:
    wide: Any = np.sqrt(x)[:, None] * np.ones(3)
    return np.where(x[:, None] > 0, wide, 0)


def _summed(x: Any) -> Any:
    return np.where(np.sum(x) > 100, np.sum(np.sqrt(x)), 1.0)


def _turned(x: Any) -> Any:
    rows = np.log(np.reshape(x, (1, 3))).T
    return np.where(np.reshape(x, (3, 1)) > 0, rows, 0)


TIES: Table = {
    "max": (np.max, [1, 3, 3, 2], [0, 0.5, 0.5, 0]),
    "min": (np.min, [1, 1, 3, 1], [1 / 3, 1 / 3, 0, 1 / 3]),
    "clip": (lambda x: np.clip(x, 0, 1), [-1, 0, 0.5, 1, 2], [0, 0.5, 1, 0.5, 0]),
    "relu": (nn.relu, [-1, 0, 1], [0, 0, 1]),
    "sort": (lambda x: np.sort(x) * np.arange(4.0), [2, 1, 2, 1], [2, 0, 3, 1]),
    "running maximum": (np.maximum.accumulate, [1, 3, 2, 3, 5], [1, 2, 0, 1, 1]),
}
ZEROS: Table = {
    "abs": (np.abs, [-1, 0, 1], [-1, 0, 1]),
    "sqrt": (np.sqrt, [0, 1], [INF, 0.5]),
    "x**0": (lambda x: x**0.0, [0, 1], [0, 0]),
    "x**2": (lambda x: x**2.0, [0, -2], [0, -4]),
    "product": (np.prod, [2, 3, 4], [12, 8, 6]),
    "product with a zero": (np.prod, [2, 0, 4], [0, 8, 0]),
    "product with two": (np.prod, [0, 0, 4], [0, 0, 0]),
    "running product": (np.cumprod, [2, 0, 4, 0, 5], [1, 10, 0, 0, 0]),
    "norm": (np.linalg.norm, [0, 0], [0, 0]),
    "std": (np.std, [1, 1], [0, 0]),
    "sinc": (np.sinc, [0, 0.5], [0, -4 / np.pi]),
}
LARGE: Table = {
    "logsumexp": (nn.logsumexp, [1000, 1000, -INF], [0.5, 0.5, 0]),
    "running logsumexp": (np.logaddexp.accumulate, [-1000, 0, 1000, 1000], [1, 1, 1.5, 0.5]),
    "softplus": (nn.softplus, [-800, 0, 800], [0, 0.5, 1]),
    "log_sigmoid": (nn.log_sigmoid, [-800, 0, 800], [1, 0.5, 0]),
    "sigmoid": (nn.sigmoid, [-800, 0, 800], [0, 0.25, 0]),
    "tanh": (np.tanh, [0, 500], [1, 0]),
}
SELECTED: Table = {
    "root": (lambda x: np.where(x > 0, np.sqrt(x), 0), [0, -1, 4], [0, 0, 0.25]),
    "chain": (_deep, [0, -1, 4], [1, 1, 0.5]),
    "nested": (_nested, [2, 0, -6, 4], [-0.5, 0.2, -1, -0.25]),
    "through a broadcast": (_spread, [0, -1, 4], [0, 0, 0.75]),
    "through a sum": (_summed, [0, -1, 4], [0, 0, 0]),
    "through a transpose": (_turned, [0, -1, 4], [0, 0, 0.25]),
}


@pytest.mark.parametrize(
    "table", [TIES, ZEROS, LARGE, SELECTED], ids=["ties", "zeros", "large", "where"]
)
def test_gradients_where_a_rule_decides(table: Table) -> None:
    for name, (f, x, want) in table.items():
        np.testing.assert_allclose(_gradient(f, x), want, rtol=1e-9, atol=1e-12, err_msg=name)


def test_both_operands_share_a_tie() -> None:
    left, right = _gradient(np.maximum, [1, 2], [1, 0], by=(0, 1))
    np.testing.assert_array_equal([left, right], [[0.5, 1], [0.5, 0]])
    left, right = _gradient(np.logaddexp, [0, -800, -INF, 3], [0, 800, -INF, -INF], by=(0, 1))
    np.testing.assert_array_equal([left, right], [[0.5, 0, 0.5, 1], [0.5, 1, 0.5, 0]])


def test_powers_of_zero() -> None:
    """d/dx x^y = y x^(y-1), 0 for y = 0; d/dy = x^y ln x, 0 for x = 0 and y >= 0."""
    by_x, by_y = _gradient(np.power, [0, 0, 0, 2], [0, 1, 2, 0], by=(0, 1))
    np.testing.assert_allclose([by_x, by_y], [[0, 1, 0, 0], [0, 0, 0, np.log(2)]])


def test_angles_and_lengths_at_the_origin_and_out_of_range() -> None:
    np.testing.assert_allclose(_gradient(np.hypot, [0, 3], [0, 4], by=(0, 1)), [[0, 0.6], [0, 0.8]])
    found = _gradient(np.arctan2, [0, 3e200], [0, 4e200], by=(0, 1))
    np.testing.assert_allclose(found, [[0, 1.6e-201], [0, -1.2e-201]], rtol=1e-12)


def test_the_size_of_a_complex_number() -> None:
    z = np.array([0, 3 + 4j])

    def total(x: Any) -> Any:
        return np.sum(np.abs(x))

    found = mlc.compile(mlc.grad(total)).reference(z)
    np.testing.assert_allclose(found, [0, 0.6 - 0.8j])  # sum(found * dz) is real


def test_second_derivatives_of_a_product_with_zeros() -> None:
    """d2(abc) / da db = c"""

    def product(z: Any) -> Any:
        return np.prod(z)

    def along(y: Any, v: Any) -> Any:
        found: Any = mlc.grad(product)(y)
        return found * v

    for x in ([2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]):
        want = np.array([[0, x[2], x[1]], [x[2], 0, x[0]], [x[1], x[0], 0]])
        rows = [_gradient(along, x, row) for row in np.eye(3)]
        np.testing.assert_allclose(rows, want)


# Cross-entropy


def _softmax(x: Array) -> Any:
    found: Any = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return found / np.sum(found, axis=-1, keepdims=True)


def _written(x: Any, t: Any) -> Any:
    logs: Any = nn.log_softmax(x)
    return -np.mean(np.sum(t * logs, axis=-1))


@pytest.mark.parametrize("loss", [nn.cross_entropy, _written])
def test_the_gradient_of_cross_entropy_is_softmax_less_target(loss: Callable[..., Any]) -> None:
    """No exp and no log beside the softmax's one exp: the optimised backward pass, by its ops."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 10)) * 20
    t = np.eye(10)[rng.integers(0, 10, 8)]
    compiled = mlc.compile(mlc.grad(loss))
    np.testing.assert_allclose(compiled.reference(x, t), (_softmax(x) - t) / 8, atol=1e-15)
    spec = mlc.TensorSpec("N", "K", dtype="f64")
    text = compiled.lower(spec, spec).text("tensor")
    assert text.count("mlc.exp ") == 1
    assert "mlc.log" not in text
