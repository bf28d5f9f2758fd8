"""What the row of GPUs does below the loops level: LLVM IR, PTX, a callable that follows a plan."""

from __future__ import annotations

import time
from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from mlc.artifact import Artifact, Built, Code, CodeUnit, Request
from mlc.dialects.launch import LaunchPlan
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import GpuTarget
from mlc.lowering.gpu import emit_gpu
from mlc.lowering.gpu.lower import work_of
from mlc.lowering.loops.function import Scratch
from mlc.runtime.cuda import LoadedProgram, load_program
from mlc.runtime.cuda.timing import measure
from mlc.runtime.ptx import emit_ptx
from mlc.runtime.sites import raiser

__all__ = ["build_gpu", "emit_kernels", "emit_ptx", "load_gpu", "measure", "scratch_of_phases"]


def scratch_of_phases(kernel: KernelOp) -> tuple[Scratch, ...]:
    """The memory that a kernel on the GPU needs while it runs; tile programs there need none."""
    if kernel.schedule is not None and kernel.schedule.data.cuts:
        return ()
    return work_of(kernel, frozenset()).scratch


def emit_kernels(loops: ModuleOp, target: GpuTarget) -> list[CodeUnit]:
    """LLVM IR of each kernel of a loops-level module."""
    return [CodeUnit(k.name, k.llvm) for k in emit_gpu(loops, target).kernels]


def build_gpu(lower: Callable[[None], ModuleOp], request: Request, target: GpuTarget) -> Built:
    """PTX of the kernels; the host's part is the launch plan."""
    loops = lower(None)
    start = time.perf_counter()
    program = emit_gpu(loops, target)
    emit_s = time.perf_counter() - start
    code: list[Code] = []
    compile_s: list[float] = []
    for kernel in program.kernels:
        start = time.perf_counter()
        code.append(Code(kernel.name, emit_ptx(kernel.llvm, target).encode()))
        compile_s.append(time.perf_counter() - start)
    return Built(
        units=tuple(CodeUnit(k.name, k.llvm) for k in program.kernels),
        kernels=tuple(code),
        host=program.plan,
        emit_s=emit_s,
        llvm_s=sum(compile_s),
        compile_s=tuple(compile_s),
    )


def load_gpu(
    artifact: Artifact, target: GpuTarget, slow: Callable[..., object], _: int | None
) -> LoadedProgram:
    """The program on this process's GPU; GpuError where there is none that it is for."""
    assert isinstance(artifact.host, LaunchPlan)
    return load_program(
        artifact.host,
        {code.name: code.image.decode() for code in artifact.kernels},
        artifact.signature,
        target,
        slow=slow,
        on_error=raiser(artifact.sites),
        arena_bytes=lambda sizes: artifact.memory.arena_bytes(sizes, 1),
    )
