"""Functions that run as Python, by wish or as they cannot be compiled; pickled and copied ones."""
# pyright: basic

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import mlc

X = np.arange(3.0)


def plain(x: Any) -> Any:
    return x * 2


renamed = mlc.compile(plain)


@mlc.compile
def decorated(x: Any) -> Any:
    return x * 3


def raw(x: Any) -> Any:
    return x.tobytes()


def test_what_cannot_be_compiled_runs_as_python() -> None:
    f = mlc.compile(raw, fallback="numpy")
    with pytest.warns(RuntimeWarning, match=r"raw runs as Python(.|\n)*return x\.tobytes\(\)"):
        assert f(X) == X.tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(X + 1) == (X + 1).tobytes()
    assert any("runs as Python" in remark for remark in f.stats().remarks)
    g = mlc.compile(plain, fallback="numpy")
    np.testing.assert_array_equal(g(X), 2 * X)
    assert len(g.stats().artifacts) == 1
    with pytest.raises(ValueError, match="expected 'numpy' or None"):
        mlc.compile(plain, fallback="python")  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_errors_of_the_function_are_its_own() -> None:
    def bad(x: Any) -> Any:
        return x @ np.ones(5)

    with pytest.warns(RuntimeWarning), pytest.raises(ValueError, match="matmul"):
        mlc.compile(bad, fallback="numpy")(X)


def test_nothing_is_compiled_where_it_is_disabled() -> None:
    seen: list[type] = []

    def look(x: Any) -> Any:
        seen.append(x)  # refused where it is traced
        return x

    f, g = mlc.compile(look), mlc.compile(plain)
    np.testing.assert_array_equal(g(X), 2 * X)
    with mlc.disable():
        assert f(X) is X
        np.testing.assert_array_equal(g(X), 2 * X)
        assert mlc.compile(raw)(X) == X.tobytes()
        with mlc.disable():
            assert f(X) is X
        assert f(X) is X
    with pytest.raises(mlc.NotSupportedError):
        f(X)
    np.testing.assert_array_equal(g(X), 2 * X)
    assert len(seen) == 3


def test_pickle() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    again = pickle.loads(pickle.dumps(renamed))
    np.testing.assert_array_equal(again(X), 2 * X)


def test_copies_of_values() -> None:
    def f(x: Any) -> Any:
        y, z = copy.copy(x), copy.deepcopy({"a": x})
        y[0] = 7
        z["a"][1] = 8
        return x, y, z, type(x) is np.ndarray, type(x[0]).__name__

    np.testing.assert_equal(mlc.compile(f)(X.copy()), f(X.copy()))
