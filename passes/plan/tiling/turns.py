"""In what tiles a pointwise kernel turns what lies along another axis than its results."""

from __future__ import annotations

from mlc.dialects.analysis.access import Nest
from mlc.dialects.analysis.transposed_reads import square_side, turned_reads
from mlc.dialects.dims import product
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tile.nest_words import Turn


def with_turns(schedule: Schedule, kernel: KernelOp, nest: Nest, target: CpuTarget) -> Schedule:
    """
    The schedule with tiles of as many squares as fit half of level 1, with all inputs turned;
    an axis that holds no square keeps its reads far apart.
    """
    groups = nest.groups(frozenset())
    found = turned_reads(nest, groups, ()) if schedule.lanes > 1 else None
    if found is None:
        return schedule
    across, reads = found
    dtypes = [element_dtype(kernel.inputs[x.argument]) for x in reads]
    if any(dtype.kind == "complex" for dtype in dtypes):
        return schedule
    side = tile = square_side(schedule.lanes)
    while (2 * tile) ** 2 * sum(dtype.bytes for dtype in dtypes) <= target.l1d_bytes // 2:
        tile *= 2
    sizes = [product(nest.sizes[a] for a in groups[k]).constant for k in (across, -1)]
    rows, columns = (tile if n is None else min(tile, n // side * side) for n in sizes)
    if not rows or not columns:
        return schedule
    return schedule.having(Turn(groups[across][-1], rows, columns))
