"""NumPy's names that order, count, pad, shift and write at positions: compiled against NumPy."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.sweeps import covering

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 9))
V = RNG.standard_normal(23)
INDEX = RNG.integers(0, 7, 23)
XP, FP = np.sort(RNG.standard_normal(8)), RNG.standard_normal(8)
ARRAYS = {
    "f64": X,
    "f32": X.astype(np.float32),
    "i64": (X * 10).astype(np.int64),
    "i32": (X * 10).astype(np.int32),
    "bool": X > 0,
}
NUMBERS = ("f64", "f32", "i64", "i32")
FLOATS = ("f64", "f32")
Function = Callable[..., Any]


def _assign(x: Any) -> Any:
    y = x.copy()
    y[np.array([1, 3, 1])] = x[0]
    y[:, np.array([0, 2])] = x[:, :2]
    y[np.array([0, 1]), np.array([2, 2])] = x[3, :2]
    y[1:4, np.array([-1, 3])] = x[2:5, :2]
    y[::2] = x[1]
    y[1::3, ::-2] = x[2, 4:0:-1][:1]
    return y


def _mask(x: Any) -> Any:
    y = x.copy()
    y[x > 0] = 0
    y[:, x[0] > 0] = 1
    y[x[:, 0] > 0] = x[1]
    return y


def _put(x: Any) -> Any:
    y = x.copy()
    np.put_along_axis(y, (x[:, :2] > 0).astype(np.int64) * 3 - 4, x[:, 2:4], axis=1)
    return y


def _add_once(x: Any) -> Any:
    y = x.copy()
    y[np.array([1, 1, 2])] += x[0]
    return y


def _add_at(x: Any) -> Any:
    y, i = x.copy(), np.array([1, 1, 2])
    np.add.at(y, i, x[0])
    np.maximum.at(y, (i, i), x[2, :3])
    np.subtract.at(y, (slice(None), i), x[:, :3])
    np.multiply.at(y, (2, i), 2)
    np.minimum.at(y, 3, x[1])
    return y


def _all_pads(x: Any) -> Any:
    modes = ("edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "constant")
    return tuple(np.pad(x, ((1, 2), (3, 0)), mode=mode) for mode in modes)


ALL: dict[str, Function] = {
    "cumsum": lambda x: (np.cumsum(x, 1), np.cumsum(x, 0), np.cumsum(x)),
    "cumprod": lambda x: np.cumprod(x, 1),
    "extremes": lambda x: (np.maximum.accumulate(x, axis=1), np.minimum.accumulate(x)),
    "sort": lambda x: (np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None)),
    "argsort": lambda x: (np.argsort(x, axis=0, kind="stable"), np.argsort(x, kind="stable")),
    "searchsorted": lambda x: (
        np.searchsorted(np.sort(x[0]), x),
        np.searchsorted(np.sort(x[0]), x, side="right"),
        np.searchsorted(np.sort(x[0]), x[0, 0]),
    ),
    "pad": _all_pads,
    "values": lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=((1, 0), (0, 1))),
    "ramp": lambda x: np.pad(x, ((2, 3), (1, 0)), mode="linear_ramp", end_values=((0, 1), (1, 0))),
    "big": lambda x: (np.pad(x, 20, mode="reflect"), np.pad(x, (9, 3), mode="wrap")),
    "roll": lambda x: (np.roll(x, 2), np.roll(x, -3, axis=1), np.roll(x, (1, 2), axis=(0, 1))),
    "turn": lambda x: (np.rot90(x), np.rot90(x, 2), np.rot90(x, 3), np.fliplr(x), np.flipud(x)),
    "diagonal": lambda x: (np.diagonal(x), np.diag(x, 2), np.diag(x, -3)),
    "diag": lambda x: (np.diag(x[0]), np.diag(x[0], 2), np.diag(x[0], -1), np.diagflat(x[:2])),
    "triangle": lambda x: (np.tril(x), np.triu(x, 1)),
    "repeat": lambda x: (
        np.repeat(x, 2),
        np.repeat(x, 3, axis=1),
        np.repeat(x, [1, 2, 0, 1, 1, 3, 2], axis=0),
        np.tile(x, (2, 1)),
        np.append(x, x[0]),
    ),
    "assign": _assign,
    "mask": _mask,
    "put_along_axis": _put,
    "diff": lambda x: np.diff(x, axis=0),
}
ON_NUMBERS: dict[str, Function] = {
    "median": lambda x: (np.median(x), np.median(x, axis=0), np.median(x, axis=1, keepdims=True)),
    "quantile": lambda x: (
        np.quantile(x, 0.3),
        np.quantile(x, [0.1, 0.5], axis=0),
        np.percentile(x, 40, axis=1),
        np.quantile(x, 0.25, axis=(0, 1)),
    ),
    "methods": lambda x: tuple(
        np.quantile(x, 0.37, axis=1, method=m) for m in ("lower", "higher", "midpoint", "nearest")
    ),
    "add_once": _add_once,
    "add_at": _add_at,
    "accumulate": lambda x: np.add.accumulate(x, axis=1),
    "second": lambda x: np.diff(x, 2),
}
ON_FLOATS: dict[str, Function] = {
    "logaddexp": lambda x: np.logaddexp.accumulate(x, axis=1),
    "mean": lambda x: np.pad(x, 2, mode="mean", stat_length=3),
    "nan": lambda x: (np.sort(np.where(x > 1, np.nan, x)), np.median(np.where(x > 1, np.nan, x))),
}
CASES = [
    *covering([*ALL], [*ARRAYS], strength=1),
    *covering([*ON_NUMBERS], NUMBERS, strength=1),
    *covering([*ON_FLOATS], FLOATS, strength=1),
]


def check(function: Function, *arrays: Any, reference: Function | None = None) -> None:
    """The compiled function gives NumPy's values, dtypes and shapes."""
    want = (reference or function)(*(x.copy() for x in arrays))
    got = mlc.compile(function)(*arrays)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for pair in pairs:
        found, expected = map(np.asarray, pair)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        tolerance = 1e-5 if found.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_compiled_gives_what_numpy_gives(name: str, dtype: str) -> None:
    check((ALL | ON_NUMBERS | ON_FLOATS)[name], ARRAYS[dtype])


OTHERS: dict[str, tuple[Function, tuple[Any, ...], Function | None]] = {
    "bincount": (lambda i: np.bincount(i, minlength=7), (INDEX,), None),
    "weights": (lambda i, v: np.bincount(i, weights=v, minlength=7), (INDEX, V), None),
    "histogram": (lambda v: np.histogram(v, bins=5), (V,), None),
    "range": (lambda v: np.histogram(v, bins=5, range=(-1, 1)), (V,), None),
    "borders": (lambda v: np.histogram(v, bins=np.array([-2.0, -1, 0, 3])), (V,), None),
    "density": (lambda v: np.histogram(v, bins=4, density=True), (V,), None),
    "interp": (
        lambda v, x, y: (np.interp(v, x, y), np.interp(v, x, y, left=-9.0, right=9.0)),
        (V, XP, FP),
        None,
    ),
    "digitize": (lambda v, x: (np.digitize(v, x), np.digitize(v, x, right=True)), (V, XP), None),
    "unique": (
        lambda i: mlc.numpy.unique(
            i, size=7, return_index=True, return_inverse=True, return_counts=True
        ),
        (INDEX,),
        lambda i: np.unique(i, return_index=True, return_inverse=True, return_counts=True),
    ),
    "top_k": (
        lambda v: mlc.numpy.top_k(v, 4),
        (V,),
        lambda v: (np.sort(v)[::-1][:4], np.argsort(-v)[:4]),
    ),
    "partition": (lambda v: np.partition(v, 4)[4], (V,), None),
    "partition, from the end": (lambda v: np.partition(v, -2)[-2], (V,), None),
    "partition, two ranks": (lambda v: np.partition(v, [1, 4])[[1, 4]], (V,), None),
    "argpartition": (lambda v: v[np.argpartition(v, 4)[4]], (V,), None),
    "top_k, few": (
        lambda v: mlc.numpy.top_k(v, 2),
        (V,),
        lambda v: (np.sort(v)[::-1][:2], np.argsort(-v)[:2]),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_counting_gives_what_numpy_gives(name: str) -> None:
    function, arrays, reference = OTHERS[name]
    check(function, *arrays, reference=reference)


def test_fewer_different_elements_than_asked_for() -> None:
    found = mlc.compile(lambda i: mlc.numpy.unique(i, size=9, fill_value=-1))(INDEX)
    np.testing.assert_array_equal(found, [*np.unique(INDEX), -1, -1])


def test_parts_at_traced_offsets() -> None:
    def both(x: Any, i: Any) -> Any:
        part = mlc.numpy.dynamic_slice(x, (i, 1), (2, 3))
        return part, mlc.numpy.dynamic_update(x, part * 2, (i + 1, 0))

    compiled = mlc.compile(both)
    for i in (0, 3, 99, -5):
        part, new = compiled(X, np.int64(i))
        start, at = np.clip([i, i + 1], 0, 5)
        np.testing.assert_array_equal(part, X[start : start + 2, 1:4])
        want = X.copy()
        want[at : at + 2, :3] = part * 2
        np.testing.assert_array_equal(new, want)


def test_symbolic_sizes_give_what_numpy_gives() -> None:
    def several(x: Any) -> Any:
        y = np.cumsum(np.pad(x, ((0, 0), (1, 2))), axis=1)
        return np.sort(y, axis=0), np.roll(x, 1, axis=1), np.searchsorted(x[0], x)

    compiled = mlc.compile(dynamic={"x": {0: "M", 1: "N"}})(several)
    for shape in ((3, 5), (1, 40), (6, 200)):
        x = np.sort(RNG.standard_normal(shape), axis=1)
        for found, want in zip(compiled(x), several(x), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


def test_pads_cost_no_kernel_of_their_own() -> None:
    def blurred(x: Any) -> Any:
        y = np.pad(x, 1)
        return y[1:-1, :-2] + y[1:-1, 2:] + y[:-2, 1:-1] + y[2:, 1:-1]

    compiled = mlc.compile(blurred).lower(X).compile()
    assert len(compiled.plan().kernels) == 1
    check(blurred, X)


@pytest.mark.parametrize("index", [7, -8])
def test_writing_outside_raises_at_the_users_line(index: int) -> None:
    def write(x: Any, i: Any) -> Any:
        y = x.copy()
        y[i] = 0  # here
        return y

    compiled = mlc.compile(write)
    positions = np.array([0, 1])
    compiled(X, positions)
    positions[1] = index
    with pytest.raises(IndexError, match=rf"index {index} .* size 7(.|\n)*test_numpy_ordering"):
        compiled(X, positions)


MISTAKES: dict[str, tuple[type[Exception], str, Function]] = {
    "cumsum": (ValueError, "axis 2 is out of bounds", lambda x: np.cumsum(x, axis=2)),
    "sort": (ValueError, "axis -3 is out of bounds", lambda x: np.sort(x, axis=-3)),
    "pad": (ValueError, "can't be negative", lambda x: np.pad(x, -1)),
    "mode": (NotImplementedError, "expected one of NumPy's", lambda x: np.pad(x, 1, mode="no")),
    "bincount": (TypeError, "expected integers", lambda x: np.bincount(x[0])),
    "partition": (ValueError, "rank 9 of an axis with 9", lambda x: np.partition(x, 9, axis=1)),
    "top_k": (ValueError, "10 elements of an axis with 9", lambda x: mlc.numpy.top_k(x, 10)),
    "put": (
        ValueError,
        "expected as many",
        lambda x: np.put_along_axis(x * 1, np.array([1]), 0, axis=0),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained(name: str) -> None:
    kind, message, function = MISTAKES[name]
    with pytest.raises(kind, match=message):
        mlc.compile(function)(X)


def test_what_is_written_as_a_whole_may_be_returned_again() -> None:
    def again(x: Any, u: Any, i: Any) -> Any:
        y = x.copy()
        y[i] = u
        parts = (np.cumsum(x), np.sort(x), np.concatenate([x, x]), y)
        return *parts, *parts, *(part.reshape(1, -1) for part in parts)

    arguments = (V, V[:5], INDEX[:5])
    for got, want in zip(mlc.compile(again)(*arguments), again(*arguments), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def _both_partitions(kth: int) -> Callable[[Any], Any]:
    return lambda v: (np.partition(v, kth), np.argpartition(v, kth))


LENGTHS = [1, 127, 129, 1000, 5000]


@pytest.mark.parametrize("fill", ["different", "ties", "two", "special", "sorted"])
def test_partition_is_stable_around_its_rank(fill: str) -> None:
    rng = np.random.default_rng(7)
    for length in LENGTHS:
        x = {
            "different": rng.permutation(length).astype(np.float32),
            "ties": rng.integers(0, 9, length).astype(np.float32),
            "two": rng.integers(0, 2, length).astype(np.float32),
            "special": rng.choice(np.array([np.nan, 0.0, -0.0, np.inf, 1], np.float32), length),
            "sorted": np.sort(rng.normal(size=length)).astype(np.float32),
        }[fill]
        for kth in {0, length // 2, length - 1}:
            found = mlc.compile(_both_partitions(kth))(x)
            border = np.sort(x)[kth]
            order = np.argsort(x, kind="stable")
            ranks = np.searchsorted(x[order], x), np.searchsorted(x[order], border)
            groups = np.sign(ranks[0] - ranks[1])
            want = np.argsort(groups, kind="stable")
            np.testing.assert_array_equal(found[1], want)
            np.testing.assert_array_equal(found[0], x[want])
