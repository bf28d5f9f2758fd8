"""
Ctrl-C during a kernel: a native SIGINT handler counts, then calls Python's.

The main thread's long calls poll the counter and return status 3. It is installed in the main
thread only, and only while Python's default handler is in place.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading

from mlc.runtime.layout import PYTHON
from mlc.runtime.support import support

# struct sigaction begins with the handler's address on Linux (x86-64 and AArch64, glibc and musl);
# 152 bytes in glibc. The rest (mask, flags, restorer) is kept as Python set it.
_SIGACTION_BYTES = 256

_installed = False


def in_main_thread() -> bool:
    """Whether the caller runs in the main thread."""
    return threading.current_thread() is threading.main_thread()


def install_interrupt_counter() -> bool:
    """Put the counting handler in front of Python's; True when it is there."""
    global _installed
    if _installed:
        return True
    if not sys.platform.startswith("linux"):
        return False
    if not in_main_thread():
        return False
    loaded = support()
    identify = PYTHON.PyThread_get_thread_ident
    identify.restype = ctypes.c_ulong
    loaded.main_thread.value = identify()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    sigaction = ctypes.CDLL(None).sigaction
    action = ctypes.create_string_buffer(_SIGACTION_BYTES)
    if sigaction(int(signal.SIGINT), None, action) != 0:
        return False
    handler = ctypes.c_size_t.from_buffer(action)
    if handler.value in (0, 1, loaded.symbols["mlc_on_sigint"]):  # SIG_DFL, SIG_IGN, already ours
        return False
    loaded.chained_sigint.value = handler.value
    handler.value = loaded.symbols["mlc_on_sigint"]
    _installed = sigaction(int(signal.SIGINT), action, None) == 0
    return _installed
