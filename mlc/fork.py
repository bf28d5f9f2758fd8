"""
Locks across fork: another thread of the parent may hold one that nobody in the child would release.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager


class RenewedLock:
    """
    A reentrant lock that is a new one in a forked child.

    What it guards must be whole at every step: the child sees it as some thread of the parent left
    it. A block that the forking thread is in ends with the lock that it began with.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all.add(self)

    @contextmanager
    def __call__(self) -> Generator[None, None, None]:
        with self._lock:
            yield

    def renew(self) -> None:
        """Another lock from now on."""
        self._lock = threading.RLock()


_all: weakref.WeakSet[RenewedLock] = weakref.WeakSet()


def _renew() -> None:
    for lock in list(_all):
        lock.renew()


os.register_at_fork(after_in_child=_renew)


def short_lock() -> threading.RLock:
    """
    A reentrant lock that a fork waits for, so that the child sees what it guards whole: of a$
    module, for a few steps that wait for no other lock.
    """
    lock = threading.RLock()
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release,
                        after_in_child=lock.release)  # fmt: skip
    return lock
