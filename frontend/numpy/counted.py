"""
Results whose size the data decide: the true elements of a mask have a symbol, which `mlc.bind`
gives their number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, product, tensor_type
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.tensor.comparison import ConvertOp, MaxOp
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.positions import PositionsOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.frontend.errors import OutOfBoundsError, located
from mlc.frontend.numpy.shaping import ravel, reshape
from mlc.frontend.numpy.values import constant, convert, is_integer, lift, number, result
from mlc.frontend.trace.kinds import is_array, is_series, is_tuple
from mlc.frontend.trace.known import known_array
from mlc.frontend.trace.program_sizes import bound_symbol, roomy_symbol, same_value
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class _Counted:
    """A mask of one axis, with where it is true."""

    mask: SSAValue
    positions: SSAValue


def true_positions(mask: Tracer) -> Tracer:
    """Where a mask, flattened, is true; equal masks have one size."""
    trace, known = here(), None if mask.origins else known_array(here(), mask.value)
    if known is not None:
        return result(constant(np.flatnonzero(known).astype(np.int64), I64))
    flat = ravel(mask).value
    for found in trace.counted:
        if trace.visible(found.positions) and same_value(found.mask, flat, {}):
            return result(found.positions)
    size = product(mask.dims)
    ones = convert(flat, I64)
    count = trace.emit(ReduceOp, ones, monoid="sum", letters="a->")
    declared = tensor_type(I64.ir, (bound_symbol(count, size),))
    positions = trace.emit(PositionsOp, flat, declared=declared)
    trace.counted.append(_Counted(flat, positions))
    return result(positions)


def as_counted(value: Any) -> Any:
    """`m.sum()` of a mask as a size: that of what the mask picks; anything else as it is."""
    op = value.value.owner if isinstance(value, Tracer) and not value.dims else None
    if not isinstance(op, ReduceOp) or op.monoid.data != "sum" or here().bound.inside:
        return value
    ones = op.operands[0].owner
    if not isinstance(ones, ConvertOp) or element_dtype(ones.operands[0]) is not BOOL:
        return value
    mask = Tracer(here(), ones.operands[0])
    return as_size(true_positions(mask).dims[0])


def as_room(value: Any, function: str, *, below: bool = False) -> Any:
    """
    An integer that the data decide as a size, which nothing bounds; where it is `below` 0, an empty
    one. Anything else as it is.
    """
    if not isinstance(value, Tracer) or value.dims or not is_integer(value.row):
        return value
    if value.origins or value.from_constants() is not None:
        return value
    count = convert(value.value, I64)
    if here().bound.inside:
        dim = _of_trip(count, below=below)
        return value if dim is None else as_size(dim)
    if below:
        count = here().emit(MaxOp, count, number(0, I64))
    return as_size(roomy_symbol(function, count))


def _of_trip(count: SSAValue, *, below: bool) -> Dim | None:
    """A number of a loop's trips as a size; None where no end of it is known, or it is no size."""
    trace = here()
    if not trace.sizes_of_trips:
        return None
    ranges = trace.bound.ranges
    if not ranges.is_natural(ranges.of(count)):
        if not below:
            return None
        count = trace.emit(MaxOp, count, number(0, I64))
    most = ranges.greatest(ranges.of(count))
    return None if most is None else trace.bound.size(count, most)


# Masks in subscripts


def has_masks(key: object) -> bool:
    """Whether a subscript picks what a mask, or a bool, marks."""
    return any(_is_mask(part) for part in (key if is_tuple(key) else (key,)))


def _is_mask(part: Any) -> bool:
    if isinstance(part, bool | np.bool_):
        return True
    if isinstance(part, Tracer):
        return part.row is BOOL
    if is_array(part):
        return part.dtype == bool
    return is_series(part) and bool(part) and all(_is_mask(x) for x in part)


def without_masks(x: Tracer, key: object) -> tuple[Tracer, Any]:
    """
    The same part of a view of `x`, in which each mask's axes are one, by where the mask is true: a
    mask counts as the arrays of integers that `nonzero` gives.
    """
    parts: list[Any] = list(key) if is_tuple(key) else [key]
    parts = [lift(part) if _is_mask(part) else part for part in parts]
    taken = [_axes_of(part) for part in parts]
    if all(part is not Ellipsis for part in parts):
        parts.append(Ellipsis)
        taken.append(0)
    shape, new, axis = list[Dim](), list[Any](), 0
    taken = [x.ndim - sum(taken) if p is Ellipsis else n for p, n in zip(parts, taken, strict=True)]
    for part, count in zip(parts, taken, strict=True):
        if part is Ellipsis:
            new += [slice(None)] * count
            shape += x.dims[axis : axis + count]
        elif isinstance(part, Tracer) and part.row is BOOL:
            _check_fits(x, part, axis)
            new.append(true_positions(part))
            shape.append(product(part.dims))
        else:
            new.append(part)
            shape += x.dims[axis : axis + count]
        axis += max(count, 0)
    if tuple(shape) != x.dims:
        x = reshape(x, tuple(map(as_size, shape)))
    return x, tuple(new)


def _axes_of(part: Any) -> int:
    """How many axes of the array a part of a subscript is about."""
    if isinstance(part, Tracer) and part.row is BOOL:
        return part.ndim
    return 0 if part is None or part is Ellipsis else 1


def _check_fits(x: Tracer, mask: Tracer, axis: int) -> None:
    found = x.dims[axis : axis + mask.ndim]
    if found != mask.dims:
        message = (
            f"a boolean mask {spell(mask.dims)} does not fit {name_of(x) or 'the array'}"
            f" {spell(x.dims)} from axis {axis} on."
        )
        symbols = any(dim.constant is None for dim in (*found, *mask.dims))
        remedy = "Give axes of one size one symbol in dynamic= or TensorSpec." if symbols else ""
        raise located(OutOfBoundsError, message, remedy=remedy)
