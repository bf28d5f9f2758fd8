"""What a plan costs, read off its kernels: what `exe.plan()` and `.cost()` give."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget, GpuTarget
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.dialects.tensor.tiles import TilesOp, enclosing_tiles
from mlc.passes.copies import Copy, copies_of
from mlc.passes.cost import NOTHING, Work, work_of
from mlc.passes.plan.legality import is_view
from mlc.passes.prediction import predicted_seconds
from mlc.passes.remarks import place
from mlc.passes.timeline import Memory, handed_to, runs_of, sizes_at, spell


@dataclass(frozen=True, kw_only=True)
class KernelReport:
    """One kernel: what it computes and what that should cost."""

    number: int
    template: str
    ops: tuple[str, ...]  # names of the ops that compute, in order
    results: tuple[str, ...]  # such as "f32[64, 10]"
    work: Work
    predicted_s: float  # of one run
    runs: int | None  # in one call; None where data decides
    loop: int | None  # the tile loop of which it is a phase, counted from 0
    source: tuple[str, ...]  # file:line of its ops, each once

    @property
    def flops(self) -> int:
        """Arithmetic operations."""
        return self.work.flops

    @property
    def bytes(self) -> int:
        """Bytes moved: each distinct input read once, each result written once."""
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
    def work_of_call(self) -> Work:
        """The work of all runs of a call; of one where data decides."""
        runs = 1 if self.runs is None else self.runs
        return Work(**{name: count * runs for name, count in dataclasses.asdict(self.work).items()})


@dataclass(frozen=True, kw_only=True)
class Intermediate:
    """A buffer that one kernel writes and others read (D16)."""

    result: str
    bytes: int
    written_by: int
    read_by: tuple[int, ...]
    place: str  # "arena 0", "out 1" or "" before buffers are planned


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The kernels in the order they run, and the buffers between them."""

    kernels: tuple[KernelReport, ...]  # and the phases of tile loops
    intermediates: tuple[Intermediate, ...]
    tiles: tuple[Intermediate, ...]  # what phases of one tile loop hand to one another
    copies: tuple[Copy, ...]  # and packed factors, each with its reason

    @property
    def kernel_count(self) -> int:
        """Kernels that run, of which a tile loop is one (D16)."""
        loops = {k.loop for k in self.kernels if k.loop is not None}
        return sum(k.loop is None and k.runs != 0 for k in self.kernels) + len(loops)

    @property
    def copied_bytes(self) -> int:
        """Bytes that kernels write which only move elements; packing is not counted."""
        return sum(copy.bytes for copy in self.copies if copy.kind == "copy")

    @property
    def predicted_s(self) -> float:
        """Seconds of one call; kernels that data repeats count once."""
        return sum(k.predicted_s * (1 if k.runs is None else k.runs) for k in self.kernels)

    def to_json(self) -> str:
        """The plan as JSON; docs/explain.md has its fields."""
        return json.dumps(as_dict(self), indent=1)


def as_dict(plan: Plan) -> dict[str, object]:
    """A plan as what JSON can say, under the names of its fields and properties."""
    kernels: list[dict[str, object]] = []
    for k in plan.kernels:
        fields: dict[str, object] = {f.name: getattr(k, f.name) for f in dataclasses.fields(k)}
        del fields["work"]
        fields |= dataclasses.asdict(k.work)
        names = ("bytes", "intensity", "intensity_per_access")
        kernels.append(fields | {name: getattr(k, name) for name in names})
    return {
        "kernels": kernels,
        "intermediates": [dataclasses.asdict(x) for x in plan.intermediates],
        "tiles": [dataclasses.asdict(x) for x in plan.tiles],
        "kernel_count": plan.kernel_count,
        "copies": [dataclasses.asdict(x) for x in plan.copies],
        "copied_bytes": plan.copied_bytes,
        "predicted_s": plan.predicted_s,
    }


def plan_of(
    module: ModuleOp, target: CpuTarget | GpuTarget, sizes: Mapping[str, int], threads: int = 1
) -> Plan:
    """The report of a plan-level module for these values of the symbols."""
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    numbers = {op: k for k, op in enumerate(kernels)}
    loops = {op: k for k, op in enumerate(dict.fromkeys(filter(None, map(_loop_of, kernels))))}
    predicted = predicted_seconds(module, target, sizes, threads)
    reports = tuple(
        _kernel(numbers[op], op, sizes, predicted.get(op, 0.0), loops) for op in kernels
    )
    between: list[Intermediate] = []
    tiles: list[Intermediate] = []
    for op in kernels:
        if op.unwritten is not None:
            continue
        for k, value in enumerate(op.outs):
            readers = _readers(value, numbers)
            if not readers:
                continue
            loop = _loop_of(op)
            is_inside = loop is not None and all(_loop_of(kernels[r]) is loop for r in readers)
            whole = value if is_inside else _whole(value)
            found = Intermediate(
                result=spell(whole),
                bytes=bytes_of(whole.type).evaluate(sizes_at(op, sizes)),
                written_by=numbers[op],
                read_by=readers,
                place=str(op.buffers.data[k]) if op.buffers is not None else "",
            )
            (tiles if is_inside else between).append(found)
    copies = copies_of(module, target, sizes)
    return Plan(kernels=reports, intermediates=tuple(between), tiles=tuple(tiles), copies=copies)


def _loop_of(op: Operation) -> TilesOp | None:
    """The outermost tile loop around an op."""
    return next(reversed(list(enclosing_tiles(op))), None)


def _whole(value: SSAValue) -> SSAValue:
    """The tensor of which a value is a tile, if it is written there."""
    for use in value.uses:
        around = use.operation.parent_op()
        if isinstance(use.operation, YieldOp) and isinstance(around, TilesOp):
            return _whole(around.results[use.index])
    return value


def _kernel(
    number: int,
    op: KernelOp,
    sizes: Mapping[str, int],
    predicted_s: float,
    loops: Mapping[TilesOp, int],
) -> KernelReport:
    sizes = sizes_at(op, sizes)
    work = work_of(op, sizes)
    computing = [inner for inner in op.block.ops if not is_view(inner) and inner is not op.yielded]
    return KernelReport(
        number=number,
        template=op.template.data,
        ops=tuple(inner.name.removeprefix("mlc.") for inner in computing),
        results=tuple(spell(x) for x in op.outs),
        work=work,
        predicted_s=predicted_s,
        runs=runs_of(op, sizes),
        loop=None if (loop := _loop_of(op)) is None else loops[loop],
        source=tuple(dict.fromkeys(where for inner in computing if (where := place(inner)))),
    )


def _readers(value: SSAValue, numbers: Mapping[KernelOp, int]) -> tuple[int, ...]:
    """Other kernels that read the value's buffer, through reshapes and what loops hand on."""
    found: set[int] = set()
    seen: set[SSAValue] = set()
    pending = [value]
    while pending:
        if (x := pending.pop()) in seen:
            continue
        seen.add(x)
        for use in x.uses:
            user = use.operation
            if isinstance(user, KernelOp):
                found.add(numbers[user])
            elif user.name == "mlc.reshape":
                pending.append(user.results[0])
            else:
                pending += handed_to(user, use.index)
    if isinstance(maker := value.owner, KernelOp):
        found.discard(numbers[maker])  # carried to its own next run
    return tuple(sorted(found))


def total(plan: Plan) -> Work:
    """The work of one call; kernels that data repeats count once."""
    return sum((k.work_of_call for k in plan.kernels), NOTHING)


def by_source_line(module: ModuleOp, sizes: Mapping[str, int]) -> dict[str, int]:
    """Arithmetic operations of one call by the user's file:line."""
    found: dict[str, int] = {}
    for kernel in module.walk():
        if not isinstance(kernel, KernelOp):
            continue
        known, here = runs_of(kernel, sizes), sizes_at(kernel, sizes)
        runs = 1 if known is None else known
        for op in kernel.block.ops:
            if isinstance(op, TensorOp) and (flops := op.cost().flops.evaluate(here)):
                where = place(op) or "unknown"
                found[where] = found.get(where, 0) + flops * runs
    return found


def _repeated(k: KernelReport) -> str:
    if k.loop is not None:
        return f"   phase of tile loop {k.loop}, {k.runs or 0:,} times"
    if k.runs is None:
        return "   as often as data say"
    return "" if k.runs == 1 else f"   {k.runs:,} times"


def table(plan: Plan, memory: Memory) -> str:
    """The plan as text, for `explain`."""
    lines = [
        f"{'kernel':<9}{'template':<13}{'flops':>13}{'bytes':>13}{'flops/byte':>12}"
        f"{'flops/access':>14}{'predicted':>12}  ops"
    ]
    lines += [
        f"{k.number:<9}{k.template:<13}{k.flops:>13,}{k.bytes:>13,}{k.intensity:>12.3f}"
        f"{k.intensity_per_access:>14.3f}{k.predicted_s * 1e6:>9.2f} us"
        f"  {' '.join(k.ops) or 'copy'} -> {', '.join(k.results)}"
        + (f"   ({', '.join(k.source)})" if k.source else "")
        + _repeated(k)
        for k in plan.kernels
    ]
    work = total(plan)
    lines.append(
        f"{'total':<22}{work.flops:>13,}{work.bytes:>13,}{work.intensity:>12.3f}"
        f"{work.intensity_per_access:>14.3f}{plan.predicted_s * 1e6:>9.2f} us"
    )
    kinds = [("buffer", x) for x in plan.intermediates] + [("tile", x) for x in plan.tiles]
    for kind, x in kinds:
        readers = ", ".join(map(str, x.read_by))
        lines.append(
            f"{kind} {x.result} ({x.bytes:,} bytes, {x.place or 'not placed'}):"
            f" written by kernel {x.written_by}, read by {readers}"
        )
    lines += map(str, plan.copies)
    lines.append(
        f"memory beside the arguments: {memory.peak_bytes:,} bytes ="
        f" results {memory.results_bytes:,} + arena {memory.arena_bytes:,}"
    )
    return "\n".join(lines)
