"""
The table of named machines: what `--target=NAME` accepts besides "host".

A CPU name stands for an instruction set with the caches and rates of one cited part, so that a test
that names it gets the same schedule everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.gpu import GpuTarget
from mlc.dialects.target.loop_costs import MASKS

KIB, MIB, GIB = 1024, 1024**2, 1024**3
X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-unknown-linux-gnu"

AVX2 = CpuTarget(
    name="avx2",
    triple=X86,
    cpu_name="x86-64-v3",
    vector_bits=256,
    num_vector_registers=16,
    fma_ports=2,
    clock_hz=3.0e9,
    l1d_bytes=32 * KIB,
    l1d_ways=8,
    l2_bytes=512 * KIB,
    l2_ways=8,
    l3_bytes=16 * MIB,
    cores_per_l3=4,
    cores=8,
    threads_per_core=2,
    f32_flops_per_s=96e9,  # 2 * 8 lanes * 2 ports * 3.0 GHz
    l1_read_bytes_per_s=192e9,  # 2 loads of 32 bytes a cycle
    l2_read_bytes_per_s=96e9,  # 32 bytes a cycle
    l3_read_bytes_per_s=48e9,
    memory_read_bytes_per_s=20e9,
    memory_read_all_cores_bytes_per_s=80e9,
    source="AMD Software Optimization Guide for Family 17h Models 30h+ (Zen 2), EPYC 7002; "
    "level-3 and memory rates: rounded from published STREAM results",
)

AVX512 = CpuTarget(
    name="avx512",
    triple=X86,
    cpu_name="x86-64-v4",
    vector_bits=512,
    num_vector_registers=32,
    num_mask_registers=7,
    fma_ports=2,
    clock_hz=2.6e9,
    l1d_bytes=48 * KIB,
    l1d_ways=12,
    l2_bytes=1280 * KIB,
    l2_ways=20,
    l3_bytes=48 * MIB,
    l3_ways=12,
    cores_per_l3=32,
    cores=8,
    threads_per_core=2,
    f32_flops_per_s=166.4e9,  # 2 * 16 lanes * 2 ports * 2.6 GHz
    l1_read_bytes_per_s=332.8e9,  # 2 loads of 64 bytes a cycle
    l2_read_bytes_per_s=124.8e9,  # 48 bytes a cycle sustained
    l3_read_bytes_per_s=26e9,
    memory_read_bytes_per_s=13e9,
    memory_read_all_cores_bytes_per_s=100e9,
    extensions="avx512bf16,avx512vl,avx512vnni",
    bf16_dot_factor=1.0,
    loops=MASKS,
    source="Intel 64 and IA-32 Optimization Reference Manual (Ice Lake server), Xeon 8358; "
    "level-3 and memory rates: rounded from published STREAM results; VNNI and BF16 as on Zen 4: "
    "only code that multiplies by them needs them",
)

AMX = replace(
    AVX512,
    name="amx",
    clock_hz=2.7e9,
    l2_bytes=2 * MIB,
    l2_ways=16,
    l3_bytes=105 * MIB,
    l3_ways=15,
    cores_per_l3=56,
    cores=16,
    f32_flops_per_s=172.8e9,  # 2 * 16 lanes * 2 ports * 2.7 GHz
    l1_read_bytes_per_s=345.6e9,
    l2_read_bytes_per_s=129.6e9,
    memory_read_all_cores_bytes_per_s=200e9,
    extensions="amx-bf16,amx-int8,amx-tile,avx512bf16,avx512vl,avx512vnni",
    bf16_dot_factor=0.25,
    source="Intel 64 and IA-32 Optimization Reference Manual (Sapphire Rapids), Xeon 8480+; "
    "level-3 and memory rates: rounded from published STREAM results",
)

NEON = CpuTarget(
    name="neon",
    triple=ARM,
    cpu_name="neoverse-n1",
    vector_bits=128,
    num_vector_registers=32,
    fma_ports=2,
    clock_hz=2.5e9,
    l1d_bytes=64 * KIB,
    l1d_ways=4,
    l2_bytes=1 * MIB,
    l2_ways=8,
    l3_bytes=32 * MIB,
    cores_per_l3=64,
    cores=8,
    f32_flops_per_s=40e9,  # 2 * 4 lanes * 2 ports * 2.5 GHz
    l1_read_bytes_per_s=80e9,  # 2 loads of 16 bytes a cycle
    l2_read_bytes_per_s=60e9,
    l3_read_bytes_per_s=25e9,
    memory_read_bytes_per_s=15e9,
    memory_read_all_cores_bytes_per_s=120e9,
    extensions="dotprod",
    source="Arm Neoverse N1 Software Optimization Guide and Reference Manual, Graviton 2; "
    "level-3 and memory rates: rounded from published STREAM results",
)

MMLA = replace(
    NEON,
    name="mmla",
    cpu_name="neoverse-v1",
    fma_ports=4,
    clock_hz=2.6e9,
    f32_flops_per_s=83.2e9,  # 2 * 4 lanes * 4 ports * 2.6 GHz
    l1_read_bytes_per_s=124.8e9,  # 3 loads of 16 bytes a cycle
    l2_read_bytes_per_s=62.4e9,
    extensions="bf16,dotprod,i8mm",
    source="Arm Neoverse V1 Software Optimization Guide and Reference Manual, Graviton 3; "
    "level-3 and memory rates: as neon",
)

SM_75 = GpuTarget(
    name="sm_75",
    compute_capability=75,
    ptx_version="6.3",
    sm_count=40,
    clock_hz=1.59e9,
    max_threads_per_sm=1024,
    max_blocks_per_sm=16,
    shared_bytes_per_sm=64 * KIB,
    shared_bytes_per_block=64 * KIB,
    l2_bytes=4 * MIB,
    hbm_bytes=16 * GIB,
    hbm_bytes_per_s=320e9,
    l2_read_bytes_per_s=4.0e12,
    f32_flops_per_s=8.1e12,
    f64_flops_per_s=0.25e12,
    tensor_f16_flops_per_s=65e12,
    has_async_copy=False,
    source="NVIDIA T4 data sheet; Turing architecture white paper",
)

SM_80 = GpuTarget(
    name="sm_80",
    compute_capability=80,
    ptx_version="7.0",
    sm_count=108,
    clock_hz=1.41e9,
    max_threads_per_sm=2048,
    max_blocks_per_sm=32,
    shared_bytes_per_sm=164 * KIB,
    shared_bytes_per_block=163 * KIB,
    l2_bytes=40 * MIB,
    hbm_bytes=80 * GIB,
    hbm_bytes_per_s=2.039e12,
    l2_read_bytes_per_s=7.2e12,
    f32_flops_per_s=19.5e12,
    f64_flops_per_s=9.7e12,
    tensor_f16_flops_per_s=312e12,
    tensor_tf32_flops_per_s=156e12,
    tensor_f64_flops_per_s=19.5e12,
    source="NVIDIA A100 80GB SXM data sheet; Ampere architecture white paper",
)

SM_86 = replace(
    SM_80,
    name="sm_86",
    compute_capability=86,
    ptx_version="7.1",
    sm_count=72,
    clock_hz=1.695e9,
    max_threads_per_sm=1536,
    max_blocks_per_sm=16,
    shared_bytes_per_sm=100 * KIB,
    shared_bytes_per_block=99 * KIB,
    l2_bytes=6 * MIB,
    hbm_bytes=24 * GIB,
    hbm_bytes_per_s=600e9,
    l2_read_bytes_per_s=7.8e12,
    f32_flops_per_s=31.2e12,
    f64_flops_per_s=0.49e12,
    tensor_f16_flops_per_s=125e12,
    tensor_tf32_flops_per_s=62.5e12,
    tensor_f64_flops_per_s=0.0,
    source="NVIDIA A10 data sheet; GA102 architecture white paper",
)

SM_89 = replace(
    SM_86,
    name="sm_89",
    compute_capability=89,
    ptx_version="7.8",
    sm_count=142,
    clock_hz=2.49e9,
    max_blocks_per_sm=24,
    l2_bytes=96 * MIB,
    hbm_bytes=48 * GIB,
    hbm_bytes_per_s=864e9,
    l2_read_bytes_per_s=22.6e12,
    f32_flops_per_s=91.6e12,
    f64_flops_per_s=1.43e12,
    tensor_f16_flops_per_s=362e12,
    tensor_tf32_flops_per_s=183e12,
    tensor_f8_flops_per_s=733e12,
    source="NVIDIA L40S data sheet; Ada architecture white paper",
)

SM_90 = replace(
    SM_80,
    name="sm_90",
    compute_capability=90,
    ptx_version="8.0",
    sm_count=132,
    clock_hz=1.98e9,
    shared_bytes_per_sm=228 * KIB,
    shared_bytes_per_block=227 * KIB,
    l2_bytes=50 * MIB,
    hbm_bytes=80 * GIB,
    hbm_bytes_per_s=3.35e12,
    l2_read_bytes_per_s=16.7e12,
    f32_flops_per_s=66.9e12,
    f64_flops_per_s=33.5e12,
    tensor_f16_flops_per_s=989e12,
    tensor_tf32_flops_per_s=494e12,
    tensor_f8_flops_per_s=1979e12,
    tensor_f64_flops_per_s=66.9e12,
    has_tma=True,
    has_grid_dependencies=True,
    host_link_bytes_per_s=50e9,
    source="NVIDIA H100 SXM data sheet; Hopper architecture white paper",
)

SM_90A = replace(
    SM_90, name="sm_90a", arch_specific=True, tensor_core_kinds=("mma", "wgmma"), ptx_version="8.0"
)

H200 = replace(
    SM_90A,
    name="h200",
    hbm_bytes=141 * 10**9,
    hbm_bytes_per_s=4.8e12,
    source="NVIDIA H200 SXM data sheet; Hopper architecture white paper",
)

SM_100 = replace(
    SM_90,
    name="sm_100",
    compute_capability=100,
    ptx_version="8.6",
    sm_count=148,
    clock_hz=1.965e9,
    l2_bytes=126 * MIB,
    hbm_bytes=180 * 10**9,
    hbm_bytes_per_s=7.7e12,
    l2_read_bytes_per_s=18.6e12,
    f32_flops_per_s=75e12,
    f64_flops_per_s=37e12,
    tensor_f16_flops_per_s=2250e12,
    tensor_tf32_flops_per_s=1125e12,
    tensor_f8_flops_per_s=4500e12,
    tensor_f64_flops_per_s=37e12,
    source="NVIDIA DGX B200 data sheet, per GPU",
)

SM_100A = replace(SM_100, name="sm_100a", arch_specific=True, tensor_core_kinds=("mma", "tcgen05"))

CPUS: tuple[CpuTarget, ...] = (AVX2, AVX512, AMX, NEON, MMLA)
GPUS: tuple[GpuTarget, ...] = (
    SM_75,
    SM_80,
    SM_86,
    SM_89,
    SM_90,
    SM_90A,
    H200,
    SM_100,
    SM_100A,
)
_BY_NAME: dict[str, CpuTarget | GpuTarget] = {target.name: target for target in (*CPUS, *GPUS)}


def named_target(
    name: str,
    *,
    host: Callable[[], CpuTarget] | None = None,
    cuda: Callable[[], GpuTarget] | None = None,
) -> CpuTarget | GpuTarget:
    """
    The machine called `name`: a row of the table, "cuda:ROW", or "host" (this processor) or "cuda"
    (this process's GPU) where the caller says how to get it. ValueError for any other name.
    """
    if name == "host" and host is not None:
        return host()
    if name == "cuda" and cuda is not None:
        return cuda()
    found = _BY_NAME.get(name.removeprefix("cuda:"))
    if found is None or (name.startswith("cuda:") and isinstance(found, CpuTarget)):
        known = ", ".join(("host", *_BY_NAME))
        raise ValueError(
            f"no target is called {name!r}; expected one of {known}, cuda, or cuda:sm_…"
        )
    return found
