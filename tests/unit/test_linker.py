"""Object files into this process: what they define and need, and what is refused."""

from __future__ import annotations

import ctypes
import gc
import platform
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import CPUS
from mlc.runtime.host import host
from mlc.runtime.jit import LoadedCode, LoadError, is_object, load, loaded_count
from mlc.runtime.linker import AARCH64, X86_64, Image, LinkError, ObjectFile
from mlc.runtime.llvm import compile_object
from mlc.runtime.probe import host_target

HERE = {"x86_64": X86_64, "aarch64": AARCH64}[platform.machine()]

CALLER = """
@table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
@count = global i64 40
@far = external global i64
declare i64 @callee(i64)
declare i64 @given(i64)
define i64 @caller(i64 %k) nounwind {
  %at = getelementptr i64, ptr @table, i64 %k
  %a = load i64, ptr %at
  %b = call i64 @callee(i64 %a)
  %c = call i64 @given(i64 %b)
  %d = load i64, ptr @far
  %e = load i64, ptr @count
  %f = add i64 %e, 1
  store i64 %f, ptr @count
  %g = add i64 %c, %d
  %h = add i64 %g, %f
  ret i64 %h
}
"""
CALLEE = """
@of = internal constant ptr @callee
define i64 @callee(i64 %x) nounwind {
  %y = mul i64 %x, 1000
  ret i64 %y
}
define ptr @itself() nounwind {
  %p = load ptr, ptr @of
  ret ptr %p
}
"""


def target_called(name: str) -> CpuTarget:
    return next(row for row in CPUS if row.name == name)


def objects() -> list[bytes]:
    return [compile_object(text, host_target()) for text in (CALLER, CALLEE)]


def plus_many(x: int) -> int:
    return x + 100000


def nobody() -> tuple[str, dict[str, bool]]:
    return "none", {}


def linked() -> tuple[LoadedCode, dict[str, Any]]:
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    given, far = signature(plus_many), ctypes.c_int64(7000000)
    imports = {
        "given": ctypes.cast(given, ctypes.c_void_p).value or 0,
        "far": ctypes.addressof(far),
    }
    code = load(objects(), imports=imports, exports=("caller", "itself"))
    return code, {"given": given, "far": far, "caller": signature(code.address("caller"))}


def test_calls_constants_variables_and_what_lies_far() -> None:
    code, names = linked()
    caller = names["caller"]
    assert [caller(k) for k in range(4)] == [
        7000000 + 100000 + 1000 * x + 41 + k for k, x in enumerate((3, 5, 7, 11))
    ]
    assert ctypes.c_int64.from_address(code.address("count")).value == 44
    itself = ctypes.CFUNCTYPE(ctypes.c_size_t)(code.address("itself"))()
    assert itself == code.address("callee")


def test_no_page_is_written_and_executed() -> None:
    code, _ = linked()
    at = code.address("caller")
    maps = Path("/proc/self/maps").read_text().splitlines()
    ranges = [re.match(r"([0-9a-f]+)-([0-9a-f]+) (....)", line) for line in maps]
    (flags,) = (m[3] for m in ranges if m and int(m[1], 16) <= at < int(m[2], 16))
    assert flags == "r-xp"


def test_code_goes_with_the_last_reference() -> None:
    gc.collect()
    before = loaded_count()
    code, names = linked()
    assert loaded_count() == before + 1
    del code, names
    gc.collect()
    assert loaded_count() == before


def test_what_does_not_fit_names_the_symbol() -> None:
    caller, callee = objects()
    with pytest.raises(LoadError, match="nobody defines callee, far, given"):
        load([caller], imports={}, exports=("caller",))
    with pytest.raises(LoadError, match="nobody defines nothing"):
        load([callee], imports={}, exports=("nothing",))
    with pytest.raises(LoadError, match="more than one object defines callee, itself"):
        load([callee, callee], imports={}, exports=())


@pytest.mark.parametrize("cut", [0, 5, 16, 63, 64, 200])
def test_what_is_no_object_is_refused(cut: int) -> None:
    whole = objects()[1]
    assert is_object(whole)
    assert not is_object(whole[:cut])
    with pytest.raises(LoadError, match="no ELF object"):
        load([whole[:cut]], imports={}, exports=())


SYMBOLS, RELOCATIONS = 2, 4  # sh_type


def table(image: bytearray, kind: int) -> int:
    """Where the first table of a kind begins."""
    (headers,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    for k in range(count):
        if struct.unpack_from("<I", image, headers + k * size + 4)[0] == kind:
            return struct.unpack_from("<Q", image, headers + k * size + 24)[0]
    raise LookupError(kind)


@pytest.mark.parametrize(
    ("kind", "field", "form", "value", "said"),
    [
        (RELOCATIONS, 0, "<Q", 1 << 20, "relocation .* lies behind the end of its section"),
        (RELOCATIONS, 0, "<Q", (1 << 64) - 1, "relocation .* lies behind the end of its section"),
        (RELOCATIONS, 12, "<I", 1 << 20, "is of symbol 1048576, which is not there"),
        (SYMBOLS, 24 + 8, "<Q", 1 << 40, "lies behind the end of its section"),
    ],
)
def test_references_outside_are_refused(
    kind: int, field: int, form: str, value: int, said: str
) -> None:
    image = bytearray(objects()[0])
    at = table(image, kind)
    if kind == SYMBOLS:  # whichever it is, it lies in the code
        struct.pack_into("<H", image, at + 24 + 6, code_of(image))
    struct.pack_into(form, image, at + field, value)
    with pytest.raises(LinkError, match=said):
        ObjectFile.read(bytes(image))


def code_of(image: bytearray) -> int:
    """The number of the first section that is run."""
    (headers,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    flags = [struct.unpack_from("<Q", image, headers + k * size + 8)[0] for k in range(count)]
    return next(k for k, each in enumerate(flags) if each & 4)


@pytest.mark.parametrize(
    ("field", "value"), [(32, 1 << 62), (32, 1 << 30), (48, 3), (48, 1 << 40), (24, 1 << 63)]
)
def test_sections_that_cannot_be_are_refused(field: int, value: int) -> None:
    """Of other sizes, places and alignments; and a table of them that lies nowhere."""
    image = bytearray(objects()[1])
    (headers,) = struct.unpack_from("<Q", image, 40)
    (size,) = struct.unpack_from("<H", image, 58)
    struct.pack_into("<Q", image, headers + code_of(image) * size + field, value)
    assert not is_object(bytes(image))
    struct.pack_into("<Q", image, 40, (1 << 64) - 1)
    assert not is_object(bytes(image))


def test_objects_of_two_machines_do_not_link() -> None:
    other = {X86_64: "neon", AARCH64: "avx2"}[HERE]
    there = compile_object(CALLEE, target_called(other))
    here = objects()[1]
    with pytest.raises(LinkError, match="machines"):
        Image([ObjectFile.read(here), ObjectFile.read(there)], {})


def pages(address: int) -> int:
    return address >> 12


def test_addresses_in_code_of_arm() -> None:
    """The instructions of AArch64, decoded again, lead to what the symbols say."""
    target = target_called("neon")
    both = [ObjectFile.read(compile_object(text, target)) for text in (CALLER, CALLEE)]
    imports = {"given": 0x7F00_1234_5678, "far": 0x7E00_0000_1230}
    image = Image(both, imports)
    kinds: set[int] = set()
    for x in both:
        for section in x.sections.values():
            for offset, kind, symbol, addend in section.relocations:
                kinds.add(kind)
                name = x.symbols[symbol].name
                here = image.base + section.at + offset
                word = ctypes.c_uint32.from_address(here).value
                if kind in (282, 283):
                    distance = (word & 0x3FFFFFF ^ 1 << 25) - (1 << 25)
                    goal = here + 4 * distance
                    if name == "given":
                        assert ctypes.c_uint64.from_address(goal).value == 0xD61F_0200_5800_0050
                        goal = ctypes.c_uint64.from_address(goal + 8).value
                        assert goal == imports[name]
                    else:
                        assert goal == image.address(name)
                elif kind in (275, 311):
                    found = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
                    page = pages(here) + (found ^ 1 << 20) - (1 << 20)
                    assert abs(page - pages(image.base)) < 16
                elif kind == 257:
                    assert ctypes.c_uint64.from_address(here).value == image.address(name) + addend
    assert {275, 283, 311, 312} <= kinds


def test_the_machine_is_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process asks a file instead of LLVM; one that somebody changed is not believed."""
    from mlc import knobs

    with knobs.scope(cache_dir=tmp_path):
        host.cache_clear()
        asked = host()
        (file,) = tmp_path.glob("host-*.json")
        monkeypatch.setattr("mlc.runtime.llvm.host_cpu", nobody)
        host.cache_clear()
        assert host() == asked
        file.write_text('{"triple": 3}')
        host.cache_clear()
        assert host().name == "none"
    host.cache_clear()
