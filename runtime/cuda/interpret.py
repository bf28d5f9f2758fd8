"""The launch plan, step by step, on plain integers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from mlc.dialects import launch


class Machine(Protocol):
    """What steps ask of the device."""

    def reserve(self, size_bytes: int) -> int:
        """The arena's address, with at least so many bytes."""
        ...

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | launch.TensorMap],
        shared_bytes: int = 0,
    ) -> None:
        """Starts a kernel."""
        ...

    def read_number(self, address: int, size_bytes: int) -> int:
        """The signed integer at an address."""
        ...

    def write_number(self, address: int, value: int) -> None:
        """Stores an i64."""
        ...

    def library(
        self, routine: int, dtype: int, operands: Sequence[int], output: int, sizes: Sequence[int]
    ) -> int:
        """Has the host compute a library routine; its status."""
        ...


class ProgramError(Exception):
    """A run-time error that the entry itself has found."""

    def __init__(self, site: int, value: int, extent: int) -> None:
        super().__init__(f"site {site}: {value} against {extent}")
        self.site, self.value, self.extent = site, value, extent


def _floor_divide(x: int, y: int) -> int:
    return x // y


def _both(x: int, y: int) -> int:
    return x & y


def _select(condition: int, x: int, y: int) -> int:
    return x if condition else y


_OPERATIONS: dict[launch.Arithmetic, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _floor_divide,
    "min": min,
    "max": max,
    "and": _both,
    "select": _select,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def run_steps(steps: Sequence[launch.Step], registers: list[int], machine: Machine) -> None:
    """Runs the steps; `registers` hold what is known before. ProgramError ends them early."""
    for step in steps:
        match step:
            case launch.Compute():
                operands = [registers[r] for r in step.operands]
                found = _OPERATIONS[step.op](*operands)
                registers[step.result] = int(found) if isinstance(found, bool) else found
            case launch.Launch():
                _launch(step, registers, machine)
            case launch.Branch():
                chosen = step.then if registers[step.condition] else step.otherwise
                run_steps(chosen, registers, machine)
            case launch.Loop():
                _loop(step, registers, machine)
            case launch.While():
                _while(step, registers, machine)
            case launch.Reserve():
                registers[launch.ARENA] = machine.reserve(registers[step.arena_bytes])
            case launch.ReadNumber():
                address = registers[step.address]
                registers[step.result] = machine.read_number(address, step.size_bytes)
            case launch.WriteNumber():
                machine.write_number(registers[step.address], registers[step.value])
            case launch.Library():
                operands, sizes = ([registers[r] for r in rs] for rs in (step.operands, step.sizes))
                registers[step.result] = machine.library(
                    step.routine, step.dtype, operands, registers[step.output], sizes
                )
            case launch.Fail():
                raise ProgramError(step.site, registers[step.value], registers[step.extent])


def _launch(step: launch.Launch, registers: list[int], machine: Machine) -> None:
    x, y, z = (registers[r] for r in step.grid)
    if x <= 0 or y <= 0 or z <= 0:
        return
    tx, ty, tz = (registers[r] for r in step.block)
    arguments = [
        _filled(x, registers) if isinstance(x, launch.TensorMap) else registers[x]
        for x in step.arguments
    ]
    machine.launch(step.kernel, (x, y, z), (tx, ty, tz), arguments, step.shared_bytes)


def _filled(found: launch.TensorMap, registers: Sequence[int]) -> launch.TensorMap:
    """A map with numbers for registers."""
    sizes, strides = (tuple(registers[r] for r in rs) for rs in (found.sizes, found.strides))
    return replace(found, address=registers[found.address], sizes=sizes, strides=strides)


def _while(step: launch.While, registers: list[int], machine: Machine) -> None:
    _assign(step.carried, step.inits, registers)
    while True:
        run_steps(step.test, registers, machine)
        if not registers[step.condition]:
            return
        run_steps(step.body, registers, machine)
        _assign(step.carried, step.yields, registers)


def _assign(
    targets: Sequence[launch.Register], sources: Sequence[launch.Register], registers: list[int]
) -> None:
    """All at once."""
    values = [registers[r] for r in sources]
    for register, value in zip(targets, values, strict=True):
        registers[register] = value


def _loop(step: launch.Loop, registers: list[int], machine: Machine) -> None:
    _assign(step.carried, step.inits, registers)
    low, high, stride = registers[step.low], registers[step.high], registers[step.step]
    for number in range(low, high, stride):
        registers[step.induction] = number
        run_steps(step.body, registers, machine)
        _assign(step.carried, step.yields, registers)
