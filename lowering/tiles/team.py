"""Work for the workers of a team: each one's share, and where they wait or stop."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from mlc.dialects import par
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder


def share(
    b: LoopBuilder, size: Index, thread: Index, threads: Index, multiple: int = 1
) -> tuple[Index, Index]:
    """The part [low, high) of `size` that belongs to a thread, cut at multiples."""
    if threads == 1:
        return 0, size
    each = b.round_up(b.ceil_div(size, threads), multiple)
    low = b.min(b.mul(thread, each), size)
    return low, b.min(b.add(low, each), size)


def unless_cancelled(b: LoopBuilder, context: SSAValue, body: Callable[[], object]) -> None:
    """Runs the body unless the user has interrupted the call."""
    stop = b.value(par.CancelledOp.of(context))
    b.when(b.negated(stop), body)


def barrier(
    b: LoopBuilder, context: SSAValue, thread: Index, threads: Index, workers: Index
) -> None:
    """
    All workers wait for each other, where `threads` of them share something; where the call must
    stop, all end here.
    """
    b.when(b.compare("gt", threads, 1), lambda: b.wait(context, thread, workers))
