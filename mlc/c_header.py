"""The header of a program for C: C99, and a class for C++20, with what every argument is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from mlc.artifact import CONSTANT, SIZE, THREADS, MemoryPlan, computed
from mlc.c_machine import CUDA_ERROR, WRONG_MACHINE
from mlc.cached_property import cached_property
from mlc.dialects.abi import STORED
from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.signature import ArgSpec, CheckAssumed, EntrySignature, solve
from mlc.lazy_dataclass import dataclass
from mlc.runtime.sites import Site
from mlc.version import __version__

TYPES = {
    "f64": "double", "f32": "float", "f16": "uint16_t", "bf16": "uint16_t", "bool": "uint8_t",
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "c64": "float", "c128": "double", **dict.fromkeys(STORED, "uint8_t"),
}  # fmt: skip
"""What C calls an element."""
_NOTES = {
    "f16": "bits of a half", "bf16": "upper bits of a float", "bool": "0 or 1",
    "c64": "pairs of real and imaginary part", "c128": "pairs of real and imaginary part",
    "f8e4m3fn": "bits of e4m3", "f8e5m2": "bits of e5m2", "f8e4m3fnuz": "bits of e4m3fnuz",
    "f8e5m2fnuz": "bits of e5m2fnuz", "f8e8m0fnu": "bits of e8m0", "f4e2m1fn": "4 low bits: e2m1",
    "i2": "2 low bits, signed", "u2": "2 low bits", "i4": "4 low bits, signed", "u4": "4 low bits",
}  # fmt: skip
_WORDS = """
 auto bool break case catch char class const continue default delete do double else enum extern
 false float for friend goto if inline int long namespace new operator private protected public
 register restrict return short signed sizeof static struct switch template this throw true try
 typedef typename union unsigned using virtual void volatile while args context outs sizes threads
 weights
"""
"""Names that nothing may have in C or C++, or that the typed function uses itself."""


def is_taken(name: str) -> bool:
    """Whether C has no room for a name."""
    return re.search(rf"\b{re.escape(name)}\b", _WORDS) is not None


def in_c(name: str) -> str:
    """A name as near to this one as C allows; "" where nothing is left."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    found = f"x{found}" if found[:1].isdigit() else found
    return f"{found}_" if found and is_taken(found) else found


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a header says of a program."""

    name: str
    about: str  # the machine
    signature: EntrySignature
    names: tuple[str, ...]  # of the arguments
    results: tuple[str, ...]  # names of the first results, where somebody gave them
    units: tuple[str, ...]  # of what they count; "" where nobody says
    frozen: int  # arguments at the end that the program has itself
    weights: int  # bytes of those in a file of their own
    memory: MemoryPlan
    sites: Sequence[Site]
    team: str  # "1", or what threads are of

    def text(self) -> str:
        """The header."""
        upper, name = self.name.upper(), self.name
        lines = [
            f"/* {name}: made by mlc {__version__} for {self.about}. */",
            f"#ifndef MLC_{upper}_H",
            f"#define MLC_{upper}_H",
            CONTEXT,
            *self._arena(),
            *self._errors(),
            f"int32_t {name}(mlc_context *, void *const *args, const int64_t *sizes,",
            f"    {' ' * len(name)}     void *const *outs);",
            f"int32_t {name}_check(void); /* MLC_OK where this machine has the instructions */",
        ]
        if self.team == "pthread":
            lines += [
                "/* A pool of so many threads, with the caller's; its end, while none works */",
                f"int32_t {name}_start(int64_t threads);",
                f"void {name}_stop(void);",
            ]
        lines += ["", *self._described(), *self._call(), "#ifdef __cplusplus", "}", "#endif"]
        lines += [*self._class(), f"#endif /* MLC_{upper}_H */", ""]
        return "\n".join(lines)

    # parts ----------------------------------------------------------------------------------------

    called_with: ClassVar = ("mlc_context *context",)
    """The first parameters of every function."""
    pointer: ClassVar = "void *"
    """What an array is to the program."""

    def declared(self, dtype: str, name: str, const: str = "") -> str:
        """The parameter of an array."""
        return f"{const}{TYPES[dtype]} *{name}"

    @property
    def _sizes(self) -> list[str]:
        """The parameters that say how large something is."""
        return [*(["threads"] if self.team != "1" else []), *self.signature.symbols]

    def _arena(self) -> Iterator[str]:
        """How much memory a call needs, for sizes that are open."""
        upper, sizes = self.name.upper(), self._sizes
        threads = "threads" if self.team != "1" else 1
        steps, total = arena_steps(self.memory, self.signature.symbols, threads)
        yield "/* Bytes of arena, aligned to 64, that a call needs. */"
        if not steps:
            yield f"#define {upper}_ARENA_BYTES({', '.join(sizes)}) INT64_C({total})"
            return
        declared = ", ".join(f"int64_t {size}" for size in sizes)
        yield f"static inline int64_t {self.name}_arena_bytes({declared}) {{"
        used = set(re.findall(r"\w+", f"{' '.join(steps)} {total}"))
        yield from (f"  (void){size};" for size in sizes if size not in used)
        yield from (f"  const int64_t {step};" for step in steps)
        yield f"  return {total};"
        yield "}"
        given = ", ".join(sizes)
        yield f"#define {upper}_ARENA_BYTES({given}) {self.name}_arena_bytes({given})"

    def _errors(self) -> Iterator[str]:
        """What `error_site` may be, and where in the source."""
        yield f"static const mlc_error {self.name.upper()}_ERRORS[{len(self.sites) + 1}] = {{"
        yield '  {"no error", ""},'
        for site in self.sites:
            place = f"{Path(site.file).name}:{site.line}" if site.file else ""
            yield f'  {{"{_quoted(site.kind)}", "{_quoted(place)}"}},'
        yield "};"

    @cached_property
    def _inputs(self) -> list[tuple[str, ArgSpec]]:
        """The arguments that the caller gives."""
        args = self.signature.args[: len(self.signature.args) - self.frozen]
        return list(zip(self.names, args, strict=False))

    @cached_property
    def _outs(self) -> list[tuple[str, bool]]:
        """Where each result goes, and whether that is a place of its own."""
        results, taken = self.signature.results, {*self.names, *self._sizes}
        own: list[str] = []
        for k, _ in enumerate(results):
            name = self.results[k] if k < len(self.results) else ""
            name = name or ("out" if len(results) == 1 else f"out{k}")
            while name in taken:
                name += "_"
            taken.add(name)
            own.append(name)
        return [
            (name, True) if result.alias_of is None else (self.names[result.alias_of], False)
            for name, result in zip(own, results, strict=True)
        ]

    def _described(self) -> Iterator[str]:
        """Each argument, in words."""
        yield "/* Arrays are row-major and may not overlap, but where it is said."
        for symbol in self.signature.symbols:
            yield f"   {symbol}: any size from 0 on"
        for (name, arg), unit in zip(self._inputs, self.units, strict=False):
            how = "read, and written over" if arg.donated else "read"
            said = f", in {_commented(unit)}" if unit else ""
            yield f"   {name}: {_described(arg.dtype, arg.shape)}{said}, {how}"
        if self.weights:
            yield (
                f"   weights: the {self.weights} bytes of {self.name}.weights, aligned to 64,"
                " read; map the file"
            )
        for (name, own), result in zip(self._outs, self.signature.results, strict=True):
            if own:
                yield f"   {name}: {_described(result.dtype, result.shape)}, written"
        yield "*/"

    def _call(self) -> Iterator[str]:
        """The typed function, which says what goes where."""
        if self.signature.strided:
            raise MlcError(f"{self.name}: arguments of any layout; C gives row-major ones")
        symbols, results = self.signature.symbols, self.signature.results
        parameters = [*self.called_with, *(f"int64_t {s}" for s in symbols)]
        for name, arg in self._inputs:
            parameters.append(self.declared(arg.dtype, name, "" if arg.donated else "const "))
        if self.weights:
            parameters.append("const void *weights")
        for (name, own), result in zip(self._outs, results, strict=True):
            if own:
                parameters.append(self.declared(result.dtype, name))
        given = [*(name for name, _ in self._inputs), *(["weights"] if self.weights else [])]
        yield f"static inline int32_t {self.name}_call({', '.join(parameters)}) {{"
        yield f"  {self.pointer}args[{max(1, len(given))}];"
        yield f"  {self.pointer}outs[{max(1, len(results))}];"
        yield f"  int64_t sizes[{max(1, len(symbols))}];"
        steps = solve(self.signature)  # C gives the symbols; a program must be able to find them
        for symbol in symbols:
            yield f"  if ({symbol} < 0) return MLC_BAD_ARGUMENT;"
        for step in steps:
            if isinstance(step, CheckAssumed):
                yield f"  if (({_expression(step.dim)}) < 0) return MLC_BAD_ARGUMENT;"
        arrays = [(name, arg.shape) for name, arg in self._inputs]
        written = zip(self._outs, results, strict=True)
        arrays += [(name, result.shape) for (name, own), result in written if own]
        arrays += [("weights", ())] if self.weights else []
        for name, shape in arrays:
            if missing := _missing(name, shape):
                yield f"  if ({missing}) return MLC_BAD_ARGUMENT;"
        yield "  args[0] = outs[0] = 0;"
        yield "  sizes[0] = 0;"
        for k, name in enumerate(given):
            yield f"  args[{k}] = ({self.pointer.rstrip()}){name};"
        for k, symbol in enumerate(symbols):
            yield f"  sizes[{k}] = {symbol};"
        for k, (name, _) in enumerate(self._outs):
            yield f"  outs[{k}] = ({self.pointer.rstrip()}){name};"
        passed = ", ".join(x.split("*")[-1] for x in self.called_with)
        yield f"  return {self.name}({passed}, args, sizes, outs);"
        yield "}"

    def _class(self) -> Iterator[str]:
        """The class for C++, which has the memory between the kernels."""
        spans, counts, passed = list[str](), list[str](), list[str]()
        for name, arg in self._inputs:
            spans.append(f"std::span<{'' if arg.donated else 'const '}{TYPES[arg.dtype]}> {name}")
            counts.append(f"{name}.size() != {_count(arg.dtype, arg.shape)}")
            passed.append(f"{name}.data()")
        if self.weights:
            spans.append("std::span<const std::byte> weights")
            counts.append(f"weights.size() < {self.weights}u")
            passed.append("weights.data()")
        for (name, own), result in zip(self._outs, self.signature.results, strict=True):
            if own:
                spans.append(f"std::span<{TYPES[result.dtype]}> {name}")
                counts.append(f"{name}.size() != {_count(result.dtype, result.shape)}")
                passed.append(f"{name}.data()")
        symbols = self.signature.symbols
        negative = [f"{symbol} < 0" for symbol in symbols]
        yield _CLASS.format(
            name=self.name,
            upper=self.name.upper(),
            parameters=", ".join([*(f"int64_t {s}" for s in symbols), *spans]),
            wrong=" ||\n        ".join([*negative, *counts]) or "false",
            passed=", ".join(["&context", *symbols, *passed]),
        )


def _count(dtype: str, shape: Sequence[Dim]) -> str:
    """The numbers of an array, for C++."""
    sizes = [f"std::size_t({_expression(size)})" for size in shape]
    return " * ".join([*sizes, *(["2u"] if dtype in ("c64", "c128") else [])]) or "1u"


def _missing(name: str, shape: Sequence[Dim]) -> str:
    """When a program lacks an array, in C; one without elements may be NULL: "" is never."""
    if Dim.const(0) in shape:
        return ""
    return " && ".join([f"!{name}", *(f"({_expression(x)}) > 0" for x in shape if x.symbols())])


def _expression(dim: Dim) -> str:
    """A size in C; none is negative, so that C's division is that of sizes."""
    return str(dim).replace("//", "/")


STATUS = f"""#ifdef __cplusplus
extern "C" {{
#endif
#ifndef MLC_STATUS /* the same in all headers of mlc */
#define MLC_STATUS 1
enum {{
  MLC_OK = 0,
  MLC_RUN_TIME_ERROR = 1, /* error_site says which */
  MLC_OUT_OF_MEMORY = 2, /* error_value says how many bytes of arena */
  MLC_CANCELLED = 3,
  MLC_BAD_ARGUMENT = 4,
  MLC_WRONG_MACHINE = {WRONG_MACHINE},
  MLC_CUDA_ERROR = {CUDA_ERROR} /* result says which */
}};
typedef struct {{
  const char *text;
  const char *place;
}} mlc_error;
static inline const char *mlc_status_text(int32_t status) {{
  switch (status) {{
    case MLC_OK: return "no error";
    case MLC_RUN_TIME_ERROR: return "an error of the program: see error_site";
    case MLC_OUT_OF_MEMORY: return "the arena is too small: see error_value";
    case MLC_CANCELLED: return "cancelled";
    case MLC_BAD_ARGUMENT: return "a size, an arena or a NULL that the program does not take";
    case MLC_WRONG_MACHINE: return "this machine lacks an instruction that the code needs";
    case MLC_CUDA_ERROR: return "an error of the CUDA driver: see result";
    default: return "an unknown status";
  }}
}}
#endif"""

CONTEXT = f"""#include <stdint.h>
{STATUS}
#ifndef MLC_CONTEXT /* the same in all headers of mlc */
#define MLC_CONTEXT 1
/* All zeros is a context without memory that nobody cancels. One call at a time uses it. */
typedef struct mlc_context {{
  void *arena; /* aligned to 64 bytes, the caller's */
  int64_t arena_bytes;
  int64_t threads; /* that may work, where the program was built with --threads; 0 is 1 */
  const int64_t *cancel; /* a counter: the call stops when it is not cancel_base; or NULL */
  int64_t cancel_base;
  int64_t error_site;  /* 0, or an index into NAME_ERRORS */
  int64_t error_value; /* what was found there; bytes of arena that are needed */
  int32_t (*grow)(struct mlc_context *, int64_t bytes); /* sets a larger arena, gives 0; or NULL */
  void *private_data;  /* the caller's */
  int64_t error_extent;
  int64_t reserved[6];
}} mlc_context;
#endif"""

_CLASS = """#if defined(__cplusplus) && __cplusplus >= 202002L
#include <cstddef>
#include <new>
#include <span>
namespace mlc {{
/* ::{name} with memory of its own, which grows. One call at a time uses it. */
class {name} {{
 public:
  explicit {name}(int64_t threads = 1) {{
    context.threads = threads;
    context.grow = &grow;
  }}
  {name}(const {name} &) = delete;
  {name} &operator=(const {name} &) = delete;
  ~{name}() {{ release(context.arena); }}
  /* A status; MLC_BAD_ARGUMENT too where a span has another length than its array. */
  int32_t operator()({parameters}) {{
    if ({wrong})
      return MLC_BAD_ARGUMENT;
    return {name}_call({passed});
  }}
  const mlc_error &error() const {{ return {upper}_ERRORS[context.error_site]; }}
  mlc_context context = {{}};

 private:
  static void release(void *arena) {{ ::operator delete(arena, std::align_val_t(64)); }}
  static int32_t grow(mlc_context *context, int64_t bytes) {{
    void *arena = ::operator new(std::size_t(bytes), std::align_val_t(64), std::nothrow);
    if (arena == nullptr) return MLC_OUT_OF_MEMORY;
    release(context->arena);
    context->arena = arena;
    context->arena_bytes = bytes;
    return MLC_OK;
  }}
}};
}} // namespace mlc
#endif"""


def _described(dtype: str, shape: Sequence[object]) -> str:
    note = f" ({_NOTES[dtype]})" if dtype in _NOTES else ""
    pairs = "[2]" if dtype in ("c64", "c128") else ""
    sizes = "".join(f"[{size}]" for size in shape)
    return f"{TYPES[dtype]} {sizes}{pairs}{note}".replace("  ", " ").rstrip()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _commented(text: str) -> str:
    return " ".join(text.replace("*/", "* /").split())


_OPERATORS = {
    "arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.divui": "/",
    "arith.floordivsi": "/", "arith.minsi": "<", "arith.maxsi": ">",
}  # fmt: skip


def arena_steps(
    memory: MemoryPlan, symbols: Sequence[str], threads: int | str
) -> tuple[list[str], int | str]:
    """The plan as C computes it: steps that depend on what is open, and the result."""
    steps: list[str] = []
    found: list[int | str] = []
    for what, numbers in memory.steps:
        if what == SIZE:
            found.append(symbols[numbers[0]])
        elif what in (CONSTANT, THREADS):
            found.append(numbers[0] if what == CONSTANT else threads)
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
