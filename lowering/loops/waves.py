"""
The trips of a loop of sweeps in waves: block b of the k-th kernel that so many trips run, in wave
b + k. What it reads of the kernel before lies in blocks up to b + 1, which came before it, and what
it writes over has been read there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mlc.dialects.analysis.sweeps import period_of, sweeps_of
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
    if waves.trips % (period := period_of(sweeps)):
        raise PlanError(
            f"plan to loops: waves of {waves.trips} trips of a loop that writes to {period} places"
            f" by turns; expected a multiple of {period}"
        )
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
    rounds: Index,
    kernels: Sequence[Sequence[Block]],
    wait: Callable[[], None],
) -> None:
    """
    Rounds of as many trips as there are `kernels`: what runs a block of each, by trip. Some rounds
    at a time, between which the call may stop.
    """
    flat = [run for trip in kernels for run in trip]
    at_once = waves.trips // len(kernels)

    def some(first: Index) -> None:
        wait()
        number = b.min(b.sub(rounds, first), at_once)
        last = b.add(waves.blocks - 1, b.mul(number, len(flat)))
        b.loop(0, last, 1, lambda wave: blocks(wave, number))

    def blocks(wave: Index, number: Index) -> None:
        b.loop(0, number, 1, lambda k: of_round(wave, k))

    def of_round(wave: Index, number: Index) -> None:
        for k, run in enumerate(flat):
            block = b.sub(wave, b.add(b.mul(number, len(flat)), k))
            inside = b.both(b.compare("ge", block, 0), b.compare("lt", block, waves.blocks))
            b.when(inside, partial(run, block))

    b.loop(0, rounds, at_once, some)
