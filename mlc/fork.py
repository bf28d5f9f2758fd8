"""
Across fork: another thread of the parent may hold a lock, or be in a block, that nobody in the
child would release or end.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


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


class WhileAny(Generic[T]):
    """
    How the process is while any thread is between `begin` and `end`: `enter` makes it so, and gives
    what `leave` makes it what it was from. In a forked child the forking thread alone is there.
    """

    def __init__(self, enter: Callable[[], T], leave: Callable[[T], object]) -> None:
        self._enter = enter
        self._leave = leave
        self._lock = short_lock()
        self._inside = 0
        self._own = threading.local()  # of which those of this thread
        self._before: list[T] = []  # while there is any
        os.register_at_fork(after_in_child=self._alone)

    def begin(self) -> None:
        """One more."""
        with self._lock:
            if not self._inside:
                self._before.append(self._enter())
            self._inside += 1
            self._own.inside = self._own_inside() + 1

    def end(self) -> None:
        """One less."""
        with self._lock:
            self._inside -= 1
            self._own.inside = self._own_inside() - 1
            if not self._inside:
                self._leave(self._before.pop())

    @contextmanager
    def __call__(self) -> Generator[None, None, None]:
        """A block, or a function that is one."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def _own_inside(self) -> int:
        return getattr(self._own, "inside", 0)

    def _alone(self) -> None:
        if self._inside and not self._own_inside():
            self._leave(self._before.pop())
        self._inside = self._own_inside()
