"""The least work that a worker must have, from what it costs to have it there."""

from __future__ import annotations

from mlc.dialects.analysis.access import Nest, whole_of
from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.shares import WAKING, is_dealt
from mlc.dialects.dims import product
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.passes.cost.ops import work_of_weight
from mlc.passes.cost.work import ATTO, Work

WAITS = 10
"""A share of a worker that is awake is worth so many of the barriers at its end. Measured:
docs/measurements.md, Threads."""


def least_share_s(target: CpuTarget) -> float:
    """
    Seconds that a worker's share of a kernel must have, where it is awake. Whether it is, and
    whether waking it is worth so many shares, is known when the call begins: `WAKING`.
    """
    waking_s = target.loops.waking_s
    return min(waking_s, max(waking_s / WAKING, WAITS * target.barrier_s))


def work_of_point(kernel: KernelOp, nest: Nest | None, target: CpuTarget) -> Work:
    """
    Of one point of a kernel on one core: what it computes, and its part of reading what workers
    share the writing of, which lies in the caches of their cores as long as each one's part does.
    """
    computed = work_of_weight(weight_of(kernel, nest), 1, target)
    points = product(nest.sizes).constant if nest is not None else None
    if not points:
        return computed
    total = 0
    for value in map(root_of, kernel.inputs):
        maker, held = value.owner, bytes_of(value.type).constant
        if isinstance(maker, KernelOp) and maker.parent is kernel.parent and is_dealt(maker):
            total += held if held is not None and held <= target.cores * target.l2_bytes else 0
    return computed + Work(wait=int(ATTO * total * target.loops.others_byte_s / points))


def weight_of(kernel: KernelOp, nest: Nest | None) -> float:
    """The time of one point to that of an addition; without a nest, of one element."""
    if nest is not None:
        return nest.weight
    whole = whole_of(kernel)
    others = (op for op in kernel.block.ops if isinstance(op, TensorOp) and op is not whole)
    inside = sum(op.WEIGHT for op in others if op.FLOPS)
    return max(inside + (whole.WEIGHT if whole is not None else 0.0), 1.0)
