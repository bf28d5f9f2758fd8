"""Calls of a loaded entry with addresses of memory, for callers whose arrays are not NumPy's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from struct import Struct

from mlc.dialects import abi
from mlc.runtime.entry import LoadedEntry
from mlc.runtime.slow_entry import NativeEntry


class PointerEntry:
    """
    An entry that takes addresses: of arguments, and of results that the caller has allocated, each
    C-contiguous. Nothing about them is checked. Contexts are kept between calls, one for each call
    that runs at the same time.
    """

    def __init__(self, entry: LoadedEntry, arguments: int, results: int) -> None:
        self._entry = entry  # keeps the code loaded
        self._call = NativeEntry(entry.address)
        self._pack_arguments = Struct(f"{arguments}Q").pack
        self._pack_results = Struct(f"{results}Q").pack
        self._threads = entry.threads
        self._idle: list[tuple[int, ctypes.c_int64]] = []  # contexts, and their threads

    def __call__(self, arguments: Iterable[int], sizes: bytes, results: Iterable[int]) -> None:
        """Runs the entry, with `packed` sizes; what its kernels raise is raised."""
        try:
            context, threads = self._idle.pop()  # one step: threads do not meet here
        except IndexError:
            context = self._entry.new_context()
            threads = ctypes.c_int64.from_address(context + abi.CTX_THREADS)
        threads.value = self._threads.value
        try:
            status = self._call(
                context, self._pack_arguments(*arguments), sizes, self._pack_results(*results)
            )
            if status != abi.STATUS_OK:
                self._entry.raise_status(status, context)
        finally:
            self._idle.append((context, threads))

    def __del__(self) -> None:
        if not ctypes:  # Python is ending: modules go before what they hold
            return
        for context, _ in self._idle:
            self._entry.free_context(context)


def packed(sizes: Sequence[int]) -> bytes:
    """Sizes as an entry reads them."""
    return Struct(f"{len(sizes)}q").pack(*sizes)
