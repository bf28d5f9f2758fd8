"""
Random numbers as functions of an explicit key: the same on every machine, for any thread count.

    key = mlc.random.key(seed)
    first, second = mlc.random.split(key)
    x = mlc.random.normal(first, (1000, 10), np.float32)

A key is a 0-d uint64. Whoever draws twice from one key gets the same numbers twice: split it.
Inside a compiled function these are ops like others; outside they run by the reference interpreter.
SOURCE: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape, product, tensor_type
from mlc.dialects.dtypes import F64, I64, U32, U64, DType
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.create import IotaOp
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.random import PhiloxOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.frontend import numpy as names
from mlc.frontend.errors import located
from mlc.frontend.numpy.creation import shape_argument
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.values import convert, dtype_row, is_integer, lift, number, result, spread
from mlc.frontend.trace.kinds import is_number
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.transforms.custom_rules import stop_gradient

BITS, SPLIT, FOLD = 0, 1, 2
"""Streams: counters of different streams never meet."""


@public()
def key(seed: Any) -> Tracer:
    """A key from an integer."""
    if _is_int(seed):
        return result(number(int(seed) % 2**64, U64))
    value = lift(seed, "random.key")
    if not is_integer(value.row) or value.ndim:
        found = f"{value.row.numpy} {spell(value.dims)}"
        raise located(DTypeError, f"random.key: the seed is {found}; expected an integer.")
    return result(convert(value.value, U64))


@public()
def split(key: Any, num: Any = 2) -> Tracer:
    """`num` keys that have nothing to do with each other, nor with `key`'s own numbers."""
    return result(_words(key, shape_argument(num, "random.split"), U64, SPLIT))


@public()
def fold_in(key: Any, data: Any) -> Tracer:
    """A key for the integer `data`: another one for each."""
    value = lift(data, "random.fold_in")
    if not is_integer(value.row) or value.ndim:
        found = f"{value.row.numpy} {spell(value.dims)}"
        raise located(DTypeError, f"random.fold_in: data is {found}; expected an integer.")
    # two words of 64 bits are in a block: of each block the first
    block = result(convert(value.value, U64)) * result(number(2, U64))
    return result(_words(key, (), U64, FOLD, first=block.value))


@public()
def bits(key: Any, shape: Any = (), dtype: Any = np.uint32) -> Tracer:
    """Unsigned integers of which every bit is random."""
    row = dtype_row(dtype, "random.bits")
    if row.kind != "uint":
        raise located(DTypeError, f"random.bits: dtype {row.numpy}; expected an unsigned integer.")
    dims = shape_argument(shape, "random.bits")
    return result(_bits(key, dims, row))


@public()
def uniform(
    key: Any, shape: Any = (), dtype: Any = np.float64, low: Any = 0.0, high: Any = 1.0
) -> Tracer:
    """
    Numbers from [low, high), all multiples of 2^-m equally likely before they are stretched: m is
    the number of bits that the dtype's fraction holds, 53 for float64 and 24 for float32.
    """
    row = _floating(dtype, "uniform")
    unit = _unit(key, shape_argument(shape, "random.uniform"), row)
    if is_number(low) and is_number(high) and (low, high) == (0, 1):
        return unit
    return _stretched(unit, _like(low, row), _like(high, row))


@public()
def normal(key: Any, shape: Any = (), dtype: Any = np.float64) -> Tracer:
    """
    Numbers of the standard normal distribution.

    SOURCE: Box and Muller, Annals of Mathematical Statistics 29(2), 1958.
    """
    row = _floating(dtype, "normal")
    dims = shape_argument(shape, "random.normal")
    wide = F64 if row is F64 else dtype_row(np.float32)
    count = (product(dims),)
    if wide is F64:  # two words of one block
        radius_bits, angle_bits = (_words(key, count, U64, BITS, k, 2) for k in (0, 1))
    else:
        both = result(_words(key, count, U64, BITS))
        radius_bits = convert(both.value, U32)
        angle_bits = convert(_shifted(both, 32).value, U32)
    radius, angle = (_fraction(result(x), wide) for x in (radius_bits, angle_bits))
    one = result(number(1.0, wide))
    long = names.sqrt(names.log(one - radius) * result(number(-2.0, wide)))
    found = long * names.cos(angle * result(number(2 * np.pi, wide)))
    return _shaped(result(convert(found.value, row)), dims)


@public()
def randint(key: Any, shape: Any, low: Any, high: Any = None, dtype: Any = np.int64) -> Tracer:
    """
    Integers from [low, high), or [0, low) without `high`; equally likely up to one part in
    2^64 / (high - low).
    """
    if high is None:
        low, high = 0, low
    row = dtype_row(dtype, "random.randint")
    if not is_integer(row):
        raise located(DTypeError, f"random.randint: dtype {row.numpy}; expected an integer dtype.")
    dims = shape_argument(shape, "random.randint")
    count = (product(dims),)
    draws = result(_words(key, count, U64, BITS))
    if isinstance(low, int) and isinstance(high, int):
        if high <= low:
            raise located(ShapeError, f"random.randint: no integer is in [{low}, {high}).")
        if low < row.lowest or high - 1 > row.highest:
            message = f"random.randint: [{low}, {high}) does not fit {row.numpy}."
            raise located(DTypeError, message)
        drawn = _scaled(draws, high - low)
        first = result(number(low % 2**64, U64))
    else:
        ends = [result(convert(lift(x, "random.randint").value, U64)) for x in (low, high)]
        span = names.maximum(ends[1] - ends[0], result(number(1, U64)))
        drawn, first = draws - names.floor_divide(draws, span) * span, ends[0]
    return _shaped(result(convert((drawn + first).value, row)), dims)


@public()
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Tracer:
    """True with probability p, which may be an array."""
    chance = p if is_number(p) else lift(p, "random.bernoulli")
    row = F64 if not isinstance(chance, Tracer) or chance.weak else chance.row
    if row.kind != "float":
        message = f"random.bernoulli: p is {row.numpy}; expected a floating dtype."
        raise located(DTypeError, message)
    if shape is None:
        dims = chance.dims if isinstance(chance, Tracer) else ()
    else:
        dims = shape_argument(shape, "random.bernoulli")
    return names.less(_unit(key, dims, row), chance)


@public()
def permutation(key: Any, x: Any, axis: int = 0) -> Tracer:
    """The numbers below x in random order, or x with the entries along an axis in random order."""
    if _is_int(x):
        return _order(key, (Dim.const(int(x)),))
    value = lift(x, "random.permutation")
    if not value.ndim:
        message = "random.permutation: x is a traced number; expected an int or an array."
        raise located(ShapeError, message)
    return names.take(value, _order(key, (value.dims[axis],)), axis=axis)


@public()
def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Tracer:
    """
    Entries of `a` along an axis (or the numbers below `a`), each with probability p[i].

    Without `replace` none is taken twice; p must be None then.
    """
    pool = None if _is_int(a) else lift(a, "random.choice")
    size = Dim.const(int(a)) if pool is None else pool.dims[axis]
    dims = shape_argument(shape, "random.choice")
    count = product(dims)
    if not replace:
        if p is not None:
            message = "random.choice: probabilities without replacement are not supported yet."
            raise located(NotImplementedShapeError, message)
        room = (size - count).constant
        if room is not None and room < 0:
            message = f"random.choice: {count} of {size} entries without replacement."
            raise located(ShapeError, message)
        order = _order(key, (size,))
        picked = _shaped(order[: as_size(count)], dims)
    elif p is None:
        draws = result(_words(key, (count,), U64, BITS))
        if size.constant is not None:
            drawn = _scaled(draws, size.constant)
        else:
            span = result(convert(lift_size(size).value, U64))
            drawn = draws - names.floor_divide(draws, span) * span
        picked = _shaped(result(convert(drawn.value, I64)), dims)
    else:
        chances = lift(p, "random.choice")
        ends = names.cumsum(chances)
        unit = _unit(key, (count,), ends.row) * ends[-1]
        picked = _shaped(names.searchsorted(ends, unit, side="right"), dims)
        picked = names.minimum(picked, result(convert(lift_size(size).value, I64)) - 1)
    return picked if pool is None else names.take(pool, picked, axis=axis)


class NotImplementedShapeError(ShapeError, NotImplementedError):
    """A way of drawing that is not there yet."""


# Bits and what is made of them


def _is_int(value: Any) -> bool:
    """An integer that is known when compiling."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _words(
    key: Any,
    dims: Shape,
    row: DType,
    stream: int,
    first: int | SSAValue = 0,
    stride: int = 1,
) -> SSAValue:
    """Random words (u32 or u64) at positions first, first + stride, …; `dims`: one axis or none."""
    trace = here()
    found = lift(key, "random")
    if found.row is not U64 or found.ndim:
        message = f"a key is {found.row.numpy} {spell(found.dims)}; expected a 0-d uint64."
        remedy = "Make one with mlc.random.key(seed), or pick one of mlc.random.split(key, n)[i]."
        raise located(DTypeError, f"random: {message}", remedy=remedy)
    if not dims:
        position = number(0, U64)
    else:
        position = trace.emit(IotaOp, axis=0, declared=tensor_type(U64.ir, dims))
        if stride != 1:
            position = (result(position) * result(number(stride, U64))).value
    if first != 0:
        offset = number(first, U64) if isinstance(first, int) else first
        position = trace.emit(AddOp, position, spread(offset, dims))
    wide = 64 if row is U64 else 32
    return trace.emit(PhiloxOp, spread(found.value, dims), position, bits=wide, stream=stream)


def _bits(key: Any, dims: Shape, row: DType) -> SSAValue:
    """Random bits of any unsigned dtype and any shape."""
    wide = U64 if row is U64 else U32
    words = _words(key, (product(dims),), wide, BITS)
    return _shaped(result(convert(words, row)), dims).value


def _shaped(flat: Tracer, dims: Shape) -> Tracer:
    """Numbers in a row as an array: a view."""
    if flat.dims == dims:
        return flat
    declared = tensor_type(flat.row.ir, dims)
    return result(here().emit(ReshapeOp, flat.value, declared=declared))


def _floating(dtype: Any, function: str) -> DType:
    row = dtype_row(dtype, f"random.{function}")
    if row.kind != "float":
        message = f"random.{function}: dtype {row.numpy}; expected a floating dtype."
        raise located(DTypeError, message)
    return row


def _unit(key: Any, dims: Shape, row: DType) -> Tracer:
    """Numbers from [0, 1)."""
    wide = U64 if row is F64 else U32
    words = result(_words(key, (product(dims),), wide, BITS))
    return _shaped(_fraction(words, row), dims)


def _fraction(words: Tracer, row: DType) -> Tracer:
    """The highest bits of random words as a number below 1, exactly."""
    precision = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}[row.name]
    wide = row if row.bytes >= 4 else dtype_row(np.float32)
    kept = _shifted(words, 8 * words.row.bytes - precision)
    # signed integers convert faster, and these fit
    signed = convert(kept.value, I64 if words.row is U64 else dtype_row(np.int32))
    unit = result(convert(signed, wide)) * result(number(2.0**-precision, wide))
    return result(convert(unit.value, row))


def _stretched(unit: Tracer, first: Tracer, end: Tracer) -> Tracer:
    """Numbers from [0, 1) as ones from [first, end)."""
    wide = F64 if unit.row is F64 else dtype_row(np.float32)
    part, low, high = (result(convert(x.value, wide)) for x in (unit, first, end))
    held = names.isfinite(high - low)  # else the span is more than the dtype holds, and half is not
    share, rest = (_like(names.where(held, *two), wide) for two in ((1.0, 0.5), (0.0, 1.0)))
    step = part * (high * share - low * share)
    found = result(convert((low + step + step * rest).value, unit.row))
    # what is rounded to the end is the number before it, with the derivative that it has
    beyond = names.where(found < end, _like(0.0, unit.row), found - names.nextafter(end, first))
    return found - stop_gradient(beyond)


def _shifted(words: Tracer, count: int) -> Tracer:
    """words >> count"""
    return names.right_shift(words, result(number(count, words.row)))


def _scaled(draws: Tracer, span: int) -> Tracer:
    """floor(draws * span / 2^64), for words of 64 bits."""
    if span == 2**64:
        return draws
    factor = result(number(span, U64))
    if span > 2**32:
        return draws - names.floor_divide(draws, factor) * factor
    low = names.bitwise_and(draws, result(number(2**32 - 1, U64)))
    carried = _shifted(low * factor, 32)
    return _shifted(_shifted(draws, 32) * factor + carried, 32)


def _order(key: Any, dims: Shape) -> Tracer:
    """A random order of the numbers below a size: that in which random words are sorted."""
    return names.argsort(result(_words(key, dims, U64, BITS)), stable=True)


def _like(value: Any, row: DType) -> Tracer:
    if is_number(value):
        return result(number(value, row))
    return result(convert(lift(value, "random.uniform").value, row))
