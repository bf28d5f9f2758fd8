"""Names that are compositions: NumPy, mlc.numpy outside, the reference and compiled code agree."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.numpy.registry import COMPOSED, implementation_of
from tests.against_numpy import agree, derivative_agrees, same

Function = Callable[..., Any]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((5, 4))
Y = RNG.standard_normal((5, 4))
V = RNG.standard_normal(7)
W = RNG.standard_normal(3)
N = RNG.integers(-9, 9, (5, 4))
M = RNG.integers(0, 4, (5, 4))
C = X + 1j * Y
H = np.where(X > 1, np.nan, X)
H[2] = [np.nan, 1.0, -np.inf, np.inf]
EMPTY = np.zeros((0, 4))
windows = np.lib.stride_tricks

CASES: list[tuple[Function, tuple[Any, ...]]] = []


def case(function: Function, *args: Any) -> None:
    """`function(xp, *args)` under NumPy and mlc.numpy."""
    CASES.append((function, args))


case(lambda xp, x, y: xp.isclose(x, y, equal_nan=True), H, H + 1e-9)
case(lambda xp, x, y: xp.isclose(x, y), H, H * (1 + 1e-4))
case(lambda xp, x: xp.isclose(x, 3, 0.5, 1), N)
case(lambda xp, x, y: (xp.allclose(x, y), xp.allclose(x, x)), X, Y)
case(lambda xp, x, y: (xp.array_equal(x, y), xp.array_equal(x, x), xp.array_equal(x, x[0])), X, Y)
case(lambda xp, x: xp.array_equal(x, x, equal_nan=True), H)
case(
    lambda xp, x: (
        xp.array_equiv(x, x[:1]),
        xp.array_equiv(x[:1], x[0]),
        xp.array_equiv(x, x[:, :3]),
    ),
    X,
)
case(lambda xp, x: xp.isin(x, [1, 2, 3]), N)
case(lambda xp, x, y: xp.isin(x, y, invert=True), N, np.arange(-20, 2, 2))
case(lambda xp, x: xp.isin(x, np.zeros(0)), X)
case(lambda xp, x: (xp.isposinf(x), xp.isneginf(x)), H)
case(lambda xp, x: xp.isposinf(x), C)
case(lambda xp, x, y: (xp.isreal(x), xp.iscomplex(x), xp.isreal(y)), C * (X > 0), X)
case(lambda xp, x: xp.nan_to_num(x), H)
case(lambda xp, x: xp.nan_to_num(x, nan=1.5, posinf=7, neginf=-7), H.astype(np.float32))
case(lambda xp, x: xp.nan_to_num(x), N)
case(lambda xp, x: xp.nan_to_num(x), H + 0 * C)
case(lambda xp, x: xp.real_if_close(x), X)
case(lambda xp, x, y: (xp.angle(x), xp.angle(x, deg=True), xp.angle(y)), C, X)
case(lambda xp, x: xp.zeros(3, xp.result_type(x, np.float32)), N)
case(lambda xp, x: xp.zeros(3, xp.common_type(x)), N)
case(lambda xp, x: xp.ones(2, xp.can_cast(x.dtype, np.float32)), N)
case(lambda xp, x: xp.zeros(xp.broadcast_shapes(x.shape, (5, 1), (3, 1, 4))), X)
case(lambda xp, x: (x + xp.iterable(x), x + xp.isscalar(x)), X)
case(lambda xp, x: (xp.nansum(x), xp.nansum(x, 0), xp.nanprod(x, 1, keepdims=True)), H)
case(lambda xp, x: (xp.nanmax(x, 0), xp.nanmin(x), xp.nanmax(x, 1, initial=0.0)), H)
case(lambda xp, x: (xp.nanmean(x, 1), xp.nanvar(x[:2], 1), xp.nanstd(x[:2], 0, ddof=1)), H)
case(lambda xp, x: (xp.nansum(x), xp.nanmax(x, 0), xp.nanmean(x), xp.nanvar(x, 0)), N)
case(lambda xp, x: (xp.nanmax(x, 0), xp.nanmean(x, 0), xp.nanvar(x, 0)), H[2:3])
case(lambda xp, x: (xp.nanargmax(x, 1), xp.nanargmin(x), xp.nanargmax(x, 0, keepdims=True)), H)
case(lambda xp, x: (xp.nancumsum(x, 0), xp.nancumprod(x)), H)
case(lambda xp, x: (xp.nanmedian(x, 0), xp.nanmedian(x), xp.nanmedian(x, 1, keepdims=True)), H[:2])
case(lambda xp, x: (xp.nanmedian(x, 0), xp.nanmedian(x)), N)
case(lambda xp, x: xp.nanquantile(x, [0.1, 0.5, 1.0], axis=0), H[:2])
case(lambda xp, x: (xp.nanpercentile(x, 30, axis=1), xp.nanpercentile(x, 30, keepdims=True)), H[:2])
case(lambda xp, x, y: xp.meshgrid(x, y), V, W)
case(lambda xp, x, y: xp.meshgrid(x, y, V[:2], indexing="ij", sparse=True), V, W)
case(lambda xp, x: (x[:2, :3] + xp.indices((2, 3))[0], *xp.indices((2, 3), sparse=True)), X)
case(lambda xp, x: x[xp.ix_([0, 2], [1, 3, 1])], X)
case(lambda xp, x: xp.fromfunction(lambda i, j: i * x[0] + j, (3, 4)), X)
case(lambda xp, x: xp.mgrid[0:3, 1:2:5j] + x[0, 0], X)
case(lambda xp, x: xp.mgrid[0:5:2] + x[0, :3], X)
case(lambda xp, x: (xp.ogrid[0:3, 1:2:0.25][1] + x[0, 0], xp.ogrid[0:4] + x[0]), X)
case(lambda xp, x: xp.r_[x, 0:3, 7, [1, 2]], V)
case(lambda xp, x: xp.r_["0,2", x, x], V)
case(lambda xp, x: xp.r_["-1", x, x], X)
case(lambda xp, x: (xp.c_[x, x], xp.c_[x[:3], 0:3]), V)
case(lambda xp, x: xp.c_[x, x[:, 0]], X)
case(lambda xp, x: (xp.r_[x, 5], xp.r_[x, 5.5]), N[0].astype(np.int8))
case(lambda xp, x: x[np.s_[1:3, ::2]], X)
case(lambda xp, x: (xp.logspace(0, 2, 5) * x[0, 0], xp.logspace(x[0, 0], 1, 4, base=2)), X)
case(lambda xp, x: (xp.geomspace(1, 1000, 4) * x[0, 0], xp.geomspace(-1.0, -16.0, 5, False)), X)
case(lambda xp, x: (xp.vander(x), xp.vander(x, 3, increasing=True), xp.vander(x, 0)), W)
case(lambda xp, x: xp.vander(x, 4), N[0])
case(lambda xp, x: (x[xp.diag_indices(4)], x[:4][xp.diag_indices_from(x[:4])]), X)
case(lambda xp, x: xp.diag_indices_from(x), X)
case(lambda xp, x: (x[xp.tril_indices_from(x)], x[xp.triu_indices_from(x, 1)]), X[:4])
case(
    lambda xp, x: (
        xp.hanning(7) * x,
        xp.hamming(7),
        xp.blackman(7),
        xp.bartlett(7),
        xp.kaiser(7, 4.5),
    ),
    V,
)
case(lambda xp, x: (xp.hanning(1), xp.hamming(0), xp.kaiser(1, 2.0), x), V)
case(lambda xp, x: xp.i0(x * 9), X)
case(lambda xp, x: xp.i0(x), N.astype(np.float32))
case(
    lambda xp, x: (xp.atleast_2d(x[0, 0], x[0], x), xp.atleast_3d(x[0], x), xp.atleast_3d(x[0, 0])),
    X,
)
case(lambda xp, x, y: (xp.dstack([x, y]), xp.dstack([x[0], y[0]])), X, Y)
case(lambda xp, x: xp.array_split(x, 3), V)
case(lambda xp, x: xp.array_split(x, [1, 3], axis=1), X)
case(lambda xp, x: (xp.hsplit(x, 2), xp.vsplit(x, [2]), xp.hsplit(x[0], 2)), X)
case(lambda xp, x: xp.vsplit(x, 2), V)
case(lambda xp, x: xp.dsplit(x[None], 2), X)
case(lambda xp, x: xp.block([[x, x * 2], [xp.ones((2, 8))]]), X)
case(lambda xp, x: (xp.block([x, 1.0]), xp.block(x)), V)
case(lambda xp, x: xp.rollaxis(x[None], 2), X)
case(lambda xp, x: (xp.rollaxis(x[None], 2, 1), xp.rollaxis(x[None], 0, 3)), X)
case(
    lambda xp, x: (
        xp.delete(x, 1, 0),
        xp.delete(x, [0, 2], 1),
        xp.delete(x, slice(1, 3)),
        xp.delete(x, -1),
    ),
    X,
)
case(lambda xp, x: xp.delete(x, 9, 0), X)
case(
    lambda xp, x: (
        xp.insert(x, 1, 5),
        xp.insert(x, 2, 7.5, axis=0),
        xp.insert(x, [1, 3], [8, 9], axis=1),
    ),
    X,
)
case(lambda xp, x: xp.insert(x, 1, x[:, 0], axis=1), X)
case(lambda xp, x: xp.insert(x, [0, 0, 2], x[0][:3]), V)
case(lambda xp, x: (xp.resize(x, (3, 4)), xp.resize(x, 2)), V)
case(lambda xp, x: (xp.asfortranarray(x) + 1, xp.require(x, np.float32)), X)
case(lambda xp, x: (xp.fromiter((v for v in x[0]), np.float32), xp.fromiter(x[:, 0], float, 2)), X)
case(lambda xp, x: xp.fromiter(x[0], float, 9), X)
case(lambda xp, x: (lambda y: (xp.copyto(y, x), y)[1])(np.zeros((5, 4))), X)
case(lambda xp, x: (lambda y: (xp.copyto(y, x, where=x > 0), y)[1])(np.ones((5, 4))), X)
case(lambda xp, x: (lambda y: (xp.copyto(y, x), y)[1])(np.ones((5, 4), int)), X)
case(lambda xp, x: xp.select([x > 1, x > 0], [x, x * 2], -1), X)
case(lambda xp, x: xp.select([x > 1, x > 0], [x, 2.5]), N)
case(lambda xp, x: xp.select([x], [x]), N)
case(lambda xp, m, x: xp.choose(m, [x, x * 2, 0, -x]), M, X)
case(
    lambda xp, m, x: (xp.choose(m, [x, x * 2], mode="wrap"), xp.choose(m, [x, -x], mode="clip")),
    N,
    X,
)
case(lambda xp, x: xp.piecewise(x, [x < -0.5, x > 0.5], [lambda v: v**2, 1, lambda v: -v]), X)
case(lambda xp, x: xp.piecewise(x, [x < 0], [-1]), N)
case(lambda xp, x: xp.piecewise(x, [x < 0], [1, 2, 3]), N)
case(lambda xp, x: xp.unravel_index(x, (3, 4)), M)
case(lambda xp, x: xp.unravel_index(x, (3, 4), order="F"), M)
case(
    lambda xp, x: (
        xp.ravel_multi_index((x, x), (4, 5)),
        xp.ravel_multi_index((x, x), (4, 5), order="F"),
    ),
    M,
)
case(lambda xp, x: xp.ravel_multi_index((x, x), (3, 3), mode="clip"), N)
case(lambda xp, x, y: (xp.lexsort((x, y)), xp.lexsort((x, y), axis=0)), M, M[::-1] // 2)
case(lambda xp, x: xp.lexsort(x), M)
case(lambda xp, x: xp.apply_along_axis(lambda v: v.sum() * v[0], 0, x), X)
case(lambda xp, x: xp.apply_along_axis(np.cumsum, 1, x[None]), X)
case(lambda xp, x: xp.apply_over_axes(np.sum, x[None], [0, 2]), X)
case(lambda xp, x: xp.compress([True, False, True], x, axis=0), X)
case(lambda xp, x: xp.compress([True, False, True], x), X)
case(lambda xp, x: xp.extract(x > 0, x), X)
case(lambda xp, x: xp.trim_zeros(x, "f"), np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0]))
case(lambda xp, x, y: (xp.intersect1d(x, y), xp.setdiff1d(x, y), xp.setxor1d(x, y)), N, M)
case(lambda xp, x: tuple(xp.unique_all(x)), M)
case(lambda xp, x: (*xp.unique_counts(x), *xp.unique_inverse(x)), M)
case(lambda xp, x: xp.sort_complex(x), V)
case(lambda xp, x: (xp.ptp(x), xp.ptp(x, 0), xp.ptp(x, axis=1, keepdims=True)), X)
case(lambda xp, x: (xp.ediff1d(x), xp.ediff1d(x, to_end=[1, 2], to_begin=9.5)), V)
case(lambda xp, x: xp.gradient(x), X)
case(lambda xp, x: (xp.gradient(x, 2.0, axis=0), xp.gradient(x, 0.5, 3, edge_order=2)), X)
case(
    lambda xp, x, y: (xp.gradient(x, y), xp.gradient(x, y, edge_order=2)),
    V,
    np.cumsum(np.abs(V) + 0.1),
)
case(lambda xp, x: xp.gradient(x), N)
case(lambda xp, x: xp.gradient(x[:1], axis=0), X)
case(lambda xp, x, y: (xp.trapezoid(x), xp.trapezoid(x, dx=0.5, axis=0), xp.trapezoid(x, y)), X, Y)
case(lambda xp, x, y: xp.trapezoid(x, y, axis=0), X, V[:5])
case(lambda xp, x, y: (xp.cross(x, y), xp.linalg.cross(x, y)), X[:, :3], Y[:, 1:])
case(lambda xp, x, y: xp.cross(x, y, axis=0), X[:3], N[:3])
case(lambda xp, x, y: (xp.kron(x, y), xp.kron(x[0], y[0]), xp.kron(x[0], y)), X, Y)
case(lambda xp, x, y: xp.kron(x, y), N, C)
case(lambda xp, x: (xp.unwrap(x * 9), xp.unwrap(x * 3, axis=0), xp.unwrap(x * 9, discont=4)), X)
case(lambda xp, x: xp.unwrap(x, period=4), N)
case(
    lambda xp, x, y: (xp.cov(x), xp.cov(x, y, rowvar=False), xp.cov(x[0]), xp.cov(x, bias=True)),
    X,
    Y,
)
case(lambda xp, x, y: (xp.corrcoef(x), xp.corrcoef(x[0], y[0]), xp.corrcoef(x[0])), X, Y)
case(lambda xp, x: (xp.cov(x), xp.corrcoef(x)), C)
case(lambda xp, x, y: xp.histogram2d(x, y, 4), V, V[::-1].copy())
case(lambda xp, x, y: xp.histogram2d(x, y, [np.array([-1.0, 0, 2]), 3], density=True), V, V * V)
case(lambda xp, x: xp.histogramdd(x, bins=3, weights=x[:, 0])[0], X[:, :3])
case(
    lambda xp, x, w: (xp.convolve(x, w), xp.convolve(x, w, "same"), xp.convolve(x, w, "valid")),
    V,
    W,
)
case(
    lambda xp, x, w: (xp.convolve(w, x), xp.convolve(w, x, "same"), xp.convolve(w, x, "valid")),
    V,
    W,
)
case(lambda xp, x, w: (xp.convolve(x, w, "same"), xp.correlate(x, w, "same")), V, V[:4])
case(
    lambda xp, x, w: (xp.correlate(x, w), xp.correlate(x, w, "same"), xp.correlate(x, w, "full")),
    V,
    W,
)
case(
    lambda xp, x, w: (xp.correlate(w, x), xp.correlate(w, x, "same"), xp.correlate(w, x, "full")),
    V,
    W,
)
case(lambda xp, x, w: (xp.convolve(x, w), xp.correlate(x, w)), N[0], C[0])
case(lambda xp, x, w: (xp.convolve(x, w), xp.convolve(x, w, "same")), N[0], N[1, :3])
case(lambda xp, x: xp.convolve(x, x), X)
case(lambda xp, x: (xp.polyval(x, 2.0), xp.polyval([1, 2, 3], x)), V)
case(lambda xp, p, x: xp.polyval(p, x), N[0], X)
case(lambda xp, p, q: (xp.polyadd(p, q), xp.polysub(p, q), xp.polymul(p, q)), V, W)
case(lambda xp, p, q: xp.polydiv(p, q), V, W)
case(lambda xp, p: (xp.polyder(p), xp.polyder(p, 2), xp.polyint(p), xp.polyint(p, 2, [1, 2])), V)
case(lambda xp, p: (xp.polyder(p), xp.polyint(p)), N[0])
case(lambda xp, z: xp.poly(z), W)
case(lambda xp, p: xp.sort(abs(xp.roots(p))), np.array([1.0, 2, 3, 4]))
case(lambda xp, x, y: (xp.polyfit(x, y, 2), xp.polyfit(x, y, 1, w=abs(y))), V, V[::-1] ** 2)
case(lambda xp, x: (*xp.modf(x * 3), *xp.modf(x[0])), X)
case(lambda xp, x: xp.modf(x), np.array([-0.0, np.inf, -np.inf, np.nan, -3.0], np.float32))
case(lambda xp, x: xp.frexp(x * 100), X)
case(lambda xp, x: xp.frexp(x), np.array([0.0, -0.0, np.inf, np.nan, 5e-324, -3e-310, 1e308]))
case(lambda xp, x: xp.frexp(x), (X * 100).astype(np.float16))
case(lambda xp, x, n: xp.ldexp(x, n), X, N * 3)
case(
    lambda xp, x: xp.ldexp(x, [3, -1074, 2000, -2000, -1022, 1]),
    np.array([1.0, 3, 5e-324, 1e308, 1.7, np.inf]),
)
case(lambda xp, x: xp.ldexp(x, -140), X.astype(np.float32))
case(lambda xp, x: xp.ldexp(x, 1.5), X)
case(lambda xp, x: (xp.spacing(x), xp.spacing(x.astype(np.float32)), xp.spacing(x * 0)), X)
case(lambda xp, x, y: (xp.gcd(x, y), xp.lcm(x, y), xp.gcd(x, 12)), N, M * 6)
case(lambda xp, x: xp.gcd(x, x), X)
case(
    lambda xp, x: (
        xp.bitwise_count(x),
        xp.bitwise_count(x.astype(np.int8)),
        xp.bitwise_count(x > 0),
    ),
    N,
)
case(lambda xp, x: (xp.packbits(x > 0), xp.packbits(x > 0, axis=1, bitorder="little")), X)
case(lambda xp, x: (xp.unpackbits(x), xp.unpackbits(x, axis=0, count=5)), N.astype(np.uint8))
case(lambda xp, x, y: xp.vecdot(x, y), C, C[::-1].copy())
case(lambda xp, x, y: (xp.matvec(x, y), xp.vecmat(y[None], x.T)), C, X[0])
case(lambda xp, x: xp.unstack(x, axis=1), X[:, :2])


CUTS = np.array(
    [
        *(0j, 1 + 0j, -1 + 0j, 1j, -1j, 2 + 0j, -2 + 0j, complex(-2, -0.0), complex(0.3, -0.0)),
        *(complex(-0.0, 2), complex(0.0, -2), 20 + 3j, -20 + 1e-3j),
    ]
)
OF_COMPLEX = (
    *("log", "log2", "log10", "log1p", "exp2", "expm1", "sqrt", "sin", "cos", "tan", "sinh"),
    *("cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "sign"),
    "rint",
)


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_functions_of_complex_numbers(name: str) -> None:
    def function(xp: Any, z: Any) -> Any:
        return getattr(xp, name)(z)

    agree(function, C * 1.5)
    agree(function, C.astype(np.complex64), dynamic=False)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(CUTS)
    found = mlc.compile(lambda z: function(np, z)).reference(CUTS)
    np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-13)


def test_the_order_of_complex_numbers() -> None:
    nan = np.nan
    a = np.array([1 + 1j, 1 + 2j, 2, nan, 1 + 1j, complex(3, nan)])
    b = np.array([1 + 1j, 1 + 1j, 3, 1, nan, 1])
    names = ("greater", "greater_equal", "less", "less_equal", "maximum", "minimum", "fmax", "fmin")
    agree(lambda xp, a, b: tuple(getattr(xp, n)(a, b) for n in names), a, b)
    parts = [1 + 1j, 1 + 0.5j, complex(nan, 1), complex(1, nan), -3, 2j, complex(nan, nan)]
    agree(lambda xp, a: (xp.sort(a), xp.argsort(a)), np.array(parts), dynamic=False)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_values(number: int) -> None:
    function, args = CASES[number]
    agree(function, *args)


def _in_place(xp: Any, x: Any) -> Any:
    y = x.copy()
    y.sort()
    y[1] = x[0]
    y.sort(axis=0)
    z = x.copy()
    z.flat[3] = 7
    z.flat = np.arange(3)
    z.put([0, 1, 7], [5, 6])
    w = x.copy()
    np.putmask(w, w > 0, [1, 2, 3])
    np.place(w, w < 0, [8, 9])
    np.fill_diagonal(w, 4)
    v = np.empty((2, 2))
    v.fill(3)
    return y, z, w, v, z + z.nbytes + z.strides[0], z.flat[2]


def _shapes(xp: Any, x: Any) -> Any:
    y = x.copy()
    row = y[1]
    y.shape = (2, -1)
    y[0, 0] = 5
    row[0] = 9
    return y, row, y.T


def _windows(xp: Any, x: Any) -> Any:
    found = np.lib.stride_tricks.sliding_window_view(x, (2, 3))
    return found, found.sum((-1, -2)), np.lib.stride_tricks.sliding_window_view(x, 2, axis=0)


METHODS: list[Function] = [
    _in_place,
    _shapes,
    _windows,
    lambda xp, x: np.lib.stride_tricks.as_strided(x, (3, 2), (32, 16)),
    lambda xp, x: (x > 0).astype(int).choose([1.0, 2.0]),
    lambda xp, x: x.compress([True, False, True], axis=0),
    lambda xp, x: np.vectorize(lambda a, b: a * b + 1)(x, x[0]),
    lambda xp, x: np.vectorize(lambda a: (a, a * 2), otypes=[np.float32, float])(x),
    lambda xp, x: np.einsum(x, [0, 1], x, [2, 1], [0, 2]),
    lambda xp, x: (np.einsum(x, [0, 1], x, [0, 1]), xp.einsum(x, [..., 1], [1, ...])),
    lambda xp, x: (np.tril(x[0]), np.triu(x[0], 1)),
    lambda xp, x: np.linalg.matmul(x, np.linalg.matrix_transpose(x)),
]


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_methods_and_views(number: int) -> None:
    agree(METHODS[number], X, eager=False, dynamic=False)


def test_the_shape_of_an_argument_stays() -> None:
    def assigned(x: Any) -> Any:
        x.shape = (20,)
        return x

    with pytest.raises(NotImplementedError, match=r"x = x\.reshape"):
        mlc.compile(assigned)(X)


def test_strides_outside_the_array_are_refused() -> None:
    with pytest.raises(ValueError, match="elements 0 to 20"):
        mlc.compile(lambda x: np.lib.stride_tricks.as_strided(x, (21,), (8,)))(X)


SMOOTH: list[tuple[Function, tuple[Any, ...]]] = [
    (lambda xp, x: np.nansum(np.where(X > 1, np.nan, x), 0), (X,)),
    (lambda xp, x: np.nanmean(np.where(X > 1, np.nan, x)), (X,)),
    (lambda xp, x: np.nanmedian(np.where(X > 1, np.nan, x)), (X,)),
    (lambda xp, x: np.gradient(x, edge_order=2), (X,)),
    (lambda xp, x: np.trapezoid(x, x + 3), (X,)),
    (lambda xp, x, y: np.kron(x, y), (X[:2], Y[:2])),
    (lambda xp, x, y: np.cross(x, y), (X[:, :3], Y[:, :3])),
    (lambda xp, x, y: np.convolve(x, y, "same"), (V, W)),
    (lambda xp, x, y: np.correlate(x, y, "full"), (V, W)),
    (lambda xp, x: np.cov(x), (X,)),
    (lambda xp, x: np.corrcoef(x), (X,)),
    (lambda xp, p, x: np.polyval(p, x), (W, X)),
    (lambda xp, x: np.vander(x), (W,)),
    (lambda xp, x: np.select([X > 0], [x], x * x), (X,)),
    (lambda xp, x: np.i0(x * 5), (X,)),
    (lambda xp, x: np.ldexp(x, 3), (X,)),
    (lambda xp, x: np.modf(x * 3)[0], (X,)),
    (lambda xp, x: np.frexp(x * 3)[0], (X,)),
    (lambda xp, x: np.r_[x, x[:2] * 2], (V,)),
    (lambda xp, x: np.apply_along_axis(lambda v: v @ v, 0, x), (X,)),
    (lambda xp, x: np.insert(np.delete(x, 1), 2, x[0]), (V,)),
    (lambda xp, x: np.block([[x, x], [x, x * x]]), (X,)),
    (lambda xp, x: np.nan_to_num(x), (X,)),
    (lambda xp, x: np.ptp(x, 0), (X,)),
    (lambda xp, x: np.sqrt(np.sin(x + 1j * Y)).real, (X,)),
    (lambda xp, x: np.arctanh(x + 1j * Y).imag, (X,)),
]


@pytest.mark.parametrize("number", range(len(SMOOTH)))
def test_derivatives(number: int) -> None:
    function, args = SMOOTH[number]
    derivative_agrees(function, *args)


def test_of_many_examples() -> None:
    rows = mlc.compile(mlc.vmap(lambda x, y: (np.convolve(x, y), np.gradient(x), np.cov(x, y))))
    found = rows(X, Y)
    for k, want in enumerate(zip(X, Y, strict=True)):
        x, y = want
        same(tuple(part[k] for part in found), (np.convolve(x, y), np.gradient(x), np.cov(x, y)))


def test_without_numbers_the_position_is_an_error() -> None:
    with pytest.raises(IndexError):
        mlc.compile(lambda x: np.nanargmax(x, 0))(np.full((2, 2), np.nan))


def test_parameters_are_numpys() -> None:
    """A composition takes what NumPy's function takes, in the same order."""
    for function in COMPOSED:
        if isinstance(function, np.ufunc):
            continue
        try:
            theirs = inspect.signature(function).parameters
        except ValueError:  # of C
            continue
        ours = inspect.signature(inspect.unwrap(implementation_of(function) or function)).parameters
        names = [p for p in theirs if p not in ("where", "like", "dtype") or p in ours]
        fits = list(ours)[: len(names)] == names or set(names) <= set(ours)
        loose = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in theirs.values())
        assert fits or loose, (function, list(theirs), list(ours))


def test_every_composition_has_a_case() -> None:
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {f.__name__ for f in COMPOSED} - used - WITHOUT_A_CASE


WITHOUT_A_CASE = {"put", "choose", "unique_values", "union1d"}
"""Their methods are used, or they are `unique`, whose cases are in test_numpy_edges.py."""
