"""How the work of a tile program is shared: by workers, and by chunks whose states are combined."""

from __future__ import annotations

MOST_CHUNKS = 64
"""Chunks whose states are combined: enough to keep threads busy, few enough to combine."""
MOST_PARTIAL_BYTES = 1 << 22
"""Of all chunks' states together: about what a level-2 cache holds."""


def share(count: int, workers: int, worker: int) -> range:
    """The contiguous part of `count` things that is one worker's."""
    return range(count * worker // workers, count * (worker + 1) // workers)


def chunks(trips: int, state_bytes: int) -> int:
    """In how many chunks trips are folded: by sizes alone, so that bits are the same (D1)."""
    fits = MOST_PARTIAL_BYTES // max(state_bytes, 1)
    return min(trips, max(fits, 1), MOST_CHUNKS)
