"""An NVIDIA GPU as the cost model and the code generator see it."""

from __future__ import annotations

from typing import ClassVar

from mlc.dialects.dtypes import F64, DType
from mlc.dialects.target.facts import MathUnit, Roof
from mlc.lazy_dataclass import dataclass

STATIC_SHARED_BYTES = 48 << 10
"""That a block has without asking for more when it is started. SOURCE: CUDA programming guide"""


@dataclass(frozen=True, kw_only=True)
class GpuTarget:
    """
    One GPU. Limits per compute capability: CUDA C++ Programming Guide 12.8, table "Technical
    Specifications per Compute Capability"; rates: the data sheet that `source` cites, dense.
    """

    forms_tile_loops: ClassVar[bool] = False
    """As of a CPU."""

    has_partition: ClassVar[bool] = False
    """As of a CPU."""

    packs_factors: ClassVar[bool] = False
    """As of a CPU: blocks stage tiles of both factors in shared memory."""

    stores_partial_sums: ClassVar[bool] = False
    """As of a CPU: sums stay in registers."""

    merges_reductions: ClassVar[bool] = False
    """Whether a kernel may combine several reductions of its points at the same time."""

    launches_grids: ClassVar[bool] = True
    """As of a CPU."""

    cache_bytes: ClassVar[tuple[int, int, int]] = (0, 0, 0)
    fills_lines: ClassVar[bool] = False
    """As of a CPU: a grid's streams are taken to come from device memory."""

    name: str
    """What `--target=` says after "cuda:"."""

    compute_capability: int
    """10 * major + minor, such as 90."""

    arch_specific: bool = False
    """Whether code uses the features of exactly this architecture (the suffix "a" of sm_90a)."""

    ptx_version: str
    """The PTX ISA version the emitted text declares, such as "8.3"."""

    sm_count: int
    """Streaming multiprocessors. Source: as `source`."""

    clock_hz: float
    """Boost clock. Source: as `source`."""

    warp_lanes: int = 32
    """Threads of a warp."""

    max_threads_per_block: int = 1024
    """Source: Programming Guide."""

    max_threads_per_sm: int
    """Resident threads of one SM. Source: Programming Guide."""

    max_blocks_per_sm: int
    """Resident blocks of one SM. Source: Programming Guide."""

    registers_per_sm: int = 65_536
    """32-bit registers of one SM. Source: Programming Guide."""

    max_registers_per_thread: int = 255
    """Source: Programming Guide."""

    shared_bytes_per_sm: int
    """Shared memory of one SM. Source: Programming Guide."""

    shared_bytes_per_block: int
    """The most one block can ask for (opt-in). Source: Programming Guide."""

    cache_line_bytes: int = 128
    """Of both levels. Source: CUDA C++ Programming Guide, global memory."""

    l2_bytes: int
    """Source: as `source`."""

    hbm_bytes: int
    """Device memory. Source: as `source`."""

    hbm_bytes_per_s: float
    """Device memory, data sheet. Source: as `source`."""

    l2_read_bytes_per_s: float
    """Level 2 to SMs. Source: 64 bytes per SM and clock, or as `source`."""

    f32_flops_per_s: float
    """CUDA cores. Source: as `source`."""

    f64_flops_per_s: float
    """CUDA cores. Source: as `source`."""

    tensor_f16_flops_per_s: float
    """Tensor cores, f16 or bf16 into f32. Source: as `source`."""

    tensor_tf32_flops_per_s: float = 0.0
    """Tensor cores, tf32; 0: none. Source: as `source`."""

    tensor_f8_flops_per_s: float = 0.0
    """Tensor cores, fp8; 0: none. Source: as `source`."""

    tensor_f64_flops_per_s: float = 0.0
    """Tensor cores, f64; 0: none. Source: as `source`."""

    tensor_core_kinds: tuple[str, ...] = ("mma",)
    """"mma" (warp), "wgmma" (warpgroup, sm_90a), "tcgen05" (sm_100a). Source: PTX ISA."""

    has_async_copy: bool = True
    """cp.async. Source: PTX ISA, sm_80 on."""

    has_tma: bool = False
    """cp.async.bulk.tensor. Source: PTX ISA, sm_90 on."""

    has_grid_dependencies: bool = False
    """griddepcontrol: a kernel's blocks may begin before the one before has ended. Source: PTX ISA,
    sm_90 on."""

    launch_s: float = 6.8e-6
    """One kernel launch without a graph. Source: PyCUDA prepared launch, measured on an H200."""

    kernel_start_s: float = 3e-6
    """One kernel more, inside a CUDA graph. Source: CUDA C++ Programming Guide 12.8, graphs."""

    write_factor: float = 1.0
    """Writing to reading. Source: estimate, not compared with a clock."""

    host_link_bytes_per_s: float = 25e9
    """Host to device, pinned. Source: PCIe 4.0 x16 less protocol overhead."""

    source: str
    """Where the figures come from."""

    @property
    def sm(self) -> str:
        """The architecture's name, such as "sm_90a"."""
        return f"sm_{self.compute_capability}{'a' if self.arch_specific else ''}"

    @property
    def declared_bytes_per_block(self) -> int:
        """
        The most shared memory that code declares. Source: ptxas 13.0, which refuses more except for
        exactly one architecture.
        """
        return self.shared_bytes_per_block if self.arch_specific else STATIC_SHARED_BYTES

    @property
    def math_unit(self) -> MathUnit:
        """What it has for functions."""
        return MathUnit.SPECIAL

    def __hash__(self) -> int:
        return hash((self.name, self.hbm_bytes_per_s))  # searches look machines up often

    def read_rates(self, threads: int = 1) -> tuple[float, float, float, float, float]:
        """As of a CPU, for all blocks of a grid."""
        rate = self.hbm_bytes_per_s
        return rate, rate, rate, rate, rate

    def write_rates(self, threads: int = 1) -> tuple[float, float, float, float, float]:
        """Likewise."""
        first, second, third, half, memory = (
            x / self.write_factor for x in self.read_rates(threads)
        )
        return first, second, third, half, memory

    @property
    def trip_s(self) -> float:
        """Seconds of a trip of a loop over single elements: it is a kernel at least."""
        return self.kernel_start_s

    def starts_s(self, threads: int = 1) -> tuple[float, float]:
        """As of a CPU; barriers inside a block are part of what it computes."""
        return self.kernel_start_s, 0.0

    def flops_per_s(self, dtype: DType) -> float:
        """Operations a second of the cores."""
        return self.f64_flops_per_s if dtype is F64 else self.f32_flops_per_s

    def tensor_flops_per_s(self, dtype: DType) -> float:
        """Of tensor cores on factors of a dtype, f32 as tf32; 0: they do not multiply such."""
        if dtype.kind not in ("float", "storage"):
            return 0.0
        rates = {
            1: self.tensor_f8_flops_per_s, 2: self.tensor_f16_flops_per_s,
            4: self.tensor_tf32_flops_per_s, 8: self.tensor_f64_flops_per_s,
        }  # fmt: skip
        return rates[dtype.bytes]

    @property
    def multiplies_in_groups(self) -> bool:
        """Whether groups of warps multiply what the copy engine brings: `wgmma`."""
        return "wgmma" in self.tensor_core_kinds and self.has_tma

    def roofs(self, threads: int) -> tuple[Roof, ...]:
        """Bandwidths from the fastest down, then the peak."""
        return (
            Roof("level 2", "L2", bytes_per_s=self.l2_read_bytes_per_s),
            Roof("device memory", "memory", bytes_per_s=self.hbm_bytes_per_s),
            Roof("float32 peak", "peak", flops_per_s=self.f32_flops_per_s),
        )

    def isa(self) -> str:
        """The instruction set PTX was made for; part of every cache key."""
        return f"nvptx64:{self.sm}:{self.ptx_version}"
