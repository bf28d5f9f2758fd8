"""Pointwise kernels that read along another axis than they write: tiles turned in shared memory."""

from __future__ import annotations

from collections import Counter
from functools import partial

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import Access, Nest
from mlc.dialects.analysis.transposed_reads import turned_reads
from mlc.dialects.dims import product
from mlc.dialects.dtypes import BOOL
from mlc.dialects.lanes import element_of, lanes_of, vector_type
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.op import element_dtype
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.phase import device_builder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.element import Buffer, Position
from mlc.lowering.loops.kernel import Axes, KernelScope, axes_of

TILE = 32  # elements on both sides: a line of 128 bytes of f32 each way
ROWS = 8  # of threads: each turns four elements
SQUARES_ACROSS, SQUARES_ALONG = 8, 32  # of a block: a warp reads 128 bytes of each row
ACCESS_BYTES = 16  # the widest load or store of one thread. Source: PTX ISA, ld
MOST_LANES = 8  # of a square: 64 elements are 64 registers at most


@dataclass(frozen=True)
class TransposePhase:
    """A pointwise kernel; `turned` are read along the group `across`, results are written last."""

    nest: Nest
    strided: frozenset[int]
    across: int
    turned: tuple[Access, ...]

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return TILE * ROWS

    def tiles(self, b: LoopBuilder, axes: Axes) -> list[Index]:
        """Sizes of the other groups, then tiles along `across` and along the last group."""
        inner = len(axes.groups) - 1
        others = [axes.sizes[k] for k in range(inner) if k != self.across]
        return [*others, *(b.ceil_div(axes.sizes[k], TILE) for k in (self.across, inner))]

    def grid(self, b: LoopBuilder) -> Grid:
        """A block for each tile."""
        blocks = b.product(self.tiles(b, axes_of(b, self.nest, self.strided)))
        return Grid((blocks, 1, 1), (TILE, ROWS, 1))

    def write(self, s: KernelScope) -> None:
        """One tile."""
        _Tile(s, device_builder(s), self).write()


class _Tile:
    """The work of one thread on the tile of its block."""

    def __init__(self, s: KernelScope, b: GpuBuilder, phase: TransposePhase) -> None:
        self.s, self.b, self.phase = s, b, phase
        self.axes = axes_of(b, phase.nest, phase.strided)
        self.x, self.y = b.thread(), b.thread("y")
        *others, down, along = b.split(b.block_number(), phase.tiles(b, self.axes))
        self.inner = len(self.axes.groups) - 1
        rest = [k for k in range(self.inner) if k != phase.across]
        self.fixed = {k: Position(i) for k, i in zip(rest, others, strict=True)}
        self.first_across = b.mul(down, TILE)
        self.first_inner = b.mul(along, TILE)

    def write(self) -> None:
        """Reads along `across`, meets, writes along the last group."""
        b = self.b
        arguments = self.s.kernel.block.args
        buffers = [self.s.inputs[arguments[access.argument]] for access in self.phase.turned]
        tiles = [b.shared(memory_type(buffer.dtype), (TILE, TILE + 1)) for buffer in buffers]
        for part in range(0, TILE, ROWS):
            row = b.add(self.y, part)
            at, inside = self.place(self.x, row)
            for access, buffer, tile in zip(self.phase.turned, buffers, tiles, strict=True):
                read = partial(self.read, access, buffer, at)
                b.when(inside, lambda r=read, t=tile, k=row: b.store(r(), t, [k, self.x]))
        b.barrier()
        for part in range(0, TILE, ROWS):
            column = b.add(self.y, part)
            at, inside = self.place(column, self.x)
            b.when(inside, partial(self.finish, at, column, buffers, tiles))

    def place(self, across: Index, inner: Index) -> tuple[list[Position], SSAValue | bool]:
        """The point of the iteration space at a place of the tile, and whether it exists."""
        b, sizes = self.b, self.axes.sizes
        there = {
            **self.fixed,
            self.phase.across: Position(b.add(self.first_across, across)),
            self.inner: Position(b.add(self.first_inner, inner)),
        }
        inside = b.both(
            b.compare("lt", there[self.phase.across].base, sizes[self.phase.across]),
            b.compare("lt", there[self.inner].base, sizes[self.inner]),
        )
        return [there[k] for k in range(len(sizes))], inside

    def read(self, access: Access, buffer: Buffer, at: list[Position]) -> SSAValue:
        """An input's element, as it is in memory."""
        b, axes = self.b, self.axes.point(at)

        point = [axes[affine.terms[0][0]] for affine in access.point]
        bases, _ = buffer.indices(b, point)
        return b.load(buffer.memref, bases)

    def finish(
        self, at: list[Position], column: Index, buffers: list[Buffer], tiles: list[SSAValue]
    ) -> None:
        """The results at a point, with what was turned."""
        b, e = self.b, self.s.lanes(1)
        arguments = self.s.kernel.block.args
        bound: dict[SSAValue, SSAValue] = {}
        for access, buffer, tile in zip(self.phase.turned, buffers, tiles, strict=True):
            value = b.load(tile, [self.x, column])
            if buffer.dtype is BOOL:
                value = e.cast("trunci", value, BOOL.ir)
            bound[arguments[access.argument]] = value
        self.s.store_results(self.s.lanes(1, bound=bound), self.axes.point(at))


@dataclass(frozen=True)
class SquarePhase(TransposePhase):
    """The same without tiles: a thread reads a square of whole accesses and writes it turned."""

    side: int

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return SQUARES_ACROSS * SQUARES_ALONG

    def tiles(self, b: LoopBuilder, axes: Axes) -> list[Index]:
        """Sizes of the other groups, then blocks along `across` and along the last group."""
        inner = len(axes.groups) - 1
        others = [axes.sizes[k] for k in range(inner) if k != self.across]
        down = b.ceil_div(axes.sizes[self.across], SQUARES_ACROSS * self.side)
        return [*others, down, b.ceil_div(axes.sizes[inner], SQUARES_ALONG * self.side)]

    def grid(self, b: LoopBuilder) -> Grid:
        """Threads side by side read side by side; those behind each other write so."""
        blocks = b.product(self.tiles(b, axes_of(b, self.nest, self.strided)))
        return Grid((blocks, 1, 1), (SQUARES_ACROSS, SQUARES_ALONG, 1))

    def write(self, s: KernelScope) -> None:
        """One square."""
        b, side = device_builder(s), self.side
        axes = axes_of(b, self.nest, self.strided)
        *others, down, along = b.split(b.block_number(), self.tiles(b, axes))
        inner = len(axes.groups) - 1
        rest = [k for k in range(inner) if k != self.across]
        fixed = {k: Position(i) for k, i in zip(rest, others, strict=True)}
        x = b.mul(b.add(b.mul(down, SQUARES_ACROSS), b.thread()), side)
        y = b.mul(b.add(b.mul(along, SQUARES_ALONG), b.thread("y")), side)
        inside = b.both(
            b.compare("lt", x, axes.sizes[self.across]), b.compare("lt", y, axes.sizes[inner])
        )
        b.when(inside, lambda: self._square(s, axes, fixed, x, y))

    def _square(
        self, s: KernelScope, axes: Axes, fixed: dict[int, Position], x: Index, y: Index
    ) -> None:
        b, side, inner = s.b, self.side, len(axes.groups) - 1
        e, columns = s.lanes(side), list[dict[SSAValue, SSAValue]]({} for _ in range(side))
        for access in self.turned:
            argument = s.kernel.block.args[access.argument]
            rows: list[SSAValue] = []
            for k in range(side):
                at = {**fixed, self.across: Position(x, 1), inner: Position(b.add(y, k))}
                point = axes.point([at[g] for g in range(len(axes.groups))])
                place = tuple(point[affine.terms[0][0]] for affine in access.point)
                rows.append(e.load(s.inputs[argument], place))
            for column, value in zip(columns, _turned(b, rows), strict=True):
                column[argument] = value
        for k, bound in enumerate(columns):
            at = {**fixed, self.across: Position(b.add(x, k)), inner: Position(y, 1)}
            point = axes.point([at[g] for g in range(len(axes.groups))])
            s.store_results(s.lanes(side, bound=bound), point)


def _turned(b: LoopBuilder, rows: list[SSAValue]) -> list[SSAValue]:
    """The columns of a square of vectors."""
    return [_joined(b, [_shuffled(b, x, x, [k]) for x in rows]) for k in range(len(rows))]


def _joined(b: LoopBuilder, parts: list[SSAValue]) -> SSAValue:
    """Vectors of one length, one after the other; their number is a power of two."""
    while len(parts) > 1:
        lanes = 2 * (lanes_of(parts[0].type) or 1)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_shuffled(b, low, high, list(range(lanes))) for low, high in pairs]
    return parts[0]


def _shuffled(b: LoopBuilder, low: SSAValue, high: SSAValue, order: list[int]) -> SSAValue:
    lanes = DenseArrayBase.from_list(i64, order)
    kind = vector_type(element_of(low.type), len(order))
    op = vector.ShuffleOp.create(
        operands=[low, high], result_types=[kind], properties={"mask": lanes}
    )
    return b.value(op)


def _side(nest: Nest, kernel: KernelOp, across: int, turned: tuple[Access, ...]) -> int | None:
    """The side of a thread's square: elements of one access, where they divide both sizes."""
    groups = nest.groups(frozenset())
    values = [*(kernel.inputs[access.argument] for access in turned), *kernel.outs]
    dtypes = [element_dtype(x) for x in values]
    if any(dtype.kind in ("bool", "complex") for dtype in dtypes):
        return None
    side = min(MOST_LANES, ACCESS_BYTES // max(dtype.bytes for dtype in dtypes))
    lengths = [product(nest.sizes[a] for a in groups[k]).constant for k in (across, -1)]
    return side if side > 1 and all(n and n % side == 0 for n in lengths) else None


def transposed(
    kernel: KernelOp, nest: Nest, strided: frozenset[int]
) -> TransposePhase | SquarePhase | None:
    """The phase for a nest with inputs that lie along another axis than its results."""
    groups = nest.groups(strided)
    read = Counter(access.argument for access in nest.accesses)
    often = {argument for argument, count in read.items() if count > 1}
    found = turned_reads(nest, groups, strided | often)
    if found is None:
        return None
    across, turned = found
    side = None if strided else _side(nest, kernel, across, turned)
    if side is not None:
        return SquarePhase(nest, strided, across, turned, side)
    return TransposePhase(nest, strided, across, turned)
