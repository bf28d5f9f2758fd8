"""The driver's library itself: modules and launches, by the addresses that native code calls."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from mlc.runtime.layout import function_address

_LOG_BYTES = 8192
_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES = 5, 6  # CUjit_option. Source: cuda.h


class DriverError(Exception):
    """What the driver says, with its log."""


@dataclass(frozen=True)
class Function:
    """A loaded kernel; its module stays loaded as long as the process."""

    name: str
    handle: int


class NativeDriver:
    """libcuda, which PyCUDA has loaded already."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.launch_kernel = function_address(self._library.cuLaunchKernel)
        self.push_context = function_address(self._library.cuCtxPushCurrent_v2)
        self.pop_context = function_address(self._library.cuCtxPopCurrent_v2)

    def current_context(self) -> int:
        """The handle of the context that is current."""
        found = ctypes.c_void_p()
        self._check(self._library.cuCtxGetCurrent(ctypes.byref(found)), "")
        return found.value or 0

    def load(self, ptx: str, name: str) -> Function:
        """The kernel `name` of a module of PTX; DriverError with the driver's log."""
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        text = ctypes.create_string_buffer(ptx.encode())
        status = self._library.cuModuleLoadDataEx(ctypes.byref(module), text, 2, options, values)
        self._check(status, log.value.decode(errors="replace"))
        status = self._library.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        self._check(status, "")
        return Function(name, function.value or 0)

    def launch(
        self,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int],
    ) -> None:
        """Starts a kernel on the default stream; every argument is passed as 64 bits."""
        count = len(arguments)
        values = (ctypes.c_int64 * max(1, count))(*arguments)
        first = ctypes.addressof(values)
        places = (ctypes.c_void_p * max(1, count))(*(first + 8 * k for k in range(count)))
        sizes = (ctypes.c_uint(n) for n in (*grid, *block, 0))
        handle = ctypes.c_void_p(function.handle)
        self._check(self._library.cuLaunchKernel(handle, *sizes, None, places, None), "")

    def _check(self, status: int, log: str) -> None:
        if status == 0:
            return
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(status, ctypes.byref(text))
        words = (text.value or b"error %d" % status).decode()
        raise DriverError(f"{words}: {log.strip()}" if log.strip() else words)
