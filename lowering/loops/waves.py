"""
The trips of a loop of sweeps in waves: block b of the k-th kernel that so many trips run, in wave
b + k. What it reads of the kernel before lies in blocks up to b + 1, which came before it, and what
it writes over has been read there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mlc.dialects.analysis.sweeps import sweeps_of
from mlc.dialects.errors import PlanError
from mlc.dialects.tensor.control import ForOp
from mlc.dialects.waves import WAVES, Waves, WavesAttr
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder

Block = Callable[[Index], None]
"""Runs one block of a kernel."""


def waves_of(op: ForOp) -> Waves | None:
    """What is said of a loop, if it is true of its kernels."""
    said = op.attributes.get(WAVES)
    if said is None:
        return None
    if not isinstance(said, WavesAttr):
        raise PlanError(f"plan to loops: {WAVES} of a loop is {said}; expected #mlc.waves<…>")
    waves, sweeps = said.data, sweeps_of(op)
    if not sweeps:
        raise PlanError(
            f"plan to loops: a loop with {WAVES} has a kernel that reads of what the loop writes"
            " other rows than near ones, or writes it elsewhere in each trip: remove the attribute"
        )
    rows, reach = sweeps[0].rows, max(sweep.reach for sweep in sweeps)
    most = min(sweep.shares for sweep in sweeps)
    each = -(-rows // waves.blocks)
    if each < reach or waves.blocks > most:
        raise PlanError(
            f"plan to loops: {waves.blocks} blocks of {rows} rows; expected at most"
            f" {min(most, rows // max(reach, 1))}: each has work enough for a worker, and at least"
            f" the {reach} rows that a kernel reads beyond its own"
        )
    return waves


def run_waves(
    b: LoopBuilder,
    waves: Waves,
    count: Index,
    kernels: Sequence[Block],
    wait: Callable[[], None],
) -> None:
    """
    The trips but the first, so many at a time, between which the call may stop; `kernels`: what
    runs a block of each.
    """

    def some(trip: Index) -> None:
        wait()
        trips = b.min(b.sub(count, trip), waves.trips)
        last = b.add(waves.blocks - 1, b.mul(trips, len(kernels)))
        b.loop(0, last, 1, lambda wave: blocks(wave, trips))

    def blocks(wave: Index, trips: Index) -> None:
        b.loop(0, trips, 1, lambda trip: of_trip(wave, trip))

    def of_trip(wave: Index, trip: Index) -> None:
        for k, run in enumerate(kernels):
            block = b.sub(wave, b.add(b.mul(trip, len(kernels)), k))
            inside = b.both(b.compare("ge", block, 0), b.compare("lt", block, waves.blocks))
            b.when(inside, partial(run, block))

    b.loop(1, count, waves.trips, some)
