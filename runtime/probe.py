"""
This machine as a `CpuTarget`.

`host_target` costs a few milliseconds: LLVM's host detection (CPUID; on Arm the kernel's auxiliary
vector) and sysfs. Rates are then estimates from the clock. `measure` runs micro-benchmarks for
about a second, on request (`mlc machine --measure`, which measures loops as well), and `keep` keeps
the figures beside the object cache.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import cast

from mlc import knobs
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.loop_costs import LoopCosts, loop_costs_for
from mlc.lazy_dataclass import dataclass
from mlc.runtime import private_folder, threads, tile_permission
from mlc.runtime.features import OF_VECTORS
from mlc.runtime.host import host
from mlc.runtime.private_folder import UnsafeError

SOURCE = "LLVM host detection and sysfs; rates measured by runtime/probe.py"
_SYSFS = Path("/sys/devices/system/cpu/cpu0")
_RATES_BYTES = 1 << 16  # of the file with what was measured, at most
_DEFAULT_CLOCK_HZ = 2.5e9  # where neither cpufreq nor /proc/cpuinfo tells

MEASURED_FIELDS = (
    "f32_flops_per_s",
    "l1_read_bytes_per_s",
    "l2_read_bytes_per_s",
    "l3_read_bytes_per_s",
    "l3_half_read_bytes_per_s",
    "memory_read_bytes_per_s",
    "memory_read_all_cores_bytes_per_s",
    "l1_write_bytes_per_s",
    "l2_write_bytes_per_s",
    "l3_write_bytes_per_s",
    "l3_half_write_bytes_per_s",
    "memory_write_bytes_per_s",
)

# Vector FMAs a core starts each cycle at the full width used here. SOURCE: optimization guides of
# Intel, Arm and AMD (Zen 4: 512-bit in halves); every other machine of the class gets the default.
_FMA_PORTS_512 = {
    "skylake-avx512": 2, "cascadelake": 2, "cooperlake": 2, "icelake-server": 2,
    "sapphirerapids": 2, "emeraldrapids": 2, "graniterapids": 2, "znver5": 2,
}  # fmt: skip
_BF16_DOT_FACTOR = {"znver4": 1.0, "znver5": 0.5, "cooperlake": 1.0}
_FMA_PORTS_128 = {"neoverse-v1": 4, "neoverse-v2": 4, "neoverse-v3": 4, "apple-m1": 4}


@dataclass(frozen=True, kw_only=True)
class _CacheLevel:
    size_bytes: int
    ways: int
    sharing_cpus: int
    line_bytes: int


@lru_cache(maxsize=1)
def host_target() -> CpuTarget:
    """The machine this process runs on; with what was measured where `keep` has stored that."""
    estimated = estimated_target()
    return _kept(estimated) or estimated


def estimated_target() -> CpuTarget:
    """The host, its rates from its clock."""
    found = host()
    name, features, triple = found.name, found.features, found.triple
    vector_bits = _vector_bits(triple, features)
    caches = _caches()
    fallback = _CacheLevel(size_bytes=0, ways=16, sharing_cpus=1, line_bytes=64)
    l1 = caches.get(1, replace(fallback, size_bytes=32 << 10, ways=8))
    l2 = caches.get(2, replace(fallback, size_bytes=512 << 10, ways=8))
    l3 = caches.get(3, fallback)
    smt = _threads_per_core()
    ports = _fma_ports(name, vector_bits, features)
    clock = _clock_hz()
    vector_bytes = vector_bits // 8
    cores = threads.default_count()
    return CpuTarget(
        name="host",
        triple=triple,
        cpu_name=name,
        features=",".join(f"{'+' if on else '-'}{key}" for key, on in sorted(features.items())),
        vector_bits=vector_bits,
        num_vector_registers=32 if vector_bits == 512 or triple.startswith("aarch64") else 16,
        num_mask_registers=7 if vector_bits == 512 else 0,
        fma_ports=ports,
        bf16_dot_factor=_BF16_DOT_FACTOR.get(name, CpuTarget.bf16_dot_factor),
        clock_hz=clock,
        cache_line_bytes=l1.line_bytes,
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        l1d_bytes=l1.size_bytes,
        l1d_ways=l1.ways,
        l2_bytes=l2.size_bytes // max(1, l2.sharing_cpus // smt),
        l2_ways=l2.ways,
        l3_bytes=l3.size_bytes,
        l3_ways=l3.ways,
        cores_per_l3=max(1, l3.sharing_cpus // smt),
        cores=cores,
        threads_per_core=smt,
        f32_flops_per_s=2 * (vector_bits // 32) * ports * clock,
        l1_read_bytes_per_s=2 * vector_bytes * clock,
        l2_read_bytes_per_s=vector_bytes * clock / 1.5,
        l3_read_bytes_per_s=min(vector_bytes, 16) * clock,
        memory_read_bytes_per_s=15e9,
        memory_read_all_cores_bytes_per_s=15e9 * max(1.0, min(cores, 8) * 0.75),
        extensions=extensions(features),
        loops=loop_costs_for(7 if vector_bits == 512 else 0),
        source="LLVM host detection and sysfs; rates estimated from the clock "
        "(2 loads a cycle from level 1, 2/3 of one from level 2, 16 bytes from level 3)",
    )


_EXTENSIONS = (
    "amx-bf16", "amx-int8", "amx-tile", "avx512bf16", "avx512vl", "avx512vnni", "avxvnni", "bf16",
    "dotprod", "i8mm",
)  # fmt: skip
"""What the rows of dialects/target/intrinsics.py may need."""


def extensions(features: Mapping[str, bool]) -> str:
    """Those that the processor has, and of AMX what the kernel lets this process use."""
    has = (name for name in _EXTENSIONS if features.get(name, False))
    return ",".join(name for name in has if not name.startswith("amx") or tile_permission.granted())


def _vector_bits(triple: str, features: Mapping[str, bool]) -> int:
    if triple.startswith("aarch64"):
        return 128  # NEON; SVE's length is not fixed at compile time
    if all(features.get(feature, False) for feature in OF_VECTORS[512]):
        return 512
    return 256 if features.get("avx2", False) else 128


def _fma_ports(cpu_name: str, vector_bits: int, features: Mapping[str, bool]) -> int:
    if vector_bits == 512:
        # a guest may be told another model than its host is; SOURCE: every part with AMX has two
        return 2 if features.get("amx-tile", False) else _FMA_PORTS_512.get(cpu_name, 1)
    return _FMA_PORTS_128.get(cpu_name, 2) if vector_bits == 128 else 2


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _byte_size(text: str) -> int:
    """sysfs writes "48K" and "32768K"."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG") or 0) * unit


def _cpu_count(cpu_list: str) -> int:
    """How many CPUs "0-3,8" names."""
    total = 0
    for part in cpu_list.split(","):
        first, _, last = part.partition("-")
        if first:
            total += int(last or first) - int(first) + 1
    return max(1, total)


def _caches() -> dict[int, _CacheLevel]:
    """Level -> data or unified cache of CPU 0."""
    found: dict[int, _CacheLevel] = {}
    for index in range(8):
        folder = _SYSFS / "cache" / f"index{index}"
        level = _text(folder / "level")
        if not level or _text(folder / "type") == "Instruction":
            continue
        with suppress(ValueError):
            found[int(level)] = _CacheLevel(
                size_bytes=_byte_size(_text(folder / "size")),
                ways=int(_text(folder / "ways_of_associativity") or 0) or 16,
                sharing_cpus=_cpu_count(_text(folder / "shared_cpu_list")),
                line_bytes=int(_text(folder / "coherency_line_size") or 64),
            )
    return found


def _threads_per_core() -> int:
    return _cpu_count(_text(_SYSFS / "topology" / "thread_siblings_list"))


def _clock_hz() -> float:
    with suppress(ValueError):
        return int(_text(_SYSFS / "cpufreq" / "cpuinfo_max_freq")) * 1e3
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("cpu MHz"):
                    return float(line.partition(":")[2]) * 1e6
    except (OSError, ValueError):
        pass
    return _DEFAULT_CLOCK_HZ


# ---- measuring


def _sizes(target: CpuTarget) -> dict[str, int]:
    """Of working sets that lie in a level."""
    memory = min(max(4 * target.l3_bytes, 64 << 20), 256 << 20)
    return {
        "l1": target.l1d_bytes // 2,
        "l2": target.l2_bytes // 2,
        "l3": max(2 * target.l2_bytes, target.l3_bytes // (4 * target.cores_per_l3)),
        "l3_half": target.l3_bytes // 2 or memory,
        "memory": memory,
    }


def measure(*, seconds: float = 1.0) -> CpuTarget:
    """
    The host with measured rates: FMAs of one core, reads and writes of one core per level, reads of
    all cores. Takes about `seconds`.
    """
    target = estimated_target()
    from mlc.runtime.microbenchmarks import Benchmark

    bench, sizes = Benchmark(target, seconds / len(MEASURED_FIELDS)), _sizes(target)
    rates = {"f32_flops_per_s": bench.fma_rate()}
    for level, size in sizes.items():
        rates[f"{level}_read_bytes_per_s"] = bench.read_rate(size)
        rates[f"{level}_write_bytes_per_s"] = bench.write_rate(size)
    rates["memory_read_all_cores_bytes_per_s"] = bench.parallel_read_rate(
        sizes["memory"] // target.cores, target.cores
    )
    return replace(target, source=SOURCE, **rates)


def measured_waits(target: CpuTarget, *, seconds: float = 1.0) -> dict[str, float]:
    """Of `LoopCosts`, how long lines of each level take that no stream brings."""
    from mlc.runtime.microbenchmarks import Benchmark

    sizes = {level: _sizes(target)[level] for level in ("l2", "l3", "memory")}
    bench, found = Benchmark(target, seconds / (2 * len(sizes))), dict[str, float]()
    for level, size in sizes.items():
        found[f"{level}_first_s"] = bench.first_s(size)
        found[f"{level}_line_s"] = bench.line_s(size)
    return found


def _rates_file(target: CpuTarget) -> Path:
    caches = f"{target.l1d_bytes}:{target.l2_bytes}:{target.l3_bytes}"
    identity = f"{target.isa()}:{target.cores}:{caches}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return knobs.current().cache_dir / f"machine-{digest}.json"


def _kept(target: CpuTarget) -> CpuTarget | None:
    """The machine with what `keep` has stored of it; None where that is nothing that it wrote."""
    path = _rates_file(target)
    try:
        with private_folder.opened(path.parent) as folder:
            text = private_folder.read(folder, path.name, at_most=_RATES_BYTES)
        content: object = json.loads(text or b"")
    except (OSError, ValueError, UnsafeError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    found = cast("dict[str, object]", content)
    rates = {field: found.get(field) for field in MEASURED_FIELDS}
    row = found.get("loops")
    if not all(_is_rate(rate) for rate in rates.values()) or not isinstance(row, dict):
        return None
    loops = _row(target.loops, cast("dict[str, object]", row))
    if loops is None:
        return None
    return replace(target, source=SOURCE, loops=loops, **rates)


def _row(base: LoopCosts, found: Mapping[str, object]) -> LoopCosts | None:
    """What loops take; None where a figure is none that there is."""
    kinds = {field.name: field.type for field in fields(LoopCosts)}
    for name, value in found.items():
        if name == "name" or kinds.get(name) != type(value).__name__:
            return None
        if isinstance(value, int | float) and not 0 < value < math.inf:
            return None
    row = replace(base, **found)
    try:
        return row if all(_is_rate(x) for pair in row.functions.values() for x in pair) else None
    except ValueError:
        return None


def _is_rate(value: object) -> bool:
    return isinstance(value, float) and 0 < value < math.inf


def keep(target: CpuTarget) -> None:
    """Stores what was measured of the host for later processes."""
    loops, base = target.loops, estimated_target().loops
    figures = {name: value for name, value in asdict(loops).items() if value != getattr(base, name)}
    content = {field: getattr(target, field) for field in MEASURED_FIELDS} | {"loops": figures}
    path = _rates_file(target)
    with suppress(OSError, UnsafeError), private_folder.opened(path.parent, create=True) as folder:
        private_folder.write(folder, path.name, json.dumps(content, indent=1).encode())
    host_target.cache_clear()
