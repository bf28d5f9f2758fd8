"""Contractions: a block stages tiles of both operands in shared memory, a thread keeps a tile.

The classical scheme: Volkov & Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mlc.dialects.analysis.access import Nest
from mlc.dialects.analysis.matmul_axes import (
    ContractionRoles,
    contraction_roles,
    thread_roles,
)
from mlc.dialects.dims import Dim, product
from mlc.dialects.gpu_products import STAGED
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tile.nest_words import Stage
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.columns import ColumnFoldPhase
from mlc.lowering.gpu.contraction_nest import ContractionNest
from mlc.lowering.gpu.mma_staged import StagedMmaTile
from mlc.lowering.gpu.mma_tile import MmaTile
from mlc.lowering.gpu.parts import PartsTile, Shared
from mlc.lowering.gpu.phase import Work, device_builder
from mlc.lowering.gpu.staged import StagedTile, copies
from mlc.lowering.gpu.tile import Tile
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import KernelScope

MOST_TILE = 256  # rows, columns or summed elements of a tile, which begins in a factor


@dataclass(frozen=True)
class TilePhase:
    """A tiled contraction with its prologue and epilogue."""

    nest: Nest
    schedule: Schedule
    strided: frozenset[int]
    op: Product
    roles: ContractionRoles

    def tiles(self, c: ContractionNest) -> tuple[Index, Index, list[Index]]:
        """Tiles down the rows, along the columns, and the sizes of the batch."""
        down = c.b.ceil_div(c.size.m, self.cut.m)
        across = c.b.ceil_div(c.size.n, self.cut.n)
        return down, across, [c.letter_sizes[letter] for letter in c.batch]

    def _of_letters(self, b: LoopBuilder) -> ContractionNest:
        single = self.cut.parts > 0
        return ContractionNest(b, self.nest, self.strided, self.op, self.roles, single=single)

    @property
    def cut(self) -> Stage:
        """What a block and a thread compute."""
        assert self.schedule.stage is not None
        return self.schedule.stage

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """One block for each tile of each batch, all along x."""
        c = self._of_letters(b)
        down, across, batch = self.tiles(c)
        blocks = b.product([shares_of(self.op, self.schedule), *batch, down, across])
        return Grid((blocks, 1, 1), (self.schedule.threads, 1, 1))

    def write(self, s: KernelScope) -> None:
        """One tile."""
        c = self._of_letters(device_builder(s))
        b = c.b
        assert isinstance(b, GpuBuilder)
        down, across, batch = self.tiles(c)
        with b.narrow(fits=_fits(c)):
            shares = shares_of(self.op, self.schedule)
            share, *at = b.split(b.block_number(), [shares, *batch, down, across])
            self._write(s, c, at, share, shares)

    def _write(
        self, s: KernelScope, c: ContractionNest, at: Sequence[Index], share: Index, shares: int
    ) -> None:
        dtype = STAGED[self.cut.mma] if self.cut.mma else c.dtype
        staged = self.cut.slots and copies(s, c, self.cut, dtype)
        if self.cut.mma:
            (StagedMmaTile if staged else MmaTile)(s, c, self.cut, at).write()
        elif self.cut.parts:
            mine = None if shares == 1 else Shared(share, self.schedule.share)
            PartsTile(s, c, self.cut, at, mine).write()
        else:
            (StagedTile if staged else Tile)(s, c, self.cut, at).write()


def _fits(c: ContractionNest) -> bool:
    """Whether no place in factors and result, flattened, takes more than 31 bits."""
    m, n, k = (c.size.m, c.size.n, c.size.k)
    batch = [c.letter_sizes[letter] for letter in c.batch]
    known = [size for size in (m, n, k, *batch) if isinstance(size, int)]
    if len(known) < 3 + len(batch):
        return False
    m, n, k, *batch = (max(size, MOST_TILE) for size in known)
    return prod(batch) * max(m * n, m * k, k * n) < 1 << 31


def shares_of(op: Product, schedule: Schedule) -> int:
    """Into how many shares the summed elements are cut."""
    if not schedule.share:
        return 1
    _, _, summed = op.words()
    sizes = op.sizes()
    extent = product(sizes[c] for c in summed).constant
    assert extent is not None
    return -(-extent // schedule.share)


def product_work(nest: Nest, schedule: Schedule, strided: frozenset[int]) -> Work:
    """The phases of a product that threads or warps multiply: shares are added by a second one."""
    op = nest.reduction
    assert isinstance(op, Product)
    assert schedule.stage is not None
    roles = contraction_roles(op) if schedule.stage.mma else thread_roles(op)
    assert roles is not None
    first = TilePhase(nest, schedule, strided, op, roles)
    shares = shares_of(op, schedule)
    if shares == 1:
        return Work((first,))
    count = product([*nest.sizes[: nest.rank], Dim.const(shares)])
    scratch = (Scratch(memory_type(op.summand()), count),)
    return Work((first, ColumnFoldPhase(nest, schedule, strided, shares)), scratch)
