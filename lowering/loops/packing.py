"""What a contraction keeps beside its operands while it runs: packed blocks of its rhs."""

from __future__ import annotations

from mlc.dialects.analysis.matmul_axes import contraction_roles
from mlc.dialects.dims import Dim, product
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.reduce import ContractOp, Product
from mlc.dialects.tensor.tiles import is_phase


def contraction_of(kernel: KernelOp) -> Product | None:
    """The contraction or convolution in a kernel."""
    return next((op for op in kernel.block.ops if isinstance(op, Product)), None)


def accumulates_in_result(kernel: KernelOp) -> bool:
    """Whether partial sums may wait in the result's buffer between blocks of the summed axis."""
    op = contraction_of(kernel)
    if not isinstance(op, ContractOp) or op.summand() is not op.dtype:
        return False
    if kernel.shared_inputs != (-1,):  # several results, or the epilogue reads what lies there
        return False
    return kernel.outs[0].type == op.results[0].type


def scratch_bytes(kernel: KernelOp) -> Dim:
    """Bytes of the packed rhs block; zero where nothing is packed."""
    op = contraction_of(kernel)
    if op is None or kernel.schedule is None or not kernel.schedule.data.block_n:
        return Dim.const(0)
    schedule, roles = kernel.schedule.data, contraction_roles(op)
    assert roles is not None
    sizes = op.sizes()
    columns: Dim | int = schedule.block_n
    n = product(sizes[c] for c in roles.n).constant
    if n is not None:
        columns = min(schedule.block_n, -(-n // schedule.tile_n) * schedule.tile_n)
    depth: Dim = product(sizes[c] for c in roles.k)
    if accumulates_in_result(kernel):
        depth = Dim.const(min(schedule.block_k, depth.constant or schedule.block_k))
    return depth * columns * op.summand().bytes


def packs_of(kernel: KernelOp) -> Dim:
    """How many threads may each have a packed block of their own: at least as there are batches."""
    op = contraction_of(kernel)
    roles = contraction_roles(op) if op is not None else None
    if op is None or roles is None or is_phase(kernel):
        return Dim.const(1)
    sizes = op.sizes()
    return product(sizes[c] for c in roles.batch + roles.n[:-1])
