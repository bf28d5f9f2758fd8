"""Which kernels store their results past the caches, whose lines are not fetched then."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import Nest
from mlc.dialects.dims import Dim, highest
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.op import bytes_of, element_dtype
from mlc.dialects.tensor.tiles import TilesOp, bounds_of, is_phase
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
    if schedule.lanes == 1 or schedule.turn is not None:
        return schedule
    widths = [element_dtype(x).bytes for x in kernel.outs]
    if any(8 * width * schedule.lanes < target.vector_bits for width in widths):
        return schedule  # parts of a register; lines are written in pieces
    wholes = [_returned(x) for x in kernel.outs]
    if None in wholes:
        return schedule
    held = min(target.l3_bytes, target.cores * SHARE_BYTES)
    if is_phase(kernel):
        passes = _moved_by_all(kernel, wholes) > held
        return schedule.having(Nontemporal(0)) if passes else schedule
    moved = kernel.moved.constant
    if moved is None and nest.weight >= MOST_WEIGHT:
        return schedule
    return schedule if moved is not None and moved <= held else schedule.having(Nontemporal(held))


def _moved_by_all(kernel: KernelOp, wholes: Sequence[SSAValue | None]) -> int:
    """Bytes that a phase moves in all trips, by its results; 0 where sizes are open."""
    bounds = bounds_of(kernel)
    stored = sum((bytes_of(x.type) for x in kernel.outs), Dim.const(0))
    tiles = highest(stored, bounds).constant
    whole = sum((bytes_of(x.type) for x in wholes if x is not None), Dim.const(0)).constant
    moved = highest(kernel.moved, bounds).constant
    return moved * whole // tiles if moved and whole and tiles else 0


def _returned(value: SSAValue) -> SSAValue | None:
    """
    What the caller alone reads of a kernel's result: itself, or the result of tile loops whose tile
    it is; None where somebody else reads it.
    """
    uses = list(value.uses)
    if all(isinstance(use.operation, func.ReturnOp) for use in uses):
        return value
    loop = uses[0].operation.parent_op()
    if len(uses) > 1 or not isinstance(uses[0].operation, YieldOp) or not isinstance(loop, TilesOp):
        return None
    placed = uses[0].index
    if placed >= len(loop.placed) or loop.monoids[placed]:
        return None
    return _returned(loop.placed[placed])
