"""Which kernels store their results past the caches, whose lines are not fetched then."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import Nest
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.tiles import is_phase
from mlc.dialects.tile.nest_words import Nontemporal

SHARE_BYTES = 8 << 20
"""Of level 3 for each core at most: a guest sees all of what it shares with others. Source: no part
in known.py has more."""
MOST_WEIGHT = 8.0
"""Of a point, where sizes are open: both kinds of loops stand there, and heavy points wait less."""


def with_nontemporal(
    schedule: Schedule, kernel: KernelOp, nest: Nest, target: CpuTarget
) -> Schedule:
    """
    The schedule of a pointwise kernel: what it writes is stored past the caches where the first of
    it would have left them when the last is written. Nobody but the caller reads it; what other
    kernels read would come from memory. Measured: docs/measurements.md, Stores past the caches.
    """
    if schedule.lanes == 1 or schedule.turn is not None or is_phase(kernel):
        return schedule
    widths = [element_dtype(x).bytes for x in kernel.outs]
    if any(8 * width * schedule.lanes < target.vector_bits for width in widths):
        return schedule  # parts of a register; lines are written in pieces
    if not all(_is_returned(x) for x in kernel.outs):
        return schedule
    held = min(target.l3_bytes, target.cores * SHARE_BYTES)
    moved = kernel.moved.constant
    if moved is None and nest.weight >= MOST_WEIGHT:
        return schedule
    return schedule if moved is not None and moved <= held else schedule.having(Nontemporal(held))


def _is_returned(value: SSAValue) -> bool:
    """Whether the caller alone reads it."""
    return all(isinstance(use.operation, func.ReturnOp) for use in value.uses)
