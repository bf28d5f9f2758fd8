"""A program at every level, and what is known of it there. Nothing here loads or runs code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

from xdsl.dialects.builtin import ModuleOp

from mlc.artifact import CodeUnit, MemoryPlan
from mlc.backends import LEVELS, Level, backend_of
from mlc.dialects.errors import MlcError
from mlc.dialects.program import entry_function, unrolled_loops
from mlc.dialects.signature import EntrySignature
from mlc.dialects.target import Target
from mlc.dialects.typical import typical_of
from mlc.lowering.emit import joined
from mlc.memory import memory_of_plan
from mlc.options import ASSUMED_SIZE, Options
from mlc.passes.remarks import Remark, listening
from mlc.passes.report.report import Plan, plan_of
from mlc.passes.report.timeline import Memory
from mlc.pipeline import run_pipeline

if TYPE_CHECKING:
    from mlc.passes.report.explain.explanation import Explanation
    from mlc.passes.report.launches import LaunchReport

Shown = Literal[Level, "stablehlo"]


class Levels:
    """A program, at whichever level somebody asks for. Nothing here loads or runs code."""

    def __init__(
        self,
        traced: str | None,
        name: str,
        signature: EntrySignature,
        options: Options,
        sizes: Mapping[str, int],
        *,
        fresh: ModuleOp | None = None,
    ) -> None:
        assert traced is not None or fresh is not None
        self._traced = traced  # None: as `fresh` is printed
        self.name = name
        self.signature = signature
        self.options = options
        self.sizes = dict(sizes)
        self.fresh = fresh  # the traced module, with source locations, while nobody rewrites it
        self.planned: ModuleOp | None = None
        self.heard: tuple[Remark, ...] | None = None
        self.lowered: ModuleOp | None = None
        self.code: list[CodeUnit] | None = None

    @property
    def traced(self) -> str:
        """The program before any pass, as text."""
        if self._traced is None:
            self._traced = str(self.fresh)
        return self._traced

    def known_sizes(self, given: Mapping[str, int]) -> dict[str, int]:
        """Every symbol's value: given now, known from compiling, typical, or assumed."""
        if unknown := set(given) - set(self.signature.symbols):
            found = ", ".join(self.signature.symbols) or "none"
            raise MlcError(f"no symbol is called {min(unknown)!r}; expected one of: {found}")
        said = typical_of(self.fresh or self.at_trace()) if self.signature.symbols else {}
        both = {**said, **self.sizes, **given}
        return {name: both.get(name, ASSUMED_SIZE) for name in self.signature.symbols}

    def at_trace(self) -> ModuleOp:
        """A new module of the program before any pass."""
        from mlc.text import parse_text

        fresh = self.fresh
        return parse_text(self.traced, self.name) if fresh is None else fresh.clone()

    def at(self, level: Level) -> ModuleOp:
        """A new module of the program at a level."""
        module, options = self.at_trace(), self.options
        if options.tune is None or LEVELS.index(level) < LEVELS.index("plan"):
            return run_pipeline(module, options, until=level)
        from mlc.tuning import take_known

        planned = run_pipeline(module, options, until="plan")
        take_known(planned, options)
        return run_pipeline(planned, options, until=level, done="plan")

    def plan(self) -> ModuleOp:
        """The plan."""
        if self.planned is None:
            self.planned = self.at("plan")
        return self.planned

    def loops(self) -> ModuleOp:
        """The loops, which the code is of."""
        if self.lowered is None:
            self.lowered = self.at("loops")
        return self.lowered

    def text(self, level: Shown) -> str:
        """The program as text; "stablehlo": at the tensor level, in that dialect."""
        if level == "stablehlo":
            from mlc.lowering.stablehlo import stablehlo_of

            return stablehlo_of(self.at("tensor"))
        if level not in LEVELS:
            known = ", ".join(get_args(Shown))
            raise ValueError(f"no level is called {level!r}; expected one of {known}")
        if level == "code":
            return self.llvm()
        return str(self.plan() if level == "plan" else self.at(level)) + "\n"

    def units(self) -> list[CodeUnit]:
        """The LLVM modules."""
        if self.code is None:
            self.code = emit_units(self.loops(), self.options.target)
        return self.code

    def llvm(self, unit: str | None = None) -> str:
        """The LLVM modules as one, or the one called `unit`."""
        units = self.units()
        if unit is None:
            return joined([(u.name, u.text) for u in units])
        for each in units:
            if each.name == unit:
                return each.text
        known = ", ".join(u.name for u in units) or "none"
        raise MlcError(f"no module is called {unit!r}; expected one of {known}")

    def asm(self) -> str:
        """The assembly of all modules: on a GPU, PTX."""
        return assembly(self.llvm(), self.options.target)

    def report(self, sizes: Mapping[str, int]) -> Plan:
        """The kernels and the buffers between them."""
        return self.report_of(self.plan(), sizes)

    def report_of(self, planned: ModuleOp, sizes: Mapping[str, int]) -> Plan:
        """The kernels of some plan of this program."""
        return plan_of(
            planned, self.options.target, self.known_sizes(sizes), self.options.thread_count()
        )

    def memory(self, sizes: Mapping[str, int], plan: MemoryPlan | None = None) -> Memory:
        """
        Bytes of a call, and what lies where while each kernel runs. `plan`: its code's, if known.
        """
        known, threads = self.known_sizes(sizes), self.options.thread_count()
        return memory_of_plan(self.plan(), known, threads, plan=plan)

    def remarks(self) -> tuple[Remark, ...]:
        """What the passes had to say, after which loops were traced trip by trip."""
        if self.heard is None:
            with listening() as heard:
                planned = self.at("plan")
            self.planned = self.planned or planned
            loops = unrolled_loops(entry_function(planned))
            said = [Remark("unrolled", why, at) for at, why in loops]
            self.heard = tuple(dict.fromkeys([*said, *heard]))
        return self.heard

    def explain(self, sizes: Mapping[str, int]) -> Explanation:
        """All that is known of the plan."""
        from mlc.passes.report.explain.explanation import Explanation
        from mlc.passes.report.explain.graph import graph_of

        known, plan = self.known_sizes(sizes), self.plan()
        libraries = backend_of(self.options.target).libraries(plan)
        return Explanation(
            name=self.name,
            target=self.options.target,
            threads=self.options.thread_count(),
            sizes=known,
            plan=self.report(sizes),
            memory=self.memory(sizes),
            graph=graph_of(plan, known),
            remarks=(*self.remarks(), *libraries),
            launches=self.launches(sizes),
        )

    def launches(self, sizes: Mapping[str, int]) -> tuple[LaunchReport, ...]:
        """What each launch of a call takes, on machines that launch grids."""
        target = self.options.target
        known, kernels = self.known_sizes(sizes), self.report(sizes).kernels
        symbols = {name: known[name] for name in self.signature.symbols}
        return backend_of(target).launches(lambda: self.at("loops"), symbols, kernels, target)


def assembly(llvm: str, target: Target) -> str:
    """The assembly of a module of LLVM IR: on a GPU, PTX."""
    return backend_of(target).assembly(llvm, target)


def emit_units(loops: ModuleOp, target: Target) -> list[CodeUnit]:
    """LLVM IR of each function of a loops-level module, the entry last; on GPUs, of each kernel."""
    return backend_of(target).emit(loops, target)
