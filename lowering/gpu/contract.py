"""Contractions: a block stages tiles of both operands in shared memory, a thread keeps a tile.

The classical scheme: Volkov & Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008.
"""

from __future__ import annotations

from mlc.dialects.analysis.access import Nest
from mlc.dialects.analysis.matmul_axes import ContractionRoles
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tile.nest_words import Stage
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.contraction_nest import ContractionNest
from mlc.lowering.gpu.mma_tile import MmaTile
from mlc.lowering.gpu.phase import device_builder
from mlc.lowering.gpu.staged import StagedTile, copies
from mlc.lowering.gpu.tile import Tile
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.kernel import KernelScope


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
        c = ContractionNest(b, self.nest, self.strided, self.op, self.roles)
        down, across, batch = self.tiles(c)
        return Grid((b.product([*batch, down, across]), 1, 1), (self.schedule.threads, 1, 1))

    def write(self, s: KernelScope) -> None:
        """One tile."""
        c = ContractionNest(device_builder(s), self.nest, self.strided, self.op, self.roles)
        b = c.b
        assert isinstance(b, GpuBuilder)
        down, across, batch = self.tiles(c)
        at = b.split(b.block_number(), [*batch, down, across])
        if self.cut.mma:
            MmaTile(s, c, self.cut, at).write()
            return
        staged = self.cut.slots and copies(s, c, self.cut)
        (StagedTile if staged else Tile)(s, c, self.cut, at).write()
