"""Who computes factorisations in this process: LAPACK itself, or NumPy, and why."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.target import CpuTarget, Target
from mlc.dialects.tensor.library import LibraryOp
from mlc.lowering.loops.opaque.lapack_memory import problem_of
from mlc.passes.remarks import Remark, place
from mlc.runtime.lapack import lapack_library


def library_remarks(plan: ModuleOp, target: Target) -> tuple[Remark, ...]:
    """What `explain` says of each routine of a plan."""
    ops = [op for op in plan.walk() if isinstance(op, LibraryOp) and problem_of(op) is not None]
    if not ops:
        return ()
    library = lapack_library() if isinstance(target, CpuTarget) else None
    found: list[Remark] = []
    for op in ops:
        problem = problem_of(op)
        assert problem is not None
        name = problem.lapack()
        if library is not None:
            text = f"{name} of {library[0]}, without Python"
        elif isinstance(target, CpuTarget):
            text = f"NumPy, by a callback: no library in this process has LAPACK's {name}"
        else:
            text = "NumPy on the host, which a GPU's program asks"
        found.append(Remark(op.name, f"{problem.routine}: {text}", place(op)))
    return tuple(found)
