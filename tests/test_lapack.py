"""Factorisations by the LAPACK that NumPy has loaded, without Python: NumPy's bits and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.abi import LAPACK_DTYPES, LAPACK_ROUTINES, LAPACK_STEPS
from mlc.dialects.dtypes import DTYPES
from mlc.dialects.tensor.library import ROUTINES
from mlc.runtime.lapack import lapack_addresses

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "solve": np.linalg.solve, "inv": np.linalg.inv, "cholesky": np.linalg.cholesky,
}  # fmt: skip


def matrices(dtype: Any, n: int) -> tuple[Any, Any]:
    """Positive definite ones, and right sides."""
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((3, n, n)), rng.standard_normal((3, n, 2))
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * rng.standard_normal(a.shape), b + 1j * rng.standard_normal(b.shape)
    a = a @ a.conj().swapaxes(1, 2) + np.eye(n)
    return a.astype(dtype), b.astype(dtype)


def test_numbers_are_those_of_the_tables() -> None:
    """What code without the tables relies on."""
    names, dtypes = list(ROUTINES), [row.name for row in DTYPES]
    assert all(names[number] == name for name, number in LAPACK_STEPS.items())
    assert all(dtypes[number] == name for name, number in LAPACK_DTYPES.items())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_the_bits_are_numpys(dtype: Any) -> None:
    """Of the first call, which goes to NumPy and finds LAPACK, and of those after it."""
    for n in (1, 5, 0):
        a, b = matrices(dtype, n)
        for name, f in FUNCTIONS.items():
            args = (a, b) if name == "solve" else (a,)
            compiled, expected = mlc.compile(f), f(*args)
            for _ in range(2):
                found = compiled(*args)
                assert found.dtype == expected.dtype
                assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


def test_python_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once LAPACK is found."""
    addresses = lapack_addresses()
    if addresses is None:
        pytest.skip("no loaded library has LAPACK")
    assert len(addresses) == len(LAPACK_ROUTINES)
    a, b = matrices(np.float64, 6)
    compiled = mlc.compile(np.linalg.solve)
    expected = compiled(a, b)

    def refuse(*_: object) -> None:
        raise AssertionError("NumPy was called")

    monkeypatch.setattr("mlc.runtime.library.computed", refuse)
    assert (compiled(a, b) == expected).all()


def test_errors_are_numpys() -> None:
    """Also where one of several matrices is at fault."""
    for name, text in (("inv", "Singular"), ("cholesky", "not positive definite")):
        compiled = mlc.compile(FUNCTIONS[name])
        for _ in range(2):
            with pytest.raises(np.linalg.LinAlgError, match=text):
                compiled(np.stack([np.zeros((3, 3)), np.eye(3)]))
