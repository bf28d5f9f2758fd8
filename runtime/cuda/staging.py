"""Small host arrays travel together: one copy to the device and one back, not one each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlc.runtime.cuda.driver import ALIGNMENT_BYTES, Block, Device

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

TOGETHER_BYTES = 1 << 20
"""Arrays that are smaller together are packed: at 25 GB/s that takes 40 us, as four copies do."""


class Staging:
    """A buffer on the host through which arrays pass."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffer: NDArray[np.uint8] | None = None

    def upload(self, arrays: Sequence[Array], keep: list[Block]) -> list[int]:
        """Where each array is on the device; `keep` gets what holds them."""
        offsets, total = packed([array.nbytes for array in arrays])
        if len(arrays) < 2 or total > TOGETHER_BYTES:
            return [self._alone(array, keep) for array in arrays]
        block = self._device.pool.take(total)
        keep.append(block)
        buffer = self._host(total)
        for array, offset in zip(arrays, offsets, strict=True):
            buffer[offset : offset + array.nbytes] = array.reshape(-1).view("uint8")
        self._device.to_device(block.pointer, buffer)
        return [block.pointer + offset for offset in offsets]

    def _alone(self, array: Array, keep: list[Block]) -> int:
        block = self._device.pool.take(array.nbytes)
        keep.append(block)
        if array.nbytes:
            self._device.to_device(block.pointer, array)
        return block.pointer

    def download(self, pointer: int, offsets: Sequence[int], arrays: Sequence[Array]) -> None:
        """Fills arrays from places behind `pointer`; waits for the launches before."""
        if not arrays:
            return
        total = offsets[-1] + arrays[-1].nbytes
        if len(arrays) < 2 or total > TOGETHER_BYTES:
            for array, offset in zip(arrays, offsets, strict=True):
                if array.nbytes:
                    self._device.to_host(array, pointer + offset)
            return
        buffer = self._host(total)
        self._device.to_host(buffer, pointer)
        for array, offset in zip(arrays, offsets, strict=True):
            array.reshape(-1).view("uint8")[:] = buffer[offset : offset + array.nbytes]

    def _host(self, total: int) -> NDArray[np.uint8]:
        import numpy as np

        if self._buffer is None:
            self._buffer = np.empty(TOGETHER_BYTES, np.uint8)
        return self._buffer[:total]


def packed(sizes_bytes: Sequence[int]) -> tuple[list[int], int]:
    """Aligned places of buffers one behind the other, and the bytes of all."""
    offsets: list[int] = []
    total = 0
    for size_bytes in sizes_bytes:
        offsets.append(total)
        total += -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return offsets, total
