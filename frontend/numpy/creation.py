"""Functions that make arrays: constants, ranges, stacks of numbers and traced values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dims import Dim, Shape, tensor_type
from mlc.dialects.dtypes import BOOL, I32, I64, DType
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor import elementwise as ops
from mlc.dialects.tensor.comparison import cast
from mlc.dialects.tensor.create import IotaOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.values import (
    ONE,
    constant,
    convert,
    dtype_row,
    fitting,
    float_dtype,
    is_integer,
    lift,
    number,
    result,
    spread,
    strong,
)
from mlc.frontend.trace.containers import flatten, unflatten
from mlc.frontend.trace.kinds import is_array, is_number, is_series, is_variants
from mlc.frontend.trace.known import known_dim
from mlc.frontend.trace.program_sizes import natural
from mlc.frontend.trace.source import in_users_name
from mlc.frontend.trace.symbolic import SymbolicDim, as_dim, is_bound, is_natural
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def shape_argument(shape: object, function: str) -> Shape:
    """A shape as the user gives it: one size or several; traced numbers are asked for a value."""
    sizes = shape if is_series(shape) else (shape,)
    return tuple(_size_argument(size, function) for size in sizes)


def _made_shape(shape: object, function: str) -> Shape:
    """The shape of a new array, whose sizes may be numbers that the data decide."""
    from mlc.frontend.numpy.counted import as_counted, as_room

    sizes: Any = shape if is_series(shape) else (shape,)
    return shape_argument([as_room(as_counted(size), function) for size in sizes], function)


def _size_argument(size: object, function: str) -> Dim:
    from mlc.frontend.numpy.counted import as_counted

    dim = known_dim(as_counted(size))
    if dim is None:
        raise located(DTypeError, f"{function}: the size {size!r} is not an integer.")
    if dim.constant is not None and dim.constant < 0:
        raise located(ShapeError, f"{function}: negative dimensions are not allowed: {dim}.")
    return dim


@public(np.full)
def full(shape: object, fill_value: Operand, dtype: Any = None, **_: object) -> Tracer:
    """An array of one repeated value."""
    dims = _made_shape(shape, "full")
    if is_number(fill_value):
        row = dtype_row(np.asarray(fill_value).dtype if dtype is None else dtype, "full")
        return result(number(fill_value, row, dims))
    value = lift(fill_value)
    return result(spread(fitting(value, value.row if dtype is None else dtype_row(dtype)), dims))


@public(np.zeros)
def zeros(shape: object, dtype: Any = float, **_: object) -> Tracer:
    """An array of zeros."""
    row = dtype_row(float if dtype is None else dtype, "zeros")
    return result(number(0, row, _made_shape(shape, "zeros")))


@public(np.empty)
def empty(shape: object, dtype: Any = float, **_: object) -> Tracer:
    """An array of zeros: what NumPy leaves there is not defined."""
    return zeros(shape, dtype)


@public(np.ones)
def ones(shape: object, dtype: Any = None, **_: object) -> Tracer:
    """An array of ones."""
    row = dtype_row(float if dtype is None else dtype, "ones")
    return result(number(1, row, _made_shape(shape, "ones")))


@public(np.full_like)
def full_like(
    a: Operand, fill_value: Operand, dtype: Any = None, *, shape: Any = None, **_: object
) -> Tracer:
    """An array of one repeated value, with the shape and dtype of `a`."""
    like = strong(a)
    return full(
        like.shape if shape is None else shape, fill_value, like.dtype if dtype is None else dtype
    )


@public(np.zeros_like)
def zeros_like(a: Operand, dtype: Any = None, *, shape: Any = None, **_: object) -> Tracer:
    """Zeros with the shape and dtype of `a`."""
    return full_like(a, 0, dtype, shape=shape)


@public(np.empty_like)
def empty_like(prototype: Operand, dtype: Any = None, *, shape: Any = None, **_: object) -> Tracer:
    """Zeros with the shape and dtype of `prototype`."""
    return full_like(prototype, 0, dtype, shape=shape)


@public(np.ones_like)
def ones_like(a: Operand, dtype: Any = None, *, shape: Any = None, **_: object) -> Tracer:
    """Ones with the shape and dtype of `a`."""
    return full_like(a, 1, dtype, shape=shape)


def iota(dtype: DType, shape: Shape, axis: int) -> Any:
    """The SSA value whose elements are their positions along an axis."""
    return here().emit(IotaOp, axis=axis, declared=tensor_type(dtype.ir, shape))


@public(np.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **_: object) -> Tracer:
    """start, start + step, … below stop."""
    if stop is None:
        start, stop = 0, start
    alone = is_number(start) and is_number(step) and (start, step) == (0, 1)
    bounds = [_range_bound(x, ends=alone and x is stop) for x in (start, stop, step)]
    if any(isinstance(x, SymbolicDim) for x in bounds):
        return _symbolic_arange(bounds, dtype)
    if bounds[2] and all(type(x) is int and abs(x) < 1 << 62 for x in bounds):
        row = dtype_row(np.int64 if dtype is None else dtype, "arange")
        if row is not BOOL:  # no numbers are written, however many they are
            return _line(bounds[0], bounds[2], row, (Dim.const(len(range(*bounds))),))
    values = _numpy_arange(*bounds)
    row = dtype_row(values.dtype if dtype is None else dtype, "arange")
    shape = (Dim.const(values.size),)
    if row is BOOL and values.size > 2:
        message = f"arange: {values.size} elements of bool; NumPy makes at most two."
        raise located(DTypeError, message, remedy="Use np.ones(n, bool), or np.arange(n) != 0.")
    if values.dtype.kind != "i":
        return result(constant(cast(values, row), row))
    return _line(bounds[0], bounds[2], row, shape)


def _numpy_arange(*bounds: Any) -> NDArray[Any]:
    return np.arange(*bounds)  # pyright: ignore[reportUnknownVariableType]


def _range_bound(value: Any, *, ends: bool) -> Any:
    """A bound as a number or a size; of one that `ends` a line from 0, what is above 0."""
    from mlc.frontend.numpy.counted import as_counted, as_room

    value = as_counted(value)
    if ends:
        value = as_room(value, "arange", below=True)
    if isinstance(value, Tracer):
        return value.__index__() if is_integer(value.row) else value.__float__()
    return value


def _symbolic_arange(bounds: Sequence[Any], dtype: Any) -> Tracer:
    first, last, step = (as_dim(x) for x in bounds)
    if first is None or last is None or step is None or step.constant in (None, 0):
        message = (
            "arange: with a symbolic bound, the other bounds are integers and the step a"
            " constant one."
        )
        raise located(DTypeError, message)
    stride = step.constant or 1
    span = last - first if stride > 0 else first - last
    if is_bound(span):
        span = natural(span)
    elif not is_natural(span, f"arange counts from {first} to {last}"):
        span = Dim.const(0)
    count = (span + (abs(stride) - 1)) // abs(stride)
    return _line(first, stride, dtype_row(np.int64 if dtype is None else dtype, "arange"), (count,))


def _line(start: int | Dim, step: int, row: DType, shape: Shape) -> Tracer:
    """start + step * position."""
    b = here().emit
    counted = I64 if row is BOOL else row
    line = result(iota(counted, shape, 0))
    if step != 1:
        line = result(b(ops.MulOp, line.value, number(step, counted, shape)))
    if start != 0:
        first = Dim.of(start)
        offset = (
            number(first.constant, counted, shape)
            if first.constant is not None
            else spread(convert(lift_size(first).value, counted), shape)
        )
        line = result(b(ops.AddOp, line.value, offset))
    return result(convert(line.value, row))


@public(np.linspace)
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None
) -> Tracer:
    """`num` evenly spaced numbers from start to stop."""
    count = _size_argument(num, "linspace")
    wide = float_dtype("linspace", (start, stop, 1.0))
    row = wide if dtype is None else dtype_row(dtype, "linspace")
    known = isinstance(start, int | float) and isinstance(stop, int | float)
    if known and count.constant is not None:
        values = np.linspace(start, stop, count.constant, endpoint)
        return result(constant(cast(np.floor(values) if row.is_integer else values, row), row))
    return _even_steps(lift(start), lift(stop), count, endpoint, wide, row)


def _even_steps(
    start: Tracer, stop: Tracer, count: Dim, endpoint: bool, wide: DType, row: DType
) -> Tracer:
    """`linspace` between values that only exist when the program runs, along a new first axis."""
    from mlc.frontend.numpy.elementwise import astype, equal, logical_and, subtract, where
    from mlc.frontend.numpy.elementwise_math import floor
    from mlc.frontend.numpy.shaping import reshaped

    first, last = astype(start, wide.numpy), astype(stop, wide.numpy)
    span = subtract(last, first)
    line = result(reshaped(iota(I64, (count,), 0), (count, *(ONE for _ in span.dims))))
    intervals = count - 1 if endpoint else count
    if intervals.constant is not None:
        step = span / max(intervals.constant, 1)
    else:
        step = span / where(lift_size(intervals) > 0, lift_size(intervals), 1)
    values = astype(line, wide.part.numpy) * step + first
    if endpoint:
        values = where(logical_and(equal(line, lift_size(intervals)), line > 0), last, values)
    return astype(floor(values) if row.is_integer else values, row.numpy)


@public(np.eye)
def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = float, **_: object) -> Tracer:
    """Ones on diagonal k, zeros elsewhere. (N, M)."""
    shape = _made_shape((N, N if M is None else M), "eye")
    from mlc.frontend.numpy.elementwise import equal

    row = dtype_row(dtype, "eye")
    # narrow numbers are compared more at a time
    fits = all(d.constant is not None and d.constant + abs(k) < 1 << 31 for d in shape)
    kind = I32 if fits else I64
    rows, columns = result(iota(kind, shape, 0)), result(iota(kind, shape, 1))
    return result(convert(equal(rows + k, columns).value, row))


@public(np.identity)
def identity(n: Any, dtype: Any = None, **_: object) -> Tracer:
    """The identity matrix. (n, n)."""
    return eye(n, dtype=float if dtype is None else dtype)


@public(np.tri)
def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = float, **_: object) -> Tracer:
    """Ones at and below diagonal k. (N, M)."""
    shape = _made_shape((N, N if M is None else M), "tri")
    rows, columns = result(iota(I64, shape, 0)), result(iota(I64, shape, 1))
    return result(convert((rows + k >= columns).value, dtype_row(dtype, "tri")))


def _triangle(m: Operand, k: int, *, lower: bool) -> Tracer:
    from mlc.frontend.numpy.elementwise import where

    x = lift(m)
    if not x.ndim:
        raise located(DTypeError, f"{'tril' if lower else 'triu'}: the operand is a number.")
    mask = tri(*x.shape[-2:], k=k if lower else k - 1, dtype=bool)  # one axis: as rows of a square
    zero = result(number(0, x.row))
    return where(mask, x, zero) if lower else where(mask, zero, x)


@public(np.tril)
def tril(m: Operand, k: int = 0) -> Tracer:
    """The lower triangle."""
    return _triangle(m, k, lower=True)


@public(np.triu)
def triu(m: Operand, k: int = 0) -> Tracer:
    """The upper triangle."""
    return _triangle(m, k, lower=False)


def _with_ints_of(nested: Any, row: DType) -> Any:
    """Nested sequences whose Python ints are of an integer dtype; OverflowDTypeError else."""
    if not is_integer(row):
        return nested
    leaves, structure = flatten(nested)
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, Tracer):
            leaves[k] = result(fitting(leaf, row)) if leaf.weak else leaf
        elif type(leaf) is int and not row.lowest <= leaf <= min(row.highest, 2**63 - 1):
            leaves[k] = result(number(leaf, row))
    return unflatten(structure, leaves)


@public(np.array)
def array(
    object: Any,  # noqa: A002 - NumPy's name
    dtype: Any = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    **_: Any,
) -> Tracer:
    """An array from numbers, arrays, traced values and nested sequences of them."""
    if dtype is not None:
        object = _with_ints_of(object, dtype_row(dtype, "array"))  # noqa: A001
    made = _from_nested(object)
    if dtype is not None:
        made = result(fitting(made, dtype_row(dtype, "array")))
    if made.ndim < ndmin:
        from mlc.frontend.numpy.shaping import reshape

        made = reshape(made, (1,) * (ndmin - made.ndim) + made.shape)
    return result(made.value) if copy else made


@in_users_name
def _from_nested(value: Any) -> Tracer:
    if isinstance(value, range):
        value = list(value)
    if not is_series(value):
        return lift(value, "array")
    if not _holds_arrays(value):
        made: NDArray[Any] = np.array(value)
        if made.dtype == object:
            raise located(
                ShapeError,
                "array: the nested sequences have different lengths; expected a regular grid.",
            )
        row = dtype_row(made.dtype, "array")
        return result(constant(made, row))
    from mlc.frontend.numpy.shaping import stack

    return stack([_from_nested(part) for part in value])


def _holds_arrays(value: Any) -> bool:
    if is_series(value):
        return any(map(_holds_arrays, value))
    traced = isinstance(value, Tracer | SymbolicDim) or is_variants(value)
    return traced or (is_array(value) and value.ndim > 0)


@public(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, **_: Any) -> Tracer:
    """The value as an array with at least one axis."""
    from mlc.frontend.numpy.shaping import atleast_1d

    return atleast_1d(asarray(a, dtype))


@public(np.asarray, np.asanyarray)
def asarray(a: Any, dtype: Any = None, **_: Any) -> Tracer:
    """The value as an array; an array as it is."""
    if isinstance(a, Tracer) and not a.weak and (dtype is None or dtype_row(dtype) is a.row):
        return a
    return array(a, dtype)


@public(np.copy)
def copy(a: Any, **_: Any) -> Tracer:
    """A new array with the same elements."""
    return result(lift(a).value)
