"""
Results whose size the program computes: it writes them to room for the most there can be, and how
many there are beside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, highest, shape_of
from mlc.dialects.tensor.create import SizeOp
from mlc.frontend.trace.symbolic import is_bound
from mlc.frontend.trace.trace import Trace

Axes = tuple[int | None, ...]
"""For each axis of a result the number of the result that holds its size; None of a known one."""


def room(trace: Trace, shape: Sequence[int | Dim]) -> tuple[int | Dim, ...]:
    """The largest shape that there can be."""
    if not trace.limits:
        return tuple(shape)
    return tuple(dim if isinstance(dim, int) else highest(dim, trace.limits) for dim in shape)


def with_sizes(trace: Trace, results: list[SSAValue]) -> Mapping[int, Axes]:
    """Adds the sizes that the program computes to its results; where each result's are."""
    found: dict[int, Axes] = {}
    numbers: dict[Dim, int] = {}
    for number, value in enumerate(list(results)):
        dims = shape_of(value.type)
        if not any(map(is_bound, dims)):
            continue
        for dim in filter(is_bound, dims):
            if dim not in numbers:
                numbers[dim] = len(results)
                results.append(trace.emit(SizeOp, dims=(dim,)))
        found[number] = tuple(numbers[dim] if is_bound(dim) else None for dim in dims)
    return found


def counted(values: Sequence[Any], axes: Mapping[int, Axes]) -> list[Any]:
    """The results with as many elements as there are, without the sizes beside them."""
    found = list(values)
    for number, sizes in axes.items():
        array = found[number]
        shape = tuple(
            known if at is None else int(values[at])
            for known, at in zip(array.shape, sizes, strict=True)
        )
        found[number] = _shrunk(array, shape)
    first = min(at for sizes in axes.values() for at in sizes if at is not None)
    return found[:first]


def _shrunk(array: Any, shape: tuple[int, ...]) -> Any:
    """
    The first elements of an array, as one of a shape: in the same memory, unless that is much too
    large.
    """
    if array.shape == shape:
        return array
    if 2 * math.prod(shape) <= array.size:
        return array.reshape(-1)[: math.prod(shape)].reshape(shape).copy()
    array.resize(shape, refcheck=False)
    return array
