"""The least work that a worker must have, from what it costs to have it there."""

from __future__ import annotations

from mlc.dialects.analysis.access import Nest, whole_of
from mlc.dialects.analysis.trips import trips_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.control import ForOp, WhileOp
from mlc.dialects.tensor.op import TensorOp

GRAIN_SECONDS = 5e-6
"""Least work of each thread: half of what waking one that sleeps costs, since it may be awake.
Measured: docs/measurements.md, Threads."""

WAITS = 10
"""In a loop workers are awake: a share is worth so many of the barriers at its end. Measured:
docs/measurements.md, Threads."""

UNKNOWN_TRIPS = 100
"""Of a loop whose count only the call knows."""


def least_share_s(kernel: KernelOp, target: CpuTarget) -> float:
    """
    Seconds that a worker's share of a kernel must have. In loops one team runs all trips, which
    together repay waking it; each repays a barrier.
    """
    trips, around = 1, kernel.parent_op()
    while around is not None:
        if isinstance(around, ForOp):
            count = trips_of(around)
            known = None if count is None else count.constant
            trips *= UNKNOWN_TRIPS if known is None else max(known, 1)
        elif isinstance(around, WhileOp):
            trips *= UNKNOWN_TRIPS
        around = around.parent_op()
    return max(GRAIN_SECONDS / trips, min(GRAIN_SECONDS, WAITS * target.barrier_s))


def weight_of(kernel: KernelOp, nest: Nest | None) -> float:
    """The time of one point to that of an addition; without a nest, of one element."""
    if nest is not None:
        return nest.weight
    whole = whole_of(kernel)
    others = (op for op in kernel.block.ops if isinstance(op, TensorOp) and op is not whole)
    inside = sum(op.WEIGHT for op in others if op.FLOPS)
    return max(inside + (whole.WEIGHT if whole is not None else 0.0), 1.0)
