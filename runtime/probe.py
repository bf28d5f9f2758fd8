"""
This machine as a `CpuTarget`.

`host_target` costs a few milliseconds: LLVM's host detection (CPUID; on Arm the kernel's auxiliary
vector) and sysfs. Rates are then estimates from the clock. `measure` runs micro-benchmarks for
about a second, on request (`mlc machine --measure`), and keeps the figures beside the object cache.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from mlc import knobs
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.loop_costs import loop_costs_for
from mlc.lazy_dataclass import dataclass
from mlc.runtime import jit, private_folder, threads, tile_permission
from mlc.runtime.llvm import compile_object, host_cpu, host_triple
from mlc.runtime.private_folder import UnsafeError

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
)

# Vector FMAs a core starts each cycle at the full width used here. SOURCE: optimization guides of
# Intel, Arm and AMD (Zen 4: 512-bit in halves); every other machine of the class gets the default.
_FMA_PORTS_512 = {
    "skylake-avx512": 2, "cascadelake": 2, "cooperlake": 2, "icelake-server": 2,
    "sapphirerapids": 2, "emeraldrapids": 2, "graniterapids": 2, "znver5": 2,
}  # fmt: skip
_BF16_DOT_FACTOR = {"znver4": 0.5, "znver5": 0.5}
_FMA_PORTS_128 = {"neoverse-v1": 4, "neoverse-v2": 4, "neoverse-v3": 4, "apple-m1": 4}


@dataclass(frozen=True, kw_only=True)
class _CacheLevel:
    size_bytes: int
    ways: int
    sharing_cpus: int
    line_bytes: int


@lru_cache(maxsize=1)
def host_target() -> CpuTarget:
    """The machine this process runs on; measured rates where `measure` has stored them."""
    estimated = _estimated_target()
    stored = _stored_rates(estimated)
    if stored is None:
        return estimated
    return _with_rates(estimated, stored)


def _estimated_target() -> CpuTarget:
    name, features = host_cpu()
    triple = host_triple()
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
        loops=loop_costs_for(name, 7 if vector_bits == 512 else 0),
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
    wide = ("avx512f", "avx512vl", "avx512dq", "avx512bw")
    if all(features.get(feature, False) for feature in wide):
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


def measure(*, seconds: float = 1.0, store: bool = True) -> CpuTarget:
    """
    The host with measured rates: FMAs of one core, reads of one core per level, reads of all cores.
    Takes about `seconds`; stored on disk for later processes unless `store` is false.
    """
    target = _estimated_target()
    bench = _Benchmark(target, seconds / len(MEASURED_FIELDS))
    memory_bytes = min(max(4 * target.l3_bytes, 64 << 20), 256 << 20)
    rates = {
        "f32_flops_per_s": bench.fma_rate(),
        "l1_read_bytes_per_s": bench.read_rate(target.l1d_bytes // 2),
        "l2_read_bytes_per_s": bench.read_rate(target.l2_bytes // 2),
        "l3_read_bytes_per_s": bench.read_rate(
            max(2 * target.l2_bytes, target.l3_bytes // (4 * target.cores_per_l3))
        ),
        "memory_read_bytes_per_s": bench.read_rate(memory_bytes),
    }
    half = target.l3_bytes // 2
    rates["l3_half_read_bytes_per_s"] = bench.read_rate(half or memory_bytes)
    rates["memory_read_all_cores_bytes_per_s"] = bench.parallel_read_rate(
        memory_bytes // target.cores, target.cores
    )
    if store:
        _store_rates(target, rates)
        host_target.cache_clear()
    return _with_rates(target, rates)


class _Benchmark:
    """The two kernels of probe.ll, loaded, with a time budget for each figure."""

    def __init__(self, target: CpuTarget, budget_s: float) -> None:
        lanes = target.lanes(32)
        text = Path(__file__).with_name("probe.ll").read_text().replace("LANES", str(lanes))
        names = ("mlc_probe_fma", "mlc_probe_read")
        self._code = jit.load([compile_object(text, target)], imports={}, exports=names)
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        fma, read = (self._code.address(name) for name in names)
        self._fma = ctypes.CFUNCTYPE(None, pointer, count)(fma)
        self._read = ctypes.CFUNCTYPE(None, pointer, count, count, pointer)(read)
        self._out = ctypes.create_string_buffer(256)
        self._lanes = lanes
        self._budget_s = budget_s

    def _best_s(self, run: Callable[[], None]) -> float:
        """The shortest run within the budget, at least three after one to warm up."""
        run()
        best = float("inf")
        end = time.perf_counter() + self._budget_s
        trials = 0
        while trials < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - start)
            trials += 1
        return best

    def fma_rate(self) -> float:
        """float32 operations per second of one core."""
        trips = 100_000
        best = self._best_s(lambda: self._fma(ctypes.addressof(self._out), trips))
        return 12 * 2 * self._lanes * trips / best

    def read_rate(self, size_bytes: int) -> float:
        """Bytes per second of one core over a buffer of this size, read again and again."""
        group_bytes = 8 * 4 * self._lanes
        groups = max(1, size_bytes // group_bytes)
        repeats = max(1, (1 << 22) // (groups * group_bytes))
        with _Buffer(groups * group_bytes) as address:
            out = ctypes.addressof(self._out)
            best = self._best_s(lambda: self._read(address, groups, repeats, out))
        return groups * group_bytes * repeats / best

    def parallel_read_rate(self, size_bytes: int, cores: int) -> float:
        """Bytes per second of `cores` threads, each over its own buffer (ctypes drops the GIL)."""
        rates = [0.0] * cores
        start = threading.Barrier(cores)

        def work(core: int) -> None:
            start.wait()
            rates[core] = self.read_rate(size_bytes)

        workers = [threading.Thread(target=work, args=(core,)) for core in range(cores)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(rates)


class _Buffer:
    """Page-aligned memory on huge pages where possible, every page touched."""

    def __init__(self, size_bytes: int) -> None:
        self._map = mmap.mmap(-1, size_bytes)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self._size_bytes = size_bytes
        self._view: ctypes.c_char | None = None

    def __enter__(self) -> int:
        self._view = ctypes.c_char.from_buffer(self._map)
        address = ctypes.addressof(self._view)
        ctypes.memset(address, 1, self._size_bytes)
        return address

    def __exit__(self, *_: object) -> None:
        self._view = None
        self._map.close()


def _with_rates(target: CpuTarget, rates: Mapping[str, float]) -> CpuTarget:
    return replace(
        target,
        f32_flops_per_s=rates["f32_flops_per_s"],
        l1_read_bytes_per_s=rates["l1_read_bytes_per_s"],
        l2_read_bytes_per_s=rates["l2_read_bytes_per_s"],
        l3_read_bytes_per_s=rates["l3_read_bytes_per_s"],
        l3_half_read_bytes_per_s=rates["l3_half_read_bytes_per_s"],
        memory_read_bytes_per_s=rates["memory_read_bytes_per_s"],
        memory_read_all_cores_bytes_per_s=rates["memory_read_all_cores_bytes_per_s"],
        source="LLVM host detection and sysfs; rates measured by runtime/probe.py",
    )


def _rates_file(target: CpuTarget) -> Path:
    caches = f"{target.l1d_bytes}:{target.l2_bytes}:{target.l3_bytes}"
    identity = f"{target.isa()}:{target.cores}:{caches}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return knobs.current().cache_dir / f"machine-{digest}.json"


def _stored_rates(target: CpuTarget) -> dict[str, float] | None:
    path = _rates_file(target)
    try:
        with private_folder.opened(path.parent) as folder:
            text = private_folder.read(folder, path.name, at_most=_RATES_BYTES)
        content: object = json.loads(text or b"")
    except (OSError, ValueError, UnsafeError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    rates: dict[str, float] = {}
    for field in MEASURED_FIELDS:
        value: object = content.get(field)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(value, float) or not 0 < value < math.inf:
            return None
        rates[field] = value
    return rates


def _store_rates(target: CpuTarget, rates: Mapping[str, float]) -> None:
    path = _rates_file(target)
    with suppress(OSError, UnsafeError), private_folder.opened(path.parent, create=True) as folder:
        private_folder.write(folder, path.name, json.dumps(dict(rates), indent=1).encode())
