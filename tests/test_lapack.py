"""Factorisations by the LAPACK that NumPy has loaded, without Python: NumPy's bits and errors."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.abi import LAPACK
from mlc.runtime.lapack import lapack_addresses, lapack_library
from tests.sweeps import covering

F = Callable[..., Any]
Arrays = tuple[Any, ...]
DTYPES = (np.float64, np.float32, np.complex128, np.complex64)

SHAPES = ((2, 5, 3), (3, 5), (70, 40), (3, 0))  # blocks of columns, and none
SQUARES = ((3, 5), (1, 1), (2, 80), (2, 0), (0, 2))  # how many, and of how many rows
RECTANGULAR: dict[str, F] = {
    "qr": np.linalg.qr,
    "qr, complete": lambda a: np.linalg.qr(a, "complete"),
    "qr, r": lambda a: np.linalg.qr(a, "r"),
    "svd": np.linalg.svd,
    "svd, reduced": lambda a: np.linalg.svd(a, full_matrices=False),
    "singular values": lambda a: np.linalg.svd(a, compute_uv=False),
    "pinv": np.linalg.pinv,
}
SQUARE: dict[str, F] = {
    "solve": np.linalg.solve,
    "inv": np.linalg.inv,
    "cholesky": np.linalg.cholesky,
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "eigh": np.linalg.eigh,
    "eigh, upper": lambda a: np.linalg.eigh(a, "U"),
    "eigvalsh": np.linalg.eigvalsh,
    "eig": np.linalg.eig,
    "eigvals": np.linalg.eigvals,
}
FUNCTIONS = {**RECTANGULAR, **SQUARE, "lstsq": np.linalg.lstsq}
ROUNDED = ("det", "slogdet", "pinv")
"""Whose last steps are ours."""

needs_lapack = pytest.mark.skipif(lapack_addresses() is None, reason="no loaded library has LAPACK")


def arguments(name: str, shape: tuple[int, ...], dtype: Any) -> Arrays:
    """A matrix, positive definite where it must be; and right sides."""
    rng = np.random.default_rng(sum(shape))
    a, b = rng.standard_normal(shape), rng.standard_normal((*shape[:-1], 2))
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * rng.standard_normal(a.shape), b + 1j * rng.standard_normal(b.shape)
    if name == "cholesky":
        a = a @ a.conj().swapaxes(-1, -2) + np.eye(shape[-1])
    elif shape[-1] == shape[-2]:
        a /= np.sqrt(max(shape[-1], 1))
    a, b = a.astype(dtype), b.astype(dtype)
    return (a, b) if name in ("solve", "lstsq") else (a,)


def refuse(*_: object) -> None:
    raise AssertionError("NumPy was called")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python is not called."""
    monkeypatch.setattr("mlc.runtime.library.computed", refuse)


def check(name: str, compiled: F, args: Arrays) -> None:
    """NumPy's bits; of what is computed from LAPACK's results, nearly."""
    expected, found = FUNCTIONS[name](*args), compiled(*args)
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (expected, found)), strict=True)
    for x, y in pairs:
        want, got = np.asarray(x), np.asarray(y)
        want = want.astype(got.dtype) if "eig" in name else want  # eig's are always complex
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        if name in ROUNDED:
            eps = np.finfo(args[0].dtype).eps
            np.testing.assert_allclose(got, want, rtol=400 * eps, atol=400 * eps)
        else:
            assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@needs_lapack
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("name", "dtype", "shape"), covering([*RECTANGULAR, "lstsq"], DTYPES, SHAPES)
)
def test_the_bits_are_numpys(name: str, dtype: Any, shape: tuple[int, ...]) -> None:
    shape = shape[-2:] if name == "lstsq" else shape
    check(name, mlc.compile(FUNCTIONS[name]), arguments(name, shape, dtype))


@needs_lapack
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("name", "dtype"), covering([*SQUARE, *RECTANGULAR], DTYPES, strength=1))
def test_sizes_that_only_a_call_knows(name: str, dtype: Any) -> None:
    """One program for all numbers of matrices and of rows."""
    dynamic = {"a": {0: "B", 1: "N", 2: "N"}, "b": {0: "B", 1: "N"}}
    if name != "solve":
        del dynamic["b"]
    compiled = mlc.compile(FUNCTIONS[name], dynamic=dynamic)
    for count, n in SQUARES:
        check(name, compiled, arguments(name, (count, n, n), dtype))
    assert compiled.stats().compilations == 1


@needs_lapack
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", [*RECTANGULAR, "lstsq"])
def test_open_rows_of_known_columns(name: str) -> None:
    """One program where there are as many rows as columns, or more; another one elsewhere."""
    dynamic = {x: {0: "M"} for x in ("a", "b")[: 1 + (name == "lstsq")]}
    compiled = mlc.compile(FUNCTIONS[name], dynamic=dynamic)
    for rows, programs in ((5, 1), (70, 1), (2, 2)):
        check(name, compiled, arguments(name, (rows, 3), np.float64))
        assert compiled.stats().compilations == (1 if name == "qr, complete" else programs)


def test_numpy_computes_where_there_is_no_lapack(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says no more about it than NumPy itself."""
    found: list[int] = []

    def computed(*given: Any) -> Any:
        found.append(given[0])
        return ask(*given)

    from mlc.runtime import library
    from mlc.runtime.support import support

    ask = library.computed
    monkeypatch.setattr(library, "computed", computed)
    library.find_lapack()
    none = [0] * len(LAPACK)
    support().bind_lapack(none)
    try:
        for name in ("solve", "slogdet", "qr", "svd", "eigh", "eig", "lstsq"):
            check(name, mlc.compile(FUNCTIONS[name]), arguments(name, (4, 4), np.float64))
    finally:
        support().bind_lapack(lapack_addresses() or none)
    assert len(found) == 7


WRONG: dict[str, tuple[F, Any, str]] = {
    "inv": (np.linalg.inv, np.zeros((3, 3)), "Singular"),
    "solve": (lambda a: np.linalg.solve(a, a), np.zeros((3, 3)), "Singular"),
    "cholesky": (np.linalg.cholesky, np.zeros((3, 3)), "not positive definite"),
    "svd": (np.linalg.svd, np.full((3, 3), np.nan), "SVD did not converge"),
    "eig": (np.linalg.eig, np.full((3, 3), np.inf), "must not contain infs or NaNs"),
    "lstsq": (
        lambda a: np.linalg.lstsq(a[0], a[0]),
        np.full((3, 3), np.nan),
        "SVD did not converge in Linear Least Squares",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_numpys(name: str) -> None:
    """Also where one of several matrices is at fault."""
    f, bad, text = WRONG[name]
    a = np.stack([bad, np.eye(3)])
    compiled = mlc.compile(f)
    for call in (f, compiled, compiled):
        with pytest.raises(np.linalg.LinAlgError, match=text):
            call(a)


@needs_lapack
def test_what_is_singular_or_deficient() -> None:
    """Determinants of 0, ranks below the columns', squares of what is left."""
    a = np.array([[1.0, 2, 3], [2, 4, 6], [1, 1, 1], [0, 1, 2]])
    b = np.arange(8.0).reshape(4, 2)
    solve: Any = np.linalg.lstsq
    x, squares, rank, s = mlc.compile(solve)(a, b)
    expected = np.linalg.lstsq(a, b)
    assert (rank, expected[2]) == (2, 2)
    np.testing.assert_allclose(x, expected[0], atol=1e-14)
    np.testing.assert_allclose(s, expected[3], atol=1e-14)
    np.testing.assert_allclose(squares, ((b - a @ x) ** 2).sum(0), rtol=1e-12)
    assert mlc.compile(np.linalg.det)(a[:3]) == 0
    assert mlc.compile(np.linalg.slogdet)(a[:3]) == (0, -np.inf)


def test_explain_says_who_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """LAPACK, and by which library; or NumPy, and why."""
    a = np.eye(3)
    lowered = mlc.compile(np.linalg.svd).lower(a)
    if library := lapack_library():
        assert f"svd_full: dgesdd of {library[0]}" in lowered.explain()
    monkeypatch.setattr("mlc.runtime.lapack._loaded", lambda: iter(()))
    why = "NumPy, by a callback: no library in this process has LAPACK's dgesdd"
    assert f"svd_full: {why}" in lowered.explain()
    on_gpu = mlc.compile(np.linalg.svd, target="h200").lower(a).explain()
    assert "svd_full: NumPy on the host" in on_gpu
