"""
A factor that a loop's thin product reads in every trip is packed once, before the loop.

A product of few rows does little with each element of the other factor, so that packing it costs as
much as multiplying. Panels of so many columns as the register tile has, one after the other, are a
value of the program: `copy "k(Jn) -> Jkn"`, in the words of tile programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.matmul_axes import SMALL_CONTRACTION, ContractionRoles, contraction_roles
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dims import Dim, product, shape_of, tensor_type
from mlc.dialects.numerics import is_strict
from mlc.dialects.target import CpuTarget, Target
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.letters import fresh
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import ReshapeOp, TransposeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.tiling.schedule import choose_register_tile
from mlc.passes.remarks import remark
from mlc.passes.tensor.derivative.emit import Emitter
from mlc.passes.tensor.prepack_loop_factors import insert_before, outermost_without

MOST_ROWS = 16
"""Of more rows, packing in every trip costs less than an epilogue of its own. Measured:
docs/measurements.md, Recurrent nets."""

MOST_VECTORS = 4

Packed = dict[tuple[SSAValue, int, Operation], SSAValue]


@dataclass(frozen=True)
class PackBeforeLoopsPass(ModulePass):
    """
    for … { contract "mk,kn->mn" x, w }
    ->  p = transpose "kJn->Jkn" (reshape w); for … { reshape (contract "mk,Jkn->mJn" x, p) }
    """

    name = "mlc-pack-before-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        packed: Packed = {}
        target = target_of(op)
        pack = _PACK.get(type(target))
        for inner in list(outside_kernels(op)):
            if pack is not None and isinstance(inner, ContractOp):
                pack(inner, target, packed)


def _pack(op: ContractOp, target: CpuTarget, packed: Packed) -> None:
    """Replaces one product, if it is thin and a loop keeps its other factor."""
    roles = contraction_roles(op)
    if roles is None or is_strict(op):
        return
    k = 0 if roles.swapped else 1
    factor, words, result = op.operands[k], *op.words()[:2]
    loop = outermost_without(factor, op)
    width = _width(op, roles, target)
    if loop is None or not width or words[k] != roles.k + roles.n or result[-1] != roles.n:
        return
    panels = packed.get((factor, width, loop))
    if panels is None:
        before = Emitter(Block(), op.location)
        panels = packed[factor, width, loop] = _panels(before, factor, width)
        insert_before(before.block, loop)
        remark(op, f"a factor is packed once, in panels of {width}, before the loop (exact)")
    panel = fresh((*words, result))
    both, operands = list(words), list(op.operands)
    both[k], operands[k] = panel + words[k], panels
    after = Emitter(Block(), op.location)
    letters = f"{','.join(both)}->{result[:-1]}{panel}{roles.n}"
    parts = after(ContractOp, *operands, letters=letters)
    new = after(ReshapeOp, parts, declared=tensor_of(op.results[0]))
    new.name_hint = op.results[0].name_hint
    insert_before(after.block, op)
    op.results[0].replace_all_uses_with(new)
    block = op.parent
    assert block is not None
    block.erase_op(op)


_PACK: Mapping[type[Target], Callable[[ContractOp, Any, Packed], None]] = {CpuTarget: _pack}


def _width(op: ContractOp, roles: ContractionRoles, target: CpuTarget) -> int:
    """
    Columns of a panel: those for which a step along the summed axis takes the fewest cycles for
    each. 0 where packing does not pay.
    """
    sizes, item = op.sizes(), op.summand().bytes
    m, n, k = (product(sizes[c] for c in x).constant for x in (roles.m, roles.n, roles.k))
    if roles.batch or len(roles.n + roles.k) != 2 or op.dtype.kind in ("bool", "complex"):
        return 0
    lanes = target.lanes(8 * item)
    if m is None or n is None or k is None or not 4 <= m <= MOST_ROWS or k < 4:
        return 0
    if m * n * k < SMALL_CONTRACTION or n <= MOST_VECTORS * lanes:
        return 0
    best = 0, float("inf")
    for vectors in range(1, MOST_VECTORS + 1):
        width = vectors * lanes
        rows, used = choose_register_tile(target, item, vectors)
        if used != vectors or n % width or width * k * item > target.l2_bytes // 4:
            continue
        tiles = -(-m // rows)
        rows = -(-m // tiles)
        cycles = tiles * max(rows * vectors / target.fma_ports, (rows + vectors) / 2) / width
        if cycles < best[1]:
            best = width, cycles
    return best[0]


def _panels(b: Emitter, factor: SSAValue, width: int) -> SSAValue:
    """[K, N] as [N / width, K, width]."""
    depth, columns = shape_of(factor.type)
    count = Dim.const((columns.constant or 0) // width)
    kind = tensor_type(tensor_of(factor).element_type, (depth, count, Dim.const(width)))
    return b(TransposeOp, b(ReshapeOp, factor, declared=kind), letters="abc->bac")
