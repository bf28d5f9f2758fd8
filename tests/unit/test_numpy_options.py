"""Options that ufuncs and reductions share, and the methods of ufuncs, against NumPy."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import mlc
from tests.against_numpy import agree, derivative_agrees

Function = Callable[..., Any]
RNG = np.random.default_rng(3)
X = RNG.standard_normal((5, 4))
N = RNG.integers(-9, 9, (5, 4))
B = X > 0
SOME = B | (np.arange(5) < 2)[:, None]


def _out(function: Function, shape: Any, dtype: Any = float, /, **options: Any) -> Function:
    """The function with out=, whose array is returned with the result."""

    def call(xp: Any, *xs: Any) -> Any:
        out = np.ones(shape, dtype)
        found = function(xp, *xs, out=out, **options)
        return found, out

    return call


OUT: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "add": (_out(lambda xp, x, y, **o: xp.add(x, y, **o), (5, 4)), (X, X)),
    "add narrow": (_out(lambda xp, x, y, **o: xp.add(x, y, **o), (5, 4), np.float32), (X, N)),
    "add to int": (_out(lambda xp, x, y, **o: xp.add(x, y, **o), (5, 4), int), (X, N)),
    "unsafe": (
        _out(lambda xp, x, y, **o: xp.add(x, y, **o), (5, 4), int, casting="unsafe"),
        (X, N),
    ),
    "wider": (_out(lambda xp, x, y, **o: xp.add(x, y, **o), (3, 5, 4)), (X, X)),
    "too narrow": (_out(lambda xp, x, y, **o: xp.add(x, y, **o), (4,)), (X, X)),
    "where": (
        _out(lambda xp, x, y, m, **o: xp.divide(x, y, where=m, **o), (5, 4)),
        (X, N, N != 0),
    ),
    "where float32": (
        _out(lambda xp, x, m, **o: xp.sqrt(x, where=m, **o), (5, 4), np.float32),
        (X, X > 0),
    ),
    "where of ints": (_out(lambda xp, x, m, **o: xp.add(x, 1, where=m, **o), (5, 4)), (X, N)),
    "less": (_out(lambda xp, x, **o: xp.less(x, 0, **o), (5, 4), bool), (X,)),
    "sum": (_out(lambda xp, x, **o: xp.sum(x, 0, **o), (4,)), (X,)),
    "sum to int": (_out(lambda xp, x, **o: xp.sum(x, 0, **o), (4,), int), (X,)),
    "sum to wider floats": (
        _out(lambda xp, x, **o: np.sum(x, **o), ()),
        (np.full(4000, 1 / 3, np.float32),),
    ),
    "sum of another shape": (_out(lambda xp, x, **o: xp.sum(x, 0, **o), (1, 4)), (X,)),
    "mean": (_out(lambda xp, x, **o: xp.mean(x, 1, **o), (5,)), (X,)),
    "max": (_out(lambda xp, x, **o: xp.max(x, 1, keepdims=True, **o), (5, 1)), (X,)),
    "argmax": (_out(lambda xp, x, **o: xp.argmax(x, 1, **o), (5,), np.int32), (X,)),
    "cumsum": (_out(lambda xp, x, **o: xp.cumsum(x, 1, **o), (5, 4)), (X,)),
    "var": (_out(lambda xp, x, **o: xp.var(x, 1, **o), (5,)), (X,)),
    "any": (_out(lambda xp, x, **o: xp.any(x, 1, **o), (5,), bool), (B,)),
    "clip": (_out(lambda xp, x, **o: xp.clip(x, -1, 1, **o), (5, 4)), (X,)),
    "round": (_out(lambda xp, x, **o: xp.round(x, 1, **o), (5, 4)), (X,)),
    "dot": (_out(lambda xp, x, y, **o: xp.dot(x, y, **o), (5,)), (X, X[0])),
    "outer": (_out(lambda xp, x, **o: xp.outer(x[0], x[1], **o), (4, 4)), (X,)),
    "stack": (_out(lambda xp, x, **o: xp.stack([x[0], x[1]], **o), (2, 4)), (X,)),
    "concatenate": (_out(lambda xp, x, **o: xp.concatenate([x, x], **o), (10, 4)), (X,)),
    "einsum": (_out(lambda xp, x, **o: xp.einsum("ij,ij->i", x, x, **o), (5,)), (X,)),
}


@pytest.mark.parametrize("name", OUT)
def test_out(name: str) -> None:
    function, args = OUT[name]
    agree(function, *args, eager=name != "sum to wider floats")


def _results(xp: Any, x: Any, m: Any) -> Any:
    out, less = np.zeros(x.shape), np.zeros(x.shape)
    one = xp.divmod(x, 2.0, out=(out, None), where=m)[0]
    two = xp.multiply(x, x, less)
    out[0] = 7
    return one, two, out, less


def test_several_results_and_positional_out() -> None:
    def compiled(x: Any, m: Any) -> Any:
        return _results(np, x, m)

    for found, want in zip(mlc.compile(compiled)(X, B), _results(np, X, B), strict=True):
        np.testing.assert_array_equal(found, want)


def _masked(name: str, xp: Any, x: Any, mask: Any) -> Any:
    return getattr(xp, name)(x, axis=1, where=mask)


def _reduce(name: str, xp: Any, x: Any) -> Any:
    return getattr(np, name).reduce(x, axis=1)


def _accumulate(name: str, xp: Any, x: Any) -> Any:
    return getattr(np, name).accumulate(x, axis=0)


def _reduceat(name: str, xp: Any, x: Any) -> Any:
    return getattr(np, name).reduceat(x, [0, 3, 1, 4])


REDUCED: dict[str, tuple[Function, tuple[Any, ...]]] = {
    **{
        f"{name} {kind}": (
            partial(_masked, name),
            (x, m),
        )
        for name in ("sum", "prod", "mean", "var", "std", "any", "all")
        for kind, x in (("f", X), ("i", N), ("c", X + 1j * N))
        for m in (B,)
        if not (kind == "c" and name in ("any", "all"))
    },
    "max": (lambda xp, x, m: xp.max(x, 0, where=m, initial=-1), (X, B)),
    "min": (lambda xp, x, m: xp.min(x, None, where=m, initial=3), (N, B)),
    "max without initial": (lambda xp, x, m: xp.max(x, where=m), (X, B)),
    "max from a number": (lambda xp, x: xp.max(x, initial=7.9), (N,)),
    "max of nothing": (lambda xp, x: xp.max(x, axis=0, initial=4), (X[:0],)),
    "max from too much": (lambda xp, x: xp.max(x, initial=300), (N.astype(np.int8),)),
    "sum from a number": (lambda xp, x: xp.sum(x, initial=2.5), (N,)),
    "sum from a number of floats": (lambda xp, x: xp.sum(x, 0, initial=2.5), (X,)),
    "prod from a number": (lambda xp, x, m: xp.prod(x, initial=2, where=m), (X, B)),
    "a row of the mask": (lambda xp, x, m: xp.sum(x, axis=0, where=m), (X, B[:, :1])),
    "a mask that is wider": (lambda xp, x, m: xp.sum(x, where=m), (X[0], B)),
    "a mask of ints": (lambda xp, x, m: xp.sum(x, where=m), (X, N)),
    "no element": (lambda xp, x, m: (xp.mean(x, where=m), xp.var(x, where=m)), (X, B & ~B)),
    "ddof": (lambda xp, x, m: xp.var(x, 1, ddof=1, keepdims=True, where=m), (X, B)),
    "integer mean": (lambda xp, x: (xp.mean(x, dtype=int), xp.mean(x, 0, dtype=np.int32)), (N,)),
    "integer mean of floats": (lambda xp, x: xp.mean(x * 3, 0, dtype=int), (X,)),
    "integer var": (lambda xp, x: (xp.var(x, dtype=int), xp.std(x, dtype=np.int32)), (N,)),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reductions(name: str) -> None:
    function, args = REDUCED[name]
    agree(function, *args)


METHODS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    **{
        f"{name}.reduce": (
            partial(_reduce, name),
            (x,),
        )
        for name, x in (
            *((name, X) for name in ("add", "multiply", "maximum", "minimum", "subtract")),
            *((name, X) for name in ("divide", "hypot", "logaddexp", "fmax", "fmin")),
            *((name, N) for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "subtract")),
            *((name, N) for name in ("divide", "add", "logical_xor")),
            *((name, B) for name in ("logical_and", "logical_or")),
        )
    },
    **{
        f"{name}.accumulate": (
            partial(_accumulate, name),
            (x,),
        )
        for name, x in (
            *((name, X) for name in ("add", "multiply", "maximum", "subtract", "divide", "fmin")),
            *((name, N) for name in ("bitwise_xor", "add", "subtract")),
        )
    },
    **{
        f"{name}.reduceat": (
            partial(_reduceat, name),
            (X,),
        )
        for name in ("add", "multiply", "maximum", "minimum")
    },
    "reduceat of ints": (lambda xp, x, i: np.add.reduceat(x, i, axis=1), (N, np.array([2, 0, 3]))),
    "reduceat beyond": (lambda xp, x: np.add.reduceat(x, [0, 9]), (N,)),
    "reduceat before": (lambda xp, x, i: np.add.reduceat(x, i), (N, np.array([0, -1]))),
    "options": (
        lambda xp, x: np.add.reduce(x, axis=(0, 1), keepdims=True, initial=2, dtype=np.float32),
        (N,),
    ),
    "all bits of unsigned numbers": (
        lambda xp, x: np.bitwise_and.reduce(x, axis=1),
        (np.array([[7, 6], [255, 9]], np.uint8),),
    ),
    "not reorderable": (lambda xp, x: np.subtract.reduce(x, axis=None), (X,)),
    "no such loop": (lambda xp, x: np.less.reduce(x), (X,)),
    "reduce from a number": (lambda xp, x: np.subtract.reduce(x, initial=10.0), (X,)),
    "outer": (lambda xp, x, y: np.subtract.outer(x[0], y), (X, N)),
    "outer in float32": (lambda xp, x: np.add.outer(x, x, dtype=np.float32), (X[0],)),
    "reduce into": (
        lambda xp, x: (lambda o: (np.add.reduce(x, out=o), o))(np.zeros(4)),
        (X,),
    ),
    "accumulate into": (
        lambda xp, x: (lambda o: (np.add.accumulate(x, out=o), o))(np.zeros((5, 4))),
        (X,),
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    function, args = METHODS[name]
    agree(function, *args, eager=False, rtol=1e-7)


def test_derivatives_stop_where_nothing_is_computed() -> None:
    y = np.where(B, X, 0.0)

    def quotient(xp: Any, x: Any, y: Any) -> Any:
        return np.divide(x, y, out=np.zeros((5, 4)), where=y != 0)

    def root(x: Any) -> Any:
        return np.sqrt(x, out=np.zeros((5, 4)), where=x > 0).sum()

    derivative_agrees(lambda xp, x: quotient(xp, x, y), X)
    assert np.isfinite(mlc.grad(root)(y)).all()


def test_derivatives_of_reductions() -> None:
    derivative_agrees(lambda xp, x: np.sum(x, 0, where=B, initial=2.0), X)
    derivative_agrees(lambda xp, x: np.mean(x, 0, where=SOME), X)
    derivative_agrees(lambda xp, x: np.var(x, 0, where=SOME), X)
    derivative_agrees(lambda xp, x: np.max(x, 1, where=B, initial=-9.0), X)
    derivative_agrees(lambda xp, x: np.divide.reduce(x, 1), X)
    derivative_agrees(lambda xp, x: np.subtract.accumulate(x, 1), X)
    derivative_agrees(lambda xp, x: np.add.reduceat(x, [0, 3, 1]), X)


def test_out_from_outside_is_refused() -> None:
    kept = np.zeros((5, 4))
    with pytest.raises(NotImplementedError):
        mlc.compile(lambda x: np.add(x, 1, out=kept))(X)
