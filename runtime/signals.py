"""
Ctrl-C during a kernel: a native SIGINT handler counts, then calls Python's.

The main thread's long calls poll the counter and return status 3. It stands in front of Python's
only during such calls, and only while Python's default handler is in place.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module

from mlc.runtime.layout import PYTHON
from mlc.runtime.support import Support, support

# struct sigaction begins with the handler's address on Linux (x86-64 and AArch64, glibc and musl);
# 152 bytes in glibc. The rest (mask, flags, restorer) is kept as Python set it.
_SIGACTION_BYTES = 256

_ready = False


def in_main_thread() -> bool:
    """Whether the caller runs in the main thread."""
    return threading.current_thread() is threading.main_thread()


def prepare_interrupts() -> bool:
    """Tell native code what to put in front of Python's handler; True when it knows."""
    global _ready
    if _ready:
        return True
    if not sys.platform.startswith("linux"):
        return False
    if not in_main_thread():
        return False
    loaded = support()
    identify = PYTHON.PyThread_get_thread_ident
    identify.restype = ctypes.c_ulong
    loaded.main_thread.value = identify()
    if not callable(signal.getsignal(signal.SIGINT)):
        return False  # ignored, or the system's: what Python's native handler is cannot be seen
    action = ctypes.create_string_buffer(_SIGACTION_BYTES)
    if ctypes.CDLL(None).sigaction(int(signal.SIGINT), None, action) != 0:
        return False
    handler = ctypes.c_size_t.from_buffer(action)
    if handler.value in (0, 1):  # SIG_DFL, SIG_IGN
        return False
    loaded.chained_sigint.value = handler.value
    handler.value = loaded.symbols["mlc_on_sigint"]
    for symbol, item in (
        ("mlc_sigint_number", int(signal.SIGINT)),
        ("mlc_getsignal", import_module("_signal").getsignal),  # the one without Python around it
        ("mlc_default_handler", signal.default_int_handler),
    ):
        PYTHON.Py_IncRef(ctypes.py_object(item))
        ctypes.c_size_t.from_address(loaded.symbols[symbol]).value = id(item)
    ctypes.memmove(loaded.symbols["mlc_sigint_action"], action, _SIGACTION_BYTES)
    _ready = True
    return True


@contextmanager
def interruptible(loaded: Support) -> Generator[None, None, None]:
    """A call of the main thread that Ctrl-C ends, as native shims arrange it for long ones."""
    old = ctypes.create_string_buffer(_SIGACTION_BYTES)
    loaded.interruptible(ctypes.addressof(old))
    try:
        yield
    finally:
        loaded.uninterruptible(ctypes.addressof(old))
