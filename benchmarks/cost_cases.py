"""
What the cost model is compared on: programs of a set at their sizes, by every way of fusion, timed.

Two sets. `zoo`, the model zoo, is what the model's formulas were found on. `kernels` is kept apart:
no figure and no formula is fitted to `benchmarks/kernels` (PolyBench, NPBench and textbooks). What
was timed can be stored, with the plans, and compared with later predictions.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

import mlc
from benchmarks.kernels import KERNELS
from benchmarks.zoo import SIZES, ZOO
from mlc.dialects.target import CpuTarget
from mlc.executable import compile_module
from mlc.frontend.call.lowered import Lowered
from mlc.options import Options
from mlc.passes.report.report import KernelReport, plan_of
from mlc.profile import Profiler
from mlc.runtime import probe
from mlc.text import parse_text

MOST_KERNELS = 60
"""Of a program that is compared: one with more says the same many times over."""

Program = tuple[str, str, Callable[..., Any], Sequence[Any]]
"""Name, size, function and arguments."""


@dataclass
class Case:
    """One program at one size by one plan, and what it took."""

    name: str
    size: str
    fusion: str
    plan: ModuleOp
    executable: Any = None
    arguments: Sequence[Any] = ()
    profiler: Profiler | None = None
    seconds: list[float] = field(default_factory=list[float])  # of each kernel, per call
    runs: list[int] = field(default_factory=list[int])
    call_s: float = math.inf
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    def run(self, seconds: float) -> None:
        """Some calls of the program and some of its profiled twin."""
        assert self.profiler is not None
        builtin: Callable[..., object] = self.executable.builtin
        found = self.profiler.run(self.arguments, seconds / 2)
        self.runs = list(found.runs)
        self.seconds = list(map(min, self.seconds or found.seconds, found.seconds))
        give = self.profiler.given_anew(self.arguments)
        end = time.perf_counter() + seconds / 2
        start = 0.0
        while start < end:
            give()
            start = time.perf_counter()
            builtin(*self.arguments)
            self.call_s = min(self.call_s, time.perf_counter() - start)
        give()

    def kernels(self, target: CpuTarget, threads: int) -> list[KernelReport]:
        """What has a clock, in the order of `seconds`."""
        plan = plan_of(self.plan, target, self.sizes, threads)
        return [part for k in plan.kernels for part in (threads == 1 and k.phases) or (k,)]


def programs_of(which: str, *, quick: bool) -> Iterator[Program]:
    """The programs of a set, at the sizes that count; quick: without the largest."""
    if which == "zoo":
        for name, model in ZOO.items():
            for size in SIZES[:2] if quick else SIZES:
                yield name, size, model.function, model.arrays(size)
        return
    for name, kernel in KERNELS.items():
        for size, extent in (("small", kernel.small), ("full", kernel.full))[: 2 - quick]:
            yield name, size, kernel.function, kernel.arguments(extent)


def cases(programs: Iterable[Program], fusions: Iterable[str], threads: int) -> Iterator[Case]:
    """Every program by every plan; what mlc refuses, or has too many kernels, is left out."""
    for name, size, function, arguments in programs:
        try:
            low = mlc.compile(threads=threads)(function).lower(*arguments)
            for fusion in fusions:
                case = _compiled(name, size, fusion, low, threads)
                if case.profiler is not None and case.profiler.count <= MOST_KERNELS:
                    case.run(0.0)
                    yield case
        except mlc.MlcError as error:
            print(f"{name} {size} is left out: {error}", file=sys.stderr)


def _compiled(name: str, size: str, fusion: str, low: Lowered, threads: int) -> Case:
    options = Options(target=probe.host_target(), threads=threads, fusion=fusion)  # pyright: ignore[reportArgumentType]
    executable = compile_module(low.module, low.signature, options)
    profiler = Profiler(executable.levels, phases=threads == 1)
    found = Case(name, size, fusion, profiler.plan, executable, low.arguments(), profiler)
    found.sizes = executable.levels.known_sizes({})
    return found


def store(found: Iterable[Case], rates: Mapping[str, float], path: Path) -> None:
    """The plans, what they took, and the machine's rates meanwhile."""
    rows = [
        {
            "name": c.name, "size": c.size, "fusion": c.fusion, "plan": str(c.plan),
            "seconds": c.seconds, "runs": c.runs, "call_s": c.call_s, "sizes": dict(c.sizes),
        }
        for c in found
    ]  # fmt: skip
    path.write_text(json.dumps({"rates": dict(rates), "cases": rows}))


def stored(path: Path) -> tuple[list[Case], Mapping[str, float]]:
    """What `store` has written."""
    read: dict[str, Any] = json.loads(path.read_text())
    found = [
        Case(
            row["name"], row["size"], row["fusion"], parse_text(row["plan"], path.name),
            seconds=row["seconds"], runs=row["runs"], call_s=row["call_s"], sizes=row["sizes"],
        )
        for row in read["cases"]
    ]  # fmt: skip
    return found, read["rates"]
