"""A contraction seen as matrix products: which letters are batch, rows, columns and summed."""

from __future__ import annotations

from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.window import ConvOp
from mlc.lazy_dataclass import dataclass

SMALL_CONTRACTION = 16**3
"""Multiplications from which packing pays; measured: docs/measurements.md."""


@dataclass(frozen=True, kw_only=True)
class ContractionRoles:
    """The letters of each role, in the order of the result (of the lhs for `k`)."""

    batch: str
    m: str
    n: str
    k: str
    swapped: bool  # whether lhs and rhs exchange roles, so that n holds the result's last axis


def contraction_roles(op: Product) -> ContractionRoles | None:
    """The roles; None where a letter stands in one operand alone, or a role has no letter."""
    if isinstance(op, ConvOp):
        return _convolution_roles(op)
    (left, right), result, _ = op.words()
    if not result or any((c in left) + (c in right) + (c in result) < 2 for c in left + right):
        return None
    batch = "".join(c for c in result if c in left and c in right)
    free = ["".join(c for c in result if c in word and c not in batch) for word in (left, right)]
    summed = "".join(c for c in left if c not in result)
    swapped = result[-1] in free[0]
    m, n = (free[1], free[0]) if swapped else (free[0], free[1])
    # lanes run along n, so n must end the result and lie together in it
    if not n or not m or not summed or not result.endswith(n[-1]) or result[-1] in batch:
        return None
    return ContractionRoles(batch=batch, m=m, n=n, k=summed, swapped=swapped)


def thread_roles(op: Product) -> ContractionRoles | None:
    """
    The roles where threads multiply: lanes run along the result's last axis in convolutions too,
    whatever their layout, as windows are staged.
    """
    roles = contraction_roles(op)
    if roles is None or not isinstance(op, ConvOp):
        return roles
    _, result, _ = op.words()
    if result[-1] in roles.n:
        return roles
    if result[-1] in roles.batch:
        return None
    return ContractionRoles(
        batch=roles.batch, m=roles.n, n=roles.m, k=roles.k, swapped=not roles.swapped
    )


def _convolution_roles(op: ConvOp) -> ContractionRoles | None:
    """
    The first operand, whose windows overlap, is read in place; of the second, lanes run along the
    letters that the result shares with it alone: of a convolution's weights, the filters.
    """
    (left, right), result, summed = op.words()
    n = "".join(c for c in result if c not in left)
    m = "".join(c for c in result if c in left and c not in right)
    if not n or not m or not summed:
        return None
    batch = "".join(c for c in result if c in left and c in right)
    return ContractionRoles(batch=batch, m=m, n=n, k=summed, swapped=False)
