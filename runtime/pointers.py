"""Calls of a loaded entry with addresses of memory, for callers whose arrays are not NumPy's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

from mlc.dialects import abi
from mlc.runtime.entry import LoadedEntry
from mlc.runtime.slow_entry import NativeEntry

if TYPE_CHECKING:
    from mlc.runtime.tensors import Addresses


class PointerEntry:
    """
    An entry that takes addresses: of arguments, and of results that the caller has allocated, each
    C-contiguous. Nothing about them is checked. Contexts are kept between calls, one for each call
    that runs at the same time.
    """

    def __init__(self, entry: LoadedEntry, arguments: int, results: int) -> None:
        self._entry = entry  # keeps the code loaded
        self._call = NativeEntry(entry.address)
        self._arguments = arguments
        self._pack_arguments = Struct(f"{arguments}Q").pack
        self._pack_results = Struct(f"{results}Q").pack
        self._threads = entry.threads
        self._idle: list[_Context] = []

    def __call__(self, arguments: Iterable[int], sizes: bytes, results: Iterable[int]) -> None:
        """Runs the entry, with `packed` sizes; what its kernels raise is raised."""
        context = self._context()
        try:
            status = self._call(
                context.address,
                self._pack_arguments(*arguments),
                sizes,
                self._pack_results(*results),
            )
            if status != abi.STATUS_OK:
                self._entry.raise_status(status, context.address)
        finally:
            self._idle.append(context)

    def of_tensors(
        self, read: Addresses, tensors: list[Any], sizes: bytes, results: Iterable[int]
    ) -> None:
        """The same, for arguments whose addresses native code reads."""
        context = self._context()
        try:
            read(tensors, context.words_at)
            status = self._call(
                context.address, context.words_at, sizes, self._pack_results(*results)
            )
            if status != abi.STATUS_OK:
                self._entry.raise_status(status, context.address)
        finally:
            self._idle.append(context)

    def _context(self) -> _Context:
        """A context that no other call has, with the threads of now."""
        try:
            context = self._idle.pop()  # one step: threads do not meet here
        except IndexError:
            context = _Context(self._entry.new_context(), self._arguments)
        context.threads.value = self._threads.value
        return context

    def __del__(self) -> None:
        if not ctypes:  # Python is ending: modules go before what they hold
            return
        for context in self._idle:
            self._entry.free_context(context.address)


class _Context:
    """A context of an entry, where its threads stand, and room for the arguments' addresses."""

    __slots__ = ("address", "threads", "words", "words_at")

    def __init__(self, address: int, arguments: int) -> None:
        self.address = address
        self.threads = ctypes.c_int64.from_address(address + abi.CTX_THREADS)
        self.words = (ctypes.c_uint64 * arguments)()
        self.words_at = ctypes.addressof(self.words)


def packed(sizes: Sequence[int]) -> bytes:
    """Sizes as an entry reads them."""
    return Struct(f"{len(sizes)}q").pack(*sizes)
