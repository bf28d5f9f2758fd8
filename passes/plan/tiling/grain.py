"""The least work that a worker must have, from what it costs to have it there."""

from __future__ import annotations

from mlc.dialects.analysis.access import Nest, whole_of
from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.shares import WAKING, is_dealt
from mlc.dialects.dims import product
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.op import TensorOp, bytes_of

WAKING_S = 2.5e-5
"""Least work of a worker that may be asleep: half of what waking it costs, since it may be awake.
Measured: docs/measurements.md, Threads."""

WAITS = 10
"""A share of a worker that is awake is worth so many of the barriers at its end. Measured:
docs/measurements.md, Threads."""

OTHERS_S = 2.5e-10
"""Of a byte that another core has just written. Measured: docs/measurements.md, Threads."""


def least_share_s(target: CpuTarget) -> float:
    """
    Seconds that a worker's share of a kernel must have, where it is awake. Whether it is, and
    whether waking it is worth so many shares, is known when the call begins: `WAKING`.
    """
    return min(WAKING_S, max(WAKING_S / WAKING, WAITS * target.barrier_s))


def from_others_s(kernel: KernelOp, nest: Nest | None, target: CpuTarget) -> float:
    """
    Seconds of each point that reading takes of what workers share the writing of: it lies in the
    caches of their cores, as long as each one's part does.
    """
    points = product(nest.sizes).constant if nest is not None else None
    if not points:
        return 0.0
    total = 0
    for value in map(root_of, kernel.inputs):
        maker, held = value.owner, bytes_of(value.type).constant
        if isinstance(maker, KernelOp) and maker.parent is kernel.parent and is_dealt(maker):
            total += held if held is not None and held <= target.cores * target.l2_bytes else 0
    return total * OTHERS_S / points


def weight_of(kernel: KernelOp, nest: Nest | None) -> float:
    """The time of one point to that of an addition; without a nest, of one element."""
    if nest is not None:
        return nest.weight
    whole = whole_of(kernel)
    others = (op for op in kernel.block.ops if isinstance(op, TensorOp) and op is not whole)
    inside = sum(op.WEIGHT for op in others if op.FLOPS)
    return max(inside + (whole.WEIGHT if whole is not None else 0.0), 1.0)
