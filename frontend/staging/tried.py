"""
One trip of a loop before it is known how the loop will stand: how many ops it is, and what it and
the loops in it change. In it each loop is one trip, so that it is traced once, however deep loops
lie in one another; when they are traced, they begin with what they are expected to change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import Any

from xdsl.ir import Block, Operation

from mlc.dialects.tensor.control import ForOp, WhileOp, discard
from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.carried import Carried
from mlc.frontend.staging.items import Items
from mlc.frontend.staging.joins import UNBOUND, Held
from mlc.frontend.staging.journal import journaled
from mlc.frontend.staging.trials import FAULTS, MANY, MOST_SHORT, code_of, in_trips, keep, saved
from mlc.frontend.staging.variables import Body, Elements, Local, Variable
from mlc.frontend.trace.trace import here

MOST_TRIED = MOST_SHORT
"""Ops after which it is enough to know that a trip is long."""


class _Enough(BaseException):
    """A trip is long, and there are more ops in it than its changes are worth."""


class Trial:
    """The ops of a trip, if all loops in it were their trips."""

    def __init__(self, most: int) -> None:
        self.ops = 0
        self.trips = 1  # of all loops around what is traced, together
        self._most = most
        self._made = 0

    @property
    def is_long(self) -> bool:
        """Whether it is more than was asked for."""
        return self.ops > self._most

    def add(self, op: Operation) -> None:
        """Another op. Raises _Enough."""
        self.ops += self.trips * (in_trips(op) if isinstance(op, ForOp | WhileOp) else 1)
        self._made += 1
        if self.is_long and self._made > MOST_TRIED:
            raise _Enough


def is_longer(items: Items, body: Body, local: Sequence[Local]) -> bool:
    """Whether all trips are more than `MOST_SHORT` ops; not where that cannot be said."""
    trace, most, code = here(), MOST_SHORT // items.count, code_of(body)
    if trace.longer_than.get(code, -1) >= most:
        return True
    block, put_back = Block(), saved(local)
    trial = trace.trial = Trial(most)
    try:
        with journaled(block) as journal:
            _noted(code, partial(_trip, items, body), local)
        journal.undo()
    except (_Enough, *FAULTS):
        pass  # of the latter its trips say themselves
    finally:
        trace.trial = None
        put_back()
    discard(block)
    if trial.ops > most:
        trace.longer_than[code] = most
    return trial.ops > most


def trip_among(items: Items, body: Body, local: Sequence[Local]) -> None:
    """In a trial: a loop over items; of few all, until it is known that they are long."""
    if items.known and items.count < MANY:
        for k in range(items.count):
            body(items.at(k))
            if here().trial.is_long:
                return
    else:
        trips = items.count if items.known else MANY
        one_trip(body, partial(_trip, items, body), trips, local)


def _trip(items: Items, body: Body) -> Any:
    """The one in the middle."""
    return body(items.at(items.count // 2 if items.known else lift(0)))


def one_trip(body: Body, trip: Callable[[], Any], trips: int, local: Sequence[Local]) -> None:
    """In a trial: a loop of so many trips."""
    trial, code = here().trial, code_of(body)
    before, around = trial.ops, trial.trips
    trial.trips *= trips
    try:
        _noted(code, trip, local)
    finally:
        trial.trips = around
    if trial.ops - before > around * MOST_SHORT:
        here().longer_than[code] = MOST_SHORT // trips


def _noted(code: CodeType, trip: Callable[[], Any], local: Sequence[Local]) -> None:
    """Does a trip, and notes what it changes."""
    before = [variable.get() for variable in local]
    block = Block()
    with journaled(block) as journal:
        trip()
        after = [variable.get() for variable in local]
    found: list[Variable] = [
        variable
        for variable, start, end in zip(local, before, after, strict=True)
        if start is not UNBOUND and end is not start
    ]
    outer = [x for x, old in journal.values.values() if not x.is_another and here().visible(old)]
    found += [Elements(x.hint or "an array", x) for x in outer]
    nothing = Held.of(None)
    here().changed_in.setdefault(code, [Carried(variable, nothing) for variable in found])
    keep(block, journal)
