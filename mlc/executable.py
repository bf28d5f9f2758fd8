"""A compiled function: code in this process, and what can be known about it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from xdsl.dialects.builtin import (
    ModuleOp,
    StringAttr,
)

from mlc import knobs
from mlc.artifact import FORMAT, Artifact
from mlc.backends import backend_of
from mlc.cached_property import cached_property
from mlc.collector import collector_off, imported
from mlc.dialects.program import UNROLLED, entry_function
from mlc.dialects.signature import EntrySignature, wanted
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.fingerprint import fingerprint
from mlc.lazy_dataclass import dataclass
from mlc.options import Options
from mlc.runtime.cache import object_cache, object_key
from mlc.runtime.jit import LoadError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mlc.backends import Loaded
    from mlc.levels import Levels, Shown
    from mlc.passes.cost.model import Counts
    from mlc.passes.report.report import Plan
    from mlc.passes.report.timeline import Memory
    from mlc.pipeline import Report
    from mlc.profile import Profile
    from mlc.runtime.returned import Returned
    from mlc.why_not import Calls, Edge, WhyNot


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one call should cost."""

    work: Counts
    predicted_s: float
    sizes: Mapping[str, int]
    flops_by_line: Mapping[str, int]

    @property
    def flops(self) -> int:
        """Arithmetic operations."""
        return self.work.flops

    @property
    def bytes_moved(self) -> int:
        """Bytes that kernels read and write."""
        return self.work.bytes

    @property
    def intensity(self) -> float:
        """Arithmetic operations per byte."""
        return self.work.intensity

    @property
    def intensity_per_access(self) -> float:
        """Arithmetic operations per element read or written."""
        return self.work.intensity_per_access


def nothing_made() -> None:
    """What is made of results that are returned as they are."""


class Executable:
    """A compiled function. `builtin` is what to call: it costs no Python frame."""

    def __init__(
        self,
        levels: Callable[[], Levels],
        options: Options,
        artifact: Artifact,
        entry: Loaded,
        *,
        from_cache: bool,
        times_s: Mapping[str, float],
        passes_s: Sequence[tuple[str, float]] = (),
    ) -> None:
        self._levels = levels
        self.options = options  # what it was compiled with
        self.entry = entry
        self.builtin = entry.builtin
        self.artifact = artifact
        self.times_s = dict(times_s)  # stage -> seconds
        self.passes_s = tuple(passes_s)  # as they ran; none of what comes from a cache
        self.compilations = 0 if from_cache else 1
        self.cache_hits = 1 if from_cache else 0
        self.captured: Sequence[NDArray[Any]] = ()
        """Arrays of the surroundings of a Python function: its last arguments."""
        self.returned: Callable[[], Returned | None] = nothing_made
        """What a Python function makes of the results; MlcError where a file cannot hold that."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Calls the compiled function; `builtin` does the same with one Python frame less."""
        return self.builtin(*args, **kwargs)

    @cached_property
    def levels(self) -> Levels:
        """The program at every level, for reports."""
        return self._levels()

    @property
    def signature(self) -> EntrySignature:
        """What it takes."""
        return self.artifact.signature

    @property
    def module(self) -> ModuleOp:
        """A new module of the program before any pass."""
        return self.levels.at_trace()

    def set_slow(self, slow: Callable[..., object]) -> None:
        """What takes the arguments that this code does not."""
        self.entry.set_slow(slow)

    def text(self, level: Shown) -> str:
        """The program at a level, as `mlc opt` reads it ("code": LLVM IR); or as "stablehlo"."""
        return self.levels.text(level)

    def asm(self) -> str:
        """The assembly of every module."""
        return self.levels.asm()

    def plan(self, **sizes: int) -> Plan:
        """The kernels and the buffers between them, for these values of the symbols."""
        return self.levels.report(sizes)

    def cost(self, **sizes: int) -> Cost:
        """The whole call's cost, for these values of the symbols."""
        from mlc.passes.report.report import by_source_line, total

        plan, known = self.plan(**sizes), self.levels.known_sizes(sizes)
        return Cost(
            work=total(plan),
            predicted_s=plan.predicted_s,
            sizes=known,
            flops_by_line=by_source_line(self.levels.plan(), known),
        )

    def memory(self, **sizes: int) -> Memory:
        """What a call allocates, for these values of the symbols."""
        return self.levels.memory(sizes, self.artifact.memory)

    def profile(self, *arguments: object, seconds: float = 0.2) -> Profile:
        """Seconds of each kernel of `plan()`, measured in calls that follow one another."""
        from mlc.profile import Profiler

        return Profiler(self.levels).run(arguments, seconds)

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Writes the function, with the arrays that it captured, to a file that `mlc.load` reads in a
        process without a compiler. OSError where it cannot be written, MlcError where it does what
        needs Python, such as printing.
        """
        from mlc.saved import save

        explanation = self.levels.explain({})
        texts = {
            "trace": self.levels.traced,
            "explain.txt": explanation.said("text"),
            "explain.json": explanation.said("json"),
        }
        needs, support = backend_of(self.options.target).beside(self.artifact, self.options.target)
        save(
            path,
            self.artifact,
            features=needs,
            support=support,
            captured=self.captured,
            returned=self.returned(),
            texts=texts,
        )

    def remarks(self) -> list[str]:
        """What the passes had to say, each with the user's line."""
        return list(map(str, self.levels.remarks()))

    def why_not(
        self,
        producer: str,
        consumer: str,
        *,
        measure: Sequence[object] | None = None,
        **sizes: int,
    ) -> WhyNot:
        """
        Whether what the line `producer` computes shares a kernel with what the line `consumer` does
        with it, and what the other way would cost. Lines are "FILE:LINE". `measure`: arguments of
        calls that time both plans. Raises MlcError where nothing comes from a line.
        """
        from mlc.passes.report.explain.edges import Line
        from mlc.why_not import why_not

        lines = Line.parse(producer), Line.parse(consumer)
        return why_not(self.levels, *lines, sizes, calls_of(measure))

    def unfused(
        self, *, measure: Sequence[object] | None = None, most: int | None = None, **sizes: int
    ) -> list[Edge]:
        """
        The answers of `why_not` for ops that read what another kernel computes: all, or the first
        `most`, each of which may ask for a plan of its own.
        """
        from mlc.why_not import unfused

        return unfused(self.levels, sizes, calls_of(measure), most)

    def explain(
        self,
        format: Literal["text", "json", "html"] = "text",  # noqa: A002 - as users call it
        **sizes: int,
    ) -> str:
        """
        Plan, costs, memory step by step, and what passes decided: as text, as JSON
        (docs/explain.md), or as one page of HTML.
        """
        return self.levels.explain(sizes).said(format)


def calls_of(arguments: Sequence[object] | None) -> Calls | None:
    """Calls with these arguments, by which `mlc.why_not` measures plans."""
    from mlc.why_not import Calls

    return None if arguments is None else Calls(arguments, _builtin)


@collector_off()
def compile_module(
    module: ModuleOp,
    signature: EntrySignature,
    options: Options,
    *,
    slow: Callable[..., object] | None = None,
    sizes: Mapping[str, int] | None = None,
    source: ModuleOp | None = None,
) -> Executable:
    """
    The module's function as code in this process, from the caches where they know it.

    `slow` is called with arguments that `signature` does not take. `sizes` are values of the
    symbols for which costs are reported. The module must not be used afterwards; `source` is the
    same module, which nobody rewrites: reports take the user's lines from it.
    """
    start = time.perf_counter()
    backend = backend_of(options.target)
    found = entry_function(module).sym_name.data
    name = own_name(module, options)
    source = source if name == found else None
    text = str(module) if source is None else None

    def levels(fresh: ModuleOp | None) -> Levels:
        from mlc.levels import Levels

        return Levels(text, name, signature, options, sizes or {}, fresh=fresh)

    slow = slow if slow is not None else refusing(name, signature)
    key = _key(module, signature, options)
    # a dump shows the passes, so they have to run
    packed = object_cache().get(key) if knobs.current().dump is None else None
    loading = time.perf_counter()
    loaded = None if packed is None else _loaded_from_cache(packed, options, slow)
    if loaded is not None:
        end = time.perf_counter()
        times = {"load": end - loading, "total": end - start}
        unread = partial(levels, module if source is None else source)
        return Executable(unread, options, *loaded, from_cache=True, times_s=times)
    with backend.meanwhile():
        from mlc.building import build
        from mlc.pipeline import Report

        imported("mlc.building")
        program, report = levels(source), Report()
        if options.tune is not None:
            module = _tuned(module, options, report)
        artifact = build(module, program, report, fresh=packed is not None)
    object_cache().put(key, artifact.pack())
    loading = time.perf_counter()
    entry = backend.load(artifact, options.target, slow, options.threads)
    end = time.perf_counter()
    times = {**report.stage_s(), "load": end - loading, "total": end - start}
    return Executable(
        lambda: program,
        options,
        artifact,
        entry,
        from_cache=False,
        times_s=times,
        passes_s=report.passes,
    )


def own_name(module: ModuleOp, options: Options) -> str:
    """The name of the module's function: another one where the code calls a C function of its."""
    function = entry_function(module)
    name = function.sym_name.data
    if name in backend_of(options.target).reserved():
        name += "_"
        function.properties["sym_name"] = StringAttr(name)
    return name


def _tuned(module: ModuleOp, options: Options, report: Report) -> ModuleOp:
    """The plan of a program, with schedules by the clock."""
    from mlc.pipeline import run_pipeline
    from mlc.tuning import tune

    planned = run_pipeline(module, options, until="plan", report=report)
    start = time.perf_counter()
    tune(planned, options, _builtin)
    report.passes.append(("tune", time.perf_counter() - start))
    return planned


def _builtin(
    module: ModuleOp, signature: EntrySignature, options: Options
) -> Callable[..., object]:
    return compile_module(module, signature, options).builtin


def _key(module: ModuleOp, signature: EntrySignature, options: Options) -> str:
    """
    The first key of D20: traced program, options with every figure of the machine (they decide
    plans), entry, and the lines of ops that may fail.
    """
    lines = [
        str(op.location)
        for op in module.walk()
        if isinstance(op, TensorOp) and (op.CHECKS or isinstance(op, ReduceOp))
    ]
    parts = (options.key(), repr(signature), "\n".join(lines))
    return object_key(FORMAT, fingerprint(module, UNROLLED), *(part.encode() for part in parts))


def _loaded_from_cache(
    packed: bytes, options: Options, slow: Callable[..., object]
) -> tuple[Artifact, Loaded] | None:
    """An artifact and its entry; None where it cannot be read or loaded: it counts as none."""
    try:
        artifact = Artifact.unpack(packed)
        target = options.target
        return artifact, backend_of(target).load(artifact, target, slow, options.threads)
    except LoadError:
        return None


def refusing(name: str, signature: EntrySignature) -> Callable[..., object]:
    """What is called with arguments that a signature does not take, where nothing takes them."""

    def refuse(*args: object, **kwargs: object) -> object:
        found = ", ".join(
            f"{getattr(x, 'dtype', type(x).__name__)}{list(getattr(x, 'shape', ()))}" for x in args
        )
        raise TypeError(f"{name} is compiled for {wanted(signature)}, found ({found})")

    return refuse
