"""
A clock around each kernel of an entry: the table that profiled code adds to, and its rate.

x86 reads its time stamp counter, AArch64 the virtual counter; both tick at a constant rate. On
AArch64 a tick is 10 to 40 ns, so that only sums over many runs say anything of short kernels.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mlc.dialects import abi
from mlc.runtime import jit
from mlc.runtime.objects import object_of
from mlc.runtime.probe import host_target

_FENCE = {
    "x86_64": "call void @llvm.x86.sse2.lfence()",
    "aarch64": "call void @llvm.aarch64.isb(i32 15)",
}
_CLOCK = {
    "x86_64": "call i64 @llvm.readcyclecounter()",
    "aarch64": 'call i64 @llvm.read_volatile_register.i64(metadata !{!"CNTVCT_EL0"})',
}
_READ, _EMPTY = "mlc_profile_clock", "mlc_profile_empty"
_CALIBRATE_S = 0.01
_rates: list[float] = []


class KernelClock:
    """Room for the times of `count` kernels; `symbols` are what profiled entries import."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._table = (ctypes.c_int64 * (2 * count + 2))()  # and the kernel that does nothing
        target = host_target()
        text = clock_text(target.arch)
        names = (abi.PROFILE_BEGIN, abi.PROFILE_END)
        self._code = jit.load(
            [object_of(text, target).image],
            imports={"mlc_profile_table": ctypes.addressof(self._table)},
            exports=(*names, _READ, _EMPTY),
        )
        self.symbols: Mapping[str, int] = {name: self._code.address(name) for name in names}
        read = ctypes.CFUNCTYPE(ctypes.c_int64)(self._code.address(_READ))
        self._ticks_per_s = _ticks_per_s(read)
        self._empty_ticks = self._least_empty()

    def clear(self) -> None:
        """Sets all times and counts to zero."""
        ctypes.memset(self._table, 0, ctypes.sizeof(self._table))

    def seconds(self) -> list[float]:
        """Of each kernel since `clear`: the sum over its runs, the clock's own time taken off."""
        pairs = [(self._table[2 * k], self._table[2 * k + 1]) for k in range(self._count)]
        return [max(t - self._empty_ticks * n, 0) / self._ticks_per_s for t, n in pairs]

    def runs(self) -> list[int]:
        """How often each kernel has run since `clear`."""
        return [self._table[2 * k + 1] for k in range(self._count)]

    def _least_empty(self) -> int:
        run = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._code.address(_EMPTY))
        found: list[int] = []
        for _ in range(200):
            self._table[2 * self._count] = 0
            run(self._count)
            found.append(self._table[2 * self._count])
        self.clear()
        return min(found)


def clock_text(arch: str) -> str:
    """LLVM IR of the clock for "x86_64" or "aarch64"."""
    text = Path(__file__).with_name("kernel_clock.ll").read_text()
    return text.replace("FENCE", _FENCE[arch]).replace("CLOCK", _CLOCK[arch])


def _ticks_per_s(read: Callable[[], int]) -> float:
    """The rate of the clock, measured once in a process."""
    if not _rates:
        before, start = read(), time.perf_counter()
        while time.perf_counter() - start < _CALIBRATE_S:
            pass
        after, end = read(), time.perf_counter()
        _rates.append((after - before) / (end - start))
    return _rates[0]
