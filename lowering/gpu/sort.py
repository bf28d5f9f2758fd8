"""Sort and argsort along the last axis, by keys: see `mlc.lowering.gpu.merge`."""

from __future__ import annotations

from functools import partial

from xdsl.ir import SSAValue

from mlc.dialects.dims import product
from mlc.dialects.dtypes import I64
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.sort import ArgsortOp, Sorting
from mlc.dialects.tile.nest_words import Vector
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.cell import walk, walk_grid
from mlc.lowering.gpu.merge import Order, TilePhase, sorting_phases
from mlc.lowering.gpu.phase import Work, device_builder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.opaque.sort import keys_of, position_dtype


@dataclass(frozen=True)
class _Elements:
    """The elements of the operand as keys."""

    op: Sorting

    def enabled(self, b: LoopBuilder) -> Index:
        """Always."""
        return 1

    def key(self, s: KernelScope, row: Index, i: Index) -> SSAValue:
        """The key of an element."""
        e = s.lanes(1)
        return keys_of(self.op).of(e, e.fetch(self.op.operands[0], point_of(s, self.op, row, i)))


def point_of(s: KernelScope, op: Sorting, row: Index, i: Index) -> tuple[Position, ...]:
    """The point of an element of a row."""
    assert isinstance(s.b, GpuBuilder)
    outer = s.b.split(row, [s.b.dim(d) for d in op.shape[:-1]])
    return (*map(Position, outer), Position(i))


def _result(
    op: Sorting, s: KernelScope, row: Index, i: Index, key: SSAValue, position: SSAValue | None
) -> None:
    """Writes a result from a sorted element."""
    e = s.lanes(1)
    if isinstance(op, ArgsortOp):
        assert position is not None
        value = e.convert(position, position_dtype(op.shape[-1]), I64)
    else:
        value = keys_of(op).element_of(e, key)
    e.store(value, s.outputs[0], point_of(s, op, row, i))


@dataclass(frozen=True)
class ResultPhase:
    """The results from the half of the scratch that was written last."""

    op: Sorting
    order: Order
    schedule: Schedule

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """One thread per element."""
        return walk_grid(b, [b.dim(self.order.rows), b.dim(self.order.length)], self.schedule)

    def write(self, s: KernelScope) -> None:
        """Elements one by one."""
        b = device_builder(s)
        rows, length = b.dim(self.order.rows), b.dim(self.order.length)
        half = self.order.half(b, self.order.merges(b))

        def point(_: int, at: list[Position]) -> None:
            row, i = at[0].base, at[1].base
            place = b.add(half, b.add(b.mul(row, length), i))
            values = [b.load(memory, [place]) for memory in s.scratch]
            _result(self.op, s, row, i, values[0], values[-1])

        walk(b, [rows, length], Schedule(), point)


def sort_work(op: Sorting, schedule: Schedule) -> Work:
    """The phases of a sort: one where rows fit into a tile."""
    positions = position_dtype(op.shape[-1]) if isinstance(op, ArgsortOp) else None
    order = Order(product(op.shape[:-1]), op.shape[-1], keys_of(op).dtype, positions)
    if order.in_tile:
        return Work((TilePhase(order, _Elements(op), partial(_result, op)),))
    return Work(
        (
            *sorting_phases(order, _Elements(op)),
            ResultPhase(op, order, schedule.having(Vector(1, schedule.vector_axis))),
        ),
        order.scratch(),
    )
