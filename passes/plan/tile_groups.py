"""
Groups of ops that are worth a kernel of several phases: computed tile by tile along common row
axes, so that what passes between them stays in a cache (D16, D22).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, Shape, product
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.op import TensorOp, Whole, bytes_of
from mlc.dialects.tensor.reduce import ContractOp, Product, ReduceOp, Reduction
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import FOLDS
from mlc.dialects.tensor.window import Windowed
from mlc.passes.cost import KERNEL_CALL_S, bandwidth
from mlc.passes.plan.grouping import Grouping, is_buffer, is_stored_constant, is_view
from mlc.passes.plan.tile_axes import BLOCKED, AxisMaps

ASSUMED = 4096
"""Of a size that only the call knows, in estimates."""

NARROW = 16  # columns of a factor up to which a contraction reads its other factor once
TILES = 32  # at least so many per kernel, where there are rows enough: for threads to share
MIN_TILE_BYTES = 16384  # below it the phases' beginnings cost more than what caches save
OPS = 96  # per group; bounds the compile time of one loop


@dataclass
class Group:
    """Ops of one block, in program order, and the axis of each result along each row axis."""

    ops: list[TensorOp]
    rows: Shape  # the extent of each row axis
    axes: dict[TensorOp, tuple[int, ...]]  # of its iteration space: result axes, then reduced ones
    steps: tuple[int, ...] = ()  # rows in a tile, for the first row axes; the others are whole

    def is_fold(self, op: TensorOp) -> bool:
        """Whether the op reduces over the rows, so that each tile adds to its result."""
        return self.axes[op][0] >= len(op.shape)


def tile_groups(block: Block, maps: AxisMaps, grouping: Grouping, target: CpuTarget) -> list[Group]:
    """The groups of a block, each legal and by estimate cheaper than its kernels one by one."""
    ops = list(block.ops)
    order = {op: k for k, op in enumerate(ops)}
    taken: set[TensorOp] = set()
    found: list[Group] = []
    for seed in ops:
        if not isinstance(seed, Reduction) or seed in taken or not _may_join(seed):
            continue
        group = _grow(seed, maps, order, taken)
        if group is None or not _pays(group, maps, grouping, target):
            continue
        found.append(group)
        taken.update(group.ops)
    return found


# Legality ---------------------------------------------------------------------------------------


def _may_join(op: Operation) -> bool:
    """Whether the op may be a phase, or a part of one."""
    if not isinstance(op, TensorOp) or is_view(op) or is_stored_constant(op):
        return False
    if isinstance(op, Whole | ReshapeOp | Windowed):
        return False
    return not isinstance(op, ContractOp) or _is_narrow(op)


def _is_narrow(op: ContractOp) -> bool:
    """A contraction that reads one factor about once: the other has few columns."""
    words, _, _ = op.words()
    sizes = op.sizes()
    columns = [
        product(sizes[c] for c in other if c not in mine).constant
        for mine, other in (words, words[::-1])
    ]
    return any(n is not None and n <= NARROW for n in columns)


def _grow(
    seed: TensorOp,
    maps: AxisMaps,
    order: Mapping[Operation, int],
    taken: set[TensorOp],
) -> Group | None:
    """All that can be computed beside the seed, tile by tile along the axes of its result."""
    one = Dim.const(1)
    start = tuple(axis for axis, size in enumerate(seed.shape) if size != one)
    if not start:
        return None
    rows = tuple(seed.shape[axis] for axis in start)
    axes: dict[TensorOp, tuple[int, ...]] = {seed: start}
    pending: list[TensorOp] = [seed]
    while pending and len(axes) < OPS:
        op = pending.pop(0)
        for other, wanted in (*_producers(op, axes, maps), *_consumers(op, axes, maps)):
            if other in axes or other in taken or other not in order:
                continue
            if _may_join(other) and _fits(other, wanted, rows, axes, maps):
                axes[other] = wanted
                pending.append(other)
    ops = _convex(axes, maps, order)
    while (kept := [op for op in ops if _agrees(op, axes, maps, set(ops))]) != ops:
        ops = _convex({op: axes[op] for op in kept}, maps, order)
    return Group(ops, rows, {op: axes[op] for op in ops}) if seed in ops else None


def _producers(
    op: TensorOp, axes: Mapping[TensorOp, tuple[int, ...]], maps: AxisMaps
) -> Iterator[tuple[TensorOp, tuple[int, ...]]]:
    for read in maps.sources_of(op):
        owner = read.value.owner
        moved = tuple(read.axes[a] for a in axes[op])
        if isinstance(owner, TensorOp) and all(a is not None and a >= 0 for a in moved):
            yield owner, tuple(a for a in moved if a is not None)


def _consumers(
    op: TensorOp, axes: Mapping[TensorOp, tuple[int, ...]], maps: AxisMaps
) -> Iterator[tuple[TensorOp, tuple[int, ...]]]:
    if axes[op][0] >= len(op.shape):
        return  # complete only when all tiles are done
    for user in _readers(op.results[0]):
        for read in maps.sources_of(user):
            if read.value is op.results[0]:
                places = [
                    [k for k, axis in enumerate(read.axes) if axis == wanted] for wanted in axes[op]
                ]
                if all(len(place) == 1 for place in places):
                    yield user, tuple(place[0] for place in places)


def _readers(value: SSAValue) -> Iterator[TensorOp]:
    """The ops that read a value, directly or through views."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, TensorOp):
            if is_view(user):
                yield from _readers(user.results[0])
            else:
                yield user


def _fits(
    op: TensorOp,
    wanted: tuple[int, ...],
    rows: Shape,
    axes: Mapping[TensorOp, tuple[int, ...]],
    maps: AxisMaps,
) -> bool:
    """Whether the op can be computed for a tile of rows, given what is known to be."""
    space = op.iteration()
    if len(set(wanted)) != len(wanted) or tuple(space[a] for a in wanted) != rows:
        return False
    reduced = [a >= len(op.shape) for a in wanted]
    if any(reduced) and not (all(reduced) and _may_fold(op)):
        return False
    return _agrees(op, {**axes, op: wanted}, maps, axes)


def _may_fold(op: TensorOp) -> bool:
    """Whether partial results of tiles combine to the result, and no less exactly."""
    if fold_of(op) not in FOLDS or not isinstance(op, Reduction):
        return False
    return op.summand() == op.dtype and op.dtype.kind != "bool"


def fold_of(op: TensorOp) -> str:
    """The monoid of a reduction."""
    if isinstance(op, ReduceOp):
        return op.monoid.data
    return "sum" if isinstance(op, Product) else ""


def _agrees(
    op: TensorOp,
    axes: Mapping[TensorOp, tuple[int, ...]],
    maps: AxisMaps,
    members: Collection[TensorOp],
) -> bool:
    """Whether what the op reads of other members is the tile that they have."""
    for read in maps.sources_of(op):
        moved = tuple(read.axes[a] for a in axes[op])
        if BLOCKED in moved:
            return False
        owner = read.value.owner
        if isinstance(owner, TensorOp) and owner in members and moved != axes[owner]:
            return False
    return True


def _convex(
    axes: Mapping[TensorOp, tuple[int, ...]], maps: AxisMaps, order: Mapping[Operation, int]
) -> list[TensorOp]:
    """The members none of which needs a value that is made from another outside of the group."""
    members = sorted(axes, key=order.__getitem__)
    last = order[members[-1]]
    after: set[SSAValue] = set()  # what is made from the group's results, and folds
    kept: list[TensorOp] = []
    for op, number in order.items():
        if number > last:
            break
        if number < order[members[0]]:
            continue
        late = any(x in after for x in operands_of(op))
        if isinstance(op, TensorOp) and op in axes and not late:
            kept.append(op)
            if axes[op][0] >= len(op.shape):
                after.update(op.results)
        elif isinstance(op, TensorOp) and is_view(op):
            if late:
                after.update(op.results)
        elif late or any(_made_from(x, kept) for x in operands_of(op)):
            after.update(op.results)
    return kept


def operands_of(op: Operation) -> Iterator[SSAValue]:
    """What an op reads, in its regions too."""
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from operands_of(inner)


def _made_from(value: SSAValue, members: Sequence[TensorOp]) -> bool:
    """Whether a value is a member's result, or a view of it."""
    owner = value.owner
    if isinstance(owner, TensorOp):
        if is_view(owner):
            return any(_made_from(x, members) for x in owner.operands)
        return owner in members
    return False


# Cost -------------------------------------------------------------------------------------------


def _pays(group: Group, maps: AxisMaps, grouping: Grouping, target: CpuTarget) -> bool:
    """Whether the group saves time by estimate; sets its steps."""
    members = set(group.ops)
    homes = {op: grouping.home[op.results[0]] for op in group.ops if op.results[0] in grouping.home}
    kernels = {id(kernel) for kernel in homes.values()}
    if len(kernels) < 2:
        return False
    readers: dict[SSAValue, set[int]] = {}
    for op in group.ops:
        kernel = _kernel_of(op, homes)
        for read in maps.sources_of(op):
            if is_buffer(read.value) or read.value in grouping.home:
                readers.setdefault(read.value, set()).add(kernel)
    saved = per_row = whole = 0
    rows = _estimate(product(group.rows))
    for value, reading in readers.items():
        size = _estimate(bytes_of(value.type))
        owner = value.owner
        inside = isinstance(owner, TensorOp) and owner in members
        is_tiled = inside or _is_tiled(value, group, maps)
        if is_tiled:
            per_row += max(size // rows, 1)
        else:
            whole += size
        stays = inside and all(user in members for user in _readers_of_any(value))
        saved += size * (len(reading) - 1 + (2 if stays else int(inside)))
    for op in homes:
        if op.results[0] not in readers and not group.is_fold(op):
            per_row += max(_estimate(bytes_of(op.results[0].type)) // rows, 1)
    if whole > target.l2_bytes // 2:
        return False  # each tile would read it from further away
    group.steps = choose_steps(group.rows, per_row, target)
    tiles = 1
    for extent, step in zip(group.rows, group.steps, strict=False):
        tiles *= -(-_estimate(extent) // step)
    total = per_row * rows
    before = saved / bandwidth(total, target, 1) + target.fork_join_s * (len(kernels) - 1)
    after = saved / target.l2_read_bytes_per_s + KERNEL_CALL_S * tiles * len(kernels)
    return after < before


def _kernel_of(op: TensorOp, homes: Mapping[TensorOp, object]) -> int:
    """The kernel that computes an op: its own, or that of whoever reads it."""
    pending: list[TensorOp] = [op]
    while pending:
        found = pending.pop()
        if found in homes:
            return id(homes[found])
        pending += list(_readers(found.results[0]))[:1]
    return id(op)


def _is_tiled(value: SSAValue, group: Group, maps: AxisMaps) -> bool:
    """Whether a tile needs only a part of a value from outside."""
    return any(
        read.value is value and any(read.axes[a] is not None for a in group.axes[op])
        for op in group.ops
        for read in maps.sources_of(op)
    )


def _readers_of_any(value: SSAValue) -> Iterator[Operation]:
    for use in value.uses:
        user = use.operation
        if isinstance(user, TensorOp) and is_view(user):
            yield from _readers_of_any(user.results[0])
        else:
            yield user


def choose_steps(rows: Shape, row_bytes: int, target: CpuTarget) -> tuple[int, ...]:
    """
    Rows in a tile along the first row axes, so that a tile of what the phases share stays in a
    quarter of the second-level cache and there are enough tiles for threads. Row axes after the
    last step are whole.
    """
    sizes = [_estimate(size) for size in rows]
    total = row_bytes
    for size in sizes:
        total *= size
    budget = min(target.l2_bytes // 4, max(total // TILES, MIN_TILE_BYTES))
    steps: list[int] = []
    for axis, size in enumerate(sizes):
        inner = row_bytes
        for other in sizes[axis + 1 :]:
            inner *= other
        if inner <= budget or axis == len(sizes) - 1:
            most = max(min(budget // inner, size), 1)
            # a step that divides leaves no smaller tile; else tiles of about one size
            steps.append(
                next((n for n in range(most, most // 2, -1) if size % n == 0), 0)
                or -(-size // -(-size // most))
            )
            break
        steps.append(1)
    return tuple(steps)


def _estimate(dim: Dim) -> int:
    found = dim.constant
    return found if found is not None else dim.evaluate(dict.fromkeys(dim.symbols(), ASSUMED))
