"""
What each kernel of a call takes, measured: the entry with a clock read around every kernel.

The kernels are the executable's, with its buffers, in its order, and as warm as a call finds them
that follows another one. Nothing is added but the clock reads, which wait for what stands before
them: kernels do not overlap. A tile loop is one kernel, whose trips threads share; on one thread
its phases can be measured in its place.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from math import inf

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation

from mlc import registry
from mlc.backends import at_tiles, backend_of
from mlc.dialects.analysis.trips import outermost_tiles, running_kernels
from mlc.dialects.errors import MlcError
from mlc.dialects.target.attribute import cpu_of, target_of
from mlc.error_sites import sites_of
from mlc.lazy_dataclass import dataclass
from mlc.levels import Levels, emit_units
from mlc.lowering.entry_shim import OPT_LEVEL as SHIM_OPT_LEVEL
from mlc.lowering.entry_shim import emit_shim
from mlc.lowering.loops.profile import CLOCK, lower_profiled
from mlc.runtime.entry import load_entry
from mlc.runtime.kernel_clock import KernelClock
from mlc.runtime.objects import object_of
from mlc.runtime.sites import raiser
from mlc.runtime.threads import get_threads

LEAST_CALLS = 5


@dataclass(frozen=True)
class Profile:
    """
    The least seconds of each kernel in any one call, its runs in that call added up, in the order
    of `Plan.kernels`; and how often a call runs it. Of a `Profiler` of phases, each phase in the
    place of its kernel.
    """

    seconds: tuple[float, ...]
    runs: tuple[int, ...]
    calls: int


class Profiler:
    """
    A profiled entry of a program for CPUs, loaded. `phases`: each phase of a tile loop has a clock
    instead of the loop, which asks for one thread. Raises MlcError for another target, and for
    phases on several threads.
    """

    def __init__(self, program: Levels, *, phases: bool = False) -> None:
        if phases and (program.options.threads or get_threads()) > 1:
            raise MlcError("threads share the phases of a tile loop: profile them with threads=1")
        self.plan = plan = program.plan()
        self.signature = program.signature
        target = cpu_of(plan, "profiling")
        loops, self.count = profiled_loops(plan, phases=phases)
        self.clock = KernelClock(self.count)
        name = f"{program.name}.profiled"
        images = [object_of(unit.text, target).image for unit in emit_units(loops, target)]
        shim = emit_shim(program.signature, program.name)
        images.append(object_of(shim, target, opt_level=SHIM_OPT_LEVEL).image)
        self.entry = load_entry(
            images,
            program.name,
            program.signature,
            slow=_refuse(name),
            on_error=raiser(sites_of(loops)),
            thread_count=program.options.threads,
            imports=self.clock.symbols,
        )

    def given_anew(self, arguments: Sequence[object]) -> Callable[[], None]:
        """
        What gives the arguments that calls overwrite the values that they have now: by stores that
        leave them in caches, where what a program has written lies, as copies of memory may not.
        """
        pairs = zip(self.signature.args, arguments, strict=True)
        written = [np.asarray(x).reshape(-1).view(np.uint8) for arg, x in pairs if arg.donated]
        kept = [x.copy() for x in written]

        def give() -> None:
            for x, values in zip(written, kept, strict=True):
                np.bitwise_or(values, 0, out=x)

        return give

    def call(self, arguments: Sequence[object]) -> list[float]:
        """Seconds of each kernel or phase in one call."""
        self.clock.clear()
        self.entry.builtin(*arguments)
        return self.clock.seconds()

    def run(self, arguments: Sequence[object], seconds: float) -> Profile:
        """
        Calls for so many seconds, and once before; five times at least. Calls during which the
        thread lost its core do not count, unless all did. Donated arguments are given as they were
        for each call, and left so: a sort of what is sorted already is another program.
        """
        give = self.given_anew(arguments)
        self.call(arguments)
        least = [inf] * self.count
        kept, calls, end = list(least), 0, time.perf_counter() + seconds
        while calls < LEAST_CALLS or time.perf_counter() < end:
            give()
            before = lost_cores()
            found = self.call(arguments)
            least = list(map(min, least, found))
            if lost_cores() == before:
                kept = list(map(min, kept, found))
            calls += 1
        give()
        if inf in kept:
            kept = least
        return Profile(tuple(kept), tuple(self.clock.runs()), calls)


def lost_cores() -> int:
    """How often this thread had to leave its core to others."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _start_clocks(plan: ModuleOp, *, phases: bool) -> int:
    """Numbers what has a clock, in program order; gives how many have one."""
    found: dict[Operation, None] = {}
    for op in running_kernels(plan):
        loop = None if phases else outermost_tiles(op)
        found[op if loop is None else loop] = None
    for number, op in enumerate(found):
        op.attributes[CLOCK] = IntegerAttr(number, i64)
    return len(found)


def profiled_loops(plan: ModuleOp, *, phases: bool) -> tuple[ModuleOp, int]:
    """The plan at the end of the loops stage, and how many clocks there are."""
    marked = plan.clone()
    count = _start_clocks(marked, phases=phases)
    loops, context = lower_profiled(at_tiles(marked)), Context()
    lowering, *rest = backend_of(target_of(plan)).stage("loops").steps
    assert lowering.name == "mlc-plan-to-loops"
    for step in rest:
        registry.load(step.name)().apply(context, loops)
    return loops, count


def _refuse(name: str) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise TypeError(f"{name} takes arrays of exactly the types it is compiled for")

    return refuse
