"""
Extensions of an AArch64 processor that LLVM's host detection leaves out: what the kernel says.

SOURCE: Linux, Documentation/arch/arm64/elf_hwcaps.rst, and arch/arm64/include/uapi/asm/hwcap.h for
the bits.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable

_HWCAP, _HWCAP2 = 16, 26  # entries of the auxiliary vector
_BITS = {"dotprod": (_HWCAP, 20), "i8mm": (_HWCAP2, 13), "bf16": (_HWCAP2, 14)}
"""LLVM's name -> the entry and the bit in it."""


def arm_features(entry: Callable[[int], int] | None = None) -> dict[str, bool]:
    """Which of them this processor has, by the auxiliary vector; none of another architecture."""
    if entry is None:
        if sys.platform != "linux" or platform.machine() != "aarch64":
            return {}
        entry = ctypes.CDLL(None).getauxval
        entry.argtypes, entry.restype = (ctypes.c_ulong,), ctypes.c_ulong
    return {name: bool(entry(kind) >> bit & 1) for name, (kind, bit) in _BITS.items()}
