"""
Pass `mlc-form-waves`: the trips of a loop of stencils that one worker runs follow each other
through the rows of its arrays, some rows behind one another, so that several trips read and write a
row while it lies in a cache.

```
trip t:      rows 0-2 of b | rows 3-5 of b | …      each array goes through the cache twice a trip
             rows 0-2 of a | rows 3-5 of a | …

a wave:      b 6-8, a 3-5, then b 0-2 of the next trip …      once in some trips
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.analysis.shares import TEAM
from mlc.dialects.analysis.sweeps import Sweep, period_of, sweeps_of
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.control import ForOp
from mlc.dialects.tile.nest_words import Nontemporal
from mlc.dialects.tile.words import Grain
from mlc.dialects.waves import WAVES, Waves, WavesAttr
from mlc.lazy_dataclass import dataclass

MOST_TRIPS = 8
"""Trips at a time: those that are left of a loop run through its first and last rows as well."""

BLOCKS = (1 << 13, 1 << 12, 1 << 11)
"""Elements of a block, for which a call is cheap, or less so: docs/measurements.md, Stencils."""


@dataclass(frozen=True)
class FormWavesPass(ModulePass):
    """
    Says of loops in how many blocks of rows their kernels run, and how many trips at a time; of
    their kernels, that a worker may have as little as a block.
    """

    name = "mlc-form-waves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        caches = target_of(op).cache_bytes
        for function in op.body.block.ops:
            if not isinstance(function, FuncOp) or TEAM not in function.attributes:
                continue
            for loop in [x for x in outside_kernels(function) if isinstance(x, ForOp)]:
                sweeps = sweeps_of(loop)
                if sweeps and (waves := _waves(sweeps, caches)) is not None:
                    _say(loop, waves, sweeps)


def _waves(sweeps: Sequence[Sweep], caches: Sequence[int]) -> Waves | None:
    """
    As many trips as work in half of the nearest cache in which some do, if all rows are more than
    half of it: in smaller blocks where they must.
    """
    row_bytes = sum({x: sweep.row_bytes for sweep in sweeps for x in sweep.memory}.values())
    period = period_of(sweeps)
    for cache in caches:
        if row_bytes * sweeps[0].rows <= cache // 2:
            return None
        for elements in BLOCKS:
            blocks, each = _blocks(sweeps, elements)
            trips = (cache // 2 // (row_bytes * each) - 1) // len(sweeps)
            trips = min(trips // period * period, MOST_TRIPS)
            if trips >= 1 and blocks > trips * len(sweeps):
                return Waves(blocks, trips)
    return None


def _blocks(sweeps: Sequence[Sweep], elements: int) -> tuple[int, int]:
    """Blocks of about so many elements and their rows, which are as many as neighbours are away."""
    rows, reach = sweeps[0].rows, max(sweep.reach for sweep in sweeps)
    least = max(reach, *(-(-elements // sweep.row_elements) for sweep in sweeps))
    blocks = -(-rows // least)
    if -(-rows // blocks) < reach:
        blocks = max(rows // least, 1)
    return blocks, -(-rows // blocks)


def _say(loop: ForOp, waves: Waves, sweeps: Sequence[Sweep]) -> None:
    loop.attributes[WAVES] = WavesAttr(waves)
    kernels = (op for op in loop.body.block.ops if isinstance(op, KernelOp))
    for op, sweep in zip(kernels, sweeps, strict=True):
        assert op.schedule is not None
        # what is stored past the caches the next trip would read from memory
        words = tuple(x for x in op.schedule.data.words if not isinstance(x, Nontemporal))
        grain = min(op.schedule.data.grain, sweep.points // waves.blocks)
        op.properties["schedule"] = ScheduleAttr(Schedule(words).having(Grain(grain)))
