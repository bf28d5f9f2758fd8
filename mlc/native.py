"""What the row of CPUs does below the loops level: LLVM IR, objects, assembly."""

from __future__ import annotations

import time
from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlc.artifact import Built, Code, CodeUnit, Request
from mlc.dialects.analysis.trips import trips_of
from mlc.dialects.dims import Dim, highest, product
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import Take, is_entry
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import extensions_in
from mlc.dialects.tensor.bind import at_most
from mlc.dialects.tensor.control import ForOp, WhileOp
from mlc.dialects.tensor.tiles import TilesOp, bounds_of
from mlc.lowering.emit import emit_kernel, emit_main
from mlc.lowering.entry_shim import OPT_LEVEL as SHIM_OPT_LEVEL
from mlc.lowering.entry_shim import emit_shim
from mlc.passes.cost.prediction import most_of_call
from mlc.passes.cost.work import clock
from mlc.runtime.objects import Objects, object_of

UNKNOWN_TRIPS = 1000  # assumed of a loop whose count is data: long enough to let go of the GIL


def emit_cpu(loops: ModuleOp, target: CpuTarget) -> list[CodeUnit]:
    """LLVM IR of each function of a loops-level module, the entry last."""
    return [_emitted(function, target) for function in _functions(loops)]


def _functions(loops: ModuleOp) -> list[FuncOp]:
    """The functions of a module, the entry last."""
    found = [f for f in loops.body.block.ops if isinstance(f, FuncOp) and f.body.blocks]
    return sorted(found, key=is_entry)


def _emitted(function: FuncOp, target: CpuTarget) -> CodeUnit:
    emit = emit_main if is_entry(function) else emit_kernel
    return CodeUnit(function.sym_name.data, emit(function, target))


def build_cpu(lower: Callable[[Take], ModuleOp], request: Request, target: CpuTarget) -> Built:
    """
    Objects of the kernels; of the entry and its shim, which are the host's part. LLVM compiles one
    function while `lower` makes the next one.
    """
    units: dict[str, CodeUnit] = {}
    emit_s = 0.0
    with Objects(target, fresh=request.fresh) as objects:

        def take(function: FuncOp) -> None:
            nonlocal emit_s
            start = time.perf_counter()
            unit = units[function.sym_name.data] = _emitted(function, target)
            objects.add(unit.text)
            emit_s += time.perf_counter() - start

        for function in _functions(lower(take)):
            if function.sym_name.data not in units:
                take(function)
        start = time.perf_counter()
        work_ns = most_of_call(_runs(request.planned), clock(target)) // 1000
        shim = emit_shim(request.signature, request.name, work_ns=work_ns)
        emitted = time.perf_counter()
        last = object_of(shim, target, opt_level=SHIM_OPT_LEVEL, fresh=request.fresh)
        found = objects.wait()
    code = [Code(name, o.image) for name, o in zip(units, found, strict=True)]
    return Built(
        units=tuple(units.values()),
        kernels=tuple(code[:-1]),
        host=(*code[-1:], Code(f"{request.name}.shim", last.image)),
        emit_s=emit_s + emitted - start,
        llvm_s=time.perf_counter() - emitted,
        compile_s=(*(o.compile_s for o in found), last.compile_s),
        needs=extensions_in([unit.text for unit in units.values()], target),
    )


def _runs(module: ModuleOp) -> list[tuple[KernelOp, Dim]]:
    """Each kernel and how often a call runs it."""
    found: list[tuple[KernelOp, Dim]] = []

    def visit(op: Operation, times: Dim) -> None:
        if isinstance(op, KernelOp):
            loops = (x for x in op.walk() if isinstance(x, ForOp | WhileOp))
            unknown = any(trips_of(x) is None for x in loops)
            found.append((op, times * UNKNOWN_TRIPS if unknown else times))
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
        return product((highest(n, largest) + step - 1) // step for n, step in loops)
    known = trips_of(loop)
    return Dim.const(UNKNOWN_TRIPS) if known is None else at_most(loop, known)
