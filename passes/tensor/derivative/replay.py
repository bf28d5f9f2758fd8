"""
Reverse mode through loops whose number of trips is a value: the loop runs again, and again.

Where the number of trips is not known when the program is compiled, no stack has a size. So a stack
of `SLOTS` states is filled at equal distances while the loop runs once more; then each part, last
part first, fills a second stack in the same way, and each of its parts runs again up to the trip
that is due (Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse
automatic differentiation", 1992: checkpoints in levels). Up to SLOTS**2 trips run three times
forward in all; memory does not grow with the trips.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.tensor.comparison import MaxOp
from mlc.dialects.tensor.control import INDEX, ForOp, WhileOp, discard, yield_of
from mlc.dialects.tensor.op import bytes_of
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.emit import (
    Emitter,
    Values,
    before,
    before_yield,
    body_ops,
    extend_carried,
    extend_yield,
    trips_of,
)
from mlc.passes.tensor.derivative.reverse import Contribution, Reverse
from mlc.passes.tensor.scan_rows import row_of, stacked_outputs

SLOTS = 128
"""States on a stack: 16,384 trips run three times; a stack of 1 MiB states takes 128 MiB."""

STACK_BYTES = 1 << 28
"""Stacks of large states get fewer slots, but at least `FEWEST`."""

FEWEST = 8


def count_trips(op: WhileOp) -> SSAValue:
    """How often the loop ran: a new result."""
    _, (count,) = extend_carried(op, [before(op).integer(0)])
    body = op.body.block
    e = before_yield(body, op.location)
    extend_yield(body, [e.add(count, e.integer(1))])
    return op.results[-1]


@dataclass(frozen=True)
class Replay:
    """
    A loop to go back through: its body, and which values have cotangents. What it only stacks, row
    by row, is no part of the state from which a trip runs again.
    """

    op: ForOp | WhileOp
    ops: list[Operation]  # of the body, without the writes of rows
    starts: Values
    carried: Values  # block arguments that a trip gets,
    given: Values  # and what it gives for the next one
    incoming: list[SSAValue | None]  # cotangents of what the last one gives
    rows: list[tuple[DynamicUpdateOp, SSAValue]]  # writes of rows, cotangents of all rows
    sweep: Reverse
    active: list[int]
    outside: list[SSAValue]  # values around the loop that get cotangents

    def trip(self, b: Emitter, number: SSAValue, state: Sequence[SSAValue]) -> Values:
        """The carried values after one trip."""
        renamed = self._renamed(number, state)
        b.copies(self.ops, renamed)
        return [renamed.get(x, x) for x in self.given]

    def _renamed(self, number: SSAValue, state: Sequence[SSAValue]) -> dict[SSAValue, SSAValue]:
        renamed = dict(zip(self.carried, state, strict=True))
        if isinstance(self.op, ForOp):
            renamed[self.op.body.block.args[0]] = number
        return renamed

    def back(
        self, b: Emitter, number: SSAValue, state: Sequence[SSAValue], cotangents: Values
    ) -> tuple[Reverse, list[SSAValue | None]]:
        """The way back through one trip; the sweep holds contributions to values outside."""
        renamed = self._renamed(number, state)
        varied = self.sweep.varied
        varied.values |= {new for old, new in renamed.items() if old in varied.values}
        ops = b.copies(self.ops, renamed)
        varied.mark(ops)
        inner = Reverse(b, varied)
        for k, cotangent in zip(self.active, cotangents, strict=True):
            value = self.given[k]
            inner.add(renamed.get(value, value), cotangent)
        for write, whole in self.rows:
            at = [renamed.get(x, x) for x in write.offsets]
            inner.add(renamed.get(write.update, write.update), row_of(b, whole, write, at))
        inner.run(ops)
        b.location = self.op.location
        return inner, [inner.take(x) for x in state]


def pull_by_replay(
    sweep: Reverse, op: ForOp | WhileOp, count: SSAValue, cotangents: Sequence[SSAValue | None]
) -> None:
    """Brings cotangents of the loop's results back to its initial values and to values around."""
    b = sweep.b
    replay = _explored(_replay(sweep, op, cotangents))
    active = replay.active
    starts = b.or_zeros([replay.incoming[k] for k in active], [replay.starts[k] for k in active])
    starts += [b.zeros(x.type) for x in replay.outside]
    slots = _slots(replay, count)
    totals = _range_back(replay, b, slots, 2, b.integer(0), count, replay.starts, starts)
    sources = [replay.starts[k] for k in replay.active] + replay.outside
    for value, cotangent in zip(sources, totals, strict=True):
        sweep.add(value, cotangent)


def _replay(sweep: Reverse, op: ForOp | WhileOp, cotangents: Sequence[SSAValue | None]) -> Replay:
    stacked = stacked_outputs(op) if isinstance(op, ForOp) else {}
    body = op.body.block
    kept = [k for k in range(len(op.inits)) if k not in stacked]
    carried = op.carried_in(body)
    yielded = yield_of(body).values
    writes = set(stacked.values())
    cotangents = [*cotangents, *(None for _ in op.inits[len(cotangents) :])]  # a count of trips
    return Replay(
        op,
        [x for x in body_ops(body) if x not in writes],
        [op.inits[k] for k in kept],
        [carried[k] for k in kept],
        [yielded[k] for k in kept],
        [cotangents[k] for k in kept],
        [(write, c) for k, write in stacked.items() if (c := cotangents[k]) is not None],
        sweep,
        [n for n, k in enumerate(kept) if cotangents[k] is not None],
        [],
    )


def _slots(replay: Replay, count: SSAValue) -> int:
    """Of each stack: the square root of the trips where they are known, or few for large states."""
    trips = trips_of(count)
    if trips is not None and trips.constant is not None:
        return max(1, math.ceil(math.sqrt(trips.constant)))
    state = sum((bytes_of(x.type) for x in replay.starts), Dim.const(0)).constant
    if not state:
        return SLOTS
    return max(FEWEST, min(SLOTS, STACK_BYTES // state))


def _explored(replay: Replay) -> Replay:
    """With all the values that get cotangents, found by going back through one trip."""
    active = replay.active
    while True:
        kinds = [x.type for x in replay.carried]
        block = Block(arg_types=[INDEX, *kinds, *(kinds[k] for k in active)])
        found = replace(replay, active=active)
        number, *rest = block.args
        state, cotangents = rest[: len(kinds)], rest[len(kinds) :]
        inner, pulled = found.back(Emitter(block), number, state, list(cotangents))
        new = [k for k, x in enumerate(pulled) if x is not None and k not in active]
        outside = list(inner.pending)
        discard(block)
        if not new:
            return replace(found, outside=outside)
        active = sorted([*active, *new])


def _range_back(
    replay: Replay,
    b: Emitter,
    slots: int,
    levels: int,
    first: SSAValue,
    count: SSAValue,
    state: Values,
    cotangents: Values,
) -> Values:
    """
    The way back through trips first, first + 1, … (`count` of them), of which the first one starts
    with `state`.
    """
    if levels == 0:
        return _one_by_one(replay, b, first, count, state, cotangents)
    stride = b(MaxOp, b.divide_up(count, b.integer(slots)), b.integer(1))
    parts = b.divide_up(count, stride)
    room = Dim.const(slots)

    def forward(e: Emitter, part: SSAValue, values: Values) -> Values:
        stacks, now = values[: len(state)], values[len(state) :]
        written = [e.write(s, x, part) for s, x in zip(stacks, now, strict=True)]
        begin, length = _part(e, part, stride, count)
        after = _run(replay, e, e.add(first, begin), length, now)
        return [*written, *after]

    starts = [b.stack(room, x.type) for x in state]
    stacks = b.loop(parts, [*starts, *state], forward)[: len(state)]

    def back(e: Emitter, number: SSAValue, values: Values) -> Values:
        part = e.from_end(parts, number)
        begin, length = _part(e, part, stride, count)
        there = [e.read(s, part) for s in stacks]
        return _range_back(replay, e, slots, levels - 1, e.add(first, begin), length, there, values)

    return b.loop(parts, cotangents, back)


def _part(
    e: Emitter, part: SSAValue, stride: SSAValue, count: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """Where a part begins, and how many trips it has."""
    begin = e.multiply(part, stride)
    return begin, e.smaller(stride, e.subtract(count, begin))


def _run(
    replay: Replay, e: Emitter, first: SSAValue, count: SSAValue, state: Sequence[SSAValue]
) -> Values:
    """The carried values after `count` trips from `first` on."""

    def trip(inner: Emitter, number: SSAValue, values: Values) -> Values:
        return replay.trip(inner, inner.add(first, number), values)

    return e.loop(count, state, trip)


def _one_by_one(
    replay: Replay,
    b: Emitter,
    first: SSAValue,
    count: SSAValue,
    state: Values,
    cotangents: Values,
) -> Values:
    """Each trip after running again up to it."""

    def back(e: Emitter, number: SSAValue, values: Values) -> Values:
        steps = e.from_end(count, number)
        there = _run(replay, e, first, steps, state)
        known = len(replay.active)
        inner, found = replay.back(e, e.add(first, steps), there, values[:known])
        following = e.or_zeros([found[k] for k in replay.active], values[:known])
        for value, total in zip(replay.outside, values[known:], strict=True):
            contributions: list[Contribution] = inner.pending.get(value, [])
            more = inner.total(contributions, total)
            assert more is not None
            following.append(more)
        return following

    return b.loop(count, cotangents, back)
