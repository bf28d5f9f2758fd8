"""
Products that warps multiply on tensor cores, whose tiles come by asynchronous copies, several steps
ahead of what is multiplied: as in `staged`, of which this is the same loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.lowering.gpu.mma_tile import MmaTile
from mlc.lowering.gpu.staged import begin_copy, copy_ahead
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

        def multiply(sums: Sequence[SSAValue], slot: SSAValue) -> Sequence[SSAValue]:
            return self._multiply(sums, [slot])

        zeros = self._zeros()
        self._finish(copy_ahead(self.b, self.c.size.k, self.cut, zeros, self._copy, multiply))

    def _copy(self, k: Index, slot: Index) -> None:
        """
        Begins to copy this thread's share of the tiles from k on, zeros behind the last summed
        element; instead of rows past the edges, of which nothing is stored, the last one again.
        """
        b, c = self.b, self.c
        for side in self.sides:
            for step, place in self._shares(side):
                at_k, at = b.add(k, step), b.add(side.first, place)
                if not isinstance(side.most, int) or side.most % side.length:
                    at = b.min(at, b.sub(side.most, 1 if side.along_k else side.lanes))
                letters = {
                    **self.batch,
                    **c.split(side.word, Position(at)),
                    **c.split(c.roles.k, Position(at_k)),
                }
                target = side.buffer, (slot, *side.at(place, step))
                inside = self._inside(at_k)
                begin_copy(self.s, c, side.which, letters, target, side.lanes, inside)

    def _inside(self, at_k: Index) -> SSAValue | None:
        """Whether a summed element is there; None where tiles have whole ones."""
        k = self.c.size.k
        if isinstance(k, int) and k % self.cut.k == 0:
            return None
        inside = self.b.compare("lt", at_k, k)
        assert not isinstance(inside, bool), "no tile begins past the end"
        return inside
