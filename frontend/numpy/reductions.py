"""Functions that combine elements along axes: sums, extremes, positions, means."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, product
from mlc.dialects.dtypes import BOOL, F64, DType, numpy_dtype
from mlc.dialects.errors import MlcError, ShapeError
from mlc.dialects.tensor import elementwise as ops
from mlc.dialects.tensor.letters import ALPHABET, spell
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.complexes import imag, real
from mlc.frontend.numpy.elementwise import (
    add,
    astype,
    maximum,
    minimum,
    multiply,
    root,
    square,
    subtract,
    truth,
)
from mlc.frontend.numpy.elementwise import where as choose
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import (
    as_line,
    concatenate,
    normal_axes,
    normal_axis,
    reduced_axes,
    reshape,
    reshaped,
)
from mlc.frontend.numpy.ufuncs import masked, reduction_mask
from mlc.frontend.numpy.values import (
    ONE,
    convert,
    dtype_row,
    fitting,
    is_inexact,
    is_integer,
    lift,
    number,
    result,
    spread,
)
from mlc.frontend.trace.kinds import is_number
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import as_size, is_bound
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


def _accumulator(row: DType, dtype: Any) -> DType:
    """The dtype in which NumPy adds: int64 for bool and integers."""
    if dtype is not None:
        return dtype_row(dtype)
    return numpy_dtype(_summed(row.numpy.str)) if row.kind in ("bool", "int", "uint") else row


@lru_cache(maxsize=64)
def _summed(dtype: str) -> np.dtype[Any]:
    """int64 of signed integers and bool, uint64 of unsigned ones."""
    return np.zeros(1, dtype).sum().dtype


@public(np.sum, casting="unsafe")
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
    x = lift(a)
    x = masked(result(convert(x.value, _accumulator(x.row, dtype))), where, 0, "sum")
    found = _reduced(x.value, "sum", reduced_axes(axis, x.ndim, "sum"), keepdims)
    return _begun(add, found, initial)


@public(np.prod, casting="unsafe")
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
    x = lift(a)
    x = masked(result(convert(x.value, _accumulator(x.row, dtype))), where, 1, "prod")
    found = _reduced(x.value, "prod", reduced_axes(axis, x.ndim, "prod"), keepdims)
    return _begun(multiply, found, initial)


def _begun(function: Any, found: Tracer, initial: Any) -> Tracer:
    """The reduction with one more element, which is converted to its dtype as NumPy does."""
    if initial is None:
        return found
    return function(found, _first(initial, found.row))


def _first(initial: Any, row: DType) -> Tracer:
    """`initial` in the dtype of a reduction; a Python int must fit it."""
    if is_number(initial):
        return result(number(int(initial.real) if is_integer(row) else initial, row))
    return result(fitting(lift(initial), row))


def _assume_elements(size: Dim, because: str) -> None:
    """Of a size that the program computes the reduction itself reports that there are none."""
    if not is_bound(size):
        here().assume(size - 1, because)


def _extreme(
    function: str, a: Operand, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Tracer:
    x = lift(a)
    axes = reduced_axes(axis, x.ndim, function)
    if initial is not None:
        return _extreme_from(function, x, axes, keepdims, initial, where)
    if where is not True:
        message = (
            f"{function}: reduction operation {function!r} does not have an identity, so to use a"
            " where mask one has to specify 'initial'."
        )
        raise located(ShapeError, message)
    if any(x.dims[k].constant == 0 for k in axes):
        message = (
            f"{function}: zero-size array {name_of(x) or ''}{spell(x.dims)} to reduction"
            " operation which has no identity."
        )
        raise located(ShapeError, message)
    for k in axes:
        _assume_elements(x.dims[k], f"{function} needs an element on axis {k}")
    return _reduced(x.value, function, axes, keepdims)


def _extreme_from(
    function: str, x: Tracer, axes: tuple[int, ...], keepdims: bool, initial: Any, where: Any
) -> Tracer:
    """The extreme of `initial` and of elements, of which there may be none."""
    first = _first(initial, x.row)
    if where is not True:
        x = choose(reduction_mask(x, where, function), x, first)
    for k in axes:
        if not x.dims[k].constant:  # there may be no element: one more
            wide = tuple(ONE if j == k else dim for j, dim in enumerate(x.dims))
            x = concatenate([x, result(spread(first.value, wide))], k)
    found = _reduced(x.value, function, axes, keepdims)
    return (maximum if function == "max" else minimum)(found, first)


@public(np.max, np.amax, casting="unsafe")
def max(  # noqa: A001 - NumPy's name
    a: Operand,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The largest element along axes."""
    return _extreme("max", a, axis, keepdims, initial, where)


@public(np.min, np.amin, casting="unsafe")
def min(  # noqa: A001 - NumPy's name
    a: Operand,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Tracer:
    """The smallest element along axes."""
    return _extreme("min", a, axis, keepdims, initial, where)


amax, amin = max, min


@public(np.any, casting="unsafe")
def any_(
    a: Operand, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Tracer:
    """Whether some element along the axes is true."""
    x = masked(truth(a), where, False, "any")
    return _reduced(x.value, "sum", reduced_axes(axis, x.ndim, "any"), keepdims)


@public(np.all, casting="unsafe")
def all_(
    a: Operand, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Tracer:
    """Whether every element along the axes is true."""
    x = masked(truth(a), where, True, "all")
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
    _assume_elements(x.dims[place], f"{function} needs an element")
    return _reduced(x.value, function, (place,), keepdims)


@public(np.argmax, casting="unsafe")
def argmax(a: Operand, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tracer:
    """The position of the largest element along an axis: the first of equals."""
    return _position("argmax", a, axis, keepdims)


@public(np.argmin, casting="unsafe")
def argmin(a: Operand, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Tracer:
    """The position of the smallest element along an axis: the first of equals."""
    return _position("argmin", a, axis, keepdims)


def _count(x: Tracer, axes: tuple[int, ...], less: float, row: DType) -> SSAValue:
    """The number of elements along the axes less `less`, as a number of the dtype."""
    total = product(x.dims[k] for k in axes)
    if total.constant is not None:
        return number(np.maximum(total.constant - less, 0).item(), row)
    size = lift_size(total - int(less)) if less == int(less) else lift_size(total) - less
    return convert(size.value, row)


@public(np.mean, casting="unsafe")
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
    x = lift(a)
    row = dtype_row(dtype) if dtype is not None else (x.row if is_inexact(x.row) else F64)
    axes = normal_axes(axis, x.ndim, "mean")
    wide = _of_quotients(row)  # then it is cut off, or rounded
    total = sum(x, axes, dtype=(row if wide is F64 else wide).numpy, keepdims=keepdims, where=where)
    return astype(_shared(astype(total, wide.numpy), x, axes, where, 0, keepdims), row.numpy)


def _of_quotients(row: DType) -> DType:
    """
    The dtype in which sums are divided by counts: f32 for floats of 16 bits, as either may be
    larger than any of them.
    """
    return F64 if is_integer(row) or row is BOOL else row.accumulator


def _shared(
    total: Tracer, x: Tracer, axes: tuple[int, ...], where: Any, less: float, keepdims: bool
) -> Tracer:
    """A sum along axes over the number of its elements less `less`, but over 0 at least."""
    if where is True:
        count = spread(_count(x, axes, less, total.row), total.dims)
    else:
        mask = reduction_mask(x, where, "mean")
        found = sum(mask, axes, keepdims=keepdims)
        found = maximum(found - int(less) if less == int(less) else found - less, 0)
        count = convert(found.value, total.row)
    return result(here().emit(ops.DivOp, total.value, count))


class AverageError(MlcError, ZeroDivisionError):
    """An average whose weights sum to nothing."""


def _along(x: Tracer, axis: Any, weights: Tracer) -> Tracer:
    """Weights of one axis, for all elements."""
    from mlc.frontend.numpy.shaping import broadcast_to, reshape

    place = normal_axis(axis, x.ndim, "average") if isinstance(axis, int) else None
    if place is None or weights.dims != (x.dims[place],):
        message = "average: weights must have the array's shape, or be one for each place of axis=."
        raise located(ShapeError, message, remedy="Reshape or broadcast them.")
    ones = [1] * x.ndim
    wide = reshape(weights, (*ones[:place], weights.shape[0], *ones[place + 1 :]))
    return broadcast_to(wide, x.shape)


@public(np.average)
def average(
    a: Operand, axis: Any = None, weights: Operand = None, *, keepdims: bool = False
) -> Tracer:
    """The mean, weighted where weights are given: of all elements, or of the places of an axis."""
    if weights is None:
        found = mean(a, axis, keepdims=keepdims)
        if found.size == 0:
            raise located(AverageError, "average: the result has no elements; NumPy divides by 0.")
        return found
    x, w = lift(a), lift(weights)
    if x.dims != w.dims:
        w = _along(x, axis, w)
    from mlc.frontend.numpy.elementwise import true_divide

    return true_divide(
        sum(multiply(x, w), axis, keepdims=keepdims), sum(w, axis, keepdims=keepdims)
    )


@public(np.var, casting="unsafe")
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
    x = lift(a)
    row = dtype_row(dtype) if dtype is not None else (x.row if is_inexact(x.row) else F64)
    axes = normal_axes(axis, x.ndim, "var")
    wide = _of_quotients(row)
    center = mean(x, axes, wide.numpy, keepdims=True, where=where)
    if x.row.kind == "complex":  # the squared distance is |x - mean|**2
        away = subtract(x, center)
        squares = add(square(real(away)), square(imag(away)))
        row, wide = (row.part, wide.part) if dtype is None else (row, wide)
    else:
        squares = square(subtract(astype(x, wide.numpy), center))
    total = sum(astype(squares, wide.numpy), axes, keepdims=keepdims, where=where)
    return astype(_shared(total, x, axes, where, ddof, keepdims), row.numpy)


@public(np.std, casting="unsafe")
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
    found = var(a, axis, dtype, None, ddof, keepdims, where=where)
    return root(found) if is_inexact(found.row) else astype(root(found), found.row.numpy)


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
