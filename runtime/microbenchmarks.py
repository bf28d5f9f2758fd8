"""Loops of probe.ll, timed: what one core computes, reads, writes and waits for, by size."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.dialects.target.cpu import CpuTarget
from mlc.runtime import jit
from mlc.runtime.llvm import compile_object

if TYPE_CHECKING:
    import numpy as np

PIECE_BYTES = 4 << 20
"""Of a walk, what is timed at once: 0.5 ms of memory, a sixth of a scheduler's time slice."""
PICKED = 1 << 11
"""Lines that are asked for in no order: 0.3 ms of memory."""


class Benchmark:
    """The kernels of probe.ll, loaded, with a time budget for each figure."""

    def __init__(self, target: CpuTarget, budget_s: float) -> None:
        lanes = target.lanes(32)
        text = Path(__file__).with_name("probe.ll").read_text().replace("LANES", str(lanes))
        names = tuple(f"mlc_probe_{name}" for name in ("fma", "read", "write", "chase", "pick"))
        self._code = jit.load([compile_object(text, target)], imports={}, exports=names)
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        fma, read, write, chase, pick = (self._code.address(name) for name in names)
        self._fma = ctypes.CFUNCTYPE(None, pointer, count)(fma)
        self._read = ctypes.CFUNCTYPE(None, pointer, count, count, pointer)(read)
        self._write = ctypes.CFUNCTYPE(None, pointer, count, count)(write)
        self._chase = ctypes.CFUNCTYPE(None, pointer, count, pointer)(chase)
        self._pick = ctypes.CFUNCTYPE(None, pointer, count, pointer)(pick)
        self._out = ctypes.create_string_buffer(256)
        self._lanes, self._line_bytes = lanes, target.cache_line_bytes
        self._budget_s = budget_s

    def _best_s(self, run: Callable[[], None]) -> float:
        """The shortest run within the budget, at least three after one to warm up."""
        return self._best_each_s(lambda _: run(), (0,))[0]

    def _best_each_s(self, run: Callable[[int], None], starts: Sequence[int]) -> list[float]:
        """
        Of each piece of a walk from piece to piece the shortest run: a walk that takes longer than
        a process keeps its core would always have the time of others in it.
        """
        best = [float("inf")] * len(starts)
        end, trials = time.perf_counter() + self._budget_s, -1
        while trials < 3 or time.perf_counter() < end:
            for k, at in enumerate(starts):
                start = time.perf_counter()
                run(at)
                if trials >= 0:  # the first warms up
                    best[k] = min(best[k], time.perf_counter() - start)
            trials += 1
        return best

    def fma_rate(self) -> float:
        """float32 operations per second of one core."""
        trips = 100_000
        best = self._best_s(lambda: self._fma(ctypes.addressof(self._out), trips))
        return 12 * 2 * self._lanes * trips / best

    def read_rate(self, size_bytes: int) -> float:
        """Bytes per second of one core over a buffer of this size, read again and again."""
        out = ctypes.addressof(self._out)

        def walk(address: int, groups: int, repeats: int) -> None:
            self._read(address, groups, repeats, out)

        return self._rate(size_bytes, walk)

    def write_rate(self, size_bytes: int) -> float:
        """Likewise, written."""
        return self._rate(size_bytes, self._write)

    def _rate(self, size_bytes: int, walk: Callable[[int, int, int], None]) -> float:
        group_bytes = 8 * 4 * self._lanes
        groups = max(1, size_bytes // group_bytes)
        repeats = max(1, (1 << 22) // (groups * group_bytes))
        count = max(1, groups * group_bytes // PIECE_BYTES)
        piece = groups // count
        with _Buffer(groups * group_bytes) as address:
            starts = [address + k * piece * group_bytes for k in range(count)]
            best = sum(self._best_each_s(lambda at: walk(at, piece, repeats), starts))
        return count * piece * group_bytes * repeats / best

    def first_s(self, size_bytes: int) -> float:
        """Seconds until a line of a buffer of this size is there, which the next one waits for."""
        out = ctypes.addressof(self._out)

        def walk(places: np.ndarray, count: int) -> None:
            self._chase(int(places[0]), count, out)

        return self._lines_s(size_bytes, walk)

    def line_s(self, size_bytes: int) -> float:
        """Likewise, while others are on their way."""
        out = ctypes.addressof(self._out)

        def walk(places: np.ndarray, count: int) -> None:
            self._pick(places.ctypes.data, count, out)

        return self._lines_s(size_bytes, walk)

    def _lines_s(self, size_bytes: int, walk: Callable[[np.ndarray, int], None]) -> float:
        """Each line holds the address of the next one of a walk through all, in no order."""
        import numpy as np

        lines = size_bytes // self._line_bytes
        order = np.random.default_rng(0).permutation(lines)
        steps = min(PICKED, lines)
        with _Buffer(size_bytes) as address:
            places = np.asarray(address + self._line_bytes * order, np.int64)
            memory = (ctypes.c_int64 * (size_bytes // 8)).from_address(address)
            np.asarray(memory)[order * (self._line_bytes // 8)] = np.roll(places, -1)
            starts = itertools.cycle(range(0, lines - steps + 1, steps))

            def run() -> None:
                at = next(starts)
                for _ in range(PICKED // steps):
                    walk(places[at:], steps)

            return self._best_s(run) / (steps * (PICKED // steps))

    def parallel_read_rate(self, size_bytes: int, cores: int) -> float:
        """Bytes per second of `cores` threads, each over its own buffer (ctypes drops the GIL)."""
        rates = [0.0] * cores
        start = threading.Barrier(cores)

        def work(core: int) -> None:
            start.wait()
            rates[core] = self.read_rate(size_bytes)

        workers = [threading.Thread(target=work, args=(core,)) for core in range(cores)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(rates)


class _Buffer:
    """Page-aligned memory on huge pages where possible, every page touched."""

    def __init__(self, size_bytes: int) -> None:
        self._map = mmap.mmap(-1, size_bytes)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self._size_bytes = size_bytes
        self._view: ctypes.c_char | None = None

    def __enter__(self) -> int:
        self._view = ctypes.c_char.from_buffer(self._map)
        address = ctypes.addressof(self._view)
        ctypes.memset(address, 1, self._size_bytes)
        return address

    def __exit__(self, *_: object) -> None:
        self._view = None
        self._map.close()
