"""Room for what the trips of a loop that stays one append to a list (counted.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.frontend.numpy.values import lift
from mlc.frontend.staging import counted
from mlc.frontend.staging.carried import Carried
from mlc.frontend.staging.counted import Counted, Fixed, Layout, MixedError
from mlc.frontend.staging.joins import Held
from mlc.frontend.staging.journal import reachable
from mlc.frontend.staging.variables import Item, Traced, Variable
from mlc.frontend.trace.program_sizes import room_size
from mlc.frontend.trace.trace import here
from mlc.lazy_dataclass import dataclass


@dataclass
class Widening:
    """
    A list that gets room before a loop; `total`: how many it holds after it, if all is known, and
    each trip adds `more`.
    """

    obj: Any
    layout: Layout
    room: Dim
    total: int | None
    more: int | None

    def make(self) -> None:
        """It has the room, and what it holds."""
        found = counted.made(list(self.obj), self.layout, self.room, Fixed)
        count = found.count
        if isinstance(count, int):
            count = counted.as_number(count)
        counted.put(self.obj, Fixed(count, found.rows))

    def settle(self) -> None:
        """Behind the loop."""
        counted.settled(self.obj, self.total)


def confirmed(
    lists: Iterable[Widening],
    carried: Sequence[Carried],
    ends: Sequence[Held],
    arguments: Sequence[SSAValue],
) -> list[Widening]:
    """What a first trip has added, to an empty list perhaps, is known of all only if all add it."""
    added: dict[int, int | None] = {}
    ranges, place = here().bound.ranges, 0
    for c, end in zip(carried, ends, strict=True):
        if isinstance(c.variable, Item) and isinstance(end.value, Counted):
            last = end.values[0]
            if last is not None:
                added[id(c.variable.obj)] = (ranges.of(last) - ranges.of(arguments[place])).constant
        place += len(c.arrays)
    return [replace(x, total=x.total if added.get(id(x.obj), 0) == x.more else None) for x in lists]


def widenings(trip: Traced, trips: Any, *, whole: bool) -> list[Widening]:
    """The lists that need room for what trips do to them."""
    found: list[Widening] = []
    for obj, _ in trip.journal.objects.values():
        if type(obj) not in (list, deque):
            continue
        start = list[Any](obj)
        end = [held.again() for held in trip.objects[id(obj)].values()]
        plain = not any(isinstance(x, Counted) for x in (*start, *end))
        if (plain and len(start) == len(end)) or not reachable(obj) or _fits(start, end):
            continue
        found.append(_widening(obj, start, end, trips, whole and plain))
    return found


def _fits(start: Sequence[Any], end: Sequence[Any]) -> bool:
    """Whether there is all the room that there need be."""
    if len(start) != 1 or len(end) != 1:
        return False
    (x,), (y,) = start, end
    fixed = isinstance(x, Fixed) and isinstance(y, Fixed)
    return fixed and x.capacity == y.capacity and Layout.of(x) == Layout.of(y)


def _widening(
    obj: Any, start: Sequence[Any], end: Sequence[Any], trips: Any, whole: bool
) -> Widening:
    try:
        layout = counted.layout_of([*start, *end])
    except MixedError as error:
        raise counted.refused(str(error)) from None
    before, after = counted.room_of(start), counted.room_of(end)
    more = (after - before).constant
    most = _most(trips)
    if more is None or most is None:
        room = before if more is not None and more <= 0 else room_size()
        return Widening(obj, layout, room, None, None)
    total = len(start) + trips * more if whole and isinstance(trips, int) else None
    room = before + most * max(more, 0)
    return Widening(obj, layout, room, total if total is None or total >= 0 else None, more)


def _most(trips: Any) -> Dim | None:
    """The most that there may be."""
    if trips is None:
        return None
    if isinstance(trips, int):
        return Dim.const(trips)
    ranges = here().bound.ranges
    return ranges.greatest(ranges.of(lift(trips).value))


def made_wide(
    carried: Sequence[Carried], wide: Sequence[Widening], lists: dict[int, Widening]
) -> list[Carried]:
    """Carried values but those of lists that get room now, which `lists` knows from here on."""
    for widening in wide:
        widening.make()
        lists.setdefault(id(widening.obj), widening)
    return [c for c in carried if not _is_of(c.variable, wide)]


def _is_of(variable: Variable, wide: Sequence[Widening]) -> bool:
    return isinstance(variable, Item) and any(variable.obj is x.obj for x in wide)
