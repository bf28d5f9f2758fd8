"""
Derivatives of factorisations where they are delicate: singular matrices, equal eigenvalues and
singular values, the triangle that is read. Each order against differences of the one below.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.derivative_orders import compare

RNG = np.random.default_rng(5)
WEIGHTS = RNG.standard_normal((3, 3))
COUNT = np.arange(9.0).reshape(3, 3)

SINGULAR = {
    "zeros": np.zeros((2, 2)),
    "more zeros": np.zeros((3, 3)),
    "ones": np.ones((3, 3)),
    "of rank two": COUNT,
    "of rank two but for rounding": COUNT + 1,
    "a zero": np.zeros((1, 1)),
    "regular": RNG.standard_normal((3, 3)),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_a_determinant_is_a_polynomial(name: str) -> None:
    compare(np.linalg.det, SINGULAR[name])


def test_determinants_of_a_stack_of_which_one_is_singular() -> None:
    compare(lambda x: (np.linalg.det(x) * np.array([1.0, 2.0])).sum(), np.stack([COUNT, np.eye(3)]))


def test_the_gradient_of_a_determinant_is_the_matrix_of_cofactors() -> None:
    """In machine code, alone and for many at once."""
    cofactors = np.array([[-3.0, 6, -3], [6, -12, 6], [-3, 6, -3]])
    grad = mlc.grad(np.linalg.det)
    np.testing.assert_allclose(mlc.compile(grad)(COUNT), cofactors, atol=1e-12)
    found = mlc.compile(mlc.vmap(grad))(np.stack([COUNT, np.eye(3)]))
    np.testing.assert_allclose(found, [cofactors, np.eye(3)], atol=1e-12)
    hessian = mlc.compile(mlc.hessian(np.linalg.det))(np.zeros((2, 2)))
    np.testing.assert_array_equal(hessian.reshape(4, 4), np.fliplr(np.diag([1.0, -1, -1, 1])))


def test_the_logarithm_of_a_zero_determinant_has_an_infinite_derivative() -> None:
    found = mlc.grad(lambda x: np.linalg.slogdet(x)[1])(np.ones((2, 2)))
    np.testing.assert_array_equal(np.abs(found), np.inf)
    compare(lambda x: np.linalg.slogdet(x)[1], WEIGHTS)


INVERTED = {
    "unit": np.eye(2),
    "equal singular values": np.array([[-1.0, 1], [1, 1]]),
    "regular": RNG.standard_normal((2, 2)),
    "tall": np.eye(3, 2),
    "wide": np.eye(2, 3),
}


@pytest.mark.parametrize("name", INVERTED)
def test_a_pseudo_inverse(name: str) -> None:
    def f(x: Any) -> Any:
        return (np.linalg.pinv(x) * WEIGHTS[: x.shape[1], : x.shape[0]]).sum()

    compare(f, INVERTED[name])


def test_least_squares_with_equal_singular_values() -> None:
    right = RNG.standard_normal((3, 1))
    compare(lambda x: (np.linalg.lstsq(x, right)[0] ** 2).sum(), np.eye(3, 2))


VALUES: dict[str, Callable[[Any], Any]] = {
    "eigh": lambda x: (np.linalg.eigh(x)[0] ** 3).sum(),
    "eigvalsh": lambda x: (np.linalg.eigvalsh(x) ** 3).sum(),
    "svd": lambda x: (np.linalg.svd(x)[1] ** 3).sum(),
    "reduced svd": lambda x: (np.linalg.svd(x, full_matrices=False)[1] ** 3).sum(),
    "svd without vectors": lambda x: (np.linalg.svd(x, compute_uv=False) ** 3).sum(),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_are_equal_have_derivatives_without_their_vectors(name: str) -> None:
    compare(VALUES[name], 2 * np.eye(2), orders=1)


@pytest.mark.parametrize("side", ["L", "U"])
def test_only_the_triangle_that_is_read_counts(side: Any) -> None:
    def f(x: Any) -> Any:
        return (np.linalg.eigh(x, UPLO=side)[0] * np.array([1.0, 2, 3])).sum()

    compare(f, WEIGHTS)
    found = mlc.grad(f)(WEIGHTS)
    unread = np.triu(found, 1) if side == "L" else np.tril(found, -1)
    np.testing.assert_array_equal(unread, 0)


def test_cholesky_reads_the_lower_triangle() -> None:
    x = WEIGHTS @ WEIGHTS.T + 3 * np.eye(3) + np.triu(WEIGHTS, 1)
    compare(lambda x: (np.linalg.cholesky(x) * WEIGHTS).sum(), x)
