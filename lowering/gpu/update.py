"""Writing a part of a tensor where it lies: one thread per element of the part."""

from __future__ import annotations

from mlc.dialects.dims import shape_of
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.dialects.tile.nest_words import Vector
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import Grid
from mlc.lowering.gpu.cell import walk, walk_grid
from mlc.lowering.gpu.phase import device_builder
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.update import first_element, moved


@dataclass(frozen=True)
class UpdatePhase:
    """An update in place. The part may begin anywhere, so elements are written one by one."""

    update: DynamicUpdateOp
    schedule: Schedule

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """One thread per element of the part."""
        sizes = [b.dim(d) for d in shape_of(self.update.update.type)]
        return walk_grid(b, sizes, self.schedule.having(Vector(1, self.schedule.vector_axis)))

    def write(self, s: KernelScope) -> None:
        """The part's elements, where they belong."""
        b = device_builder(s)
        start = first_element(s.lanes(1), self.update)

        def point(lanes: int, at: list[Position]) -> None:
            e = s.lanes(lanes)
            value = e.fetch(self.update.update, tuple(at))
            e.store(value, s.outputs[0], tuple(moved(s, start, at)))

        walk(b, [b.dim(d) for d in shape_of(self.update.update.type)], Schedule(), point)
