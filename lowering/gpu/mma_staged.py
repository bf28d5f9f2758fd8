"""
Products that warps multiply on tensor cores, whose tiles come by asynchronous copies, several steps
ahead of what is multiplied: as in `staged`, of which this is the same loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.lowering.gpu.mma_tile import MmaTile, Side
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
        """Begins to copy this thread's share of the tiles from k on, zeros past the edges."""
        b, c = self.b, self.c
        for side in self.sides:
            for step, place in self._shares(side):
                at_k, at = b.add(k, step), b.add(side.first, place)
                letters = {
                    **self.batch,
                    **c.split(side.word, Position(at)),
                    **c.split(c.roles.k, Position(at_k)),
                }
                inside = self._inside(side, at, at_k)
                target = side.buffer, (slot, *side.at(place, step))
                copied = side.lanes, self.dtype
                begin_copy(self.s, c, side.which, letters, target, copied, inside)

    def _inside(self, side: Side, at: Index, at_k: Index) -> SSAValue | None:
        """Whether a place is there; None where tiles are whole ones."""
        b, k = self.b, self.c.size.k
        inside: SSAValue | bool = True
        if not isinstance(side.most, int) or side.most % side.length:
            inside = b.compare("lt", at, side.most)
        if not isinstance(k, int) or k % self.cut.k:
            inside = b.both(inside, b.compare("lt", at_k, k))
        if isinstance(inside, bool):
            assert inside, "no tile begins past the edges"
            return None
        return inside
