"""
Memory on the device, kept for reuse by stream and size. What is free is known to native code too
(replay.ll), which takes results from here and gets them back when their arrays die.
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from mlc.runtime.layout import PYTHON, function_address

ALIGNMENT_BYTES = 256  # of every block. Source: CUDA C++ Programming Guide, cudaMalloc
CUDA = 2  # DLDeviceType

# replay.ll: places in a node
DATA, KIND, SIZE_BYTES, STREAM, SIZES, STRIDES = 4, 6, 11, 12, 13, 77
NODE_WORDS = 141

_EXPORTS = (
    *("mlc_node_release", "mlc_node_take"),
    *("mlc_record_match", "mlc_replay_start"),
    *("mlc_array_tensor", "mlc_array_make", "mlc_array_stream"),
)
_NAMES = ("requires_grad", "is_neg", "is_conj")
_FUNCTIONS = (
    *("PyObject_GetAttr", "PyObject_VectorcallMethod", "PyObject_CallFunction"),
    *("PyLong_AsLongLongAndOverflow", "Py_DecRef"),
)

_streams = threading.local()


def current_stream() -> int:
    """The stream of calls whose arrays name none: 0 is the default stream."""
    return getattr(_streams, "current", 0)


def set_current_stream(stream: int) -> None:
    """Of this thread."""
    _streams.current = stream


class Memory(Protocol):
    """What a pool asks of the driver."""

    def allocate(self, size_bytes: int) -> int:
        """Memory; MemoryError where there is too little."""
        ...

    def free(self, pointer: int) -> None:
        """Gives memory back."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """Free bytes, and all."""
        ...


class Native:
    """The functions of replay.ll. All under the interpreter's lock, but `release`."""

    def __init__(self) -> None:
        from mlc.runtime import jit
        from mlc.runtime.cuda.dlpack import DeviceArray
        from mlc.runtime.objects import object_of
        from mlc.runtime.probe import host_target

        text = Path(__file__).with_name("replay.ll").read_text()
        imports = {name: function_address(getattr(PYTHON, name)) for name in _FUNCTIONS}
        imports |= {f"mlc_name_{name}": id(name) for name in _NAMES}
        offset = ctypes.c_int64(_slot_offset())
        self._keep = offset, DeviceArray.of_node
        imports |= {
            "_Py_FalseStruct": id(False),
            "_Py_TrueStruct": id(True),
            "mlc_array_of": id(self._keep[1]),
            "mlc_current_stream": id(current_stream),
            "mlc_block_node": ctypes.addressof(offset),
        }
        code = jit.load([object_of(text, host_target()).image], imports=imports, exports=_EXPORTS)
        PYTHON.Py_IncRef(ctypes.py_object(code))  # arrays may outlive the interpreter
        self.symbols = {name: code.address(name) for name in _EXPORTS}
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        self.release = ctypes.PYFUNCTYPE(None, pointer)(self.symbols["mlc_node_release"])
        self.take = ctypes.PYFUNCTYPE(pointer, pointer)(self.symbols["mlc_node_take"])
        self.start = ctypes.PYFUNCTYPE(word, pointer, pointer)(self.symbols["mlc_replay_start"])
        allocate, free = PYTHON.PyMem_RawMalloc, PYTHON.PyMem_RawFree
        allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        self.allocate, self.free = allocate, free


@lru_cache(maxsize=1)
def native() -> Native:
    """The native functions, loaded once."""
    return Native()


class Block:
    """Device memory; goes back to its pool when nobody holds it."""

    __slots__ = ("__weakref__", "node")

    def __init__(self, node: int) -> None:
        self.node = node

    def __del__(self) -> None:
        if self.node:
            native().release(self.node)

    @property
    def words(self) -> ctypes.Array[ctypes.c_uint64]:
        """The node, as replay.ll has it."""
        return (ctypes.c_uint64 * NODE_WORDS).from_address(self.node)

    @property
    def pointer(self) -> int:
        """The address of its first byte."""
        return self.words[DATA]

    @property
    def size_bytes(self) -> int:
        """How many bytes it has."""
        return self.words[SIZE_BYTES]

    def moved(self) -> int:
        """Its node, which is the caller's from now on."""
        node, self.node = self.node, 0
        return node


def _slot_offset() -> int:
    """Where native code finds `Block.node`."""
    block, number = Block(0), 1 << 40
    block.node = number
    size = type(block).__basicsize__
    try:
        words = (ctypes.c_size_t * (size // 8)).from_address(id(block))
        return 8 * list(words).index(id(number))
    finally:
        block.node = 0


class Pool:
    """
    Device memory kept for reuse, by stream and size. A block that is free may still be read by
    launches under way on its stream: what is launched there later comes later.
    """

    def __init__(self, memory: Memory, ordinal: int = 0) -> None:
        self._memory, self._ordinal = memory, ordinal
        self._shelves: dict[tuple[int, int], ctypes.c_uint64] = {}
        self.held_bytes = 0

    def shelf(self, size_bytes: int, stream: int) -> int:
        """The address of the shelf with free nodes of such a size."""
        key = stream, _rounded(size_bytes)
        if key not in self._shelves:
            self._shelves[key] = ctypes.c_uint64(0)
        return ctypes.addressof(self._shelves[key])

    def take(self, size_bytes: int, stream: int = 0) -> Block:
        """At least so many bytes, aligned; MemoryError with the numbers when there are not."""
        shelf = self.shelf(size_bytes, stream)
        node: int | None = native().take(shelf)
        return Block(self._new(shelf, _rounded(size_bytes), stream) if node is None else node)

    def _new(self, shelf: int, size_bytes: int, stream: int) -> int:
        try:
            pointer = self._memory.allocate(size_bytes)
        except MemoryError:
            self.trim()
            pointer = self._last_try(size_bytes)
        self.held_bytes += size_bytes
        node = native().allocate(8 * NODE_WORDS)
        if not node:
            self._memory.free(pointer)
            raise MemoryError
        release = native().symbols["mlc_node_release"]
        words = (ctypes.c_uint64 * NODE_WORDS).from_address(node)
        words[:SIZES] = (
            *(1, shelf, release, 0, pointer, CUDA | self._ordinal << 32, 0),  # version 1.0
            *(node + 8 * SIZES, node + 8 * STRIDES, 0, 0, size_bytes, stream),
        )
        return node

    def _last_try(self, size_bytes: int) -> int:
        try:
            return self._memory.allocate(size_bytes)
        except MemoryError:
            free, total = self._memory.memory_info()
            raise MemoryError(
                f"{size_bytes:,} bytes are needed on the GPU at once, {free:,} of {total:,} are "
                "free; use smaller inputs, or release arrays of other libraries on this device"
            ) from None

    def trim(self) -> int:
        """Gives memory that nobody uses back to the driver; how many bytes."""
        before = self.held_bytes
        for shelf in self._shelves.values():
            while node := native().take(ctypes.addressof(shelf)):
                block = Block(node)
                self._memory.free(block.pointer)
                self.held_bytes -= block.size_bytes
                native().free(block.moved())
        return before - self.held_bytes


def _rounded(size_bytes: int) -> int:
    """Sizes in steps of an eighth of the next power of two: few sizes, little waste."""
    size_bytes = max(size_bytes, 1)
    step = max(ALIGNMENT_BYTES, 1 << max(0, size_bytes.bit_length() - 4))
    return -(-size_bytes // step) * step
