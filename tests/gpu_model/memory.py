"""The device's memory: buffers with guards between them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from tests.gpu_model.clocks import ModelError

Array = NDArray[Any]
GUARD, ALIGNED = 256, 256


class Memory:
    """Bytes by address; those of no buffer are nobody's."""

    def __init__(self, size_bytes: int = 1 << 24) -> None:
        self.data = np.full(size_bytes, 0xFF, np.uint8)
        self.owned = np.zeros(size_bytes, bool)
        self.free = GUARD

    def reserve(self, size_bytes: int) -> int:
        """The address of new bytes, which are NaN."""
        at = self.free
        self.free += -(-(size_bytes + GUARD) // ALIGNED) * ALIGNED
        if self.free > self.data.size:
            raise MemoryError(f"the model has {self.data.size} bytes")
        self.owned[at : at + size_bytes] = True
        return at

    def put(self, array: Array) -> int:
        """A buffer with these elements."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        at = self.reserve(flat.size)
        self.data[at : at + flat.size] = flat
        return at

    def get(self, at: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The elements of a buffer."""
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self.data[at : at + count].view(dtype).reshape(shape).copy()

    def places(self, at: Array, op: Operation) -> Array:
        """The addresses, if all are somebody's."""
        if at.size and (at.min() < 0 or at.max() >= self.data.size or not self.owned[at].all()):
            raise ModelError(f"{op.name}: touches memory that is in no buffer")
        return at
