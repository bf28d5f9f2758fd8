"""
Objects into this process, linked against runtime addresses given by name.

Objects hold no address of this process; each one the code needs is an undefined symbol, defined at
load. The code is unloaded when its `LoadedCode` dies.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping, Sequence

from mlc.runtime import tile_permission
from mlc.runtime.linker import Image, LinkError, ObjectFile


class LoadError(RuntimeError):
    """Objects are not, or do not fit, what is loaded; the message names symbols."""


_loaded: weakref.WeakSet[LoadedCode] = weakref.WeakSet()


class LoadedCode:
    """Machine code of one library; `address` finds its exported symbols."""

    def __init__(self, image: Image) -> None:
        self._image = image
        _loaded.add(self)

    def address(self, symbol: str) -> int:
        """The address of an exported symbol in this process."""
        return self._image.address(symbol)


def load(
    objects: Sequence[bytes], *, imports: Mapping[str, int], exports: Sequence[str]
) -> LoadedCode:
    """
    Link `objects` with each other and `imports` (symbol -> address); keep `exports`' addresses.
    LoadError names a symbol that nobody defines, or that two objects do.
    """
    try:
        read = [ObjectFile.read(image) for image in objects]
    except LinkError as error:
        raise LoadError(f"what should be loaded is no ELF object: {error}") from error
    tile_permission.granted()  # before any thread runs what may use tile registers
    defined = Counter(symbol.name for x in read for symbol in x.defined())
    wanted = {*exports, *(name for x in read for name in x.undefined())}
    if missing := sorted(wanted - set(defined) - set(imports)):
        raise LoadError(
            f"nobody defines {', '.join(missing)}: an object or a runtime import is missing"
        )
    if twice := sorted(name for name, count in defined.items() if count > 1):
        raise LoadError(f"more than one object defines {', '.join(twice)}")
    try:
        return LoadedCode(Image(read, imports))
    except LinkError as error:
        raise LoadError(f"objects do not link: {error}") from error


def is_object(image: bytes) -> bool:
    """Whether the bytes are a little-endian ELF64 object with readable tables."""
    try:
        ObjectFile.read(image)
    except LinkError:
        return False
    return True


def loaded_count() -> int:
    """How many libraries are loaded now."""
    return len(_loaded)
