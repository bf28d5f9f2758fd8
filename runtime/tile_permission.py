"""
The kernel's permission to use AMX tile registers, asked for once in a process.

A thread that touches a tile without it dies of SIGILL. Permission holds for all threads of the
process and for its children. SOURCE: Linux, Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import lru_cache

_ARCH_PRCTL = 158
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18


@lru_cache(maxsize=1)
def granted() -> bool:
    """Whether this process may use tile registers; asks the first time."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    asked = (_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA)
    return syscall(*map(ctypes.c_long, asked)) == 0
