"""
What each launch of a GPU program takes: blocks, threads, shared memory, registers; and what follows
from that: occupancy, waves, issue slots for each element, the roof. Read off the loops level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects import gpu
from mlc.dialects.analysis.homes import block_of
from mlc.dialects.dtypes import F64, dtype_of
from mlc.dialects.gpu_async import RegistersOp
from mlc.dialects.gpu_products import MmaOp, WgmmaOp
from mlc.dialects.lanes import element_of, lanes_of
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.terms import PRODUCTS, OfTermsOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.loops.places import constant_of
from mlc.passes.report.columns import aligned
from mlc.passes.report.report import KernelReport

WORD_BYTES = 4
ACCESS_BYTES = 16
RESERVED_SHARED_BYTES = 1024
"""Of each block, by the driver. SOURCE: CUDA C++ Programming Guide, on 8.x and 9.0"""
REGISTERS_STEP = 8  # registers of a thread come in so many. SOURCE: as above
BESIDE = 12  # registers for addresses and predicates that no value of the program has; estimated
MANY_TRIPS = 8  # of a loop whose number of trips is not known


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch as the host asks for it."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int


@dataclass(frozen=True, kw_only=True)
class LaunchReport:
    """What a launch takes, and how it fills the machine."""

    function: str
    kernel: int | None  # its number in the plan
    times: int  # such launches one after the other
    blocks: int
    threads: int  # of a block
    shared_bytes: int  # of a block
    registers: (
        int  # of a thread: as the program says, else estimated from values that live together
    )
    blocks_per_sm: int
    limited_by: str  # what keeps a multiprocessor from having more
    occupancy: float  # warps of a multiprocessor, of those that it could have
    waves: float  # blocks by those that run together
    slots_per_element: float | None  # instructions for each element read or written; None: roles
    tensor_cores: str  # what multiplies there: "bf16 by wgmma", or nothing
    memory_s: float  # of its kernel's bytes at the rate of device memory
    compute_s: float  # of its kernel's operations at the peak of the unit that does them

    @property
    def roof(self) -> str:
        """What bounds it."""
        unit = f"tensor cores, {self.tensor_cores}" if self.tensor_cores else "cores"
        return "device memory" if self.memory_s >= self.compute_s else unit


def launches_of(
    functions: Mapping[str, func.FuncOp],
    launches: Sequence[Launch],
    kernels: Sequence[KernelReport],
    target: GpuTarget,
) -> tuple[LaunchReport, ...]:
    """The reports of launches in their order, those of one function in a row as one."""
    numbers = _kernel_numbers(launches, kernels)
    found: list[LaunchReport] = []
    start = 0
    while start < len(launches):
        end = start + 1
        while end < len(launches) and (launches[end], numbers[end]) == (
            launches[start], numbers[start],
        ):  # fmt: skip
            end += 1
        number = numbers[start]
        kernel = None if number is None else kernels[number]
        launch = launches[start]
        found.append(_report(functions[launch.function], launch, end - start, kernel, target))
        start = end
    return tuple(found)


def _kernel_numbers(
    launches: Sequence[Launch], kernels: Sequence[KernelReport]
) -> Sequence[int | None]:
    """The plan's kernel of each launch: its functions are numbered behind one name."""
    found: list[int | None] = []
    count, before = -1, ("", 0)
    for launch in launches:
        base, _, last = launch.function.rpartition("_")
        phase = (base, int(last)) if last.isdigit() and len(last) < 3 else (launch.function, 0)
        goes_on = phase[0] == before[0] and phase[1] >= before[1] and phase[0] == base
        count += not goes_on
        found.append(count)
        before = phase
    return found if count + 1 == len(kernels) else [None] * len(launches)


def _report(
    function: func.FuncOp,
    launch: Launch,
    times: int,
    kernel: KernelReport | None,
    target: GpuTarget,
) -> LaunchReport:
    threads, blocks = math.prod(launch.block), math.prod(launch.grid)
    shared = launch.shared_bytes + _static_bytes(function)
    registers = min(_registers(function, threads, target), target.max_registers_per_thread)
    resident, limit = _resident(threads, shared, registers, target)
    warps = -(-threads // target.warp_lanes)
    split = 0 if kernel is None else kernel.ops.count(OfTermsOp.name.removeprefix("mlc."))
    unit, rate = _tensor_cores(function, split, target)
    work = None if kernel is None else kernel.work
    return LaunchReport(
        function=launch.function,
        kernel=None if kernel is None else kernel.number,
        times=times,
        blocks=blocks,
        threads=threads,
        shared_bytes=shared,
        registers=registers,
        blocks_per_sm=resident,
        limited_by=limit,
        occupancy=resident * warps * target.warp_lanes / target.max_threads_per_sm,
        waves=blocks / max(resident * target.sm_count, 1),
        slots_per_element=_slots(function),
        tensor_cores=unit,
        memory_s=0.0 if work is None else work.bytes / target.hbm_bytes_per_s,
        compute_s=0.0 if work is None else work.flops / rate,
    )


def _resident(
    threads: int, shared_bytes: int, registers: int, target: GpuTarget
) -> tuple[int, str]:
    """Blocks that a multiprocessor has at once, and what keeps it from having more."""
    whole = -(-threads // target.warp_lanes) * target.warp_lanes
    each = -(-registers // REGISTERS_STEP) * REGISTERS_STEP * whole
    limits = {
        "threads": target.max_threads_per_sm // whole,
        "registers": target.registers_per_sm // each,
        "shared memory": target.shared_bytes_per_sm // (shared_bytes + RESERVED_SHARED_BYTES),
        "blocks": target.max_blocks_per_sm,
    }
    limit = min(limits, key=lambda name: limits[name])
    return max(limits[limit], 1), limit


def _static_bytes(function: func.FuncOp) -> int:
    """Of buffers that a block has beside dynamic memory."""
    found = 0
    for op in function.walk():
        if isinstance(op, gpu.SharedOp):
            kind = cast("MemRefType[Attribute]", op.results[0].type)
            found += math.prod(kind.get_shape()) * _bytes(kind.element_type)
    return found


def _bytes(kind: Attribute) -> int:
    """Of an element; an index or what is no number has eight."""
    try:
        return dtype_of(kind).bytes
    except TypeError:
        return 8


# registers --------------------------------------------------------------------------------------


def _registers(function: func.FuncOp, threads: int, target: GpuTarget) -> int:
    """As roles or the kernel say; else of the values that live together."""
    stated = [op.count.value.data for op in function.walk() if isinstance(op, RegistersOp)]
    if stated:
        groups = threads // 128
        return round(sum((max(stated) * (groups - 1), min(stated))) / groups)
    most = target.registers_per_sm // max(threads, 1)
    resident = function.attributes.get(gpu.RESIDENT_ATTRIBUTE)
    if isinstance(resident, IntegerAttr):
        most //= cast("IntegerAttr[IntegerType]", resident).value.data
    return max(min(_live_words(function) + BESIDE, most), 16)


def _live_words(function: func.FuncOp) -> int:
    """The most words of values that are needed at one place."""
    order = {op: k for k, op in enumerate(function.walk())}
    ends: dict[Operation, int] = {}
    for op, k in order.items():
        above = op.parent_op()
        while above is not None and above in order:
            ends[above] = max(ends.get(above, 0), k)
            above = above.parent_op()
    change = [0] * (len(order) + 2)
    for op, k in order.items():
        inside = (x for region in op.regions for block in region.blocks for x in block.args)
        for value in (*op.results, *inside):
            if isinstance(op, arith.ConstantOp) or not value.uses:
                continue
            last = max(_last_use(value, use.operation, order, ends) for use in value.uses)
            words = _words(value.type)
            change[k] += words
            change[last + 1] -= words
    live = most = 0
    for x in change:
        live += x
        most = max(most, live)
    return most


def _last_use(
    value: SSAValue, user: Operation, order: Mapping[Operation, int], ends: Mapping[Operation, int]
) -> int:
    """The place of a use; of one inside of a loop that the value is not made in, the loop's end."""
    home = block_of(value)
    last, op = order[user], user
    while op.parent is not home and (above := op.parent_op()) is not None:
        op = above
        if isinstance(op, scf.ForOp | scf.WhileOp):
            last = max(last, ends.get(op, last))
    return last


def _words(kind: Attribute) -> int:
    if isinstance(kind, MemRefType):
        return 2
    lanes = lanes_of(kind)
    return -(-(lanes or 1) * min(_bytes(element_of(kind)), 8) // WORD_BYTES)


# instructions -----------------------------------------------------------------------------------


def _slots(function: func.FuncOp) -> float | None:
    """Instructions of a thread for each element that it reads from memory or writes to it."""
    if any(isinstance(op, RegistersOp) for op in function.walk()):
        return None
    slots = 0.0
    moved = {"read": 0.0, "written": 0.0}
    for op, trips in _with_trips(function.body.block, 1.0):
        count, way = _issued(op)
        slots += trips * count
        if way:
            value = op.results[0] if way == "read" else op.operands[0]
            moved[way] += trips * (lanes_of(value.type) or 1)
    most = max(moved.values())
    return slots / most if most else None


def _with_trips(block: Block, trips: float) -> Iterator[tuple[Operation, float]]:
    for op in block.ops:
        yield op, trips
        times = trips * _trips(op) if isinstance(op, scf.ForOp) else trips
        for region in op.regions:
            for inner in region.blocks:
                yield from _with_trips(inner, times)


def _trips(op: scf.ForOp) -> float:
    bounds = [constant_of(x) for x in (op.lb, op.ub, op.step)]
    low, high, step = bounds
    if low is None or high is None or not step:
        return MANY_TRIPS
    return max(-(-(high - low) // step), 0)


_FREE = (arith.ConstantOp, arith.IndexCastOp, scf.YieldOp, scf.ForOp, scf.IfOp, func.ReturnOp)
_IN_REGISTERS = ("vector.extract", "vector.insert", "vector.shuffle", "vector.broadcast")


def _issued(op: Operation) -> tuple[float, str]:
    """Instructions of an op, and whether it reads or writes the device's memory."""
    if isinstance(op, memref.LoadOp | memref.StoreOp | vector.LoadOp | vector.StoreOp):
        reads = isinstance(op, memref.LoadOp | vector.LoadOp)
        value, buffer = (op.results[0], op.operands[0]) if reads else op.operands[:2]
        size = (lanes_of(value.type) or 1) * _bytes(element_of(value.type))
        kind = cast("MemRefType[Attribute]", buffer.type)
        way = "read" if reads else "written"
        return -(-size // ACCESS_BYTES), way if _is_global(kind) else ""
    if isinstance(op, _FREE) or op.name in _IN_REGISTERS or not op.results:
        return float(not op.results and not isinstance(op, _FREE)), ""
    if isinstance(op.results[0].type, MemRefType) or isinstance(op, MmaOp):
        return float(isinstance(op, MmaOp)), ""
    return float(lanes_of(op.results[0].type) or 1), ""


def _is_global(kind: MemRefType[Attribute]) -> bool:
    space = kind.memory_space
    shared = isinstance(space, IntegerAttr) and space.value.data == gpu.SHARED_SPACE
    return not shared


def _tensor_cores(function: func.FuncOp, split: int, target: GpuTarget) -> tuple[str, float]:
    """
    What they multiply in a function, and the operations that the unit does each second; `split`:
    factors in terms.
    """
    for op in function.walk():
        if isinstance(op, WgmmaOp | MmaOp):
            dtype = op.dtype if isinstance(op, MmaOp) else dtype_of(op.element)
            name = "tf32" if dtype.bytes == 4 else dtype.name
            unit = "mma" if isinstance(op, MmaOp) else "wgmma"
            name = f"f32 as {name}" if split else name
            return f"{name} by {unit}", target.tensor_flops_per_s(dtype) / PRODUCTS[split]
    wide = any(x.type == F64.ir for op in function.walk() for x in op.results)
    return "", target.f64_flops_per_s if wide else target.f32_flops_per_s


# text -------------------------------------------------------------------------------------------

HEADS = (
    "launch", "kernel", "blocks", "threads", "shared", "registers", "per SM", "occupancy", "waves",
    "slots", "roof",
)  # fmt: skip


def launches_table(launches: Sequence[LaunchReport]) -> list[str]:
    """A line for each; `slots`: instructions of a thread for each element."""
    rows: list[tuple[str, ...]] = [HEADS]
    for x in launches:
        times = f" x {x.times:,}" if x.times > 1 else ""
        slots = "" if x.slots_per_element is None else f"{x.slots_per_element:.1f}"
        roof = max(x.memory_s, x.compute_s)
        rows.append(
            (
                x.function + times,
                "" if x.kernel is None else str(x.kernel),
                f"{x.blocks:,}",
                f"{x.threads:,}",
                f"{x.shared_bytes:,}",
                f"{x.registers}",
                f"{x.blocks_per_sm} ({x.limited_by})",
                f"{x.occupancy:.0%}",
                f"{x.waves:.2f}",
                slots,
                f"{roof * 1e6:,.2f} us ({x.roof})" if roof else "",
            )
        )
    return [line.rstrip() for line in aligned(rows, (0, len(HEADS) - 1), "  ")]
