"""
Programs for C: one object without a runtime, an archive, and a header that says what to call.

The object has one worker, allocates nothing and asks for no symbol. SOURCE of the archive: System V
ABI, edition 4.1, chapter 7.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from mlc.artifact import CONSTANT, SIZE, THREADS, MemoryPlan, computed
from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.program import entry_function
from mlc.dialects.signature import CheckAssumed, EntrySignature, solve
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.target.intrinsics import extensions_in
from mlc.error_sites import sites_of
from mlc.levels import Levels
from mlc.lowering.emit import joined
from mlc.memory import memory_plan_of
from mlc.runtime.features import of_vectors
from mlc.runtime.linker import ObjectFile
from mlc.runtime.llvm import compile_object
from mlc.version import __version__

_SERIAL = Path(__file__).with_name("lowering") / "freestanding.ll"

TYPES = {
    "f64": "double", "f32": "float", "f16": "uint16_t", "bf16": "uint16_t", "bool": "uint8_t",
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "c64": "float", "c128": "double", "f8e4m3fn": "uint8_t", "f8e5m2": "uint8_t",
}  # fmt: skip
"""What C calls an element."""
_NOTES = {
    "f16": "bits of a half", "bf16": "upper bits of a float", "bool": "0 or 1",
    "c64": "pairs of real and imaginary part", "c128": "pairs of real and imaginary part",
    "f8e4m3fn": "bits of e4m3", "f8e5m2": "bits of e5m2",
}  # fmt: skip
_WORDS = """
 auto bool break case catch char class const continue default delete do double else enum extern
 false float for friend goto if inline int long namespace new operator private protected public
 register restrict return short signed sizeof static struct switch template this throw true try
 typedef typename union unsigned using virtual void volatile while args context outs sizes
"""
"""Names that nothing may have in C or C++, or that the typed function uses itself."""


def is_taken(name: str) -> bool:
    """Whether C has no room for a name."""
    return re.search(rf"\b{re.escape(name)}\b", _WORDS) is not None


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


class CProgram:
    """A program for a processor, as C sees it. MlcError where C cannot have it."""

    def __init__(self, program: Levels) -> None:
        self.target = target = cpu_of(program.plan(), "a program for C")
        self.program = program
        self.name = program.name
        if not re.fullmatch(r"[A-Za-z_]\w*", self.name, re.ASCII) or is_taken(self.name):
            raise MlcError(f"{self.name!r} is no name in C; give the function another one")
        self.signature: EntrySignature = program.signature
        self.units = program.units()
        self.loops = program.at("loops")
        self.memory: MemoryPlan = memory_plan_of(self.loops)
        texts = [unit.text for unit in self.units]
        if any("@mlc_library(" in text for text in texts):
            raise MlcError(
                f"{self.name} calls np.linalg or np.fft, or tells Python something while it runs;"
                " an object for C has none of these"
            )
        vectors = of_vectors(target.arch, target.vector_bits)
        self.needs = (*vectors, *extensions_in(texts, target))

    # code -----------------------------------------------------------------------------------------

    def llvm(self) -> str:
        """The program as one module, whose symbols are the entry and the check of the machine."""
        *kernels, (_, entry) = [(unit.name, unit.text) for unit in self.units]
        kernels = [
            (name, text.replace("\ndefine ", "\ndefine internal ")) for name, text in kernels
        ]
        first = f"define i32 @{self.name}("
        assert first in entry
        entry = entry.replace(first, f"define internal i32 @{self.name}.entry(")
        serial = _SERIAL.read_text().replace("@ENTRY", f"@{self.name}")
        return joined(
            [*kernels, (f"{self.name}.entry", entry), ("serial", serial), ("check", self._check())]
        )

    def object(self) -> bytes:
        """The object. CompilerBug-like MlcError where it asks for a symbol."""
        image = compile_object(self.llvm(), self.target)
        if asked := sorted(set(ObjectFile.read(image).undefined())):
            raise MlcError(f"{self.name}: the object asks for {', '.join(asked)}; expected nothing")
        return image

    def _check(self) -> str:
        """LLVM IR of NAME_check: 0 where the machine has the instructions, else 4."""
        known = (
            [name for name in self.needs if name in CPUID] if self.target.arch == "x86_64" else []
        )
        lines = [f"define i32 @{self.name}_check() {{", "  %ok0 = and i1 true, true"]
        if known:
            lines += _asked("osxsave", 0, (1, 0, "ecx", 27))
        for k, name in enumerate(known, 1):
            lines += _asked(name, k, CPUID[name])
        last = f"%ok{len(known) + 1}" if known else "%ok0"
        if known:
            saved = 0
            for name in known:
                saved |= next(bits for start, bits in _SAVED.items() if name.startswith(start))
            lines += _saves(last, saved)
            last = "%all"
        return "\n".join(
            [*lines, f"  %found = select i1 {last}, i32 0, i32 4", "  ret i32 %found", "}", ""]
        )

    # header ---------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the arguments."""
        function = entry_function(self.program.at_trace())
        found: list[str] = []
        for k, attributes in enumerate(function.arg_attrs.data if function.arg_attrs else ()):
            given = attributes.data.get("mlc.name")
            text = str(getattr(given, "data", "")) or f"x{k}"
            name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or f"x{k}"
            name = f"{name}_" if is_taken(name) or name in found else name
            found.append(f"x{name}" if name[0].isdigit() else name)
        found += [f"x{k}" for k in range(len(found), len(self.signature.args))]
        return tuple(found)

    def header(self) -> str:
        """The header for C99 and C++."""
        upper, name = self.name.upper(), self.name
        about = f"{self.target.name} on {self.target.arch}"
        needs = f", which needs {', '.join(self.needs)}" if self.needs else ""
        return "\n".join(
            [
                f"/* {name}: made by mlc {__version__} for {about}{needs}; one thread. */",
                f"#ifndef MLC_{upper}_H",
                f"#define MLC_{upper}_H",
                _CONTEXT,
                *self._arena(),
                *self._errors(),
                f"int32_t {name}(mlc_context *, void *const *args, const int64_t *sizes,",
                f"    {' ' * len(name)}     void *const *outs);",
                f"int32_t {name}_check(void); /* MLC_OK where this machine has the instructions */",
                "",
                *self._described(),
                *self._call(),
                "#ifdef __cplusplus",
                "}",
                "#endif",
                f"#endif /* MLC_{upper}_H */",
                "",
            ]
        )

    def _arena(self) -> Iterator[str]:
        """How much memory a call needs, for sizes that are open."""
        upper, symbols = self.name.upper(), self.signature.symbols
        steps, total = arena_steps(self.memory, symbols)
        yield "/* Bytes of arena, aligned to 64, that a call needs. */"
        if not steps:
            yield f"#define {upper}_ARENA_BYTES({', '.join(symbols)}) INT64_C({total})"
            return
        declared = ", ".join(f"int64_t {symbol}" for symbol in symbols)
        yield f"static inline int64_t {self.name}_arena_bytes({declared}) {{"
        yield from (f"  const int64_t {step};" for step in steps)
        yield f"  return {total};"
        yield "}"
        given = ", ".join(symbols)
        yield f"#define {upper}_ARENA_BYTES({given}) {self.name}_arena_bytes({given})"

    def _errors(self) -> Iterator[str]:
        """What `error_site` may be, and where in the source."""
        sites = sites_of(self.loops)
        yield f"static const mlc_error {self.name.upper()}_ERRORS[{len(sites) + 1}] = {{"
        yield '  {"no error", ""},'
        for site in sites:
            place = f"{Path(site.file).name}:{site.line}" if site.file else ""
            yield f'  {{"{_quoted(site.kind)}", "{_quoted(place)}"}},'
        yield "};"

    def _described(self) -> Iterator[str]:
        """Each argument, in words."""
        yield "/* Arrays are row-major and may not overlap, but where it is said."
        for symbol in self.signature.symbols:
            yield f"   {symbol}: any size from 0 on"
        for name, arg in zip(self.names, self.signature.args, strict=True):
            how = "read, and written over" if arg.donated else "read"
            yield f"   {name}: {_described(arg.dtype, arg.shape)}, {how}"
        for name, result in zip(self._outs, self.signature.results, strict=True):
            if result.alias_of is None:
                yield f"   {name}: {_described(result.dtype, result.shape)}, written"
        yield "*/"

    @property
    def _outs(self) -> tuple[str, ...]:
        count, taken = len(self.signature.results), set(self.names)
        wanted = ["out"] if count == 1 else [f"out{k}" for k in range(count)]
        return tuple(f"{name}_" if name in taken else name for name in wanted)

    def _call(self) -> Iterator[str]:
        """The typed function, which says what goes where."""
        if self.signature.strided:
            raise MlcError(f"{self.name}: arguments of any layout; C gives row-major ones")
        args, results = self.signature.args, self.signature.results
        parameters = ["mlc_context *context", *(f"int64_t {s}" for s in self.signature.symbols)]
        for name, arg in zip(self.names, args, strict=True):
            parameters.append(f"{'' if arg.donated else 'const '}{TYPES[arg.dtype]} *{name}")
        for name, result in zip(self._outs, results, strict=True):
            if result.alias_of is None:
                parameters.append(f"{TYPES[result.dtype]} *{name}")
        yield f"static inline int32_t {self.name}_call({', '.join(parameters)}) {{"
        yield f"  void *args[{max(1, len(args))}], *outs[{max(1, len(results))}];"
        yield f"  int64_t sizes[{max(1, len(self.signature.symbols))}];"
        steps = solve(self.signature)  # C gives the symbols; a program must be able to find them
        for symbol in self.signature.symbols:
            yield f"  if ({symbol} < 0) return MLC_BAD_ARGUMENT;"
        for step in steps:
            if isinstance(step, CheckAssumed):
                yield f"  if (({_in_c(step.dim)}) < 0) return MLC_BAD_ARGUMENT;"
        yield "  args[0] = outs[0] = 0;"
        yield "  sizes[0] = 0;"
        for k, name in enumerate(self.names):
            yield f"  args[{k}] = (void *){name};"
        for k, symbol in enumerate(self.signature.symbols):
            yield f"  sizes[{k}] = {symbol};"
        for k, (name, result) in enumerate(zip(self._outs, results, strict=True)):
            place = name if result.alias_of is None else self.names[result.alias_of]
            yield f"  outs[{k}] = (void *){place};"
        yield f"  return {self.name}(context, args, sizes, outs);"
        yield "}"


def _in_c(dim: Dim) -> str:
    """An expression; sizes are not negative, so that C's division is that of sizes."""
    return str(dim).replace("//", "/")


_CONTEXT = """#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#ifndef MLC_CONTEXT /* the same in all headers of mlc */
#define MLC_CONTEXT 1
/* All zeros is a context without memory that nobody cancels. One call at a time uses it. */
typedef struct mlc_context {
  void *arena; /* aligned to 64 bytes, the caller's */
  int64_t arena_bytes;
  int64_t threads;
  const int64_t *cancel; /* a counter: the call stops when it is not cancel_base; or NULL */
  int64_t cancel_base;
  int64_t error_site;  /* 0, or an index into NAME_ERRORS */
  int64_t error_value; /* what was found there; bytes of arena that were missing */
  int32_t (*grow)(struct mlc_context *, int64_t bytes); /* sets a larger arena, gives 0; or NULL */
  void *private_data;
  int64_t error_extent;
  int64_t reserved[6];
} mlc_context;
enum {
  MLC_OK = 0,
  MLC_RUN_TIME_ERROR = 1, /* error_site says which */
  MLC_OUT_OF_MEMORY = 2, /* error_value says how many bytes of arena */
  MLC_CANCELLED = 3,
  MLC_BAD_ARGUMENT = 4
};
typedef struct {
  const char *text;
  const char *place;
} mlc_error;
#endif"""


def _described(dtype: str, shape: Sequence[object]) -> str:
    note = f" ({_NOTES[dtype]})" if dtype in _NOTES else ""
    pairs = "[2]" if dtype in ("c64", "c128") else ""
    return f"{TYPES[dtype]} {''.join(f'[{size}]' for size in shape)}{pairs}{note}".replace(
        "  ", " "
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


_OPERATORS = {
    "arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.divui": "/",
    "arith.floordivsi": "/", "arith.minsi": "<", "arith.maxsi": ">",
}  # fmt: skip


def arena_steps(memory: MemoryPlan, symbols: Sequence[str]) -> tuple[list[str], int | str]:
    """The plan as C computes it for one thread: steps that depend on sizes, and the result."""
    steps: list[str] = []
    found: list[int | str] = []
    for what, numbers in memory.steps:
        if what == SIZE:
            found.append(symbols[numbers[0]])
        elif what in (CONSTANT, THREADS):
            found.append(numbers[0] if what == CONSTANT else 1)
        else:
            operands = [found[k] for k in numbers]
            known = [x for x in operands if isinstance(x, int)]
            if len(known) == len(operands):
                found.append(computed(what, known))
                continue
            a, b = (str(x) for x in operands)
            sign = _OPERATORS[what]
            steps.append(f"v{len(steps)} = {a} {sign} {b}{f' ? {a} : {b}' if sign in '<>' else ''}")
            found.append(f"v{len(steps) - 1}")
    return steps, found[-1] if found else 0


# the check of the machine


_CPUID = "{ i32, i32, i32, i32 }"
_REGISTERS = ("eax", "ebx", "ecx", "edx")


def _asked(name: str, number: int, where: tuple[int, int, str, int]) -> list[str]:
    leaf, subleaf, register, bit = where
    constraints = "={ax},={bx},={cx},={dx},{ax},{cx}"
    return [
        f"  ; {name}",
        f'  %r{number} = call {_CPUID} asm "cpuid", "{constraints}"(i32 {leaf}, i32 {subleaf})',
        f"  %w{number} = extractvalue {_CPUID} %r{number}, {_REGISTERS.index(register)}",
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


# the archive


def archive(members: Mapping[str, bytes]) -> bytes:
    """Objects as a library that linkers read, with the table of what they define."""
    body, places = b"", dict[str, int]()
    symbols: list[tuple[str, str]] = []
    for name, image in members.items():
        places[name] = len(body)
        body += _member(f"{name[:15]}/", image)
        symbols += [(x.name, name) for x in ObjectFile.read(image).defined()]
    names = b"".join(symbol.encode() + b"\0" for symbol, _ in symbols)
    size = 4 + 4 * len(symbols) + len(names)
    start = 8 + 60 + size + size % 2
    table = struct.pack(">I", len(symbols))
    table += b"".join(struct.pack(">I", start + places[name]) for _, name in symbols)
    return b"!<arch>\n" + _member("/", table + names) + body


def _member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
    return head + content + b"\n" * (len(content) % 2)
