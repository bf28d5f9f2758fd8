"""Who computes factorisations in this process: LAPACK itself, or NumPy, and why."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.tensor.library import LibraryOp
from mlc.lowering.loops.opaque.lapack_memory import problem_of
from mlc.passes.remarks import Remark, place
from mlc.runtime.lapack import lapack_library


def of_cpu(plan: ModuleOp) -> tuple[Remark, ...]:
    """What `explain` says of each routine of a plan for a CPU."""

    def said(name: str) -> str:
        if (library := lapack_library()) is not None:
            return f"{name} of {library[0]}, without Python"
        return f"NumPy, by a callback: no library in this process has LAPACK's {name}"

    return _remarks(plan, said)


def of_gpu(plan: ModuleOp) -> tuple[Remark, ...]:
    """As `of_cpu`."""
    return _remarks(plan, lambda _: "NumPy on the host, which a GPU's program asks")


def _remarks(plan: ModuleOp, said: Callable[[str], str]) -> tuple[Remark, ...]:
    return tuple(
        Remark(op.name, f"{problem.routine}: {said(problem.lapack())}", place(op))
        for op in plan.walk()
        if isinstance(op, LibraryOp) and (problem := problem_of(op)) is not None
    )
