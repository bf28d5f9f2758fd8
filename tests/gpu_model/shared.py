"""The memory of a block: bytes, who wrote them when, what is still under way; and its barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from tests.gpu_model.clocks import Clock, History, Known, ModelError

Array = NDArray[Any]
_NOBODY = -1


def swizzled(address: Array) -> Array:
    """Where a byte lies of rows of 128 bytes: pieces of 16 change places in each of eight rows."""
    return address ^ ((address >> 7 & 7) << 4)


class Barrier:
    """An `mbarrier`: phases that end when all have arrived and all bytes are there."""

    def __init__(self, count: int, clock: Clock) -> None:
        self.count = self.missing = count
        self.made = clock.own, clock.at[clock.own]
        self.bytes = 0
        self.ended = 0
        self.told = Known(clock.at.size)  # by those who have arrived in this phase
        self.known = self.told.copy()  # after a wait

    def _may_end(self) -> None:
        if self.missing == 0 and self.bytes == 0:
            self.ended += 1
            self.missing = self.count
            self.known = self.told.copy()

    def arrive(self, op: Operation, told: Known, expected: int = 0) -> None:
        """One of those who are counted."""
        if self.missing == 0:
            raise ModelError(f"{op.name}: more arrivals than the {self.count} that are counted")
        self.missing -= 1
        self.bytes += expected
        self.told.learn(told)
        self._may_end()

    def complete(self, count: int, told: Known) -> None:
        """Bytes that have come."""
        self.bytes -= count
        self.told.learn(told)
        self._may_end()

    def is_over(self, parity: int) -> bool:
        """Whether the phase of this parity has ended."""
        return self.ended % 2 != parity


class Shared:
    """What the threads of a block share."""

    def __init__(self, size_bytes: int, warps: int) -> None:
        self.history = History(size_bytes, warps)
        self.data = np.full(size_bytes, 0xFF, np.uint8)
        self.version = np.zeros(size_bytes, np.int32)  # how often a byte was written
        self.coming = np.zeros(size_bytes, bool)  # a copy is under way
        self.unseen = np.full(size_bytes, _NOBODY, np.int32)  # the warp whose fence is missing
        self.barriers: dict[int, Barrier] = {}

    def barrier(self, address: int, op: Operation, clock: Clock) -> Barrier:
        """The one that is known to have been made there."""
        found = self.barriers.get(address)
        if found is None or clock.at[found.made[0]] < found.made[1]:
            raise ModelError(f"{op.name}: no barrier was made at {address}, or perhaps not yet")
        return found

    def _check(self, at: Array, op: Operation) -> None:
        if at.size and (at.min() < 0 or at.max() >= self.data.size):
            raise ModelError(f"{op.name}: byte {at.max()} of {self.data.size} of a block")
        if self.coming[at].any():
            raise ModelError(f"{op.name}: touches what a copy has not brought yet")

    def write(self, at: Array, values: Array, op: Operation, clock: Clock) -> None:
        """By threads."""
        self._check(at, op)
        changed = at[self.data[at] != values]
        self.history.free(changed, clock, op)
        self.history.write(at, clock)
        self.data[at] = values
        self.version[at] += 1
        self.unseen[at] = clock.own

    def read(self, at: Array, op: Operation, clock: Clock) -> Array:
        """By threads."""
        self._check(at, op)
        self.history.known(at, clock, op)
        self.history.read(at, clock)
        return self.data[at]

    def fenced(self, clock: Clock) -> None:
        """The copy engine sees what a warp has written."""
        self.unseen[self.unseen == clock.own] = _NOBODY

    def by_engine(self, at: Array, op: Operation, clock: Clock) -> Array:
        """What the copy engine or a product reads, for a warp."""
        self._check(at, op)
        self.history.known(at, clock, op)
        if (self.unseen[at] != _NOBODY).any():
            raise ModelError(f"{op.name}: reads what threads have written without a fence")
        if not self.version[at].all():
            raise ModelError(f"{op.name}: reads what nobody has written")
        return self.data[at]

    def begin(self, at: Array, op: Operation, clock: Clock) -> None:
        """A copy to these bytes is under way."""
        self._check(at, op)
        self.history.free(at, clock, op)
        self.coming[at] = True
        self.version[at] += 1

    def end(self, at: Array, values: Array, clock: Clock | None = None) -> None:
        """It has come, by the copy engine or for a warp."""
        if clock is not None:
            self.history.write(at, clock)
        self.coming[at] = False
        self.data[at] = values
        self.unseen[at] = _NOBODY

    def versions(self, at: Array) -> bytes:
        """Changes where one of the bytes does."""
        return self.version[at].tobytes()
