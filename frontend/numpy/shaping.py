"""Functions that move elements: reshape, transpose, broadcast, join, split."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape, product, shape_of, tensor_type
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.letters import ALPHABET, spell
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from mlc.frontend.errors import AxisError, located
from mlc.frontend.numpy.creation import shape_argument
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.values import (
    ONE,
    broadcast_shapes,
    check_casting,
    common_dtype,
    convert,
    dtype_at,
    dtype_row,
    lift,
    result,
    spread,
    strong,
)
from mlc.frontend.trace.kinds import is_series
from mlc.frontend.trace.known import known_dim
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import as_dim, as_size
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import View

Operand = Any
ZERO = Dim.const(0)


def normal_axis(axis: Any, rank: int, function: str) -> int:
    """The axis counted from the front; AxisError where there is none."""
    number = as_dim(axis)
    if isinstance(axis, Tracer):
        number = Dim.const(axis.__index__())
    if number is None or number.constant is None:
        raise located(DTypeError, f"{function}: axis {axis!r} is not an integer.")
    found = number.constant
    if not -rank <= found < rank:
        message = f"{function}: axis {found} is out of bounds for an array of dimension {rank}."
        raise located(AxisError, message)
    return found % rank


def reduced_axes(axes: Any, rank: int, function: str) -> tuple[int, ...]:
    """The axes that a reduction runs over; NumPy takes axis 0 or -1 of a number for none."""
    if rank == 0 and isinstance(axes, int) and axes in (0, -1):
        return ()
    return normal_axes(axes, rank, function)


def as_line(x: Tracer, axis: Any) -> Tracer:
    """The elements in one row where the axis is None; a number as one element."""
    return ravel(x) if axis is None or not x.ndim else x


def normal_axes(axes: Any, rank: int, function: str) -> tuple[int, ...]:
    """Several axes, or one, or None for all; ShapeError where one occurs twice."""
    if axes is None:
        return tuple(range(rank))
    several = axes if is_series(axes) else (axes,)
    normal = tuple(normal_axis(axis, rank, function) for axis in several)
    if len(set(normal)) != len(normal):
        raise located(ShapeError, f"{function}: an axis occurs twice in {tuple(several)}.")
    return normal


def reshaped(value: SSAValue, shape: Shape) -> SSAValue:
    """The SSA value under another shape of as many elements."""
    if shape_of(value.type) == shape:
        return value
    return here().emit(ReshapeOp, value, declared=tensor_type(tensor_of(value).element_type, shape))


def permuted(value: SSAValue, order: Sequence[int]) -> SSAValue:
    """The SSA value with result axis k = operand axis order[k]."""
    if list(order) == list(range(len(order))):
        return value
    source = ALPHABET[: len(order)]
    return here().emit(TransposeOp, value, letters=f"{source}->{''.join(source[k] for k in order)}")


def view_of(
    base: Tracer,
    get: Callable[[SSAValue], SSAValue],
    put: Callable[[SSAValue, SSAValue], SSAValue],
    key: object = None,
) -> Tracer:
    """A view of another array, as NumPy makes one."""
    view = View(base, get, put, key)
    made = Tracer(base.owner, base.seen_in(view), view=view)
    made.origins, made.captured = base.origins, base.captured
    return made


@public(np.reshape)
def reshape(
    a: Operand, /, shape: Any = None, order: str = "C", *, newshape: Any = None, **_: Any
) -> Tracer:
    """The same elements in row-major order under another shape; one size may be -1."""
    source = lift(a)
    wanted = newshape if shape is None else shape
    if order == "F":
        turned = reshape_argument(source, wanted)[::-1]
        made = transpose(reshape(transpose(source), tuple(map(as_size, turned))))
        return made if source.ndim < 2 else result(made.value)  # a copy, as NumPy's is
    if order not in ("C", "A"):
        from mlc.frontend.errors import NotSupportedError

        raise located(
            NotSupportedError,
            f"reshape: order={order!r} is the order of memory, which the compiler chooses.",
            remedy="Say order='C' or order='F'.",
        )
    dims = reshape_argument(source, wanted)
    old, count = source.dims, product(dims)
    if count == product(old):
        return view_of(source, lambda x: reshaped(x, dims), lambda _, new: reshaped(new, old))
    # -1 stands for a quotient that the sizes of each call make exact: all elements, which is
    # spelled as so many
    line = reshape(source, (as_size(product(old)),))[: as_size(count)]
    return reshape(line, tuple(map(as_size, dims)))


def assign_shape(x: Tracer, shape: Any) -> None:
    """``x.shape = …``: the array itself has another shape, its views stay as they are."""
    old, new = x.dims, reshape_argument(x, shape)
    if old != new:
        x.seen_through(lambda v: reshaped(v, new), lambda _, v: reshaped(v, old))


def reshape_argument(source: Tracer, wanted: Any) -> Shape:
    """The new shape, with -1 solved."""
    sizes = list(wanted) if is_series(wanted) else [wanted]
    unknown = [k for k, size in enumerate(sizes) if known_dim(size) == Dim.const(-1)]
    total = product(source.dims)
    if not unknown:
        dims = shape_argument(tuple(sizes), "reshape")
        if product(dims) != total:
            raise _reshape_error(source, spell(dims), "expected equal counts of elements.")
        return dims
    if len(unknown) > 1:
        raise located(ShapeError, "reshape: can only specify one unknown dimension (-1).")
    rest = shape_argument(tuple(s for k, s in enumerate(sizes) if k != unknown[0]), "reshape")
    known = product(rest)
    quotient = quotient_of(total, known, "reshape") if known.constant != 0 else ZERO
    if quotient is None:
        spelled = "(" + ", ".join(map(str, sizes)) + ")"
        raise _reshape_error(source, spelled, f"{total} is not a multiple of {known}.")
    return (*rest[: unknown[0]], quotient, *rest[unknown[0] :])


def quotient_of(total: Dim, divisor: Dim, function: str) -> Dim | None:
    """total / divisor; None where it is not whole. Of symbols every call checks that it is."""
    exact = total.exact_quotient(divisor)
    if exact is not None or total.constant is not None or len(divisor.terms) != 1:
        return exact
    monomial, factor = divisor.terms[0]
    rest = total.exact_quotient(Dim(((monomial, 1),)))
    if rest is None or factor < 1:
        return None
    found = rest // factor
    here().assume(found * divisor - total, f"{function}: {total} is a multiple of {divisor}")
    return found


def _reshape_error(source: Tracer, wanted: str, reason: str) -> ShapeError:
    name = name_of(source) or "an array"
    count = product(source.dims)
    message = (
        f"reshape: cannot give {name} {spell(source.dims)} with {count} elements the shape"
        f" {wanted}; {reason}"
    )
    return located(ShapeError, message)


@public(np.ravel)
def ravel(a: Operand, order: str = "C") -> Tracer:
    """The elements in one row."""
    return reshape(a, -1, order)


def ravel_copy(a: Operand, order: str = "C") -> Tracer:
    """`x.flatten()`: the elements in one row, as a new array."""
    return result(ravel(a, order).value)


@public(np.transpose, getattr(np, "permute_dims", None))
def transpose(a: Operand, axes: Any = None) -> Tracer:
    """The axes in another order; reversed when none is given."""
    source = lift(a)
    order = (
        tuple(reversed(range(source.ndim)))
        if axes is None
        else normal_axes(axes, source.ndim, "transpose")
    )
    if len(order) != source.ndim:
        raise located(
            ShapeError, f"transpose: {len(order)} axes for an array of dimension {source.ndim}."
        )
    inverse = [order.index(k) for k in range(len(order))]
    return view_of(source, lambda x: permuted(x, order), lambda _, new: permuted(new, inverse))


@public(getattr(np, "matrix_transpose", None))
def matrix_transpose(x: Operand) -> Tracer:
    """The last two axes swapped."""
    return swapaxes(x, -1, -2)


@public(np.swapaxes)
def swapaxes(a: Operand, axis1: int, axis2: int) -> Tracer:
    """Two axes exchanged."""
    source = lift(a)
    one, two = (normal_axis(axis, source.ndim, "swapaxes") for axis in (axis1, axis2))
    order = list(range(source.ndim))
    order[one], order[two] = two, one
    return transpose(source, tuple(order))


@public(np.moveaxis)
def moveaxis(a: Operand, source: Any, destination: Any) -> Tracer:
    """Axes moved to other positions; the others keep their order."""
    x = lift(a)
    moved, places = (
        normal_axes(source, x.ndim, "moveaxis"),
        normal_axes(destination, x.ndim, "moveaxis"),
    )
    if len(moved) != len(places):
        raise located(
            ShapeError, f"moveaxis: {len(moved)} source axes and {len(places)} destinations."
        )
    order = [k for k in range(x.ndim) if k not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return transpose(x, tuple(order))


@public(np.expand_dims)
def expand_dims(a: Operand, axis: Any) -> Tracer:
    """New axes of size 1."""
    x = lift(a)
    count = len(axis) if is_series(axis) else 1
    places = normal_axes(axis, x.ndim + count, "expand_dims")
    rest = iter(x.shape)
    return reshape(x, tuple(1 if k in places else next(rest) for k in range(x.ndim + count)))


@public(np.squeeze)
def squeeze(a: Operand, axis: Any = None) -> Tracer:
    """Axes of size 1 removed."""
    x = lift(a)
    if axis is None:
        removed = tuple(k for k, dim in enumerate(x.dims) if dim == ONE)
    else:
        removed = reduced_axes(axis, x.ndim, "squeeze")
        for k in removed:
            if x.dims[k] != ONE:
                raise located(ShapeError, f"squeeze: axis {k} has size {x.dims[k]}; expected 1.")
    return reshape(x, tuple(size for k, size in enumerate(x.shape) if k not in removed))


@public(np.atleast_1d)
def atleast_1d(a: Operand) -> Tracer:
    """The array with at least one axis."""
    x = lift(a)
    return reshape(x, (1,)) if x.ndim == 0 else x


@public(np.broadcast_to)
def broadcast_to(array: Operand, shape: Any, **_: Any) -> Tracer:
    """The array repeated to a shape."""
    x = lift(array)
    dims = shape_argument(shape, "broadcast_to")
    if len(dims) < x.ndim or broadcast_shapes("broadcast_to", (x.dims, dims)) != dims:
        message = f"broadcast_to: {spell(x.dims)} does not broadcast to {spell(dims)}."
        raise located(ShapeError, message)
    return result(spread(x.value, dims))


@public(np.broadcast_arrays)
def broadcast_arrays(*arrays: Operand) -> tuple[Tracer, ...]:
    """The arrays repeated to their common shape."""
    values = [lift(x) for x in arrays]
    shape = broadcast_shapes("broadcast_arrays", [x.dims for x in values])
    return tuple(result(spread(x.value, shape)) for x in values)


# Joining and splitting


def _parts(function: str, arrays: Any, wanted: Any, casting: str) -> list[Tracer]:
    """The operands in one dtype, as arrays; NumPy refuses an unsafe one that is asked for."""
    parts = [strong(x, function) for x in arrays]
    if not parts:
        raise located(ShapeError, f"{function}: need at least one array.")
    if wanted is None:
        dtype = common_dtype(function, parts)
    else:
        dtype = dtype_row(wanted, function)
        check_casting(function, parts, dtype, casting)
    return [x if x.row is dtype else result(convert(x.value, dtype)) for x in parts]


@public(np.concatenate, getattr(np, "concat", None))
def concatenate(
    arrays: Any,
    axis: Any = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Tracer:
    """The arrays one after another along an axis."""
    parts = _parts("concatenate", arrays, dtype, casting)
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    if parts[0].ndim == 0:
        raise located(
            ShapeError, "concatenate: zero-dimensional arrays cannot be concatenated; use np.stack."
        )
    place = normal_axis(axis, parts[0].ndim, "concatenate")
    for k, x in enumerate(parts):
        _check_joinable(parts[0], x, k, place)
    values = [x.value for x in parts]
    return (
        result(values[0]) if len(parts) == 1 else result(here().emit(ConcatOp, *values, axis=place))
    )


concat = concatenate


def _check_joinable(first: Tracer, other: Tracer, position: int, axis: int) -> None:
    fits = other.ndim == first.ndim and all(
        k == axis or d == e for k, (d, e) in enumerate(zip(first.dims, other.dims, strict=True))
    )
    if not fits:
        message = (
            f"concatenate: array 0 is {spell(first.dims)} and array {position} is"
            f" {spell(other.dims)};"
            f" expected equal sizes on every axis but {axis}."
        )
        raise located(ShapeError, message)


@public(np.stack)
def stack(
    arrays: Any,
    axis: Any = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Tracer:
    """The arrays along a new axis."""
    parts = _parts("stack", arrays, dtype, casting)
    for k, x in enumerate(parts):
        if x.dims != parts[0].dims:
            message = (
                f"stack: array 0 is {spell(parts[0].dims)} and array {k} is {spell(x.dims)};"
                " expected equal shapes."
            )
            raise located(ShapeError, message)
    place = normal_axis(axis, parts[0].ndim + 1, "stack")
    return concatenate([expand_dims(x, place) for x in parts], place)


@public(np.vstack)
def vstack(tup: Any, **options: Any) -> Tracer:
    """The arrays as rows."""
    parts = [lift(x) for x in tup]
    rows = [reshape(x, (1, -1)) if x.ndim < 2 else x for x in parts]
    return concatenate(rows, 0, **options)


@public(np.hstack)
def hstack(tup: Any, **options: Any) -> Tracer:
    """The arrays side by side."""
    parts = [atleast_1d(x) for x in tup]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, **options)


@public(np.column_stack)
def column_stack(tup: Any) -> Tracer:
    """The arrays as columns."""
    parts = [lift(x) for x in tup]
    return concatenate([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in parts], 1)


def part(x: Tracer, axis: int, first: Dim, count: Dim) -> Tracer:
    """`count` elements from `first` on along an axis."""
    offsets = tuple(first if k == axis else ZERO for k in range(x.ndim))
    shape = (*x.dims[:axis], count, *x.dims[axis + 1 :])
    value = x.value
    declared = tensor_type(dtype_at(value).ir, shape)
    return result(
        here().emit(SliceOp, value, offsets=offsets, steps=(ONE,) * x.ndim, declared=declared)
    )


@public(np.split)
def split(ary: Operand, indices_or_sections: Any, axis: Any = 0) -> list[Tracer]:
    """The array cut into equal sections, or before the given positions."""
    x = lift(ary)
    place = normal_axis(axis, x.ndim, "split")
    size = x.dims[place]
    if is_series(indices_or_sections):
        cuts = [ZERO, *(Dim.of(int(c)) for c in indices_or_sections), size]
    else:
        sections = int(indices_or_sections)
        each = quotient_of(size, Dim.const(sections), "split") if sections > 0 else None
        if each is None:
            raise located(
                ShapeError,
                f"split: axis {place} of size {size} does not divide into {sections} equal parts.",
            )
        cuts = [each * k for k in range(sections + 1)]
    lead = (slice(None),) * place
    return [x[(*lead, slice(as_size(a), as_size(b)))] for a, b in itertools.pairwise(cuts)]


@public(np.flip)
def flip(m: Operand, axis: Any = None) -> Tracer:
    """The elements in reverse order along axes."""
    x = lift(m)
    axes = normal_axes(axis, x.ndim, "flip")
    return x[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim))]


@public(np.repeat)
def repeat(a: Operand, repeats: Any, axis: Any = None) -> Tracer:
    """Each element `repeats` times, one number for all."""
    x = as_line(strong(a), axis)
    place = normal_axis(0 if axis is None else axis, x.ndim, "repeat")
    (count,) = shape_argument(repeats, "repeat")
    wide = (*x.dims[: place + 1], count, *x.dims[place + 1 :])
    value = spread(reshaped(x.value, (*x.dims[: place + 1], ONE, *x.dims[place + 1 :])), wide)
    return result(reshaped(value, (*x.dims[:place], x.dims[place] * count, *x.dims[place + 1 :])))


@public(np.tile)
def tile(A: Operand, reps: Any) -> Tracer:
    """The array repeated as a whole."""
    x = lift(A)
    counts = shape_argument(reps, "tile")
    rank = max(len(counts), x.ndim)
    counts = (ONE,) * (rank - len(counts)) + counts
    dims = (ONE,) * (rank - x.ndim) + x.dims
    thin = tuple(d for dim in dims for d in (ONE, dim))
    wide = tuple(d for count, dim in zip(counts, dims, strict=True) for d in (count, dim))
    value = spread(reshaped(x.value, thin), wide)
    return result(reshaped(value, tuple(c * d for c, d in zip(counts, dims, strict=True))))
