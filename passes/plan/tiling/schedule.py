"""Pass `mlc-schedule`: how each kernel's loop nest is cut.

Chosen by pure functions of the problem and the target.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.access import Access, Nest, contiguous_votes, nest_of, nests_stay
from mlc.dialects.analysis.alike import structure_of
from mlc.dialects.analysis.flat_rows import (
    MOST_VECTORS,
    flat_rows,
    flat_vectors,
    joins_rows,
    streams_rows,
)
from mlc.dialects.analysis.layouts import layouts_of
from mlc.dialects.analysis.matmul_axes import SMALL_CONTRACTION, contraction_roles
from mlc.dialects.analysis.shares import DYNAMIC, dealt_trips
from mlc.dialects.dims import Dim, highest, product, shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.dialects.target.attribute import cpu_of, target_of
from mlc.dialects.tensor.op import bytes_of, element_dtype
from mlc.dialects.tensor.order import LANES
from mlc.dialects.tensor.reduce import ContractOp, Product
from mlc.dialects.tensor.tile import TileOp
from mlc.dialects.tensor.tiles import TilesOp, bounds_of, is_phase
from mlc.dialects.tile.nest_words import Flat, Rows, Unroll, Vector
from mlc.dialects.tile.words import Grain, Words, grain_of, spell
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import at_peak
from mlc.passes.cost.sizes import stated
from mlc.passes.cost.trips import trip_cycles
from mlc.passes.cost.work import ATTO, cycle_s, seconds
from mlc.passes.gpu.schedule import gpu_schedules
from mlc.passes.plan.tiling.grain import least_share_s, work_of_point
from mlc.passes.plan.tiling.past_caches import with_nontemporal
from mlc.passes.plan.tiling.turns import with_turns
from mlc.passes.remarks import place
from mlc.passes.tile.canonical import product_of
from mlc.passes.tile.choose import TAKE_S
from mlc.passes.tile.products import WordsOf, refusal, words_of_product
from mlc.passes.tile.strips import words_of_strips

FLAT_VECTORS = 8
"""States of a reduction whose rows lie in vectors: an addition of four cycles, two in each."""

LEAST_TRIPS = 16
"""Of the loop over such vectors: their lanes are combined one by one behind it."""

ROWS = {True: 2, False: 8}
"""Rows that are combined at once down columns whose states wait in memory, of heavy points and
others: a state is loaded and stored once for so many summands."""

AT_ONCE = 4
"""Rows that are walked at once along a reduced axis: their lanes are combined in one tree."""

SHORT_VECTORS = 4
"""Of rows that are walked so wherever they come from: they lie within few lines of one another."""

AT_ONCE_VECTORS = 2
"""States of each: with those of the other rows they hide the time of an addition."""

HEAVY = 8.0
"""Weight of a point beside whose arithmetic such loads and stores count little."""

LEAST_DEPTH = 64
"""Summed elements from which writing results far apart does not count; measured."""


WANTED = "mlc.schedule"
"""Module attribute: the words that somebody wants for the one product."""


@cache
def choose_register_tile(
    target: CpuTarget, element_bytes: int, most_vectors: int = 4
) -> tuple[int, int]:
    """(rows, vectors per row) of the accumulator tile: fewest loads per FMA.

    The registers hold rows x vectors accumulators, one rhs vector per column and one broadcast lhs
    element. Source: Goto & van de Geijn, ACM TOMS 34(3), 2008, with load instructions counted
    instead of scalars.
    """
    best, best_loads = (1, 1), float("inf")
    for vectors in range(1, min(most_vectors, 4) + 1):
        for rows in range(1, 17):
            if rows * vectors + vectors + 1 > target.num_vector_registers:
                continue
            loads = (rows + vectors) / (rows * vectors)
            if loads < best_loads:
                best, best_loads = (rows, vectors), loads
    return best


def choose_schedule(nest: Nest | None, kernel: KernelOp, target: CpuTarget) -> Schedule:
    """The schedule of one kernel on a CPU."""
    lanes = target.lanes(8 * _widest(kernel, nest))
    if kernel.is_nest:  # lanes are for what its arrays start from
        return Schedule((Vector(lanes), *_grain_of_trips(kernel, target)))
    point = seconds(work_of_point(kernel, nest, target), target)
    grain = max(int(least_share_s(target) * ATTO / point), 1)
    if nest is None:
        return Schedule((Vector(lanes), Grain(grain)))
    if nest.order != "any":
        lanes = min(lanes, LANES)
    if nest.reduction is None:
        axis, unroll = _innermost(nest), 2 if nest.weight < 8 else 1
        turned = with_turns(_of_vectors(lanes, axis, unroll, grain), kernel, nest, target)
        return with_nontemporal(turned, kernel, nest, target)
    axis = vector_axis(nest)
    unroll = 4 if axis >= nest.rank else 8
    if nest.order == "in lanes":
        unroll = LANES // lanes if axis >= nest.rank else 8
    elif nest.order == "in turn" and axis >= nest.rank:
        lanes = unroll = 1
    if len(nest.reduction.combiner().state(nest.reduction.summand())) > 1:
        unroll = 2  # each state holds two vectors
    if nest.siblings:
        least = AT_ONCE_VECTORS if nest.weight < HEAVY else 1
        unroll = max(least, unroll // len(nest.states))
        return _of_vectors(lanes, axis, unroll, grain)
    schedule = _of_vectors(lanes, axis, unroll, grain)
    if flat := _flat(nest, axis, lanes):
        return schedule.having(Flat(flat))
    if isinstance(nest.reduction, Product):
        words = _words(kernel, nest, lanes, target)
        if words is not None:
            return Schedule(words)
    if rows := _rows_at_once(nest, schedule, kernel, target):
        return schedule.having(Unroll(AT_ONCE_VECTORS), Rows(rows))
    rows = _streamed_rows(nest, schedule, target)
    return schedule.having(Rows(rows)) if rows else schedule


def _innermost(nest: Nest) -> int:
    """The last axis that may have several elements: an axis of one has no other lane to fill."""
    several = (axis for axis, size in enumerate(nest.sizes) if size.constant != 1)
    return max(several, default=len(nest.sizes) - 1)


def cpu_schedules(nest: Nest | None, kernel: KernelOp, target: CpuTarget) -> Iterator[Schedule]:
    """The schedules that a kernel on a CPU may have, the best first: of products, several."""
    best = choose_schedule(nest, kernel, target)
    yield best
    if best.cuts and refusal(kernel) is None:
        grain = [word for word in best.words if isinstance(word, Grain)]
        for words in WordsOf(kernel, target).others():
            yield Schedule((*words, *grain))


def _grain_of_trips(nest: KernelOp, target: CpuTarget) -> tuple[Grain, ...]:
    """Trips of a nest that one worker must have, where workers may share them."""
    if dealt_trips(nest) == Dim.const(1):
        return ()
    trip_s = trip_cycles(nest, target) * cycle_s(target)
    if not trip_s:  # there is no trip
        return ()
    return (Grain(max(int(least_share_s(target) / trip_s), 1)),)


def _of_vectors(lanes: int, axis: int, unroll: int, grain: int) -> Schedule:
    """A nest's, along an axis where it has one."""
    several = (Unroll(unroll),) if unroll > 1 else ()
    return Schedule((Vector(lanes, axis), *several, Grain(grain)))


_MOST_KNOWN = 256
_known: dict[Hashable, Words | None] = {}
"""The words of products that were asked for, by all that decides on them."""


def _words(kernel: KernelOp, nest: Nest, lanes: int, target: CpuTarget) -> Words | None:
    """The words that cut a product; None where it is a reduction like others."""
    bounds = tuple(bounds_of(kernel).items())
    key = (
        structure_of(kernel), tuple(layouts_of(kernel)), is_phase(kernel), bounds, lanes, target,
        stated(),
    )  # fmt: skip
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        share_s = least_share_s(target)
        words = words_of_strips(kernel, target, share_s)
        if words is None and _repays_tiles(nest, lanes, target):
            words = words_of_product(kernel, target, share_s)
        _known[key] = words
    return _known[key]


def _flat(nest: Nest, axis: int, lanes: int) -> int:
    """
    Vectors of whole rows for a reduction down fewer columns than four vectors hold, else 0: as many
    as hide a combination behind the others, `unroll` of them or a little more.
    """
    groups = nest.groups(frozenset())
    if nest.reduction is None or axis != nest.rank - 1 or flat_rows(nest, groups, ()) is None:
        return 0
    kept = next(group for group in groups if axis in group)
    columns = product(nest.sizes[a] for a in kept).constant
    states = nest.reduction.combiner().state(nest.reduction.summand())
    if not columns or lanes == 1 or columns >= 4 * lanes or len(states) > 1:
        return 0
    if nest.reduction.summand().kind == "complex":
        return 0
    period = flat_vectors(columns, lanes)
    flat = period * max(FLAT_VECTORS // period, 1)
    total = product(nest.sizes).constant
    few = total is not None and total < LEAST_TRIPS * flat * lanes
    return 0 if few or period > MOST_VECTORS else flat


def _rows_at_once(nest: Nest, schedule: Schedule, kernel: KernelOp, target: CpuTarget) -> int:
    """
    Rows whose sums along a reduced axis are combined as one, where there are many; else 0. Rows of
    several lines that come from beyond level 2 are walked one by one: memory foresees one stream,
    which several rows at once leave at each line.
    """
    if nest.weight >= HEAVY or not joins_rows(nest, schedule.vector_axis, schedule.lanes):
        return 0
    if contiguous_votes(nest, of_points=True)[schedule.vector_axis] < 1:
        return 0
    columns = product(nest.sizes[a] for a in _group_of(nest, schedule.vector_axis)).constant
    is_short = columns is not None and columns < SHORT_VECTORS * schedule.lanes
    if not is_short and _comes_from_afar(kernel, target):
        return 0
    rows = min(AT_ONCE, schedule.lanes)
    count = product(nest.sizes[a] for a in _group_of(nest, nest.rank - 1)).constant
    return rows if count is not None and count >= 4 * rows else 0


def _comes_from_afar(kernel: KernelOp, target: CpuTarget) -> bool:
    """
    Whether an input is larger than level 2, or a tile of such a one that no kernel has read before.
    """
    for x in kernel.inputs:
        whole = x
        if isinstance(x.owner, TileOp):
            is_read = any(use.operation.is_before_in_block(kernel) for use in x.uses)
            whole = x if is_read else x.owner.x
        size = bytes_of(whole.type).constant
        if size is None or size > target.l2_bytes:
            return True
    return False


def _streamed_rows(nest: Nest, schedule: Schedule, target: CpuTarget) -> int:
    """
    Rows that are combined at once where a block of columns in registers would leave most of each
    row for later, and what it walks over comes from beyond level 2; else 0.
    """
    if nest.reduction is None or not streams_rows(nest, schedule.vector_axis):
        return 0
    if contiguous_votes(nest, of_points=True)[schedule.vector_axis] < 1 or schedule.lanes == 1:
        return 0
    rows = ROWS[nest.weight >= HEAVY]
    columns = product(nest.sizes[a] for a in _group_of(nest, schedule.vector_axis)).constant
    depth = product(nest.sizes[a] for a in _group_of(nest, len(nest.sizes) - 1)).constant
    if columns is None or columns <= schedule.lanes * schedule.unroll:
        return 0
    if depth is not None and depth < 2 * rows:
        return 0
    walked = (product(nest.sizes[nest.rank :]) * columns * nest.reduction.summand().bytes).constant
    return rows if walked is None or walked > target.l2_bytes else 0


def _group_of(nest: Nest, axis: int) -> Sequence[int]:
    """The axes that are walked as one with an axis."""
    return next(group for group in nest.groups(frozenset()) if axis in group)


def vector_axis(nest: Nest) -> int:
    """The reduced axis or the last result axis that most reads walk with unit stride; else -1."""
    if not nest.sizes:
        return -1
    votes = contiguous_votes(nest, of_points=True)
    windows = nest.reduction.window_axes() if nest.reduction is not None else ()
    reduced = [axis for axis in range(nest.rank, len(nest.sizes)) if axis not in windows]
    if nest.order != "any":
        reduced = reduced[-1:] if nest.order == "in lanes" or not nest.rank else []
    candidates = [*([nest.rank - 1] if nest.rank else []), *reduced]
    one = Dim.const(1)
    useful = [axis for axis in candidates if nest.sizes[axis] != one] or candidates
    if not useful:
        return len(nest.sizes) - 1
    return max(useful, key=lambda axis: (votes[axis], axis))


def _is_panel(nest: Nest, lanes: int, target: CpuTarget) -> bool:
    """
    Whether the rhs is one panel that can be read where it lies: of a register tile's width at most,
    with unit stride, and no larger than a quarter of L2.
    """
    op = nest.reduction
    if not isinstance(op, ContractOp) or op.dtype.kind in ("bool", "complex"):
        return False
    roles, sizes = contraction_roles(op), op.sizes()
    if roles is None:
        return False
    words, result, _ = op.words()
    rhs = words[0 if roles.swapped else 1]
    columns = _together(roles.n, result, rhs)
    if rhs != roles.batch + roles.n.removesuffix(columns) + roles.k + columns:
        columns = roles.n  # no panels, one after the other
    m, n, k = (product(sizes[c] for c in word).constant for word in (roles.m, columns, roles.k))
    # a whole tile of rows, and several columns: with one, lanes run along the summed axis
    if m is None or n is None or k is None or min(m, k) < 4 or n < 2:
        return False
    if contiguous_votes(nest)[nest.rank - 1] < 1 or -(-n // lanes) > 4:
        return False
    return n * k * op.summand().bytes <= target.l2_bytes // 4


def _together(letters: str, *accesses: str) -> str:
    """Of the columns' letters the last ones, which lie together; loops walk the others."""
    ends = (letters[k:] for k in range(len(letters)))
    return next((word for word in ends if all(word in access for access in accesses)), "")


def _repays_tiles(nest: Nest, lanes: int, target: CpuTarget) -> bool:
    """Whether register tiles are worth having: for a product that is large, or may be."""
    op = nest.reduction
    assert isinstance(op, Product)
    if _is_panel(nest, lanes, target):
        return True
    sizes, roles = op.sizes(), contraction_roles(op)
    if roles is None or op.dtype.kind == "bool":
        return False

    def extent(letters: str) -> int | None:
        total = 1
        for c in letters:
            value = sizes[c].constant
            if value is None:
                return None
            total *= value
        return total

    m, n, k = extent(roles.m), extent(roles.n), extent(roles.k)
    if (m is not None and m < 4) or (n is not None and n < lanes) or (k is not None and k < 8):
        return False
    if roles.n[-1] != op.words()[1][-1] and k is not None and k < LEAST_DEPTH:
        return False
    return None in (m, n, k) or (m or 1) * (n or 1) * (k or 1) >= SMALL_CONTRACTION


def _widest(kernel: KernelOp, nest: Nest | None) -> int:
    """Bytes of the widest element that the inner loop touches."""

    def element_bytes(value: SSAValue) -> int:
        return element_dtype(value).bytes

    inner = (
        {a.argument for a in nest.accesses if not a.per_result and _moves(a, nest)}
        if nest
        else set(range(len(kernel.inputs)))
    )
    # single numbers, such as where a slice begins, are read once
    found = [element_bytes(x) for k in inner if shape_of((x := kernel.inputs[k]).type)]
    if nest is None or nest.reduction is None or nest.reduction.name == "mlc.contract":
        found += [element_bytes(x) for x in kernel.outs]
    if nest is not None and nest.reduction is not None:
        found.append(nest.reduction.summand().bytes)
    space = nest.sizes if nest else ()
    results = [result for op in kernel.block.ops for result in op.results]
    found += [element_bytes(x) for x in results if shape_of(x.type) == space]
    return max(found, default=4)


def _moves(access: Access, nest: Nest) -> bool:
    """Whether an access of a pointwise kernel differs from lane to lane; of others, any does."""
    if nest.reduction is not None:
        return True
    last = max((a for a, size in enumerate(nest.sizes) if size != Dim.const(1)), default=0)
    return any(not p.known or p.coefficient(last) for p in access.point)


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    """
    Sets `schedule` on every kernel that has none, for the module's target; of its one product or
    convolution to the words of `mlc.schedule` where the module has them. `mlc.dynamic` on tile
    loops of long trips, of which there are several for each core.
    """

    name = "mlc-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        with nests_stay():
            for x in op.walk():
                if isinstance(x, KernelOp) and x.schedule is None:
                    x.properties["schedule"] = ScheduleAttr(next(schedules_of(x, target)))
                elif isinstance(x, TilesOp) and _repays_taking(x, op):
                    x.attributes[DYNAMIC] = UnitAttr()
        if isinstance(wanted := op.attributes.pop(WANTED, None), ScheduleAttr):
            kernel = _product_of(op)
            with_words(kernel, wanted.data.words)
            if message := _given_fault(kernel, target):
                where = place(kernel)
                raise MlcError(f"{where}: schedule: {message}" if where else f"schedule: {message}")


def _given_fault(kernel: KernelOp, target: Target) -> str | None:
    """Why the kernel cannot have words that somebody gave."""
    from mlc.passes.plan_faults import schedule_fault  # compiler's own words are known to fit

    if (message := schedule_fault(kernel, target)) or kernel.schedule is None:
        return message
    schedule = kernel.schedule.data
    if target.launches_grids and not schedule.threads and not schedule.cuts:
        return f"{spell(schedule.words)}; expected threads(…), or tile(…), stages(…) and roles(…)"
    return None


def _repays_taking(loop: TilesOp, module: ModuleOp) -> bool:
    """Whether the trips that workers share are several for each core, and their arithmetic long."""
    if not target_of(module).forms_tile_loops or not loop.spreads:
        return False
    target = cpu_of(module, SchedulePass.name)
    counts = [n.constant for n in loop.extents]
    trips = prod(-(-(n or 0) // s) for n, s in zip(counts, loop.steps, strict=True))
    work = 0
    for kernel in loop.walk():
        if isinstance(kernel, KernelOp) and kernel.cost is not None:
            flops, _, _ = kernel.cost.data
            work += highest(flops, bounds_of(kernel)).constant or 0
    return trips >= 2 * target.cores and at_peak(work, target) >= TAKE_S * ATTO


def with_words(kernel: KernelOp, words: Words) -> None:
    """Gives a kernel these words, and the grain of those that it had where they say none."""
    had = kernel.schedule.data.words if kernel.schedule is not None else ()
    grain = () if grain_of(words) is not None else (x for x in had if isinstance(x, Grain))
    kernel.properties["schedule"] = ScheduleAttr(Schedule((*words, *grain)))


def _product_of(module: ModuleOp) -> KernelOp:
    """The one kernel with a product; MlcError where there are none or several."""
    kernels = [op for op in module.walk() if isinstance(op, KernelOp) and product_of(op)]
    if len(kernels) != 1:
        found = "".join(f"\n  {place(kernel)}" for kernel in kernels)
        raise MlcError(
            f"schedule: the function has {len(kernels)} kernels with a product; expected one{found}"
        )
    return kernels[0]


OFFERS: Mapping[type[Target], Callable[[Nest | None, KernelOp, Any], Iterator[Schedule]]] = {
    CpuTarget: cpu_schedules,
    GpuTarget: gpu_schedules,
}
"""For each kind of machine: nest, kernel, target -> schedules, the best first."""


def schedules_of(kernel: KernelOp, target: Target) -> Iterator[Schedule]:
    """The schedules that a kernel may have, the one that costs least by prediction first."""
    return OFFERS[type(target)](nest_of(kernel), kernel, target)
