"""
Results whose size the program computes: it writes them to room for the most there can be, and how
many there are beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, highest, shape_of
from mlc.dialects.tensor.create import SizeOp
from mlc.frontend.trace.symbolic import is_bound
from mlc.frontend.trace.trace import Trace
from mlc.runtime.returned import Axes


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
