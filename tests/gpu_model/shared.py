"""The memory of a block: bytes, who wrote them when, what is still under way; and its barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from mlc.dialects.errors import MlcError

Array = NDArray[Any]
_NOBODY = -1


class ModelError(MlcError):
    """A GPU program that is wrong whatever it computes."""


def swizzled(address: Array) -> Array:
    """Where a byte lies of rows of 128 bytes: pieces of 16 change places in each of eight rows."""
    return address ^ ((address >> 7 & 7) << 4)


class Barrier:
    """An `mbarrier`: phases that end when all have arrived and all bytes are there."""

    def __init__(self, count: int) -> None:
        self.count = self.missing = count
        self.bytes = 0
        self.ended = 0

    def _may_end(self) -> None:
        if self.missing == 0 and self.bytes == 0:
            self.ended += 1
            self.missing = self.count

    def arrive(self, op: Operation, expected: int = 0) -> None:
        """One of those who are counted."""
        if self.missing == 0:
            raise ModelError(f"{op.name}: more arrivals than the {self.count} that are counted")
        self.missing -= 1
        self.bytes += expected
        self._may_end()

    def complete(self, count: int) -> None:
        """Bytes that have come."""
        self.bytes -= count
        self._may_end()

    def is_over(self, parity: int) -> bool:
        """Whether the phase of this parity has ended."""
        return self.ended % 2 != parity


class Shared:
    """What the threads of a block share."""

    def __init__(self, size_bytes: int) -> None:
        self.data = np.full(size_bytes, 0xFF, np.uint8)
        self.version = np.zeros(size_bytes, np.int32)  # how often a byte was written
        self.writer = np.full(size_bytes, _NOBODY, np.int32)
        self.reader = np.full(size_bytes, _NOBODY, np.int32)
        self.written = np.full(size_bytes, _NOBODY, np.int32)  # the epoch in which it was
        self.read_in = np.full(size_bytes, _NOBODY, np.int32)
        self.coming = np.zeros(size_bytes, bool)  # a copy is under way
        self.unseen = np.full(size_bytes, _NOBODY, np.int32)  # the warp whose fence is missing
        self.barriers: dict[int, Barrier] = {}
        self.epoch = 0  # barriers of the block that all have passed

    def barrier(self, address: int, op: Operation) -> Barrier:
        """The one that was made there."""
        found = self.barriers.get(address)
        if found is None:
            raise ModelError(f"{op.name}: no barrier was made at {address}")
        return found

    def _check(self, at: Array, op: Operation) -> None:
        if at.size and (at.min() < 0 or at.max() >= self.data.size):
            raise ModelError(f"{op.name}: byte {at.max()} of {self.data.size} of a block")
        if self.coming[at].any():
            raise ModelError(f"{op.name}: touches what a copy has not brought yet")

    def write(self, at: Array, values: Array, op: Operation, warp: int) -> None:
        """By threads."""
        self._check(at, op)
        others = (self.written[at] == self.epoch) & (self.writer[at] != warp)
        others &= self.data[at] != values
        seen = (self.read_in[at] == self.epoch) & ~np.isin(self.reader[at], (warp, _NOBODY))
        if others.any() or (seen & (self.data[at] != values)).any():
            raise ModelError(f"{op.name}: warp {warp} writes what another one uses; no barrier")
        self.data[at] = values
        self.version[at] += 1
        self.writer[at], self.written[at] = warp, self.epoch
        self.unseen[at] = warp

    def read(self, at: Array, op: Operation, warp: int) -> Array:
        """By threads."""
        self._check(at, op)
        if ((self.written[at] == self.epoch) & ~np.isin(self.writer[at], (warp, _NOBODY))).any():
            raise ModelError(f"{op.name}: warp {warp} reads what another one writes; no barrier")
        again = (self.read_in[at] == self.epoch) & (self.reader[at] != warp)
        self.reader[at] = np.where(again, -2, warp)
        self.read_in[at] = self.epoch
        return self.data[at]

    def fenced(self, warp: int) -> None:
        """The copy engine sees what a warp has written."""
        self.unseen[self.unseen == warp] = _NOBODY

    def by_engine(self, at: Array, op: Operation) -> Array:
        """What the copy engine or a product reads."""
        self._check(at, op)
        if (self.unseen[at] != _NOBODY).any():
            raise ModelError(f"{op.name}: reads what threads have written without a fence")
        if not self.version[at].all():
            raise ModelError(f"{op.name}: reads what nobody has written")
        return self.data[at]

    def begin(self, at: Array, op: Operation) -> None:
        """A copy to these bytes is under way."""
        self._check(at, op)
        self.coming[at] = True
        self.version[at] += 1

    def end(self, at: Array, values: Array, by: int = _NOBODY) -> None:
        """It has come, by the copy engine or for a warp."""
        self.coming[at] = False
        self.data[at] = values
        self.writer[at] = by
        self.written[at] = self.epoch if by != _NOBODY else _NOBODY
        self.unseen[at] = _NOBODY

    def versions(self, at: Array) -> bytes:
        """Changes where one of the bytes does."""
        return self.version[at].tobytes()
