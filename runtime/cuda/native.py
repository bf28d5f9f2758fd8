"""The driver's library itself: modules, memory, streams, launches, by addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.launch import MAP_DTYPES, TensorMap
from mlc.lazy_dataclass import dataclass
from mlc.runtime.layout import function_address

_LOG_BYTES = 8192
# SOURCE: cuda.h 13.0
_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES = 5, 6  # CUjit_option
_OUT_OF_MEMORY = 2  # CUresult
_PORTABLE_AND_MAPPED = 3  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
_EVENT_DISABLE_TIMING = 2

_MOST_SHARED_BYTES = 8  # CUfunction_attribute
_SWIZZLE_128, _PROMOTE_256 = 3, 3  # CUtensorMapSwizzle, CUtensorMapL2promotion

_PROGRAMMATIC = (1, 0, 1, 0, 0, 0, 0, 0)
"""CUgraphEdgeData: from a kernel's port "programmatic", of the type of that name"""

_MAP_WORDS = 16
MAP_ALIGNMENT = 64
_WORD = 0xFFFFFFFFFFFFFFFF


class GpuError(RuntimeError):
    """There is no GPU to run on, or the driver refuses what it was asked."""


class _DriverError(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True)
class Function:
    """A loaded kernel; its module stays loaded as long as the process."""

    name: str
    handle: int


@dataclass(frozen=True)
class Graph:
    """Kernels that are started together; its nodes name them in changes."""

    handle: int
    executable: int
    nodes: tuple[int, ...]


class NativeDriver:
    """libcuda, which PyCUDA has loaded already; `gpu`: the device, as errors name it."""

    def __init__(self, gpu: str) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._gpu = gpu
        self._shared: dict[int, int] = {}  # bytes that a kernel may have, by handle
        self._moves: dict[TensorMap, bool] = {}
        self._waiting = set[int]()  # kernels that wait themselves for those before
        self.closed = False  # the context is gone, and with it all graphs
        self.push_context = self.address("cuCtxPushCurrent_v2")
        self.pop_context = self.address("cuCtxPopCurrent_v2")
        self.launch_graph = self.address("cuGraphLaunch")
        self.set_node = self.address("cuGraphExecKernelNodeSetParams_v2")

    def address(self, name: str) -> int:
        """Where a function of the driver is."""
        return function_address(getattr(self._library, name))

    def current_context(self) -> int:
        """The handle of the context that is current."""
        found = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(found))
        return found.value or 0

    # code ---------------------------------------------------------------------------------------

    def load(self, ptx: str, name: str) -> Function:
        """The kernel `name` of a module of PTX; GpuError.

        The driver compiles the module as a whole and keeps the code in its own cache. Its linker
        (cuLinkAddData) compiles parts that others may call: it ignores setmaxnreg and makes
        products on tensor cores wait for one another.
        """
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        text, label = ctypes.c_char_p(ptx.encode()), ctypes.c_char_p(name.encode())
        found = ctypes.byref(module)
        try:
            self._call("cuModuleLoadDataEx", found, text, 2, options, values, log=log)
            self._call("cuModuleGetFunction", ctypes.byref(function), module, label)
        except _DriverError as error:
            raise GpuError(
                f"the driver refuses the code of kernel {name} on {self._gpu}: {error}"
            ) from error
        handle = function.value or 0
        if "griddepcontrol.wait" in ptx:
            self._waiting.add(handle)
        return Function(name, handle)

    # launches -----------------------------------------------------------------------------------

    def launch(
        self,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | TensorMap],
        stream: int,
        shared_bytes: int = 0,
    ) -> None:
        """Starts a kernel; see `parameters`."""
        self.allow_shared(function.handle, shared_bytes)
        words, places = parameters(arguments, self.encode)
        sizes = (ctypes.c_uint(n) for n in (*grid, *block, shared_bytes))
        handle, on = _words(function.handle, stream)
        try:
            self._call("cuLaunchKernel", handle, *sizes, on, places, None)
        except _DriverError as error:
            raise GpuError(f"the driver could not start kernel {function.name}: {error}") from error
        del words

    def allow_shared(self, handle: int, size_bytes: int) -> None:
        """Lets a kernel have more dynamic shared memory than kernels have without asking."""
        if size_bytes > self._shared.get(handle, 0):
            self._ask("cuFuncSetAttribute", *_words(handle), _MOST_SHARED_BYTES, size_bytes)
            self._shared[handle] = size_bytes

    def encode(self, x: TensorMap, at: int) -> None:
        """Writes the 128 bytes that stand for an array. SOURCE: cuda.h, cuTensorMapEncodeTiled"""
        dtype, rank = named_dtype(x.dtype), len(x.sizes)
        sizes = (ctypes.c_uint64 * rank)(*reversed(x.sizes))
        strides = (ctypes.c_uint64 * (rank - 1))(*(n * dtype.bytes for n in reversed(x.strides)))
        box = (ctypes.c_uint32 * rank)(*reversed(x.box))
        steps = (ctypes.c_uint32 * rank)(*[1] * rank)
        place, address = _words(at, int(x.address))
        try:
            self._call(
                "cuTensorMapEncodeTiled",
                *(place, MAP_DTYPES[x.dtype][1], rank, address, sizes, strides, box, steps),
                *(0, _SWIZZLE_128, _PROMOTE_256, 0),
            )
        except _DriverError as error:
            raise GpuError(f"the driver makes no tensor map of {x}: {error}") from error

    def begins_with_address(self, x: TensorMap) -> bool:
        """Whether the address is the first word of a map and stands nowhere else in it."""
        kind = replace(x, address=0)
        if kind not in self._moves:
            texts: list[Sequence[int]] = []
            addresses = (int(x.address), int(x.address) ^ 256)
            for address in addresses:
                words, places = parameters([replace(x, address=address)], self.encode)
                texts.append((ctypes.c_uint64 * _MAP_WORDS).from_address(places[0] or 0)[:])
                del words
            first = tuple(text[0] for text in texts) == addresses
            self._moves[kind] = first and texts[0][1:] == texts[1][1:]
        return self._moves[kind]

    def graph(self, count: int, launches: int) -> Graph:
        """Kernels one after the other. `launches`: where their CUDA_KERNEL_NODE_PARAMS_v2 are."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        nodes = (ctypes.c_void_p * max(1, count))()
        first = ctypes.addressof(nodes)
        self._ask("cuGraphCreate", ctypes.byref(graph), 0)
        try:
            for k in range(count):
                node, before = ctypes.c_void_p(first + 8 * k), ctypes.c_void_p(first + 8 * (k - 1))
                early = k > 0 and self._begins_early(launches + 72 * k)
                waits = k > 0 and not early
                behind = (before, ctypes.c_size_t(1)) if waits else (None, ctypes.c_size_t(0))
                parameters = ctypes.c_void_p(launches + 72 * k)
                self._ask("cuGraphAddKernelNode_v2", node, graph, *behind, parameters)
                if early:
                    edge = (ctypes.c_ubyte * 8)(*_PROGRAMMATIC)
                    self._ask(
                        "cuGraphAddDependencies_v2", graph, before, node, edge, ctypes.c_size_t(1)
                    )
            at = ctypes.byref(executable)
            self._ask("cuGraphInstantiateWithFlags", at, graph, ctypes.c_ulonglong(0))
        except GpuError:
            self._library.cuGraphDestroy(graph)
            raise
        places = tuple(node or 0 for node in nodes[:count])
        return Graph(graph.value or 0, executable.value or 0, places)

    def _begins_early(self, launch: int) -> bool:
        """Whether a kernel may be started before the one before has ended."""
        known = hasattr(self._library, "cuGraphAddDependencies_v2")
        return known and ctypes.c_uint64.from_address(launch).value in self._waiting

    def drop_graph(self, graph: Graph) -> None:
        """A graph goes, when it has ended."""
        if self.closed:
            return
        self._library.cuGraphExecDestroy(*_words(graph.executable))
        self._library.cuGraphDestroy(*_words(graph.handle))

    # memory -------------------------------------------------------------------------------------

    def allocate(self, size_bytes: int) -> int:
        """Memory on the device; MemoryError where there is too little."""
        found = ctypes.c_void_p()
        try:
            self._call("cuMemAlloc_v2", ctypes.byref(found), ctypes.c_size_t(size_bytes))
        except _DriverError as error:
            if error.status == _OUT_OF_MEMORY:
                raise MemoryError from None
            raise GpuError(f"the driver gives no memory: {error}") from error
        return found.value or 0

    def free(self, pointer: int) -> None:
        """Gives memory back."""
        self._library.cuMemFree_v2(ctypes.c_void_p(pointer))

    def memory_info(self) -> tuple[int, int]:
        """Free bytes, and all."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._ask("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def host_memory(self, size_bytes: int) -> int:
        """Memory of the host that the device addresses and copies fast, as long as the process."""
        found = ctypes.c_void_p()
        size = ctypes.c_size_t(size_bytes)
        self._ask("cuMemHostAlloc", ctypes.byref(found), size, _PORTABLE_AND_MAPPED)
        return found.value or 0

    def copy_in(self, pointer: int, source: int, size_bytes: int, stream: int) -> None:
        """From the host, in order with the launches; the source may change only when it is done."""
        size = ctypes.c_size_t(size_bytes)
        self._ask("cuMemcpyHtoDAsync_v2", *_words(pointer, source), size, *_words(stream))

    def copy_out(self, target: int, pointer: int, size_bytes: int, stream: int) -> None:
        """To the host, after the launches before; the target is filled when the stream is done."""
        size = ctypes.c_size_t(size_bytes)
        self._ask("cuMemcpyDtoHAsync_v2", *_words(target, pointer), size, *_words(stream))

    def copy(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        """Between two places on the device."""
        size = ctypes.c_size_t(size_bytes)
        self._ask("cuMemcpyDtoDAsync_v2", *_words(target, source), size, *_words(stream))

    # order --------------------------------------------------------------------------------------

    def event(self, *, timed: bool = False) -> int:
        """An event, which is done until it is recorded."""
        found = ctypes.c_void_p()
        self._ask("cuEventCreate", ctypes.byref(found), 0 if timed else _EVENT_DISABLE_TIMING)
        return found.value or 0

    def seconds_between(self, start: int, end: int) -> float:
        """The time on the device between two timed events; waits for the second."""
        self.wait(end)
        found = ctypes.c_float()
        self._ask("cuEventElapsedTime", ctypes.byref(found), *_words(start, end))
        return found.value / 1e3

    def record(self, event: int, stream: int) -> None:
        """The event is done when what the stream has now is."""
        self._ask("cuEventRecord", *_words(event, stream))

    def wait(self, event: int) -> None:
        """Waits for an event."""
        self._ask("cuEventSynchronize", *_words(event))

    def follow(self, stream: int, before: int) -> None:
        """What comes on `stream` waits for what is on the stream `before`."""
        event = self.event()
        self.record(event, before)
        self._ask("cuStreamWaitEvent", *_words(stream, event), 0)
        self._library.cuEventDestroy_v2(ctypes.c_void_p(event))

    def synchronize(self, stream: int) -> None:
        """Waits for what is on a stream."""
        self._ask("cuStreamSynchronize", *_words(stream))

    def synchronize_all(self) -> None:
        """Waits for what is on any stream."""
        self._ask("cuCtxSynchronize")

    # ----------------------------------------------------------------------------------------------

    def _ask(self, name: str, *arguments: object) -> None:
        """Calls the driver; GpuError with its words."""
        try:
            self._call(name, *arguments)
        except _DriverError as error:
            raise GpuError(f"the driver refuses {name}: {error}") from error

    def _call(
        self, name: str, *arguments: object, log: ctypes.Array[ctypes.c_char] | None = None
    ) -> None:
        status = getattr(self._library, name)(*arguments)
        if status == 0:
            return
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(status, ctypes.byref(text))
        words = (text.value or b"error %d" % status).decode()
        more = "" if log is None else log.value.decode(errors="replace").strip()
        raise _DriverError(status, f"{words}: {more}" if more else words)


def _words(*values: int) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(value) for value in values]


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
