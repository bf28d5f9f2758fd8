"""Memory of factorisations that LAPACK computes in one step: see runtime/lapack.ll."""

from __future__ import annotations

from mlc.dialects.abi import LAPACK_STEPS
from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dims import product
from mlc.dialects.dtypes import F64
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.function import Scratch


def is_lapacks(op: LibraryOp) -> bool:
    """Whether LAPACK computes it in one step."""
    return op.routine.data in LAPACK_STEPS


def lapack_scratch(kernel: KernelOp) -> tuple[Scratch, ...]:
    """A copy of a matrix and of its right sides, and a word for each pivot."""
    op = whole_of(kernel)
    if not isinstance(op, LibraryOp) or not is_lapacks(op):
        return ()
    n = op.cores()[0][0]
    sides = product(op.cores()[-1])  # of an inverse as many as there are rows
    parts = 2 if op.dtype.kind == "complex" else 1
    return (Scratch(memory_type(F64), (n * n + sides) * parts + n),)
