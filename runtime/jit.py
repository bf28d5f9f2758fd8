"""
Objects into this process: ORC links them against runtime addresses given by name.

Objects hold no address of this process; each one the code needs is an undefined symbol, defined at
load. The code is unloaded when its `LoadedCode` dies.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence

from mlc.runtime.llvm import Linked, link_library

_library_numbers = itertools.count()
_loaded: weakref.WeakSet[LoadedCode] = weakref.WeakSet()


class LoadedCode:
    """Machine code of one library; `address` finds its exported symbols."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        _loaded.add(self)

    def address(self, symbol: str) -> int:
        """The address of an exported symbol in this process."""
        return self._linked[symbol]


def load(
    objects: Sequence[bytes], *, imports: Mapping[str, int], exports: Sequence[str]
) -> LoadedCode:
    """
    Link `objects` with each other and with `imports` (symbol -> address); keep `exports`' addresses.
    RuntimeError names a symbol that nobody defines, or that two objects do.
    """
    library = f"mlc.{next(_library_numbers)}"
    return LoadedCode(link_library(library, objects, imports, exports))


def loaded_count() -> int:
    """How many libraries are loaded now."""
    return len(_loaded)
