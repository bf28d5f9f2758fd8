"""The driver's library itself: modules and launches, by the addresses that native code calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.launch import TensorMap
from mlc.runtime.layout import function_address

_LOG_BYTES = 8192
_MOST_SHARED_BYTES = 8  # CUfunction_attribute. Source: cuda.h
_MAP_WORDS = 16
MAP_ALIGNMENT = 64
_MAP_DTYPES = {"f16": 6, "f32": 7, "bf16": 9}  # CUtensorMapDataType. Source: cuda.h
_SWIZZLE_128, _PROMOTE_256 = 3, 3  # CUtensorMapSwizzle, CUtensorMapL2promotion. Source: cuda.h
_WORD = 0xFFFFFFFFFFFFFFFF
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
        self._shared: dict[int, int] = {}  # bytes that a kernel may have, by handle
        self._moves: dict[TensorMap, bool] = {}

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
        arguments: Sequence[int | TensorMap],
        shared_bytes: int = 0,
    ) -> None:
        """Starts a kernel on the default stream; see `parameters`."""
        self.allow_shared(function.handle, shared_bytes)
        words, places = parameters(arguments, self.encode)
        sizes = (ctypes.c_uint(n) for n in (*grid, *block, shared_bytes))
        handle = ctypes.c_void_p(function.handle)
        self._check(self._library.cuLaunchKernel(handle, *sizes, None, places, None), "")
        del words

    def allow_shared(self, handle: int, size_bytes: int) -> None:
        """Lets a kernel have more dynamic shared memory than kernels have without asking."""
        if size_bytes > self._shared.get(handle, 0):
            function = ctypes.c_void_p(handle)
            attribute = self._library.cuFuncSetAttribute
            self._check(attribute(function, _MOST_SHARED_BYTES, size_bytes), "")
            self._shared[handle] = size_bytes

    def encode(self, x: TensorMap, at: int) -> None:
        """Writes the 128 bytes that stand for a matrix. SOURCE: cuda.h, cuTensorMapEncodeTiled"""
        dtype = named_dtype(x.dtype)
        sizes = (ctypes.c_uint64 * 2)(x.columns, x.rows)
        strides = (ctypes.c_uint64 * 1)(x.stride * dtype.bytes)
        box = (ctypes.c_uint32 * 2)(x.box[1], x.box[0])
        steps = (ctypes.c_uint32 * 2)(1, 1)
        address = ctypes.c_void_p(int(x.address))
        status = self._library.cuTensorMapEncodeTiled(
            ctypes.c_void_p(at), _MAP_DTYPES[x.dtype], 2, address, sizes, strides, box, steps,
            0, _SWIZZLE_128, _PROMOTE_256, 0,
        )  # fmt: skip
        self._check(status, f"a tensor map of {x}")

    def begins_with_address(self, x: TensorMap) -> bool:
        """Whether the address is the first word of a map and stands nowhere else in it."""
        plain = replace(x, address=int(x.address))
        if plain not in self._moves:
            texts: list[Sequence[int]] = []
            addresses = (plain.address, plain.address ^ 256)
            for address in addresses:
                words, places = parameters([replace(plain, address=address)], self.encode)
                texts.append((ctypes.c_uint64 * _MAP_WORDS).from_address(places[0] or 0)[:])
                del words
            first = tuple(text[0] for text in texts) == addresses
            self._moves[plain] = first and texts[0][1:] == texts[1][1:]
        return self._moves[plain]

    def _check(self, status: int, log: str) -> None:
        if status == 0:
            return
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(status, ctypes.byref(text))
        words = (text.value or b"error %d" % status).decode()
        raise DriverError(f"{words}: {log.strip()}" if log.strip() else words)


def parameters(
    arguments: Sequence[int | TensorMap], encode: Callable[[TensorMap, int], None]
) -> tuple[ctypes.Array[ctypes.c_uint64], ctypes.Array[ctypes.c_void_p]]:
    """A kernel's arguments, of 64 bits or as long as a tensor map; and where each one begins."""
    maps = sum(isinstance(x, TensorMap) for x in arguments)
    words = (ctypes.c_uint64 * (len(arguments) + (maps + 1) * _MAP_WORDS))()
    map_at = -(-ctypes.addressof(words) // MAP_ALIGNMENT) * MAP_ALIGNMENT
    word_at = map_at + maps * 8 * _MAP_WORDS
    places = (ctypes.c_void_p * max(1, len(arguments)))()
    for k, x in enumerate(arguments):
        if isinstance(x, TensorMap):
            encode(x, map_at)
            places[k], map_at = map_at, map_at + 8 * _MAP_WORDS
        else:
            ctypes.c_uint64.from_address(word_at).value = int(x) & _WORD
            places[k], word_at = word_at, word_at + 8
    return words, places
