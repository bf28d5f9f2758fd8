# pyright: basic
"""
What is known while a model is traced: arrays of NumPy, and arrays of sizes.

A size that varies is an object of the array (`SymbolicDim`), whose sums, products and quotients are
sizes again: chains of shape arithmetic are NumPy's own functions on arrays of such objects.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any

import numpy as np

from mlc.frontend.importers.onnx.bounds import check_room, is_vast
from mlc.frontend.numpy import creation
from mlc.frontend.numpy.values import lift
from mlc.frontend.trace.paths import HiddenInput, object_path
from mlc.frontend.trace.symbolic import SymbolicDim, bounds
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Array = Any
LARGE = 1 << 16
"""Elements from which on arrays are read where they lie, and are not part of the program's text."""
Size = Any
"""An int or a SymbolicDim."""

PLACES: dict[str, Sequence[int]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 3),
    "Squeeze": (1,), "Unsqueeze": (1,), "Split": (1,), "CumSum": (1,), "CumProd": (1,),
    "TopK": (1,), "OneHot": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "Trilu": (1,),
    "CenterCropPad": (1,), "Resize": (1, 2, 3), "Upsample": (1,), "Dropout": (1, 2),
    "Loop": (0,), "DFT": (1, 2), "Col2Im": (1, 2), "Unique": (0,), "MaxUnpool": (2,),
    "HannWindow": (0,), "HammingWindow": (0,), "BlackmanWindow": (0,), "SplitToSequence": (1,),
    "SequenceAt": (1,), "SequenceInsert": (2,), "SequenceErase": (1,), "Compress": (1,),
    "AffineGrid": (1,), "STFT": (1, 3), "MelWeightMatrix": (0, 1, 2, 3, 4),
}  # fmt: skip
"""Inputs of ops whose numbers must be known while tracing; those of reductions join here."""

ARRANGED: dict[str, Sequence[int]] = {"Conv": (1,), "Gemm": (1,)}
"""Inputs of ops that arrange numbers that are known, before they are part of the program."""

ON_SIZES = frozenset({
    "Identity", "Gather", "Slice", "Concat", "Cast", "CastLike", "Unsqueeze", "Squeeze", "Reshape",
    "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Equal", "Less", "Greater", "LessOrEqual",
    "GreaterOrEqual", "Where", "Min", "Max", "ReduceProd", "ReduceSum", "Split", "Flatten",
    "Transpose", "Expand", "Shape", "Size", "SequenceConstruct", "SequenceInsert", "Loop", "If",
    "Range",
})  # fmt: skip
"""Ops that compute with arrays of sizes as they do with numbers."""


def has_sizes(value: Array) -> bool:
    """Whether a size that varies is among the elements."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind == "O"
        and any(isinstance(x, SymbolicDim) for x in value.flat)
    )


def is_large(value: Array) -> bool:
    """Whether a known array is an input of the program where it meets what is not known."""
    return isinstance(value, np.ndarray) and value.size > LARGE


def of_sizes(sizes: Iterable[Size]) -> np.ndarray[Any, Any]:
    """The array of some sizes, along one axis."""
    return settled(_objects(list(sizes)))


def _objects(sizes: Sequence[Any]) -> np.ndarray[Any, Any]:
    found = np.empty(len(sizes), object)
    for k, size in enumerate(sizes):
        found[k] = size
    return found


def settled(value: Array) -> Array:
    """An array of numbers where no size in it varies; recorded where one is computed otherwise."""
    if isinstance(value, SymbolicDim):
        return _objects([value]).reshape(())
    if not isinstance(value, np.ndarray):
        return np.asarray(value) if isinstance(value, int) else value
    if value.dtype.kind != "O":
        return value if value.flags.c_contiguous else np.array(value, order="C")
    elements = list(value.flat)
    if any(isinstance(x, Tracer) for x in elements):
        return _recorded(elements, value.shape)
    if not all(isinstance(x, int | np.integer | np.bool_) for x in elements):
        return value
    kind = bool if elements and all(isinstance(x, bool | np.bool_) for x in elements) else np.int64
    return value.astype(kind)


def _recorded(elements: Sequence[Any], shape: tuple[int, ...]) -> Array:
    numbers = [traced(x).astype(np.int64) for x in elements]
    return np.stack(numbers).reshape(shape) if shape else numbers[0]


def traced(value: Array) -> Any:
    """A known array as part of the program."""
    if isinstance(value, Tracer | SymbolicDim):
        return lift(value)
    array = np.asarray(value)
    return _recorded(list(array.flat), array.shape) if has_sizes(array) else lift(array)


@contextmanager
def literals(weights: Mapping[str, np.ndarray[Any, Any]]) -> Generator[None]:
    """Known arrays are constants of the program; the large ones inputs of it, by their names."""
    trace = here()
    before, trace.literal = trace.literal, LARGE
    for name, array in weights.items():
        if array.size > LARGE:
            trace.hidden_argument(array, HiddenInput(object_path(array, name)))
    try:
        yield
    finally:
        trace.literal = before


def is_known(*values: Array) -> bool:
    """Whether all are known while tracing."""
    return all(not isinstance(x, Tracer) for x in values)


def taken(x: Array, places: Array, axis: int = 0) -> Array:
    """Elements along an axis: NumPy's `take` does not ask who its second argument is."""
    return np.take(x if is_known(places) else traced(x), places, axis=axis)


def size_of(value: Any) -> Size:
    """An element of a known array as a size."""
    return value if isinstance(value, SymbolicDim) else int(value)


# arrays of sizes that may vary


def _varies(sizes: Iterable[Size]) -> bool:
    return any(isinstance(n, SymbolicDim) for n in sizes)


def full(shape: Sequence[Size], value: Any, dtype: Any) -> Array:
    """One number everywhere; made by the program where it is vast."""
    if _varies(shape) or is_vast(shape):
        return creation.full(tuple(shape), value, dtype)
    return np.full(tuple(shape), value, dtype)


def arange(start: Size, stop: Size | None = None, step: Size = 1, dtype: Any = np.int64) -> Array:
    """start, start + step, … below stop."""
    if stop is None:
        start, stop = 0, start
    if _varies((start, stop, step)):
        return creation.arange(start, stop, step, dtype)
    bounds_of: tuple[Any, ...] = (start, stop, step)
    check_room(ceil((stop - start) / step) if step else 0, "a range")
    return np.arange(*bounds_of, dtype=dtype)


def counted(n: Size, axis: int, rank: int) -> Array:
    """0 to n - 1 along one of `rank` axes."""
    return arange(n).reshape([-1 if a == axis else 1 for a in range(rank)])


def cut(x: Array, axis: int, part: slice) -> Array:
    """A part of an axis, which is counted from the front."""
    return x[(*[slice(None)] * axis, part)]


def broadcast(x: Array, shape: Sequence[Size]) -> Array:
    """The array under a larger shape."""
    return np.broadcast_to(roomy(x, shape), tuple(shape))


def roomy(x: Array, shape: Sequence[Size]) -> Array:
    """An array that grows to a shape: in the program where that varies or is vast."""
    return traced(x) if _varies(shape) or is_vast(shape) else x


def broadcast_shape(one: Sequence[Size], other: Sequence[Size]) -> tuple[Size, ...]:
    """The shape of both together: a size of 1 is the other's."""
    rank = max(len(one), len(other))
    pairs = zip(*([1] * (rank - len(s)) + list(s) for s in (one, other)), strict=True)
    return tuple(b if isinstance(a, int) and a == 1 else a for a, b in pairs)


def some(count: Size, because: str) -> Size:
    """A count of windows, which is one at least: of sizes that vary, every call checks it."""
    if isinstance(count, SymbolicDim):
        low, _ = bounds(count.dim)
        if low is None or low < 1:
            here().assume(count.dim - 1, because)
        return count
    return max(count, 0)
