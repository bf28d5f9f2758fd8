"""Writing parts: slices, integers, new axes, masks, positions that arrays give."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of
from mlc.dialects.dtypes import BOOL
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.dialects.tensor.shape import ConcatOp
from mlc.frontend.errors import NotSupportedError, OutOfBoundsError, located
from mlc.frontend.numpy.counted import has_masks, without_masks
from mlc.frontend.numpy.indexing import (
    ZERO,
    Entry,
    Picked,
    Placed,
    Run,
    addressed,
    kept_shape,
    parse_key,
    placed_part,
    sliced,
    viewed,
)
from mlc.frontend.numpy.placement import scattered, stepped
from mlc.frontend.numpy.shaping import reshape, reshaped
from mlc.frontend.numpy.spans import position_of
from mlc.frontend.numpy.values import (
    ONE,
    broadcast_shapes,
    fitting,
    is_inexact,
    lift,
    number,
    result,
    spread,
)
from mlc.frontend.staging.variants import first_variants, of_options
from mlc.frontend.trace.kinds import is_number, is_tuple
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer


def setitem(x: Tracer, key: object, new: Any) -> None:
    """x[key] = new."""
    if not x.dims and not (key is Ellipsis or key == ()):
        raise located(OutOfBoundsError, "a 0-d array cannot be indexed.")
    if (masked := _mask_of(x, key)) is not None and _write_masked(x, *masked, new):
        return
    if has_masks(key):
        setitem(*without_masks(x, key), new)
        return
    here().note_part(x, key, writes=True)
    entries = parse_key(x, key)
    placed = placed_part(x, entries)
    if placed is None and any(isinstance(e, Picked) for e in entries):
        write_at(x, key, new)
        return
    if (
        isinstance(new, Tracer)
        and new.part_of is not None
        and new.part_of.base is x
        and new.part_of.key == tuple(entries)
    ):
        return  # x[key] += v has already written through the view x[key]
    if x.root.either is not None:  # each of what it may be is written there alone
        part = viewed(x, entries, placed)
        part.write(_fitted(new, part.dims, x, "the assignment"))
        return
    x.write(_placed(x, entries, placed, new))


def with_part(x: Tracer, key: object, new: Any) -> Tracer:
    """A new array: x with x[key] = new, for a key of numbers and slices."""
    entries = parse_key(x, key)
    return Tracer(here(), _placed(x, entries, placed_part(x, entries), new))


def _placed(x: Tracer, entries: list[Entry], placed: Placed | None, new: Any) -> SSAValue:
    value = _fitted(new, kept_shape(entries), x, "the assignment")
    if placed is not None:
        return placed.written(x.value, value)
    runs = [e for e in entries if isinstance(e, Run)]
    return overwritten(x.value, runs, reshaped(value, tuple(run.count for run in runs)))


def _as_fitted(shape: Shape, x: Tracer, function: str, new: Any) -> Tracer:
    return result(_fitted(new, shape, x, function))


def _fitted(new: Any, shape: Shape, x: Tracer, function: str) -> SSAValue:
    """The new elements in the array's dtype, broadcast to the part that is written."""
    if first_variants(new) is not None:
        return of_options(partial(_as_fitted, shape, x, function), (new,), {}).value
    if is_number(new):
        return number(_whole(new, x) if not is_inexact(x.row) else new, x.row, shape)
    tracer = lift(new)
    dims = tracer.dims
    while len(dims) > len(shape) and dims[0] == ONE:
        dims = dims[1:]
    if len(dims) > len(shape) or broadcast_shapes(function, (dims, shape)) != shape:
        message = (
            f"{function}: could not broadcast {name_of(new) or 'the value'}"
            f" {spell(tracer.dims)} into {spell(shape)}."
        )
        raise located(ShapeError, message)
    return spread(reshaped(fitting(tracer, x.row), dims), shape)


def _whole(new: Any, x: Tracer) -> bool | int:
    return bool(new) if x.row is BOOL else int(new)


def overwritten(x: SSAValue, runs: list[Run], new: SSAValue) -> SSAValue:
    """`x` with the elements that the runs name replaced by `new`, of the runs' counts."""
    dims = shape_of(x.type)
    bound = here().bound
    element = bound.inside and all(run.count == ONE for run in runs)
    if element or (bound.writes_parts and all(run.step == 1 for run in runs)):
        offsets = [position_of(run.offset) for run in runs]
        whole = all(run.count == size for run, size in zip(runs, dims, strict=True))
        return new if whole else here().emit(DynamicUpdateOp, x, new, *offsets)
    for axis, (run, size) in enumerate(zip(runs, dims, strict=True)):
        if run.step == 1 and run.offset == ZERO and run.count == size:
            continue
        if run.count.constant == 0:
            return x
        return _overwritten_axis(x, axis, runs, new)
    return new


def _overwritten_axis(x: SSAValue, axis: int, runs: list[Run], new: SSAValue) -> SSAValue:
    """The first axis that is not wholly written: what lies before, the part, what lies after."""
    dims, run = shape_of(x.type), runs[axis]
    if run.step == -1:
        run, new = Run(run.offset - run.count + 1, 1, run.count), _reversed(new, axis)
    rest = [Run(ZERO, 1, dim) for dim in dims]
    if run.step != 1:
        part = sliced(x, [*rest[:axis], run, *rest[axis + 1 :]])
        whole = [*rest[:axis], Run(ZERO, 1, run.count), *runs[axis + 1 :]]
        return stepped(x, axis, run.offset, run.step, overwritten(part, whole, new))

    def piece(first: Dim, count: Dim) -> SSAValue:
        return sliced(x, [*rest[:axis], Run(first, 1, count), *rest[axis + 1 :]])

    whole_axis = [*rest[: axis + 1], *runs[axis + 1 :]]
    whole_axis[axis] = Run(ZERO, 1, run.count)
    middle = overwritten(piece(run.offset, run.count), whole_axis, new)
    end = run.offset + run.count
    pieces = [piece(ZERO, run.offset), middle, piece(end, dims[axis] - end)]
    return joined([p for p in pieces if shape_of(p.type)[axis].constant != 0], axis)


def joined(pieces: list[SSAValue], axis: int) -> SSAValue:
    """The pieces one after another."""
    return pieces[0] if len(pieces) == 1 else here().emit(ConcatOp, *pieces, axis=axis)


def _reversed(x: SSAValue, axis: int) -> SSAValue:
    dims = shape_of(x.type)
    return sliced(
        x, [Run(d - 1, -1, d) if k == axis else Run(ZERO, 1, d) for k, d in enumerate(dims)]
    )


def _mask_of(x: Tracer, key: object) -> tuple[Tracer, int] | None:
    """A boolean mask among whole slices, and the axis at which it begins."""
    parts = list(key) if is_tuple(key) else [key]
    masks = [k for k, part in enumerate(parts) if isinstance(part, Tracer) and part.row is BOOL]
    if len(masks) != 1:
        return None
    mask: Any = parts[masks[0]]
    if any(part != slice(None) for k, part in enumerate(parts) if k != masks[0]):
        return None
    return mask, masks[0]


def _write_masked(x: Tracer, mask: Tracer, axis: int, new: Any) -> bool:
    """x[..., mask] = new, if every element that is written gets the same number or row."""
    from mlc.frontend.numpy.elementwise import where

    rest = x.dims[axis + mask.ndim :]
    if x.dims[axis : axis + mask.ndim] != mask.dims:
        message = (
            f"the assignment: a mask {spell(mask.dims)} does not fit the array {spell(x.dims)}"
            f" from axis {axis} on."
        )
        raise located(OutOfBoundsError, message)
    shape = () if is_number(new) else lift(new).dims
    while shape and shape[0] == ONE and len(shape) > len(rest):
        shape = shape[1:]
    if len(shape) > len(rest) or (axis and shape):
        return False
    mask = reshape(mask, (*mask.shape, *(1 for _ in rest)))
    value = result(_fitted(new, rest, x, "the assignment"))
    x.write(where(mask, value, result(x.value)).value)
    return True


def write_all(x: Tracer, new: Any, function: str, casting: str = "same_kind") -> Tracer:
    """x[...] = new by an in-place operation: the dtype and shape of x stay."""
    made = lift(new)
    if not np.can_cast(made.row.numpy, x.row.numpy, casting):  # pyright: ignore[reportArgumentType]
        message = (
            f"{function}: cannot store {made.row.numpy} in place into an array of {x.row.numpy}."
        )
        raise located(
            DTypeError, message, remedy="Write x = x … instead of in place, or convert x first."
        )
    x.write(_fitted(made, x.dims, x, function))
    return x


def write_out(out: Any, new: Any, function: str, casting: str, *, exact: bool) -> Tracer:
    """The result of a function in the array that out= names; `exact`: of the same shape."""
    if not isinstance(out, Tracer):
        message = (
            f"{function}: out= is a NumPy array that exists before the call; it would be"
            " written only once."
        )
        raise located(NotSupportedError, message, remedy="Leave out= away and return the result.")
    dims = lift(new).dims
    if exact and dims != out.dims:
        message = f"{function}: the result is {spell(dims)} and out= {spell(out.dims)};"
        raise located(ShapeError, f"{message} expected equal shapes.")
    return write_all(out, new, function, casting)


def write_at(x: Tracer, key: object, new: Any, mode: str = "set") -> None:
    """x[key] = new where arrays give the positions; of equal positions the last one stays.

    Other modes combine the new elements with those that are there, one after the other.
    """
    if has_masks(key):
        write_at(*without_masks(x, key), new, mode)
        return
    entries = parse_key(x, key)
    if not any(isinstance(e, Picked) for e in entries):
        runs = [e for e in entries if isinstance(e, Run)]
        entries = [_as_picked(e) if k == _first_run(entries) else e for k, e in enumerate(entries)]
        if not runs:
            raise located(NotSupportedError, "a 0-d array cannot be indexed.")
    at = addressed(x, entries)
    value = _fitted(new, at.shape, x, "the assignment")
    word, axes = at.letters.partition("->")[2], list(at.shape)
    while len(axes) > len(word):
        axes.remove(ONE)
    update = reshaped(value, tuple(axes))
    made = scattered(at.part, at.letters, at.indices, update, mode)
    block = reshaped(made, tuple(run.count for run in at.runs))
    x.write(overwritten(x.value, at.runs, block))


def _first_run(entries: list[Entry]) -> int:
    return next((k for k, e in enumerate(entries) if isinstance(e, Run)), -1)


def _as_picked(e: Entry) -> Entry:
    """A slice or an integer as an array of positions."""
    if not isinstance(e, Run):
        return e
    from mlc.frontend.numpy.creation import arange

    first = as_size(e.offset)
    if e.single:
        return Picked(lift(first))
    return Picked(lift(arange(as_size(e.count)) * e.step + first))
