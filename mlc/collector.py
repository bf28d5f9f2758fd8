"""
No search for cycles while the compiler is imported, or a program is compiled: nearly all that is
made then stays until the end, and each search would go through it.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

from mlc.fork import short_lock

_lock = short_lock()
_inside = 0  # blocks, of all threads
_own = threading.local()  # those of this thread
_was_on = False
_imported: set[str] = set()


def imported(name: str) -> None:
    """
    The first time, what there is now is old, as it would be after a search through all of it: most
    of it came with this module. What searches must leave alone (`gc.freeze`) is left alone.
    """
    if name not in _imported and not gc.get_freeze_count():
        _imported.add(name)
        gc.freeze()
        gc.unfreeze()  # to the oldest generation


@contextmanager
def collector_off() -> Generator[None, None, None]:
    """Off until the last such block ends, and from then on as before the first."""
    global _inside, _was_on
    with _lock:
        if not _inside:
            _was_on = gc.isenabled()
            gc.disable()
        _inside += 1
        _own.inside = _own_inside() + 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            _own.inside -= 1
            if not _inside and _was_on:
                gc.enable()


def _own_inside() -> int:
    return getattr(_own, "inside", 0)


def _alone() -> None:
    """In a forked child: blocks of other threads will not end."""
    global _inside
    if _inside and not _own_inside() and _was_on:
        gc.enable()
    _inside = _own_inside()


os.register_at_fork(after_in_child=_alone)
