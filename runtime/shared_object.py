"""
Objects into a library that the system loads: what `ld -shared` makes of them, without a compiler.

The file holds code, constants, constants with addresses (which the loader fills in and seals),
variables, and the tables by which the loader finds names. What is imported is bound when the
library is loaded. SOURCE: System V ABI, edition 4.1, chapter 5; psABI of x86-64, 4.4, and ELF for
the Arm 64-bit Architecture, 5.7, for kinds of relocations.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from mlc.lazy_dataclass import dataclass
from mlc.runtime.linker import (
    AARCH64,
    ADDRESSES,
    CODE,
    CONSTANTS,
    VARIABLES,
    X86_64,
    Linked,
    LinkError,
    ObjectFile,
    pages_between,
)

_PAGE = {X86_64: 1 << 12, AARCH64: 1 << 16}  # the largest that a kernel may have
_KINDS = {X86_64: (8, 6), AARCH64: (1027, 1025)}  # RELATIVE, GLOB_DAT
_HEADER_BYTES, _SEGMENT_BYTES, _SECTION_BYTES = 64, 56, 64
_MOST_SEGMENTS = 9
_LOAD, _DYNAMIC, _STACK, _RELRO = 1, 2, 0x6474E551, 0x6474E552  # p_type
_R, _RX, _RW = 4, 5, 6  # p_flags
_FLAGS_OF = {CODE: _RX, CONSTANTS: _R, ADDRESSES: _RW, VARIABLES: _RW}
_NEEDED, _HASH, _STRTAB, _SYMTAB, _RELA, _RELASZ, _RELAENT = 1, 4, 5, 6, 7, 8, 9  # d_tag
_STRSZ, _SYMENT, _SONAME, _FLAGS, _FLAGS_1 = 10, 11, 14, 30, 0x6FFFFFFB
_LINES, _LINE_BYTES = 12, 16  # of the dynamic section, but for needed libraries
_NOW, _NOW_1 = 8, 1  # bound when it is loaded
_SYMBOL_BYTES, _RELOCATION_BYTES = 24, 24
_GLOBAL_FUNCTION = 0x12
_SECTIONS = {
    ".text": (1, 6), ".rodata": (1, 2), ".data.rel.ro": (1, 3), ".data": (1, 3),
    ".dynsym": (11, 2), ".hash": (5, 2), ".rela.dyn": (4, 2), ".dynstr": (3, 2),
    ".dynamic": (6, 3), ".shstrtab": (3, 0),
}  # fmt: skip
"""Name -> sh_type and sh_flags, in the order of their headers; those of code begin at 1."""
_NUMBER = {name: k for k, name in enumerate(_SECTIONS, 1)}
_ITEMS = {".dynsym": _SYMBOL_BYTES, ".hash": 4, ".rela.dyn": _RELOCATION_BYTES, ".dynamic": 16}
_LINKS = {".dynsym": ".dynstr", ".hash": ".dynsym", ".rela.dyn": ".dynsym", ".dynamic": ".dynstr"}


def shared_object(
    objects: Sequence[ObjectFile], exports: Sequence[str], name: str, needed: Sequence[str] = ()
) -> bytes:
    """
    The library `name` of these objects, which gives `exports` and nothing else; what they do not
    define it asks of the libraries `needed`, or of the process. LinkError for objects that do not
    fit together, or lack an export.
    """
    return _Library(objects, needed).written(exports, name)


@dataclass(frozen=True)
class _Place:
    """Where something lies in memory, and how much of it."""

    at: int
    size: int


class _Strings:
    """Names, each with a zero behind it."""

    def __init__(self) -> None:
        self.text = bytearray(1)

    def at(self, name: str) -> int:
        """Where a name begins."""
        self.text += name.encode() + b"\0"
        return len(self.text) - len(name.encode()) - 1


class _Library(Linked):
    """Objects as they lie in memory: each kind of section a page further than in the file."""

    def __init__(self, objects: Sequence[ObjectFile], needed: Sequence[str]) -> None:
        self._needed = needed
        self._page = max((_PAGE.get(x.machine, 1) for x in objects), default=1)
        self._head = _HEADER_BYTES + _MOST_SEGMENTS * _SEGMENT_BYTES
        super().__init__(objects, self._head + self._page, lambda at: at + self._page)
        self.memory = bytearray(self.parts[VARIABLES][1])
        self._tables_at = _aligned(self.parts[VARIABLES][1] + self._page)
        self._lines_at = self.parts[ADDRESSES][1] - self.more_bytes()
        self._relocations: list[tuple[int, int, int]] = []  # offset, kind and symbol, addend
        self._relative, self._bound = _KINDS[self.machine]
        defined = {x.name for each in objects for x in each.defined()}
        self._imports = sorted({x for each in objects for x in each.undefined()} - defined)
        self._calls = {name: self._imported(k) for k, name in enumerate(self._imports, 1)}
        self.fill()

    # memory ---------------------------------------------------------------------------------------

    def more_bytes(self) -> int:
        return _LINE_BYTES * (_LINES + len(self._needed))

    def elsewhere(self, name: str) -> int:
        return self._calls[name]

    def absolute(self, at: int, address: int) -> None:
        super().absolute(at, address)
        self._relocations.append((at, self._relative, address))

    def _imported(self, symbol: int) -> int:
        """Code that goes to the address that the loader leaves in a slot."""
        code, slot = self.new_stub(), self.new_slot()
        self._relocations.append((slot, symbol << 32 | self._bound, 0))
        self.bind(code, slot)
        if self.machine == X86_64:  # jmp *slot(%rip)
            text = b"\xff\x25" + struct.pack("<i", slot - code - 6)
        else:
            text = struct.pack(
                "<3I",
                0x90000010 | pages_between(code, slot),  # adrp x16, slot
                0xF9400210 | (slot & 0xFFF) >> 3 << 10,  # ldr x16, [x16, slot]
                0xD61F0200,  # br x16
            )
        self.memory[code : code + len(text)] = text
        return code

    # file -----------------------------------------------------------------------------------------

    def written(self, exports: Sequence[str], name: str) -> bytes:
        """The file."""
        strings = _Strings()
        symbols = [bytes(_SYMBOL_BYTES)]
        symbols += [_symbol(strings.at(x), 0, _Place(0, 0)) for x in self._imports]
        symbols += [_symbol(strings.at(x), *self._found(x)) for x in exports]
        needed = [(_NEEDED, strings.at(x)) for x in self._needed]
        soname = strings.at(name)
        tables = {
            ".dynsym": b"".join(symbols),
            ".hash": _hash_table([*self._imports, *exports]),
            ".rela.dyn": b"".join(struct.pack("<QQq", *x) for x in sorted(self._relocations)),
            ".dynstr": bytes(strings.text),
        }
        at, places = self._tables_at, dict[str, _Place]()
        for title, content in tables.items():
            places[title] = _Place(at, len(content))
            at = _aligned(at + len(content))
        lines = [
            *needed, (_SONAME, soname), (_HASH, places[".hash"].at),
            (_STRTAB, places[".dynstr"].at), (_STRSZ, places[".dynstr"].size),
            (_SYMTAB, places[".dynsym"].at), (_SYMENT, _SYMBOL_BYTES),
            (_RELA, places[".rela.dyn"].at), (_RELASZ, places[".rela.dyn"].size),
            (_RELAENT, _RELOCATION_BYTES), (_FLAGS, _NOW), (_FLAGS_1, _NOW_1), (0, 0),
        ]  # fmt: skip
        listed = b"".join(struct.pack("<QQ", *line) for line in lines)
        self.memory[self._lines_at : self._lines_at + len(listed)] = listed
        image = bytearray(self._head)
        for start, end in self.parts.values():
            image += self.memory[start:end]
        for title, content in tables.items():
            image += bytes(self._offset(places[title].at) - len(image)) + content
        places[".dynamic"] = _Place(self._lines_at, len(listed))
        return self._headed(image, places, at)

    def _found(self, name: str) -> tuple[int, _Place]:
        """The section of a function that the objects give, and where it lies."""
        for x in self.objects:
            for symbol in x.defined():
                if symbol.name == name:
                    place = _Place(self.address(name), symbol.size)
                    return 1 + x.sections[symbol.section].kind, place
        raise LinkError(f"nobody defines {name}")

    def _offset(self, address: int) -> int:
        """Where in the file lies what is at an address."""
        starts = [start for start, _ in self.parts.values()]
        return address - self._page * sum(address >= x for x in (*starts, self._tables_at))

    def _headed(self, image: bytearray, places: Mapping[str, _Place], end: int) -> bytes:
        """The file with the headers that say what is where."""
        titles = _Strings()
        named = {title: titles.at(title) for title in _SECTIONS}
        titles_at = len(image)
        image += titles.text + bytes(-(len(image) + len(titles.text)) % 8)
        sections_at = len(image)
        parts = zip(_SECTIONS, self.parts.values(), strict=False)
        whole = {title: _Place(first, last - first) for title, (first, last) in parts}
        sealed = whole[".data.rel.ro"].at
        whole[".data.rel.ro"] = _Place(sealed, self._lines_at - sealed)
        image += bytes(_SECTION_BYTES)
        for title, (kind, flags) in _SECTIONS.items():
            lies = {**whole, **places}.get(title, _Place(0, len(titles.text)))
            offset = self._offset(lies.at) if lies.at else titles_at
            link = _NUMBER.get(_LINKS.get(title, ""), 0)
            info = 1 if title == ".dynsym" else 0  # the first symbol that is not local
            image += struct.pack(
                "<IIQQQQIIQQ", named[title], kind, flags, lies.at, offset, lies.size,
                link, info, 8, _ITEMS.get(title, 0),
            )  # fmt: skip
        segments = self._segments(places[".dynamic"], end)
        head = struct.pack(
            "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, self.machine, 1, 0, _HEADER_BYTES,
            sections_at, 0, _HEADER_BYTES, _SEGMENT_BYTES, len(segments), _SECTION_BYTES,
            1 + len(_SECTIONS), _NUMBER[".shstrtab"],
        )  # fmt: skip
        head += b"".join(segments)
        image[: len(head)] = head
        return bytes(image)

    def _segments(self, lines: _Place, end: int) -> list[bytes]:
        """What the loader maps, and how; the sealed part ends where a page does."""
        sealed, last = self.parts[ADDRESSES]
        room = -(-last // self._page) * self._page - sealed
        found = [(_LOAD, _R, 0, self._head, self._head, self._page)]
        for kind, (start, stop) in self.parts.items():
            size = stop - start
            more = room if kind == ADDRESSES else size
            if size:
                found.append((_LOAD, _FLAGS_OF[kind], start, size, more, self._page))
        tables = end - self._tables_at
        found.append((_LOAD, _R, self._tables_at, tables, tables, self._page))
        found.append((_RELRO, _R, sealed, last - sealed, room, 1))
        found.append((_DYNAMIC, _RW, lines.at, lines.size, lines.size, 8))
        found.append((_STACK, _RW, 0, 0, 0, 16))
        return [
            struct.pack("<IIQQQQQQ", kind, flags, self._offset(at), at, at, size, more, align)
            for kind, flags, at, size, more, align in found
        ]


def _symbol(name: int, section: int, place: _Place) -> bytes:
    return struct.pack("<IBBHQQ", name, _GLOBAL_FUNCTION, 0, section, place.at, place.size)


def _hash_table(names: Sequence[str]) -> bytes:
    """Chains of symbols whose hashes are equal modulo the number of chains."""
    count = max(1, len(names))
    first, following = [0] * count, [0] * (1 + len(names))
    for number, name in enumerate(names, 1):
        chain = _hash(name) % count
        following[number], first[chain] = first[chain], number
    return struct.pack(f"<{2 + count + 1 + len(names)}I", count, 1 + len(names), *first, *following)


def _hash(name: str) -> int:
    """SOURCE: System V ABI, edition 4.1, figure 5-13."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _aligned(at: int) -> int:
    return -(-at // 8) * 8
