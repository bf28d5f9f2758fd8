"""
Two sides for each of some things, so that what it costs is least: the least cut of a graph.

SOURCE: Edmonds and Karp, JACM 19(2), 1972; Boykov, Veksler, Zabih, "Fast approximate energy
minimization via graph cuts", IEEE PAMI 23(11), 2001 (two labels: exact).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

START, END = 0, 1
"""What a cut divides: the side of what moves, and that of what stays."""


class Sides(Generic[T]):
    """What there is to decide: each thing stays, or it moves to the other side. No cost is < 0."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._room: list[dict[int, int]] = [{}, {}]

    def if_stays(self, thing: T, cost: int) -> None:
        """What it costs if a thing stays."""
        self._join(START, self._number(thing), cost, 0)

    def if_moves(self, thing: T, cost: int) -> None:
        """What it costs if a thing moves."""
        self._join(self._number(thing), END, cost, 0)

    def if_parted(self, one: T, other: T, cost: int) -> None:
        """What it costs if one of two moves, whichever."""
        if one != other:
            self._join(self._number(one), self._number(other), cost, cost)

    def moved(self) -> set[T]:
        """The things that move where all together costs least; those that might as well, stay."""
        while END in (came_from := self._reached()):
            way, here = list[tuple[int, int]](), END
            while here != START:
                way.append((came_from[here], here))
                here = came_from[here]
            least = min(self._room[a][b] for a, b in way)
            for a, b in way:
                self._room[a][b] -= least
                self._room[b][a] += least
        return {thing for thing, number in self._numbers.items() if number in came_from}

    def _number(self, thing: T) -> int:
        found = self._numbers.get(thing)
        if found is None:
            found = self._numbers[thing] = len(self._room)
            self._room.append({})
        return found

    def _join(self, a: int, b: int, there: int, back: int) -> None:
        for x, y, room in ((a, b, there), (b, a, back)):
            self._room[x][y] = self._room[x].get(y, 0) + room

    def _reached(self) -> dict[int, int]:
        """What still has room on a way from the start, each with the step before, nearest first."""
        came_from = {START: START}
        pending = deque([START])
        while pending:
            here = pending.popleft()
            for there, room in self._room[here].items():
                if room > 0 and there not in came_from:
                    came_from[there] = here
                    pending.append(there)
                    if there == END:
                        return came_from
        return came_from
