"""
Object files into this process: their sections in one mapping, addresses filled in, pages sealed.

Code ends up readable and executable, constants readable, variables readable and writable: no page
is writable and executable at any time. What a branch or a reference does not reach directly it
reaches through a stub behind the code, or a slot behind the constants.

SOURCE: ELF-64 Object File Format 1.5; System V ABI, AMD64 supplement 1.0, section 4.4; ELF for the
Arm 64-bit Architecture (AArch64), 2024Q3, section 5.7.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from mlc.lazy_dataclass import dataclass

X86_64, AARCH64 = 62, 183  # e_machine
_ALLOC, _WRITE, _EXECUTE = 2, 1, 4  # sh_flags
_SYMTAB, _RELA, _NOBITS = 2, 4, 8  # sh_type
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1  # section numbers of symbols
_NOT_RUN = (".eh_frame", ".gcc_except_table")  # nothing of ours unwinds

_PROTECTIONS = (mmap.PROT_READ | mmap.PROT_EXEC, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE)
"""Of code, constants and variables, which follow one another."""


class LinkError(ValueError):
    """Objects that are none, do not fit together, or hold what is not known here."""


@dataclass
class _Section:
    """A piece of the image."""

    kind: int  # 0: code, 1: constants, 2: variables
    align: int
    data: bytes  # nothing but zeros where it is shorter than `size`
    size: int
    relocations: list[tuple[int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int]]
    )
    """Offset, kind, symbol, addend."""
    at: int = 0  # in the image


@dataclass(frozen=True)
class _Symbol:
    name: str
    local: bool
    section: int
    value: int


@dataclass(frozen=True)
class ObjectFile:
    """A relocatable object, read."""

    machine: int
    sections: Mapping[int, _Section]
    symbols: Sequence[_Symbol]

    @staticmethod
    def read(image: bytes) -> ObjectFile:
        """LinkError for what is no little-endian ELF64 object."""
        try:
            return _read(image)
        except (struct.error, IndexError, ValueError) as error:
            raise LinkError(f"no ELF object: {error}") from None

    def defined(self) -> Iterator[_Symbol]:
        """The symbols that others may use."""
        return (x for x in self.symbols if x.name and not x.local and x.section != _UNDEFINED)

    def undefined(self) -> Iterator[str]:
        """The symbols that it uses of others."""
        return (x.name for x in self.symbols if x.name and x.section == _UNDEFINED)


def _read(image: bytes) -> ObjectFile:
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("it does not begin as one")
    kind, machine = struct.unpack_from("<HH", image, 16)
    if kind != 1:
        raise ValueError(f"its type is {kind}, expected 1, a relocatable file")
    (table_at,) = struct.unpack_from("<Q", image, 40)
    entry_bytes, count, names_at = struct.unpack_from("<HHH", image, 58)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", image, table_at + k * entry_bytes) for k in range(count)
    ]

    def text(strings: int, at: int) -> str:
        start = headers[strings][4] + at
        return image[start : image.index(0, start)].decode()

    sections: dict[int, _Section] = {}
    symbols: list[_Symbol] = []
    for number, (name, kind, flags, _, at, size, link, _, align, _) in enumerate(headers):
        if kind == _SYMTAB:
            for name_at, info, _, section, value, _ in struct.iter_unpack(
                "<IBBHQQ", image[at : at + size]
            ):
                symbols.append(_Symbol(text(link, name_at), info >> 4 == 0, section, value))
        elif flags & _ALLOC and text(names_at, name) not in _NOT_RUN:
            part = 0 if flags & _EXECUTE else 2 if flags & _WRITE else 1
            data = b"" if kind == _NOBITS else image[at : at + size]
            sections[number] = _Section(part, max(align, 1), data, size)
    for _, kind, _, _, at, size, _, info, _, _ in headers:
        if kind == _RELA and info in sections:
            sections[info].relocations += [
                (offset, what & 0xFFFFFFFF, what >> 32, addend)
                for offset, what, addend in struct.iter_unpack("<QQq", image[at : at + size])
            ]
    return ObjectFile(machine, sections, symbols)


class Image:
    """Linked code, in this process until the object dies."""

    def __init__(self, objects: Sequence[ObjectFile], imports: Mapping[str, int]) -> None:
        machines = {x.machine for x in objects}
        if len(machines) != 1 or not machines <= set(_STUBS):
            raise LinkError(f"machines {sorted(machines)}; expected one of {sorted(_STUBS)}")
        (self._machine,) = machines
        self._imports = imports
        ends = self._place(objects)
        self._memory = mmap.mmap(-1, ends[-1], mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._view = (ctypes.c_char * ends[-1]).from_buffer(self._memory)
        self.base = ctypes.addressof(self._view)
        self._symbols = {
            symbol.name: self._lies(symbol, x) for x in objects for symbol in x.defined()
        }
        self._stubs: dict[int, int] = {}  # address -> place of the code that goes there
        self._slots: dict[int, int] = {}  # address -> place that holds it
        for x in objects:
            for section in x.sections.values():
                self._memory[section.at : section.at + len(section.data)] = section.data
                for relocation in section.relocations:
                    self._relocate(section, x, *relocation)
        self._seal(ends)

    def address(self, symbol: str) -> int:
        """The address of a symbol that an object defines; KeyError of another."""
        return self._symbols[symbol]

    def _place(self, objects: Sequence[ObjectFile]) -> list[int]:
        """Where each section lies; where code, constants and variables end."""
        at, ends = 0, list[int]()
        referred = sum(len(x.symbols) for x in objects)  # more stubs and slots there cannot be
        for kind in range(len(_PROTECTIONS)):
            for section in (s for x in objects for s in x.sections.values() if s.kind == kind):
                section.at = at = _aligned(at, section.align)
                at += section.size
            if kind == 0:
                self._next_stub = at = _aligned(at, _STUB_BYTES)
                at += _STUB_BYTES * referred
            elif kind == 1:
                self._next_slot = at = _aligned(at, _SLOT_BYTES)
                at += _SLOT_BYTES * referred
            at = _aligned(at, mmap.PAGESIZE)
            ends.append(at)
        return ends

    def _lies(self, symbol: _Symbol, of: ObjectFile) -> int:
        """The address of a symbol, wherever it is defined."""
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section == _UNDEFINED:
            found = self._symbols.get(symbol.name)
            found = self._imports.get(symbol.name) if found is None else found
            if found is None:
                raise LinkError(f"nobody defines {symbol.name}")
            return found
        section = of.sections.get(symbol.section)
        if section is None:
            raise LinkError(f"{symbol.name or 'a symbol'} lies in a section that is not loaded")
        return self.base + section.at + symbol.value

    def _relocate(
        self, section: _Section, of: ObjectFile, offset: int, kind: int, symbol: int, addend: int
    ) -> None:
        """Fills one address in."""
        at = section.at + offset
        target = self._lies(of.symbols[symbol], of)
        if self._machine == X86_64:
            self._relocate_x86_64(at, kind, target, addend)
        else:
            self._relocate_aarch64(at, kind, target, addend)

    def _relocate_x86_64(self, at: int, kind: int, target: int, addend: int) -> None:
        here = self.base + at
        if kind == 1:  # R_X86_64_64
            struct.pack_into("<q", self._memory, at, _signed(target + addend, 64))
            return
        if kind in (9, 41, 42):  # GOTPCREL, and the forms that may be relaxed
            target = self._slot(target)
        elif kind == 4 and not _fits(target + addend - here, 32):  # PLT32
            target = self._stub(target)
        elif kind not in (2, 4):  # PC32
            raise LinkError(f"relocation {kind} of x86-64 is not known")
        distance = target + addend - here
        if not _fits(distance, 32):
            raise LinkError("a reference reaches 2 GiB and no further")
        struct.pack_into("<i", self._memory, at, distance)

    def _relocate_aarch64(self, at: int, kind: int, target: int, addend: int) -> None:
        here, value = self.base + at, target + addend
        if kind in (257, 260, 261):  # ABS64, PREL64, PREL32
            value -= 0 if kind == 257 else here
            if kind == 261 and not _fits(value, 32):
                raise LinkError("a reference reaches 2 GiB and no further")
            form = "<i" if kind == 261 else "<q"
            struct.pack_into(form, self._memory, at, _signed(value, 32 if kind == 261 else 64))
            return
        (word,) = struct.unpack_from("<I", self._memory, at)
        if kind in (311, 312):  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
            value = self._slot(target) + addend
        if kind in (275, 311):  # ADR_PREL_PG_HI21
            pages = (value >> 12) - (here >> 12)
            if not _fits(pages, 21):
                raise LinkError("a reference reaches 4 GiB and no further")
            word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
        elif kind in _SHIFTS:
            word |= (value & 0xFFF) >> _SHIFTS[kind] << 10
        elif kind in (282, 283):  # JUMP26, CALL26
            if not _fits(value - here, 28):
                value = self._stub(target) + addend
            word |= (value - here) >> 2 & 0x3FFFFFF
        else:
            raise LinkError(f"relocation {kind} of AArch64 is not known")
        struct.pack_into("<I", self._memory, at, word)

    def _stub(self, target: int) -> int:
        """The address of code that goes to `target`, wherever that is."""
        place = self._stubs.get(target)
        if place is None:
            place = self._stubs[target] = self._next_stub
            code = _STUBS[self._machine] + struct.pack("<Q", target)
            self._memory[place : place + len(code)] = code
            self._next_stub += _STUB_BYTES
        return self.base + place

    def _slot(self, target: int) -> int:
        """The address of a place that holds `target`."""
        place = self._slots.get(target)
        if place is None:
            place = self._slots[target] = self._next_slot
            struct.pack_into("<Q", self._memory, place, target)
            self._next_slot += _SLOT_BYTES
        return self.base + place

    def _seal(self, ends: Sequence[int]) -> None:
        """Takes writing from code and constants."""
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        start = 0
        for end, protection in zip(ends, _PROTECTIONS, strict=True):
            if end > start and protect(self.base + start, end - start, protection) != 0:
                raise LinkError(f"the system refuses executable memory: errno {ctypes.get_errno()}")
            start = end


_STUB_BYTES, _SLOT_BYTES = 16, 8
_STUBS = {
    X86_64: b"\xff\x25\x00\x00\x00\x00",  # jmp *(%rip)
    AARCH64: b"\x50\x00\x00\x58\x00\x02\x1f\xd6",  # ldr x16, .+8; br x16
}
"""What goes to the address behind it."""
_SHIFTS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
"""ADD_ABS_LO12_NC, LDST8 to LDST128_ABS_LO12_NC, LD64_GOT_LO12_NC -> bits that are not said."""


def _aligned(at: int, to: int) -> int:
    return -(-at // to) * to


def _fits(value: int, bits: int) -> bool:
    return -(1 << bits - 1) <= value < 1 << bits - 1


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
