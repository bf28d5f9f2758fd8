"""Reductions of few long rows: workers take blocks of them, whose states wait in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position

if TYPE_CHECKING:
    from mlc.lowering.loops.reduce import ReductionNest


def write_few_rows(nest: ReductionNest, order: Sequence[int]) -> None:
    """Fixed blocks of each row, then the states of each row's blocks in order (D1)."""
    b, s, axes = nest.b, nest.s, nest.axes
    size, rows = axes.sizes[order[0]], b.product([axes.sizes[k] for k in nest.kept])
    block = nest.block_size(order)
    count = b.ceil_div(size, block)

    def place(row: Index) -> dict[int, Position]:
        found: dict[int, Position] = {}
        for group in reversed(nest.kept):
            rest = b.div(row, axes.sizes[group])
            found[group] = Position(b.sub(row, b.mul(rest, axes.sizes[group])))
            row = rest
        return found

    def piece(number: Index) -> None:
        row = b.div(number, count)
        low = b.mul(b.sub(number, b.mul(row, count)), block)
        state = nest.reduce_range(place(row), order, low, b.min(b.add(low, block), size))
        nest.leave_state(number, state, s.scratch)

    def finish(row: Index) -> None:
        state, fixed = nest.folded_blocks(s.scratch, count, b.mul(row, count)), place(row)
        nest.finish(s.lanes(1), [fixed[g] for g in nest.kept], state)

    def shared(pieces: Index, run: Callable[[Index], None]) -> None:
        def body(thread: Index, threads: Index) -> None:
            low, high = s.share(pieces, thread, threads)
            b.loop(low, high, 1, lambda k: s.unless_cancelled(lambda: run(k)))

        s.parallel(b.product(axes.sizes), body)

    shared(b.mul(rows, count), piece)
    s.barrier()
    shared(rows, finish)
