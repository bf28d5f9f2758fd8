# pyright: reportMissingImports=false
"""
The device of this process: its context, its memory, and clear words where there is none.

The only file that knows PyCUDA's untyped interface.
"""

from __future__ import annotations

import atexit
from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from mlc.dialects.launch import TensorMap
from mlc.dialects.target.gpu import GpuTarget
from mlc.dialects.target.known import GPUS
from mlc.runtime.cuda.native import DriverError, Function, NativeDriver
from mlc.runtime.fork import RenewedLock

ALIGNMENT_BYTES = 256  # of every block. Source: CUDA C++ Programming Guide, cudaMalloc
WITHOUT_GPU = "`mlc build --emit ptx` works without one"

_FOUND_NONE = 'mlc.compile(target="cuda") needs an NVIDIA GPU'


class GpuError(RuntimeError):
    """There is no GPU to run on, or the driver refuses what it was asked."""


class Block:
    """Device memory; goes back to its pool when nobody holds it."""

    __slots__ = ("__weakref__", "_allocation", "_pool", "pointer", "size_bytes")

    def __init__(self, pool: Pool, allocation: Any, size_bytes: int) -> None:
        self._pool = pool
        self._allocation = allocation
        self.pointer = int(allocation)
        self.size_bytes = size_bytes

    def __del__(self) -> None:
        self._pool.give_back(self._allocation, self.size_bytes)


class Pool:
    """
    Device memory kept for reuse, by size. Blocks are used on one stream, so a block that is free
    here may still be read by launches under way: what is launched later comes later.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._free: defaultdict[int, deque[Any]] = defaultdict(deque)
        self.held_bytes = 0

    def take(self, size_bytes: int) -> Block:
        """At least so many bytes, aligned; MemoryError with the numbers when there are not."""
        found = self.kept(size_bytes)
        if found is not None:
            return found
        size_bytes = _rounded(max(size_bytes, 1))
        try:
            allocation = self._driver.mem_alloc(size_bytes)
        except self._driver.MemoryError:
            self.trim()
            allocation = self._last_try(size_bytes)
        self.held_bytes += size_bytes
        return Block(self, allocation, size_bytes)

    def kept(self, size_bytes: int) -> Block | None:
        """A block that was given back, of such a size; asks no driver."""
        size_bytes = _rounded(max(size_bytes, 1))
        with suppress(IndexError):
            return Block(self, self._free[size_bytes].pop(), size_bytes)
        return None

    def _last_try(self, size_bytes: int) -> Any:
        try:
            return self._driver.mem_alloc(size_bytes)
        except self._driver.MemoryError:
            free, total = self._driver.mem_get_info()
            raise MemoryError(
                f"{size_bytes:,} bytes are needed on the GPU at once, {free:,} of {total:,} are "
                "free; use smaller inputs, or release arrays of other libraries on this device"
            ) from None

    def give_back(self, allocation: Any, size_bytes: int) -> None:
        """Keeps a block's memory for the next."""
        self._free[size_bytes].append(allocation)

    def trim(self) -> None:
        """Gives memory that nobody uses back to the driver."""
        for size_bytes, allocations in self._free.items():
            while allocations:
                allocations.pop().free()
                self.held_bytes -= size_bytes


def _rounded(size_bytes: int) -> int:
    """Sizes in steps of an eighth of the next power of two: few sizes, little waste."""
    step = max(ALIGNMENT_BYTES, 1 << max(0, size_bytes.bit_length() - 4))
    return -(-size_bytes // step) * step


class Device:
    """One GPU with its primary context."""

    def __init__(self, driver: Any, ordinal: int) -> None:
        self.driver = driver
        self._handle = driver.Device(ordinal)
        self.name = str(self._handle.name())
        major, minor = self._handle.compute_capability()
        self.compute_capability = 10 * int(major) + int(minor)
        self.sm_count = int(self._handle.multiprocessor_count)
        self.memory_bytes = int(self._handle.total_memory())
        self._context = self._handle.retain_primary_context()
        self.pool = Pool(driver)
        self.lock = RenewedLock()
        self.native = NativeDriver()
        with self.active():
            self.context = self.native.current_context()
        atexit.register(self._close)

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """The device's context is current, and no other thread of ours uses it."""
        with self.lock():
            self._context.push()
            try:
                yield
            finally:
                self._context.pop()

    def _close(self) -> None:
        with suppress(Exception):
            with self.active():
                self.pool.trim()
            self._context.detach()

    def load(self, ptx: str, name: str) -> Function:
        """The kernel `name` of a module of PTX."""
        try:
            return self.native.load(ptx, name)
        except DriverError as error:
            raise GpuError(
                f"the driver refuses the code of kernel {name} on {self.name} "
                f"(compute capability {self.compute_capability}): {error}"
            ) from error

    def launch(
        self,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | TensorMap],
        shared_bytes: int = 0,
    ) -> None:
        """Starts a kernel on the default stream."""
        try:
            self.native.launch(function, grid, block, arguments, shared_bytes)
        except DriverError as error:
            raise GpuError(f"the driver could not start kernel {function.name}: {error}") from error

    def to_device(self, pointer: int, source: Any) -> None:
        """Copies a contiguous array or bytes."""
        self.driver.memcpy_htod(pointer, source)

    def to_host(self, target: Any, pointer: int) -> None:
        """Fills a contiguous array; waits for the launches before."""
        self.driver.memcpy_dtoh(target, pointer)

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Between two places on the device."""
        self.driver.memcpy_dtod_async(target, source, size_bytes)

    def fill_words(self, pointer: int, word: int, count: int) -> None:
        """`count` 32-bit words, in order with the launches."""
        self.driver.memset_d32_async(pointer, word, count)

    def synchronize(self) -> None:
        """Waits for everything launched."""
        self.driver.Context.synchronize()


@lru_cache(maxsize=1)
def device() -> Device:
    """The process's first GPU; GpuError where there is none."""
    try:
        driver = import_module("pycuda.driver")
    except ModuleNotFoundError as error:
        raise GpuError(
            f"{_FOUND_NONE} and PyCUDA; found no module {error.name!r}; install it with "
            f'pip install "mlc-compiler[gpu]"; {WITHOUT_GPU}'
        ) from error
    except ImportError as error:
        raise GpuError(
            f"{_FOUND_NONE} and its driver; PyCUDA cannot be loaded: {error}; {WITHOUT_GPU}"
        ) from error
    try:
        driver.init()
        count = int(driver.Device.count())
    except driver.Error as error:
        raise GpuError(f"{_FOUND_NONE}; the driver says: {error}; {WITHOUT_GPU}") from error
    if count == 0:
        raise GpuError(f"{_FOUND_NONE}; found a driver and no device; {WITHOUT_GPU}")
    return Device(driver, 0)


def described_gpu() -> GpuTarget:
    """The GPU that code is shown for: this process's, else the oldest whose code runs on all."""
    try:
        return gpu_target()
    except GpuError:
        return min(GPUS, key=lambda target: target.compute_capability)


def gpu_target() -> GpuTarget:
    """The target for this process's GPU: the nearest row of the table with the device's figures."""
    found = device()
    if "H200" in found.name:
        return next(t for t in GPUS if t.name == "h200")
    fitting = [t for t in GPUS if t.compute_capability <= found.compute_capability]
    if not fitting:
        raise GpuError(
            f"{found.name} has compute capability {found.compute_capability}; "
            f"expected {min(t.compute_capability for t in GPUS)} or more"
        )
    best = max(fitting, key=lambda t: (t.compute_capability, not t.arch_specific))
    if best.compute_capability == found.compute_capability and best.sm_count == found.sm_count:
        return best
    return replace(best, sm_count=found.sm_count, hbm_bytes=found.memory_bytes)
