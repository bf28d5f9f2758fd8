"""`mlc.vmap` against a Python loop over the examples, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import mlc
from mlc.dialects.errors import ShapeError
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.trace.containers import flatten
from mlc.frontend.transforms.derivatives import grad

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4))
VECTOR: Any = X[0]
W = RNG.standard_normal((4, 2))


Function = Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]


def vmap(f: Function, *axes: Any, **options: Any) -> Any:
    """`mlc.vmap`, for functions whose parameters have no types."""
    return mlc.vmap(f, *axes, **options)


def gradient(f: Callable[[Any], Any] | Callable[[Any, Any], Any]) -> Any:
    """`grad`, likewise."""
    return grad(f)


def looped(f: Callable[..., Any], *columns: Any) -> Any:
    """f for each example, one after the other; `columns` are lists of the examples' arguments."""
    rows = [f(*row) for row in zip(*columns, strict=True)]
    leaves = [flatten(row)[0] for row in rows]
    return [np.stack(column) for column in zip(*leaves, strict=True)]


def agrees(made: Any, expected: Any, *args: Any) -> None:
    """Called outside, by the reference and inside a compiled function."""
    inner = mlc.compile(made)
    for found in (made(*args), made.compiled.reference(*args), inner(*args)):
        for x, y in zip(flatten(found)[0], expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)
            assert np.shape(x) == np.shape(y)


def layer(x: Any, w: Any) -> Any:
    return np.tanh(x @ w), x.sum()


def test_one_array_is_mapped_and_one_is_shared() -> None:
    made = vmap(layer, in_axes=(0, None))
    agrees(made, looped(layer, X, [W] * 3), X, W)
    agrees(vmap(layer, (-1, None), (1, 0)), [np.tanh(X @ W).T, X.sum(1)], X.T, W)
    both = np.stack([W, -W, 2 * W])
    agrees(vmap(layer), looped(layer, X, both), X, both)


def test_axes_are_containers_like_the_arguments() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"y": x @ p["w"] + p["b"][0], "b": p["b"][0]}

    p = {"w": W, "b": [RNG.standard_normal((2, 5))]}
    xs = RNG.standard_normal((5, 4))
    made = vmap(f, in_axes=({"b": [1], "w": None}, 0), out_axes={"b": 0, "y": 1})
    rows = [f({"w": W, "b": [p["b"][0][:, i]]}, xs[i]) for i in range(5)]
    expected = [np.stack([r["y"] for r in rows], 1), np.stack([r["b"] for r in rows])]
    agrees(made, expected, p, xs)


class Pair(NamedTuple):
    """A result with names."""

    a: Any
    b: Any


def test_results_keep_their_container_and_what_is_no_array() -> None:
    made = vmap(lambda x: Pair(x + 1, (None, 2)), out_axes=0)
    found = made(X)
    assert isinstance(found, Pair)
    assert found.b[0] is None
    np.testing.assert_array_equal(found.b[1], [2, 2, 2])
    np.testing.assert_array_equal(found.a, X + 1)
    same = vmap(lambda x: (x, W), out_axes=(0, None))(X)
    np.testing.assert_array_equal(same[1], W)


def test_keyword_arguments_are_mapped_and_numbers_are_not() -> None:
    def f(x: Any, k: Any, *, y: Any) -> Any:
        return x * k + y

    made = mlc.vmap(f)
    np.testing.assert_allclose(made(X, 2.0, y=X), 3 * X)
    np.testing.assert_allclose(made(X, 3.0, y=X), 4 * X)
    assert made.compiled.stats().compilations == 1


def test_nested() -> None:
    outer = vmap(vmap(lambda a, b: a * b, (None, 0)), (0, None))
    agrees(outer, [np.multiply.outer(X[0], X[1])], X[0], X[1])
    pairs = vmap(vmap(lambda a, b: a @ b, (None, 1)), (0, None))
    agrees(pairs, [X @ W], X, W)


def test_outer_traced_values_are_the_same_for_all() -> None:
    @mlc.compile
    def f(x: Any, scale: float) -> Any:
        centre = x.mean(axis=0)
        return vmap(lambda row: (row - centre) * scale + W.sum())(x)

    np.testing.assert_allclose(f(X, 2.0), (X - X.mean(0)) * 2 + W.sum())


def test_a_symbolic_number_of_examples() -> None:
    f = mlc.compile(dynamic={"x": {0: "B"}})(vmap(lambda x: x / x.sum()))
    for count in (0, 1, 3):
        x = X[:count]
        np.testing.assert_allclose(f(x), x / x.sum(axis=1, keepdims=True))
    assert f.stats().compilations == 1


def test_no_examples_and_a_given_number_of_them() -> None:
    assert vmap(lambda x: x.sum())(np.zeros((0, 4))).shape == (0,)
    found = vmap(lambda x: x + 1, in_axes=None, axis_size=3)(W)
    np.testing.assert_array_equal(found, np.stack([W + 1] * 3))


def collatz(n: Any) -> Any:
    def body(c: Any) -> Any:
        return mlc.cond(c[0] % 2 == 0, lambda: c[0] // 2, lambda: 3 * c[0] + 1), c[1] + 1

    return mlc.while_loop(lambda c: c[0] != 1, body, (n, np.int64(0)))[1]


def test_loops_and_branches() -> None:
    numbers = np.arange(1, 30)
    agrees(vmap(collatz), looped(collatz, numbers), numbers)

    def powers(x: Any, n: Any) -> Any:
        return mlc.fori_loop(0, n, lambda i, c: c * x + i, np.ones(4))

    counts = np.array([0, 5, 2])
    agrees(vmap(powers), looped(powers, X, counts.tolist()), X, counts)

    def running(x: Any) -> Any:
        return mlc.scan(lambda c, v: (c + v, c * v), np.float64(0), x)

    agrees(vmap(running), looped(running, X), X)


def test_a_search_does_not_fail_for_examples_that_are_done() -> None:
    def first(row: Any) -> Any:
        n = row.shape[0]
        return mlc.while_loop(
            lambda i: mlc.cond(i < n, lambda: row[i] <= 0, lambda: False), lambda i: i + 1, 0
        )

    rows = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 5]])
    np.testing.assert_array_equal(vmap(first)(rows), [1, 3, 0, 2])


def test_an_index_out_of_range_names_the_line() -> None:
    with pytest.raises(IndexError, match=r"index 7 is out of bounds[^\n]*\n.*test_vmap\.py:"):
        vmap(lambda row, i: row[i])(X, np.array([0, 7, 1]))


def test_derivatives_of_batches_and_batches_of_derivatives() -> None:
    def loss(w: Any, x: Any) -> Any:
        return (np.tanh(x @ w) ** 2).sum()

    each = vmap(gradient(loss), in_axes=(None, 0))(W, X)
    np.testing.assert_allclose(each, np.stack([gradient(loss)(W, x) for x in X]), rtol=1e-12)
    total = gradient(lambda w: vmap(loss, in_axes=(None, 0))(w, X).sum())(W)
    np.testing.assert_allclose(total, each.sum(axis=0), rtol=1e-12)


def test_a_function_is_compiled_once() -> None:
    for _ in range(3):
        np.testing.assert_allclose(vmap(layer, (0, None))(X, W)[1], X.sum(1))
    assert vmap(layer, (0, None)).compiled.stats().compilations == 1


def write(x: Any) -> Any:
    x[0] = 1
    return x


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: vmap(layer)(X, W), ShapeError, r"argument 0 \(3, 4\) has 3 examples.*4 along"),
        (lambda: vmap(layer, (2, None))(X, W), ShapeError, "argument 0 .* has no axis 2"),
        (lambda: vmap(layer, None)(X, W), ShapeError, "no argument is mapped"),
        (lambda: vmap(layer, (0,))(X, W), ShapeError, "one for each"),
        (lambda: vmap(layer, (0, None), None)(X, W), ShapeError, r"result\[0\] differs"),
        (lambda: vmap(layer, (0, None), (0, 1))(X, W), ShapeError, r"result\[1\] has 1 axes"),
        (lambda: vmap(layer, (0, None), axis_size=5)(X, W), ShapeError, "axis_size is 5, and"),
        (lambda: vmap(layer, ({"a": 0}, None))(X, W), ShapeError, "container like it"),
        (lambda: vmap(write)(X.copy()), NotSupportedError, "writes to an argument"),
        (lambda: vmap(VECTOR), TypeError, "expected a function"),
        (lambda: vmap(layer, 0.5), TypeError, "in_axes holds 0.5"),
    ],
)
def test_what_does_not_fit_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
