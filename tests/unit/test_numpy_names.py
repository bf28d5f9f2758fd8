"""mlc.numpy against NumPy: values, dtypes and shapes, eagerly and traced."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.numpy.registry import BY_FUNCTION

mnp = mlc.numpy
RNG = np.random.default_rng(7)
F = RNG.normal(size=(3, 4)).astype(np.float32)
G = RNG.normal(size=(3, 4)).astype(np.float32)
D = RNG.normal(size=(4, 5))
B4 = RNG.normal(size=(2, 1, 3, 4))
C3 = RNG.normal(size=(5, 4, 2))
I32 = np.array([[3, -7, 0, 2], [5, 1, -1, 4], [0, 0, 9, -8]], dtype=np.int32)
I64 = I32.astype(np.int64)[::-1].copy()
POSITIVE = np.abs(F) + np.float32(0.5)
BOOL = F > 0
INDEX = np.array([[0, 2], [-1, 1]])

Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def case(name: str, *args: Any, **kwargs: Any) -> Case:
    """A call of NumPy's function."""
    return name, args, kwargs


CASES: list[Case] = [
    case("negative", F),
    case("negative", I32),
    case("exp", F),
    case("exp", I32),
    case("log", POSITIVE),
    case("tanh", D),
    case("sqrt", POSITIVE),
    case("square", I64),
    case("abs", F),
    case("abs", I32),
    case("abs", BOOL),
    case("sign", F),
    case("sign", I32),
    case("reciprocal", POSITIVE),
    case("positive", F),
    case("add", F, G),
    case("add", F, 1),
    case("add", I32, 1.5),
    case("add", I32, F),
    case("add", BOOL, BOOL),
    case("add", BOOL, 1),
    case("add", I32, I64),
    case("add", F, np.float64(2)),
    case("add", F, [1, 2, 3, 4]),
    case("subtract", F, G[:1]),
    case("multiply", BOOL, F),
    case("multiply", BOOL, ~BOOL),
    case("true_divide", I32, 7),
    case("true_divide", I32, I64 * 2 + 1),
    case("divide", F, 3),
    case("divide", BOOL, BOOL | True),
    case("floor_divide", I32, 3),
    case("floor_divide", I64, -2),
    case("remainder", I32, 3),
    case("mod", I64, -3),
    case("power", F, 3),
    case("power", I32, 2),
    case("power", F, 0),
    case("power", POSITIVE, -2),
    case("power", POSITIVE, 0.5),
    case("power", BOOL, 2),
    case("power", I32, 2.0),
    case("maximum", F, 0),
    case("minimum", I32, I64),
    case("clip", F, -0.5, 0.5),
    case("clip", I32, 0, None),
    case("clip", F, min=0),
    case("equal", I32, I64),
    case("not_equal", F, G),
    case("less", F, 0.5),
    case("less_equal", I32, 2),
    case("greater", F, G),
    case("greater_equal", I32, 0.5),
    case("isnan", np.array([1.0, np.nan, np.inf])),
    case("isinf", np.array([1.0, np.nan, -np.inf])),
    case("isfinite", np.array([1.0, np.nan, -np.inf])),
    case("isnan", I32),
    case("isfinite", I32),
    case("logical_and", BOOL, I32),
    case("logical_or", F, I32),
    case("logical_xor", BOOL, I32),
    case("logical_not", I32),
    case("bitwise_and", BOOL, ~BOOL),
    case("bitwise_or", BOOL, True),
    case("bitwise_xor", BOOL, BOOL),
    case("invert", BOOL),
    case("invert", I32),
    case("where", BOOL, F, 0),
    case("where", I32, 1, 2.5),
    case("where", BOOL[:1], F, D[:3, :4]),
    case("where", BOOL, I32, F),
    case("zeros", (2, 3)),
    case("zeros", 4, np.int32),
    case("ones", (2,)),
    case("ones", 3, bool),
    case("full", (2, 2), 7),
    case("full", 3, 2.5, np.float32),
    case("full", (2, 4), F[0]),
    case("zeros_like", I32),
    case("ones_like", F, np.float64),
    case("full_like", F, 3),
    case("arange", 5),
    case("arange", 2, 11, 3),
    case("arange", 5, 0, -2),
    case("arange", 0.0, 1.0, 0.25),
    case("arange", 3, dtype=np.float32),
    case("arange", 5, 2),
    case("linspace", 0, 1, 5),
    case("linspace", 0, 1, 4, False),
    case("eye", 3),
    case("eye", 2, 4, 1, np.float32),
    case("identity", 2),
    case("tri", 3, 4, -1),
    case("tril", F, 1),
    case("triu", F),
    case("array", [[1, 2], [3, 4]]),
    case("array", [1, 2.5]),
    case("array", [F[0], G[0]]),
    case("array", F, dtype=np.float64),
    case("array", 3, ndmin=2),
    case("asarray", [True, False]),
    case("copy", F),
    case("reshape", F, (2, 6)),
    case("reshape", F, -1),
    case("reshape", F, (3, -1, 2)),
    case("ravel", F),
    case("transpose", C3),
    case("transpose", C3, (1, 0, 2)),
    case("swapaxes", C3, 0, -1),
    case("moveaxis", B4, 0, -1),
    case("moveaxis", B4, (0, 1), (-1, -2)),
    case("expand_dims", F, 0),
    case("expand_dims", F, (0, -1)),
    case("squeeze", B4),
    case("squeeze", B4, 1),
    case("broadcast_to", F[0], (2, 3, 4)),
    case("concatenate", [F, G]),
    case("concatenate", [F, I32], axis=1),
    case("concatenate", (F, G), axis=None),
    case("stack", [F, G]),
    case("stack", [F, I32], axis=-1),
    case("vstack", [F[0], G]),
    case("hstack", [F, G]),
    case("hstack", [F[0], G[0]]),
    case("column_stack", [F[:, 0], G]),
    case("split", F, 2, axis=1),
    case("split", F, [1, 3], axis=1),
    case("flip", F),
    case("flip", F, 1),
    case("repeat", F, 2),
    case("repeat", F, 3, 1),
    case("tile", F, 2),
    case("tile", F, (2, 1, 3)),
    case("atleast_1d", 3.0),
    case("take", F, [0, -1]),
    case("take", F, INDEX, axis=1),
    case("take", F, 2),
    case("take_along_axis", F, np.argsort(F, 1), 1),
    case("take_along_axis", F, np.array([[1, 0, 2, 1]]), 0),
    case("matmul", F, D),
    case("matmul", F[0], D),
    case("matmul", F, D[:, 0]),
    case("matmul", F[0], F[1]),
    case("matmul", B4, C3),
    case("matmul", B4[:1], C3[:1]),
    case("matmul", I32, I64.T),
    case("matmul", BOOL, BOOL.T),
    case("matmul", C3[0].T, C3),
    case("matmul", C3, C3[0, :2]),
    case("dot", F, D),
    case("dot", F[0], F[1]),
    case("dot", C3, D[:2]),
    case("dot", B4, C3),
    case("dot", F, 2),
    case("vdot", F, G),
    case("inner", F, G),
    case("outer", F[0], D[0]),
    case("tensordot", F, D, 1),
    case("tensordot", F, G),
    case("tensordot", C3, D, ([1], [0])),
    case("trace", F),
    case("einsum", "ij,jk->ik", F, D),
    case("einsum", "ij,jk", F, D),
    case("einsum", "ij->ji", F),
    case("einsum", "ij->", F),
    case("einsum", "ij,ij->i", F, G),
    case("einsum", "...ij,...jk->...ik", B4, C3),
    case("einsum", "ij,jk,lk->il", F, D, D),
    case("einsum", "i,j->ij", F[0], D[0]),
    case("einsum", "ij,kj->k", F, G),
    case("einsum", "...ii->...i", np.arange(18.0).reshape(2, 3, 3)),
    case("einsum", "iij,jk->ik", np.arange(18.0).reshape(3, 3, 2), np.arange(8.0).reshape(2, 4)),
    case("einsum", "ii", np.arange(9.0).reshape(3, 3)),
    case("sum", F),
    case("sum", F, 0),
    case("sum", I32),
    case("sum", BOOL, 1),
    case("sum", F, axis=(0, 1), keepdims=True),
    case("sum", F, dtype=np.float64),
    case("sum", B4, (0, -1)),
    case("prod", F, 1),
    case("prod", I32, 0),
    case("max", F),
    case("max", I32, 1),
    case("min", F, (0, 1)),
    case("min", BOOL),
    case("any", F > 1, 0),
    case("all", I32, 1),
    case("all", F),
    case("argmax", F),
    case("argmax", I32, 1),
    case("argmin", F, 0, keepdims=True),
    case("argmin", F, keepdims=True),
    case("mean", F),
    case("mean", I32, 0),
    case("mean", BOOL),
    case("mean", F, (0, 1), keepdims=True),
    case("average", F, 1, weights=POSITIVE),
    case("var", F, 0),
    case("var", I32),
    case("std", F, 1, ddof=1),
    case("std", F, keepdims=True),
    case("count_nonzero", I32, 0),
    case("size", F),
    case("shape", F),
    case("ndim", F),
    case("broadcast_arrays", F, G[:1], 2.0),
]


def leaves(value: Any) -> list[Any]:
    """The arrays and numbers of a result."""
    return list(value) if isinstance(value, tuple | list) else [value]


def assert_same(found: Any, expected: Any) -> None:
    """Equal kind, dtype, shape, and values within float rounding."""
    assert len(leaves(found)) == len(leaves(expected))
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.shape(a) == np.shape(b)
        assert isinstance(a, np.ndarray) == (isinstance(b, np.ndarray) and b.ndim > 0)
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("named", CASES, ids=lambda c: f"{c[0]}-{len(c[1])}")
def test_eager_agrees_with_numpy(named: Case) -> None:
    name, args, kwargs = named
    assert_same(getattr(mnp, name)(*args, **kwargs), getattr(np, name)(*args, **kwargs))


SKIP_TRACED = {"size", "shape", "ndim"}  # Python numbers


@pytest.mark.parametrize("named", CASES, ids=lambda c: f"{c[0]}-{len(c[1])}")
def test_traced_agrees_with_numpy(named: Case) -> None:
    name, args, kwargs = named
    if name in SKIP_TRACED:
        return
    arrays: list[Any] = [a for a in args if isinstance(a, np.ndarray)]

    def function(*given: Any) -> Any:
        rest = iter(given)
        full = [next(rest) if isinstance(a, np.ndarray) else a for a in args]
        return getattr(np, name)(*full, **kwargs)

    assert_same(mlc.compile(function).reference(*arrays), function(*arrays))


KEYS: list[Any] = [
    0,
    -1,
    slice(None, None, -1),
    (slice(1, 3), 0),
    (..., None, 1),
    (None, slice(0, 2)),
    slice(5, 0, -2),
    slice(10, 20),
    slice(-2, None),
    slice(None, -1),
    (0, slice(None, None, 2)),
    (slice(3, None, -1), slice(-1, 0, -2)),
    (),
    ...,
    (slice(2, 1), 3),
    INDEX,
    (INDEX, INDEX),
    (slice(None), INDEX),
    (0, INDEX),
    (INDEX, slice(1, 3)),
    (None, INDEX, None),
    (INDEX, None, INDEX),
    (INDEX[0], INDEX),
    (INDEX, None, slice(None)),
    (slice(0, 2), None, INDEX),
    [0, 2],
    ([0, 1], [1, 3]),
    (INDEX[:, :1], INDEX[:1]),
    (..., INDEX),
    (slice(None, None, -1), INDEX),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_reading_parts(key: Any) -> None:
    assert_same(mlc.compile(lambda x: x[key]).reference(F), F[key])


def test_integers_apart_from_index_arrays() -> None:
    x = RNG.normal(size=(3, 4, 5))
    for key in (
        (0, slice(None), INDEX),
        (INDEX, slice(None), 1),
        (0, INDEX, slice(1, 3)),
        (slice(None), 1, INDEX),
    ):
        assert_same(mlc.compile(lambda x, key=key: x[key]).reference(x), x[key])


def test_traced_index() -> None:
    def pick(x: Any, i: Any, j: Any) -> Any:
        return x[i], x[i, 1:3], x[j[0], j[1]], np.eye(4)[i]

    i, j = np.array([2, 0, 1]), np.array([[0, 1], [3, 2]], dtype=np.int32)
    assert_same(mlc.compile(pick).reference(F, i, j), pick(F, i, j))


def test_every_name_is_numpys() -> None:
    for function, implementation in BY_FUNCTION.items():
        assert callable(implementation)
        homes = (np, np.fft, np.linalg, np.lib.stride_tricks)
        assert any(getattr(home, function.__name__, None) is function for home in homes)


def test_methods_agree_with_numpy() -> None:
    methods: list[Callable[[Any], Any]] = [
        lambda x: x.sum(),
        lambda x: x.sum(axis=0, keepdims=True),
        lambda x: x.mean(1),
        lambda x: x.max(),
        lambda x: x.min(0),
        lambda x: x.T,
        lambda x: x.reshape(4, 3),
        lambda x: x.reshape((2, -1)),
        lambda x: x.transpose(1, 0),
        lambda x: x.transpose(),
        lambda x: x.astype(np.float64),
        lambda x: x.astype("int32"),
        lambda x: x.argmax(1),
        lambda x: x.dot(x.T),
        lambda x: x.ravel(),
        lambda x: x.flatten(),
        lambda x: x.copy(),
        lambda x: x.clip(0, 1),
        lambda x: x.std(),
        lambda x: x.var(0),
        lambda x: (x > 0).any(),
        lambda x: (x > 0).all(1),
        lambda x: x.swapaxes(0, 1),
        lambda x: x.take([0, 1]),
        lambda x: x.prod(),
        lambda x: x.squeeze(),
        abs,
        lambda x: -x,
        lambda x: +x,
        lambda x: ~(x > 0),
        lambda x: 2 - x,
        lambda x: 1 / (x * x + 1),
        lambda x: x**2,
        lambda x: (x > 0) & (x < 1),
        lambda x: (x > 0) | (x < -1),
        lambda x: (x > 0) ^ (x < 1),
        lambda x: x @ x.T,
        lambda x: np.float32(2) * x,
        lambda x: np.ones(4) + x,
        lambda x: np.ones((2, 3), np.float32) @ x,
        lambda x: x.size * x,
        lambda x: x.ndim + x,
        lambda x: x.mT,
        lambda x: len(x) * x,
        lambda x: x * x.shape[0],
        np.add.reduce,
        lambda x: np.add.reduce(x, axis=None),
        lambda x: np.maximum.reduce(x, axis=1),
    ]
    for k, method in enumerate(methods):
        try:
            assert_same(mlc.compile(method).reference(F), method(F))
        except AssertionError as error:
            raise AssertionError(f"method {k}") from error
