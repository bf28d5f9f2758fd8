"""
Costs of kernels: arithmetic, memory traffic, and the seconds they should take (D22).

One formula, per kernel: write + max(read, compute) + launch, each stream at the level that holds
it.
SOURCE: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; decisions.md D22.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir import Attribute, SSAValue

from mlc.dialects.dims import Dim, Shape, product, shape_of
from mlc.dialects.plan import CostAttr, KernelOp
from mlc.dialects.target import CpuTarget, GpuTarget
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import SliceOp

KERNEL_CALL_S = 5e-8  # one call between kernels on a CPU: arguments, cancel poll, error word
LAUNCH_S = 3e-6  # one kernel of a CUDA graph; source: CUDA C++ Programming Guide 12.8, graphs


@lru_cache(maxsize=4096)
def _bytes(kind: Attribute) -> Dim:
    return bytes_of(kind)


@lru_cache(maxsize=4096)
def _elements(shape: Shape) -> Dim:
    return product(shape)


def kernel_cost(kernel: KernelOp) -> CostAttr:
    """Arithmetic of every op; bytes of each distinct input, once, and of each result, once."""
    flops = Dim.const(0)
    for op in kernel.block.ops:
        if isinstance(op, TensorOp) and op.FLOPS:
            flops = flops + _elements(op.iteration()) * op.FLOPS
    over = kernel.overwritten
    inputs = (x for k, x in enumerate(kernel.block.args) if k != over)
    read = sum((bytes_read(x) for x in inputs), Dim.const(0))
    written = sum((_bytes(x.type) for x in written_by(kernel)), Dim.const(0))
    if kernel.unwritten is not None:
        written = Dim.const(0)
    return CostAttr((flops, read, written))


def bytes_read(argument: SSAValue) -> Dim:
    """What a kernel reads of one input: all of it, or the parts that slices and gathers pick."""
    whole = _bytes(argument.type)
    parts = Dim.const(0)
    for use in argument.uses:
        op = use.operation
        part = isinstance(op, SliceOp | DynamicSliceOp | GatherOp)
        picks = part and use.index == 0
        if not picks:
            return whole
        parts = parts + _bytes(op.results[0].type)
    limit, found = whole.constant, parts.constant
    return whole if limit is not None and found is not None and limit < found else parts


def accesses(kernel: KernelOp) -> Dim:
    """Elements read and written: the unit of hand-counted intensities (one add: 1/3)."""
    total = Dim.const(0)
    for k, argument in enumerate(kernel.block.args):
        if k == kernel.overwritten:
            continue
        whole = _bytes(argument.type)
        elements = product(shape_of(argument.type))
        item = whole.exact_quotient(elements)
        size = bytes_read(argument).exact_quotient(item) if item is not None else None
        total = total + (size if size is not None else elements)
    return sum((product(shape_of(x.type)) for x in written_by(kernel)), total)


def written_by(kernel: KernelOp) -> Sequence[SSAValue]:
    """What has the size of what a kernel writes: its results, or the update of one input."""
    update = kernel.yielded.values[0].owner
    if kernel.overwritten is None or not isinstance(update, DynamicUpdateOp):
        return kernel.outs
    return [update.update]


@dataclass(frozen=True, kw_only=True)
class Work:
    """A kernel's cost for concrete sizes."""

    flops: int
    bytes_read: int
    bytes_written: int
    accesses: int  # elements read and written

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Arithmetic operations per byte moved."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def intensity_per_access(self) -> float:
        """Arithmetic operations per element moved."""
        return self.flops / self.accesses if self.accesses else 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            flops=self.flops + other.flops,
            bytes_read=self.bytes_read + other.bytes_read,
            bytes_written=self.bytes_written + other.bytes_written,
            accesses=self.accesses + other.accesses,
        )


NOTHING = Work(flops=0, bytes_read=0, bytes_written=0, accesses=0)


def work_of(kernel: KernelOp, sizes: Mapping[str, int]) -> Work:
    """The kernel's cost for these values of the symbols."""
    cost = kernel.cost if kernel.cost is not None else kernel_cost(kernel)
    flops, read, written = (dim.evaluate(sizes) for dim in cost.data)
    count = accesses(kernel).evaluate(sizes)
    return Work(flops=flops, bytes_read=read, bytes_written=written, accesses=count)


def weighted_flops(kernel: KernelOp, sizes: Mapping[str, int]) -> float:
    """Arithmetic with each op weighted by its time relative to an addition."""
    return sum(
        op.cost().flops.evaluate(sizes) * op.WEIGHT
        for op in kernel.block.ops
        if isinstance(op, TensorOp)
    )


def predicted_s(work: Work, flops: float, target: CpuTarget | GpuTarget, threads: int = 1) -> float:
    """Seconds of one kernel. `flops`: weighted arithmetic operations."""
    if isinstance(target, GpuTarget):
        rate = target.hbm_bytes_per_s
        compute = flops / target.f32_flops_per_s
        return work.bytes_written / rate + max(work.bytes_read / rate, compute) + LAUNCH_S
    rate = bandwidth(work.bytes, target, threads)
    # additions and multiplications that are not fused run at half the FMA peak
    compute = flops / (target.f32_flops_per_s / 2 * threads)
    start = KERNEL_CALL_S if threads == 1 else target.fork_join_s
    return work.bytes_written / rate + max(work.bytes_read / rate, compute) + start


def bandwidth(bytes_moved: int, target: CpuTarget, threads: int) -> float:
    """Bytes per second of the cache level that holds the kernel's working set."""
    if bytes_moved <= target.l2_bytes * threads:
        return target.l2_read_bytes_per_s * threads
    if bytes_moved <= target.l3_bytes:
        return target.l3_read_bytes_per_s * threads
    return min(target.memory_read_bytes_per_s * threads, target.memory_read_all_cores_bytes_per_s)


def predicted_ns(kernels: Iterable[tuple[KernelOp, Dim]], target: CpuTarget | GpuTarget) -> Dim:
    """
    Nanoseconds of one call as a polynomial, for (kernel, times it runs): streams at the level-3
    rate. Decides whether a call lets go of the GIL, so a factor of two does not matter.
    """
    bytes_per_us = flops_per_us = 1e5
    if isinstance(target, CpuTarget):
        bytes_per_us = target.l3_read_bytes_per_s / 1e6
        flops_per_us = target.f32_flops_per_s / 2e6
    total = Dim.const(0)
    for kernel, times in kernels:
        cost = kernel.cost if kernel.cost is not None else kernel_cost(kernel)
        flops, read, written = cost.data
        weight = max((op.WEIGHT for op in kernel.block.ops if isinstance(op, TensorOp)), default=1)
        picoseconds = (read + written) * round(1e6 / bytes_per_us) + flops * round(
            weight * 1e6 / flops_per_us
        )
        total = total + times * (picoseconds // 1000 + round(KERNEL_CALL_S * 1e9))
    return total
