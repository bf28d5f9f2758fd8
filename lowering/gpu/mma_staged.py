"""
Products that warps multiply on tensor cores, whose tiles come by asynchronous copies, several steps
ahead of what is multiplied: as in `staged`, of which this is the same loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import SSAValue

from mlc.dialects.dtypes import F32, F64
from mlc.dialects.gpu_copies import CopyAsyncOp
from mlc.dialects.gpu_products import WARP_LANES
from mlc.lowering.gpu.mma_tile import MmaTile
from mlc.lowering.gpu.staged import copy_ahead
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.element import Position


class StagedMmaTile(MmaTile):
    """The work of one thread, which copies its share of tiles to come."""

    @property
    def slots(self) -> tuple[int, ...]:
        """Tiles of each factor, by number."""
        return (self.cut.slots,)

    def write(self) -> None:
        """Tiles along the summed axis, then what follows."""
        b, (m, n, _) = self.b, self.shape
        sums = F64 if self.dtype is F64 else F32
        count = (self.cut.rows // m) * (self.cut.columns // n)
        zeros = [b.element(0, sums, m * n // WARP_LANES)] * count

        def multiply(sums: Sequence[SSAValue], slot: SSAValue) -> Sequence[SSAValue]:
            return self._multiply(sums, [slot])

        self._finish(copy_ahead(b, self.c.size.k, self.cut, zeros, self._copy, multiply))

    def _copy(self, k: Index, slot: Index) -> None:
        """Begins to copy this thread's share of the tiles from k on."""
        b, c = self.b, self.c
        one = self.s.lanes(1)
        for side in self.sides:
            buffer = one.buffers[c.op.operands[side.which]]
            for step, place in self._shares(side):
                letters = {
                    **self.batch,
                    **c.split(side.word, Position(b.add(side.first, place))),
                    **c.split(c.roles.k, Position(b.add(k, step))),
                }
                point = c.op.operand_point(one, side.which, letters)
                bases, _ = buffer.indices(b, cast("Sequence[Position]", point))
                source = (buffer.memref, [b.index(i) for i in bases])
                at = [b.index(i) for i in (slot, *side.at(place, step))]
                b.add_op(CopyAsyncOp.of(source, (side.buffer, at), side.lanes))
