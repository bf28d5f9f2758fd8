"""Reads of a pointwise nest that lie along another axis than its results do: `x.T + y`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mlc.dialects.analysis.access import Access, Nest
from mlc.dialects.dims import product
from mlc.dialects.plan import KernelOp

SHORT = 8  # sizes below which a tile would be mostly empty
MOST_SIDE = 16  # of a square that is turned in registers: as many as every machine has


def across_of(nest: Nest, groups: Sequence[Sequence[int]], access: Access) -> int | None:
    """The group along which an access runs, if that is not the last, but it moves with the last."""
    if len(groups) < 2 or len(access.point) < 2:
        return None
    axes = [affine.is_axis for affine in access.point]
    pairs = zip(axes, access.shape, strict=True)
    if not all(axis is not None and size == nest.sizes[axis] for axis, size in pairs):
        return None  # a part of the input, or places read from memory
    across = next(k for k, group in enumerate(groups) if axes[-1] in group)
    if across == len(groups) - 1 or groups[-1][-1] not in axes:
        return None
    sizes = [product(nest.sizes[a] for a in groups[k]).constant for k in (across, -1)]
    return None if any(size is not None and size < SHORT for size in sizes) else across


def turned_reads(
    nest: Nest, groups: Sequence[Sequence[int]], strided: Collection[int]
) -> tuple[int, tuple[Access, ...]] | None:
    """
    A group and the reads that lie along it, of arguments that are read so in one place alone.

    None where there is no such read. `strided`: arguments that are not row-major.
    """
    last = groups[-1][-1] if groups else 0
    found: dict[int, list[Access]] = {}
    for access in nest.accesses:
        # the same argument elsewhere along the last axis would need a tile of its own
        beside = [
            other
            for other in nest.accesses
            if other.argument == access.argument
            and any(not p.known or p.coefficient(last) for p in other.point[:-1])
        ]
        across = across_of(nest, groups, access)
        if across is not None and access.argument not in strided and beside == [access]:
            found.setdefault(across, []).append(access)
    if not found:
        return None
    across = max(found, key=lambda k: len(found[k]))
    return across, tuple(found[across])


def square_side(lanes: int) -> int:
    """The side of the square that is turned at once: a register each for its rows."""
    return min(lanes, MOST_SIDE)


def turned_inputs(kernel: KernelOp, nest: Nest) -> frozenset[int]:
    """The inputs that the kernel's schedule has turned."""
    if kernel.schedule is None or kernel.schedule.data.turn is None:
        return frozenset()
    found = turned_reads(nest, nest.groups(frozenset()), ())
    return frozenset() if found is None else frozenset(x.argument for x in found[1])
