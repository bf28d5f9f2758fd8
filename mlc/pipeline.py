"""`run_pipeline` walks the stages of a backend (mlc/backends.py), and checks what each leaves."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from mlc import knobs, registry
from mlc.backends import BACKENDS, LEVELS, RULES, Level, Stage, Step, backend_of
from mlc.dialects.analysis.dominance import verify_dominance
from mlc.dialects.errors import CompilerBug, PlanError
from mlc.dialects.numerics import ATTRIBUTE as NUMERICS
from mlc.dialects.plan import Schedule, ScheduleAttr
from mlc.dialects.program import Take
from mlc.dialects.target.attribute import ATTRIBUTE, TargetAttr
from mlc.dialects.tile.words import words_of
from mlc.lazy_dataclass import dataclass
from mlc.lowering.plan_to_loops import lower_plan
from mlc.memory import memory_of_plan
from mlc.options import Options
from mlc.passes import wellformed
from mlc.passes.cost.sizes import sizes_of
from mlc.passes.plan.memory.rematerialise import rematerialise
from mlc.passes.plan.tiling.choose_tiles import LIMIT
from mlc.passes.plan.tiling.schedule import WANTED
from mlc.passes.tile.plan_to_tiles import has_words
from mlc.waiting import at

if TYPE_CHECKING:
    from mlc.passes.rules.search import Judge

SEARCH = Step("superopt", "functions are one, and no rule was applied yet", options=("discover",))
"""`mlc.compile(discover=…)`: no pass, since it judges by what all passes make of a program."""


@dataclass
class Report:
    """What a run of the pipeline took: (pass, seconds) in order."""

    passes: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def stage_s(self) -> Mapping[str, float]:
        """Seconds per stage."""
        total: dict[str, float] = {}
        stages = [stage for row in BACKENDS for stage in row.stages]
        names = {step.name: stage.name for stage in stages for step in stage.steps}
        for name, seconds in self.passes:
            stage = names.get(name, name)
            total[stage] = total.get(stage, 0.0) + seconds
        return total


def run_pipeline(
    module: ModuleOp,
    options: Options,
    *,
    until: Level = "loops",
    done: Level | None = None,
    report: Report | None = None,
    dump: Dump | None = None,
    take: Take | None = None,
) -> ModuleOp:
    """
    The module at the end of the stage `until`, from whatever level it is at now.

    `done`: the stage whose end it stands at already; without it the level's stage runs again.
    `take` gets each function as soon as it is at the loops level, where nobody asks for a module
    after each pass.

    The module is rewritten in place, until its loops-level successor replaces it. Nothing is
    printed, parsed or verified on the way, unless MLC_VERIFY or a dump asks for it.
    """
    prepare(module, options)
    context = Context()
    verify = knobs.current().verify
    if dump is not None and done is None:
        dump.write("trace", module, 0.0)
    level = level_of(module) if done is None else done
    if level == "plan" and done is None:  # as somebody has written it, for whatever target
        for op, message in wellformed.faults(module):
            raise PlanError(f"{op.name}: {message}")
    first = LEVELS.index(level) + (done is not None)
    if first > LEVELS.index(until):
        return module
    for stage in backend_of(options.target).stages[first:]:
        if stage.name == "loops" and take is not None and dump is None and not verify:
            return _by_functions(stage, module, take, report)
        for step in steps_of(stage.name, options):
            before = str(module) if verify else ""
            start = time.perf_counter()
            at(step.name)
            module = apply_step(step, module, options, context)
            seconds = time.perf_counter() - start
            if report is not None:
                report.passes.append((step.name, seconds))
            if dump is not None:
                dump.write(step.name.removeprefix("mlc-"), module, seconds)
            if verify:
                _verify(module, step.name, before, dump)
        check_leaves(module, stage, dump)
        if stage.name == until:
            break
    return module


class FunctionPass(Protocol):
    """A pass that looks at one function at a time."""

    def apply_to(self, function: FuncOp, module: ModuleOp) -> None:
        """Rewrites a function in place, for the target of a module."""
        ...


def _by_functions(stage: Stage, module: ModuleOp, take: Take, report: Report | None) -> ModuleOp:
    """The stage `loops`, each function of which goes through the other passes, and to `take`."""
    first, *others = stage.steps
    passes = [(step.name, cast("FunctionPass", registry.load(step.name)())) for step in others]
    seconds = {step.name: 0.0 for step in stage.steps}
    apart = 0.0

    def through(function: FuncOp) -> None:
        nonlocal apart
        start = time.perf_counter()
        at(f"code of {function.sym_name.data}")
        for name, chosen in passes:
            begin = time.perf_counter()
            chosen.apply_to(function, module)
            seconds[name] += time.perf_counter() - begin
        check_leaves(function, stage)
        take(function)
        apart += time.perf_counter() - start

    start = time.perf_counter()
    loops = lower_plan(module, through)
    seconds[first.name] = time.perf_counter() - start - apart
    if report is not None:
        report.passes += seconds.items()
    return loops


def steps_of(level: Level, options: Options) -> tuple[Step, ...]:
    """The steps of a stage, a search by rules among them where it is asked for."""
    steps = backend_of(options.target).stage(level).steps
    if level != "tensor" or options.discover is None:
        return steps
    assert steps[: len(RULES)] == RULES
    return (*RULES, SEARCH, *steps[len(RULES) :])


def judge_by_plans(options: Options, sizes: Mapping[str, int]) -> Judge:
    """Judges programs by the plans that follow, for these values of symbols."""
    from mlc.searched import judge_of

    return judge_of(options, sizes, partial(_planned, options))


def _planned(options: Options, module: ModuleOp) -> ModuleOp:
    """The plan of a program that a search has met: there is no other search for it."""
    return run_pipeline(module, replace(options, discover=None), until="plan")


def apply_step(step: Step, module: ModuleOp, options: Options, context: Context) -> ModuleOp:
    """The module after one step: rewritten in place, or another one."""
    if step.name == "mlc-plan-to-loops":
        return lower_plan(module)  # a new module: the plan stays for whoever asks for it
    if step.name == "mlc-plan-to-tiles":
        if not has_words(module):
            return module
        module = module.clone()  # as above
    if step is SEARCH:
        from mlc.searched import searched  # few programs need it

        searched(module, options, partial(_planned, options))
        return module
    chosen = {name: getattr(options, name) for name in step.options}
    with sizes_of(module):
        if step.name == "mlc-rematerialise" and LIMIT in module.attributes:
            threads = options.thread_count()  # they decide what kernels need beside their buffers
            rematerialise(module, options.fusion, lambda plan: memory_of_plan(plan, {}, threads))
        else:
            registry.load(step.name)(**chosen).apply(context, module)
    return module


def prepare(module: ModuleOp, options: Options) -> None:
    """
    States in the IR what is asked for, so that passes are functions of it alone. ValueError where
    the words of a schedule do not parse.
    """
    module.attributes[ATTRIBUTE] = TargetAttr(options.target)
    module.attributes[NUMERICS] = StringAttr(options.numerics)
    if options.peak_bytes is not None:
        module.attributes[LIMIT] = IntegerAttr(options.peak_bytes, i64)
    if options.schedule is not None:
        module.attributes[WANTED] = ScheduleAttr(Schedule(words_of(options.schedule)))


def level_of(module: ModuleOp) -> Level:
    """The level a module is written at."""
    level: Level = "tensor"
    for function in module.body.block.ops:
        if function.name == "mlc_tile.kernel":
            return "tiles"
        if "mlc.entry" in function.attributes or function.name.startswith("memref."):
            return "loops"
        for op in function.walk():
            if op.name == "mlc.kernel":
                level = "plan"
            elif op.name.startswith(("scf.", "memref.", "vector.", "mlc_")):
                return "loops"
    return level


_OF_OPS_ABOVE = ("mlc.kernel", "mlc_tile.map", "mlc_tile.elements", "mlc_tile.nest")


def check_leaves(module: ModuleOp | FuncOp, stage: Stage, dump: Dump | None = None) -> None:
    """CompilerBug if an op is left that the stage forbids."""
    seen: set[type[Operation]] = set()
    pending: list[Operation] = list(module.body.block.ops)
    while pending:
        op = pending.pop()
        if op.name in _OF_OPS_ABOVE:
            seen.add(type(op))
            continue  # inside stand the ops of the level above
        if type(op) not in seen:
            if not stage.may_leave(op.name):
                last = stage.steps[-1].name
                raise CompilerBug(
                    f"{last} left '{op.name}' behind, which stage \"{stage.name}\" forbids;"
                    f" reproducer: {reproducer(module, last, dump)}"
                )
            seen.add(type(op))
        for region in op.regions:
            for block in region.blocks:
                pending.extend(block.ops)


def _verify(module: ModuleOp, name: str, before: str, dump: Dump | None) -> None:
    try:
        module.verify()
        verify_dominance(module)
    except VerifyException as error:
        path = reproducer(before, name, dump)
        raise CompilerBug(
            f"the IR is wrong after {name}: {error}\nreproducer: mlc opt {path} -p {name}"
        ) from error


def reproducer(module: Operation | str, name: str, dump: Dump | None) -> Path:
    """A file with the module, in the dump folder or a temporary one."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="mlc-")) if dump is None else dump.folder
    path = folder / f"reproducer-{name}.mlir"
    path.write_text(str(module) + "\n")
    return path


class Dump:
    """Numbered files of one compilation, each of which `mlc opt` reads, and `index.txt`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("[0-9][0-9]-*"):
            if old.is_file():
                old.unlink()
        self._index: list[str] = []
        self._last = ""

    @staticmethod
    def for_function(name: str) -> Dump | None:
        """Where MLC_DUMP asks for a dump: that folder; one inside it for each later function."""
        root = knobs.current().dump
        if root is None:
            return None
        number = _dumps.get(root, 0)
        _dumps[root] = number + 1
        return Dump(root if number == 0 else root / f"{number}-{name}")

    def write(self, name: str, module: ModuleOp, seconds: float) -> None:
        """The module after a pass; nothing but a line of the index where it changed nothing."""
        text = str(module) + "\n"
        ops = sum(1 for _ in module.walk())
        unchanged = text == self._last
        self._last = text
        self.line(name, seconds, f"{ops} ops" + ("  (unchanged)" if unchanged else ""))
        if not unchanged:
            self._path(name, "mlir").write_text(text)

    def write_text(self, name: str, suffix: str, text: str, seconds: float) -> None:
        """A text of the code level."""
        self.line(f"{name}.{suffix}", seconds, f"{text.count(chr(10))} lines")
        self._path(name, suffix).write_text(text)

    def line(self, name: str, seconds: float, what: str) -> None:
        """One line of the index."""
        self._index.append(f"{len(self._index):02d} {name:<28} {seconds * 1e3:9.3f} ms  {what}")
        (self.folder / "index.txt").write_text("\n".join(self._index) + "\n")

    def _path(self, name: str, suffix: str) -> Path:
        return self.folder / f"{len(self._index) - 1:02d}-{name}.{suffix}"


_dumps: dict[Path, int] = {}
