"""mlc.numpy.linalg and mlc.numpy.fft against NumPy: outside a compiled function and inside."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc.numpy import fft as our_fft
from mlc.numpy import linalg as our_linalg

Array = NDArray[Any]
Call = Callable[..., Any]
RNG = np.random.default_rng(5)
A = RNG.standard_normal((3, 4, 4))
S = A @ A.swapaxes(-1, -2) + np.eye(4)
B = RNG.standard_normal((4, 2))
T = RNG.standard_normal((5, 3))
C = A + 1j * A[::-1]
SIX = RNG.standard_normal((2, 3, 6))

LINALG: dict[str, tuple[Call, tuple[Array, ...]]] = {
    "inv": (lambda m, a: m.inv(a), (A,)),
    "inv of one": (lambda m, a: m.inv(a[0]), (A,)),
    "inv, transposed": (lambda m, a: m.inv(a.T), (A[0],)),
    "inv, complex": (lambda m, a: m.inv(a), (C,)),
    "inv, float32": (lambda m, a: m.inv(a), (S.astype(np.float32),)),
    "inv of none": (lambda m, a: m.inv(a), (A[:0],)),
    "cholesky": (lambda m, a: m.cholesky(a), (S,)),
    "solve": (lambda m, a, b: m.solve(a, b), (A, B)),
    "solve a vector": (lambda m, a, b: m.solve(a, b), (A, B[:, 0])),
    "det": (lambda m, a: m.det(a), (A,)),
    "det of integers": (lambda m, a: m.det(a), (np.arange(9).reshape(3, 3) ** 2,)),
    "slogdet": (lambda m, a: m.slogdet(a), (A,)),
    "slogdet, complex": (lambda m, a: m.slogdet(a), (C,)),
    "qr": (lambda m, a: m.qr(a), (T,)),
    "qr, complete": (lambda m, a: m.qr(a, "complete"), (T,)),
    "qr, r": (lambda m, a: m.qr(a, "r"), (T,)),
    "svd": (lambda m, a: m.svd(a), (T,)),
    "svd, reduced": (lambda m, a: m.svd(a, full_matrices=False), (T,)),
    "svd, complex": (lambda m, a: m.svd(a), (C,)),
    "singular values": (lambda m, a: m.svd(a, compute_uv=False), (T,)),
    "eigh": (lambda m, a: m.eigh(a), (S,)),
    "eigh, upper": (lambda m, a: m.eigh(a, "U"), (A,)),
    "eigvalsh": (lambda m, a: m.eigvalsh(a), (S,)),
    "eigvals": (lambda m, a: m.eigvals(a) + 0j, (A,)),
    "lstsq": (lambda m, a, b: m.lstsq(a, b), (T, RNG.standard_normal((5, 2)))),
    "lstsq of a vector": (lambda m, a, b: m.lstsq(a, b), (T, RNG.standard_normal(5))),
    "lstsq, wide": (lambda m, a, b: m.lstsq(a, b), (T.T.copy(), RNG.standard_normal(3))),
    "pinv": (lambda m, a: m.pinv(a), (T,)),
    "pinv, complex": (lambda m, a: m.pinv(a), (C,)),
    "matrix_rank": (lambda m, a: m.matrix_rank(a), (T @ T.T,)),
    "matrix_power": (lambda m, a: m.matrix_power(a, 5), (A,)),
    "matrix_power, 0": (lambda m, a: m.matrix_power(a, 0), (A,)),
    "matrix_power, -2": (lambda m, a: m.matrix_power(a, -2), (S,)),
    "multi_dot": (lambda m, a: m.multi_dot([a, a.T, a]), (T,)),
    "multi_dot, vectors": (lambda m, a: m.multi_dot([a[:, 0], a, a[0]]), (T,)),
    "tensorinv": (lambda m, a: m.tensorinv(a), (SIX,)),
    "tensorsolve": (lambda m, a, b: m.tensorsolve(a, b), (SIX, SIX[:, :, 0])),
}
for _p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro"):
    LINALG[f"cond {_p}"] = (lambda m, a, p=_p: m.cond(a, p), (S,))
for _p in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
    LINALG[f"norm {_p} of a matrix"] = (lambda m, a, p=_p: m.norm(a, p), (T,))
    LINALG[f"norm {_p} over two axes"] = (lambda m, a, p=_p: m.norm(a, p, (0, 2), True), (A,))
for _p in (None, 0, 1, -1, 2, 3, np.inf, -np.inf):
    LINALG[f"norm {_p} of vectors"] = (lambda m, a, p=_p: m.norm(a, p, 1), (A,))
if hasattr(np.linalg, "vector_norm"):
    LINALG["vector_norm"] = (lambda m, a: m.vector_norm(a, axis=(0, 1)), (A,))
    LINALG["matrix_norm"] = (lambda m, a: m.matrix_norm(a, keepdims=True), (A,))
    LINALG["trace"] = (lambda m, a: m.trace(a, offset=1), (A,))
    LINALG["diagonal"] = (lambda m, a: m.diagonal(a), (A,))
    LINALG["outer"] = (lambda m, a: m.outer(a[0], a[1]), (T,))
    LINALG["vecdot"] = (lambda m, a: m.vecdot(a, a), (C,))
    LINALG["svdvals"] = (lambda m, a: m.svdvals(a), (A,))

R = RNG.standard_normal((3, 8, 5))
Z = R + 1j * RNG.standard_normal((3, 8, 5))
FFT: dict[str, tuple[Call, tuple[Array, ...]]] = {}
for _name, _x in (
    *((n, Z) for n in ("fft", "ifft", "irfft", "hfft")),
    *((f"{n} of real", R) for n in ("fft", "rfft", "ihfft", "irfft")),
):
    _f = _name.split()[0]
    for _options in (
        {},
        {"n": 4},
        {"n": 9},
        {"axis": 1},
        {"norm": "ortho"},
        {"norm": "forward", "axis": 0},
    ):
        FFT[f"{_name} {_options}"] = (
            lambda m, a, f=_f, options=_options: getattr(m, f)(a, **options),
            (_x,),
        )
for _name in ("fftn", "ifftn", "fft2", "ifft2", "irfftn", "irfft2"):
    FFT[_name] = (lambda m, a, f=_name: getattr(m, f)(a), (Z,))
for _name in ("rfftn", "rfft2", "fftn", "fftshift", "ifftshift"):
    FFT[f"{_name} of real"] = (lambda m, a, f=_name: getattr(m, f)(a), (R,))
FFT.update(
    {
        "fftn, lengths": (lambda m, a: m.fftn(a, (4, 4), (0, 1)), (Z,)),
        "rfft of float32": (lambda m, a: m.rfft(a), (R.astype(np.float32),)),
        "fft of integers": (lambda m, a: m.fft(a), (np.arange(6),)),
        "fftfreq": (lambda m, a: m.fftfreq(9, 0.1) + a, (np.zeros(9),)),
        "rfftfreq": (lambda m, a: m.rfftfreq(9, 0.1) + a, (np.zeros(5),)),
        "fftshift of one axis": (lambda m, a: m.fftshift(a, 1), (R,)),
    }
)


def compare(function: Call, ours: Any, theirs: Any, arrays: tuple[Array, ...]) -> None:
    """The function with our module gives what it gives with NumPy's."""

    def traced(*a: Array) -> Any:
        return function(ours, *a)

    want = function(theirs, *arrays)
    for got in (traced(*arrays), mlc.compile(traced)(*arrays)):
        pairs = zip(_tuple(want), _tuple(got), strict=True)
        for x, y in pairs:
            assert (np.shape(x), np.asarray(x).dtype) == (np.shape(y), np.asarray(y).dtype)
            limit = 1e-4 if np.asarray(x).dtype.name in ("float32", "complex64") else 1e-9
            np.testing.assert_allclose(y, x, rtol=limit, atol=limit)


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("name", LINALG)
def test_linalg(name: str) -> None:
    function, arrays = LINALG[name]
    compare(function, our_linalg, np.linalg, arrays)


@pytest.mark.parametrize("name", FFT)
def test_fft(name: str) -> None:
    function, arrays = FFT[name]
    compare(function, our_fft, np.fft, arrays)


def test_names_that_numpy_gives_its_results() -> None:
    found = our_linalg.svd(T)
    np.testing.assert_allclose(found.U[:, :3] * found.S @ found.Vh, T)
    assert our_linalg.slogdet(A).logabsdet.shape == (3,)


def test_numpy_itself_reaches_them_in_a_compiled_function() -> None:
    step = mlc.compile(lambda a, b: np.linalg.solve(a, b) + np.fft.ifft(np.fft.fft(b)).real)
    np.testing.assert_allclose(step(A[0], B), np.linalg.solve(A[0], B) + B)


def test_a_singular_matrix_raises_what_numpy_raises() -> None:
    @mlc.compile
    def inverse(a: Array) -> Array:
        return np.linalg.inv(a) + 1

    inverse(A[0])
    for function in (inverse, our_linalg.inv, np.linalg.inv):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            function(np.zeros((4, 4)))
    with pytest.raises(
        np.linalg.LinAlgError, match=r"test_numpy_linalg.py:\d+ +return np.linalg.inv"
    ):
        inverse(np.zeros((4, 4)))
    np.testing.assert_allclose(inverse(A[0]), np.linalg.inv(A[0]) + 1)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        mlc.compile(lambda a: np.linalg.cholesky(a) * 2)(-S)


def test_shapes_that_lapack_does_not_take() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="must be square, found 5 and 3"):
        our_linalg.inv(T)
    with pytest.raises(mlc.ShapeError, match="at least two-dimensional"):
        our_linalg.det(T[0])
    with pytest.raises(mlc.ShapeError, match="a has 4 columns and b 5 rows"):
        our_linalg.solve(A[0], T)
    with pytest.raises(TypeError, match="float16 is unsupported"):
        our_linalg.inv(A.astype(np.float16))


def test_sizes_that_are_symbols() -> None:
    @mlc.compile(dynamic={"a": {0: "B", 1: "N", 2: "N"}})
    def inverse(a: Array) -> Array:
        return np.linalg.inv(a)

    for a in (A, S[:1], RNG.standard_normal((2, 7, 7))):
        np.testing.assert_allclose(inverse(a), np.linalg.inv(a), rtol=1e-9, atol=1e-12)
    assert inverse.stats().compilations == 1


def test_a_producer_is_computed_into_the_routines_memory() -> None:
    lowered = mlc.compile(lambda a: np.linalg.inv(a * 2 + 1)).lower(A[0])
    assert lowered.text("plan").count('mlc.kernel "library"') == 1
    assert lowered.text("plan").count("= mlc.kernel") == 1
