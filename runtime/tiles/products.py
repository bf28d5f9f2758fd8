"""What ops on tiles in registers compute, on arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dtypes import DType
from mlc.dialects.errors import MlcError
from mlc.dialects.target.intrinsics import INTRINSICS
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.scan import accumulated

Array = NDArray[Any]
Multiply = Callable[[Array, Array, Array], Array]
"""(c[M, N], a[M, k], b[k, N]) -> c + a @ b."""


@lru_cache
def multiplication(via: str | None, dtypes: tuple[DType, DType, DType]) -> Multiply:
    """What a row's instruction computes; without one products and sums, each rounded, in turn."""
    if via is None:
        return _in_turn
    names = tuple(dtype.name for dtype in dtypes)
    rows = [row for row in INTRINSICS if row.name == via]
    for row in rows:
        if row.dtypes == names:
            return row.run
    known = ", ".join(dict.fromkeys(f"({', '.join(row.dtypes)})" for row in rows))
    raise MlcError(
        f"no instruction {via} multiplies ({', '.join(names)}); expected {known or 'another name'}"
    )


def _in_turn(c: Array, a: Array, b: Array) -> Array:
    a, b = a.astype(c.dtype), b.astype(c.dtype)
    for k in range(a.shape[1]):
        c = c + a[:, k : k + 1] * b[k : k + 1]
    return c


def shifted(by: Multiply, zero: int) -> Multiply:
    """As `by`, of elements of a that are `zero` more than what they stand for."""

    def multiply(c: Array, a: Array, b: Array) -> Array:
        beyond = b.sum(axis=0, dtype=c.dtype) * np.asarray(zero, c.dtype)
        return by(c, a, b) - beyond

    return multiply


def product(
    letters: tuple[str, str, str], summed: str, start: Array, a: Array, b: Array, by: Multiply
) -> Array:
    """`start` + a·b over the letters `summed`, in their order, the last fastest."""
    lhs, rhs, result = letters
    both = "".join(c for c in result if c in lhs and c in rhs)
    rows = "".join(c for c in result if c in lhs and c not in rhs)
    columns = "".join(c for c in result if c not in lhs)
    size = dict(zip(result, start.shape, strict=True))
    size |= dict(zip(lhs, a.shape, strict=True)) | dict(zip(rhs, b.shape, strict=True))

    def laid(x: Array, found: str, *groups: str) -> Array:
        wanted = "".join(groups)
        missing = [c for c in wanted if c not in found]
        moved = x.transpose([*map(found.index, (c for c in wanted if c in found))])
        for axis, c in enumerate(wanted):
            if c in missing:
                moved = np.repeat(np.expand_dims(moved, axis), size[c], axis)
        return moved.reshape([math.prod(size[c] for c in group) for group in groups])

    left, right = laid(a, lhs, both, rows, summed), laid(b, rhs, both, summed, columns)
    sums = laid(start, result, both, rows, columns)
    found = np.stack([by(*parts) for parts in zip(sums, left, right, strict=True)])
    order = both + rows + columns
    shaped = found.reshape([size[c] for c in order])
    return shaped.transpose([order.index(c) for c in result]).astype(start.dtype)


def reduced(monoid: str, inputs: Sequence[Array], axis: int) -> list[Array]:
    """The combination of states along an axis."""
    if len(inputs) == 1:
        found = MONOIDS[monoid].reference(inputs[0], (axis,), "in turn")
        return [np.asarray(found)]
    known = MONOIDS[monoid].extreme
    if known is None or len(inputs) != 2:
        raise MlcError(f"states of {len(inputs)} values are no states of {monoid}")
    values, positions = inputs
    best = np.expand_dims(known.reference(values, (axis,), "any"), axis)
    among = (values == best) | ((values != values) & (best != best))
    last = np.iinfo(positions.dtype).max
    place = np.where(among, positions, last).min(axis=axis)
    return [np.asarray(best.squeeze(axis)), place]


def combined(monoid: str, left: Array, right: Array) -> Array:
    """Of two states, `left` first."""
    return reduced(monoid, [np.stack([left, right])], 0)[0].astype(left.dtype)


def scanned(monoid: str, inputs: Sequence[Array], axis: int) -> list[Array]:
    """At each place the combination of those up to it."""
    if len(inputs) != 1:
        raise MlcError(f"states of {len(inputs)} values are not scanned")
    front = np.moveaxis(inputs[0], axis, 0)
    return [np.moveaxis(accumulated(monoid, front), 0, axis)]
