"""
Costs of kernels: arithmetic, memory traffic, and the seconds they should take (D22).

One formula, per kernel: write + max(read, compute) + start, each stream at the level that holds it.
docs/cost-model.md says where each number comes from and how far predictions are off.
SOURCE: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; decisions.md D22.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from xdsl.ir import Attribute, SSAValue

from mlc.dialects.dims import Dim, Shape, highest, product, shape_of
from mlc.dialects.plan import CostAttr, KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import SliceOp
from mlc.dialects.tensor.tiles import bounds_of
from mlc.passes.cost.work import cycle_s

CALL_S = 5e-9  # the call alone: arguments, cancel poll, error word; measured: docs/measurements.md
FIRST_ACCESS_S = (0.0, 3e-9, 15e-9, 100e-9)  # levels 1, 2, 3, memory; as above
SCATTERED_S = (0.0, 5e-10, 2e-9, 40e-9)  # of the same levels; as above
CODE_LINES = 2.0  # of a kernel's code, that its start waits for; as above
SHARED_S = 5e-5  # work that threads share: two grains of mlc-schedule; less runs on the caller


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
class Counts:
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

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            flops=self.flops + other.flops,
            bytes_read=self.bytes_read + other.bytes_read,
            bytes_written=self.bytes_written + other.bytes_written,
            accesses=self.accesses + other.accesses,
        )


NOTHING = Counts(flops=0, bytes_read=0, bytes_written=0, accesses=0)


def work_of(kernel: KernelOp, sizes: Mapping[str, int]) -> Counts:
    """The kernel's cost for these values of the symbols."""
    cost = kernel.cost if kernel.cost is not None else kernel_cost(kernel)
    flops, read, written = (dim.evaluate(sizes) for dim in cost.data)
    count = accesses(kernel).evaluate(sizes)
    return Counts(flops=flops, bytes_read=read, bytes_written=written, accesses=count)


def weighted_flops(kernel: KernelOp, sizes: Mapping[str, int]) -> float:
    """Arithmetic with each op weighted by its time relative to an addition."""
    return sum(
        op.cost().flops.evaluate(sizes) * op.WEIGHT
        for op in kernel.block.ops
        if isinstance(op, TensorOp)
    )


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes that move, and the bytes touched since the same memory was, the kernel's included."""

    bytes: int
    distance: int
    lines: int = 0  # cache lines of it that are asked for in no order


@dataclass(frozen=True, slots=True)
class Traffic:
    """
    What a kernel moves: a stream for each input, as `bytes_read` has it, and for each result.
    `since`: the bytes touched since the kernel's last run.
    """

    reads: tuple[Stream, ...]
    writes: tuple[Stream, ...]
    since: int = 0


def kernel_s(traffic: Traffic, cycles: float, target: CpuTarget, threads: int = 1) -> float:
    """
    Seconds of one kernel: write + max(read, compute) + start. Plain numbers, so that a search may
    ask often. `cycles`: of one core, operands in level 1 (passes/cost/cycles.py).
    """
    read = sum(x.bytes / stream_rate(x.distance, target, threads) for x in traffic.reads)
    written = sum(x.bytes / stream_rate(x.distance, target, threads) for x in traffic.writes)
    scattered, strewn = (
        sum(x.lines * line_s(x.distance, target) for x in streams if x.lines) / threads
        for streams in (traffic.reads, traffic.writes)
    )
    compute = cycles * cycle_s(target) / threads
    start = CALL_S if threads == 1 else target.fork_join_s
    start += CODE_LINES * first_access_s(traffic.since, target)
    start += sum(first_access_s(x.distance, target) for x in (*traffic.reads, *traffic.writes))
    return target.write_factor * written + max(read, compute, strewn) + scattered + start


def stream_rate(distance: int, target: CpuTarget, threads: int = 1) -> float:
    """
    Bytes per second of a stream over memory that was touched `distance` bytes ago, or of a working
    set of that size. Between the sizes that the probe measures, time goes with the logarithm.
    """
    size = distance / threads if distance <= target.l2_bytes * threads else distance
    rate = 1.0 / _interpolated(size, _curve(target))
    if size > target.l3_bytes:
        return min(rate * threads, target.memory_read_all_cores_bytes_per_s)
    return rate * threads


def first_access_s(distance: int, target: CpuTarget) -> float:
    """Seconds until memory answers that no stream has asked for before."""
    return _interpolated(distance, _levels(target, FIRST_ACCESS_S))


def line_s(distance: int, target: CpuTarget) -> float:
    """Seconds of a line that is asked for in no order, while others are on their way."""
    return _interpolated(distance, _levels(target, SCATTERED_S))


@lru_cache(maxsize=32)
def _levels(target: CpuTarget, seconds: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
    memory = 2 * max(target.l3_bytes, target.l2_bytes)
    sizes = (target.l1d_bytes, target.l2_bytes, max(target.l3_bytes / 4, target.l2_bytes), memory)
    return tuple(zip(sizes, seconds, strict=True))


@lru_cache(maxsize=16)
def _curve(target: CpuTarget) -> tuple[tuple[float, float], ...]:
    """(size of a working set, seconds per byte), as runtime/probe.py measures them."""
    points = [
        (target.l1d_bytes / 2, target.l1_read_bytes_per_s),
        (target.l2_bytes / 2, target.l2_read_bytes_per_s),
    ]
    if target.l3_bytes:
        points.append((max(2 * target.l2_bytes, target.l3_bytes / 8), target.l3_read_bytes_per_s))
        half = target.l3_half_read_bytes_per_s or target.l3_read_bytes_per_s
        points.append((target.l3_bytes / 2, half))
    memory = 2 * max(target.l3_bytes, target.l2_bytes)
    points.append((memory, target.memory_read_bytes_per_s))
    return tuple((size, 1.0 / rate) for size, rate in points)


def _interpolated(size: float, points: Sequence[tuple[float, float]]) -> float:
    """The value at a size: constant outside of the points, linear in the logarithm between them."""
    at, value = points[0]
    if size <= at:
        return value
    for end, last in points[1:]:
        if size <= end:
            return value + (last - value) * log(size / at) / log(end / at)
        at, value = end, last
    return value


def predicted_ns(kernels: Iterable[tuple[KernelOp, Dim]], target: CpuTarget) -> Dim:
    """
    Nanoseconds of one call as a polynomial, for (kernel, times it runs): streams at the level-3
    rate. Decides whether a call lets go of the GIL, so a factor of two does not matter.
    """
    bytes_per_us = target.l3_read_bytes_per_s / 1e6
    flops_per_us = target.f32_flops_per_s / 2e6
    total = Dim.const(0)
    for kernel, times in kernels:
        cost = kernel.cost if kernel.cost is not None else kernel_cost(kernel)
        largest = bounds_of(kernel)  # of what tile loops around it name
        flops, read, written = (highest(dim, largest) for dim in cost.data)
        weight = max((op.WEIGHT for op in kernel.block.ops if isinstance(op, TensorOp)), default=1)
        picoseconds = (read + written) * round(1e6 / bytes_per_us) + flops * round(
            weight * 1e6 / flops_per_us
        )
        total = total + times * (picoseconds // 1000 + round(target.kernel_start_s * 1e9))
    return total
