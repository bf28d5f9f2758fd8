"""
Instructions that multiply, as rows: what one computes, how its operands lie, how fast it is.

The tile level's interpreter runs `semantics`, lowering/emit/dot.py writes the instruction, the
schedule's chooser reads `shape` and rates, `pack` makes what `letters` say. All rows treat every
element of their result alike: c[m, n] += sum over k of a[m, k] * b[k, n], in the order stated.

SOURCE: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, "Operation" of each
instruction; Arm Architecture Reference Manual for A-profile, BFMatMulAdd and MatMulAdd. Rates:
Intel Optimization Reference Manual (Ice Lake, Sapphire Rapids), AMD Software Optimization Guide
(Zen 4), Arm Neoverse N1 and V1 Software Optimization Guides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dtypes import DType, named_dtype
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.fused import flushing_sum, fused, fused_flushing, normal, odd_flushing_sum
from mlc.lazy_dataclass import dataclass

Array = NDArray[Any]
Semantics = Callable[[Array, Array, Array], Array]
"""(c[M, N], a[M, k], b[k, N]) -> c[M, N], for any M and N and the k of one instruction."""

X86, ARM = "x86_64", "aarch64"
BF16_DOT = "dot_bf16"
SUBNORMAL = 2.0**-126
"""Below it a number is subnormal in bf16 and float32."""


@dataclass(frozen=True, kw_only=True)
class Intrinsic:
    """One instruction for one vector width."""

    name: str
    """What `via(…)` says; the same on every machine that has such an instruction."""

    instruction: str
    """Its mnemonic in assembly, without what only names registers."""

    shape: tuple[int, int, int]
    """(m, n, k) of one instruction."""

    dtypes: tuple[str, str, str]
    """Of a, b and c."""

    letters: tuple[str, str, str]
    """How a, b and c lie, slowest first: in "k16 n16 k'2" summed indices lie in pairs."""

    semantics: Semantics

    arch: str
    """The architecture that has it: "x86_64" or "aarch64"."""

    vector_bits: int
    """Width of its vectors; 0: it works on tile registers."""

    needs: tuple[str, ...] = ()
    """Extensions by LLVM's names that the target must have."""

    starts_per_cycle: float = 1.0
    """Instructions that start each cycle, for each port of vector FMAs; of a core for tiles. Where
    machines differ (`vdpbf16ps`), the target says it: `starts`."""

    latency_cycles: int = 4
    """From one instruction to the next that adds to the same sums."""

    roundings: int = 0
    """On the way of one product into its sum, at most."""

    unit: float = 0.0
    """Relative error of one rounding; 0: exact, integers wrap."""

    flushes: bool = False
    """Whether subnormal numbers count as zero, in operands and sums (D1)."""

    @property
    def group(self) -> int:
        """Summed indices that lie side by side in a panel of b."""
        axis, extent = list(_axes(self.letters[1]))[-1]
        return extent if axis.startswith("k") else 1

    @property
    def in_tiles(self) -> bool:
        """Whether operands and sums are tile registers."""
        return self.vector_bits == 0

    def starts(self, target: CpuTarget) -> float:
        """Instructions that one core starts each cycle, at best."""
        if self.in_tiles:
            return self.starts_per_cycle
        each = target.bf16_dot_factor if self.name == BF16_DOT else self.starts_per_cycle
        return each * target.fma_ports

    def macs_per_cycle(self, target: CpuTarget) -> float:
        """Multiplications and additions that one core completes each cycle, at best."""
        return prod(self.shape) * self.starts(target)

    def run(self, c: Array, a: Array, b: Array) -> Array:
        """c + a @ b by this instruction alone: blocks of its k in turn, zeros behind the last."""
        depth = self.shape[2]
        rest = -a.shape[1] % depth
        a, b = np.pad(a, ((0, 0), (0, rest))), np.pad(b, ((0, rest), (0, 0)))
        for k in range(0, a.shape[1], depth):
            c = self.semantics(c, a[:, k : k + depth], b[k : k + depth])
        return c

    def error(self, c: Array, a: Array, b: Array) -> Array:
        """How far `run` may be from the exact c + a @ b, for each element; 0 for integers."""
        steps = -(-a.shape[1] // self.shape[2]) * self.roundings
        sizes = [np.abs(x).astype(np.float64) for x in (a, b, c)]
        size = sizes[0] @ sizes[1] + sizes[2]
        bound = size * (steps * self.unit) / (1 - steps * self.unit)
        if self.flushes:
            largest = 1 + sizes[0].max(initial=0) + sizes[1].max(initial=0)
            bound = bound + (steps + a.shape[1]) * SUBNORMAL * largest
        return bound

    def laid(self, operand: int, block: Array) -> Array:
        """One instruction's operand (0: a, 1: b, 2: c) as it must lie in memory."""
        names = {0: "mk", 1: "kn", 2: "mn"}[operand]
        axes = list(_axes(self.letters[operand]))
        split = [(axis, extent) for letter in names for axis, extent in axes if axis[0] == letter]
        order = [split.index(pair) for pair in axes]
        return np.ascontiguousarray(block.reshape([e for _, e in split]).transpose(order))


def _axes(word: str) -> Iterator[tuple[str, int]]:
    """("k", 16), ("n", 16), ("k'", 2) of "k16 n16 k'2"."""
    for part in word.split():
        axis = part.rstrip("0123456789")
        yield axis, int(part[len(axis) :])


# what they compute


def _fused(c: Array, a: Array, b: Array) -> Array:
    return fused(a, b, c)


def _rounded_twice(c: Array, a: Array, b: Array) -> Array:
    return c + a * b


def _fused_complex(c: Array, a: Array, b: Array) -> Array:
    """Each part by two fused operations, first with the real part of a."""
    (x, u), (y, v), (z, w) = ((np.real(p), np.imag(p)) for p in (a, b, c))
    real, imag = fused(-u, v, fused(x, y, z)), fused(u, y, fused(x, v, w))
    return np.stack((real, imag), axis=-1).view(c.dtype)[..., 0]


def _rounded_complex(c: Array, a: Array, b: Array) -> Array:
    """Each part of the product of two rounded ones, then rounded as the sum."""
    (x, u), (y, v) = ((np.real(p), np.imag(p)) for p in (a, b))
    return c + np.stack((x * y - u * v, x * v + u * y), axis=-1).view(c.dtype)[..., 0]


def _wrapping(c: Array, a: Array, b: Array) -> Array:
    """Sums of integers modulo a power of two: in any order the same."""
    return c + a.astype(c.dtype) @ b.astype(c.dtype)


def _pairs_of_bf16(c: Array, a: Array, b: Array) -> Array:
    """The odd element of a pair first, each with one rounding."""
    for k in (1, 0):
        c = fused_flushing(a[:, k : k + 1], b[k : k + 1], c)
    return c


def _tiles_of_bf16(c: Array, a: Array, b: Array) -> Array:
    """Even and odd elements in two sums from zero, which are added, and then to c."""
    sums = [np.zeros_like(c), np.zeros_like(c)]
    for k in range(a.shape[1]):
        sums[k % 2] = fused_flushing(a[:, k : k + 1], b[k : k + 1], sums[k % 2])
    return flushing_sum(c, flushing_sum(*sums))


def _matrices_of_bf16(c: Array, a: Array, b: Array) -> Array:
    """Two products added, then their sum to c, each rounded to odd."""
    for k in range(0, a.shape[1], 2):
        pair = [normal(a[:, j : j + 1]) * normal(b[j : j + 1]) for j in (k, k + 1)]
        c = odd_flushing_sum(c, odd_flushing_sum(*pair))
    return c


# the rows


def _vectors(
    name: str, instruction: str, meaning: Semantics, dtypes: str, arch: str, bits: int
) -> Intrinsic:
    """A vector of sums, each of a group of products: a is one group, repeated along the vector."""
    a, b, c = dtypes.split()
    n = bits // (8 * named_dtype(c).bytes)
    group = named_dtype(c).bytes // named_dtype(b).bytes
    rhs = f"n{n} k{group}" if group > 1 else f"k1 n{n}"
    return Intrinsic(
        name=name, instruction=instruction, shape=(1, n, group), dtypes=(a, b, c),
        letters=(f"m1 k{group}", rhs, f"m1 n{n}"), semantics=meaning, arch=arch, vector_bits=bits,
    )  # fmt: skip


_MULTIPLIED: dict[str, tuple[str, str, float]] = {
    "f32": ("vmulps", "fmul", 0.5),
    "f64": ("vmulpd", "fmul", 0.5),
    "i8": ("vpmullw", "mla", 0.2),
    "i16": ("vpmullw", "mla", 0.5),
    "i32": ("vpmulld", "mla", 0.33),
    "i64": ("vpmullq", "mul", 0.2),
}
"""dtype -> multiplication on x86 and Arm, and starts of it with the addition behind it."""

_PARTS = (("f32", "c64", 2.0**-24, "vfmadd231ps"), ("f64", "c128", 2.0**-53, "vfmadd231pd"))


def _multiply_add_rows(arch: str, bits: int) -> Iterator[Intrinsic]:
    for dtype, pair, unit, fma in _PARTS:
        x86, arm, rate = _MULTIPLIED[dtype]
        fused_, multiplied = (fma, x86) if arch == X86 else ("fmla", arm)
        real, complex_ = (" ".join([x] * 3) for x in (dtype, pair))
        row = _vectors("fma", fused_, _fused, real, arch, bits)
        yield replace(row, roundings=1, unit=unit)
        row = _vectors("fma", fused_, _fused_complex, complex_, arch, bits)
        yield replace(row, roundings=4, unit=unit, starts_per_cycle=0.25, latency_cycles=8)
        row = _vectors("mul_add", multiplied, _rounded_twice, real, arch, bits)
        yield replace(row, roundings=2, unit=unit, starts_per_cycle=rate)
        row = _vectors("mul_add", multiplied, _rounded_complex, complex_, arch, bits)
        yield replace(row, roundings=4, unit=unit, starts_per_cycle=rate / 4, latency_cycles=8)
    for dtype in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"):
        x86, arm, rate = _MULTIPLIED[dtype.replace("u", "i")]
        same, multiplied = " ".join([dtype] * 3), x86 if arch == X86 else arm
        row = _vectors("mul_add", multiplied, _wrapping, same, arch, bits)
        yield replace(row, starts_per_cycle=rate, latency_cycles=1)


def _x86_rows(bits: int) -> Iterator[Intrinsic]:
    narrow = () if bits == 512 else ("avx512vl",)
    row = _vectors(BF16_DOT, "vdpbf16ps", _pairs_of_bf16, "bf16 bf16 f32", X86, bits)
    yield replace(
        row, needs=("avx512bf16", *narrow), latency_cycles=8, roundings=2, unit=2.0**-24,
        flushes=True,
    )  # fmt: skip
    for needs in (("avx512vnni", *narrow), *((("avxvnni",),) if narrow else ())):
        for name, instruction, dtypes in (
            ("dot_u8s8", "vpdpbusd", "u8 i8 i32"),
            ("dot_i16", "vpdpwssd", "i16 i16 i32"),
        ):
            row = _vectors(name, instruction, _wrapping, dtypes, X86, bits)
            yield replace(row, needs=needs, latency_cycles=5)
    row = _vectors("madd_i16", "vpmaddwd", _wrapping, "i16 i16 i32", X86, bits)
    yield replace(row, starts_per_cycle=0.75, latency_cycles=1)


def _arm_rows() -> Iterator[Intrinsic]:
    row = _vectors("dot_s8", "sdot", _wrapping, "i8 i8 i32", ARM, 128)
    yield replace(row, needs=("dotprod",))
    matrices = Intrinsic(
        name="mmla_s8", instruction="smmla", shape=(2, 2, 8), dtypes=("i8", "i8", "i32"),
        letters=("m2 k8", "n2 k8", "m2 n2"), semantics=_wrapping, arch=ARM, vector_bits=128,
        needs=("i8mm",), latency_cycles=3,
    )  # fmt: skip
    yield matrices
    yield replace(
        matrices, name="mmla_bf16", instruction="bfmmla", shape=(2, 2, 4),
        dtypes=("bf16", "bf16", "f32"), letters=("m2 k4", "n2 k4", "m2 n2"),
        semantics=_matrices_of_bf16, needs=("bf16",), latency_cycles=5, roundings=4, unit=2.0**-23,
        flushes=True,
    )  # fmt: skip


def _tile_rows() -> Iterator[Intrinsic]:
    bytes_ = Intrinsic(
        name="amx_s8", instruction="tdpbssd", shape=(16, 16, 64), dtypes=("i8", "i8", "i32"),
        letters=("m16 k64", "k16 n16 k'4", "m16 n16"), semantics=_wrapping, arch=X86, vector_bits=0,
        needs=("amx-tile", "amx-int8"), starts_per_cycle=1 / 16, latency_cycles=52,
    )  # fmt: skip
    yield bytes_
    yield replace(
        bytes_, name="amx_bf16", instruction="tdpbf16ps", shape=(16, 16, 32),
        dtypes=("bf16", "bf16", "f32"), letters=("m16 k32", "k16 n16 k'2", "m16 n16"),
        semantics=_tiles_of_bf16, needs=("amx-tile", "amx-bf16"), roundings=18, unit=2.0**-24,
        flushes=True,
    )  # fmt: skip


def _all_rows() -> Iterator[Intrinsic]:
    yield from _tile_rows()
    for bits in (128, 256, 512):
        yield from _x86_rows(bits)
    yield from _arm_rows()
    for arch, bits in ((X86, 128), (X86, 256), (X86, 512), (ARM, 128)):
        yield from _multiply_add_rows(arch, bits)


INTRINSICS = tuple(_all_rows())
"""Every row; of two with one name and width, the better instruction comes first."""


@lru_cache(maxsize=64)
def rows_of(target: CpuTarget) -> tuple[Intrinsic, ...]:
    """The rows that a machine can run at its vector width, one for each name and dtypes."""
    has = set(target.extensions.split(","))
    found: dict[tuple[str, tuple[str, str, str]], Intrinsic] = {}
    for row in INTRINSICS:
        wide = row.vector_bits in (0, target.vector_bits)
        if row.arch == target.arch and wide and has.issuperset(row.needs):
            found.setdefault((row.name, row.dtypes), row)
    return tuple(found.values())


def row_named(name: str, target: CpuTarget, dtypes: Sequence[DType] | None = None) -> Intrinsic:
    """The row called `name` for operands of these dtypes; ValueError that says what there is."""
    rows = rows_of(target)
    wanted = None if dtypes is None else tuple(dtype.name for dtype in dtypes)
    for row in rows:
        if row.name == name and wanted in (None, row.dtypes):
            return row
    known = ", ".join(dict.fromkeys(f"{row.name} ({', '.join(row.dtypes)})" for row in rows))
    said = f" for {', '.join(wanted)}" if wanted else ""
    raise ValueError(f"{target.name} has no instruction {name}{said}; expected one of {known}")


def extensions_in(texts: Sequence[str], target: CpuTarget) -> tuple[str, ...]:
    """The extensions, by LLVM's names, of the target's instructions that LLVM IR calls."""
    needs = dict.fromkeys(
        name
        for row in rows_of(target)
        if row.needs and any(_is_called(row.instruction, text) for text in texts)
        for name in row.needs
    )
    return tuple(needs)


def _is_called(instruction: str, text: str) -> bool:
    """Some of LLVM's names have the mnemonic's "v": `vpdpbusd.512`, but `dpbf16ps.512`."""
    return any(f".{name}." in text for name in {instruction, instruction.removeprefix("v")})
