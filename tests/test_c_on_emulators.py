"""Programs for C on processors that are not here: AArch64, and x86-64 with and without AVX2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.c_files import CProgram
from mlc.runtime.interpret import interpret
from tests.c_programs import CROSS, GCC, QEMU_AARCH64, QEMU_X86_64, FailedError, called, program

arm = pytest.mark.skipif(
    not (CROSS and QEMU_AARCH64), reason="qemu-aarch64 and aarch64-linux-gnu-gcc are not installed"
)
intel = pytest.mark.skipif(
    not (GCC and QEMU_X86_64), reason="qemu-x86_64 and gcc are not installed"
)
SYSTEM = Path("/usr/aarch64-linux-gnu")


def spec(*shape: Any, dtype: str = "f32") -> mlc.TensorSpec:
    return mlc.TensorSpec(*shape, dtype=dtype)


def product(x: Any, w: Any) -> Any:
    return np.maximum(x @ w, 1)


def ordered(x: Any) -> Any:
    return np.sort(x), np.argsort(x)


def roots(x: Any) -> Any:
    return np.sqrt(x) / 3, x.astype(np.float16)


def picked(x: Any, k: Any) -> Any:
    return x[k] * x


def many(x: Any) -> Any:
    return (x % 7).sum(axis=0), x // 3


RNG = np.random.default_rng(0)
SMALL = RNG.integers(-8, 9, (24, 40)).astype(np.float32)
EXACT: dict[str, tuple[Any, tuple[np.ndarray[Any, Any], ...]]] = {
    "product": (product, (SMALL, RNG.integers(-8, 9, (40, 33)).astype(np.float32))),
    "ordered": (ordered, (RNG.standard_normal(1000).astype(np.float32),)),
    "roots": (roots, (np.abs(RNG.standard_normal(333)),)),
    "picked": (picked, (SMALL, RNG.integers(0, 24, 24))),
    "many": (many, (RNG.integers(-100, 100, (33, 17)),)),
}
"""Programs whose results are rounded once at most: the interpreter's bits are the only ones."""


def exact(name: str, target: str) -> tuple[CProgram, list[Any], list[Any]]:
    f, arrays = EXACT[name]
    specs = [mlc.TensorSpec(*x.shape, dtype=x.dtype.name.replace("int", "i").replace("float", "f"))
             for x in arrays]  # fmt: skip
    found = program(f, *specs, target=target)
    return found, list(arrays), interpret(found.program.at_trace(), list(arrays))


def same(found: Any, expected: Any) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == np.ascontiguousarray(theirs).tobytes()


@arm
@pytest.mark.parametrize("name", EXACT)
def test_arm_has_the_bits_of_the_interpreter(name: str, tmp_path: Path) -> None:
    found, arrays, expected = exact(name, "neon")
    same(called(found, arrays, tmp_path, compiler=CROSS, flags=["-static"],
                emulator=[QEMU_AARCH64]), expected)  # fmt: skip


@arm
def test_arm_loads_a_shared_library(tmp_path: Path) -> None:
    """The system's own loader there, with its larger pages."""
    found, arrays, expected = exact("ordered", "neon")
    (tmp_path / "libit.so").write_bytes(found.written("so", "libit.so"))
    flags = ["-L.", "-lit", "-Wl,-rpath,."]
    same(called(found, arrays, tmp_path, compiler=CROSS, flags=flags, archived=False,
                emulator=[QEMU_AARCH64, "-L", SYSTEM]), expected)  # fmt: skip


@intel
@pytest.mark.parametrize("name", EXACT)
def test_avx2_starts_on_the_first_machine_that_has_it(name: str, tmp_path: Path) -> None:
    found, arrays, expected = exact(name, "avx2")
    same(called(found, arrays, tmp_path, emulator=[QEMU_X86_64, "-cpu", "Haswell"]), expected)


@intel
def test_avx2_says_no_where_there_is_none(tmp_path: Path) -> None:
    """An older machine gets a status and its text, and not a signal."""
    found, arrays, _ = exact("product", "avx2")
    with pytest.raises(FailedError, match=r"^5: this machine lacks an instruction .*\n\(1\)$"):
        called(found, arrays, tmp_path, emulator=[QEMU_X86_64, "-cpu", "Nehalem"])
