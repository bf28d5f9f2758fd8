"""The words of a product that blocks of a GPU compute by wgmma: functions of kernel and target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as product_of
from math import inf

from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects.analysis.matmul_axes import ContractionRoles, contraction_roles
from mlc.dialects.dims import product, shape_of
from mlc.dialects.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, DType
from mlc.dialects.numerics import is_strict, numerics_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ContractOp, Product
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, SliceOp, TransposeOp
from mlc.dialects.tensor.terms import OfTermsOp
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.slots import ROW_BYTES
from mlc.dialects.tile.words import Overlap, Raster, Roles, SplitK, Stages, Tile, Word, Words
from mlc.passes.gpu.tiles import (
    BLOCK_TILES,
    MOST_PARTS,
    REGISTERS_OF_THREE,
    TERM_TILES,
    TURN_TILES,
    BlockTile,
    Finish,
    ProductSizes,
    TurnTile,
    finished_seconds,
    joining_seconds,
    parts_of,
    seconds,
    turned_seconds,
)
from mlc.passes.tile.matrices import ALIGNED_BYTES, keeps_values

RESULTS = 8  # side by side, of which rows of results are multiples: a box of 16 bits has so many
LEAST = 64  # columns of B and summed elements from which a tile is worth it
SLACK_BYTES = 2048  # barriers, and where slots begin
TURN_CAUTION = 1.06  # how much longer groups in turn are taken to be, against those together
CAUTION = 1.03  # how much longer parts are taken to be than predicted, against whole tiles
RASTER_ROWS = 2048
"""Of tiles that blocks take together, so that B stays in L2. Measured: docs/measurements.md."""


def blocks_of(kernel: KernelOp, op: ContractOp, target: GpuTarget) -> Iterator[Words]:
    """The words that a contraction may have, the best first; none where threads multiply it."""
    if refused_groups(kernel, op, target) is not None:
        return
    roles = contraction_roles(op)
    assert roles is not None
    sizes = known_sizes(op, roles)
    assert sizes is not None
    narrow = {dtype for dtype in map(element_dtype, kernel.outs) if dtype.bytes == 2}
    terms = [len(terms_of(x)) for x in _rows_first(op)]
    dtype = element_dtype(terms_of(op.lhs)[0])

    def formed(rows: int, columns: int, roles: Roles, slots: int, *others: Word) -> Words:
        """With so many slots of each dtype of results; none without room for two steps."""
        results = len(narrow) * slots * GROUP_ROWS * ROW_BYTES
        step = ROW_BYTES * (rows * terms[0] + columns * terms[1])
        depth = (target.shared_bytes_per_block - SLACK_BYTES - results) // step
        tile = Tile(rows, columns, ROW_BYTES // dtype.bytes)
        raster = Raster(max(1, RASTER_ROWS // rows))
        return (tile, Stages(depth), roles, raster, *others) if depth >= 2 else ()

    def together(tile: BlockTile, parts: int) -> Words:
        groups = tile.rows // GROUP_ROWS
        shared = [SplitK(target.sm_count, parts)] if parts > 1 else []
        return formed(tile.rows, tile.columns, Roles(1, groups), 2 * groups, *shared)

    def in_turn(tile: TurnTile) -> Words:
        roles = Roles(1, tile.groups, *REGISTERS_OF_THREE)
        return formed(tile.rows, tile.columns, roles, tile.groups, Overlap("items"))

    found = list(_by_time(sizes, dtype, target, terms=sum(terms) > 2))
    words = [together(*x) for x in found]
    if sum(terms) == 2:
        finish, (tile, parts) = _finish(kernel, op), found[0]
        moved = sizes.moved_s(dtype, target)
        best = max(finished_seconds(sizes, tile, finish, dtype, target, parts), moved)
        times = {x: turned_seconds(sizes, x, finish, dtype, target) for x in TURN_TILES}
        turned = [in_turn(x) for x in sorted(times, key=times.__getitem__) if times[x] < inf]
        late = int(max(min(times.values()), moved) * TURN_CAUTION >= best)
        words[late:late] = turned
    yield from filter(None, words)


def _finish(kernel: KernelOp, op: ContractOp) -> Finish:
    """What becomes of a product's elements before they are stored."""
    made: dict[SSAValue, None] = {op.result: None}
    weight = 0.0
    read: set[SSAValue] = set()
    for x in kernel.block.ops:
        if isinstance(x, TensorOp) and any(y in made for y in x.operands):
            made[x.results[0]] = None
            weight += x.WEIGHT if isinstance(x, Elementwise) else 0
            read |= {y for y in x.operands if y not in made}
    size = product(shape_of(op.result.type))
    return Finish(weight, sum(product(shape_of(_argument(x).type)) == size for x in read))


def _argument(x: SSAValue) -> SSAValue:
    """What an operand is read from."""
    while isinstance(x.owner, ConvertOp | TransposeOp | ReshapeOp | BroadcastOp):
        x = x.owner.operands[0]
    return x


def _by_time(
    sizes: ProductSizes, dtype: DType, target: GpuTarget, *, terms: bool
) -> Iterator[tuple[BlockTile, int]]:
    """Tiles, and in how many parts those of the last wave come, the best first."""
    moved = sizes.moved_s(dtype, target)
    whole = [(seconds(sizes, x, dtype, target), x) for x in (TERM_TILES if terms else BLOCK_TILES)]
    whole.sort(key=lambda x: (x[0], -x[1].rows * x[1].columns))
    shared: list[tuple[float, BlockTile, int]] = []
    for tile, n in () if terms else product_of(BLOCK_TILES, range(2, MOST_PARTS + 1)):
        parts = parts_of(sizes, tile, dtype, target, n)
        if parts.others:
            time = max(seconds(sizes, tile, dtype, target, n), moved)
            shared.append((time + joining_seconds(tile, parts), tile, n))
    least = max(whole[0][0], moved)
    for time, tile, n in sorted(shared, key=lambda x: x[0]):
        if time * CAUTION < least:
            yield tile, n
    for _, tile in whole:
        yield tile, 1


def _rows_first(op: ContractOp) -> Sequence[SSAValue]:
    """The factor of a tile's rows, and that of its columns."""
    roles = contraction_roles(op)
    return op.operands[::-1] if roles is not None and roles.swapped else op.operands


def refused_groups(kernel: KernelOp, op: ContractOp, target: GpuTarget) -> str | None:
    """Why groups of warps do not multiply a product; None where they do."""
    if not target.multiplies_in_groups:
        return f"{target.name} has no groups of warps that multiply (wgmma: sm_90a)"
    roles = contraction_roles(op)
    if roles is None:
        return "it is no product of matrices"
    factors = [terms_of(x) for x in op.operands]
    dtypes = {element_dtype(x) for terms in factors for x in terms}
    outs = {element_dtype(x) for x in kernel.outs}
    if len(dtypes) > 1 or not dtypes <= _multiplied(kernel) or op.summand() is not F32:
        names = " and ".join(sorted(x.name for x in dtypes))
        allowed = ", ".join(sorted(x.name for x in _multiplied(kernel)))
        return f"factors are {names}; they multiply {allowed} into f32"
    if not outs <= {BF16, F16, F32}:
        return f"results are {' and '.join(sorted(x.name for x in outs))}; they have bf16, f16, f32"
    if kernel.overwritten is not None or not _is_simple(kernel, op):
        return "what becomes of the product is not computed element by element"
    if not all(_is_memory(x) for terms in factors for x in terms):
        return "a factor is computed where it is read; they multiply what memory holds"
    if is_strict(kernel) and op.dtype is F32:
        return "numerics are strict: their sums are rounded otherwise"
    sizes = known_sizes(op, roles)
    if sizes is None:
        return "a size is a symbol"
    if min(sizes.n, sizes.k) < LEAST:
        return f"n = {sizes.n} and k = {sizes.k}: fewer than {LEAST}"
    (dtype,) = dtypes
    operands, _, _ = op.words()
    if dtype.bytes == 1 and any(word[-1] not in roles.k for word in operands):
        # SOURCE: PTX ISA, wgmma
        return "factors of 8 bits must lie along the summed axis"
    lying = [w for w, x in zip(operands, factors, strict=True) if isinstance(x[0], BlockArgument)]
    if not lies_well(op, lying, dtype):
        return (
            f"rows of factors are no multiple of {ALIGNED_BYTES} bytes, or those of results of"
            f" {RESULTS} elements, which the copy engine wants"
        )
    return None


def known_sizes(op: Product, roles: ContractionRoles) -> ProductSizes | None:
    """Of a product; None where one is a symbol."""
    known = op.sizes()
    words = (roles.batch, roles.m, roles.n, roles.k)
    batches, m, n, k = (product(known[c] for c in word).constant for word in words)
    if batches is None or m is None or n is None or k is None:
        return None
    return ProductSizes(batches, m, n, k)


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
