"""Tiles of products that blocks of a GPU compute by wgmma, and how long they take."""

from __future__ import annotations

from math import ceil, inf

from mlc.dialects.dtypes import F32, DType
from mlc.dialects.target import GpuTarget
from mlc.dialects.tile.parts import Integers, Parts
from mlc.dialects.tile.slots import ROW_BYTES
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class BlockTile:
    """
    Rows and columns of a block's results, and the shares of the tensor cores' peak that it reaches:
    `busy` where blocks take several, `alone` where each takes one at most.
    """

    rows: int
    columns: int
    busy: float
    alone: float


@dataclass(frozen=True)
class ProductSizes:
    """Of products that are computed together."""

    batches: int
    m: int
    n: int
    k: int

    def moved_s(self, dtype: DType, target: GpuTarget) -> float:
        """Both factors and results, each once."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return self.batches * elements * dtype.bytes / (MEMORY * target.hbm_bytes_per_s)


BLOCK_TILES = (
    BlockTile(128, 256, 0.81, 0.95), BlockTile(128, 192, 0.79, 0.91),
    BlockTile(128, 128, 0.68, 0.93), BlockTile(64, 256, 0.74, 0.90),
    BlockTile(64, 128, 0.56, 0.78), BlockTile(128, 64, 0.40, 0.65), BlockTile(64, 64, 0.34, 0.53),
)  # fmt: skip
"""Of 16 bits on an H100: docs/measurements.md, "Products of bf16 on a GPU"."""

TERM_TILES = (
    BlockTile(128, 128, 0.68, 0.68), BlockTile(64, 128, 0.56, 0.56), BlockTile(128, 64, 0.48, 0.48),
    BlockTile(64, 64, 0.4, 0.4),
)  # fmt: skip
"""The same of numbers in terms, whose sums a group holds twice; estimated."""


@dataclass(frozen=True)
class TurnTile:
    """
    A tile that one of several groups multiplies while others finish theirs, and the share of the
    peak that is reached so.
    """

    rows: int
    columns: int
    groups: int
    busy: float


TURN_TILES = (TurnTile(64, 192, 3, 0.62),)
"""Measured, as above, "Groups in turn"."""
REGISTERS_OF_THREE = (32, 160)
"""Of threads that copy, and of those of three groups: a multiprocessor's are 65,536."""

FINISH_S, READ_S = 3.1e-12, 1.2e-10
"""Of an element of a tile that both groups finish: for the weight of an addition, and for an
element that is read. Measured, as above."""
BEGIN_S, TURN_S = 1.4e-6, 5e-7
"""Between tiles of a block, and between turns of groups. Measured, as above."""
ALONE = 4.0
"""How much longer a group finishes its tile while others multiply. Measured, as above."""

MEMORY = 0.8
"""Share of memory's rate that is reached; estimated."""
MOST_PARTS = 4
"""In which a tile comes: what blocks that help have summed is read by one of them."""
JOIN_S = 5e-6
"""What parts take besides their sums: they are written, waited for and read. Measured, as above."""
PART_BYTES_PER_S = 43e9
"""At which a block reads what another one has summed. Measured, as above."""


def parts_of(
    sizes: ProductSizes, tile: BlockTile, dtype: DType, target: GpuTarget, n: int
) -> Parts:
    """How blocks share tiles, of which at most so many parts are made."""
    items = sizes.batches * ceil(sizes.m / tile.rows) * ceil(sizes.n / tile.columns)
    steps = ceil(sizes.k * dtype.bytes / ROW_BYTES)
    return Parts(Integers(), items, steps, target.sm_count, n)


def seconds(
    sizes: ProductSizes, tile: BlockTile, dtype: DType, target: GpuTarget, n: int = 1
) -> float:
    """All waves of tiles, those of the last one in parts, until they are summed."""
    p = parts_of(sizes, tile, dtype, target, n)
    rate = tile.busy if p.whole else tile.alone
    depth = ROW_BYTES // dtype.bytes
    step = 2 * tile.rows * tile.columns * depth / (rate * target.tensor_flops_per_s(dtype))
    last = p.steps - p.others * p.cut if p.shared else 0
    return step * target.sm_count * (p.whole * p.steps + last)


@dataclass(frozen=True)
class Finish:
    """What becomes of an element of a product: the weight of that, and elements that are read."""

    weight: float
    reads: int

    def seconds(self, elements: int) -> float:
        """Of a tile whose groups all finish it."""
        return elements * (self.weight * FINISH_S + self.reads * READ_S)


PLAIN_FINISH = Finish(0.0, 0)
"""Results are stored as they are."""


def finished_seconds(
    sizes: ProductSizes, tile: BlockTile, finish: Finish, dtype: DType, target: GpuTarget, n: int
) -> float:
    """As `seconds`, with what a block does between one tile and the next."""
    p = parts_of(sizes, tile, dtype, target, n)
    rounds = p.whole + (p.shared > 0)
    return seconds(sizes, tile, dtype, target, n) + rounds * (
        BEGIN_S + finish.seconds(tile.rows * tile.columns)
    )


def turned_seconds(
    sizes: ProductSizes, tile: TurnTile, finish: Finish, dtype: DType, target: GpuTarget
) -> float:
    """
    Of groups that take tiles in turn; infinite where blocks have fewer tiles than groups, and where
    tiles end past the edges: three groups have few registers for where elements are.
    """
    items = sizes.batches * ceil(sizes.m / tile.rows) * ceil(sizes.n / tile.columns)
    rounds = ceil(items / target.sm_count)
    if rounds < tile.groups or sizes.m % tile.rows or sizes.n % tile.columns:
        return inf
    flops = 2 * tile.rows * tile.columns * sizes.k
    product = flops * target.sm_count / (tile.busy * target.tensor_flops_per_s(dtype))
    alone = ALONE * finish.seconds(tile.rows * tile.columns)
    return rounds * max(product + TURN_S, (product + alone) / tile.groups)


def joining_seconds(tile: BlockTile, parts: Parts) -> float:
    """What parts of a tile take until their sums are one."""
    size_bytes = tile.rows * tile.columns * F32.bytes
    return JOIN_S + parts.others * size_bytes / PART_BYTES_PER_S
