"""
What each kernel of a plan should take: its traffic, its cycles, and the formula of cost.py; of a
tile program: the work that its text says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.analysis.trips import sizes_at
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tile.kernel import CallOp, called
from mlc.dialects.tile.kernel import KernelOp as TileKernelOp
from mlc.dialects.tile.words import Tile
from mlc.passes.cost.cycles import kernel_cycles
from mlc.passes.cost.model import SHARED_S, Traffic, kernel_s, weighted_flops
from mlc.passes.cost.traffic import traffic_of
from mlc.passes.cost.walk import work_of
from mlc.passes.cost.work import ATTO, LEVELS, Work, moved, seconds


def predicted_seconds(
    module: ModuleOp, target: Target, sizes: Mapping[str, int], threads: int = 1
) -> dict[KernelOp, float]:
    """
    Seconds of one run of every kernel that runs, in a call of a plan-level module that follows
    another one, for these values of the symbols.
    """
    formula = FORMULAS[type(target)]
    return {
        op: formula(op, traffic, sizes_at(op, sizes), target, threads)
        for op, traffic in traffic_of(module, sizes).items()
    }


def call_cost(
    op: CallOp, sizes: Mapping[str, int], target: Target, threads: int = 1
) -> tuple[Work, float] | None:
    """
    The work of a tile program, read off its text, and its seconds on as many threads as it has work
    for; None where there is none, or programs of such machines are not read.
    """
    program, cost = called(op), COSTS.get(type(target))
    return None if program is None or cost is None else cost(program, sizes, target, threads)


def _walked(
    program: TileKernelOp, sizes: Mapping[str, int], target: CpuTarget, threads: int
) -> tuple[Work, float]:
    work = work_of(program, sizes, target)
    workers = max(1, min(threads, program.loads.evaluate(sizes)))
    return work, seconds(work, target, workers) / ATTO


def _called(
    op: KernelOp, traffic: Traffic, sizes: Mapping[str, int], target: CpuTarget, threads: int
) -> float:
    parallel = op.schedule is not None and op.schedule.data.shared > 0
    cycles = kernel_cycles(op, sizes, target)
    alone = kernel_s(traffic, cycles, target)
    if parallel and threads > 1 and alone > SHARED_S:
        return kernel_s(traffic, cycles, target, threads)
    return alone


def _launched(
    op: KernelOp, traffic: Traffic, sizes: Mapping[str, int], target: GpuTarget, _: int
) -> float:
    flops = weighted_flops(op, sizes)
    words = op.schedule.data.cuts if op.schedule is not None else ()
    if any(isinstance(word, Tile) for word in words):
        products = (x for x in op.block.ops if isinstance(x, ContractOp))
        multiplied = sum(x.cost().flops.evaluate(sizes) for x in products)
        flops -= multiplied * (1 - target.f32_flops_per_s / target.tensor_f16_flops_per_s)
    read, written = (
        moved(sum(x.bytes for x in streams), LEVELS - 1)
        for streams in (traffic.reads, traffic.writes)
    )
    core = round(ATTO * flops / target.f32_flops_per_s)
    return seconds(Work(core, read, written, starts=1), target) / ATTO


FORMULAS: Mapping[
    type[Target], Callable[[KernelOp, Traffic, Mapping[str, int], Any, int], float]
] = {CpuTarget: _called, GpuTarget: _launched}
"""For each kind of machine: kernel, traffic, sizes, target, threads -> seconds."""

COSTS: Mapping[
    type[Target], Callable[[TileKernelOp, Mapping[str, int], Any, int], tuple[Work, float]]
] = {CpuTarget: _walked}
"""For each kind of machine whose programs are read: program, sizes, target, threads -> cost."""
