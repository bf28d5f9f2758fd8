"""Who knows what has happened: whether two uses of a byte are in order whatever runs first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from mlc.dialects.errors import MlcError

Array = NDArray[Any]


class ModelError(MlcError):
    """A GPU program that is wrong whatever it computes."""


class Known:
    """How far each warp of a cluster is known to have come, and which copies have."""

    def __init__(self, warps: int) -> None:
        self.at = np.zeros(warps, np.int32)
        self.copies = 0  # a bit each

    def learn(self, told: Known) -> None:
        """What others know."""
        np.maximum(self.at, told.at, out=self.at)
        self.copies |= told.copies

    def copy(self) -> Known:
        """As it is now."""
        found = Known(0)
        found.at, found.copies = self.at.copy(), self.copies
        return found


class Clock(Known):
    """
    What a warp knows: a vector clock.

    Source: Lamport, CACM 21(7), 1978; of races: Flanagan & Freund, FastTrack, PLDI 2009.
    """

    def __init__(self, own: int, warps: int) -> None:
        super().__init__(warps)
        self.own = own
        self.at[own] = 1

    def tell(self) -> Known:
        """For those who wait for it; what it does next they do not know of."""
        told = self.copy()
        self.at[self.own] += 1
        return told


class History:
    """By whom and when each byte was written last, and read."""

    def __init__(self, size_bytes: int, warps: int) -> None:
        self.writer = np.zeros(size_bytes, np.int16)
        self.written = np.zeros(size_bytes, np.int32)  # 0: never
        self.brought = np.zeros(size_bytes, np.int32)  # by the copy of this number; 0: by a warp
        self.read_at = np.zeros((warps, size_bytes), np.int32)
        self.last = np.zeros(warps, np.int32)  # time at which each has read something

    def known(self, at: Array, clock: Clock, op: Operation, use: str = "used") -> None:
        """What is used here has been written before."""
        copies = np.flatnonzero(np.bincount(self.brought[at]))
        missing = any(copy and not clock.copies >> int(copy) & 1 for copy in copies)
        if missing or (self.written[at] > clock.at[self.writer[at]]).any():
            raise ModelError(f"{op.name}: what is {use} is perhaps not brought yet")

    def read(self, at: Array, clock: Clock) -> None:
        """A use that has ended now."""
        self.read_at[clock.own, at] = self.last[clock.own] = clock.at[clock.own]

    def free(self, at: Array, clock: Clock, op: Operation) -> None:
        """Nobody reads what is written here."""
        self.known(at, clock, op, "overwritten")
        for warp in np.nonzero(self.last > clock.at)[0]:
            if (self.read_at[warp, at] > clock.at[warp]).any():
                raise ModelError(f"{op.name}: what is overwritten may still be read")

    def write(self, at: Array, clock: Clock) -> None:
        """By a warp."""
        self.writer[at], self.written[at] = clock.own, clock.at[clock.own]
        self.brought[at] = 0

    def bring(self, at: Array, copy: int) -> None:
        """By a copy that a barrier tells of."""
        self.brought[at], self.written[at] = copy, 0
