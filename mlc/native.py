"""What the row of CPUs does below the loops level: LLVM IR, objects, assembly."""

from __future__ import annotations

import time
from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlc.artifact import Built, Code, CodeUnit, Request
from mlc.dialects.analysis.trips import trips_of
from mlc.dialects.dims import Dim, product
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.control import ForOp, WhileOp
from mlc.dialects.tensor.tiles import TilesOp, bounds_of
from mlc.lowering.emit import emit_kernel, emit_main
from mlc.lowering.entry_shim import OPT_LEVEL as SHIM_OPT_LEVEL
from mlc.lowering.entry_shim import emit_shim
from mlc.passes.cost.model import predicted_ns
from mlc.runtime.objects import object_of, objects_of

UNKNOWN_TRIPS = 1000  # assumed of a loop whose count is data: long enough to let go of the GIL


def emit_cpu(loops: ModuleOp, target: CpuTarget) -> list[CodeUnit]:
    """LLVM IR of each function of a loops-level module, the entry last."""
    return list(_emitted(loops, target))


def _emitted(loops: ModuleOp, target: CpuTarget) -> Iterator[CodeUnit]:
    functions = [f for f in loops.body.block.ops if isinstance(f, FuncOp) and f.body.blocks]
    kernels = [f for f in functions if "mlc.entry" not in f.attributes]
    entries = [f for f in functions if "mlc.entry" in f.attributes]
    yield from (CodeUnit(f.sym_name.data, emit_kernel(f, target)) for f in kernels)
    yield from (CodeUnit(f.sym_name.data, emit_main(f, target)) for f in entries)


def build_cpu(loops: ModuleOp, request: Request, target: CpuTarget) -> Built:
    """Objects of the kernels; of the entry and its shim, which are the host's part."""
    start = emitted = time.perf_counter()
    units: list[CodeUnit] = []
    shim = ""

    def texts() -> Iterator[str]:
        """Of each unit, which LLVM compiles while the next one is written."""
        nonlocal emitted, shim
        for unit in _emitted(loops, target):
            units.append(unit)
            yield unit.text
        work_ns = predicted_ns(_runs(request.planned), target)
        shim = emit_shim(request.signature, request.name, work_ns=work_ns)
        emitted = time.perf_counter()

    objects = objects_of(texts(), target, fresh=request.fresh)
    last = object_of(shim, target, opt_level=SHIM_OPT_LEVEL, fresh=request.fresh)
    code = [Code(u.name, o.image) for u, o in zip(units, objects, strict=True)]
    return Built(
        units=tuple(units),
        kernels=tuple(code[:-1]),
        host=(*code[-1:], Code(f"{request.name}.shim", last.image)),
        emit_s=emitted - start,
        llvm_s=time.perf_counter() - emitted,
        compile_s=(*(o.compile_s for o in objects), last.compile_s),
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
