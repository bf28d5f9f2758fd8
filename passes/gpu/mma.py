"""The tile of a product that warps of a GPU multiply by `mma.sync`: a function of op and target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.ir import SSAValue

from mlc.dialects.analysis.matmul_axes import contraction_roles
from mlc.dialects.dims import product
from mlc.dialects.dtypes import BF16, F16, F32, F64, DType, holds
from mlc.dialects.gpu_products import ACCESS_BYTES, MMA_F64, MMA_SHAPES, PADDING, TURNED_PADDING
from mlc.dialects.numerics import numerics_of
from mlc.dialects.plan import Schedule
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tile.nest_words import Stage

FIRST = 80
"""Compute capability from which on warps multiply f64, bf16 and tf32. SOURCE: PTX ISA, mma"""
WIDE = 90
"""From which on products of f64 have 16 rows. SOURCE: PTX ISA, mma"""
FEW = 4  # times as many multiprocessors as blocks: threads divide a product among more; estimated
LEAST = 8  # rows, columns and summed elements from which a tile is worth it
RESIDENT = 2
"""Blocks of a multiprocessor; places of windows of f64 need the registers of the second."""
STAGED_BYTES = 64  # of a row of a factor's tile
TILES = {
    2: ((128, 128, 64, 32), (64, 64, 32, 16)),
    4: ((128, 128, 64, 32), (64, 64, 32, 16)),
    8: ((64, 128, 32, 32), (64, 64, 32, 16)),
}
"""
By bytes of a factor: rows and columns of a block of eight warps, and of a warp; the large ones
where they fill the machine. A thread has 64 registers of sums at most.
"""
WINDOWS = (128, 64, 32, 32)
"""The same of convolutions, whose threads compute the places of windows: rows are theirs alone.
Measured: docs/measurements.md, "Products by tensor cores on a GPU"."""
WINDOWS_DEPTH = {2: 32, 4: 16, 8: 16}  # summed elements, by bytes of a factor
SLOTS = {2: 2, 8: 3}  # tiles that asynchronous copies fill, by bytes of a factor


def warps_of(op: Product, target: GpuTarget) -> Iterator[Stage]:
    """The tiles, the best first; none where tensor cores do not multiply such factors, or few."""
    if refused_warps(op, target) is not None:
        return
    dtype = _multiplied(op, target)
    assert dtype is not None
    large, small = _tiles_of(op, dtype)
    many = _count(op, large)
    fills = many is not None and many >= target.sm_count
    depth, slots, mma = STAGED_BYTES // dtype.bytes, 0, _name(dtype, target)
    resident = RESIDENT
    if isinstance(op, ConvOp):
        depth, resident = WINDOWS_DEPTH[dtype.bytes], 1 if dtype is F64 else RESIDENT
    elif target.has_async_copy:
        slots = SLOTS.get(dtype.bytes, 0)
    for rows, columns, high, wide in (large, small) if fills else (small, large):
        stage = Stage(rows, columns, depth, rows=high, columns=wide, resident=resident, mma=mma)
        room = target.declared_bytes_per_block // _staged_bytes(stage, op, dtype)
        yield replace(stage, slots=min(slots, room) if min(slots, room) > 1 else 0)


def refused_warps(op: Product, target: GpuTarget) -> str | None:
    """Why warps do not multiply a product by tensor cores; None where they do."""
    roles, dtype = contraction_roles(op), _multiplied(op, target)
    if roles is None:
        return "it is no product of matrices"
    if dtype is None:
        if target.compute_capability < FIRST or "mma" not in target.tensor_core_kinds:
            return f"{target.name} has no tensor cores that warps use here (from sm_{FIRST} on)"
        if numerics_of(op) == "strict" or op.rounds is not None:
            return "numerics are strict: their sums are rounded otherwise"
        if _is_tf32(op):
            return "factors are f32, which they round to tf32: numerics='fast'"
        names = " and ".join(sorted({_given(x).name for x in op.operands}))
        return f"factors are {names} into {op.dtype.name}; they multiply bf16, f16 and f64"
    known = op.sizes()
    sizes = [product(known[c] for c in word).constant for word in (roles.m, roles.n, roles.k)]
    if any(size is not None and size < LEAST for size in sizes):
        m, n, k = sizes
        return f"m = {m}, n = {n} and k = {k}: one is less than {LEAST}"
    most = _count(op, _tiles_of(op, dtype)[1])
    if most is not None and most * FEW < target.sm_count:
        return f"{most} tiles for {target.sm_count} multiprocessors: threads divide it among more"
    return None


def _is_tf32(op: Product) -> bool:
    """Whether tensor cores would round what they multiply."""
    return op.dtype is F32 and {_given(x) for x in op.operands} == {F32}


def _tiles_of(op: Product, dtype: DType) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The large one and the small one."""
    large, small = TILES[dtype.bytes]
    return WINDOWS if isinstance(op, ConvOp) else large, small


def _count(op: Product, tile: tuple[int, ...]) -> int | None:
    """Tiles of all results; None where a size is a symbol."""
    roles, known = contraction_roles(op), op.sizes()
    assert roles is not None
    m, n = (product(known[c] for c in word).constant for word in (roles.m, roles.n))
    batches = product(known[c] for c in roles.batch).constant
    if m is None or n is None or batches is None:
        return None
    return batches * -(-m // tile[0]) * -(-n // tile[1])


def mma_fault(schedule: Schedule, stage: Stage, op: Product, target: GpuTarget) -> str | None:
    """Why warps cannot multiply so: whole tiles of one instruction, which they stage together."""
    dtype, threads = _multiplied(op, target), schedule.threads
    if contraction_roles(op) is None or dtype is None or stage.mma != _name(dtype, target):
        return (
            f"{stage}; expected what tensor cores multiply of such factors: {_name(dtype, target)}"
        )
    m, n, k = MMA_F64 if stage.mma.endswith("m8n8k4") else MMA_SHAPES[dtype.name]
    warps = (stage.m // stage.rows) * (stage.n // stage.columns)
    access = threads * (ACCESS_BYTES // op.dtype.bytes)
    staged = _staged_bytes(stage, op, dtype) * max(1, stage.slots)
    if (
        stage.rows % m
        or stage.columns % n
        or stage.k % k
        or stage.m % stage.rows
        or stage.n % stage.columns
        or warps * target.warp_lanes != threads
        or any(length * stage.k % access for length in (stage.m, stage.n))
        or staged > target.declared_bytes_per_block
        or stage.parts
        or stage.slots == 1
        or (stage.slots and dtype is F32)  # rounded on their way
        or schedule.share
    ):
        return (
            f"{stage}; expected a block of one tile for each warp of {threads} threads, in whole"
            f" products of {m} x {n} x {k}, in {target.declared_bytes_per_block} bytes"
        )
    return None


def _staged_bytes(stage: Stage, op: Product, dtype: DType) -> int:
    """Of a tile of both factors, whose rows lie along the summed axis, or along the other one."""
    roles, (words, *_) = contraction_roles(op), op.words()
    assert roles is not None
    total = 0
    for length, word in zip((stage.m, stage.n), words[:: -1 if roles.swapped else 1], strict=True):
        along = length * (stage.k + PADDING[dtype.bytes])
        across = stage.k * (length + TURNED_PADDING[dtype.bytes])
        if isinstance(op, ConvOp):  # windows walk several letters
            total += max(along, across)
        else:
            total += along if word[-1] in roles.k else across
    return total * dtype.bytes


def _name(dtype: DType | None, target: GpuTarget) -> str:
    """Of the instruction for factors of a dtype."""
    if dtype is None:
        return "none"
    if dtype is F64 and target.compute_capability < WIDE:
        return "mma_f64_m8n8k4"
    return "mma_tf32" if dtype is F32 else f"mma_{dtype.name}"


def _multiplied(op: Product, target: GpuTarget) -> DType | None:
    """The dtype of factors that tensor cores multiply: theirs, before what keeps their values."""
    numerics = numerics_of(op)
    if target.compute_capability < FIRST or "mma" not in target.tensor_core_kinds:
        return None
    if numerics == "strict" or op.rounds is not None:
        return None
    given = {_given(x) for x in op.operands}
    if op.dtype is F64:
        return F64 if target.tensor_f64_flops_per_s else None
    if op.summand() is not F32 or len(given) != 1:
        return None
    (dtype,) = given
    if dtype in (BF16, F16):
        return dtype
    fast = dtype is F32 and numerics == "fast" and target.tensor_tf32_flops_per_s > 0
    return F32 if fast else None


def _given(value: SSAValue) -> DType:
    """Of a factor's elements, before a conversion that keeps them."""
    dtype, op = element_dtype(value), value.owner
    if isinstance(op, ConvertOp) and holds(dtype, source := element_dtype(op.x)):
        return source
    return dtype
