"""The words of a product that blocks of a GPU compute by wgmma: functions of kernel and target."""

from __future__ import annotations

from math import ceil

from xdsl.ir import BlockArgument

from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import BF16, F16, F32, dtype_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.roles import contraction_roles
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp, tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.words import Raster, Roles, Stages, Tile, Words

DEPTH = 64  # summed elements of a step: rows of 128 bytes
ALIGNED = 8  # elements of 16 bytes, at which rows begin. SOURCE: CUDA driver API, tensor maps
LEAST = 64  # columns of B and summed elements from which a tile is worth it
SLACK_BYTES = 2048  # barriers, and where slots begin
RASTER_ROWS = 2048
"""Of tiles that blocks take together, so that B stays in L2. Measured: docs/measurements.md."""
TILES = (
    (128, 256, 1.0), (128, 128, 0.85), (64, 256, 0.8), (64, 128, 0.7), (128, 64, 0.6), (64, 64, 0.5)
)  # fmt: skip
"""Rows, columns, and the share of the products' rate that a block of them reaches; estimated."""


def choose_block(kernel: KernelOp, op: ContractOp, target: GpuTarget) -> Words:
    """The words of a contraction that suits; none where it is multiplied by threads."""
    sizes = _sizes(kernel, op) if "wgmma" in target.tensor_core_kinds and target.has_tma else None
    if sizes is None:
        return ()
    m, n, _ = sizes
    found = min(TILES, key=lambda tile: _cost(m, n, tile, target))
    rows, columns, _ = found
    groups = rows // GROUP_ROWS
    narrow = [x for x in kernel.outs if dtype_of(tensor_of(x).element_type).bytes == 2]
    results = len(narrow) * groups * 2 * GROUP_ROWS * 64 * 2
    step = 2 * DEPTH * (rows + columns)
    depth = (target.shared_bytes_per_block - SLACK_BYTES - results) // step
    if depth < 2:
        return ()
    return (
        Tile(rows, columns, DEPTH),
        Stages(depth),
        Roles(1, groups),
        Raster(max(1, RASTER_ROWS // rows)),
    )


def _cost(m: int, n: int, tile: tuple[int, int, float], target: GpuTarget) -> tuple[float, int]:
    """Waves of tiles times what one takes; of equal ones the larger tile."""
    rows, columns, rate = tile
    waves = ceil(ceil(m / rows) * ceil(n / columns) / target.sm_count)
    return waves * rows * columns / rate, -rows * columns


def _sizes(kernel: KernelOp, op: ContractOp) -> tuple[int, int, int] | None:
    """Rows, columns and summed elements of a product that suits; None of another one."""
    roles = contraction_roles(op)
    if roles is None or roles.batch or len(roles.m + roles.n + roles.k) != 3:
        return None
    dtypes = {dtype_of(tensor_of(x).element_type) for x in op.operands}
    outs = {dtype_of(tensor_of(x).element_type) for x in kernel.outs}
    same = len(dtypes) == 1 and dtypes <= {BF16, F16} and op.summand() is F32
    if not same or not outs <= {BF16, F16, F32} or kernel.overwritten is not None:
        return None
    if not all(isinstance(x, BlockArgument) for x in op.operands) or not _is_simple(kernel, op):
        return None
    known = op.sizes()
    m, n, k = (known[c].constant for c in (roles.m, roles.n, roles.k))
    if m is None or n is None or k is None or min(n, k) < LEAST:
        return None
    operands, result, _ = op.words()
    rows = [known[word[-1]].constant or 1 for word in (*operands, result)]
    return None if any(size % ALIGNED for size in rows) else (m, n, k)


def _is_simple(kernel: KernelOp, op: ContractOp) -> bool:
    """Whether each result is computed element by element from the product's, and nothing fails."""
    others = (x for x in kernel.block.ops if x is not op and isinstance(x, TensorOp))
    alike = all(shape_of(x.type) == shape_of(op.results[0].type) for x in kernel.outs)
    return alike and all(
        isinstance(x, Elementwise | BroadcastOp | ConstantOp) and not x.CHECKS for x in others
    )
