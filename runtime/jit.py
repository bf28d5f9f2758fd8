"""
Objects into this process: ORC links them against runtime addresses given by name.

Objects hold no address of this process; each one the code needs is an undefined symbol, defined at
load. The code is unloaded when its `LoadedCode` dies.
"""

from __future__ import annotations

import itertools
import struct
import weakref
from collections.abc import Mapping, Sequence

from mlc.runtime import tile_permission
from mlc.runtime.llvm import Linked, link_library

_SHT_SYMTAB = 2  # SOURCE: ELF-64 Object File Format 1.5


class LoadError(RuntimeError):
    """Objects are not, or do not fit, what is loaded; the message names symbols."""


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
    Link `objects` with each other and `imports` (symbol -> address); keep `exports`' addresses.
    LoadError names a symbol that nobody defines, or that two objects do.
    """
    if not all(map(is_object, objects)):
        raise LoadError("what should be loaded is no ELF object")
    tile_permission.granted()  # before any thread runs what may use tile registers
    library = f"mlc.{next(_library_numbers)}"
    try:
        linked = link_library(library, objects, imports, exports)
    except RuntimeError as error:
        raise LoadError(_explain(objects, imports, exports, error)) from error
    return LoadedCode(linked)


def _explain(
    objects: Sequence[bytes], imports: Mapping[str, int], exports: Sequence[str], error: object
) -> str:
    """Which symbols are at fault: ORC's own message names only what it could not finish."""
    defined: list[str] = []
    wanted = set(exports)
    for image in objects:
        here, needed = elf_symbols(image)
        defined += here
        wanted |= needed
    missing = sorted(wanted - set(defined) - set(imports))
    twice = sorted({symbol for symbol in defined if defined.count(symbol) > 1})
    if missing:
        return f"nobody defines {', '.join(missing)}: an object or a runtime import is missing"
    if twice:
        return f"more than one object defines {', '.join(twice)}"
    return f"objects do not link: {error}"


def is_object(image: bytes) -> bool:
    """Whether the bytes are a little-endian ELF64 object with readable tables."""
    if image[:6] != b"\x7fELF\x02\x01":
        return False
    try:
        elf_symbols(image)
    except (struct.error, IndexError, ValueError):
        return False
    return True


def elf_symbols(image: bytes) -> tuple[list[str], set[str]]:
    """(defined global symbols, undefined ones) of a little-endian ELF64 object."""
    defined: list[str] = []
    undefined: set[str] = set()
    (table_at,) = struct.unpack_from("<Q", image, 40)
    entry_bytes, count = struct.unpack_from("<HH", image, 58)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", image, table_at + i * entry_bytes) for i in range(count)
    ]
    for header in headers:
        if header[1] != _SHT_SYMTAB:
            continue
        strings_at = headers[header[6]][4]
        for at in range(header[4], header[4] + header[5], 24):
            name_at, info, _, section = struct.unpack_from("<IBBH", image, at)
            start = strings_at + name_at
            name = image[start : image.index(0, start)].decode()
            if not name or info >> 4 == 0:  # STB_LOCAL
                continue
            if section == 0:  # SHN_UNDEF
                undefined.add(name)
            else:
                defined.append(name)
    return defined, undefined


def loaded_count() -> int:
    """How many libraries are loaded now."""
    return len(_loaded)
