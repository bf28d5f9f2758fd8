"""A GPU made of host memory: holds arrays and notes launches, runs no kernel."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from mlc.dialects.launch import TensorMap
from mlc.fork import RenewedLock
from mlc.runtime.cuda.driver import Checked, HostWords
from mlc.runtime.cuda.native import MAP_ALIGNMENT, Graph
from mlc.runtime.cuda.pool import Pool
from mlc.runtime.cuda.staging import Staging
from mlc.runtime.layout import function_address

Launch = tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class FakeFunction:
    """A kernel that has been loaded."""

    def __init__(self, name: str, handle: int) -> None:
        self.name, self.handle = name, handle


class FakeDriver:
    """
    As `mlc.runtime.cuda.native.NativeDriver`. `status`: what launches answer; `streams`: that of
    each launch; `changes`: graph nodes that were set anew.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.used_bytes = 0
        self.status = self.shared_bytes = 0
        self.copies_in = self.copies_out = self.changes = 0
        self.launches: list[Launch] = []
        self.boxes: list[tuple[int, ...]] = []  # of the matrices that launches describe
        self.streams: list[int] = []
        self.followed: list[tuple[int, int]] = []
        self.contexts: list[int] = []
        self.graphs: dict[int, list[Launch]] = {}
        self._allocations: dict[int, Any] = {}
        self._kept: list[Any] = []
        self._kernels: list[tuple[str, int]] = []
        word, status = ctypes.c_void_p, ctypes.c_int
        self.push_context = self._address(ctypes.PYFUNCTYPE(status, word), self._push)
        self.pop_context = self._address(ctypes.PYFUNCTYPE(status, word), self._pop)
        self.launch_graph = self._address(ctypes.PYFUNCTYPE(status, word, word), self._start_graph)
        self.set_node = self._address(ctypes.PYFUNCTYPE(status, *[word] * 3), self._set_node)

    def _address(self, kind: Callable[..., Any], function: Callable[..., int]) -> int:
        self._kept.append(kind(function))
        return function_address(self._kept[-1])

    # what native code calls

    def _noted(self, function: int, sizes: Sequence[int], places: int) -> Launch:
        name, count = self._kernels[function - 1]
        values = ctypes.cast(places, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)))
        arguments = tuple(values[k][0] for k in range(count))
        return name, tuple(sizes[:3]), tuple(sizes[3:6]), arguments

    def _push(self, context: int | None) -> int:
        self.contexts.append(context or 0)
        return 0

    def _pop(self, _: int) -> int:
        self.contexts.pop()
        return 0

    def _start_graph(self, executable: int, stream: int | None) -> int:
        self.launches += self.graphs[executable]
        self.streams += [stream or 0] * len(self.graphs[executable])
        return self.status

    def _node(self, parameters: int) -> Launch:
        sizes = (ctypes.c_uint32 * 7).from_address(parameters + 8)
        self.shared_bytes = sizes[6]
        places = ctypes.c_uint64.from_address(parameters + 40).value
        return self._noted(ctypes.c_uint64.from_address(parameters).value, list(sizes), places)

    def _set_node(self, executable: int, node: int, parameters: int) -> int:
        self.changes += 1
        self.graphs[executable][node - 1] = self._node(parameters)
        return self.status

    # what Python calls

    def function(self, name: str, arguments: int) -> FakeFunction:
        """A kernel with so many arguments."""
        self._kernels.append((name, arguments))
        return FakeFunction(name, len(self._kernels))

    def load(self, ptx: str, name: str) -> FakeFunction:
        _, found, rest = ptx.partition(f".entry {name}(")
        assert found
        return self.function(name, rest.partition(")")[0].count(".param"))

    def launch(
        self,
        function: FakeFunction,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | TensorMap],
        stream: int,
        shared_bytes: int = 0,
    ) -> None:
        maps = [x for x in arguments if isinstance(x, TensorMap)]
        self.boxes += [x.box for x in maps]
        numbers = (int(x.address if isinstance(x, TensorMap) else x) for x in arguments)
        self.launches.append((function.name, grid, block, tuple(numbers)))
        self.streams.append(stream)

    def encode(self, x: TensorMap, at: int) -> None:
        """128 bytes, the address first."""
        assert at % MAP_ALIGNMENT == 0
        (ctypes.c_uint64 * 16).from_address(at)[:] = (int(x.address), *[7] * 15)

    def begins_with_address(self, x: TensorMap) -> bool:
        return True

    def graph(self, count: int, launches: int) -> Graph:
        executable = len(self.graphs) + 1
        self.graphs[executable] = [self._node(launches + 72 * k) for k in range(count)]
        return Graph(executable, executable, tuple(range(1, count + 1)))

    def drop_graph(self, graph: Graph) -> None:
        del self.graphs[graph.executable]

    def allocate(self, size_bytes: int) -> int:
        if self.used_bytes + size_bytes > self.memory_bytes:
            raise MemoryError
        self.used_bytes += size_bytes
        memory = (ctypes.c_uint8 * (size_bytes + 256))()
        pointer = -(-ctypes.addressof(memory) // 256) * 256
        self._allocations[pointer] = memory, size_bytes
        return pointer

    def free(self, pointer: int) -> None:
        self.used_bytes -= self._allocations.pop(pointer)[1]

    def memory_info(self) -> tuple[int, int]:
        return self.memory_bytes - self.used_bytes, self.memory_bytes

    def host_memory(self, size_bytes: int) -> int:
        self._kept.append((ctypes.c_uint8 * size_bytes)())
        return ctypes.addressof(self._kept[-1])

    def copy_in(self, pointer: int, source: int, size_bytes: int, stream: int) -> None:
        self.copies_in += 1
        ctypes.memmove(pointer, source, size_bytes)

    def copy_out(self, target: int, pointer: int, size_bytes: int, stream: int) -> None:
        self.copies_out += 1
        ctypes.memmove(target, pointer, size_bytes)

    def copy(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        ctypes.memmove(target, source, size_bytes)

    def event(self) -> int:
        return 1

    def record(self, event: int, stream: int) -> None:
        return None

    def wait(self, event: int) -> None:
        return None

    def follow(self, stream: int, before: int) -> None:
        self.followed.append((stream, before))

    def synchronize(self, stream: int) -> None:
        return None


class FakeDevice:
    """As `mlc.runtime.cuda.driver.Device`."""

    name = "a fake GPU"
    context = 77

    def __init__(self, compute_capability: int = 90, memory_bytes: int = 1 << 30) -> None:
        self.compute_capability = compute_capability
        self.native = FakeDriver(memory_bytes)
        self.lock = RenewedLock()
        self.pool = Pool(self.native)
        self.staging = Staging(self)  # pyright: ignore[reportArgumentType]
        self.checked: weakref.WeakSet[Checked] = weakref.WeakSet()
        self.number_writer = self.native.function("mlc_write_number", 2)

    @contextmanager
    def active(self) -> Generator[None]:
        with self.lock():
            yield

    def host_words(self, size_bytes: int) -> HostWords:
        return HostWords(_Pages(self.native), size_bytes)  # pyright: ignore[reportArgumentType]

    def synchronize(self) -> None:
        return None

    def check_errors(self) -> None:
        for program in list(self.checked):
            program.check_error()


class _Pages:
    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver

    def take(self, size_bytes: int) -> int:
        return self._driver.host_memory(size_bytes)

    def give_back(self, address: int, size_bytes: int) -> None:
        return None
