"""A compiled function: code in this process, and what can be known about it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from xdsl.dialects.builtin import (
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlc import knobs
from mlc.backends import Level
from mlc.dialects.dims import Dim, product
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import entry_function
from mlc.dialects.signature import EntrySignature
from mlc.dialects.target import CpuTarget, GpuTarget
from mlc.dialects.tensor.control import ForOp, WhileOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.tiles import TilesOp, bounds_of
from mlc.levels import CodeUnit, Levels, emit_units
from mlc.lowering.entry_shim import OPT_LEVEL as SHIM_OPT_LEVEL
from mlc.lowering.entry_shim import emit_shim
from mlc.passes.cost import Work, predicted_ns
from mlc.passes.report import Plan, by_source_line, total
from mlc.passes.timeline import Memory, trips_of
from mlc.pipeline import Dump, Options, Report, level_of, run_pipeline
from mlc.runtime.cache import object_cache, object_key
from mlc.runtime.entry import LoadedEntry, load_entry
from mlc.runtime.jit import LoadError
from mlc.runtime.llvm import emit_assembly
from mlc.runtime.objects import CompiledObject, object_of
from mlc.runtime.support import support
from mlc.sites import Site, raiser, sites_of

if TYPE_CHECKING:
    from mlc.profile import Profile
    from mlc.runtime.cuda import LoadedProgram
    from mlc.why_not import Calls, Edge, WhyNot

UNKNOWN_TRIPS = 1000  # assumed of a loop whose count is data: long enough to let go of the GIL


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one call should cost."""

    work: Work
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


class Executable:
    """A compiled function. `builtin` is what to call: it costs no Python frame."""

    def __init__(
        self,
        program: Levels,
        entry: LoadedEntry | LoadedProgram,
        sites: Sequence[Site],
        *,
        from_cache: bool,
        times_s: Mapping[str, float],
    ) -> None:
        self.levels = program  # the program at every level, for reports
        self.entry = entry
        self.builtin = entry.builtin
        self.sites = tuple(sites)
        self.times_s = dict(times_s)  # stage -> seconds
        self.compilations = 0 if from_cache else 1
        self.cache_hits = 1 if from_cache else 0

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Calls the compiled function; `builtin` does the same with one Python frame less."""
        return self.builtin(*args, **kwargs)

    @property
    def options(self) -> Options:
        """What it was compiled with."""
        return self.levels.options

    @property
    def signature(self) -> EntrySignature:
        """What it takes."""
        return self.levels.signature

    def set_slow(self, slow: Callable[..., object]) -> None:
        """What takes the arguments that this code does not."""
        self.entry.set_slow(slow)

    def text(self, level: Level) -> str:
        """The program at a level, as `mlc opt` reads it (at "code": LLVM IR)."""
        return self.levels.text(level)

    def asm(self) -> str:
        """The assembly of every module."""
        return self.levels.asm()

    def plan(self, **sizes: int) -> Plan:
        """The kernels and the buffers between them, for these values of the symbols."""
        return self.levels.report(sizes)

    def cost(self, **sizes: int) -> Cost:
        """The whole call's cost, for these values of the symbols."""
        plan, known = self.plan(**sizes), self.levels.known_sizes(sizes)
        return Cost(
            work=total(plan),
            predicted_s=plan.predicted_s,
            sizes=known,
            flops_by_line=by_source_line(self.levels.plan(), known),
        )

    def memory(self, **sizes: int) -> Memory:
        """What a call allocates, for these values of the symbols."""
        return self.levels.memory(sizes)

    def profile(self, *arguments: object, seconds: float = 0.2) -> Profile:
        """Seconds of each kernel of `plan()`, measured in calls that follow one another."""
        from mlc.profile import Profiler

        return Profiler(self.levels).run(arguments, seconds)

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
        from mlc.passes.explain.edges import Line
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

    def compiled(
        module: ModuleOp, signature: EntrySignature, options: Options
    ) -> Callable[..., object]:
        return compile_module(module, signature, options).builtin

    return None if arguments is None else Calls(arguments, compiled)


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
    sizes = sizes or {}
    if isinstance(options.target, GpuTarget):
        exe = _build_for_gpu(module, signature, options, options.target, slow=slow, sizes=sizes)
        exe.levels.fresh = source
        return exe
    target = cpu_of(options)
    start = time.perf_counter()
    function = entry_function(module)
    name = function.sym_name.data
    if name in support().symbols:  # the code calls a C function of this name
        name += "_"
        function.properties["sym_name"] = StringAttr(name)
        source = None
    program = Levels(str(module), name, signature, options, sizes, fresh=source)
    key = _key(program, function)
    report = Report()
    # a dump shows the passes, so they have to run
    lookup = knobs.current().dump is None
    artifact = object_cache().get(key) if lookup else None
    slow = slow if slow is not None else _refuse(name, signature)
    loading = time.perf_counter()
    loaded = None if artifact is None else _loaded_from_cache(artifact, program, slow)
    known = loaded is not None
    if known and source is None:
        program.fresh = module
    if loaded is None:
        compiled = _compile(module, program, target, report, fresh=artifact is not None)
        object_cache().put(key, compiled)
        loading = time.perf_counter()
        loaded = _loaded(compiled, program, slow)
    entry, sites = loaded
    end = time.perf_counter()
    times = {**report.stage_s(), "load": end - loading, "total": end - start}
    return Executable(program, entry, sites, from_cache=known, times_s=times)


def _loaded(
    artifact: bytes, program: Levels, slow: Callable[..., object]
) -> tuple[LoadedEntry, list[Site]]:
    """The entry of an artifact, and what may go wrong in it."""
    sites, images = _unpacked(artifact)
    entry = load_entry(
        images,
        program.name,
        program.signature,
        slow=slow,
        on_error=raiser(sites),
        thread_count=program.options.threads,
    )
    return entry, sites


def _loaded_from_cache(
    artifact: bytes, program: Levels, slow: Callable[..., object]
) -> tuple[LoadedEntry, list[Site]] | None:
    """As `_loaded`; None where the artifact cannot be loaded: it counts as none."""
    try:
        return _loaded(artifact, program, slow)
    except LoadError:
        return None


def _build_for_gpu(
    module: ModuleOp,
    signature: EntrySignature,
    options: Options,
    target: GpuTarget,
    *,
    slow: Callable[..., object] | None,
    sizes: Mapping[str, int],
) -> Executable:
    """As `build`, for this process's GPU. Kernels' PTX is cached, the plan is not."""
    from mlc.lowering.gpu import emit_gpu
    from mlc.runtime.cuda import load_program

    start = time.perf_counter()
    name = entry_function(module).sym_name.data
    levels = Levels(str(module), name, signature, options, sizes)
    report = Report()
    loops = _lowered(module, levels, report, Dump.for_function(name))
    emitting = time.perf_counter()
    program = emit_gpu(loops, target)
    levels.code = [CodeUnit(k.name, k.llvm) for k in program.kernels]
    sites = sites_of(loops)
    loading = time.perf_counter()
    entry = load_program(
        program,
        signature,
        target,
        slow=slow if slow is not None else _refuse(name, signature),
        on_error=raiser(sites),
    )
    end = time.perf_counter()
    times = {"emit": loading - emitting, "load": end - loading, "total": end - start}
    times = {**report.stage_s(), **times}
    return Executable(levels, entry, sites, from_cache=False, times_s=times)


def _key(program: Levels, function: FuncOp) -> str:
    """The first key of D20: traced program, options, entry, and the lines of ops that may fail."""
    lines = [
        str(op.location)
        for op in function.walk()
        if isinstance(op, TensorOp) and (op.CHECKS or isinstance(op, ReduceOp))
    ]
    parts = (program.traced, program.options.key(), repr(program.signature), "\n".join(lines))
    return object_key(b"program", *(part.encode() for part in parts))


def _compile(
    module: ModuleOp, program: Levels, target: CpuTarget, report: Report, *, fresh: bool
) -> bytes:
    """The artifact: sites and objects of a program; `fresh`: not even objects from the cache."""
    dump = Dump.for_function(program.name)
    loops = _lowered(module, program, report, dump)
    start = time.perf_counter()
    program.code = emit_units(loops, target)
    work_ns = predicted_ns(_runs(module), target)
    shim = CodeUnit(
        f"{program.name}.shim", emit_shim(program.signature, program.name, work_ns=work_ns)
    )
    report.passes.append(("emit", time.perf_counter() - start))
    objects: list[CompiledObject] = []
    for unit in program.code:
        found = object_of(unit.text, target, fresh=fresh)
        objects.append(found)
        if dump is not None:
            dump.write_text(unit.name, "ll", unit.text, found.compile_s)
    objects.append(object_of(shim.text, target, opt_level=SHIM_OPT_LEVEL, fresh=fresh))
    if dump is not None:
        assembly = "\n".join(emit_assembly(unit.text, target) for unit in program.code)
        dump.write_text(program.name, "s", assembly, 0.0)
    report.passes.append(("llvm", sum(o.compile_s for o in objects)))
    return _packed(sites_of(loops), [o.image for o in objects])


def _lowered(module: ModuleOp, program: Levels, report: Report, dump: Dump | None) -> ModuleOp:
    """The module at the loops level; the plan is kept."""
    options = program.options
    if level_of(module) == "loops":
        if dump is not None:
            dump.write("trace", module, 0.0)
        return module
    program.planned = run_pipeline(module, options, until="plan", report=report, dump=dump)
    return run_pipeline(program.planned, options, done="plan", report=report, dump=dump)


def cpu_of(options: Options) -> CpuTarget:
    if isinstance(options.target, CpuTarget):
        return options.target
    raise MlcError(
        f"target {options.target.name!r} is a GPU: this build makes code for CPUs;"
        ' use target="host" or mlc build --emit ptx'
    )


def _runs(module: ModuleOp) -> list[tuple[KernelOp, Dim]]:
    """Each kernel and how often a call runs it."""
    found: list[tuple[KernelOp, Dim]] = []

    def visit(op: Operation, times: Dim) -> None:
        if isinstance(op, KernelOp):
            found.append((op, times))
            return
        inside = times * _trips(op) if isinstance(op, ForOp | WhileOp | TilesOp) else times
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    visit(inner, inside)

    visit(module, Dim.const(1))
    return found


def _trips(loop: ForOp | WhileOp | TilesOp) -> Dim:
    if isinstance(loop, TilesOp):
        largest = bounds_of(loop)
        loops = zip(loop.extents, loop.steps, strict=True)
        return product((n.substitute(largest) + step - 1) // step for n, step in loops)
    known = trips_of(loop)
    return Dim.const(UNKNOWN_TRIPS) if known is None else known


def _refuse(name: str, signature: EntrySignature) -> Callable[..., object]:
    def refuse(*args: object, **kwargs: object) -> object:
        wanted = ", ".join(
            f"{arg.dtype}[{', '.join(map(str, arg.dims))}]" if arg.kind == "array" else arg.kind
            for arg in signature.args
        )
        found = ", ".join(
            f"{getattr(x, 'dtype', type(x).__name__)}{list(getattr(x, 'shape', ()))}" for x in args
        )
        raise TypeError(f"{name} is compiled for ({wanted}), found ({found})")

    return refuse


def _packed(sites: Sequence[Site], images: Sequence[bytes]) -> bytes:
    head = json.dumps({"sites": [asdict(s) for s in sites], "sizes": [len(i) for i in images]})
    return len(head.encode()).to_bytes(8, "little") + head.encode() + b"".join(images)


def _unpacked(artifact: bytes) -> tuple[list[Site], list[bytes]]:
    """What `_packed` was given; LoadError for bytes that it did not make."""
    start = 8 + int.from_bytes(artifact[:8], "little")
    images: list[bytes] = []
    try:
        head = json.loads(artifact[8:start])
        for size in head["sizes"]:
            images.append(artifact[start : start + size])
            start += size
        return [Site(**site) for site in head["sites"]], images
    except (ValueError, LookupError, TypeError) as error:
        raise LoadError(f"no artifact of mlc: {error}") from None
