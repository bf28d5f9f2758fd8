"""
What each kernel of a plan should take: its traffic and its cycles as work, and the seconds of that;
of a tile program: the work that its text says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.analysis.trips import sizes_at, times_in_call
from mlc.dialects.dims import Dim, highest
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.tiles import bounds_of
from mlc.dialects.tile.kernel import CallOp, called
from mlc.dialects.tile.kernel import KernelOp as TileKernelOp
from mlc.passes.cost.cycles import kernel_cycles
from mlc.passes.cost.gpu_products import seconds_in_stream, seconds_of_product
from mlc.passes.cost.model import kernel_cost
from mlc.passes.cost.ops import at_peak, point_cost
from mlc.passes.cost.sizes import sizes_in_call
from mlc.passes.cost.streams import Traffic, work_of_traffic
from mlc.passes.cost.traffic import traffic_of
from mlc.passes.cost.walk import work_of
from mlc.passes.cost.work import ATTO, FAR, LEVELS, Clock, Work, moved, of_cycles, seconds
from mlc.passes.tile.stream_block import StreamBlock, holds_streams

PICO = ATTO // 10**12
Predicted = tuple[Work, int]
"""What is done, and by how many threads."""


def predicted_seconds(
    module: ModuleOp, target: Target, sizes: Mapping[str, int], threads: int = 1
) -> dict[KernelOp, float]:
    """
    Seconds of one run of every kernel that runs, in a call of a plan-level module that follows
    another one, for these values of the symbols; where one is missing, for what the module says
    that it mostly is.
    """
    return {
        op: seconds(work, target, workers) / ATTO
        for op, (work, workers) in predicted_work(module, target, sizes, threads).items()
    }


def call_seconds(module: ModuleOp, target: Target, sizes: Mapping[str, int]) -> float:
    """Of one call on one thread; kernels that data repeats count once."""
    sizes = sizes_in_call(module, sizes)
    predicted = predicted_seconds(module, target, sizes)
    return sum(taken * times_in_call(op, sizes) for op, taken in predicted.items())


def predicted_work(
    module: ModuleOp, target: Target, sizes: Mapping[str, int], threads: int = 1
) -> dict[KernelOp, Predicted]:
    """As `predicted_seconds`, what is done in them."""
    work, sizes = WORKS[type(target)], sizes_in_call(module, sizes)
    return {
        op: work(op, traffic, sizes_at(op, sizes), target, threads)
        for op, traffic in traffic_of(module, sizes).items()
    }


def call_cost(
    op: CallOp, sizes: Mapping[str, int], target: Target, threads: int = 1
) -> tuple[Work, float] | None:
    """
    The work of a tile program, read off its text, and its seconds on as many threads as it has work
    for; None where there is none, or programs of such machines are not read.
    """
    program, walk = called(op), WALKS.get(type(target))
    if program is None or walk is None:
        return None
    work = walk(program, sizes, target)
    workers = max(1, min(threads, program.loads.evaluate(sizes)))
    return work, seconds(work, target, workers) / ATTO


def most_of_call(kernels: Iterable[tuple[KernelOp, Dim]], clock: Clock) -> Dim:
    """
    Picoseconds of one call at most, as a polynomial whose values code computes in 64 bits, for
    (kernel, times it runs): nothing that is read hides behind what is computed, and all of it comes
    from level 3; ops are as slow as the slowest of their kernel.
    """
    byte, written_byte, start = (
        -(-x // PICO) for x in (clock.byte[FAR], clock.written[FAR], clock.start)
    )
    total = Dim.const(0)
    for kernel, times in kernels:
        cost = kernel.cost if kernel.cost is not None else kernel_cost(kernel)
        largest = bounds_of(kernel)  # of what tile loops around it name
        flops, read, written = (highest(dim, largest) for dim in cost.data)
        ops = [op for op in kernel.block.ops if isinstance(op, TensorOp) and op.FLOPS]
        each = (point_cost(type(op), op.dtype, clock.target) // op.FLOPS for op in ops)
        flop = -(-max(each, default=at_peak(1, clock.target)) // PICO)
        total = total + times * (read * byte + written * written_byte + flops * flop + start)
    return total


def _called(
    op: KernelOp, traffic: Traffic, sizes: Mapping[str, int], target: CpuTarget, threads: int
) -> Predicted:
    shared = op.schedule is not None and op.schedule.data.shared > 0
    core = of_cycles(kernel_cycles(op, sizes, target), target)
    alone = work_of_traffic(traffic, core, target)
    if shared and threads > 1 and seconds(alone, target) > target.loops.shared_s * ATTO:
        return work_of_traffic(traffic, core, target, threads), threads
    return alone, 1


def _launched(
    op: KernelOp, traffic: Traffic, sizes: Mapping[str, int], target: GpuTarget, _: int
) -> Predicted:
    streams = holds_streams(op)
    ops = (StreamBlock.of_kernel(op) if streams else op).block.ops
    schedule = op.schedule.data if op.schedule is not None else None
    multiplied, rest = 0.0, 0.0
    for x in (x for x in ops if isinstance(x, TensorOp)):
        if isinstance(x, Product) and streams:
            multiplied += seconds_in_stream(x, sizes, target)
        elif isinstance(x, Product):
            multiplied += seconds_of_product(x, schedule, sizes, target)
        else:
            rest += x.WEIGHT * x.cost().flops.evaluate(sizes) / target.flops_per_s(x.dtype)
    # streams compute what is no product while others are multiplied
    core = round(ATTO * (max(multiplied, rest) if streams else multiplied + rest))
    read, written = (
        moved(sum(x.bytes for x in way), LEVELS - 1) for way in (traffic.reads, traffic.writes)
    )
    return Work(core, read, written, starts=1), 1


WORKS: Mapping[
    type[Target], Callable[[KernelOp, Traffic, Mapping[str, int], Any, int], Predicted]
] = {CpuTarget: _called, GpuTarget: _launched}
"""For each kind of machine: kernel, traffic, sizes, target, threads -> work, and who does it."""

WALKS: Mapping[type[Target], Callable[[TileKernelOp, Mapping[str, int], Any], Work]] = {
    CpuTarget: work_of
}
"""For each kind of machine whose programs are read: program, sizes, target -> work."""
