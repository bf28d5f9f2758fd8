"""
Object files into this process: their sections in one mapping, addresses filled in, pages sealed.

Code ends up readable and executable, constants readable, variables readable and writable: no page
is writable and executable at any time. What a branch or a reference does not reach directly it
reaches through a stub behind the code, or a slot among the constants that hold addresses.

SOURCE: ELF-64 Object File Format 1.5; System V ABI, AMD64 supplement 1.0, section 4.4; ELF for the
Arm 64-bit Architecture (AArch64), 2024Q3, section 5.7.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from mlc.lazy_dataclass import dataclass

X86_64, AARCH64 = 62, 183  # e_machine
_ALLOC, _WRITE, _EXECUTE = 2, 1, 4  # sh_flags
_SYMTAB, _RELA, _NOBITS = 2, 4, 8  # sh_type
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1  # section numbers of symbols
_MOST_ALIGNED = mmap.PAGESIZE  # where a mapping begins
_REACH = 1 << 31  # of a reference
_EIGHT = {X86_64: (1,), AARCH64: (257, 260)}  # relocations that fill 8 bytes in, not 4
_NOT_RUN = (".eh_frame", ".gcc_except_table")  # nothing of ours unwinds

CODE, CONSTANTS, ADDRESSES, VARIABLES = KINDS = range(4)
"""Kinds of sections, which follow one another; `ADDRESSES` are constants that hold some."""
_PROTECTIONS = {
    CODE: mmap.PROT_READ | mmap.PROT_EXEC,
    CONSTANTS: mmap.PROT_READ,
    ADDRESSES: mmap.PROT_READ,
    VARIABLES: mmap.PROT_READ | mmap.PROT_WRITE,
}


class LinkError(ValueError):
    """Objects that are none, do not fit together, or hold what is not known here."""


@dataclass
class _Section:
    """A piece of the image."""

    kind: int  # one of KINDS
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
    size: int


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
        except (struct.error, LookupError, ValueError, OverflowError) as error:
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
            for name_at, info, _, section, value, extent in struct.iter_unpack(
                "<IBBHQQ", image[at : at + size]
            ):
                symbols.append(_Symbol(text(link, name_at), info >> 4 == 0, section, value, extent))
        elif flags & _ALLOC and (called := text(names_at, name)) not in _NOT_RUN:
            part = CODE if flags & _EXECUTE else VARIABLES if flags & _WRITE else CONSTANTS
            part = ADDRESSES if called.startswith(".data.rel.ro") else part
            data = b"" if kind == _NOBITS else image[at : at + size]
            if align & align - 1 or align > _MOST_ALIGNED or size > _REACH:
                raise ValueError(f"section {called} has {size} bytes, aligned to {align}")
            if kind != _NOBITS and len(data) != size:
                raise ValueError(f"section {called} is cut off")
            sections[number] = _Section(part, max(align, 1), data, size)
    for _, kind, _, _, at, size, _, info, _, _ in headers:
        if kind == _RELA and info in sections:
            sections[info].relocations += [
                (offset, what & 0xFFFFFFFF, what >> 32, addend)
                for offset, what, addend in struct.iter_unpack("<QQq", image[at : at + size])
            ]
    found = ObjectFile(machine, sections, symbols)
    _check_places(found)
    return found


def _check_places(found: ObjectFile) -> None:
    """Symbols lie in their sections, and what is filled in does."""
    for symbol in found.symbols:
        section = found.sections.get(symbol.section)
        if section is not None and symbol.value > section.size:
            raise ValueError(f"{symbol.name or 'a symbol'} lies behind the end of its section")
    for section in found.sections.values():
        for offset, kind, symbol, _ in section.relocations:
            if offset + (8 if kind in _EIGHT.get(found.machine, ()) else 4) > len(section.data):
                raise ValueError(f"relocation {kind} lies behind the end of its section")
            if symbol >= len(found.symbols):
                raise ValueError(f"relocation {kind} is of symbol {symbol}, which is not there")


class Linked:
    """
    Objects one behind the other, from `start` on, with their references filled in: in `memory` as
    it will lie at `base`. `gap`: where the next kind of section begins, of the end of the last.
    """

    base = 0
    memory: mmap.mmap | bytearray

    def __init__(
        self, objects: Sequence[ObjectFile], start: int, gap: Callable[[int], int]
    ) -> None:
        machines = {x.machine for x in objects}
        if len(machines) != 1 or not machines <= set(_STUBS):
            raise LinkError(f"machines {sorted(machines)}; expected one of {sorted(_STUBS)}")
        (self.machine,) = machines
        self.objects = objects
        self._symbols: dict[str, int] = {}
        self._stubs: dict[int, int] = {}  # address -> place of the code that goes there
        self._slots: dict[int, int] = {}  # address -> place that holds it
        self.parts = self._place(start, gap)

    def _place(self, at: int, gap: Callable[[int], int]) -> dict[int, tuple[int, int]]:
        """Where each section lies; where each kind begins and ends."""
        parts: dict[int, tuple[int, int]] = {}
        referred = sum(len(x.symbols) for x in self.objects)  # there are not more stubs and slots
        sections = [s for x in self.objects for s in x.sections.values()]
        for kind in KINDS:
            first = at
            for section in (s for s in sections if s.kind == kind):
                section.at = at = _aligned(at, section.align)
                at += section.size
            if kind == CODE:
                self._next_stub = at = _aligned(at, _STUB_BYTES)
                at += _STUB_BYTES * referred
            elif kind == ADDRESSES:
                self._next_slot = at = _aligned(at, _SLOT_BYTES)
                at += _SLOT_BYTES * referred + self.more_bytes()
            parts[kind] = (first, at)
            at = gap(at)
        return parts

    def fill(self) -> None:
        """Sections into memory, addresses into sections."""
        self._symbols = {
            symbol.name: self._lies(symbol, x) for x in self.objects for symbol in x.defined()
        }
        for x in self.objects:
            for section in x.sections.values():
                self.memory[section.at : section.at + len(section.data)] = section.data
                for relocation in section.relocations:
                    self._relocate(section, x, *relocation)

    def address(self, symbol: str) -> int:
        """The address of a symbol that an object defines; KeyError of another."""
        return self._symbols[symbol]

    def more_bytes(self) -> int:
        """Room at the end of the constants with addresses, for what a subclass keeps there."""
        return 0

    def elsewhere(self, name: str) -> int:
        """The address of what no object here defines."""
        raise LinkError(f"nobody defines {name}")

    def absolute(self, at: int, address: int) -> None:
        """Memory at `at` holds an address."""
        struct.pack_into("<q", self.memory, at, _signed(address, 64))

    def _lies(self, symbol: _Symbol, of: ObjectFile) -> int:
        """The address of a symbol, wherever it is defined."""
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section == _UNDEFINED:
            found = self._symbols.get(symbol.name)
            return self.elsewhere(symbol.name) if found is None else found
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
        if self.machine == X86_64:
            self._relocate_x86_64(at, kind, target, addend)
        else:
            self._relocate_aarch64(at, kind, target, addend)

    def _relocate_x86_64(self, at: int, kind: int, target: int, addend: int) -> None:
        here = self.base + at
        if kind == 1:  # R_X86_64_64
            self.absolute(at, target + addend)
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
        struct.pack_into("<i", self.memory, at, distance)

    def _relocate_aarch64(self, at: int, kind: int, target: int, addend: int) -> None:
        here, value = self.base + at, target + addend
        if kind == 257:  # ABS64
            self.absolute(at, value)
            return
        if kind in (260, 261):  # PREL64, PREL32
            value -= here
            if kind == 261 and not _fits(value, 32):
                raise LinkError("a reference reaches 2 GiB and no further")
            form = "<i" if kind == 261 else "<q"
            struct.pack_into(form, self.memory, at, _signed(value, 32 if kind == 261 else 64))
            return
        (word,) = struct.unpack_from("<I", self.memory, at)
        if kind in (311, 312):  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
            value = self._slot(target) + addend
        if kind in (275, 311):  # ADR_PREL_PG_HI21
            word |= pages_between(here, value)
        elif kind in _SHIFTS:
            word |= (value & 0xFFF) >> _SHIFTS[kind] << 10
        elif kind in (282, 283):  # JUMP26, CALL26
            if not _fits(value - here, 28):
                value = self._stub(target) + addend
            word |= (value - here) >> 2 & 0x3FFFFFF
        else:
            raise LinkError(f"relocation {kind} of AArch64 is not known")
        struct.pack_into("<I", self.memory, at, word)

    def _stub(self, target: int) -> int:
        """The address of code that goes to `target`, wherever that is."""
        place = self._stubs.get(target)
        if place is None:
            place = self._stubs[target] = self.new_stub()
            code = _STUBS[self.machine] + struct.pack("<Q", target)
            self.memory[place : place + len(code)] = code
        return self.base + place

    def _slot(self, target: int) -> int:
        """The address of a place that holds `target`."""
        place = self._slots.get(target)
        if place is None:
            place = self._slots[target] = self.new_slot()
            self.absolute(place, target)
        return self.base + place

    def new_stub(self) -> int:
        """Room for code that goes elsewhere."""
        self._next_stub += _STUB_BYTES
        return self._next_stub - _STUB_BYTES

    def bind(self, stub: int, slot: int) -> None:
        """Who asks for the place of the address of this code gets this one."""
        self._slots[self.base + stub] = slot

    def new_slot(self) -> int:
        """Room for an address."""
        self._next_slot += _SLOT_BYTES
        return self._next_slot - _SLOT_BYTES


class Image(Linked):
    """Linked code, in this process until the object dies."""

    def __init__(self, objects: Sequence[ObjectFile], imports: Mapping[str, int]) -> None:
        super().__init__(objects, 0, lambda at: _aligned(at, mmap.PAGESIZE))
        self._imports = imports
        size = _aligned(self.parts[VARIABLES][1], mmap.PAGESIZE)
        try:
            self.memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, ValueError, OverflowError) as error:
            raise LinkError(f"no memory for {size} bytes of code: {error}") from None
        self._view = (ctypes.c_char * size).from_buffer(self.memory)
        self.base = ctypes.addressof(self._view)
        self.fill()
        self._seal()

    def elsewhere(self, name: str) -> int:
        found = self._imports.get(name)
        return super().elsewhere(name) if found is None else found

    def _seal(self) -> None:
        """Takes writing from code and constants."""
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for kind, (start, end) in self.parts.items():
            size = _aligned(end - start, mmap.PAGESIZE)
            if size and protect(self.base + start, size, _PROTECTIONS[kind]) != 0:
                raise LinkError(f"the system refuses executable memory: errno {ctypes.get_errno()}")


_STUB_BYTES, _SLOT_BYTES = 16, 8
_STUBS = {
    X86_64: b"\xff\x25\x00\x00\x00\x00",  # jmp *(%rip)
    AARCH64: b"\x50\x00\x00\x58\x00\x02\x1f\xd6",  # ldr x16, .+8; br x16
}
"""What goes to the address behind it."""
_SHIFTS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
"""ADD_ABS_LO12_NC, LDST8 to LDST128_ABS_LO12_NC, LD64_GOT_LO12_NC -> bits that are not said."""


def pages_between(here: int, there: int) -> int:
    """How far adrp goes, as its word has it."""
    pages = (there >> 12) - (here >> 12)
    if not _fits(pages, 21):
        raise LinkError("a reference reaches 4 GiB and no further")
    return (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _aligned(at: int, to: int) -> int:
    return -(-at // to) * to


def _fits(value: int, bits: int) -> bool:
    return -(1 << bits - 1) <= value < 1 << bits - 1


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
