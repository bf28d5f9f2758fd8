"""A CPU as the cost model and the code generator see it. Every field has a unit and a source."""

from __future__ import annotations

from typing import ClassVar

from mlc.cached_property import cached_property
from mlc.dialects.target.facts import MathUnit, Roof
from mlc.dialects.target.loop_costs import ZEN3, LoopCosts
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class CpuTarget:
    """
    One CPU. Caches are data or unified; "per core" means per physical core.

    Where a machine is only named (known.py), the figures are those of the part that `source` cites.
    """

    forms_tile_loops: ClassVar[bool] = True
    """Whether ops are computed together tile by tile, in loops whose trips threads share."""

    has_partition: ClassVar[bool] = True
    """Whether a partition has loops of its own; else it is made of sorts."""

    packs_factors: ClassVar[bool] = True
    """Whether a tiled contraction reads a factor from panels that were packed before."""

    stores_partial_sums: ClassVar[bool] = True
    """Whether the parts of a long sum wait in the result's memory between blocks."""

    merges_reductions: ClassVar[bool] = True
    """Whether a kernel may combine several reductions of its points at the same time."""

    launches_grids: ClassVar[bool] = False
    """Whether the host starts kernels as grids of blocks; else it calls them."""

    name: str
    """What `--target=` says; "host" for the machine the probe ran on."""

    triple: str
    """LLVM target triple."""

    cpu_name: str
    """LLVM's -mcpu. Of a named x86 machine a level of the instruction set: what code uses beyond
    that is in `extensions`, and said where it is used."""

    features: str = ""
    """LLVM's -mattr, such as "+avx2,+fma"; empty: what cpu_name implies."""

    vector_bits: int
    """Width of the widest vector the code uses. Source: ISA."""

    num_vector_registers: int
    """Architectural vector registers of that width, per hardware thread. Source: ISA."""

    num_mask_registers: int = 0
    """Architectural predicate registers that a loop can use; 0: masks live in vectors."""

    fma_ports: int
    """Vector FMA instructions a core starts each cycle at full width. Source: as `source`."""

    fma_latency_cycles: int = 4
    """Cycles from an FMA's start to its result. Source: as `source`; 4 on all x86 since 2015."""

    clock_hz: float
    """Sustained clock under vector load. Source: as `source`."""

    cache_line_bytes: int = 64
    """Source: CPUID leaf 1 or sysfs coherency_line_size."""

    page_bytes: int = 4096
    """Base page. Source: sysconf."""

    l1d_bytes: int
    """Level-1 data cache per core. Source: CPUID leaf 4 / sysfs."""

    l1d_ways: int
    """Associativity of the level-1 data cache. Source: as l1d_bytes."""

    l2_bytes: int
    """Level-2 cache per core. Source: as l1d_bytes."""

    l2_ways: int
    """Associativity of the level-2 cache. Source: as l1d_bytes."""

    l3_bytes: int
    """Level-3 cache of one sharing group; 0: none. Source: as l1d_bytes."""

    l3_ways: int = 16
    """Associativity of the level-3 cache. Source: as l1d_bytes."""

    cores_per_l3: int = 1
    """Physical cores that share one level-3 cache. Source: sysfs shared_cpu_list."""

    cores: int
    """Physical cores this process may use. Source: sysfs, affinity mask, cgroup quota."""

    threads_per_core: int = 1
    """Hardware threads per physical core. Source: sysfs thread_siblings_list."""

    f32_flops_per_s: float
    """Peak of one core in float32 FMA. Source: 2 * lanes * fma_ports * clock_hz, or measured."""

    l1_read_bytes_per_s: float
    """One core, vector loads that hit level 1. Source: as `source`, or measured."""

    l2_read_bytes_per_s: float
    """One core, data in level 2. Source: as above."""

    l3_read_bytes_per_s: float
    """One core, data in level 3. Source: as above."""

    l3_half_read_bytes_per_s: float = 0.0
    """One core, data that fill half of level 3; 0: not measured. Source: as above."""

    memory_read_bytes_per_s: float
    """One core, data in memory. Source: as above."""

    memory_read_all_cores_bytes_per_s: float
    """All cores together, data in memory. Source: as above."""

    l1_write_bytes_per_s: float = 0.0
    """One core, vector stores that hit level 1; 0: not measured, as reads over `write_factor`.
    Source: as above."""

    l2_write_bytes_per_s: float = 0.0
    """Likewise, lines in level 2, which move to level 1 and back."""

    l3_write_bytes_per_s: float = 0.0
    """Likewise, lines in level 3."""

    l3_half_write_bytes_per_s: float = 0.0
    """Likewise, lines that fill half of level 3."""

    memory_write_bytes_per_s: float = 0.0
    """Likewise, lines in memory."""

    fork_join_s: float = 2e-6
    """Starting and joining a parallel region. Source: decisions.md D15, rounded up."""

    barrier_s: float = 5e-7
    """One barrier inside a parallel region. Source: decisions.md D15, rounded up."""

    extensions: str = ""
    """Instructions for products beyond FMA, by LLVM's names, with commas, such as "avx512vnni";
    those that the kernel refuses left out. Source: ISA."""

    bf16_dot_factor: float = 0.25
    """`vdpbf16ps` that start, in parts of the vector FMAs that could: on Sapphire and Emerald
    Rapids one for four, on Zen 4 as many.
    Measured: docs/measurements.md, Instructions that multiply."""

    kernel_start_s: float = 5e-8
    """One kernel more, in a search: its call, and memory that it waits for. Source: estimate."""

    write_factor: float = 1.4
    """Writing to reading, where writing was not measured: a line is fetched first. Measured:
    docs/measurements.md, Cost model."""

    loops: LoopCosts = ZEN3
    """What loops take beside that: a row of its own. Source: as that says."""

    source: str
    """Where the figures come from."""

    @property
    def arch(self) -> str:
        """The architecture: "x86_64" or "aarch64"."""
        return self.triple.partition("-")[0]

    def lanes(self, item_bits: int) -> int:
        """Elements of `item_bits` in one vector."""
        return max(1, self.vector_bits // item_bits)

    @property
    def f64_flops_per_s(self) -> float:
        """Peak of one core in float64 FMA: half as many lanes as float32."""
        return self.f32_flops_per_s / 2

    @property
    def has_lane_tables(self) -> bool:
        """
        Whether a register can be a table that lanes index (vpermi2), and exponents are read and set
        by one instruction (vgetexp, vgetmant, vscalef): AVX-512.
        """
        return self.vector_bits == 512 and self.triple.startswith("x86_64")

    @property
    def fills_lines(self) -> bool:
        """Whether a vector is as wide as a cache line: one in any other place lies in two."""
        return self.vector_bits == 8 * self.cache_line_bytes

    @property
    def least_masked_bytes(self) -> int:
        """
        Bytes of the smallest elements of which one instruction loads a part of a vector; LLVM loads
        smaller ones one by one. Source: Intel SDM (AVX-512BW, VMASKMOV); NEON has no masks.
        """
        if self.num_mask_registers:
            return 1
        return 4 if self.triple.startswith("x86_64") else 16

    @property
    def math_unit(self) -> MathUnit:
        """What it has for functions."""
        return MathUnit.LANE_TABLES if self.has_lane_tables else MathUnit.NONE

    def __hash__(self) -> int:
        return hash((self.name, self.cpu_name, self.f32_flops_per_s))  # searches ask often

    @cached_property
    def cache_bytes(self) -> tuple[int, int, int]:
        """Of levels 1 to 3; what none holds is in memory."""
        return self.l1d_bytes, self.l2_bytes, self.l3_bytes

    def read_rates(self, threads: int = 1) -> tuple[float, float, float, float, float]:
        """
        Bytes per second from levels 1 to 3, from a level 3 of which half is in use, and from
        memory, for threads that share the work.
        """
        memory = min(self.memory_read_bytes_per_s * threads, self.memory_read_all_cores_bytes_per_s)
        memory = max(memory, self.memory_read_bytes_per_s)
        near = self.l1_read_bytes_per_s, self.l2_read_bytes_per_s, self.l3_read_bytes_per_s
        half = self.l3_half_read_bytes_per_s or self.l3_read_bytes_per_s
        first, second, third, half = (rate * threads or memory for rate in (*near, half))
        return first, second, third, half, memory

    def write_rates(self, threads: int = 1) -> tuple[float, float, float, float, float]:
        """Bytes per second written, as `read_rates`; threads share the memory as they do there."""
        reading, alone = self.read_rates(threads), self.read_rates()
        written = (
            self.l1_write_bytes_per_s, self.l2_write_bytes_per_s, self.l3_write_bytes_per_s,
            self.l3_half_write_bytes_per_s, self.memory_write_bytes_per_s,
        )  # fmt: skip
        first, second, third, half, memory = (
            rate * both / one if rate else both / self.write_factor
            for rate, both, one in zip(written, reading, alone, strict=True)
        )
        return first, second, third, half, memory

    @property
    def cycle_s(self) -> float:
        """Seconds of a cycle: the clock that the peak, which is measured, implies."""
        return 2 * self.lanes(32) * self.fma_ports / self.f32_flops_per_s

    @property
    def trip_s(self) -> float:
        """Seconds of a trip of a loop over single elements, which is one kernel: a cycle."""
        return self.cycle_s

    def starts_s(self, threads: int = 1) -> tuple[float, float]:
        """Seconds of one kernel more, and of a barrier in it."""
        if threads == 1:
            return self.kernel_start_s, 0.0
        return self.fork_join_s, self.barrier_s

    def roofs(self, threads: int) -> tuple[Roof, ...]:
        """Bandwidths from the fastest down, then peaks, for so many threads."""
        memory = min(self.memory_read_bytes_per_s * threads, self.memory_read_all_cores_bytes_per_s)
        peak = self.f32_flops_per_s * threads
        return (
            Roof("level 1", "L1", bytes_per_s=self.l1_read_bytes_per_s * threads),
            Roof("level 2", "L2", bytes_per_s=self.l2_read_bytes_per_s * threads),
            Roof("level 3", "L3", bytes_per_s=self.l3_read_bytes_per_s * threads),
            Roof("memory", "memory", bytes_per_s=max(memory, self.memory_read_bytes_per_s)),
            Roof("float32 peak with multiply-adds", "peak", flops_per_s=peak),
            Roof("float32 peak without multiply-adds", "no FMA", flops_per_s=peak / 2),
        )

    def isa(self) -> str:
        """The instruction set an object was made for; part of every cache key."""
        return f"{self.triple}:{self.cpu_name}:{self.features}:{self.vector_bits}"
