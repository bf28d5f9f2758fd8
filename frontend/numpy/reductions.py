"""Functions that combine elements along axes: sums, extremes, positions, means."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import product
from mlc.dialects.dtypes import F64, DType, numpy_dtype
from mlc.dialects.errors import MlcError, ShapeError
from mlc.dialects.tensor import elementwise as ops
from mlc.dialects.tensor.letters import ALPHABET, spell
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.complexes import imag, real
from mlc.frontend.numpy.elementwise import add, astype, multiply, root, square, subtract, truth
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import (
    as_line,
    normal_axes,
    normal_axis,
    reduced_axes,
    reshape,
    reshaped,
)
from mlc.frontend.numpy.values import (
    ONE,
    convert,
    dtype_row,
    is_inexact,
    lift,
    number,
    result,
    spread,
)
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def _reduced(x: SSAValue, monoid: str, axes: tuple[int, ...], keepdims: bool) -> Tracer:
    dims = result(x).dims
    source = ALPHABET[: len(dims)]
    kept = "".join(c for k, c in enumerate(source) if k not in axes)
    value = here().emit(ReduceOp, x, monoid=monoid, letters=f"{source}->{kept}")
    if keepdims:
        value = reshaped(value, tuple(ONE if k in axes else dim for k, dim in enumerate(dims)))
    return result(value)


def _plain(where: Any, initial: Any, out: Any, function: str) -> None:
    """Raises for options that have no meaning here yet."""
    options = {
        "where": where is not True and where is not None,
        "initial": initial is not None,
        "out": out is not None,
    }
    for name, given in options.items():
        if given:
            remedy = "Use np.where(condition, x, 0) before it." if name == "where" else ""
            raise located(
                NotSupportedError, f"{function}: {name}= is not supported yet.", remedy=remedy
            )


def _accumulator(row: DType, dtype: Any) -> DType:
    """The dtype in which NumPy adds: int64 for bool and integers."""
    if dtype is not None:
        return dtype_row(dtype)
    return numpy_dtype(_summed(row.numpy.str)) if row.kind in ("bool", "int", "uint") else row


@lru_cache(maxsize=64)
def _summed(dtype: str) -> np.dtype[Any]:
    """int64 of signed integers and bool, uint64 of unsigned ones."""
    return np.zeros(1, dtype).sum().dtype


@public(np.sum)
def sum(  # noqa: A001 - NumPy's name
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The sum along axes."""
    _plain(where, initial, out, "sum")
    x = lift(a)
    value = convert(x.value, _accumulator(x.row, dtype))
    return _reduced(value, "sum", reduced_axes(axis, x.ndim, "sum"), keepdims)


@public(np.prod)
def prod(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The product along axes."""
    _plain(where, initial, out, "prod")
    x = lift(a)
    value = convert(x.value, _accumulator(x.row, dtype))
    return _reduced(value, "prod", reduced_axes(axis, x.ndim, "prod"), keepdims)


def _extreme(function: str, a: Operand, axis: Any, keepdims: bool) -> Tracer:
    x = lift(a)
    axes = reduced_axes(axis, x.ndim, function)
    if any(x.dims[k].constant == 0 for k in axes):
        message = (
            f"{function}: zero-size array {name_of(x) or ''}{spell(x.dims)} to reduction"
            " operation which has no identity."
        )
        raise located(ShapeError, message)
    for k in axes:
        here().assume(x.dims[k] - 1, f"{function} needs an element on axis {k}")
    return _reduced(x.value, function, axes, keepdims)


@public(np.max, np.amax)
def max(  # noqa: A001 - NumPy's name
    a: Operand,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The largest element along axes."""
    _plain(where, initial, out, "max")
    return _extreme("max", a, axis, keepdims)


@public(np.min, np.amin)
def min(  # noqa: A001 - NumPy's name
    a: Operand,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The smallest element along axes."""
    _plain(where, initial, out, "min")
    return _extreme("min", a, axis, keepdims)


amax, amin = max, min


@public(np.any)
def any_(
    a: Operand, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Tracer:
    """Whether some element along the axes is true."""
    _plain(where, None, out, "any")
    x = truth(a)
    return _reduced(x.value, "sum", reduced_axes(axis, x.ndim, "any"), keepdims)


@public(np.all)
def all_(
    a: Operand, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Tracer:
    """Whether every element along the axes is true."""
    _plain(where, None, out, "all")
    x = truth(a)
    return _reduced(x.value, "prod", reduced_axes(axis, x.ndim, "all"), keepdims)


def _position(function: str, a: Operand, axis: Any, keepdims: bool) -> Tracer:
    x = lift(a)
    if axis is None or not x.ndim:
        line, rank = as_line(x, axis), x.ndim
        found = _position(function, line, 0 if axis is None else axis, False)
        return reshape(found, (1,) * rank) if keepdims else found
    place = normal_axis(axis, x.ndim, function)
    if x.dims[place].constant == 0:
        raise located(ShapeError, f"attempt to get {function} of an empty sequence")
    here().assume(x.dims[place] - 1, f"{function} needs an element")
    return _reduced(x.value, function, (place,), keepdims)


@public(np.argmax)
def argmax(a: Operand, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tracer:
    """The position of the largest element along an axis: the first of equals."""
    _plain(None, None, out, "argmax")
    return _position("argmax", a, axis, keepdims)


@public(np.argmin)
def argmin(a: Operand, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tracer:
    """The position of the smallest element along an axis: the first of equals."""
    _plain(None, None, out, "argmin")
    return _position("argmin", a, axis, keepdims)


def _count(x: Tracer, axes: tuple[int, ...], less: float, row: DType) -> SSAValue:
    """The number of elements along the axes less `less`, as a number of the dtype."""
    total = product(x.dims[k] for k in axes)
    if total.constant is not None:
        return number(np.maximum(total.constant - less, 0).item(), row)
    size = lift_size(total - int(less)) if less == int(less) else lift_size(total) - less
    return convert(size.value, row)


@public(np.mean)
def mean(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Tracer:
    """The arithmetic mean along axes."""
    _plain(where, None, out, "mean")
    x = lift(a)
    row = dtype_row(dtype) if dtype is not None else (x.row if is_inexact(x.row) else F64)
    axes = normal_axes(axis, x.ndim, "mean")
    total = _reduced(convert(x.value, row), "sum", axes, keepdims)
    count = spread(_count(x, axes, 0, row), total.dims)
    return result(here().emit(ops.DivOp, total.value, count))


class AverageError(MlcError, ZeroDivisionError):
    """An average whose weights sum to nothing."""


@public(np.average)
def average(
    a: Operand, axis: Any = None, weights: Operand = None, *, keepdims: bool = False
) -> Tracer:
    """The mean, weighted where weights of the same shape are given."""
    if weights is None:
        found = mean(a, axis, keepdims=keepdims)
        if found.size == 0:
            raise located(AverageError, "average: the result has no elements; NumPy divides by 0.")
        return found
    x, w = lift(a), lift(weights)
    if x.dims != w.dims:
        raise located(
            NotSupportedError,
            "average: weights must have the array's shape; reshape or broadcast them.",
        )
    from mlc.frontend.numpy.elementwise import true_divide

    return true_divide(
        sum(multiply(x, w), axis, keepdims=keepdims), sum(w, axis, keepdims=keepdims)
    )


@public(np.var)
def var(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Tracer:
    """The mean squared distance from the mean along axes; the divisor is the count less ddof."""
    _plain(where, None, out, "var")
    x = lift(a)
    row = dtype_row(dtype) if dtype is not None else (x.row if is_inexact(x.row) else F64)
    axes = normal_axes(axis, x.ndim, "var")
    if x.row.kind == "complex":  # the squared distance is |x - mean|**2
        away = subtract(x, mean(x, axes, row.numpy, keepdims=True))
        squares = add(square(real(away)), square(imag(away)))
        row = row.part if dtype is None else row
    else:
        x = astype(x, row.numpy)
        squares = square(subtract(x, mean(x, axes, keepdims=True)))
    total = _reduced(convert(squares.value, row), "sum", axes, keepdims)
    count = spread(_count(x, axes, ddof, row), total.dims)
    return result(here().emit(ops.DivOp, total.value, count))


@public(np.std)
def std(
    a: Operand,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Tracer:
    """The square root of `var`."""
    _plain(where, None, out, "std")
    return root(var(a, axis, dtype, None, ddof, keepdims))


@public(np.count_nonzero)
def count_nonzero(a: Operand, axis: Any = None, *, keepdims: bool = False) -> Tracer:
    """How many elements along the axes are not 0."""
    return sum(truth(a), axis, keepdims=keepdims)


@public(np.size)
def size(a: Operand, axis: Any = None) -> Any:
    """The number of elements, or the size of an axis."""
    x = lift(a)
    return as_size(product(x.dims[k] for k in normal_axes(axis, x.ndim, "size")))


@public(np.shape)
def shape(a: Operand) -> Any:
    """The sizes of the axes."""
    return lift(a).shape


@public(np.ndim)
def ndim(a: Operand) -> int:
    """The number of axes."""
    return lift(a).ndim
