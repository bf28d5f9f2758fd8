"""
Pointwise kernels that read along another axis than they write: tiles turned in registers.

A tile of every such input is read in rows as it lies, turned square by square in registers, and
kept in level 1, from where the loops read it like any other input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import Access
from mlc.dialects.analysis.transposed_reads import square_side, turned_reads
from mlc.dialects.lanes import vector_type
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Buffer, Position, TurnedTile
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.kernel import Axes, KernelScope, vector_loop

PART_BITS = 128  # of a register, within which one instruction moves elements. Source: Intel SDM

Exchange = list[tuple[int, int, list[int]]]
"""For each register of the next step: two of this one, and which of their lanes it takes."""


def exchanges(side: int, per_part: int) -> tuple[list[int], list[Exchange]]:
    """
    How a square is turned: the order in which its rows are taken into registers, then the steps.

    First elements change places within parts of `per_part` elements, then whole parts do: each
    register of a step is one instruction of x86.
    """
    per_part = min(per_part, side)
    parts, half, steps = side // per_part, side // 2, list[Exchange]()
    for _ in range(per_part.bit_length() - 1):
        low = [
            p + k // 2 + (k % 2) * side for p in range(0, side, per_part) for k in range(per_part)
        ]
        high = [x + per_part // 2 for x in low]
        steps.append([(i // 2, i // 2 + half, high if i % 2 else low) for i in range(side)])
    for bit in range(parts.bit_length() - 1):
        step = per_part << bit
        even = [p * per_part + k for p in range(0, 2 * parts, 2) for k in range(per_part)]
        odd = [k + per_part for k in even]
        steps.append([(i & ~step, i | step, odd if i & step else even) for i in range(side)])
    return [(i % parts) * per_part + i // parts for i in range(side)], steps


@dataclass(frozen=True)
class Turns:
    """The loops of one such kernel, over tiles of `rows` along `across` by `columns`."""

    s: KernelScope
    axes: Axes
    across: int  # a group; the last one holds the columns
    reads: tuple[Access, ...]
    rows: int
    columns: int

    @property
    def last(self) -> int:
        """The group that results lie along."""
        return len(self.axes.groups) - 1

    def fits(self) -> SSAValue | bool:
        """Whether both axes hold a whole tile."""
        b, sizes = self.s.b, self.axes.sizes
        return b.both(
            b.compare("ge", sizes[self.across], self.rows),
            b.compare("ge", sizes[self.last], self.columns),
        )

    def write(self) -> None:
        """The workers share the first axis that has more than one element."""
        s, sizes = self.s, self.axes.sizes
        outer = next(k for k, size in enumerate(sizes) if size != 1)

        def nest(k: int, at: dict[int, Position], thread: Index, threads: Index) -> None:
            if k == self.last:
                low, high = s.share(sizes[self.across], thread, threads, self.rows)
                whole = (0, sizes[self.across])
                self._tiles(at, cells, (low, high) if self.across == outer else whole)
                return
            if k == self.across:
                nest(k + 1, at, thread, threads)
                return
            low, high = 0, sizes[k]
            if k == outer:
                low, high = s.share(high, thread, threads)
            s.b.loop(low, high, 1, lambda i: nest(k + 1, {**at, k: Position(i)}, thread, threads))

        cells: list[SSAValue] = []

        def share(thread: Index, threads: Index) -> None:
            for access in self.reads:
                element = memory_type(self._buffer(access).dtype)
                cell = s.b.cell(element, self.rows * self.columns)
                cells.append(s.b.view(cell, [self.rows, self.columns]))
            nest(0, {}, thread, threads)

        s.parallel(s.b.product(sizes), share)

    def _buffer(self, access: Access) -> Buffer:
        return self.s.inputs[self.s.kernel.block.args[access.argument]]

    def _tiles(
        self, at: dict[int, Position], cells: Sequence[SSAValue], extent: tuple[Index, Index]
    ) -> None:
        """All tiles with rows in `extent`; the last of an axis is read whole, from before it."""
        b, sizes = self.s.b, self.axes.sizes

        def tile(row: Index, column: Index) -> None:
            first_row = b.min(row, b.sub(sizes[self.across], self.rows))
            first_column = b.min(column, b.sub(sizes[self.last], self.columns))
            inputs = dict(self.s.inputs)
            for access, cell in zip(self.reads, cells, strict=True):
                self._turn(access, cell, at, first_row, first_column)
                axis = self._moving(access)
                turned = TurnedTile(cell, axis, first_row, first_column)
                argument = self.s.kernel.block.args[access.argument]
                inputs[argument] = replace(inputs[argument], turned=turned)
            self._compute(
                replace(self.s, inputs=inputs),
                at,
                (row, b.min(b.add(row, self.rows), extent[1])),
                (column, b.min(b.add(column, self.columns), sizes[self.last])),
            )

        def rows(row: Index) -> None:
            b.loop(0, sizes[self.last], self.columns, partial(tile, row))

        b.loop(*extent, self.rows, lambda row: self.s.unless_cancelled(partial(rows, row)))

    def _moving(self, access: Access) -> int:
        """The axis of the input along which the columns of its tile run."""
        last = self.axes.groups[self.last][-1]
        return next(k for k, affine in enumerate(access.point) if affine.coefficient(last))

    def _compute(
        self,
        s: KernelScope,
        at: dict[int, Position],
        rows: tuple[Index, Index],
        columns: tuple[Index, Index],
    ) -> None:
        lanes, unroll = s.schedule.lanes, s.schedule.unroll

        def row(i: Index) -> None:
            def body(j: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
                here = {**at, self.across: Position(i), self.last: Position(j, 1)}
                point = self.axes.point([here[k] for k in range(len(self.axes.groups))])
                s.store_results(s.lanes(lanes, mask), point)
                return []

            vector_loop(s, *columns, body, lanes=lanes, unroll=unroll)

        s.b.loop(*rows, 1, row)

    def _turn(
        self, access: Access, cell: SSAValue, at: dict[int, Position], row: Index, column: Index
    ) -> None:
        """The tile of one input from a point on, its rows along the input's last axis."""
        b, buffer = self.s.b, self._buffer(access)
        element = memory_type(buffer.dtype)
        side = square_side(self.s.schedule.lanes)
        kind = vector_type(element, side)

        def square(j: Index, i: Index) -> None:
            registers: list[SSAValue] = []
            for k in range(side):
                here = {
                    **at,
                    self.across: Position(b.add(row, i)),
                    self.last: Position(b.add(b.add(column, j), k)),
                }
                point = self.axes.point([here[g] for g in range(len(self.axes.groups))])
                place = [point[affine.terms[0][0]] for affine in access.point]
                bases, _ = buffer.indices(b, place)
                registers.append(b.load_vector(buffer.memref, bases, kind, None, None))
            for k, register in enumerate(turned(b, registers, buffer.dtype.bytes)):
                b.store_vector(register, cell, [b.add(i, k), j], None)

        def columns(j: Index) -> None:
            b.loop(0, self.rows, side, partial(square, j))

        b.loop(0, self.columns, side, columns)


def turned(b: LoopBuilder, rows: Sequence[SSAValue], item_bytes: int) -> list[SSAValue]:
    """The columns of a square."""
    order, steps = exchanges(len(rows), PART_BITS // 8 // item_bytes)
    registers = [rows[k] for k in order]
    for step in steps:
        registers = [b.shuffled(registers[x], registers[y], lanes) for x, y, lanes in step]
    return registers


def turns_of(s: KernelScope, axes: Axes) -> Turns | None:
    """The loops of a kernel whose schedule turns reads, where it has any such read."""
    turn = s.schedule.turn
    if turn is None or s.nest is None:
        return None
    found = turned_reads(s.nest, axes.groups, s.strided)
    if found is None or turn.axis not in axes.groups[found[0]]:
        return None
    return Turns(s, axes, *found, turn.rows, turn.columns)
