"""
One trip of a loop before it is known how the loop will stand: how many ops it is, on what, and what
it and the loops in it change. Trips may differ, as those of a triangle: the one in the middle is
tried. In it each loop is one trip, so that it is traced once, however deep loops lie in one
another; when they are traced, they begin with what they are expected to change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import CodeType
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.tensor.control import ForOp, WhileOp, discard
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.dialects.tensor.shape import Concatenation
from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.carried import Carried
from mlc.frontend.staging.items import Items
from mlc.frontend.staging.joins import UNBOUND, Held
from mlc.frontend.staging.journal import Journal, journaled, reachable
from mlc.frontend.staging.trials import (
    FAULTS,
    FEW,
    MANY,
    MOST_KERNELS,
    MOST_SHORT,
    code_of,
    computes_array,
    in_trips,
    keep,
    saved,
)
from mlc.frontend.staging.variables import Body, Elements, Local
from mlc.frontend.trace.effects import Raised
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

_OBJECTS = ""
"""In the place of a variable: what objects hold."""

MOST_TRIED = MOST_SHORT
"""Ops after which it is enough to know that a trip is long."""

_ONE = Dim.const(1)


@dataclass(frozen=True)
class Trip:
    """What a trip is."""

    ops: int  # if all loops in it were their trips
    stored: int = 0  # of them, those that compute arrays
    whole: bool = True  # whether it was traced to its end; else it is more ops
    elements: bool = False  # whether it computes elements, and no arrays
    around: bool = False  # whether a loop is in it that stays one
    decided: frozenset[str] = frozenset()  # variables whose numbers Python changes

    def is_longer(self, most: int) -> bool | None:
        """Whether it is more ops; None where it was not traced so far."""
        return True if self.ops > most else False if self.whole else None

    def stays(self, trips: int, read: Collection[str]) -> bool:
        """
        Whether so many of them are one loop in any case: where elements are computed nothing is
        gained by trips one after another, each with places of its own, and little where these would
        be many kernels. `read`: variables that are read after them, perhaps as sizes; Python knows
        them, if that is not too long.
        """
        if not (self.elements or self.around or trips * self.stored > MOST_KERNELS):
            return False
        if self.elements and trips * self.ops > MOST_SHORT:
            return True
        by_trips = here().derivatives or here().examples  # which go over few trips better so
        return trips >= FEW and not by_trips and self.decided.isdisjoint((*read, _OBJECTS))


class _Enough(BaseException):
    """A trip is long, and there are more ops in it than its changes are worth."""


class Trial:
    """The ops of a trip, if all loops in it were their trips."""

    def __init__(self, most: int) -> None:
        self.ops = self.stored = 0
        self.trips = 1  # of all loops around what is traced, together
        self.elements = self.arrays = self.around = False  # computed; see Trip
        self.empty = False  # whether a loop in it has no trip
        self._most = most
        self._made = 0
        self._stored = set[SSAValue]()  # arrays of which one element is another than before

    @property
    def is_long(self) -> bool:
        """Whether it is more than was asked for."""
        return self.ops > self._most

    def add(self, op: Operation) -> None:
        """Another op. Raises _Enough."""
        is_loop = isinstance(op, ForOp | WhileOp)
        self.ops += self.trips * (in_trips(op) if is_loop else 1)
        self.stored += self.trips * (
            in_trips(op, computes_array) if is_loop else computes_array(op)
        )
        self._made += 1
        if isinstance(op, TensorOp) and not isinstance(op, ConstantOp):
            self._note(op)
        if self.is_long and self._made > MOST_TRIED:
            raise _Enough

    def found(self, before: tuple[int, int], decided: frozenset[str]) -> Trip:
        """What was traced since there were so many ops, and the flags were cleared."""
        since = (now - then for now, then in zip(self.so_far, before, strict=True))
        ops, stored = (ops // self.trips for ops in since)
        elements = self.elements and not self.arrays
        return Trip(ops, stored, not self.is_long, elements, self.around, decided)

    @property
    def so_far(self) -> tuple[int, int]:
        """Ops, and those that compute arrays."""
        return self.ops, self.stored

    def _note(self, op: TensorOp) -> None:
        """Whether it computes an element or an array; parts of arrays are neither."""
        if isinstance(op, Concatenation):
            stores = any(x in self._stored or _is_one(x) for x in op.operands)
        elif isinstance(op, DynamicUpdateOp):
            stores = _is_one(op.update)
        elif op.MOVES:
            if any(x in self._stored for x in op.operands):
                self._stored.add(op.results[0])
            self.elements |= _is_one(op.results[0])
            return
        else:
            stores = False
        if stores:
            self._stored.add(op.results[0])
        if stores or _is_one(op.results[0]):
            self.elements = True
        else:
            self.arrays = True


def _is_one(value: SSAValue) -> bool:
    return product(shape_of(value.type)) == _ONE


def tried_trip(items: Items, body: Body, local: Sequence[Local], most: int) -> Trip:
    """A trip, of which no more need be known than whether it is so many ops."""
    trace, code = here(), code_of(body)
    known = trace.tried.get(code)
    if known is not None and known.is_longer(most) is not None:
        return known
    found = Trip(0)
    for place in _places(items):
        trip, empty = _tried(body, partial(body, items.at(place)), local, most)
        found = max(found, trip, key=lambda trip: trip.ops)
        if found.ops and not empty:  # else a loop may have more trips in another one
            break
    trace.tried[code] = found
    return found


def tried_body(body: Body, local: Sequence[Local]) -> Trip:
    """A trip of a loop that a test ends: kernels of trips whose number is not known say nothing."""
    trace, code = here(), code_of(body)
    if code not in trace.tried:
        trace.tried[code], _ = _tried(body, body, local, MOST_TRIED)
    return replace(trace.tried[code], stored=0)


def _tried(
    body: Body, trip: Callable[[], Any], local: Sequence[Local], most: int
) -> tuple[Trip, bool]:
    """A trip, and whether a loop in it has no trip."""
    trace, decided = here(), frozenset((_OBJECTS,))
    block, put_back = Block(), saved(local)
    trial = trace.trial = Trial(most)
    try:
        with journaled(block) as journal:
            decided = _noted(code_of(body), trip, local)
        journal.undo()
    except (_Enough, Raised, NameError, *FAULTS):
        pass  # of errors its trips say themselves; another trip may bind a name
    finally:
        trace.trial = None
        put_back()
    discard(block)
    return trial.found((0, 0), decided), trial.empty


def trip_among(items: Items, body: Body, local: Sequence[Local], read: Collection[str]) -> None:
    """In a trial: a loop over items."""
    trial = here().trial
    if items.known and not items.count:
        trial.empty = True
        return
    trips = items.count if items.known else MANY
    for place in _places(items):
        trip = one_trip(body, partial(body, items.at(place)), trips, local)
        trial.around |= not items.known or trip.stays(trips, read)
        if trip.ops:
            return


def _places(items: Items) -> Iterable[Any]:
    """Of a trip that may stand for others: the first of them that computes something does."""
    if not items.known:
        return (lift(0),)
    return range(items.count) if items.count < FEW else (items.count // 2, 0)


def at_end(otherwise: Body | None) -> None:
    """In a trial: what is done behind a loop that nothing leaves; what it binds is read there."""
    if otherwise is not None:
        with suppress(Raised, NameError, *FAULTS):
            otherwise()


def one_trip(body: Body, trip: Callable[[], Any], trips: int, local: Sequence[Local]) -> Trip:
    """In a trial: a loop of so many trips."""
    trial = here().trial
    before, flags = trial.so_far, (trial.elements, trial.arrays, trial.around)
    trial.elements = trial.arrays = trial.around = False
    trial.trips *= trips
    try:
        decided = _noted(code_of(body), trip, local)
        found = trial.found(before, decided)
        here().tried[code_of(body)] = found
    finally:
        trial.trips //= trips
        trial.elements |= flags[0]
        trial.arrays |= flags[1]
        trial.around |= flags[2]
    return found


def _noted(code: CodeType, trip: Callable[[], Any], local: Sequence[Local]) -> frozenset[str]:
    """Does a trip, notes what it changes, and says of which variables Python knows the numbers."""
    before = [variable.get() for variable in local]
    block = Block()
    with journaled(block) as journal:
        trip()
        after = [variable.get() for variable in local]
    changes = [x for x in zip(local, before, after, strict=True) if x[1] is not x[2]]
    found = [_left(variable, end) for variable, start, end in changes if start is not UNBOUND]
    outer = [x for x, old in journal.values.values() if not x.is_another and here().visible(old)]
    found += [Carried(Elements(x.hint or "an array", x), Held.of(None)) for x in outer]
    here().changed_in.setdefault(code, found)
    keep(block, journal)
    names = {variable.name for variable, _, end in changes if not isinstance(end, Tracer)}
    return frozenset(names | ({_OBJECTS} if _stores(journal, changes) else set()))


def _left(variable: Local, end: Any) -> Carried:
    """A variable that a trip changes, and where it leaves what may be one of Python's numbers."""
    if not isinstance(end, Tracer) or end.whole is None:
        return Carried(variable, Held.of(None))
    return Carried(variable, Held.of(None), True, [end], wholes={0: (end, end.whole.kind)})


def _stores(journal: Journal, changes: Sequence[tuple[Local, Any, Any]]) -> bool:
    """Whether objects are changed that are no trip's own."""
    if not journal.objects:
        return False
    for variable, start, _ in changes:
        variable.put(start)
    found = any(reachable(obj) for obj, _ in journal.objects.values())
    for variable, _, end in changes:
        variable.put(end)
    return found
