"""Which machine a program for C runs on: LLVM IR that asks it, and what runs on each."""

from __future__ import annotations

from collections.abc import Sequence

WRONG_MACHINE = 5
"""What a program returns where the machine lacks an instruction."""
CUDA_ERROR = 6
"""What a program for a GPU returns where the driver refuses something."""

PLAIN = {
    "x86_64": '"target-cpu"="x86-64" "target-features"="+sse2"',
    "aarch64": '"target-cpu"="generic" "target-features"="+neon"',
}
"""Architecture -> attributes of functions that run on each of its machines."""

CPUID = {
    "fma": (1, 0, "ecx", 12), "f16c": (1, 0, "ecx", 29), "avx": (1, 0, "ecx", 28),
    "bmi": (7, 0, "ebx", 3), "avx2": (7, 0, "ebx", 5), "bmi2": (7, 0, "ebx", 8),
    "avx512f": (7, 0, "ebx", 16), "avx512dq": (7, 0, "ebx", 17), "avx512cd": (7, 0, "ebx", 28),
    "avx512bw": (7, 0, "ebx", 30), "avx512vl": (7, 0, "ebx", 31),
    "avx512vnni": (7, 0, "ecx", 11), "avx512fp16": (7, 0, "edx", 23),
    "amx-bf16": (7, 0, "edx", 22), "amx-tile": (7, 0, "edx", 24), "amx-int8": (7, 0, "edx", 25),
    "avxvnni": (7, 1, "eax", 4), "avx512bf16": (7, 1, "eax", 5),
}  # fmt: skip
"""LLVM's name -> leaf, subleaf, register and bit. SOURCE: Intel SDM, volume 2A, CPUID."""
_SAVED = {"avx512": 0xE6, "amx": 0x60006, "": 0x6}
"""Beginning of a name -> what the system must save of its registers. SOURCE: SDM 1, XCR0."""
_RESULT = "{ i32, i32, i32, i32 }"
_REGISTERS = ("eax", "ebx", "ecx", "edx")


def check_text(name: str, arch: str, needs: Sequence[str]) -> str:
    """LLVM IR of a function: 0 where the machine has what is needed, else `WRONG_MACHINE`."""
    known = [each for each in needs if each in CPUID] if arch == "x86_64" else []
    lines = [f"define i32 @{name}() {PLAIN[arch]} {{"]
    if not known:
        return "\n".join([*lines, "  ret i32 0", "}", ""])
    lines += ["  %ok0 = and i1 true, true", *_asked("osxsave", 0, (1, 0, "ecx", 27))]
    saved = 0
    for number, each in enumerate(known, 1):
        lines += _asked(each, number, CPUID[each])
        saved |= next(bits for start, bits in _SAVED.items() if each.startswith(start))
    lines += [
        *_saves(f"%ok{len(known) + 1}", saved),
        f"  %found = select i1 %all, i32 0, i32 {WRONG_MACHINE}",
        "  ret i32 %found",
        "}",
        "",
    ]
    return "\n".join(lines)


def _asked(name: str, number: int, where: tuple[int, int, str, int]) -> list[str]:
    leaf, subleaf, register, bit = where
    constraints = "={ax},={bx},={cx},={dx},{ax},{cx}"
    return [
        f"  ; {name}",
        f'  %r{number} = call {_RESULT} asm "cpuid", "{constraints}"(i32 {leaf}, i32 {subleaf})',
        f"  %w{number} = extractvalue {_RESULT} %r{number}, {_REGISTERS.index(register)}",
        f"  %b{number} = and i32 %w{number}, {(1 << bit) - (1 << 32 if bit == 31 else 0)}",
        f"  %h{number} = icmp ne i32 %b{number}, 0",
        f"  %ok{number + 1} = and i1 %ok{number}, %h{number}",
    ]


def _saves(so_far: str, bits: int) -> list[str]:
    """Whether the system saves registers; asked only where it says how to ask."""
    return [
        f"  br i1 {so_far}, label %ask, label %said",
        "ask:",
        '  %x = call { i32, i32 } asm ".byte 15, 1, 208", "={ax},={dx},{cx}"(i32 0)',
        "  %low = extractvalue { i32, i32 } %x, 0",
        f"  %kept = and i32 %low, {bits}",
        f"  %enough = icmp eq i32 %kept, {bits}",
        "  br label %said",
        "said:",
        "  %all = phi i1 [ false, %0 ], [ %enough, %ask ]",
    ]
