"""Whole programs: the launch plan runs on the host, its kernels in the model."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import SSAValue

from mlc.dialects import gpu, launch
from mlc.dialects.gpu_clusters import CLUSTER_ATTRIBUTE, AwaitOp
from mlc.lowering.gpu.entry import launch_plan
from mlc.runtime.cuda.interpret import run_steps
from mlc.runtime.tiles.team import Scheduler, Wait
from tests.gpu_model.clocks import ModelError
from tests.gpu_model.memory import Memory
from tests.gpu_model.shared import Shared
from tests.gpu_model.together import WARP, Warp
from tests.gpu_model.warp import BlockOf, Steps, argument

Array = NDArray[Any]
SHARED_BYTES = 232_448
SLOW = 50  # turns that a block of a cluster leaves to others, for each of its own
LATE = 0.95  # how often a store is put off


class Model:
    """A device: what steps of a launch plan ask of it."""

    def __init__(self, module: ModuleOp, seed: int = 0, blocks: int | None = None) -> None:
        functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
        self.kernels = {
            f.sym_name.data: f for f in functions if gpu.KERNEL_ATTRIBUTE in f.attributes
        }
        (entry,) = [f for f in functions if "mlc.entry" in f.attributes]
        self.plan = launch_plan(entry, module, fails=False)
        self.memory, self.seed, self.most = Memory(), seed, blocks

    def call(
        self,
        arrays: Sequence[Array],
        results: Sequence[tuple[tuple[int, ...], Any]],
        sizes: Sequence[int] = (),
        places: Sequence[int | None] = (),
    ) -> list[Array]:
        """
        The results, of these shapes and dtypes; of `places`: the argument in whose memory one lies.
        """
        plan = self.plan
        registers = [0] * plan.registers
        for register, value in plan.known:
            registers[register] = value
        registers[launch.ERROR_WORD] = self.memory.reserve(64)
        registers[launch.FIRST_SIZE : launch.FIRST_SIZE + len(sizes)] = sizes
        for number, array in enumerate(arrays):
            registers[plan.first_input + number] = self.memory.put(array)
        for number, (shape, dtype) in enumerate(results):
            count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            place = places[number] if places else None
            registers[plan.first_output + number] = (
                self.memory.reserve(count) if place is None else registers[plan.first_input + place]
            )
        for number, constant in enumerate(plan.constants):
            at = self.memory.put(np.frombuffer(constant, np.uint8))
            registers[plan.first_constant + number] = at
        with np.errstate(all="ignore"):
            run_steps(plan.steps, registers, self)
        return [
            self.memory.get(registers[plan.first_output + n], shape, np.dtype(dtype))
            for n, (shape, dtype) in enumerate(results)
        ]

    def reserve(self, size_bytes: int) -> int:
        return self.memory.reserve(size_bytes)

    def read_number(self, address: int, size_bytes: int) -> int:
        return int.from_bytes(self.memory.data[address : address + size_bytes].tobytes(), "little")

    def write_number(self, address: int, value: int) -> None:
        self.memory.data[address : address + 8] = np.array([value], np.int64).view(np.uint8)

    def library(
        self, routine: int, dtype: int, operands: Sequence[int], output: int, sizes: Sequence[int]
    ) -> int:
        raise NotImplementedError

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | launch.TensorMap],
        shared_bytes: int = 0,
    ) -> None:
        """All clusters of blocks, one after the other: they wait for nobody else."""
        body, given = self.kernels[kernel].body.block, list(arguments)
        cluster = self.kernels[kernel].attributes.get(CLUSTER_ATTRIBUTE)
        each = cluster.value.data if isinstance(cluster, IntegerAttr) else 1
        bound: dict[SSAValue, Any] = {}
        for x in body.args:
            bound[x], count = argument(x.type, given)
            given = given[count:]
        if self.most is not None and any(isinstance(op, gpu.GridDimOp) for op in body.walk()):
            grid = (min(grid[0], self.most), *grid[1:])  # its blocks walk over whatever is left
        if grid[0] % each:
            raise ModelError(f"@{kernel}: {grid[0]} blocks in clusters of {each}")
        firsts = [
            (x, y, z)
            for z in range(grid[2])
            for y in range(grid[1])
            for x in range(0, grid[0], each)
        ]
        random = Random(self.seed)
        if not any(isinstance(op, AwaitOp) for op in body.walk()):
            random.shuffle(firsts)  # or else they wait for those before
        warps = -(-block[0] * block[1] * block[2] // WARP)
        dynamic = shared_bytes and shared_bytes + 1024
        for x, y, z in firsts:
            together: list[BlockOf] = []
            strands: dict[str, Any] = {}
            late = random.randrange(each)
            for rank in range(each):
                here = BlockOf(
                    (x + rank, y, z), grid, block, Shared(SHARED_BYTES, each * warps),
                    self.memory, dynamic, together,
                )  # fmt: skip
                together.append(here)
                slow = rank == late and each > 1
                for n in range(warps):
                    run = Warp(here, n, bound).run(body)
                    strands[f"warp {n} of block {rank}"] = _slowly(run) if slow else run
                strands[f"copies of block {rank}"] = _copies(here, random)
            Scheduler(random.randrange(1 << 30)).run(strands)


def _slowly(strand: Steps) -> Steps:
    """Which lets others go first."""
    for turn in strand:
        yield from [None] * SLOW
        yield turn
    return []


def _copies(block: BlockOf, random: Random) -> Steps:
    """The copy engine: what is asked for in any order, but the stores of a warp in turn."""
    while block.running or block.asked:
        if not block.asked:
            yield Wait(lambda: bool(block.asked) or not block.running, "the copy engine")
            continue
        chosen = random.choice(block.asked)
        if chosen.stores and random.random() < LATE:
            yield None
            continue
        if chosen.stores:
            chosen = next(x for x in block.asked if x.stores and x.warp == chosen.warp)
        block.asked.remove(chosen)
        chosen.run()
        yield None
    return []
