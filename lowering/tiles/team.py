"""Work for the workers of a team: each one's share, and where they wait or stop."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects import par
from mlc.lowering.loops.arithmetic import INDEX, Index
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


def take(
    b: LoopBuilder,
    context: SSAValue,
    trips: Index,
    thread: Index,
    threads: Index,
    body: Callable[[Index], object],
) -> None:
    """Trips that workers take one by one, each the next that nobody has."""

    def next_trip(last: Index) -> SSAValue:
        return b.value(par.TakeOp.of(context, b.index(last), b.index(threads)))

    def walk() -> None:
        before, after = Block(arg_types=[INDEX]), Block(arg_types=[INDEX])
        with b.inside(before):
            (trip,) = before.args
            goes_on = b.compare("lt", trip, trips)
            assert not isinstance(goes_on, bool)
            before.add_op(scf.ConditionOp.create(operands=[goes_on, trip]))
        with b.inside(after):
            (trip,) = after.args
            body(trip)
            after.add_op(scf.YieldOp.create(operands=[next_trip(trip)]))
        regions = [Region(before), Region(after)]
        first = next_trip(-1)
        b.add_op(scf.WhileOp.create(operands=[first], result_types=[INDEX], regions=regions))

    b.when(b.compare("lt", thread, threads), walk)


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
