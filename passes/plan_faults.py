"""
What must hold of a plan beside what its kernels say of themselves: schedules that their templates
can follow, and buffers that hold what is written there. Lowering relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.analysis.access import Nest, is_single, nest_of, whole_of
from mlc.dialects.analysis.aliases import Aliases, root_of
from mlc.dialects.analysis.flat_rows import flat_rows, flat_vectors, joins_rows, streams_rows
from mlc.dialects.analysis.matmul_axes import thread_roles
from mlc.dialects.analysis.transposed_reads import square_side, turned_reads
from mlc.dialects.dims import Dim, DimsAttr, Shape, highest, product, shape_of
from mlc.dialects.plan import BufferAttr, KernelOp, Schedule
from mlc.dialects.program import symbols_of
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.dialects.tensor.op import bytes_of
from mlc.dialects.tensor.order import LANES
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.dialects.tensor.reduce import Product, Reduction
from mlc.dialects.tensor.stream import StreamOp
from mlc.dialects.tensor.tiles import TilesOp, bounds_of, enclosing_tiles, is_spread
from mlc.dialects.tile.nest_words import Share, Stage, Threads, Unroll, Vector
from mlc.dialects.tile.word import Word
from mlc.dialects.tile.words import OF_GRIDS, OF_NESTS, OF_WORKERS, spell
from mlc.passes.gpu.mma import mma_fault
from mlc.passes.plan.memory.in_place.sharing import is_replaced, may_keep_the_rest
from mlc.passes.tile.rows import space_of
from mlc.passes.tile.stream_block import holds_streams

MOST_ELEMENTS = 2048  # of the vectors of one trip: many times any machine's registers
MOST_VECTORS = 256  # of a register tile
MOST_TURNED = 2**16  # elements of a tile that is turned: it lies on the stack

Fault = tuple[Operation, str]
Slots = Mapping[str, Sequence[Shape]]
"""By place: of each slot the dims of which it holds the largest, in bytes."""


def plan_faults(function: FuncOp, target: Target) -> Iterator[Fault]:
    """What is wrong with the kernels and tile loops of a function."""
    arena, private = (slots_of(function, name) for name in ("mlc.arena", "mlc.private"))
    if arena is None or private is None:
        yield function, "the slots of mlc.arena and mlc.private are numbered dims, from 0 on"
        return
    slots = {"arena": arena, "private": private}
    results = function.function_type.outputs.data
    found = False
    for op in function.walk():
        if not isinstance(op, KernelOp | TilesOp):
            continue
        for message in _buffer_faults(op, slots, results):
            found = True
            yield op, message
        if isinstance(op, KernelOp) and (
            message := space_fault(op, target) or schedule_fault(op, target)
        ):
            found = True
            yield op, message
    if not found:
        places = Aliases(function)
        yield from _writes_over(places)
        yield from _overlaps(function, places)


# points ------------------------------------------------------------------------------------------


def space_fault(op: KernelOp, target: Target) -> str | None:
    """
    Why the kernel's results are not those of one nest: one space, and at its points one fold, or
    several that do not wait for one another.
    """
    if op.is_nest:
        return None
    folds = [inner for inner in op.block.ops if isinstance(inner, Reduction)]
    if isinstance(whole_of(op), StreamOp) and not target.launches_grids:
        return f"holds mlc.stream, which blocks of a GPU run; the target is {target.name}"
    if op.template.data == "stream":
        return None if holds_streams(op) else "holds other than streams"
    if op.template.data == "rows":
        return None if space_of(op) else "holds other than reductions along the same rows"
    if folds and (whole_of(op) is not None or not _are_siblings(folds, target)):
        return f"holds {folds[-1].name} beside another nest; expected one nest for each kernel"
    space = shape_of(op.outs[0].type)
    for value in (*op.outs, *(x for fold in folds for x in fold.results)):
        if shape_of(value.type) != space:
            return f"computes {value.type} beside {op.outs[0].type}; expected one shape"
    return None


def _are_siblings(folds: Sequence[Reduction], target: Target) -> bool:
    """Whether folds are combined at the same time: over one space, of one value each."""
    if len(folds) == 1:
        return True
    spaces = {fold.iteration() for fold in folds}
    if not target.merges_reductions or len(spaces) > 1 or not all(map(is_single, folds)):
        return False
    pending: list[Operation] = [*folds]
    seen: set[Operation] = set()
    while pending:
        for x in pending.pop().operands:
            if x.owner in folds:
                return False
            if isinstance(x.owner, Operation) and x.owner not in seen:
                seen.add(x.owner)
                pending.append(x.owner)
    return True


# schedules ---------------------------------------------------------------------------------------


def schedule_fault(op: KernelOp, target: Target) -> str | None:
    """Why the kernel's template cannot follow its schedule."""
    if op.schedule is None:
        return None
    schedule, nest = op.schedule.data, nest_of(op)
    if message := _machine_fault(schedule, target):
        return message
    if schedule.lanes * schedule.unroll > MOST_ELEMENTS:
        return f"{_spelled(schedule, Vector, Unroll)}; expected {MOST_ELEMENTS} elements at most"
    if message := _axis_fault(schedule, nest) or _turn_fault(schedule, nest):
        return message
    if message := _flat_fault(schedule, nest) or _rows_fault(schedule, nest):
        return message
    if nest is None or nest.reduction is None:
        return None
    return _TEMPLATES[type(target)](schedule, nest, target)


def _spelled(schedule: Schedule, *kinds: type[Word]) -> str:
    """What a schedule says of some kinds."""
    found = [word for word in schedule.words if isinstance(word, kinds)]
    return spell(found)[1:-1] or f"no {kinds[0].NAME}"


def _machine_fault(schedule: Schedule, target: Target) -> str | None:
    """Words that nothing of this kind of machine reads."""
    own, foreign = (OF_GRIDS, OF_WORKERS) if target.launches_grids else (OF_WORKERS, OF_GRIDS)
    found = next((word for word in schedule.words if isinstance(word, foreign)), None)
    if found is None:
        return None
    names = ", ".join(sorted(kind.NAME for kind in (*own, *OF_NESTS)))
    return f"{found} is no word of kernels on {target.name}; expected one of {names}"


def _axis_fault(schedule: Schedule, nest: Nest | None) -> str | None:
    """Lanes run along the last axis of the results or a reduced one."""
    axis = schedule.vector_axis
    if axis < 0:
        return None
    first, axes = 0, 0
    if nest is not None:
        first, axes = 0 if nest.reduction is None else max(0, nest.rank - 1), len(nest.sizes)
    if first <= axis < axes:
        return None
    return f"{_spelled(schedule, Vector)}; expected no axis, or one from {first} to {axes - 1}"


def _turn_fault(schedule: Schedule, nest: Nest | None) -> str | None:
    """Reads are turned along the axis that they lie along, in tiles of whole squares."""
    turn = schedule.turn
    if turn is None:
        return None
    pointwise = nest if nest is not None and nest.reduction is None else None
    groups = () if pointwise is None else pointwise.groups(frozenset())
    found = None if pointwise is None else turned_reads(pointwise, groups, ())
    if found is None or turn.axis not in groups[found[0]]:
        which = "" if found is None else f", or axis {groups[found[0]][-1]}, along which reads lie"
        return f"{turn}; expected no turn{which}"
    side = square_side(schedule.lanes)
    if turn.rows % side or turn.columns % side or turn.rows * turn.columns > MOST_TURNED:
        return f"{turn}; expected multiples of {side}, {MOST_TURNED} elements at most"
    return None


def _flat_fault(schedule: Schedule, nest: Nest | None) -> str | None:
    """Vectors hold whole rows of a few columns."""
    if not schedule.flat:
        return None
    groups = () if nest is None else nest.groups(frozenset())
    if nest is None or flat_rows(nest, groups, ()) is None or schedule.vector_axis != nest.rank - 1:
        return f"flat({schedule.flat}); expected none, as rows and columns are not read as one"
    kept = next(group for group in groups if schedule.vector_axis in group)
    columns = product(nest.sizes[axis] for axis in kept).constant
    if columns is None or schedule.flat % flat_vectors(columns, schedule.lanes):
        expected = "none" if columns is None else f"{flat_vectors(columns, schedule.lanes)} times n"
        return f"flat({schedule.flat}); expected {expected}, vectors of whole rows"
    return None


def _rows_fault(schedule: Schedule, nest: Nest | None) -> str | None:
    """Rows are combined into states of columns, or have one state each, joined lane by lane."""
    rows, axis, lanes = schedule.rows, schedule.vector_axis, schedule.lanes
    if not rows:
        return None
    if nest is not None and joins_rows(nest, axis, lanes):
        if rows <= lanes and not rows & (rows - 1):
            return None
        return f"rows({rows}); expected a power of two, {lanes} at most: a lane for each row"
    if nest is None or not streams_rows(nest, axis) or schedule.flat:
        return f"rows({rows}); expected none, as neither rows nor columns are reduced together"
    return None


def _cpu_fault(schedule: Schedule, nest: Nest, _: CpuTarget) -> str | None:
    """Summands in the reference's order: along a reduced axis that fixes the vectors."""
    axis, last = schedule.vector_axis, len(nest.sizes) - 1
    if nest.order == "any" or (0 <= axis < nest.rank) or last < nest.rank:
        return None
    vectors = schedule.lanes * schedule.unroll
    expected = LANES if nest.order == "in lanes" else 1
    if vectors != expected or axis not in (-1, last):
        return (
            f"{_spelled(schedule, Vector, Unroll)}; summands {nest.order} take {expected} lanes in"
            f" all, along axis {last}"
        )
    return None


def _gpu_fault(schedule: Schedule, nest: Nest, target: GpuTarget) -> str | None:
    """Threads come in whole warps and tiles; shared memory holds what a block stages."""
    op, threads, warp = nest.reduction, schedule.threads, target.warp_lanes
    if not threads:
        return None  # mlc-plan-to-loops asks for a schedule of its target
    if isinstance(op, Product) and schedule.stage is not None:
        if nest.order != "any" and schedule.stage.parts:
            return f"{schedule.stage}; expected no parts, as summands are added {nest.order}"
        if schedule.stage.mma:
            return mma_fault(schedule, schedule.stage, op, target)
        return _gpu_tile_fault(schedule, schedule.stage, op, target)
    if len(nest.sizes) == nest.rank:
        return None
    if schedule.vector_axis < 0:
        return f"{_spelled(schedule, Vector)}; expected the axis along which threads run"
    if schedule.vector_axis >= nest.rank:
        if nest.rank and warp < threads < 8 * warp:
            return f"threads({threads}); expected {warp} at most, or {8 * warp} at least"
        return None
    states = op.combiner().state(op.summand()) if op is not None else ()
    columns = product(nest.sizes[nest.rank - 1 : nest.rank]).constant
    wide = len(states) > 1 or any(x.kind in ("bool", "complex") for x in states)
    if schedule.lanes > 1 and (wide or columns is None or columns % schedule.lanes):
        return f"{_spelled(schedule, Vector)}; expected 1, or a divisor of the columns"
    rows = product(nest.sizes[nest.rank :]).constant
    if threads < warp or (schedule.share and rows is None):
        return f"{_spelled(schedule, Threads, Share)}; expected {warp} threads or more"
    return None


def _gpu_tile_fault(schedule: Schedule, stage: Stage, op: Product, target: GpuTarget) -> str | None:
    tiles = ((stage.m, stage.rows), (stage.n, stage.columns))
    depth, quarter = stage.k, 4  # elements of one access to shared memory
    whole = all(tile and not tile % quarter and not block % tile for block, tile in tiles)
    parts, sizes = stage.parts or 1, op.sizes()
    summed = product(sizes[c] for c in op.words()[2]).constant
    staged = (stage.m + stage.n + 2 * quarter) * depth + stage.parts * stage.m * stage.n
    if (
        thread_roles(op) is None
        or depth % parts
        or (stage.parts and stage.m * stage.n % schedule.threads)
        or (schedule.share and (not stage.parts or summed is None))
        or op.dtype.kind == "bool"
        or not whole
        or any(block * depth % schedule.threads for block, _ in tiles)
        or parts * (stage.m // stage.rows) * (stage.n // stage.columns) != schedule.threads
        or not 0 < staged * op.summand().bytes <= target.shared_bytes_per_block
        or stage.rows * stage.columns > quarter * MOST_VECTORS
    ):
        return (
            f"{stage}; expected a product's block of one tile for each of {schedule.threads}"
            f" threads, in fours, in"
            f" {target.shared_bytes_per_block} bytes"
        )
    return None


_TEMPLATES: Mapping[type[Target], Callable[[Schedule, Nest, Any], str | None]] = {
    CpuTarget: _cpu_fault,
    GpuTarget: _gpu_fault,
}
"""For each kind of machine: why a reduction's template cannot follow a schedule."""


# buffers -----------------------------------------------------------------------------------------


def slots_of(function: FuncOp, name: str) -> list[Shape] | None:
    """The slots of an attribute; None where it is not a list of slots."""
    found = function.attributes.get(name)
    if found is None:
        return []
    if not isinstance(found, DictionaryAttr):
        return None
    known, names = frozenset(symbols_of(function)), {str(k) for k in range(len(found.data))}
    if set(found.data) != names:
        return None
    slots = [found.data[str(k)] for k in range(len(names))]
    good = all(
        isinstance(dims, DimsAttr)
        and dims.data
        and all(dim.symbols() <= known and (dim.constant or 0) >= 0 for dim in dims.data)
        for dims in slots
    )
    return [dims.data for dims in slots if isinstance(dims, DimsAttr)] if good else None


def _buffers(op: KernelOp | TilesOp) -> list[tuple[SSAValue, BufferAttr]] | None:
    """Where each value lies that the op makes; None where it says too few or too many."""
    if isinstance(op, KernelOp):
        values, stated = list[SSAValue](op.outs), op.buffers
    else:
        values = [*op.own, *(op.carried if op.spreads else ())]
        stated = op.attributes.get("buffers")
    if stated is None:
        return []
    entries = cast("ArrayAttr[Attribute]", stated).data if isinstance(stated, ArrayAttr) else ()
    buffers = [x for x in entries if isinstance(x, BufferAttr)]
    if len(buffers) != len(entries) or len(buffers) != len(values):
        return None
    return list(zip(values, buffers, strict=True))


def _buffer_faults(
    op: KernelOp | TilesOp, slots: Slots, results: Sequence[Attribute]
) -> Iterator[str]:
    found = _buffers(op)
    if found is None:
        yield f"buffers = {op.attributes.get('buffers')}; expected one of each result"
        return
    for value, buffer in found:
        place, numbers = buffer.data
        if place in slots:
            yield from _slot_faults(op, value, buffer, slots[place])
        elif place == "input":
            if not _is_update(op, numbers[0]):
                yield f"{buffer}: the kernel does not write a part of that input"
        elif place == "tile":
            loop = next(enclosing_tiles(op), None)
            tiles = 0 if loop is None else len(loop.placed)
            if numbers[0] >= tiles:
                yield f"{buffer}: there are {tiles}"
            elif loop is not None and loop.tile_type(numbers[0]) != value.type:
                yield f"{buffer}: it holds {loop.tile_type(numbers[0])}, not {value.type}"
        elif numbers[0] >= len(results):
            yield f"{buffer}: there are {len(results)}"
        elif bytes_of(results[numbers[0]]) != bytes_of(value.type):
            yield f"{buffer}: it holds {results[numbers[0]]}, not {value.type}"


def _slot_faults(
    op: Operation, value: SSAValue, buffer: BufferAttr, slots: Sequence[Shape]
) -> Iterator[str]:
    place, numbers = buffer.data
    if max(numbers) >= len(slots):
        yield f"{buffer}: there are {len(slots)}"
        return
    if (place == "private") != (is_spread(op) or _is_state(op, value)):
        yield f"{buffer}: private slots are for what stands in a tile loop that threads share"
    wanted = highest(bytes_of(value.type), bounds_of(op))
    for number in numbers:
        if not _holds(slots[number], wanted):
            held = ", ".join(map(str, slots[number]))
            yield f"{buffer} holds {held} bytes; {value.type} needs {wanted}"


def _is_state(op: Operation, value: SSAValue) -> bool:
    """Whether a value is what a thread of a tile loop carries from trip to trip."""
    return isinstance(op, TilesOp) and value not in op.results


def _holds(slot: Shape, wanted: Dim) -> bool:
    size = wanted.constant
    return wanted in slot or (size is not None and any((n.constant or 0) >= size for n in slot))


def _is_update(op: KernelOp | TilesOp, number: int) -> bool:
    """Whether a kernel writes a part of its input's memory and nothing else."""
    if not isinstance(op, KernelOp) or len(op.outs) != 1:
        return False
    update = op.yielded.values[0].owner
    if isinstance(update, DynamicUpdateOp):
        return update.x is op.block.args[number]
    return may_keep_the_rest(op, number)


def _writes_over(places: Aliases) -> Iterator[Fault]:
    """Of several slots a kernel takes none whose value is still read."""
    for op in places.kernels:
        for k, (number, buffer) in enumerate(zip(op.shared_inputs, op.buffers or (), strict=False)):
            several = len(buffer.data[1]) > 1
            if number >= 0 and several and not is_replaced(op, k, number, places):
                yield (
                    op,
                    f"over = {list(op.shared_inputs)}: input {number} is read after the kernel, or"
                    f" elsewhere than where result {k} is written; expected -1",
                )


def _overlaps(function: FuncOp, places: Aliases) -> Iterator[Fault]:
    """Kernels that write where something lies that is read then or later."""
    made: dict[SSAValue, set[tuple[str, int]]] = {x: set() for x in function.body.block.args}
    held: dict[SSAValue, set[tuple[str, int]]] = {}
    for op in function.walk():
        if isinstance(op, KernelOp | TilesOp):
            for value, buffer in _buffers(op) or ():
                place, numbers = buffer.data
                slots = {(place, k) for k in numbers if place in ("arena", "private")}
                held.setdefault(places.group(root_of(value)), set()).update(slots)
                if isinstance(op, KernelOp):
                    made[value] = slots
    for op, live in places.alive():
        for value, buffer in _buffers(op) or ():
            place, numbers = buffer.data
            group = places.group(value)
            for other in (*live, *op.outs):
                # what no kernel makes may lie wherever a value of its group does
                there = made.get(other, held.get(places.group(other), set()))
                if places.group(other) is not group and any((place, k) in there for k in numbers):
                    yield op, f"{buffer}: what lies there is read then or later"
                    break
