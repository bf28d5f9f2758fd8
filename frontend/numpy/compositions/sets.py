"""Sets, and parts whose size the data decide."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.errors import ShapeError
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import located
from mlc.frontend.numpy.distinct import begins
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.values import strong
from mlc.frontend.trace.tracer import Tracer

Operand = Any


@composed(np.unique_values)
def unique_values(x: Operand, *, size: Any = None) -> Tracer:
    """The different elements in order; `size` of them where it is given."""
    return mnp.unique(x, equal_nan=False, size=size)


@composed(np.unique_counts)
def unique_counts(x: Operand) -> Any:
    """The different elements in order, and how often each occurs."""
    return _named(np.unique_counts, mnp.unique(x, return_counts=True, equal_nan=False))


@composed(np.unique_inverse)
def unique_inverse(x: Operand) -> Any:
    """The different elements in order, and where among them each element is."""
    return _named(np.unique_inverse, mnp.unique(x, return_inverse=True, equal_nan=False))


@composed(np.unique_all)
def unique_all(x: Operand) -> Any:
    """The different elements, where each is first, where among them each is, and how often."""
    found = mnp.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return _named(np.unique_all, found)


def _named(function: Any, values: Any) -> Any:
    """The values in the tuple that NumPy's function gives."""
    return type(function(np.zeros(1)))(*values)


@composed(np.union1d)
def union1d(ar1: Operand, ar2: Operand, *, size: Any = None) -> Tracer:
    """The different elements of both in order; `size` of them where it is given."""
    return mnp.unique(_joined(ar1, ar2), size=size)


def _joined(x: Operand, y: Operand) -> Tracer:
    return mnp.concatenate([mnp.ravel(strong(x)), mnp.ravel(strong(y))])


@composed(np.intersect1d)
def intersect1d(
    ar1: Operand, ar2: Operand, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The different elements that both have, in order."""
    x, y = mnp.ravel(strong(ar1)), mnp.ravel(strong(ar2))
    first, second = None, None
    if not assume_unique and return_indices:
        (x, first), (y, second) = (mnp.unique(v, return_index=True) for v in (x, y))
    elif not assume_unique:
        x, y = mnp.unique(x), mnp.unique(y)
    both = mnp.concatenate([x, y])
    order = mnp.argsort(both, stable=True) if return_indices else None
    both = mnp.sort(both) if order is None else mnp.take(both, order)
    twice = mnp.logical_not(begins(both))
    if order is None:
        return both[twice]
    before = mnp.take(order, mnp.maximum(mnp.arange(order.shape[0]) - 1, 0))[twice]
    behind = order[twice] - x.shape[0]
    if first is not None and second is not None:
        before, behind = mnp.take(first, before), mnp.take(second, behind)
    return both[twice], before, behind


@composed(np.setdiff1d)
def setdiff1d(ar1: Operand, ar2: Operand, assume_unique: bool = False) -> Tracer:
    """The different elements of one array that the other has not."""
    x = mnp.ravel(strong(ar1)) if assume_unique else mnp.unique(strong(ar1))
    return x[mnp.isin(x, ar2, invert=True)]


@composed(np.setxor1d)
def setxor1d(ar1: Operand, ar2: Operand, assume_unique: bool = False) -> Tracer:
    """The different elements that one of the arrays has, and not the other."""
    x, y = mnp.ravel(strong(ar1)), mnp.ravel(strong(ar2))
    if not assume_unique:
        x, y = mnp.unique(x), mnp.unique(y)
    both = mnp.sort(mnp.concatenate([x, y]))
    first, size = begins(both), both.shape[0]
    place = mnp.arange(size)
    last = mnp.logical_or(mnp.take(first, mnp.minimum(place + 1, size - 1)), place == size - 1)
    return both[mnp.logical_and(first, last)]


@composed(np.trim_zeros, but="of one axis")
def trim_zeros(filt: Operand, trim: str = "fb", axis: Any = None) -> Tracer:
    """The elements from the first that is not zero to the last."""
    x = strong(filt)
    if x.ndim != 1:
        raise located(ShapeError, f"trim_zeros: an array of {x.ndim} axes; expected one.")
    held = mnp.not_equal(x, 0)
    kept = mnp.full(x.shape, True, bool)
    if "f" in trim.lower():
        kept = mnp.cumsum(held) > 0
    if "b" in trim.lower():
        kept = mnp.logical_and(kept, mnp.flip(mnp.cumsum(mnp.flip(held))) > 0)
    return x[kept]


@composed(np.extract)
def extract(condition: Operand, arr: Operand) -> Tracer:
    """The elements of the flattened array where the flattened condition holds."""
    return mnp.take(mnp.ravel(strong(arr)), mnp.flatnonzero(strong(condition)))
