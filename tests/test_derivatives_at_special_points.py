"""
Derivatives at ties, kinks, zeros and infinities, where a rule decides: NumPy-written functions by
the reference interpreter. Equal elements share a derivative; what `where` did not choose never
shows; lengths have the derivative 0 at 0; logarithmic sums are shares of their terms.
"""

# NumPy's types do not describe traced arrays
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
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


# Higher orders


def _orders(f: One, count: int) -> Callable[[Any], Any]:
    """The derivatives of an elementwise function, forward and reverse, up to an order."""

    def pushed(g: One) -> One:
        return lambda x: mlc.jvp(g, (x,), (np.ones_like(x),))[1]

    def pulled(g: One) -> One:
        def total(y: Any) -> Any:
            return np.sum(g(y))

        return mlc.grad(total)

    def run(x: Any) -> Any:
        found: list[Any] = []
        forward = back = f
        for _ in range(count):
            forward, back = pushed(forward), pulled(back)
            found.append((forward(x), back(x)))
        return found

    return run


SMOOTH: dict[str, tuple[One, list[float], list[list[float]]]] = {
    "softplus": (nn.softplus, [0, 800], [[0.5, 1], [0.25, 0], [0, 0]]),
    "log_sigmoid": (nn.log_sigmoid, [0, -800], [[0.5, 1], [-0.25, 0], [0, 0]]),
    "logaddexp": (lambda x: np.logaddexp(x, 2 * x), [0, INF], [[1.5, 1.5], [0.25, 0], [0, 0]]),
    "logaddexp2": (
        lambda x: np.logaddexp2(x, 2 * x),
        [0],
        [[1.5], [np.log(2) / 4], [0]],
    ),
    "binary_cross_entropy": (
        lambda x: nn.binary_cross_entropy(x, 0.25, reduction="none"),
        [0],
        [[0.25], [0.25], [0]],
    ),
    "huber_loss": (
        lambda x: nn.huber_loss(x, 1.0, reduction="none"),
        [1, 1.5],
        [[0, 0.5], [1, 1], [0, 0]],
    ),
    "elu": (nn.elu, [0], [[1], [1], [1]]),
    "celu": (lambda x: nn.celu(x, 0.5), [0], [[1], [2], [4]]),
    "sinc": (np.sinc, [0, 1], [[0, -1], [-(np.pi**2) / 3, 2], [0, np.pi**2 - 6]]),
    "x**x": (lambda x: x**x, [1], [[1], [2], [3]]),
    "norm": (lambda x: np.linalg.norm(x) * np.ones(2), [0, 0], [[0, 0]] * 3),
    "norm of order 3": (lambda x: np.linalg.norm(x, 3) * np.ones(2), [0, 0], [[0, 0]] * 3),
    "hypot": (lambda x: np.hypot(x, 2 * x), [0], [[0], [0], [0]]),
    "where": (lambda x: np.where(x > 0, np.sqrt(x), 0), [0, 1], [[0, 0.5], [0, -0.25], [0, 0.375]]),
    "where, read twice": (
        lambda x: np.where(x != 0, (np.sin(x) / x) ** 2 + np.sin(x) / x, 2),
        [0],
        [[0], [0], [0]],
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_three_orders_in_both_modes(name: str) -> None:
    f, x, wanted = SMOOTH[name]
    with np.errstate(all="ignore"):
        found = mlc.compile(_orders(f, 3)).reference(np.array(x, np.float64))
    for order, (pair, want) in enumerate(zip(found, wanted, strict=True), 1):
        for mode, value in zip(("forward", "reverse"), pair, strict=True):
            says = f"{mode}, order {order}"
            np.testing.assert_allclose(value, want, rtol=1e-9, atol=1e-12, err_msg=says)


def test_sinc_is_accurate_beside_zero() -> None:
    """cos(x)/x - sin(x)/x² cancels there: the error would be eps / x."""
    x = np.array([1e-12, 1e-8, 1e-5, 1e-3, 0.1, 0.3, 0.35])
    found = mlc.compile(_orders(np.sinc, 2)).reference(x)
    series = np.zeros(40)
    for k in range(20):
        series[2 * k] = (-1) ** k / math.factorial(2 * k + 1)
    for order, pair in enumerate(found, 1):
        want = np.pi**order * np.polynomial.Polynomial(series).deriv(order)(np.pi * x)
        for value in pair:
            np.testing.assert_allclose(value, want, rtol=1e-13)


def test_mixed_derivatives_of_powers() -> None:
    """d²(x^y) / dx dy = x^(y-1) (1 + y ln x), at y = 0 too."""

    def power(p: Any) -> Any:
        return p[0] ** p[1]

    found = mlc.compile(mlc.hessian(power)).reference(np.array([2.0, 0.0]))
    np.testing.assert_allclose(found, [[0, 0.5], [0.5, np.log(2) ** 2]])


def test_a_logistic_regression_has_a_hessian_at_zero() -> None:
    x = np.random.default_rng(1).standard_normal((6, 3))
    y = np.arange(6.0) % 2

    def loss(w: Any) -> Any:
        return nn.binary_cross_entropy(x @ w, y, reduction="sum")

    found = mlc.compile(mlc.hessian(loss)).reference(np.zeros(3))
    np.testing.assert_allclose(found, x.T @ x / 4)


def test_linspace_of_one_number_is_its_start() -> None:
    def one(a: Any, b: Any) -> Any:
        return np.sum(np.linspace(a, b, 1))

    value, slopes = mlc.compile(mlc.value_and_grad(one, (0, 1))).reference(3.0, 5.0)
    assert (value, *slopes) == (3.0, 1.0, 0.0)
