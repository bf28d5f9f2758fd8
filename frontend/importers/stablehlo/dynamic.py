# pyright: basic
"""
Ops of StableHLO whose shape an operand says: `dynamic_reshape` and its kin.

What a result's type says is taken from there; what it leaves open must be known from the sizes of
arguments (sizes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.stablehlo import shapes, windows
from mlc.frontend.importers.stablehlo.program import Module, Op, TensorKind
from mlc.frontend.importers.stablehlo.sizes import Known
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import lift_size

Array = Any
KnownOf = Callable[[Array], Known | None]


def _numbers(op: Op, known: KnownOf, value: Array, what: str) -> list[Any]:
    """The elements of an operand as sizes."""
    found = known(value)
    if found is None:
        raise NotSupportedError(
            f"line {op.line}: {op.name}: its {what} depends on data; expected what is computed"
            " from constants and sizes of arguments"
        )
    return [as_size(dim) for dim in np.ravel(found)]


def shape_of(op: Op, known: KnownOf, value: Array) -> list[Any]:
    """The result's shape: what its type says, else what the operand does."""
    kind = op.kinds[0]
    assert isinstance(kind, TensorKind)
    if None not in kind.shape:
        return list(shapes.sizes_of(op))
    said = _numbers(op, known, value, "shape")
    return [n if size is None else size for n, size in zip(said, kind.shape, strict=True)]


def _slice(op: Op, known: KnownOf, x: Array, first: Array, limit: Array, step: Array) -> Array:
    """`real_dynamic_slice`: the result's type may say how many, and data where."""
    if known(first) is not None:
        said, names = (first, limit, step), ("start", "limit", "strides")
        ranges = [_numbers(op, known, v, n) for v, n in zip(said, names, strict=True)]
        return x[tuple(slice(*each) for each in zip(*ranges, strict=True))]
    sizes = shape_of(op, known, limit)
    steps = _numbers(op, known, step, "strides")
    at = tuple(
        first[axis].astype(np.int64) + shapes.line(n, axis, x.ndim) * stride
        for axis, (n, stride) in enumerate(zip(sizes, steps, strict=True))
    )
    return x[at]


def _pad(op: Op, known: KnownOf, x: Array, value: Array, *around: Array) -> Array:
    names = ("low padding", "high padding", "interior padding")
    low, high, inner = (_numbers(op, known, v, n) for v, n in zip(around, names, strict=True))
    return shapes.pad(x, value, low, high, inner)


def _convolution(op: Op, known: KnownOf, x: Array, w: Array, padding: Array) -> Array:
    return windows.convolution(op, x, w, _numbers(op, known, padding, "padding"))


def _size(op: Op, known: KnownOf, x: Array) -> Array:
    return lift_size(x.dims[int(op.get("dimension", 0))]).astype(np.int32)


def _set_size(op: Op, known: KnownOf, x: Array, size: Array) -> Array:
    """`set_dimension_size`: the first elements of an axis; as many as data say, all at most."""
    axis = int(op.get("dimension", 0))
    there, before = x.shape[axis], (slice(None),) * axis
    if known(size) is None:
        return x[(*before, shapes.line(there, 0, 1) < size)]
    (count,) = _numbers(op, known, size, "size")
    if isinstance(count, int) and (count < 0 or (isinstance(there, int) and count > there)):
        raise ValueError(f"the size {count} of an axis that has {there} elements")
    return x[(*before, slice(count))]


ROWS: Mapping[str, Callable[..., Array]] = {
    "get_dimension_size": _size,
    "set_dimension_size": _set_size,
    "dynamic_reshape": lambda op, known, x, shape: x.reshape(shape_of(op, known, shape)),
    "dynamic_broadcast_in_dim": lambda op, known, x, shape: shapes.broadcast_in_dim(
        op, x, shape_of(op, known, shape)
    ),
    "dynamic_iota": lambda op, known, shape: shapes.iota(op, shape_of(op, known, shape)),
    "dynamic_pad": _pad,
    "dynamic_conv": _convolution,
    "dynamic_gather": lambda op, known, x, indices, sizes: shapes.gather(
        op, x, indices, _numbers(op, known, sizes, "slice sizes")
    ),
    "real_dynamic_slice": _slice,
}
"""By name: an op, what is known of values, and operands."""


def reduce_window(
    op: Op, module: Module, known: KnownOf, operands: Sequence[Array]
) -> tuple[Op, int]:
    """
    A call of `stablehlo.dynamic_reduce_window` as the op it stands for, and how many of its
    operands are arrays: the others are numbers of windows.
    """
    count = 2 * len(op.results)
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")
    given = {
        name: _numbers(op, known, value, name)
        for name, value in zip(names, operands[count:], strict=True)
    }
    (reducer,) = op.get("called_computations")
    region = module.functions[reducer].region
    return replace(op, name="reduce_window", attributes=given, regions=(region,)), count
