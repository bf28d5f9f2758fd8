"""Where a sequence repeats itself: what `roll_loops` looks for among the ops of a block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mlc.lazy_dataclass import dataclass

GRAM = 3
"""Neighbours that must be equal, too, where a distance counts as a period that may be."""

CANDIDATES = 16


@dataclass(frozen=True)
class Run:
    """sequence[k] == sequence[k + period] as long as both lie in [start, end)."""

    start: int
    end: int
    period: int

    @property
    def trips(self) -> int:
        """Whole periods."""
        return (self.end - self.start) // self.period


def runs(sequence: Sequence[int], least_trips: int) -> list[Run]:
    """The longest run of each period that is likely, the one with most elements first."""
    found: list[Run] = []
    for period in _distances(sequence):
        start = at = best = 0
        longest = (0, 0)
        for at in range(len(sequence) - period):
            if sequence[at] != sequence[at + period]:
                start = at + 1
            elif at + 1 - start > best:
                best, longest = at + 1 - start, (start, at + 1 + period)
        run = Run(*longest, period)
        if run.trips >= least_trips:
            found.append(run)
    return sorted(found, key=lambda run: (-run.trips * run.period, run.period))


def _distances(sequence: Sequence[int]) -> list[int]:
    """How far apart equal neighbourhoods lie, the distances that cover most elements."""
    last: dict[tuple[int, ...], int] = {}
    counts: Counter[int] = Counter()
    for at in range(len(sequence) - GRAM + 1):
        gram = tuple(sequence[at : at + GRAM])
        if gram in last:
            counts[at - last[gram]] += 1
        last[gram] = at
    covered = sorted(counts, key=lambda period: (-counts[period] * period, period))
    return covered[:CANDIDATES]
