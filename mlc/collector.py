"""
No search for cycles while the compiler is imported, or a program is compiled: nearly all that is
made then stays until the end, and each search would go through it.
"""

from __future__ import annotations

import gc

from mlc.fork import WhileAny

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
