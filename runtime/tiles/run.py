"""Runs kernels that are tile programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.types import view_of
from mlc.runtime.tiles.memory import Stored, unwritten
from mlc.runtime.tiles.registers import Plan
from mlc.runtime.tiles.roles import Block
from mlc.runtime.tiles.team import Scheduler, Team

Array = NDArray[Any]


def run_kernel(
    kernel: KernelOp,
    arrays: Sequence[Array],
    symbols: Mapping[str, int],
    plan: Plan,
    *,
    workers: int = 1,
    seed: int = 0,
) -> list[Array]:
    """
    What a kernel writes, given the arrays that it reads. So many workers run it, whatever its grain
    is, one if it has none; `seed` is of their order.
    """
    size = workers if kernel.work is not None else 1
    team, scheduler = Team(size), Scheduler(seed)
    everyone = [Block(team, number, symbols, plan, scheduler.random) for number in range(size)]
    views: list[Stored] = []
    for argument, array in zip(kernel.inputs, arrays, strict=True):
        kind = view_of(argument)
        seen = np.asarray(array).reshape(everyone[0].shape(kind.shape))
        views.append(Stored(seen, kind.dtype, constant=True))
    for argument in kernel.outputs:
        kind = view_of(argument)
        shape = everyone[0].shape(kind.shape)
        views.append(Stored(unwritten(shape, kind.dtype), kind.dtype, shared=size > 1))
    for worker in everyone:
        worker.values.update(zip(kernel.block.args, views, strict=True))
    scheduler.run({f"worker {w.number}": w.block(kernel.block) for w in everyone})
    return [view.array for view in views[len(arrays) :]]
