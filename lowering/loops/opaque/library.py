"""Kernels that call a library: operands are computed into contiguous memory, then handed over."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects import par
from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.dtypes import DTYPES
from mlc.dialects.lapack import LapackFoundOp
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.library import ROUTINES, LibraryOp, split_cores
from mlc.dialects.tensor.op import element_dtype, tensor_of
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.element import Buffer
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import KernelScope, write_piece
from mlc.lowering.loops.opaque.fourier import fourier_scratch, lower_fourier, plan_for
from mlc.lowering.loops.opaque.fourier_open import lower_open_fourier, open_fourier_scratch
from mlc.lowering.loops.opaque.lapack_memory import lapack_scratch, problem_of
from mlc.lowering.loops.opaque.lapack_routines import lower_lapack

MOST_OPERANDS = 3
ONE = Dim.const(1)


def _call_of(kernel: KernelOp) -> LibraryOp:
    op = whole_of(kernel)
    assert isinstance(op, LibraryOp)
    return op


def operand_scratch(kernel: KernelOp) -> tuple[Scratch, ...]:
    """Room for each operand."""
    return tuple(
        Scratch(
            memory_type(element_dtype(x)),
            product(shape_of(x.type)),
        )
        for x in _call_of(kernel).inputs
    )


def library_scratch(kernel: KernelOp) -> tuple[Scratch, ...]:
    """The memory of a kernel on a CPU: for operands, and for what works on them."""
    op, operands = _call_of(kernel), operand_scratch(kernel)
    if op.length is None:
        return (*operands, *lapack_scratch(op))
    plan = plan_for(kernel)
    own = open_fourier_scratch(kernel) if plan is None else fourier_scratch(kernel, plan)
    return (*operands, *own)


def lower_library(s: KernelScope) -> None:
    """Loops and calls of LAPACK; where there is none, or it has no such routine, NumPy's."""
    op = _call_of(s.kernel)
    buffers = [_contiguous(s, x, k) for k, x in enumerate(op.inputs)]
    if op.length is not None:
        if s.scratch[0] is buffers[0]:
            s.barrier()  # all have done their part of the copy
        if (plan := plan_for(s.kernel)) is not None:
            lower_fourier(s, plan, buffers[0])
        else:
            lower_open_fourier(s, buffers[0])
        return

    def ask_numpy() -> None:
        call_library(s.b, s.context, op, s.sites[op], [*buffers, s.outputs[0].memref])

    if (problem := problem_of(op)) is None:
        ask_numpy()
        return
    found = s.b.value(LapackFoundOp.of(problem.lapack()))
    s.b.when(found, lambda: lower_lapack(s, problem, buffers), ask_numpy)


def call_library(
    b: LoopBuilder, context: SSAValue, op: LibraryOp, site: int, memory: Sequence[SSAValue]
) -> None:
    """The call of a routine; `memory`: its operands, contiguous, and where its result goes."""
    *buffers, output = memory
    buffers += buffers[:1] * (MOST_OPERANDS - len(buffers))
    lead, cores = split_cores(op.routine.data, [tensor_of(x) for x in op.inputs])
    sizes: list[Index] = [b.product([b.dim(d) for d in lead])]
    for core in (*cores, (), ())[:2]:
        rows, columns = (ONE, ONE, *core)[-2:]
        sizes += [b.dim(rows), b.dim(columns)]
    dtype = element_dtype(op.inputs[0])
    zero = b.index(0)
    call = par.LibraryOp.of(
        context,
        list(ROUTINES).index(op.routine.data),
        DTYPES.index(dtype),
        [*buffers, output],
        [b.index(size) for size in sizes],
    )
    status = b.value(call)
    failed = b.compare("ne", status, 0)
    b.when(failed, lambda: b.add_op(par.FailOp.of(context, site, status, zero)))


def _contiguous(s: KernelScope, x: SSAValue, k: int) -> SSAValue:
    """The operand row by row in memory: where it lies, or a copy."""
    if isinstance(x, BlockArgument) and x.index not in s.strided:
        return s.inputs[x].memref
    shape = shape_of(x.type)
    buffer = Buffer(
        s.scratch[k],
        element_dtype(x),
        (tuple(range(len(shape))),),
        tuple(s.b.dim(d) for d in shape),
        (1,),
    )
    if shape:
        write_piece(s, x, target=buffer)
    else:
        e = s.lanes(1)
        e.store(e.fetch(x, ()), buffer, ())
    return buffer.memref
