"""
No search for cycles while the compiler is imported, or a program is compiled: nearly all that is
made then stays until the end, and each search would go through it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = 0  # blocks, of all threads
_was_on = False


@contextmanager
def collector_off() -> Generator[None, None, None]:
    """Off until the last such block ends, and from then on as before the first."""
    global _inside, _was_on
    with _lock:
        if not _inside:
            _was_on = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _was_on:
                gc.enable()
