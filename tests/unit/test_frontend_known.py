"""Values that constants alone give are Python numbers while a function is compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mlc

SIZES = np.array([2, 3])


def test_sizes_computed_with_numpy() -> None:
    @mlc.compile
    def rows(x: Any) -> Any:
        return x.reshape(int(np.prod(np.asarray([2, 3]))), -1)

    assert rows(np.arange(12.0)).shape == (6, 2)


def test_truth_of_a_constant_chooses_a_branch() -> None:
    @mlc.compile
    def shifted(x: Any) -> Any:
        return x + 1 if np.asarray([1, 2]).sum() == 3 else x - 1

    np.testing.assert_array_equal(shifted(np.zeros(3)), np.ones(3))


def test_an_array_from_outside_is_guarded_by_its_contents() -> None:
    @mlc.compile
    def shaped(x: Any) -> Any:
        return x.reshape([int(size) for size in SIZES])

    assert shaped(np.arange(6.0)).shape == (2, 3)
    SIZES[:] = (3, 2)
    assert shaped(np.arange(6.0)).shape == (3, 2)
    SIZES[:] = (2, 3)
    assert shaped(np.arange(6.0)).shape == (2, 3)


def test_what_depends_on_an_argument_is_not_known() -> None:
    @mlc.compile
    def sized(x: Any) -> Any:
        return x.reshape(int(x[0]), -1)

    with pytest.raises(mlc.ConcretizationError):
        sized(np.ones(4))


def test_sizes_of_a_shape_and_of_padding() -> None:
    widths = np.array([1, 2])

    @mlc.compile
    def padded(x: Any) -> Any:
        low, high = (int(w) for w in np.asarray(widths).reshape(-1))
        return np.pad(x.reshape(int(np.asarray(-1)), 3), [(0, 0), (low, high)])

    assert padded(np.arange(6.0)).shape == (2, 6)


def test_vectorize_of_a_function_of_math() -> None:
    @mlc.compile
    def errors(x: Any) -> Any:
        return np.vectorize(math.erf, otypes=[np.float64])(x)

    x = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(errors(x), [math.erf(v) for v in x], rtol=1e-15)

    def positive(v: Any) -> Any:
        return np.where(v > 0, v, 0.0)

    pyfunc, summed = np.vectorize(positive), np.vectorize(sum, signature="(n)->()")

    def more(x: Any) -> Any:
        return pyfunc(x) + 1

    def sums(x: Any) -> Any:
        return summed(x) + 1

    np.testing.assert_array_equal(mlc.compile(more)(x), more(x))
    with pytest.raises(mlc.NotSupportedError, match=r"Use mlc\.vmap"):
        mlc.compile(sums)(x)


def test_positions_of_what_is_known() -> None:
    chosen = np.array([[True, False], [True, True]])

    @mlc.compile
    def taken(x: Any) -> Any:
        rows, columns = np.nonzero(chosen)
        return x[rows, columns], np.take(x, np.flatnonzero(chosen)), np.argwhere(chosen)

    x = np.arange(4.0).reshape(2, 2)
    for found in taken(x)[:2]:
        np.testing.assert_array_equal(found, [0.0, 2.0, 3.0])
    np.testing.assert_array_equal(taken(x)[2], np.argwhere(chosen))

    @mlc.compile
    def unknown(x: Any) -> Any:
        return np.nonzero(x)[0] + 1

    assert unknown(x).tolist() == [1, 2, 2]
