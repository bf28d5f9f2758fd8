"""
`mlc.prange(…, check=True)`: where data decide which elements trips read and write, the trips are
gone through once before, in order, and only to see who comes where. Each array that they write has
an array of owners, which say by its places who has written there, and who has read.

SOURCE: inspector and executor of Saltz, Mirchandaney, Crowley, "Run-Time Parallelization and
Scheduling of Loops", IEEE Transactions on Computers 40(5), 1991.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import Block

from mlc.dialects.analysis.dependence import trips_together
from mlc.dialects.errors import ParallelError
from mlc.dialects.tensor.control import ForOp, discard
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.staging.items import Items
from mlc.frontend.staging.journal import journaled
from mlc.frontend.staging.trials import saved
from mlc.frontend.staging.variables import Local
from mlc.frontend.trace.deferred import Raising
from mlc.frontend.trace.source import Site, user_site
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

MOST_SITES = 1 << 10
"""Lines of a loop that may meet: an owner is trip × this + line."""

Go = Callable[[Items], Any]
"""Traces the loop over items, in order."""


@dataclass(frozen=True)
class _Owners:
    """By the places of an array: who has written there last, read first, and read since."""

    wrote: Any
    read: Any
    read_since: Any


class Marks:
    """Who comes where, as it is traced. `found`: the first two that meet, or -1."""

    def __init__(self, arrays: Sequence[Tracer]) -> None:
        from mlc.frontend import numpy as names

        def owners(x: Tracer) -> _Owners:
            return _Owners(*(names.full(x.shape, -1, dtype=np.int64) for _ in range(3)))

        self._arrays = [*arrays]  # whose ids these are
        self._owners = {id(x): owners(x) for x in arrays}
        self.found: Any = names.full((2,), -1, dtype=np.int64)
        self.sites: list[tuple[Site | None, bool]] = []
        self._trip: Any = 0

    def enter(self, trip: Any) -> None:
        """A trip begins."""
        self._trip = trip

    def notes(self, x: Tracer, key: Any, *, writes: bool) -> None:
        """x[key] is read, or written."""
        base = x if x.part_of is None else x.part_of.base
        owners = self._owners.get(id(base))
        if owners is None:
            return
        if base is not x:
            if not writes:
                return  # the part as a whole was read when it was made
            message = "mlc.prange(check=True): a part of an array is written by another name."
            raise located(
                NotSupportedError, message, remedy="Write x[i, j] = … in the place of x[i][j] = …."
            )
        me = self._trip * MOST_SITES + self._site(writes)
        others = [owners.wrote, owners.read, owners.read_since] if writes else [owners.wrote]
        for other in others:
            self._meets(other[key], me)
        if writes:
            owners.wrote[key] = me
            return
        from mlc.frontend import numpy as names

        first = owners.read[key]
        fresh = first < 0
        owners.read[key] = names.where(fresh, me, first)
        mine = names.logical_or(fresh, first // MOST_SITES == self._trip)
        owners.read_since[key] = names.where(mine, owners.read_since[key], me)

    def _site(self, writes: bool) -> int:
        place = user_site(), writes
        if place not in self.sites:
            self.sites.append(place)
        return min(self.sites.index(place), MOST_SITES - 1)

    def _meets(self, other: Any, me: Any) -> None:
        from mlc.frontend import numpy as names

        apart = names.logical_and(other >= 0, other // MOST_SITES != self._trip)
        whose = names.max(names.where(apart, other, -1))
        first = names.logical_and(whose >= 0, self.found[0] < 0)
        self.found[0] = names.where(first, whose, self.found[0])
        self.found[1] = names.where(first, me, self.found[1])


def inspected(items: Items, go: Go, local: Sequence[Local]) -> tuple[Any, Any]:
    """
    Whether two of the trips meet, and the error that says so; False where they surely do not.
    Everything else is as before.
    """
    trips = replace(items, parallel=False, checked=False)
    block, put_back = Block(), saved(local)
    with journaled(block) as journal:
        go(trips)
        arrays = [x for x in journal.arrays if isinstance(x, Tracer) and x.dims]
        loops = [op for op in block.ops if isinstance(op, ForOp)]
        apart = bool(loops) and trips_together(loops[-1]).conflict is None
    put_back()
    journal.undo()
    discard(block)
    if apart or not arrays:
        return False, None
    trace, marks = here(), Marks(arrays)

    def at(place: Any) -> Any:
        marks.enter(place)
        return items.at(place)

    with journaled(Block()) as journal:
        trace.marks = marks
        try:
            go(replace(trips, at=at))
        finally:
            trace.marks = None
        found = marks.found.value
    put_back()
    journal.undo()
    for op in list(journal.block.ops):
        op.detach()
        trace.scopes[-1].add_op(op)
    trace.stricter = True
    pair: Any = Tracer(trace, found)
    lines = tuple(_line(site) for site, _ in marks.sites)
    wrote = tuple(writes for _, writes in marks.sites)
    return pair[0] >= 0, Raising(collision, (pair[0], pair[1], lines, wrote), {})


def _line(site: Site | None) -> str:
    return "" if site is None else site.excerpt().splitlines()[0]


def collision(one: int, other: int, lines: Sequence[str], wrote: Sequence[bool]) -> ParallelError:
    """The error of two that meet, each a trip and a line."""
    pairs = [divmod(int(x), MOST_SITES) for x in (one, other)]
    pairs.sort(key=lambda pair: not wrote[pair[1]])
    (first, a), (second, b) = pairs
    does = "writes" if wrote[b] else "reads"
    other_line = " as well" if a == b else f" it here:\n{lines[b]}"
    return ParallelError(
        f"mlc.prange: two trips meet in one element of an array. Trip {first} writes it here:\n"
        f"{lines[a]}\nTrip {second} {does}{' it' if a == b else ''}{other_line}\n"
        "Go over range(…), or write to a place of each trip's own."
    )
