"""Objects as libraries that the system loads: names, addresses, imports, and what is sealed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from mlc.dialects.target.known import CPUS
from mlc.runtime.linker import LinkError, ObjectFile
from mlc.runtime.llvm import compile_object
from mlc.runtime.probe import host_target
from mlc.runtime.shared_object import shared_object

FIRST = """
@table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
@count = global i64 40
@pointers = internal constant [2 x ptr] [ptr @callee, ptr @labs]
declare i64 @callee(i64)
declare i64 @labs(i64)
define i64 @caller(i64 %k) nounwind {
  %at = getelementptr i64, ptr @table, i64 %k
  %a = load i64, ptr %at
  %b = call i64 @callee(i64 %a)
  %c = sub i64 0, %b
  %d = call i64 @labs(i64 %c)
  %e = load i64, ptr @count
  %f = add i64 %e, 1
  store i64 %f, ptr @count
  %g = add i64 %d, %f
  ret i64 %g
}
define ptr @one(i64 %k) nounwind {
  %at = getelementptr ptr, ptr @pointers, i64 %k
  %p = load ptr, ptr %at
  ret ptr %p
}
"""
SECOND = """
define i64 @callee(i64 %x) nounwind {
  %y = mul i64 %x, 1000
  ret i64 %y
}
"""


def objects(name: str = "host") -> list[ObjectFile]:
    target = next((row for row in CPUS if row.name == name), host_target())
    return [ObjectFile.read(compile_object(text, target)) for text in (FIRST, SECOND)]


def test_the_system_loads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "libboth.so"
    path.write_bytes(shared_object(objects(), ("caller", "one"), path.name))
    library = ctypes.CDLL(str(path))
    library.caller.restype = library.one.restype = ctypes.c_int64
    assert [library.caller(k) for k in range(4)] == [
        1000 * x + 41 + k for k, x in enumerate((3, 5, 7, 11))
    ]
    assert not hasattr(library, "callee")
    assert not hasattr(library, "count")
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert kind(library.one(ctypes.c_int64(0)))(7) == 7000
    assert kind(library.one(ctypes.c_int64(1)))(-7) == 7


def test_nothing_is_written_and_executed(tmp_path: Path) -> None:
    """Constants with addresses are sealed once they are filled in; the stack is not executed."""
    path = tmp_path / "libsealed.so"
    path.write_bytes(shared_object(objects(), ("caller",), path.name))
    library = ctypes.CDLL(str(path))
    lines = [x for x in Path("/proc/self/maps").read_text().splitlines() if x.endswith(path.name)]
    flags = [line.split()[1][:3] for line in lines]
    assert sorted(set(flags)) == ["r--", "r-x", "rw-"]
    assert flags.count("rw-") == 1  # @count
    assert library.caller(0) == 3041


def test_what_is_missing_is_named() -> None:
    with pytest.raises(LinkError, match="nobody defines nothing"):
        shared_object(objects(), ("nothing",), "x.so")
    with pytest.raises(LinkError, match="machines"):
        shared_object([*objects("avx2"), *objects("neon")], ("caller",), "x.so")


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed")
@pytest.mark.parametrize("target", ["avx2", "neon"])
def test_tools_read_what_is_written(target: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(shared_object(objects(target), ("caller", "one"), "lib.so", ("libc.so.6",)))
    ran = subprocess.run(
        ["readelf", "-aW", path], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}
    )
    assert not ran.stderr
    for said in ("SONAME", "[libc.so.6]", "BIND_NOW", "GNU_RELRO", " caller\n", " UND labs\n"):
        assert said in ran.stdout
    assert "callee" not in ran.stdout
