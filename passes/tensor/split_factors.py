"""
Factors of f32 that tensor cores multiply as three of bf16.

Instructions for bf16 are so much faster than the cores that six products of terms take less time
than one of f32, and err no more: docs/numerics.md. Who reads a factor in several products reads the
terms that one kernel stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.matmul_axes import contraction_roles
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dtypes import BF16, F32
from mlc.dialects.numerics import numerics_of
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import gpu_of
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.terms import COUNT, PRODUCTS, OfTermsOp, TermOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.sizes import stored_bytes
from mlc.passes.gpu.block import LEAST, known_sizes, lies_well
from mlc.passes.gpu.tiles import TERM_TILES, seconds
from mlc.passes.remarks import remark

CORES = 0.77
"""Share of the cores' peak that products reach. Measured: docs/measurements.md"""


@dataclass(frozen=True)
class SplitFactorsPass(ModulePass):
    """
    contract "mk,kn->mn" a, b
    ->  contract "mk,kn->mn" (of_terms (term 0, a), (term 1, a), (term 2, a)), (of_terms … b …)

    where that takes less time, with numerics "standard": "fast" has tf32.
    """

    name = "mlc-split-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = gpu_of(op, self.name)
        if numerics_of(op) != "standard" or not target.multiplies_in_groups:
            return
        split: dict[SSAValue, Sequence[SSAValue]] = {}
        for inner in list(outside_kernels(op)):
            if isinstance(inner, ContractOp) and _pays(inner, target):
                for k, x in enumerate(inner.operands):
                    if x not in split:
                        split[x] = _terms(x)
                    inner.operands[k] = _before(inner)(OfTermsOp, *split[x])
                remark(inner, "factors of f32 are multiplied as three of bf16 (docs/numerics.md)")


def _pays(op: ContractOp, target: GpuTarget) -> bool:
    """Whether groups of warps multiply terms sooner than threads the numbers."""
    roles = contraction_roles(op)
    if roles is None or op.dtype is not F32 or op.rounds is not None:
        return False
    sizes = known_sizes(op, roles)
    if sizes is None or min(sizes.n, sizes.k) < LEAST or any(map(_is_widened, op.operands)):
        return False
    if not lies_well(op, op.words()[0], BF16):
        return False
    terms = replace(sizes, k=sizes.k * PRODUCTS[2])
    tiles = min(seconds(terms, tile, BF16, target) for tile in TERM_TILES)
    moved = sum(stored_bytes(x.type) for x in {*op.operands}) * (1 + COUNT / 2)
    found = tiles + moved / target.hbm_bytes_per_s + 2 * target.kernel_start_s
    cores = 2 * sizes.batches * sizes.m * sizes.n * sizes.k / (CORES * target.f32_flops_per_s)
    return found < cores


def _is_widened(x: SSAValue) -> bool:
    """Whether a factor is made of 16 bits: those are multiplied as they are."""
    op = x.owner
    return isinstance(op, ConvertOp) and op.source.bytes < F32.bytes


def _terms(x: SSAValue) -> Sequence[SSAValue]:
    """The terms of a value, right behind where it is made."""
    owner = x.owner
    anchor = owner.first_op if isinstance(owner, Block) else owner.next_op
    assert anchor is not None
    b = _before(anchor)
    return [b(TermOp, x, number=k) for k in range(COUNT)]


def _before(anchor: Operation) -> OpBuilder:
    """Makes ops that stand before another one."""
    block = anchor.parent
    assert block is not None

    def insert(op: Operation) -> None:
        op.location = anchor.location
        block.insert_op_before(op, anchor)

    return OpBuilder(insert)
