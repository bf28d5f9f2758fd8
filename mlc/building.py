"""What no cache has: a traced program made into code."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from mlc.artifact import Artifact, Request
from mlc.backends import backend_of
from mlc.dialects.program import Take
from mlc.error_sites import sites_of
from mlc.levels import Levels
from mlc.memory import memory_plan_of
from mlc.pipeline import Dump, Report, level_of, run_pipeline


def build(module: ModuleOp, program: Levels, report: Report, *, fresh: bool) -> Artifact:
    """A program compiled; `fresh`: not even objects come from the cache. The plan is kept."""
    dump = Dump.for_function(program.name)
    target = program.options.target
    backend = backend_of(target)
    loops = module

    def lower(take: Take | None) -> ModuleOp:
        nonlocal loops
        loops = _lowered(module, program, report, dump, take)
        return loops

    request = Request(name=program.name, signature=program.signature, planned=module, fresh=fresh)
    built = backend.build(lower, request, target)
    program.code = list(built.units)
    report.passes += [("emit", built.emit_s), ("llvm", built.llvm_s)]
    if dump is not None:
        for unit, seconds in zip(built.units, built.compile_s, strict=False):
            dump.write_text(unit.name, "ll", unit.text, seconds)
        assembly = "\n".join(backend.assembly(unit.text, target) for unit in built.units)
        dump.write_text(program.name, "s", assembly, 0.0)
    return Artifact(
        name=program.name,
        isa=target.isa(),
        signature=program.signature,
        sites=tuple(sites_of(loops)),
        kernels=built.kernels,
        host=built.host,
        memory=memory_plan_of(loops),
        needs=built.needs,
    )


def _lowered(
    module: ModuleOp, program: Levels, report: Report, dump: Dump | None, take: Take | None
) -> ModuleOp:
    """The module at the loops level; `take`: see `run_pipeline`."""
    options = program.options
    if level_of(module) == "loops":
        if dump is not None:
            dump.write("trace", module, 0.0)
        return module
    program.planned = run_pipeline(module, options, until="plan", report=report, dump=dump)
    return run_pipeline(program.planned, options, done="plan", report=report, dump=dump, take=take)
