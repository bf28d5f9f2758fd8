"""The cases of `ops_vs_numpy`: each op on a million elements, as a user of NumPy writes it."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import mlc
from mlc import nn
from mlc import numpy as names

N = 1_000_000
Array = np.ndarray[Any, np.dtype[Any]]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One row: a function, its arguments, and NumPy's way where it is written another way."""

    name: str
    function: Function
    arrays: tuple[Any, ...]
    numpy: Function | None = None
    blas: bool = False  # NumPy's threads, which spin afterwards, take part


@dataclass(frozen=True)
class Data:
    """Arrays of one dtype that the cases share."""

    dtype: str
    flat: Array  # (N,), both signs
    other: Array  # (N,), never 0
    unit: Array  # (N,), in [0, 1) for floats
    square: Array  # (1000, 1000)
    square2: Array  # (1000, 1000)
    short: Array  # (10,000, 100)
    narrow: Array  # (100,000, 10)
    mask: Array  # (N,), half of it true
    rows: Array  # (1000,) row numbers of `square`
    anywhere: Array  # (N,) positions in `flat`

    @property
    def inexact(self) -> bool:
        """Whether the dtype is a float's."""
        return self.flat.dtype.kind == "f"


def data_of(dtype: str) -> Data:
    """Arrays of a dtype, the same in every run."""
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    flat = (rng.standard_normal(N) * 1000).astype(kind)
    other = (rng.integers(1, 40, N) + (rng.random(N) if kind.kind == "f" else 0)).astype(kind)
    return Data(
        dtype,
        flat,
        other,
        rng.random(N).astype(kind),
        flat.reshape(1000, 1000),
        np.ascontiguousarray(other.reshape(1000, 1000)),
        flat.reshape(10_000, 100),
        flat.reshape(100_000, 10),
        rng.random(N) < 0.5,
        rng.integers(0, 1000, 1000),
        rng.integers(0, N, N),
    )


def elementwise(d: Data) -> Iterator[Case]:
    """Arithmetic and comparison: what every dtype has."""
    x, y = d.flat, d.other
    unary: list[Any] = [np.negative, np.abs, np.sign, np.square, np.isnan, np.isfinite, np.isinf]
    binary: list[Any] = [np.add, np.subtract, np.multiply, np.maximum, np.minimum]
    binary += [np.fmax, np.fmin, np.floor_divide, np.mod, np.fmod]
    binary += [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
    binary += [np.logical_and, np.logical_or, np.logical_xor]
    for f in unary:
        yield Case(f.__name__, f, (x,))
    for f in binary:
        yield Case(f.__name__, f, (x, y))
    yield Case("divide", np.divide, (x, y))
    yield Case("divmod", np.divmod, (x, y))
    yield Case("x + 1", lambda a: a + 1, (x,))
    yield Case("logical_not", np.logical_not, (x,))
    yield Case("where", np.where, (d.mask, x, y))
    yield Case("clip", lambda a: np.clip(a, 2, 30), (x,))
    yield Case("x ** 2", lambda a: a**2, (x,))
    yield Case("x + row", lambda a, b: a + b, (d.square, y[:1000]))
    yield Case("x + column", lambda a, b: a + b[:, None], (d.square, y[:1000]))
    yield Case("x.T + y", lambda a, b: a.T + b, (d.square, d.square2))
    targets = ("float32", "float64", "int32", "int64", "int8", "uint16", "bool", "float16")
    for target in targets:
        if target != d.dtype:
            yield Case(f"astype {target}", lambda a, t=target: a.astype(t), (y,))


def floats(d: Data) -> Iterator[Case]:
    """Elementwise functions of floats that are not transcendental, and those that are."""
    x, y, u = d.flat, d.other, d.unit
    plain: list[Any] = [np.floor, np.ceil, np.rint, np.trunc, np.signbit]
    for f in plain:
        yield Case(f.__name__, f, (x,))
    for f in (np.copysign, np.nextafter):
        yield Case(f.__name__, f, (x, y))
    yield Case("sqrt", np.sqrt, (y,))
    yield Case("reciprocal", np.reciprocal, (y,))
    yield Case("rsqrt", names.rsqrt, (y,), lambda a: 1 / np.sqrt(a))
    bits = np.dtype("int32" if d.dtype == "float32" else "int64")
    yield Case("bits", lambda a: names.bits_as(a, bits) + 1, (x,), lambda a: a.view(bits) + 1)
    everywhere: list[Any] = [np.exp, np.exp2, np.expm1, np.cbrt, np.sin, np.cos, np.tan, np.arctan]
    everywhere += [np.sinh, np.cosh, np.tanh, np.arcsinh]
    for f in everywhere:
        yield Case(f"vector math: {f.__name__}", f, (d.unit * 20 - 10,))
    for f in (np.log, np.log2, np.log10, np.log1p):
        yield Case(f"vector math: {f.__name__}", f, (y,))
    for f in (np.arcsin, np.arccos, np.arctanh):
        yield Case(f"vector math: {f.__name__}", f, (u,))
    yield Case("vector math: arccosh", np.arccosh, (y,))
    for f in (np.power, np.arctan2, np.hypot, np.logaddexp):
        yield Case(f"vector math: {f.__name__}", f, (y, u))
    yield Case("vector math: sigmoid", names.sigmoid, (u,), lambda a: 1 / (1 + np.exp(-a)))


def special(d: Data) -> Iterator[Case]:
    """Functions that NumPy does not have; users of NumPy apply the math module to each element."""
    import math

    x = d.unit[:100_000] + d.flat.dtype.type(1)
    for f in (math.erf, math.erfc, math.lgamma):
        each = np.vectorize(f, otypes=[d.dtype])
        yield Case(f"vector math: {f.__name__}", getattr(names, f.__name__), (x,), each)


def integers(d: Data) -> Iterator[Case]:
    """Operations on bits."""
    x, y = d.flat, d.other
    for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        yield Case(f.__name__, f, (x, y))
    yield Case("invert", np.invert, (x,))
    for f in (np.left_shift, np.right_shift):
        yield Case(f.__name__, f, (x, y % 16))
    yield Case("power", np.power, (y, y % 5))


def moves(d: Data) -> Iterator[Case]:
    """Data movement."""
    x, s, s2 = d.flat, d.square, d.square2
    yield Case("copy", np.copy, (x,))
    yield Case("transpose", lambda a: a.T.copy(), (s,))
    yield Case("transpose of short rows", lambda a: a.T.copy(), (d.short,))
    cube = x.reshape(100, 100, 100)
    yield Case("transpose (2, 0, 1)", lambda a: a.transpose(2, 0, 1).copy(), (cube,))
    yield Case("transpose (1, 0, 2)", lambda a: a.transpose(1, 0, 2).copy(), (cube,))
    yield Case("slice, every other", lambda a: a[::2].copy(), (x,))
    yield Case("slice, backwards", lambda a: a[::-1].copy(), (x,))
    yield Case("slice, inner block", lambda a: a[10:990, 10:990].copy(), (s,))
    yield Case("flip rows", lambda a: np.flip(a, 0).copy(), (s,))
    yield Case("concat, axis 0", lambda a, b: np.concatenate([a, b]), (s[:500], s2[:500]))
    yield Case("concat, axis 1", lambda a, b: np.concatenate([a, b], 1), (s[:500], s2[:500]))
    yield Case("stack, axis 0", lambda a, b: np.stack([a, b]), (x[: N // 2], d.other[: N // 2]))
    yield Case("stack, axis 1", lambda a, b: np.stack([a, b], 1), (x[: N // 2], d.other[: N // 2]))
    yield Case("pad by 1", lambda a: np.pad(a, 1), (s,))
    yield Case("pad by 10, edge", lambda a: np.pad(a, 10, mode="edge"), (s,))
    yield Case("pad by 10, reflect", lambda a: np.pad(a, 10, mode="reflect"), (s,))
    yield Case("roll", lambda a: np.roll(a, 7), (x,))
    yield Case("roll, axis 1", lambda a: np.roll(a, 7, axis=1), (s,))
    yield Case("tile", lambda a: np.tile(a, (4, 4)), (np.ascontiguousarray(s[:250, :250]),))
    yield Case("repeat 4", lambda a: np.repeat(a, 4), (x[: N // 4],))
    yield Case("broadcast_to", lambda a: np.broadcast_to(a, (1000, 1000)).copy(), (x[:1000],))
    yield Case("tril", np.tril, (s,))
    yield Case("diagonal", lambda a: np.diagonal(a).copy(), (s,))
    yield Case("eye", lambda: np.eye(1000, dtype=d.dtype), ())
    yield Case("arange", lambda: np.arange(N, dtype=d.dtype), ())
    yield Case("zeros", lambda: np.full(N, 0, dtype=d.dtype), ())
    yield Case("ones", lambda: np.ones(N, dtype=d.dtype), ())
    yield Case(
        "dynamic_slice",
        lambda a, i: names.dynamic_slice(a, (i, i), (900, 900)),
        (s, np.int64(50)),
        lambda a, i: a[i : i + 900, i : i + 900].copy(),
    )
    yield Case(
        "dynamic_update",
        lambda a, b, i: names.dynamic_update(a, b, (i, i)),
        (s, s2[:900, :900].copy(), np.int64(50)),
        lambda a, b, i: _assign_block(a, b),
    )
    yield Case("x[i:j] = y", _assign_block, (s, s2[:900, :900].copy()))


def _assign_block(a: Any, b: Any) -> Any:
    c = a.copy()
    c[50:950, 50:950] = b
    return c


def gathers(d: Data) -> Iterator[Case]:
    """Reads and writes at positions that are known only at run time."""
    x, s = d.flat, d.square
    yield Case("take rows", lambda a, i: a[i], (s, d.rows))
    yield Case("take short rows", lambda a, i: a[i], (d.short, d.anywhere[:10_000] % 10_000))
    yield Case("take rows of 10", lambda a, i: a[i], (d.narrow, d.anywhere[:100_000] % 100_000))
    yield Case("take columns", lambda a, i: a[:, i], (s, d.rows))
    yield Case("take, random", lambda a, i: a[i], (x, d.anywhere))
    yield Case("take, small table", lambda a, i: a[i], (x[:1000], d.anywhere % 1000))
    yield Case("x[i, j]", lambda a, i, j: a[i, j], (s, d.anywhere % 1000, d.anywhere // 1000))
    columns = np.ascontiguousarray(d.anywhere.reshape(1000, 1000) % 1000)
    yield Case("take_along_axis 1", lambda a, i: np.take_along_axis(a, i, 1), (s, columns))
    yield Case("take_along_axis 0", lambda a, i: np.take_along_axis(a, i, 0), (s, columns))
    yield Case("x[i] = rows", _assign_rows, (s, d.rows[:500], d.square2[:500]))
    yield Case("x[i] = values", _assign, (x, d.anywhere[: N // 2], d.other[: N // 2]))
    yield Case("x[mask] = 0", _assign_masked, (x, d.mask))
    yield Case("add.at", _add_at, (x[:1000], d.anywhere % 1000, d.other))
    yield Case("add.at rows", _add_at, (s, np.repeat(d.rows[:250], 4), d.square2))
    yield Case("maximum.at", _max_at, (x[:1000], d.anywhere % 1000, d.other))
    yield Case("put_along_axis", _put_along, (s, columns[:, :1].copy(), d.square2[:, :1].copy()))
    table = np.sort(x[:10_000])
    yield Case("searchsorted", np.searchsorted, (table, x))
    yield Case("searchsorted, small", np.searchsorted, (np.sort(x[:100]), x))
    yield Case("digitize", np.digitize, (x, np.unique(x[:100])))


def _assign_rows(a: Any, i: Any, v: Any) -> Any:
    c = a.copy()
    c[i] = v
    return c


def _assign(a: Any, i: Any, v: Any) -> Any:
    c = a.copy()
    c[i] = v
    return c


def _assign_masked(a: Any, m: Any) -> Any:
    c = a.copy()
    c[m] = 0
    return c


def _add_at(a: Any, i: Any, v: Any) -> Any:
    c = a.copy()
    np.add.at(c, i, v)
    return c


def _max_at(a: Any, i: Any, v: Any) -> Any:
    c = a.copy()
    np.maximum.at(c, i, v)
    return c


def _put_along(a: Any, i: Any, v: Any) -> Any:
    c = a.copy()
    np.put_along_axis(c, i, v, 1)
    return c


def reductions(d: Data) -> Iterator[Case]:
    """Reductions over every axis of several shapes."""
    shapes = {"all": (d.flat, None), "axis 0": (d.square, 0), "axis 1": (d.square, 1)}
    shapes |= {"short rows": (d.short, 1), "columns, 100": (d.short, 0)}
    shapes |= {"rows of 10": (d.narrow, 1), "columns, 10": (d.narrow, 0)}
    found: list[Any] = [np.sum, np.prod, np.max, np.min, np.argmax, np.argmin]
    for f in found:
        for name, (x, axis) in shapes.items():
            yield Case(f"{f.__name__}, {name}", lambda a, f=f, k=axis: f(a, axis=k), (x,))
    more: list[Any] = [np.mean, np.var, np.std, np.any, np.all, np.count_nonzero]
    for f in more:
        for name in ("all", "axis 0", "axis 1"):
            x, axis = shapes[name]
            yield Case(f"{f.__name__}, {name}", lambda a, f=f, k=axis: f(a, axis=k), (x,))
    for name, (x, axis) in {"any": (d.mask.reshape(1000, 1000), 1)}.items():
        yield Case(f"{name} of bool, axis 1", lambda a, k=axis: np.any(a, axis=k), (x,))
        yield Case(f"{name} of bool, axis 0", lambda a: np.any(a, axis=0), (x,))
    yield Case("sum of bool", np.sum, (d.mask,))
    yield Case("all of bool", np.all, (np.ones(N, bool),))
    yield Case("sum, where", lambda a, m: np.where(m, a, 0).sum(), (d.flat, d.mask))
    yield Case("sum, both axes", lambda a: a.sum(axis=(0, 1)), (d.square,))
    yield Case("sum, outer axes", lambda a: a.sum(axis=(0, 2)), (d.flat.reshape(100, 100, 100),))
    if d.inexact:
        yield Case("norm", np.linalg.norm, (d.flat,))
        yield Case("norm, axis 1", lambda a: np.linalg.norm(a, axis=1), (d.square,))
        yield Case("max - min", lambda a: np.max(a, 1) - np.min(a, 1), (d.square,))


def contractions(d: Data) -> Iterator[Case]:
    """Products of matrices and vectors."""
    s, s2, v = d.square, d.square2, d.other[:1000]
    column, row = v[:, None].copy(), v[None].copy()
    yield Case("dot", np.dot, (d.flat, d.other), blas=True)
    yield Case("outer", np.outer, (d.flat[:1000], v))
    yield Case("matrix @ vector", np.matmul, (s, v), blas=True)
    yield Case("vector @ matrix", np.matmul, (v, s), blas=True)
    yield Case("m x k @ k x 1", np.matmul, (s, column), blas=True)
    yield Case("1 x k @ k x n", np.matmul, (row, s), blas=True)
    yield Case("matrix.T @ vector", lambda a, b: a.T @ b, (s, v), blas=True)
    yield Case("m x k @ k x 4", np.matmul, (s, np.repeat(column, 4, 1)), blas=True)
    yield Case("4 x k @ k x n", np.matmul, (np.repeat(row, 4, 0), s), blas=True)
    yield Case("k x 10, 10 x 10", np.matmul, (d.narrow, s2[:10, :10].copy()), blas=True)
    batches = d.flat[: 62 * 16 * 16 * 63].reshape(-1, 16, 16)
    yield Case("batches of 16 x 16", np.matmul, (batches, batches[::-1].copy()), blas=True)
    yield Case("row sums of products", lambda a, b: np.einsum("ij,ij->i", a, b), (s, s2))
    yield Case("trace", np.trace, (s,))
    if d.inexact:
        yield Case("1000 x 1000 @ 1000 x 1000", np.matmul, (s, s2), blas=True)
        yield Case("tensordot", lambda a, b: np.tensordot(a, b, 2), (s, s2), blas=True)
        yield Case("inner", np.inner, (s[:100], s2[:100]), blas=True)


def scans(d: Data) -> Iterator[Case]:
    """Running sums and their kind."""
    for f in (np.add, np.multiply, np.maximum, np.minimum):
        name = f"{f.__name__}.accumulate"
        yield Case(name, lambda a, f=f: f.accumulate(a), (d.flat,))
        for axis in (0, 1):
            case = f"{name}, axis {axis}"
            yield Case(case, lambda a, f=f, k=axis: f.accumulate(a, k), (d.square,))
    yield Case("cumsum", np.cumsum, (d.flat,))
    yield Case("cumsum, short rows", lambda a: np.cumsum(a, axis=1), (d.short,))
    yield Case("diff", np.diff, (d.flat,))
    yield Case("diff, axis 0", lambda a: np.diff(a, axis=0), (d.square,))


def orderings(d: Data) -> Iterator[Case]:
    """Sorts, selections and counts."""
    x, s = d.flat, d.square
    yield Case("sort", np.sort, (x,))
    yield Case("sort, few values", np.sort, ((d.anywhere % 50).astype(d.dtype),))
    yield Case("sort, sorted", np.sort, (np.sort(x),))
    yield Case("sort, axis 1", lambda a: np.sort(a, axis=1), (s,))
    yield Case("sort, axis 0", lambda a: np.sort(a, axis=0), (s,))
    yield Case("sort, short rows", lambda a: np.sort(a, axis=1), (d.short,))
    yield Case("sort, rows of 10", lambda a: np.sort(a, axis=1), (d.narrow,))
    yield Case("argsort", np.argsort, (x,))
    yield Case("argsort, stable", lambda a: np.argsort(a, kind="stable"), (x,))
    yield Case("argsort, axis 1", lambda a: np.argsort(a, axis=1), (s,))
    yield Case("argsort, short rows", lambda a: np.argsort(a, axis=1), (d.short,))
    yield Case("partition", lambda a: np.partition(a, N // 2), (x,))
    yield Case("partition, axis 1", lambda a: np.partition(a, 500, axis=1), (s,))
    yield Case("argpartition, axis 1", lambda a: np.argpartition(a, 500, axis=1), (s,))
    yield Case("median", np.median, (x,))
    yield Case("median, axis 1", lambda a: np.median(a, axis=1), (s,))
    yield Case("percentile, axis 1", lambda a: np.percentile(a, [5, 95], axis=1), (s,))
    yield Case("top 10 of rows", lambda a: names.top_k(a, 10), (s,), _top_10)
    few = (d.anywhere % 50).astype(d.dtype)
    yield Case("unique, size 64", lambda a: names.unique(a, size=64), (few,), np.unique)
    count = (d.anywhere % 1000).astype("int64")
    yield Case("bincount", lambda a: np.bincount(a, minlength=1000), (count,))
    yield Case("histogram", lambda a: np.histogram(a, bins=50, range=(-3000, 3000))[0], (x,))
    if d.inexact:
        grid = np.sort(d.unit[:1000])
        yield Case("interp", np.interp, (d.unit, grid, x[:1000]))


def _top_10(a: Any) -> Any:
    found = np.argpartition(a, -10, axis=1)[:, -10:]
    values = np.take_along_axis(a, found, 1)
    order = np.argsort(-values, axis=1)
    return np.take_along_axis(values, order, 1), np.take_along_axis(found, order, 1)


def windows(d: Data) -> Iterator[Case]:
    """Convolutions and pooling, by sliding windows in NumPy."""
    x, kernel = d.flat, d.other[:9].copy()
    view: Any = np.lib.stride_tricks.sliding_window_view
    yield Case(
        "convolve with 9",
        lambda a, k: nn.conv(a[None, None], k[None, None, ::-1])[0, 0],
        (x, kernel),
        lambda a, k: np.convolve(a, k, "valid"),
    )
    image = x.reshape(1, 1, 1000, 1000)
    yield Case(
        "convolve 2-D with 3 x 3",
        nn.conv,
        (image, kernel.reshape(1, 1, 3, 3)),
        lambda a, k: np.einsum("bchwij,ocij->bohw", view(a, (3, 3), (2, 3)), k),
    )
    yield Case(
        "max_pool 2 x 2",
        lambda a: nn.max_pool(a, 2),
        (image,),
        lambda a: a.reshape(1, 1, 500, 2, 500, 2).max(axis=(3, 5)),
    )
    yield Case(
        "moving maximum of 5",
        lambda a: nn.max_pool(a[None, None], 5, stride=1)[0, 0],
        (x,),
        lambda a: view(a, 5).max(axis=1),
    )


def random(d: Data) -> Iterator[Case]:
    """Draws from a key, against NumPy's generator of the same algorithm."""
    generator = np.random.Generator(np.random.Philox(1))
    seed = (np.int64(1),)
    kind: Any = d.flat.dtype.type
    yield Case(
        "random.uniform",
        lambda n: mlc.random.uniform(mlc.random.key(n), (N,), kind),
        seed,
        lambda n: generator.random(N, kind),
    )
    yield Case(
        "random.normal",
        lambda n: mlc.random.normal(mlc.random.key(n), (N,), kind),
        seed,
        lambda n: generator.standard_normal(N, kind),
    )
    yield Case(
        "random.randint",
        lambda n: mlc.random.randint(mlc.random.key(n), (N,), 0, 1000),
        seed,
        lambda n: generator.integers(0, 1000, N),
    )


def complexes(d: Data) -> Iterator[Case]:
    """Complex numbers of the dtype's parts."""
    z = d.flat + 1j * d.other
    for f in (np.real, np.imag, np.abs, np.conj):
        yield Case(f"complex {f.__name__}", lambda a, f=f: f(a) * 1, (z,))
    for f in (np.add, np.multiply, np.divide):
        yield Case(f"complex {f.__name__}", f, (z, z[::-1].copy()))
    yield Case("complex sum", np.sum, (z,))
    yield Case("complex parts", lambda a, b: a + 1j * b, (d.flat, d.other))


def library(d: Data) -> Iterator[Case]:
    """Factorisations and transforms, which both leave to a library."""
    a = d.square[:300, :300] + 1000 * np.eye(300, dtype=d.dtype)
    yield Case("linalg.solve 300", np.linalg.solve, (a, a[:, :10].copy()), blas=True)
    yield Case("linalg.inv 300", np.linalg.inv, (a,), blas=True)
    yield Case("fft", np.fft.fft, (d.flat,))


FAMILIES: tuple[Callable[[Data], Iterator[Case]], ...] = (
    elementwise,
    moves,
    gathers,
    reductions,
    contractions,
    scans,
    orderings,
    windows,
)
OF_FLOATS = (floats, special, random, complexes, library)
OF_INTEGERS = (integers,)


def cases_of(dtype: str) -> Iterator[Case]:
    """Every case of a dtype."""
    data = data_of(dtype)
    for family in (*FAMILIES, *(OF_FLOATS if data.inexact else OF_INTEGERS)):
        yield from family(data)
