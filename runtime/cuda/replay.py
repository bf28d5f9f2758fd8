"""The kernels of a call that was made once, started again with other addresses (replay.ll)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlc.dialects.launch import TensorMap
from mlc.runtime.cuda.native import GpuError, Graph, parameters
from mlc.runtime.cuda.pool import native
from mlc.runtime.cuda.recording import Address, Launched

if TYPE_CHECKING:
    from mlc.runtime.cuda.driver import Device

MOST_GRAPHS = 4
"""Of a call: a step that writes where another array was before comes back to the same addresses."""

_LAUNCH_WORDS = 9  # CUDA_KERNEL_NODE_PARAMS_v2. SOURCE: cuda.h 13.0
_GRAPHS, _WANTS_GRAPH = 5, -1


class Words:
    """Tables of native code that live as long as their owner."""

    def __init__(self) -> None:
        self._keep: list[object] = []

    def words(self, values: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
        """A table of these words."""
        found = (ctypes.c_uint64 * max(1, len(values)))(*(x & 0xFFFFFFFFFFFFFFFF for x in values))
        self._keep.append(found)
        return found

    def at(self, values: Sequence[int]) -> int:
        """Where a table of these words is."""
        return ctypes.addressof(self.words(values))


class Replay(Words):
    """The launches of one call on a stream; `start` makes them with other addresses."""

    def __init__(
        self,
        device: Device,
        launches: Sequence[Launched],
        bases: Sequence[int],
        stream: int,
    ) -> None:
        """`bases`: addresses of the arguments, then of the results, in the call recorded."""
        super().__init__()
        self._device, self._launches, self.stream = device, launches, stream
        self._graphs: list[Graph] = []
        driver = device.native
        self._count = len(bases)
        patches, self._parameters = self._tables(launches, bases)
        self._graph_words = self.words([0] * (3 * MOST_GRAPHS))
        self._table = self.words(
            [
                *(len(bases), len(patches) // 4, self.at(patches)),
                *(len(launches), self._parameters),
                *(0, MOST_GRAPHS, ctypes.addressof(self._graph_words), 0),
                *(stream, device.context, driver.push_context, driver.pop_context),
                *(driver.launch_graph, driver.set_node),
            ]
        )
        self.address = ctypes.addressof(self._table)

    def _tables(self, launches: Sequence[Launched], bases: Sequence[int]) -> tuple[list[int], int]:
        patches: list[int] = []
        table: list[int] = []
        for number, one in enumerate(launches):
            values, places = parameters(one.arguments, self._device.native.encode)
            self._keep += [values, places]
            for k, x in enumerate(one.arguments):
                address = x.address if isinstance(x, TensorMap) else x
                if isinstance(address, Address):
                    added = int(address) - bases[address.place]
                    patches += [places[k] or 0, address.place, added, number]
            (gx, gy, gz), (bx, by, bz) = one.grid, one.block
            table += [one.function, gx | gy << 32, gz | bx << 32, by | bz << 32, one.shared_bytes]
            table += [ctypes.addressof(places), 0, 0, 0]
        assert len(table) == _LAUNCH_WORDS * len(launches)
        return patches, self.at(table)

    def start(self, addresses: Sequence[int]) -> None:
        """The kernels with these addresses; makes a graph until there are MOST_GRAPHS."""
        words = (ctypes.c_uint64 * max(1, self._count))(*addresses)
        at = ctypes.addressof(words)
        status = native().start(self.address, at)
        if status == _WANTS_GRAPH:
            self._add_graph(addresses)
            status = native().start(self.address, at)
        if status:
            raise not_started(status)

    def _add_graph(self, addresses: Sequence[int]) -> None:
        """One more graph; the parameters have these addresses."""
        count, number = len(self._launches), len(self._graphs)
        graph = self._device.native.graph(count, self._parameters)
        self._graphs.append(graph)
        row = [graph.executable, self.at(graph.nodes), self.at(addresses)]
        self._graph_words[3 * number : 3 * number + 3] = row
        self._table[_GRAPHS] = number + 1

    def __del__(self) -> None:
        for graph in self._graphs:
            self._device.native.drop_graph(graph)


def not_started(status: int) -> GpuError:
    """What to raise for a status of the driver."""
    return GpuError(f"the driver could not start a kernel: error {status}")
