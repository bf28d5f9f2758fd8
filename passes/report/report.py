"""
What a plan costs, read off its kernels: what `exe.plan()` and `.cost()` give.

A kernel is one parallel region or launch (D16), so a tile loop is one, of several phases.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.analysis.aliases import memory_view
from mlc.dialects.analysis.nests import ops_in
from mlc.dialects.analysis.trips import (
    kernel_numbers,
    outermost_tiles,
    phase_numbers,
    running_kernels,
    runs_of,
    share_of,
    sizes_at,
    trips_at,
)
from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import product, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import Target
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.dialects.tensor.tiles import TilesOp
from mlc.dialects.tile import compute as tile
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.kernel import CallOp, called
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.model import NOTHING, Counts, counts_of
from mlc.passes.cost.prediction import call_cost, predicted_seconds
from mlc.passes.cost.sizes import sizes_in_call
from mlc.passes.cost.tile_loops import (
    phases_of,
    results_of,
    template_of,
    tile_sizes_of,
    work_of_loop,
)
from mlc.passes.remarks import place
from mlc.passes.report.columns import aligned
from mlc.passes.report.copies import Copy, copies_of
from mlc.passes.report.timeline import Memory, handed_to, spell


@dataclass(frozen=True, kw_only=True)
class KernelReport:
    """One kernel, or one phase of a tile loop: what it computes and what that should cost."""

    number: int  # of a phase: among those of its kernel
    template: str
    ops: tuple[str, ...]  # names of the ops that compute, in order
    results: tuple[str, ...]  # such as "f32[64, 10]"
    work: Counts
    predicted_s: float  # of one run
    runs: int | None  # in one call; None where data decides
    source: tuple[str, ...]  # file:line of its ops, each once
    tile_sizes: tuple[
        int, ...
    ] = ()  # of a tile loop: the largest along each axis, outer loops first
    phases: tuple[KernelReport, ...] = ()  # of a tile loop, by one trip with tiles at their largest

    @property
    def flops(self) -> int:
        """Arithmetic operations."""
        return self.work.flops

    @property
    def bytes(self) -> int:
        """
        Bytes moved: each distinct input read once, each result written once; what phases hand to
        one another is not counted.
        """
        return self.work.bytes

    @property
    def intensity(self) -> float:
        """Arithmetic operations per byte moved."""
        return self.work.intensity

    @property
    def intensity_per_access(self) -> float:
        """Arithmetic operations per element moved; 1/3 for one addition."""
        return self.work.intensity_per_access

    @property
    def work_of_call(self) -> Counts:
        """The work of all runs of a call; of one where data decides."""
        runs = 1 if self.runs is None else self.runs
        return Counts(
            **{name: count * runs for name, count in dataclasses.asdict(self.work).items()}
        )


@dataclass(frozen=True, kw_only=True)
class Intermediate:
    """A buffer that one kernel writes and others read (D16)."""

    result: str
    bytes: int
    written_by: int
    read_by: tuple[int, ...]
    place: str  # "arena 0", "out 1" or "" before buffers are planned


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A buffer that one phase of a tile loop writes and others of the same loop read."""

    result: str
    bytes: int  # at its largest, of one thread
    kernel: int
    written_by: int  # the phase
    read_by: tuple[int, ...]  # phases
    place: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The kernels in the order they run, and the buffers between them."""

    kernels: tuple[KernelReport, ...]
    intermediates: tuple[Intermediate, ...]
    tiles: tuple[Tile, ...]
    copies: tuple[Copy, ...]  # and packed factors, each with its reason

    @property
    def kernel_count(self) -> int:
        """How many kernels run; a tile loop is one (D16)."""
        return len(self.kernels)

    @property
    def copied_bytes(self) -> int:
        """Bytes that kernels write which only move elements; packing is not counted."""
        return sum(copy.bytes for copy in self.copies if copy.kind == "copy")

    @property
    def predicted_s(self) -> float:
        """Seconds of one call; kernels that data repeats count once."""
        return sum(k.predicted_s * (1 if k.runs is None else k.runs) for k in self.kernels)

    def __str__(self) -> str:
        return plan_table(self)

    def to_json(self) -> str:
        """The plan as JSON; docs/explain.md has its fields."""
        return json.dumps(as_dict(self), indent=1)


def as_dict(plan: Plan) -> dict[str, object]:
    """A plan as what JSON can say, under the names of its fields and properties."""
    return {
        "kernels": [_kernel_dict(k) for k in plan.kernels],
        "intermediates": [dataclasses.asdict(x) for x in plan.intermediates],
        "tiles": [dataclasses.asdict(x) for x in plan.tiles],
        "kernel_count": plan.kernel_count,
        "copies": [dataclasses.asdict(x) for x in plan.copies],
        "copied_bytes": plan.copied_bytes,
        "predicted_s": plan.predicted_s,
    }


def _kernel_dict(k: KernelReport) -> dict[str, object]:
    fields: dict[str, object] = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
    del fields["work"]
    fields["phases"] = [_kernel_dict(phase) for phase in k.phases]
    names = ("bytes", "intensity", "intensity_per_access")
    return fields | dataclasses.asdict(k.work) | {name: getattr(k, name) for name in names}


def plan_of(module: ModuleOp, target: Target, sizes: Mapping[str, int], threads: int = 1) -> Plan:
    """The report of a plan-level module for these values of the symbols, else typical ones."""
    sizes = sizes_in_call(module, sizes)
    predicted = predicted_seconds(module, target, sizes, threads)
    kernels: dict[KernelOp | TilesOp, None] = {}
    for op in running_kernels(module):
        loop = outermost_tiles(op)
        kernels[op if loop is None else loop] = None
    calls = [op for op in module.walk() if isinstance(op, CallOp)]
    between, tiles = _buffers(module, sizes)
    return Plan(
        kernels=tuple(
            _kernel(number, op, sizes, predicted.get(op, 0.0))
            if isinstance(op, KernelOp)
            else _tile_loop(number, op, sizes, predicted)
            for number, op in enumerate(kernels)
        )
        + tuple(_calls(calls, len(kernels), sizes, target, threads)),
        intermediates=between,
        tiles=tiles,
        copies=copies_of(module, target, sizes),
    )


def _kernel(
    number: int, op: KernelOp, sizes: Mapping[str, int], predicted_s: float
) -> KernelReport:
    """The report of a kernel, or of one trip of a phase."""
    sizes = sizes_at(op, sizes)
    inside = (inner for inner in ops_in(op.block) if not isinstance(inner, YieldOp))
    computing = [inner for inner in inside if not is_view(inner)]
    return KernelReport(
        number=number,
        template=op.template.data,
        ops=tuple(inner.name.removeprefix("mlc.") for inner in computing),
        results=tuple(spell(x) for x in op.outs),
        work=counts_of(op, sizes),
        predicted_s=predicted_s,
        runs=runs_of(op, sizes),
        source=tuple(dict.fromkeys(where for inner in computing if (where := place(inner)))),
    )


def _calls(
    calls: Sequence[CallOp], first: int, sizes: Mapping[str, int], target: Target, threads: int
) -> Iterator[KernelReport]:
    """The reports of tile programs: what is computed, edges included, is read off their texts."""
    for op in calls:
        here = sizes_at(op, sizes)
        if (program := called(op)) is None or (
            cost := call_cost(op, here, target, threads)
        ) is None:
            continue
        work, predicted_s = cost
        read, written = (
            sum(bytes_of(x.type).evaluate(here) for x in values) for values in (op.inputs, op.outs)
        )
        elements = sum(product(shape_of(x.type)).evaluate(here) for x in (*op.inputs, *op.outs))
        yield KernelReport(
            number=first,
            template=program.sym_name.data,
            ops=tuple(dict.fromkeys(x.name.partition(".")[2] for x in program.walk() if _does(x))),
            results=tuple(spell(x) for x in op.outs),
            work=Counts(
                flops=work.operations, bytes_read=read, bytes_written=written, accesses=elements
            ),
            predicted_s=predicted_s,
            runs=runs_of(op, sizes),
            source=(),
        )
        first += 1


def _does(op: Operation) -> bool:
    return isinstance(op, TensorOp | tile.Product | tile.ReduceOp | tile.ScanOp | CopyOp)


def _place_of(value: SSAValue) -> str:
    """Where a result of a tile loop lies that has memory of its own; else nothing."""
    loop = value.owner
    if not isinstance(loop, TilesOp) or value not in loop.own:
        return ""
    listed = loop.attributes.get("buffers")
    found = cast("ArrayAttr[Attribute]", listed).data if isinstance(listed, ArrayAttr) else ()
    number = loop.own.index(value)
    return str(found[number]) if number < len(found) else ""


def _tile_loop(
    number: int, loop: TilesOp, sizes: Mapping[str, int], predicted: Mapping[KernelOp, float]
) -> KernelReport:
    """The report of a tile loop, all trips together."""
    ops = phases_of(loop)
    phases = tuple(_kernel(k, op, sizes, predicted.get(op, 0.0)) for k, op in enumerate(ops))
    trips = [share_of(op, sizes) * sum(count for _, count in trips_at(op, sizes)) for op in ops]
    return KernelReport(
        number=number,
        template=template_of(loop),
        ops=tuple(name for phase in phases for name in phase.ops),
        results=tuple(map(spell, results_of(loop))),
        work=work_of_loop(loop, sizes),
        predicted_s=sum(phase.predicted_s * n for phase, n in zip(phases, trips, strict=True)),
        runs=runs_of(loop, sizes),
        source=tuple(dict.fromkeys(where for phase in phases for where in phase.source)),
        tile_sizes=tile_sizes_of(loop),
        phases=phases,
    )


def _buffers(
    module: ModuleOp, sizes: Mapping[str, int]
) -> tuple[tuple[Intermediate, ...], tuple[Tile, ...]]:
    """What kernels write for others to read, and what phases of one kernel do."""
    numbers, phases = kernel_numbers(module), phase_numbers(module)
    between: list[Intermediate] = []
    tiles: list[Tile] = []
    for op, number in numbers.items():
        for k, value in enumerate(op.outs):
            readers = _readers(value)
            others = sorted({numbers[r] for r in readers} - {number})
            place = str(op.buffers.data[k]) if op.buffers is not None else ""
            if others:
                whole = _whole(value)
                size = bytes_of(whole.type).evaluate(sizes_at(op, sizes))
                between.append(
                    Intermediate(
                        result=spell(whole),
                        bytes=size,
                        written_by=number,
                        read_by=tuple(others),
                        place=_place_of(whole) or place,
                    )
                )
            elif readers and op in phases:
                tiles.append(
                    Tile(
                        result=spell(value),
                        bytes=bytes_of(value.type).evaluate(sizes_at(op, sizes)),
                        kernel=number,
                        written_by=phases[op],
                        read_by=tuple(sorted(phases[r] for r in readers)),
                        place=place,
                    )
                )
    return tuple(between), tuple(tiles)


def _whole(value: SSAValue) -> SSAValue:
    """The tensor of which a value is a tile, if it is written there."""
    for use in value.uses:
        around = use.operation.parent_op()
        if isinstance(use.operation, YieldOp) and isinstance(around, TilesOp):
            return _whole(around.results[use.index])
    return value


def _readers(value: SSAValue) -> list[KernelOp]:
    """
    Kernels that read the value's buffer, through reshapes, tiles and what loops hand on; its maker
    is left out, to whose next run it may be carried. In no order.
    """
    found: dict[KernelOp, None] = {}
    seen: set[SSAValue] = set()
    pending = [value]
    while pending:
        if (x := pending.pop()) in seen:
            continue
        seen.add(x)
        for use in x.uses:
            user = use.operation
            if isinstance(user, KernelOp):
                found[user] = None
            elif memory_view(user) is not None:
                pending.append(user.results[0])
            else:
                pending += handed_to(user, use.index)
    return [op for op in found if op is not value.owner]


def total(plan: Plan) -> Counts:
    """The work of one call; kernels that data repeats count once."""
    return sum((k.work_of_call for k in plan.kernels), NOTHING)


def by_source_line(module: ModuleOp, sizes: Mapping[str, int]) -> dict[str, int]:
    """Arithmetic operations of one call by the user's file:line."""
    found: dict[str, int] = {}
    for kernel in module.walk():
        if not isinstance(kernel, KernelOp):
            continue
        loop = outermost_tiles(kernel)
        known = runs_of(kernel if loop is None else loop, sizes)
        runs = 1 if known is None else known
        for op in kernel.block.ops:
            if not isinstance(op, TensorOp):
                continue
            size = op.cost().flops
            if flops := sum(size.evaluate(here) * n for here, n in trips_at(kernel, sizes)):
                where = place(op) or "unknown"
                found[where] = found.get(where, 0) + flops * runs
    return found


def _repeated(k: KernelReport) -> str:
    tiles = f"   tiles of {' x '.join(map(str, k.tile_sizes))}" if k.tile_sizes else ""
    if k.runs is None:
        return f"{tiles}   as often as data say"
    return tiles if k.runs == 1 else f"{tiles}   {k.runs:,} times"


HEADS = ("kernel", "template", "flops", "bytes", "flops/byte", "flops/access", "predicted")
WIDTHS = (8, 12, 13, 12, 11, 13, 11)  # at least, of the columns with these heads


def _row(k: KernelReport, name: str) -> tuple[tuple[str, ...], str]:
    """The cells with a column, and what stands behind them."""
    behind = f"{' '.join(k.ops) or 'copy'} -> {', '.join(k.results)}"
    behind += f"   ({', '.join(k.source)})" if k.source else ""
    return _cells(name, k.template, k, k.predicted_s), behind + _repeated(k)


def _cells(
    name: str, template: str, work: Counts | KernelReport, predicted_s: float
) -> tuple[str, ...]:
    return (
        name,
        template,
        f"{work.flops:,}",
        f"{work.bytes:,}",
        f"{work.intensity:.3f}",
        f"{work.intensity_per_access:.3f}",
        f"{predicted_s * 1e6:,.2f} us",
    )


def plan_table(plan: Plan) -> str:
    """
    The plan as text: a row for each kernel, below it as 3.0, 3.1 its phases; buffers and copies.
    """
    rows: list[tuple[tuple[str, ...], str]] = [(HEADS, "ops")]
    for k in plan.kernels:
        rows.append(_row(k, str(k.number)))
        rows += [_row(phase, f"  {k.number}.{phase.number}") for phase in k.phases]
    rows.append((_cells("total", "", total(plan), plan.predicted_s), ""))
    cells = aligned([row for row, _ in rows], (0, 1), " ", WIDTHS)
    lines = [f"{line}  {behind}".rstrip() for line, (_, behind) in zip(cells, rows, strict=True)]
    lines += (
        f"buffer {_between(x)}: written by kernel {written_by(x)}, read by {read_by(x)}"
        for x in plan.intermediates
    )
    lines += (
        f"tile {_between(x)}: written by phase {written_by(x)}, read by {read_by(x)}"
        for x in plan.tiles
    )
    return "\n".join([*lines, *map(str, plan.copies)])


def table(plan: Plan, memory: Memory) -> str:
    """The plan as text, and what it takes beside the arguments."""
    return (
        f"{plan}\nmemory beside the arguments: {memory.peak_bytes:,} bytes ="
        f" results {memory.results_bytes:,} + arena {memory.arena_bytes:,}"
    )


def _between(x: Intermediate | Tile) -> str:
    return f"{x.result} ({x.bytes:,} bytes, {x.place or 'not placed'})"


def written_by(x: Intermediate | Tile) -> str:
    """The kernel, ``3``, or the phase, ``3.1``."""
    return f"{x.kernel}.{x.written_by}" if isinstance(x, Tile) else str(x.written_by)


def read_by(x: Intermediate | Tile) -> str:
    """The kernels or phases, in a list."""
    inside = f"{x.kernel}." if isinstance(x, Tile) else ""
    return ", ".join(f"{inside}{number}" for number in x.read_by)
