"""What a saved function returns, raises and writes to: what the function does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc import saved


def found(x: Any) -> Any:
    return x[x > 0], {"n": (len(x), None), 2: [np.float32(3), int(x[0])]}


def spread(x: Any) -> Any:
    x[::2] += 1
    return x.sum()


def careful(x: Any) -> Any:
    if x[0] < 0:
        raise KeyError("below")
    if x[1] < 0:
        raise ZeroDivisionError(f"found {x[1]}")
    return x * 2


class Counter:
    def __init__(self) -> None:
        self.n = np.zeros(3)


def counts(counter: Counter, x: Any) -> Any:
    counter.n = counter.n + x
    return x.sum()


def reloaded(f: Callable[..., Any], path: Path, *args: Any) -> saved.Loaded:
    mlc.compile(f).lower(*args).compile().save(path)
    return mlc.load(path)


def test_results_are_those_of_the_function(tmp_path: Path) -> None:
    """Containers, numbers of Python's, arrays of as many elements as there are, stores, errors."""
    path, x = tmp_path / "f.mlc", np.array([1.0, -2.0, 3.0])
    assert repr(reloaded(found, path, x)(x)) == repr(found(x))
    y, z = x.copy(), x.copy()
    assert repr(reloaded(spread, path, x)(y)) == repr(spread(z))
    assert y.tolist() == z.tolist() == [2, -2, 4]
    total, n = reloaded(counts, path, Counter(), x)(x)
    assert (total, n.tolist()) == (2, [1, -2, 3])
    again = reloaded(careful, path, x)
    assert again(np.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(KeyError, match=r"below.*test_saved_results.py:\d+"):
        again(-np.ones(3))
    with pytest.raises(ZeroDivisionError, match="no text with the values"):
        again(x)


def test_results_that_are_always_the_same(tmp_path: Path) -> None:
    def same(x: Any) -> Any:
        return (), [None, "a", 2.5], np.int8(3)

    x = np.ones(3)
    assert repr(reloaded(same, tmp_path / "f.mlc", x)(x)) == repr(same(x))


class OwnKeyError(KeyError): ...


class LengthError(ValueError):
    def __init__(self, x: Any) -> None:
        super().__init__(f"{x[0]} of {len(x)}")


class OwnError(Exception): ...


def strict(x: Any) -> Any:
    if x[0] < 0:
        raise OwnKeyError("first")
    if x[1] < 0:
        raise LengthError(x)
    if x[2] < 0:
        raise OwnError("third")
    if x[3] < 0:
        raise KeyError
    raise UnicodeDecodeError("utf-8", b"", 0, 1, "last")


def test_errors_of_ones_own_are_those_of_python_that_they_derive_from(tmp_path: Path) -> None:
    loaded = reloaded(strict, tmp_path / "f.mlc", np.ones(4))
    with pytest.raises(KeyError, match=r"OwnKeyError: first\\n"):
        loaded(np.array([-1.0, 1, 1, 1]))
    with pytest.raises(ValueError, match="LengthError: the file has no text with the values"):
        loaded(np.array([1.0, -1, 1, 1]))
    with pytest.raises(mlc.MlcError, match=r"^OwnError: third"):
        loaded(np.array([1.0, 1, -1, 1]))
    with pytest.raises(UnicodeError, match=r"UnicodeDecodeError: .*last"):
        loaded(np.ones(4))
    with pytest.raises(KeyError, match=r"^'\\n .*test_saved_results.py"):
        loaded(np.array([1.0, 1, 1, -1]))


@pytest.mark.parametrize("order", ["C", "F"])
def test_arguments_that_share_memory(tmp_path: Path, order: Any) -> None:
    """What is written in place, or after the call: the other would see it in NumPy alone."""

    def moved(x: Any, y: Any) -> Any:
        x[:, 0] = y[:, 1]
        x[:, 2] = y[:, 0]

    x, y = (np.array(np.arange(6.0).reshape(2, 3) + k, order=order) for k in (0, 9))
    loaded, before = reloaded(moved, tmp_path / "f.mlc", x, y), x.copy()
    with pytest.raises(mlc.MlcError, match=r"argument 0, which is written, shares memory with"):
        loaded(x, x)
    assert x.tolist() == before.tolist()
    expected = x.copy()
    moved(expected, y)
    loaded(x, y)
    assert x.tolist() == expected.tolist()


def test_what_needs_python_is_not_saved(tmp_path: Path) -> None:
    def told(x: Any) -> Any:
        print(x.sum())
        return x

    def named(x: Any) -> Any:
        return x, f"{x.sum()}"

    def caught(x: Any) -> Any:
        try:
            if x[0] < 0:
                raise ValueError("below")
            return x * 2
        except ValueError:
            return x - 1

    path = tmp_path / "f.mlc"
    with pytest.raises(mlc.MlcError, match=r"caught catches errors .* Python"):
        reloaded(caught, path, np.ones(3))
    with pytest.raises(mlc.MlcError, match=r"told prints, or calls Python, .* cannot"):
        reloaded(told, path, np.ones(3))
    with pytest.raises(mlc.MlcError, match="named returns what Python makes of its results"):
        reloaded(named, path, np.ones(3))
    assert not path.exists()
