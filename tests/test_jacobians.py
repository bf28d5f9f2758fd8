"""`mlc.jacfwd`, `jacrev`, `hessian`: containers, symbolic sizes, and what they cost."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import mlc
from tests.test_derivatives import close

X = np.array([2.0, 5.0])
A = np.arange(1.0, 7.0).reshape(2, 3)
WAYS = {"jacfwd": mlc.jacfwd, "jacrev": mlc.jacrev}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Any:
    return WAYS[request.param]


def test_matrix_of_a_vector(way: Any) -> None:
    x = np.array([0.3, 0.5, 0.7])
    close(way(lambda x: np.tanh(A @ x))(x), (1 - np.tanh(A @ x) ** 2)[:, None] * A)


def test_axes_of_result_and_argument(way: Any) -> None:
    found = way(lambda a: a.T * 2.0)(A)
    assert found.shape == (3, 2, 2, 3)
    close(found, 2 * np.einsum("il,jk->ijkl", np.eye(3), np.eye(2)))
    assert way(lambda a: a.sum())(A).shape == (2, 3)
    close(way(lambda s: s * X)(3.0), X)


def test_containers(way: Any) -> None:
    def f(p: Any) -> Any:
        return {"y": p["w"] @ p["v"], "s": ((p["w"] ** 2).sum(), p["b"] * X)}

    found = way(f)({"w": A, "v": np.ones(3), "b": 2.0, "none": None})
    assert found["y"]["w"].shape == (2, 2, 3)
    close(found["y"]["w"], np.einsum("ij,k->ijk", np.eye(2), np.ones(3)))
    close(found["y"]["v"], A)
    close(found["y"]["b"], [0.0, 0.0])
    close(found["s"][0]["w"], 2 * A)
    close(found["s"][1]["b"], X)
    assert found["y"]["none"] is None


def test_argnums_and_has_aux(way: Any) -> None:
    def f(x: Any, n: int, y: Any) -> Any:
        return x * y**n, {"n": n, "x": x}

    (dx, dy), aux = way(f, argnums=(0, -1), has_aux=True)(X, 2, X)
    close(dx, np.diag(X**2))
    close(dy, np.diag(2 * X * X))
    assert aux["n"] == 2
    close(aux["x"], X)


def test_hessians() -> None:
    def f(p: Any) -> Any:
        return (p["a"] ** 2 * p["b"]).sum()

    found = mlc.hessian(f)({"a": X, "b": 2.0})
    close(found["a"]["a"], 4 * np.eye(2))
    close(found["a"]["b"], 2 * X)
    close(found["b"]["a"], 2 * X)
    close(found["b"]["b"], 0.0)
    found, aux = mlc.hessian(lambda x: ((x**3).sum(), "aux"), has_aux=True)(X)
    close(found, np.diag(6 * X))
    assert aux == "aux"


def test_all_orders_of_modes_give_the_hessian() -> None:
    def f(x: Any) -> Any:
        return np.sin(x[0] * x[1]) + (x**3).sum()

    a, b = x = np.array([0.7, 0.4])
    mixed = np.cos(a * b) - a * b * np.sin(a * b)
    s = np.sin(a * b)
    expected = [[6 * a - b * b * s, mixed], [mixed, 6 * b - a * a * s]]
    for outer in WAYS.values():
        for inner in WAYS.values():
            close(outer(inner(f))(x), expected)


def test_symbolic_sizes(way: Any) -> None:
    f = mlc.compile(dynamic={"x": {0: "N"}})(way(lambda x: np.sin(x) * x[0]))
    for n in (1, 2, 7):
        x = np.linspace(0.5, 2.0, n)
        expected = np.diag(np.cos(x) * x[0])
        expected[:, 0] += np.sin(x)
        close(f(x), expected)
    assert f.stats().compilations == 1


def test_symbolic_sizes_of_a_hessian() -> None:
    f = mlc.compile(dynamic={"x": {0: "N"}})(mlc.hessian(lambda x: (x**2).sum() ** 2))
    for n in (1, 2, 7):
        x = np.linspace(0.5, 2.0, n)
        close(f(x), 8 * np.outer(x, x) + 4 * (x**2).sum() * np.eye(n))
    assert f.stats().compilations == 1


def test_a_whole_program_in_a_loop() -> None:
    def f(x: Any) -> Any:
        return mlc.fori_loop(0, 3, lambda i, y: np.sin(y) * x, x)

    found, other = mlc.jacfwd(f)(X), mlc.jacrev(f)(X)
    close(found, other)
    close(found, np.diag(np.diagonal(found)))


# Costs: multiplications of the program's contractions, against theory

CONTRACTION = re.compile(r'mlc\.contract "([\w,]+)->\w*" .* : (.*) -> ')


def multiplications(f: Any, *args: Any) -> int:
    """How many the contractions of the optimised program do: the sizes of all their letters."""
    total = 0
    for letters, types in CONTRACTION.findall(mlc.compile(f).lower(*args).text("tensor")):
        sizes: dict[str, int] = {}
        found = re.findall(r"tensor<([\dx]*)f64>", types)
        for operand, shape in zip(letters.split(","), found, strict=True):
            dims = [int(size) for size in shape.split("x") if size]
            sizes.update(zip(operand, dims, strict=True))
        total += math.prod(sizes.values())
    return total


SHAPES = [(3, 5, 2), (2, 7, 11), (6, 4, 6)]


def operands(shape: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    """x of R^n, and matrices of a network R^n -> R^h -> R^k."""
    n, h, k = shape
    rng = np.random.default_rng(0)
    return rng.standard_normal(n), rng.standard_normal((h, n)), rng.standard_normal((k, h))


def network(x: Any, w: Any, v: Any) -> Any:
    return v @ np.tanh(w @ x)


@pytest.mark.parametrize("shape", SHAPES)
def test_costs_of_one_pass(shape: tuple[int, int, int]) -> None:
    n, h, k = shape
    x, w, v = operands(shape)
    assert multiplications(network, x, w, v) == n * h + h * k
    pushed = multiplications(
        lambda x, w, v: mlc.jvp(lambda x: network(x, w, v), (x,), (x + 1,)), x, w, v
    )
    assert pushed == 2 * (n * h + h * k)
    pulled = multiplications(
        lambda x, w, v, y: mlc.vjp(lambda x: network(x, w, v), x)[1](y)[0], x, w, v, v[:, 0]
    )
    assert pulled == n * h + (h * k + n * h)


@pytest.mark.parametrize("shape", SHAPES)
def test_costs_of_jacobians(shape: tuple[int, int, int]) -> None:
    """Forward mode n passes, reverse mode k, over one evaluation of what is not linear."""
    n, h, k = shape
    x, w, v = operands(shape)
    close(mlc.jacfwd(network)(x, w, v), mlc.jacrev(network)(x, w, v))
    assert multiplications(mlc.jacfwd(network), x, w, v) == n * h + n * (n * h + h * k)
    assert multiplications(mlc.jacrev(network), x, w, v) == n * h + k * (h * k + n * h)
    chosen = mlc.jacfwd if n < k else mlc.jacrev
    expected = multiplications(chosen(network), x, w, v)
    assert multiplications(mlc.jacobian(network), x, w, v) == expected
    np.testing.assert_allclose(mlc.jacobian(network)(x, w, v), chosen(network)(x, w, v))


@pytest.mark.parametrize("shape", SHAPES)
def test_costs_of_hessians(shape: tuple[int, int, int]) -> None:
    """n passes forward over the one pass back, both of which do every product of a matrix."""
    n, h, k = shape
    x, w, v = operands(shape)

    def loss(x: Any, w: Any, v: Any) -> Any:
        return (network(x, w, v) ** 2).sum()

    evaluation = n * h + 2 * h * k  # the gradient without its last product
    assert multiplications(mlc.hessian(loss), x, w, v) == evaluation + n * 2 * (n * h + h * k)


@pytest.mark.parametrize("way", WAYS)
def test_one_number_needs_no_directions(way: str) -> None:
    """One pass is no batch of passes."""
    program = mlc.compile(WAYS[way](lambda s: s**3)).lower(2.0).text("tensor")
    assert "mlc.iota" not in program
    close(WAYS[way](lambda s: s**3)(2.0), 12.0)


def test_zeros_of_other_arguments_are_not_pushed() -> None:
    """Each array of a container is differentiated by on its own."""
    v, x = np.ones((2, 5)), np.ones(5)
    found = multiplications(mlc.jacfwd(lambda p: p["v"] @ p["x"]), {"v": v, "x": x})
    assert found == (v.size + x.size) * (2 * 5)  # a pass for each element of both
