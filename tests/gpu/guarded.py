"""Memory of the device with a zone on each side of every block, and numbers that nobody wrote."""

from __future__ import annotations

import os

import numpy as np

from mlc.runtime.cuda import device, pool, staging
from mlc.runtime.cuda.pool import Memory

ZONE_BYTES = int(os.environ.get("MLC_TEST_ZONE_BYTES", "256"))
"""
On each side: more than the widest access. With none compute-sanitizer sees each read and write
behind a block's end.
"""
FILL = 0xA5


class GuardedMemory:
    """As the driver's, which it asks."""

    def __init__(self, inner: Memory) -> None:
        self.inner = inner
        self.blocks: dict[int, int] = {}  # where one begins, and its bytes

    def allocate(self, size_bytes: int) -> int:
        """Memory between two zones."""
        pointer = self.inner.allocate(size_bytes + 2 * ZONE_BYTES)
        fill = np.full(size_bytes + 2 * ZONE_BYTES, FILL, np.uint8)
        device().native.copy_in(pointer, fill.ctypes.data, fill.nbytes, 0)
        device().native.synchronize(0)
        self.blocks[pointer + ZONE_BYTES] = size_bytes
        return pointer + ZONE_BYTES

    def free(self, pointer: int) -> None:
        """Gives memory back."""
        known = self.blocks.pop(pointer, None)
        self.inner.free(pointer if known is None else pointer - ZONE_BYTES)

    def memory_info(self) -> tuple[int, int]:
        """Free bytes, and all."""
        return self.inner.memory_info()

    def check(self) -> None:
        """AssertionError if a byte beside a block has changed."""
        native, zone = device().native, np.empty(ZONE_BYTES, np.uint8)
        for pointer, size_bytes in self.blocks.items():
            for at in (pointer - ZONE_BYTES, pointer + size_bytes):
                native.copy_out(zone.ctypes.data, at, ZONE_BYTES, 0)
                native.synchronize(0)
                assert (zone == FILL).all(), f"bytes beside {size_bytes} bytes were written"


def guarded() -> GuardedMemory:
    """
    The memory of this process's pool, with zones from the first call on: blocks are as large as
    what was asked for, and arrays of the host travel each in a block of its own.
    """
    gpu = device()
    found = gpu.pool._memory  # pyright: ignore[reportPrivateUsage]
    if not isinstance(found, GuardedMemory):
        with gpu.active():
            gpu.pool.trim()
        found = gpu.pool._memory = GuardedMemory(found)  # pyright: ignore[reportPrivateUsage]
        pool._rounded = lambda size_bytes: max(size_bytes, 1)  # pyright: ignore[reportPrivateUsage]
        staging.TOGETHER_BYTES = 0
    return found
