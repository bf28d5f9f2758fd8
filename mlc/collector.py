"""
No search for cycles while the compiler is imported, or a program is compiled: nearly all that is
made then stays until the end, and each search would go through it. Nor at the interpreter's end,
which makes three, where nobody could tell.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from mlc.fork import WhileAny

_imported: set[str] = set()


def imported(name: str) -> None:
    """
    The first time, what there is now is old, as it would be after a search through all of it: most
    of it came with this module. What searches must leave alone (`gc.freeze`) is left alone.
    """
    if name not in _imported and not gc.get_freeze_count():
        if not _imported:
            atexit.register(leave_to_system)
        _imported.add(name)
        gc.freeze()
        gc.unfreeze()  # to the oldest generation


def leave_to_system() -> None:
    """
    At the end of the process: memory goes back with it. The searches find what is part of a cycle,
    and end it; so they are left out unless there is something that would do more at its end than
    free memory, or somebody who watches them.
    """
    if not (gc.get_debug() or gc.callbacks or is_awaited(gc.get_objects())):
        gc.freeze()


def is_awaited(objects: list[object]) -> bool:
    """Whether some of these do something at their end: files, generators, `__del__`."""
    try:
        acting = {kind for kind in set(map(type, objects)) if _acts_at_end(kind)}
    except TypeError:  # a class that cannot be hashed
        return True
    known = set(map(id, _standard()))
    found = [x for x in objects if type(x) in acting and id(x) not in known]
    return not all(isinstance(x, GeneratorType) and not x.gi_suspended for x in found)


def _acts_at_end(kind: type) -> bool:
    if issubclass(kind, _SUSPENDED):
        return True
    if str(kind.__module__).partition(".")[0] in _OURS:
        return False
    return any("__del__" in vars(base) for base in kind.__mro__)


def _standard() -> Iterator[object]:
    """The standard streams with what they are made of: the interpreter flushes them."""
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        part: object = stream
        while part is not None:
            yield part
            try:
                part = getattr(part, "buffer", None) or getattr(part, "raw", None)
            except ValueError:  # it was taken apart
                part = None


_SUSPENDED = GeneratorType, CoroutineType, AsyncGeneratorType
_OURS = "mlc", "llvmlite"  # whose `__del__` gives back what the process has


def _off() -> bool:
    """Whether it was on."""
    was_on = gc.isenabled()
    gc.disable()
    return was_on


def _as_before(was_on: bool) -> None:
    if was_on:
        gc.enable()


collector_off = WhileAny(_off, _as_before)
"""Blocks: off until the last of them ends, and from then on as before the first."""
