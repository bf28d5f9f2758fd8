"""What each kernel of a plan should take: its traffic, its cycles, and the formula of cost.py."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget, GpuTarget
from mlc.passes.cost import SHARED_S, kernel_s, weighted_flops
from mlc.passes.cycles import kernel_cycles
from mlc.passes.timeline import sizes_at
from mlc.passes.traffic import traffic_of


def predicted_seconds(
    module: ModuleOp, target: CpuTarget | GpuTarget, sizes: Mapping[str, int], threads: int = 1
) -> dict[KernelOp, float]:
    """
    Seconds of one run of every kernel that runs, in a call of a plan-level module that follows
    another one, for these values of the symbols.
    """
    found: dict[KernelOp, float] = {}
    for op, traffic in traffic_of(module, sizes).items():
        if isinstance(target, GpuTarget):
            found[op] = kernel_s(traffic, weighted_flops(op, sizes_at(op, sizes)), target)
            continue
        parallel = op.schedule is not None and op.schedule.data.grain > 0
        cycles = kernel_cycles(op, sizes_at(op, sizes), target)
        alone = found[op] = kernel_s(traffic, cycles, target)
        if parallel and threads > 1 and alone > SHARED_S:
            found[op] = kernel_s(traffic, cycles, target, threads)
    return found
