"""
What a schedule of a product moves and takes on a GPU: values in, values out.

Blocks compute tiles, one after the other where there are more than the machine runs at once, so a
product takes as long as the multiprocessor that has most. Three routes: *groups* of four warps
multiply what the copy engine brings, *warps* multiply on tensor cores what threads stage, *threads*
multiply on the cores.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Literal, TypeVar, get_args

from mlc.dialects.analysis.matmul_axes import thread_roles
from mlc.dialects.dtypes import DType
from mlc.dialects.gpu_products import STAGED as FACTORS
from mlc.dialects.plan import Schedule
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.reduce import ContractOp, Product
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.nest_words import Stage
from mlc.dialects.tile.words import Overlap, Raster, Roles, SplitK, Tile, Word, Words
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.work import ATTO, LEVELS, Work, moved, of_seconds
from mlc.passes.cost.work import seconds as seconds_of
from mlc.passes.gpu.tiles import (
    BLOCK_TILES,
    PLAIN_FINISH,
    TERM_TILES,
    TURN_TILES,
    BlockTile,
    ProductSizes,
    TurnTile,
    finished_seconds,
    joining_seconds,
    parts_of,
    turned_seconds,
)

Route = Literal["groups", "warps", "threads"]
ROUTES: tuple[Route, ...] = get_args(Route)

WGMMA = 0.79
MMA = {"f64": (0.79, 0.71), "f32": (0.23, 0.15), "bf16": (0.3, 0.18), "f16": (0.3, 0.18)}
WINDOWS = {"f64": 0.42, "f32": 0.09, "bf16": 0.06, "f16": 0.06}
"""
Share of the unit's peak that kernels reach: of `wgmma`; of `mma.sync` in large tiles and in small
ones, by dtype of the factors; likewise of convolutions. Measured: docs/measurements.md, "Products
by tensor cores on a GPU"; small tiles of f32 like those of bf16.
"""
SMALL = 64 * 64
"""Results of a tile of warps up to which it is small."""

BLOCK_THREADS = 256  # 8 blocks fill an SM of 2048 threads at up to 32 registers each
ALONE = 1.17  # times as long a block takes of which a multiprocessor has one. Measured: as below
PLAIN, READ, READ_WINDOWS = 1.2, 10.0, 18.0
"""Time for a sum where threads read what comes next, and for what they read: of a convolution they
compute more places. Measured: docs/measurements.md, "Products of f32 on a GPU"."""
STAGED = ((128, 128, 1.0), (64, 128, 1.06), (64, 64, 1.25))
"""Rows and columns of what asynchronous copies stage, and time for a sum. Measured: as above"""
PARTS = (
    (64, 64, 1, 16, 1.4), (64, 32, 2, 32, 1.4), (64, 16, 4, 32, 1.4), (32, 32, 4, 32, 1.4),
    (32, 16, 8, 32, 1.6), (16, 16, 16, 64, 2.0),
)  # fmt: skip
"""
Rows and columns of a tile, parts of the threads, what they stage, and time for a sum. Measured: as
above
"""
OF_WINDOWS = ((128, 64, 1, 16, 1.1), (64, 128, 1, 16, 1.1))
"""The same of convolutions alone: products of such a size copy their tiles. Measured: as above"""
CORES = 0.692
"""Share of the cores' peak where time for a sum is 1. Measured: as above"""
STEP_SECONDS, RESULT_SECONDS = 6e-7, 3e-8  # of a step that waits for memory, and of a result
FOLD_SECONDS, SHARE_SECONDS = 2.5e-6, 1e-11  # to add shares: a kernel, and each element of them


@dataclass(frozen=True, kw_only=True)
class GpuProduct:
    """A product by values alone."""

    sizes: ProductSizes
    factor: DType
    """What is multiplied, as memory holds it."""
    result: DType
    terms: int = 1
    """Products of terms that make one of such numbers."""
    windows: bool = False
    swapped: bool = False
    """Whether rows are the second factor's."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a schedule does, how long it takes, and in which parts."""

    route: Route
    work: Work
    seconds: float
    blocks: int
    """Tiles, or parts of them, that blocks compute."""
    bytes: tuple[int, int, int]
    """Read of shared memory, of level 2 and of device memory."""
    core_s: float
    """Until the multiprocessor that has most is done."""
    read_s: float
    write_s: float
    join_s: float
    """To add the parts of sums."""
    start_s: float


def predict(product: GpuProduct, schedule: Schedule, target: GpuTarget) -> Prediction:
    """What these words make of the product."""
    cut = _Cut.of(product, schedule)
    core, join = cut.core_s(product, target), cut.join_s(product, target)
    read = cut.bytes(product, target)
    s = product.sizes
    written = s.batches * s.m * s.n * product.result.bytes
    parts = (
        Work(core=of_seconds(core + join)), Work(read=moved(read[-1], LEVELS - 1)),
        Work(write=moved(written, LEVELS - 1)), Work(starts=1),
    )  # fmt: skip
    work = parts[0] + parts[1] + parts[2] + parts[3]
    _, read_s, write_s, start_s = (seconds_of(x, target) / ATTO for x in parts)
    return Prediction(
        route=cut.route, work=work, seconds=seconds_of(work, target) / ATTO,
        blocks=cut.blocks(s), bytes=read, core_s=core, read_s=read_s, write_s=write_s,
        join_s=join, start_s=start_s,
    )  # fmt: skip


def product_seconds(product: GpuProduct, schedule: Schedule, target: GpuTarget) -> float:
    """To multiply, operands at hand, and to add the parts of sums."""
    cut = _Cut.of(product, schedule)
    return cut.core_s(product, target) + cut.join_s(product, target)


def gpu_product(op: Product, sizes: ProductSizes, factor: DType, *, terms: int = 1) -> GpuProduct:
    """An op as values."""
    roles = thread_roles(op)
    return GpuProduct(
        sizes=sizes, factor=factor, result=op.dtype, terms=terms,
        windows=not isinstance(op, ContractOp),
        swapped=roles is not None and roles.swapped,
    )  # fmt: skip


@dataclass(frozen=True)
class _Cut:
    """How blocks share a product: rows and columns of a tile, and shares of the summed elements."""

    m: int
    n: int
    share: int = 0

    route: Route = "threads"

    @staticmethod
    def of(product: GpuProduct, schedule: Schedule) -> _Cut:
        """What the words of a schedule say; one block for all results where they say nothing."""
        for word in schedule.cuts:
            if isinstance(word, Tile):
                return _ByGroups(word.m, word.n, route="groups", words=schedule.cuts)
        stage, sizes = schedule.stage, product.sizes
        if stage is None:
            return _ByThreads(sizes.m, sizes.n, stage=Stage(sizes.m, sizes.n, 1, 1, 1))
        if stage.mma:
            return _ByWarps(stage.m, stage.n, route="warps", stage=stage)
        return _ByThreads(stage.m, stage.n, schedule.share, stage=stage)

    def tiles(self, sizes: ProductSizes) -> int:
        """Of all results."""
        return sizes.batches * ceil(sizes.m / self.m) * ceil(sizes.n / self.n)

    def blocks(self, sizes: ProductSizes) -> int:
        """Tiles, each as often as its summed elements are shared."""
        return self.tiles(sizes) * (ceil(sizes.k / self.share) if self.share else 1)

    def rows_together(self, sizes: ProductSizes, blocks: int) -> int:
        """Tiles of one column that run at once with others, where so many blocks do."""
        return min(ceil(sizes.m / self.m), blocks)

    def bytes(self, product: GpuProduct, target: GpuTarget) -> tuple[int, int, int]:
        """
        Read of shared memory, of level 2 and of device memory. What blocks that run at once read
        of a factor comes from memory once; of factors that level 2 holds nothing comes again.
        """
        s, item = product.sizes, product.factor.bytes * (3 if product.terms > 1 else 1)
        tiles = self.tiles(s)
        near = tiles * (self.m + self.n) * s.k * item
        once = s.batches * (s.m + s.n) * s.k * item
        at_once = min(tiles, target.sm_count)
        rows = self.rows_together(s, at_once)
        columns = ceil(at_once / rows)
        waves = ceil(tiles / at_once)
        again = waves * (rows * self.m + columns * self.n) * s.k * item
        fits = once // s.batches <= target.l2_bytes
        far = once if fits else max(once, min(again, near))
        shared = tiles * self.operands(product) * s.k * product.factor.bytes * product.terms
        return shared, max(near, once), far

    def operands(self, product: GpuProduct) -> int:
        """Elements that instructions read from shared memory for a step of a tile."""
        raise NotImplementedError

    def core_s(self, product: GpuProduct, target: GpuTarget) -> float:
        """Until the multiprocessor that has most blocks has multiplied."""
        raise NotImplementedError

    def join_s(self, product: GpuProduct, target: GpuTarget) -> float:
        """To add the shares of sums."""
        if not self.share or self.share >= product.sizes.k:
            return 0.0
        s = product.sizes
        return ceil(s.k / self.share) * s.batches * s.m * s.n * SHARE_SECONDS + FOLD_SECONDS


_W = TypeVar("_W", bound=Word)


def _first(kind: type[_W], words: Words) -> _W | None:
    return next((word for word in words if isinstance(word, kind)), None)


@dataclass(frozen=True, kw_only=True)
class _ByGroups(_Cut):
    """`wgmma`: each group of warps multiplies 64 rows of what the copy engine brings."""

    words: Words

    def operands(self, product: GpuProduct) -> int:
        return self.m + ceil(self.m / GROUP_ROWS) * self.n

    def rows_together(self, sizes: ProductSizes, blocks: int) -> int:
        raster = _first(Raster, self.words)
        return min(_Cut.rows_together(self, sizes, blocks), raster.rows if raster else blocks)

    @property
    def parts(self) -> int:
        """In which a tile of the last wave comes."""
        split = _first(SplitK, self.words)
        return split.parts if split else 1

    def core_s(self, product: GpuProduct, target: GpuTarget) -> float:
        sizes = replace(product.sizes, k=product.sizes.k * product.terms)
        roles, overlap = _first(Roles, self.words), _first(Overlap, self.words)
        if overlap and roles:
            shape = self.m, self.n, roles.consumer
            known = (x for x in TURN_TILES if (x.rows, x.columns, x.groups) == shape)
            turned = next(known, TurnTile(*shape, WGMMA))
            return turned_seconds(sizes, turned, PLAIN_FINISH, product.factor, target)
        tile = self.tile(product)
        return finished_seconds(sizes, tile, PLAIN_FINISH, product.factor, target, self.parts)

    def join_s(self, product: GpuProduct, target: GpuTarget) -> float:
        if self.parts == 1:
            return 0.0
        tile = self.tile(product)
        parts = parts_of(product.sizes, tile, product.factor, target, self.parts)
        return joining_seconds(tile, parts) if parts.others else 0.0

    def tile(self, product: GpuProduct) -> BlockTile:
        """With the shares of the peak that were measured, or those of most."""
        known = TERM_TILES if product.terms > 1 else BLOCK_TILES
        fallback = BlockTile(self.m, self.n, WGMMA, WGMMA)
        return next((x for x in known if (x.rows, x.columns) == (self.m, self.n)), fallback)


@dataclass(frozen=True, kw_only=True)
class _ByWarps(_Cut):
    """`mma.sync`: warps read their rows and columns of what all threads stage."""

    stage: Stage

    def operands(self, product: GpuProduct) -> int:
        cut = self.stage
        return (self.m // cut.rows) * (self.n // cut.columns) * (cut.rows + cut.columns)

    def core_s(self, product: GpuProduct, target: GpuTarget) -> float:
        dtype = FACTORS[self.stage.mma]
        large, small = MMA[dtype.name]
        share = small if self.m * self.n <= SMALL else large
        share = WINDOWS[dtype.name] if product.windows else share
        count = max(ceil(self.tiles(product.sizes) / target.sm_count), ALONE)
        flops = 2 * count * self.m * self.n * product.sizes.k * target.sm_count
        return flops / (share * target.tensor_flops_per_s(dtype))


@dataclass(frozen=True, kw_only=True)
class _ByThreads(_Cut):
    """Threads multiply; where they read one tile after the other they wait for each."""

    stage: Stage

    def operands(self, product: GpuProduct) -> int:
        cut = self.stage
        return self.m * self.n * (cut.rows + cut.columns) // max(1, cut.rows * cut.columns)

    def core_s(self, product: GpuProduct, target: GpuTarget) -> float:
        cut, s = self.stage, product.sizes
        k, each, read = self.share or s.k, *self.of_sum(product)
        count = max(ceil(self.blocks(s) / target.sm_count), ALONE)
        step = self.m * self.n * each + self.m * read[0] + self.n * read[1]
        sums = count * step * k * sum_seconds(product.factor, target)
        waits = 0.0 if cut.slots else ceil(k / cut.k) * STEP_SECONDS
        results = self.m * self.n / BLOCK_THREADS * RESULT_SECONDS
        return max(sums, waits) + count * results

    def of_sum(self, product: GpuProduct) -> tuple[float, tuple[float, float]]:
        """Time of a sum, and of what is read of a row and of a column."""
        cut = self.stage
        if cut.slots:
            shares = {(m, n): each for m, n, each in STAGED}
            return shares.get((cut.m, cut.n), STAGED[-1][-1]), (0.0, 0.0)
        if not cut.parts:
            return PLAIN, (READ, READ)
        first, second = READ_WINDOWS if product.windows else READ, READ
        read = (second, first) if product.swapped else (first, second)
        tables = (*OF_WINDOWS, *PARTS) if product.windows else PARTS
        shares = {(m, n, parts): each for m, n, parts, _, each in tables}
        return shares.get((cut.m, cut.n, cut.parts), PARTS[-1][-1]), read


def sum_seconds(dtype: DType, target: GpuTarget) -> float:
    """Of a multiprocessor, where time for a sum is 1."""
    return 2 * target.sm_count / (CORES * target.flops_per_s(dtype))
