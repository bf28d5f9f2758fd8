"""As `tests.every_op.native`, but on a GPU: functions taken down, called on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.launch import GpuProgram
from mlc.dialects.plan import KernelOp
from mlc.dialects.signature import EntrySignature
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import TargetAttr
from mlc.lowering.gpu import emit_gpu, lower_to_gpu
from mlc.passes.gpu.expand_positions import ExpandPositionsPass
from mlc.passes.math.expand_math import ExpandMathPass
from mlc.passes.plan.tiling.schedule import SchedulePass
from mlc.passes.tensor.expand_partition import ExpandPartitionPass
from mlc.runtime.cuda import LoadedProgram, gpu_target, load_program
from mlc.runtime.ptx import emit_ptx
from tests.every_op.native import to_plan as planned

Array = NDArray[Any]


def to_plan(module: ModuleOp, *, fusion: str = "none") -> ModuleOp:
    """A tensor-level module at the plan level, as for a GPU."""
    module.attributes["mlc.target"] = TargetAttr(gpu_target())
    ExpandPartitionPass().apply(Context(), module)
    ExpandPositionsPass().apply(Context(), module)
    return planned(module, fusion=fusion)


def gpu_loops(module: ModuleOp, target: GpuTarget) -> ModuleOp:
    """A plan-level module, scheduled anew for a GPU, at the loops level."""
    module.attributes["mlc.target"] = TargetAttr(target)
    for op in module.walk():
        if isinstance(op, KernelOp):
            op.properties.pop("schedule", None)
    SchedulePass().apply(Context(), module)
    return lower_to_gpu(module)


def gpu_program(module: ModuleOp, target: GpuTarget) -> GpuProgram:
    """A plan-level module as a program for a GPU."""
    loops = gpu_loops(module, target)
    ExpandMathPass().apply(Context(), loops)
    return emit_gpu(loops, target)


def ptx_of(program: GpuProgram, target: GpuTarget) -> dict[str, str]:
    """The PTX of each kernel, by name."""
    return {kernel.name: emit_ptx(kernel.llvm, target) for kernel in program.kernels}


def not_taken(*args: object, **kwargs: object) -> NoReturn:
    """Stands for the slow path of a callable that must not take it."""
    shapes = [getattr(x, "shape", x) for x in args]
    raise AssertionError(f"the program does not take arguments of shapes {shapes}")


def on_error(site: int, value: int, extent: int) -> NoReturn:
    """One error for every site."""
    raise IndexError(f"site {site}: index {value} is out of bounds for size {extent}")


def load(module: ModuleOp, signature: EntrySignature) -> LoadedProgram:
    """A plan-level module on this process's GPU."""
    target = gpu_target()
    program = gpu_program(module, target)
    ptx = ptx_of(program, target)
    return load_program(program.plan, ptx, signature, target, slow=not_taken, on_error=on_error)


def compile_plan(module: ModuleOp, signature: EntrySignature) -> Callable[..., tuple[Array, ...]]:
    """The plan-level module as a callable on NumPy arrays."""
    call = load(module, signature)

    def run(*arrays: Array) -> tuple[Array, ...]:
        results = call(*arrays)
        assert isinstance(results, tuple)
        return tuple(np.asarray(r) for r in results)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    return run
