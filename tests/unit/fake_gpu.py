"""A GPU made of host memory: holds arrays and notes launches, runs no kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mlc.runtime.cuda.driver import Pool
from mlc.runtime.fork import RenewedLock


class FakeFunction:
    """A kernel that has been loaded."""

    handle = 0

    def __init__(self, name: str) -> None:
        self.name = name


class FakeDevice:
    """As `mlc.runtime.cuda.driver.Device`, and the driver below it."""

    MemoryError = MemoryError
    name = "a fake GPU"

    def __init__(self, compute_capability: int = 90, memory_bytes: int = 1 << 30) -> None:
        self.compute_capability = compute_capability
        self.memory_bytes = memory_bytes
        self.used_bytes = 0
        self.lock = RenewedLock()
        self.pool = Pool(self)
        self.launches: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []
        self.copies_in = 0
        self.copies_out = 0

    # the driver

    def mem_alloc(self, size_bytes: int) -> FakeAllocation:
        if self.used_bytes + size_bytes > self.memory_bytes:
            raise MemoryError
        self.used_bytes += size_bytes
        return FakeAllocation(self, size_bytes)

    def mem_get_info(self) -> tuple[int, int]:
        return self.memory_bytes - self.used_bytes, self.memory_bytes

    # the device

    @contextmanager
    def active(self) -> Generator[None]:
        with self.lock():
            yield

    def load(self, ptx: str, name: str) -> FakeFunction:
        assert f".entry {name}(" in ptx
        return FakeFunction(name)

    def launch(
        self,
        function: FakeFunction,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int],
        shared_bytes: int = 0,
    ) -> None:
        self.launches.append((function.name, grid, block, tuple(arguments)))

    def to_device(self, pointer: int, source: Any) -> None:
        self.copies_in += 1
        data = source if isinstance(source, bytes) else np.ascontiguousarray(source).tobytes()
        ctypes.memmove(pointer, data, len(data))

    def to_host(self, target: Any, pointer: int) -> None:
        self.copies_out += 1
        if isinstance(target, np.ndarray):
            ctypes.memmove(target.ctypes.data, pointer, target.nbytes)
        else:
            ctypes.memmove(target, pointer, ctypes.sizeof(target))

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        ctypes.memmove(target, source, size_bytes)

    def fill_words(self, pointer: int, word: int, count: int) -> None:
        (ctypes.c_uint32 * count).from_address(pointer)[:] = [word] * count

    def synchronize(self) -> None:
        return None


class FakeAllocation:
    """Memory of the fake device, aligned as the real one's."""

    def __init__(self, device: FakeDevice, size_bytes: int) -> None:
        self._device = device
        self._memory = (ctypes.c_uint8 * (size_bytes + 256))()
        self._size_bytes = size_bytes

    def __int__(self) -> int:
        return -(-ctypes.addressof(self._memory) // 256) * 256

    def free(self) -> None:
        self._device.used_bytes -= self._size_bytes
