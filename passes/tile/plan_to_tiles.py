"""
Pass `mlc-plan-to-tiles`: kernels whose schedule is a list of words become tile programs, in
canonical form: one tile that is the whole kernel, and no loop. The list goes with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.alike import spelled, structure_of
from mlc.dialects.analysis.layouts import layouts_of
from mlc.dialects.analysis.shares import LOADS, loads_of_tiles
from mlc.dialects.dims import DimsAttr
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.stream import StreamOp
from mlc.dialects.tensor.tiles import enclosing_tiles, is_phase
from mlc.dialects.tile.kernel import CallOp
from mlc.dialects.tile.kernel import KernelOp as TileKernel
from mlc.dialects.tile.types import Layout
from mlc.dialects.tile.words import Grain, Hold, Tile, is_shared, spell
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.apply_words import SCHEDULE, apply_words
from mlc.passes.tile.canonical import canonical
from mlc.passes.tile.rows import canonical_rows
from mlc.passes.tile.stream_kinds import stream_program


def has_words(module: ModuleOp) -> bool:
    """Whether a kernel of a plan has a schedule of words."""
    return any(True for _ in _kernels(module))


def _kernels(module: ModuleOp) -> Iterator[tuple[KernelOp, ScheduleAttr]]:
    for op in entry_function(module).walk():
        if isinstance(op, KernelOp) and op.schedule is not None and op.schedule.data.cuts:
            yield op, op.schedule


@dataclass(frozen=True)
class PlanToTilesPass(ModulePass):
    """
    Makes a program of each different kernel that has words, and calls it in its place. Where a
    GPU's words of a loop nest stand beside words that cannot be applied, those of the nest stay.
    """

    name = "mlc-plan-to-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = entry_function(op)
        known: dict[str, TileKernel] = {}
        names: dict[Hashable, str] = {}
        for kernel, schedule in list(_kernels(op)):
            layouts = layouts_of(kernel)
            if schedule.data.threads and not _is_blocks(kernel, schedule, layouts):
                kernel.properties["schedule"] = ScheduleAttr(schedule.data.without_cuts())
                continue
            _check(kernel, schedule.data, layouts)
            for loop in enclosing_tiles(kernel):
                if LOADS not in loop.attributes and loop.spreads:  # by its kernels, while they are
                    loop.attributes[LOADS] = DimsAttr((loads_of_tiles(loop),))
            same = structure_of(kernel), tuple(layouts)
            if same not in names:
                key = _structure(kernel, layouts).encode()
                names[same] = f"{kernel.template.data}_{hashlib.sha256(key).hexdigest()[:8]}"
            name = names[same]
            if name not in known:
                known[name] = _program(kernel, schedule, name, layouts)
                op.body.block.insert_op_before(known[name], function)
            _call(kernel, name)


def _is_blocks(kernel: KernelOp, schedule: ScheduleAttr, layouts: Sequence[Layout]) -> bool:
    """Whether all words can be applied."""
    try:
        _check(kernel, schedule.data, layouts)
        program_of(kernel)
    except MlcError:
        return False
    return True


def program_of(kernel: KernelOp) -> TileKernel:
    """The finished program of a kernel with words, of which nothing is kept."""
    assert kernel.schedule is not None
    layouts = layouts_of(kernel)
    program = _program(kernel, kernel.schedule, kernel.template.data, layouts)
    apply_words(program)
    return program


def _program(
    kernel: KernelOp, schedule: ScheduleAttr, name: str, layouts: Sequence[Layout]
) -> TileKernel:
    """The canonical form, with the words that are left to apply."""
    words = schedule.data.cuts
    if kernel.template.data == StreamOp.TEMPLATE:
        return stream_program(kernel, name, words, layouts)
    if kernel.template.data == "rows":
        program = canonical_rows(kernel, name, layouts)
    else:
        program = canonical(kernel, name, words, layouts)
    rest = tuple(x for x in words if not isinstance(x, Grain))
    program.attributes[SCHEDULE] = ScheduleAttr(Schedule(rest))
    return program


def _check(kernel: KernelOp, schedule: Schedule, layouts: Sequence[Layout]) -> None:
    """MlcError for a kernel whose place in the program its call would not keep."""
    words = schedule.cuts
    if not schedule.threads and (other := [x for x in schedule.words if x not in words]):
        raise MlcError(f"plan to tiles: {other[0]} is for nests that have no words of a product")
    if any(layouts) and any(isinstance(word, Tile | Hold) for word in words):
        raise MlcError("plan to tiles: blocks read row-major memory; expected no other arguments")
    if is_phase(kernel) and is_shared(words):
        raise MlcError(
            f"plan to tiles: {spell(words)} in a tile loop, whose trips workers share; expected no"
            " team"
        )
    for buffer in kernel.buffers or ():
        if buffer.data[0] == "input":
            raise MlcError(
                f"plan to tiles: a kernel with words writes to {buffer}; expected the arena, a"
                " result or a tile of one"
            )


def _structure(kernel: KernelOp, layouts: list[Layout]) -> str:
    """A text that two kernels share exactly when their programs are the same."""
    numbers: dict[SSAValue, int] = {a: k for k, a in enumerate(kernel.block.args)}
    lines = [str(kernel.schedule), str(layouts), str(kernel.shared_inputs)]
    lines += [spelled(a.type) for a in kernel.block.args]
    for op in kernel.block.ops:
        operands = [numbers[x] for x in op.operands]
        for result in op.results:
            numbers[result] = len(numbers)
        properties = sorted((k, spelled(v)) for k, v in op.properties.items())
        inner = [str(op)] if op.regions else []
        kinds = [spelled(r.type) for r in op.results]
        lines.append(f"{op.name} {operands} {properties} {kinds} {inner}")
    return "\n".join(lines)


def _call(kernel: KernelOp, name: str) -> None:
    kept = {k: kernel.properties[k] for k in ("buffers", "over") if k in kernel.properties}
    call = CallOp.create(
        operands=list(kernel.inputs),
        result_types=[x.type for x in kernel.outs],
        properties={"callee": SymbolRefAttr(name), **kept},
        attributes=dict(kernel.attributes),
    )
    call.location = kernel.location
    block = kernel.parent
    assert block is not None
    block.insert_op_before(call, kernel)
    for old, new in zip(kernel.outs, call.outs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    _forget(kernel)


def _forget(op: Operation) -> None:
    op.detach()
    op.erase()
