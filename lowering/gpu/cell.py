"""Pointwise kernels: each thread computes the elements of a few 16-byte accesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import Nest
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.op import element_dtype
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import MAX_GRID_Y, GpuBuilder, Grid
from mlc.lowering.gpu.phase import device_builder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import NOT_UNROLLED, LoopBuilder
from mlc.lowering.loops.element import Buffer, Position
from mlc.lowering.loops.kernel import KernelScope, axes_of


def walk_grid(b: LoopBuilder, sizes: Sequence[Index], schedule: Schedule) -> Grid:
    """The grid for `walk`: x along the last axis, y along all others together.

    A block takes whole rows, side by side, where they are shorter than it.
    """
    if not sizes:
        return Grid((1, 1, 1), (1, 1, 1))
    share = schedule.lanes * schedule.unroll
    chunks, rows = b.ceil_div(sizes[-1], share), b.product(sizes[:-1])
    width: Index = schedule.threads if rows == 1 else b.max(b.min(chunks, schedule.threads), 1)
    height = b.div(schedule.threads, width)
    across = b.ceil_div(chunks, width)
    down = b.min(b.ceil_div(rows, height), MAX_GRID_Y)
    return Grid((across, down, 1), (width, height, 1))


def walk(
    b: GpuBuilder,
    sizes: Sequence[Index],
    schedule: Schedule,
    body: Callable[[int, list[Position]], None],
) -> None:
    """
    `body(lanes, point)` for this thread's elements: `unroll` vectors, a block's width apart, and
    single ones at a row's end.
    """
    if not sizes:
        body(1, [])
        return
    lanes, unroll = schedule.lanes, schedule.unroll
    inner, rows = sizes[-1], b.product(sizes[:-1])
    width = b.block_size()
    first = b.add(b.mul(b.mul(b.block_number(), width), unroll), b.thread())
    columns = [b.mul(b.add(first, b.mul(width, u)), lanes) for u in range(unroll)]

    def chunk(row: Index) -> None:
        fixed = [Position(i) for i in b.split(row, sizes[:-1])]

        def at(width: int, i: Index) -> None:
            body(width, [*fixed, Position(i, 1)])

        def single(column: Index) -> None:
            end = b.min(inner, b.add(column, lanes))
            b.loop(column, end, 1, partial(at, 1), attributes=NOT_UNROLLED)

        def vectors() -> None:
            for column in columns:
                at(lanes, column)

        def some() -> None:
            for column in columns:
                if whole:
                    b.when(b.compare("lt", column, inner), partial(at, lanes, column))
                else:
                    single(column)

        whole = b.divisor(inner) % lanes == 0  # vectors end with the row
        if whole and unroll == 1:
            vectors()
        else:
            b.when(b.compare("le", b.add(columns[-1], lanes), inner), vectors, some)

    def every_row() -> None:
        if rows == 1:
            chunk(0)
            return
        height = b.block_size("y")
        first = b.add(b.mul(b.block_number("y"), height), b.thread("y"))
        b.loop(first, rows, b.mul(b.grid_size("y"), height), chunk)

    def aligned_rows() -> None:
        if rows == 1:
            every_row()
        else:
            b.as_divisible(inner, lanes, every_row)

    b.when(b.compare("lt", columns[0], inner), aligned_rows)


@dataclass(frozen=True)
class CellPhase:
    """A pointwise kernel."""

    nest: Nest
    schedule: Schedule
    strided: frozenset[int]

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """One thread per vector of results."""
        return walk_grid(b, axes_of(b, self.nest, self.strided).sizes, self.schedule)

    def write(self, s: KernelScope) -> None:
        """Every yielded value at this thread's points."""
        b = device_builder(s)
        axes = axes_of(b, self.nest, self.strided)

        def point(lanes: int, at: list[Position]) -> None:
            s.store_results(s.lanes(lanes), axes.point(at))

        walk(b, axes.sizes, self.schedule, point)


@dataclass(frozen=True)
class PiecePhase:
    """A tensor, written where it belongs: into the result, or into some scratch of its size."""

    part: SSAValue
    schedule: Schedule
    start: tuple[Dim, ...] = ()  # where it begins; () at the first element
    scratch: int | None = None

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def grid(self, b: LoopBuilder) -> Grid:
        """One thread per vector of the piece."""
        return walk_grid(b, [b.dim(d) for d in shape_of(self.part.type)], self.schedule)

    def write(self, s: KernelScope) -> None:
        """The piece's elements, from its start on."""
        b = device_builder(s)
        starts = [b.dim(dim) for dim in self.start] or [0] * len(shape_of(self.part.type))
        target = s.outputs[0] if self.scratch is None else self._line(s)

        def point(lanes: int, at: list[Position]) -> None:
            e = s.lanes(lanes)
            value = e.fetch(self.part, tuple(at))
            moved = (Position(b.add(p.base, x), p.step) for p, x in zip(at, starts, strict=True))
            e.store(value, target, tuple(moved))

        walk(b, [b.dim(d) for d in shape_of(self.part.type)], self.schedule, point)

    def _line(self, s: KernelScope) -> Buffer:
        """The scratch as a row-major tensor."""
        assert self.scratch is not None
        shape = shape_of(self.part.type)
        axes, sizes = tuple(range(len(shape))), tuple(s.b.dim(d) for d in shape)
        dtype = element_dtype(self.part)
        return Buffer(s.scratch[self.scratch], dtype, (axes,), sizes, (1,))
