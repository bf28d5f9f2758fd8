"""The launches of one call of a GPU program: its launch plan is run, and notes what it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from mlc.dialects import launch
from mlc.dialects.program import entry_function
from mlc.dialects.target import GpuTarget
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.entry import launch_plan
from mlc.passes.report.launches import Launch, LaunchReport, launches_of
from mlc.passes.report.report import KernelReport
from mlc.runtime.cuda.interpret import ProgramError, run_steps


@dataclass
class _Notes:
    """A machine that starts nothing; what programs read there is 0."""

    found: list[Launch] = field(default_factory=list[Launch])

    def reserve(self, size_bytes: int) -> int:
        return 0

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | launch.TensorMap],
        shared_bytes: int = 0,
    ) -> None:
        self.found.append(
            Launch(function=kernel, grid=grid, block=block, shared_bytes=shared_bytes)
        )

    def read_number(self, address: int, size_bytes: int) -> int:
        return 0

    def write_number(self, address: int, value: int) -> None:
        """Nobody reads it."""

    def library(
        self, routine: int, dtype: int, operands: Sequence[int], output: int, sizes: Sequence[int]
    ) -> int:
        return 0


def launches_of_call(
    lower: Callable[[], ModuleOp],
    symbols: Mapping[str, int],
    kernels: Sequence[KernelReport],
    target: GpuTarget,
) -> tuple[LaunchReport, ...]:
    """What a call starts whose plan has these kernels, for symbols in the entry's order."""
    loops = lower()
    functions = {f.sym_name.data: f for f in loops.body.block.ops if isinstance(f, func.FuncOp)}
    plan = launch_plan(entry_function(loops), loops, fails=False)
    return launches_of(functions, started(plan, tuple(symbols.values())), kernels, target)


def started(plan: launch.LaunchPlan, sizes: Sequence[int]) -> list[Launch]:
    """What a call with these sizes starts; what programs read is 0."""
    registers = [0] * plan.registers
    for register, value in plan.known:
        registers[register] = value
    registers[launch.FIRST_SIZE : launch.FIRST_SIZE + len(sizes)] = sizes
    notes = _Notes()
    with suppress(ProgramError):  # an error that such sizes meet ends a call there
        run_steps(plan.steps, registers, notes)
    return notes.found
