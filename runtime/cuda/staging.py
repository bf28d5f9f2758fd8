"""
Host arrays on their way to the device and back: small ones travel together, one copy not one each,
through memory that the device reads by itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlc.runtime.cuda.pool import ALIGNMENT_BYTES, Block

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mlc.runtime.cuda.driver import Device

    Array = NDArray[np.generic]

TOGETHER_BYTES = 1 << 20
"""Arrays that are smaller together are packed: at 25 GB/s that takes 40 us, as four copies do."""


class Staging:
    """A buffer on the host through which arrays pass."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffer: NDArray[np.uint8] | None = None
        self._read = 0  # event: the device has read the buffer

    def upload(self, arrays: Sequence[Array], keep: list[Block], stream: int) -> list[int]:
        """Where each array is on the device; `keep` gets what holds them."""
        if not arrays:
            return []
        offsets, total = packed([array.nbytes for array in arrays])
        if total > TOGETHER_BYTES:
            return [self._alone(array, keep, stream) for array in arrays]
        block = self._device.pool.take(total, stream)
        keep.append(block)
        if total:
            buffer = self._host()
            self._device.native.wait(self._read)
            for array, offset in zip(arrays, offsets, strict=True):
                buffer[offset : offset + array.nbytes] = array.reshape(-1).view("uint8")
            self._device.native.copy_in(block.pointer, buffer.ctypes.data, total, stream)
            self._device.native.record(self._read, stream)
        first = block.pointer
        return [first + offset for offset in offsets]

    def _alone(self, array: Array, keep: list[Block], stream: int) -> int:
        block = self._device.pool.take(array.nbytes, stream)
        keep.append(block)
        if array.nbytes:
            self._device.native.copy_in(block.pointer, array.ctypes.data, array.nbytes, stream)
        return block.pointer

    def download(
        self, pointer: int, offsets: Sequence[int], arrays: Sequence[Array], stream: int
    ) -> None:
        """Fills arrays from places behind `pointer`; waits for the launches before."""
        total = offsets[-1] + arrays[-1].nbytes if arrays else 0
        if not total:
            return
        native = self._device.native
        if total > TOGETHER_BYTES:
            for array, offset in zip(arrays, offsets, strict=True):
                if array.nbytes:
                    native.copy_out(array.ctypes.data, pointer + offset, array.nbytes, stream)
            native.synchronize(stream)
            return
        buffer = self._host()
        native.wait(self._read)
        native.copy_out(buffer.ctypes.data, pointer, total, stream)
        native.synchronize(stream)
        for array, offset in zip(arrays, offsets, strict=True):
            array.reshape(-1).view("uint8")[:] = buffer[offset : offset + array.nbytes]

    def _host(self) -> NDArray[np.uint8]:
        import numpy as np

        buffer = self._buffer
        if buffer is None:
            at = self._device.native.host_memory(TOGETHER_BYTES)
            memory = (ctypes.c_uint8 * TOGETHER_BYTES).from_address(at)
            buffer = self._buffer = np.frombuffer(memoryview(memory), np.uint8)
            self._read = self._device.native.event()
        return buffer


def packed(sizes_bytes: Sequence[int]) -> tuple[list[int], int]:
    """Aligned places of buffers one behind the other, and the bytes of all."""
    offsets: list[int] = []
    total = 0
    for size_bytes in sizes_bytes:
        offsets.append(total)
        total += -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return offsets, total
