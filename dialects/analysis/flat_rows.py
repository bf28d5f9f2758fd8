"""Reductions down columns: lanes may hold whole rows of a few, rows of many are streamed; and
reductions along rows, several at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd

from mlc.dialects.analysis.access import Access, Nest

MOST_VECTORS = 8  # of whole rows: each is a state in a register


def flat_rows(nest: Nest, groups: Sequence[Sequence[int]], strided: Collection[int]) -> int | None:
    """
    The group of rows, where every read walks rows and columns, the last axes of its input, as one.

    Only of a single reduced group, and of summands whose position does not count.
    """
    kept = [k for k, group in enumerate(groups) if group[0] < nest.rank]
    reduced = [k for k in range(len(groups)) if k not in kept]
    if nest.reduction is None or len(reduced) != 1 or not kept or nest.order != "any":
        return None
    walked = (*groups[reduced[0]], *groups[kept[-1]])
    if not nest.counted.isdisjoint(walked):
        return None
    reads = [access for access in nest.accesses if not access.per_result]
    moving = [x for x in reads if any(p.coefficient(a) for p in x.point for a in walked)]
    if not moving or not all(_as_one(x, walked, nest) for x in reads):
        return None
    return None if any(x.argument in strided for x in moving) else reduced[0]


def streams_rows(nest: Nest, vector_axis: int) -> bool:
    """
    Whether states of columns may wait in memory while rows are combined into them: lanes run along
    the last axis of the results, and there is one state for each column, of real numbers.
    """
    if nest.reduction is None or vector_axis != nest.rank - 1 or len(nest.sizes) == nest.rank:
        return False
    return nest.order != "in lanes" and nest.reduction.summand().kind != "complex"


def joins_rows(nest: Nest, vector_axis: int, lanes: int) -> bool:
    """
    Whether several rows may be reduced at once, in any order: lanes run along a reduced axis, and a
    row's state is one vector of numbers.
    """
    if nest.reduction is None or not nest.rank <= vector_axis < len(nest.sizes) or nest.rank == 0:
        return False
    dtype = nest.reduction.summand()
    one = len(nest.reduction.combiner().state(dtype)) == 1
    return one and lanes > 1 and nest.order == "any" and dtype.kind not in ("bool", "complex")


def _as_one(access: Access, walked: Sequence[int], nest: Nest) -> bool:
    """Whether the access ends with these axes, whole, or is one number for all of them."""
    if not any(not p.known or p.coefficient(a) for p in access.point for a in walked):
        return True
    start = len(access.point) - len(walked)
    if start < 0 or [p.is_axis for p in access.point[start:]] != [*walked]:
        return False
    others = access.point[:start]
    same = all(access.shape[start + k] == nest.sizes[a] for k, a in enumerate(walked))
    return same and not any(not p.known or p.coefficient(a) for p in others for a in walked)


def flat_vectors(columns: int, lanes: int) -> int:
    """The fewest vectors that hold whole rows."""
    return columns // gcd(columns, lanes)
