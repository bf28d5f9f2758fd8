"""The words of a product that blocks of a GPU compute by wgmma: functions of kernel and target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects.analysis.matmul_axes import ContractionRoles, contraction_roles
from mlc.dialects.dims import product, shape_of
from mlc.dialects.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, DType, dtype_of
from mlc.dialects.numerics import is_strict, numerics_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp, tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, SliceOp, TransposeOp
from mlc.dialects.tensor.terms import OfTermsOp
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.slots import ROW_BYTES
from mlc.dialects.tile.words import Raster, Roles, Stages, Tile, Words
from mlc.passes.tile.matrices import ALIGNED_BYTES, keeps_values

RESULTS = 8  # side by side, of which rows of results are multiples: a box of 16 bits has so many
LEAST = 64  # columns of B and summed elements from which a tile is worth it
SLACK_BYTES = 2048  # barriers, and where slots begin
RASTER_ROWS = 2048
"""Of tiles that blocks take together, so that B stays in L2. Measured: docs/measurements.md."""
TILES = (
    (128, 256, 1.0), (128, 192, 0.95), (128, 128, 0.85), (64, 256, 0.8), (64, 128, 0.7),
    (128, 64, 0.6), (64, 64, 0.5),
)  # fmt: skip
"""
Rows, columns, and the share of the products' rate that a block of them reaches; estimated, but of
192 columns measured: docs/measurements.md, "Products of bf16 on a GPU".
"""

OF_TERMS = ((128, 128, 0.85), (64, 128, 0.7), (128, 64, 0.6), (64, 64, 0.5))
"""The same of numbers in terms, whose sums a group holds twice; estimated."""


def blocks_of(kernel: KernelOp, op: ContractOp, target: GpuTarget) -> Iterator[Words]:
    """The words that a contraction may have, the best first; none where threads multiply it."""
    sizes = _sizes(kernel, op) if target.multiplies_in_groups else None
    if sizes is None:
        return
    narrow = {dtype for dtype in map(_dtype, kernel.outs) if dtype.bytes == 2}
    left, right = counts = [len(terms_of(x)) for x in _rows_first(op)]
    tiles = TILES if counts == [1, 1] else OF_TERMS
    for rows, columns, _ in sorted(tiles, key=lambda tile: tile_cost(*sizes, tile, target)):
        groups = rows // GROUP_ROWS
        results = len(narrow) * groups * 2 * GROUP_ROWS * 64 * 2
        step = ROW_BYTES * (rows * left + columns * right)
        depth = (target.shared_bytes_per_block - SLACK_BYTES - results) // step
        if depth >= 2:
            yield (
                Tile(rows, columns, ROW_BYTES // _dtype(terms_of(op.lhs)[0]).bytes),
                Stages(depth),
                Roles(1, groups),
                Raster(max(1, RASTER_ROWS // rows)),
            )


def tile_cost(
    batches: int, m: int, n: int, tile: tuple[int, int, float], target: GpuTarget
) -> tuple[float, int]:
    """Waves of tiles times what one takes; of equal ones the larger tile."""
    rows, columns, rate = tile
    waves = ceil(batches * ceil(m / rows) * ceil(n / columns) / target.sm_count)
    return waves * rows * columns / rate, -rows * columns


def _rows_first(op: ContractOp) -> Sequence[SSAValue]:
    """The factor of a tile's rows, and that of its columns."""
    roles = contraction_roles(op)
    return op.operands[::-1] if roles is not None and roles.swapped else op.operands


def _sizes(kernel: KernelOp, op: ContractOp) -> tuple[int, int, int] | None:
    """Batches, rows and columns of products that suit; None of others."""
    roles = contraction_roles(op)
    if roles is None:
        return None
    factors = [terms_of(x) for x in op.operands]
    dtypes = {_dtype(x) for terms in factors for x in terms}
    outs = {_dtype(x) for x in kernel.outs}
    same = len(dtypes) == 1 and dtypes <= _multiplied(kernel) and op.summand() is F32
    if not same or not outs <= {BF16, F16, F32} or kernel.overwritten is not None:
        return None
    (dtype,) = dtypes
    if not all(_is_memory(x) for terms in factors for x in terms) or not _is_simple(kernel, op):
        return None
    if is_strict(kernel) and op.dtype is F32:
        return None  # the products are exact, their sums are rounded otherwise
    sizes = known_sizes(op, roles)
    if sizes is None or min(sizes[2:]) < LEAST:
        return None
    operands, _, _ = op.words()
    if dtype.bytes == 1 and any(word[-1] not in roles.k for word in operands):
        return None  # such factors lie along the summed axis. SOURCE: PTX ISA, wgmma
    lying = [w for w, x in zip(operands, factors, strict=True) if isinstance(x[0], BlockArgument)]
    return sizes[:3] if lies_well(op, lying, dtype) else None


def known_sizes(op: ContractOp, roles: ContractionRoles) -> tuple[int, int, int, int] | None:
    """Batches, rows, columns and summed elements of a product; None where one is a symbol."""
    known = op.sizes()
    words = (roles.batch, roles.m, roles.n, roles.k)
    batches, m, n, k = (product(known[c] for c in word).constant for word in words)
    if batches is None or m is None or n is None or k is None:
        return None
    return batches, m, n, k


def lies_well(op: ContractOp, words: Sequence[str], dtype: DType) -> bool:
    """Whether rows of results, and of factors with these letters, are such as copies take."""
    known, (_, result, _) = op.sizes(), op.words()
    rows = [(known[word[-1]].constant or 1) * dtype.bytes for word in words]
    return not (known[result[-1]].constant or 1) % RESULTS and not any(
        x % ALIGNED_BYTES for x in rows
    )


def _multiplied(kernel: KernelOp) -> set[DType]:
    """
    The dtypes of factors. Sums of products of 8 bits keep about 14 bits, so those are for "fast".
    SOURCE: DeepSeek-V3 technical report, arXiv 2412.19437, section 3.3.2
    """
    fast = numerics_of(kernel) == "fast"
    return {BF16, F16, F8E4M3FN, F8E5M2} if fast else {BF16, F16}


def _is_simple(kernel: KernelOp, op: ContractOp) -> bool:
    """Whether each result is computed element by element from the product's, and nothing fails."""
    others = (x for x in kernel.block.ops if x is not op and isinstance(x, TensorOp))
    alike = all(shape_of(x.type) == shape_of(op.results[0].type) for x in kernel.outs)
    return alike and all(_is_by_element(x) for x in others)


def terms_of(value: SSAValue) -> Sequence[SSAValue]:
    """What is multiplied of a factor: terms, or itself before a conversion that keeps values."""
    op = value.owner
    if isinstance(op, OfTermsOp):
        return op.operands
    return [op.x if isinstance(op, ConvertOp) and keeps_values(op) else value]


def _dtype(value: SSAValue) -> DType:
    return dtype_of(tensor_of(value).element_type)


def _is_memory(value: SSAValue) -> bool:
    """Whether a factor is read as it lies: memory, or a view of it."""
    while isinstance(value.owner, TransposeOp | SliceOp | ReshapeOp):
        if isinstance(value.owner, ReshapeOp) and not value.owner.unit_axes_only():
            return False
        value = value.owner.x
    return isinstance(value, BlockArgument)


def _is_by_element(op: TensorOp) -> bool:
    """Whether it is computed where it is read, and never fails."""
    if isinstance(op, ReshapeOp):
        return op.unit_axes_only()
    if isinstance(op, TransposeOp | SliceOp):
        return True
    return isinstance(op, Elementwise | BroadcastOp | ConstantOp) and not op.CHECKS
