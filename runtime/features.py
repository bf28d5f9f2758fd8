"""Which of the instructions that code was compiled for this machine has, by the kernel's word."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

_SAME = (
    *("avx", "avx2", "fma", "f16c", "bmi2", "adx", "aes", "movbe", "popcnt", "gfni", "vaes"),
    *("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx512vbmi", "avx512ifma"),
    *("ssse3", "sha512", "rtm"),
)
FLAGS = {
    **{name: name for name in _SAME},
    "bmi": "bmi1", "lzcnt": "abm", "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2",
    "cx16": "cx16", "sahf": "lahf_lm", "pclmul": "pclmulqdq", "vpclmulqdq": "vpclmulqdq",
    "avxvnni": "avx_vnni", "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16", "avx512vbmi2": "avx512_vbmi2", "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq", "amx-tile": "amx_tile", "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8", "neon": "asimd", "fp-armv8": "fp", "fullfp16": "asimdhp",
    "dotprod": "asimddp", "i8mm": "i8mm", "bf16": "bf16", "sve": "sve", "sve2": "sve2",
    "lse": "atomics", "crc": "crc32",
}  # fmt: skip
"""
LLVM's name of an extension that code may use -> the kernel's. SOURCE: Linux,
arch/x86/include/asm/cpufeatures.h; Documentation/arch/arm64/elf_hwcaps.rst.
"""


OF_VECTORS = {256: ("avx2", "fma", "bmi2"), 512: ("avx512f", "avx512bw", "avx512dq", "avx512vl")}
"""What x86 processors must have for vectors of so many bits. SOURCE: x86-64-v3 and x86-64-v4."""


def of_vectors(arch: str, bits: int) -> tuple[str, ...]:
    """What such a processor must have for vectors of so many bits."""
    return OF_VECTORS.get(bits, ()) if arch == "x86_64" else ()


def lacking(names: Iterable[str]) -> list[str]:
    """Those of LLVM's extensions that this machine does not have; none where nobody says."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        return []
    lines = (line.partition(":") for line in text.splitlines())
    has = {
        flag
        for name, _, flags in lines
        if name.strip() in ("flags", "Features")
        for flag in flags.split()
    }
    return [name for name in names if name in FLAGS and FLAGS[name] not in has] if has else []
