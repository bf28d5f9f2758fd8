"""Plans for machines that need not be at hand: no code is made, nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlc
from mlc.artifact import CodeUnit
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.target.attribute import target_of
from mlc.dialects.target.known import CPUS
from mlc.levels import Levels, emit_units
from mlc.passes.plan.tiling.schedule import schedules_of
from mlc.pipeline import run_pipeline
from mlc.runtime.probe import host_target

TARGETS = tuple(target.name for target in CPUS)
"""The processors that plans are tested for, whatever runs the tests."""

RUNNABLE = "avx2" if "+avx2" in host_target().features else "host"
"""The smallest caches of these of which the code runs here."""

HOSTED = [
    name
    for name, feature in (("avx2", "+avx2"), ("avx512", "+avx512f"))
    if feature in host_target().features
] or ["host"]
"""Processors whose code runs here."""


def spec(*shape: int | str, dtype: str = "f32") -> mlc.TensorSpec:
    """An argument that is known by its shape alone."""
    return mlc.TensorSpec(*shape, dtype=dtype)


def planned(f: Callable[..., Any], *arguments: Any, target: str, **options: Any) -> Levels:
    """The program for these arguments at every level, for a named machine with two threads."""
    chosen: dict[str, Any] = {"threads": 2, **options}
    compiled: Any = mlc.compile(target=target, **chosen)(f)
    levels: Levels = compiled.lower(*arguments).levels
    return levels


def offered_of(levels: Levels) -> list[list[Schedule]]:
    """The schedules that each kernel of a program may have, the best first."""
    plan = levels.plan()
    kernels = (op for op in plan.walk() if isinstance(op, KernelOp))
    return [list(dict.fromkeys(schedules_of(x, target_of(plan)))) for x in kernels]


def candidates(levels: Levels) -> Iterator[Sequence[CodeUnit]]:
    """
    The code of a program with all schedules that its kernels may have: first as it is, then each
    kernel with its second one or its only one, and so on.
    """
    plan, offered = levels.plan().clone(), offered_of(levels)
    kernels = [op for op in plan.walk() if isinstance(op, KernelOp)]
    for number in range(max(map(len, offered))):
        for kernel, schedules in zip(kernels, offered, strict=True):
            if 0 < number < len(schedules):
                kernel.properties["schedule"] = ScheduleAttr(schedules[number])
        loops = run_pipeline(plan.clone(), levels.options, until="loops", done="plan")
        yield emit_units(loops, levels.options.target)
