# pyright: reportMissingImports=false
"""
The device of this process: its context, its memory, and clear words where there is none.

The only file that knows PyCUDA's untyped interface.
"""

from __future__ import annotations

import atexit
import ctypes
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from mlc.cached_property import cached_property
from mlc.dialects.target.gpu import GpuTarget
from mlc.dialects.target.known import GPUS
from mlc.fork import RenewedLock
from mlc.runtime.cuda.native import Function, GpuError, NativeDriver
from mlc.runtime.cuda.pool import Pool, current_stream, set_current_stream
from mlc.runtime.cuda.staging import Staging

WITHOUT_GPU = "`mlc build --emit ptx` works without one"

_PAGE_BYTES = 1 << 16
_WRITE_NUMBER = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry mlc_write_number(.param .u64 at, .param .u64 value)
{
  .reg .b64 %place, %number;
  ld.param.u64 %place, [at];
  ld.param.u64 %number, [value];
  st.global.u64 [%place], %number;
  ret;
}
"""

_FOUND_NONE = 'mlc.compile(target="cuda") needs an NVIDIA GPU'


class Checked(Protocol):
    """A program whose kernels may fail."""

    def check_error(self) -> None:
        """Raises for a run-time error of an earlier call."""
        ...


class _HostPages:
    """Memory of the host that kernels write to, in pieces of one size; never given back."""

    def __init__(self, native: NativeDriver) -> None:
        self._native = native
        self._free: dict[int, list[int]] = {}

    def take(self, size_bytes: int) -> int:
        """The address of a piece."""
        free = self._free.setdefault(size_bytes, [])
        if not free:
            first = self._native.host_memory(_PAGE_BYTES)
            count = max(1, _PAGE_BYTES // size_bytes)
            free += [first + size_bytes * k for k in range(count)]
        return free.pop()

    def give_back(self, address: int, size_bytes: int) -> None:
        """The piece may be taken again."""
        self._free[size_bytes].append(address)


class HostWords:
    """Words of the host that kernels write to."""

    def __init__(self, pages: _HostPages, size_bytes: int) -> None:
        self._pages, self._size_bytes = pages, size_bytes
        self.address = pages.take(size_bytes)
        self.words = (ctypes.c_int64 * (size_bytes // 8)).from_address(self.address)
        ctypes.memset(self.address, 0, size_bytes)

    def __del__(self) -> None:
        self._pages.give_back(self.address, self._size_bytes)


@contextmanager
def stream(on: object) -> Generator[None, None, None]:
    """
    Calls of this thread run on a stream: a number, or an object of a library (`cuda_stream`, `ptr`
    or `__cuda_stream__`). Arrays of PyTorch name the stream themselves, which goes first.
    """
    before = current_stream()
    set_current_stream(_handle_of(on))
    try:
        yield
    finally:
        set_current_stream(before)


def _handle_of(value: Any) -> int:
    given: Any = getattr(value, "__cuda_stream__", None)
    if given is not None:
        numbers: Any = given() if callable(given) else given
        return int(numbers[1])
    for name in ("cuda_stream", "ptr"):
        if hasattr(value, name):
            return int(getattr(value, name))
    if isinstance(value, int):
        return value
    raise TypeError(
        f"mlc.stream({value!r}): expected a number or a stream with cuda_stream, ptr or "
        "__cuda_stream__"
    )


class Device:
    """One GPU with its primary context."""

    def __init__(self, driver: Any, ordinal: int) -> None:
        self._handle = driver.Device(ordinal)
        self.name = str(self._handle.name())
        major, minor = self._handle.compute_capability()
        self.compute_capability = 10 * int(major) + int(minor)
        self.sm_count = int(self._handle.multiprocessor_count)
        self.memory_bytes = int(self._handle.total_memory())
        self._context = self._handle.retain_primary_context()
        self.lock = RenewedLock()
        self.native = NativeDriver(f"{self.name} (compute capability {self.compute_capability})")
        self.pool = Pool(self.native, ordinal)
        self.staging = Staging(self)
        self.checked: weakref.WeakSet[Checked] = weakref.WeakSet()
        self._small = _HostPages(self.native)
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

    def host_words(self, size_bytes: int) -> HostWords:
        """Zeroes on the host that kernels write to."""
        return HostWords(self._small, size_bytes)

    @cached_property
    def number_writer(self) -> Function:
        """The kernel that stores a number (address, i64)."""
        return self.native.load(_WRITE_NUMBER, "mlc_write_number")

    def synchronize(self) -> None:
        """Waits for everything on all streams."""
        self.native.synchronize_all()

    def check_errors(self) -> None:
        """Raises for the first run-time error of a program whose kernels have ended."""
        for program in list(self.checked):
            program.check_error()

    def _close(self) -> None:
        with suppress(Exception):
            with self.active():
                self.pool.trim()
            self.native.closed = True
            self._context.detach()


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
    best = nearest_row(found.compute_capability)
    if best is None:
        raise GpuError(
            f"{found.name} has compute capability {found.compute_capability}; "
            f"expected {min(t.compute_capability for t in GPUS)} or more"
        )
    if best.compute_capability == found.compute_capability and best.sm_count == found.sm_count:
        return best
    return replace(best, sm_count=found.sm_count, hbm_bytes=found.memory_bytes)


def nearest_row(compute_capability: int) -> GpuTarget | None:
    """
    The row of the newest GPU whose code runs on those of a compute capability: where it is their
    own, the one with the instructions that no other GPU has.
    """
    fitting = [
        t
        for t in GPUS
        if t.compute_capability == compute_capability
        or (t.compute_capability < compute_capability and not t.arch_specific)
    ]
    return max(fitting, key=lambda t: (t.compute_capability, t.arch_specific), default=None)
