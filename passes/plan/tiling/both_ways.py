"""
Sums over the rows and sums over the columns of the same values, in one loop over tiles of both:
each tile is computed once and added to both. Legality, and the loop.

So a gradient of attention takes five products for each tile of scores: scores again, the cotangents
of weights, and what the tile adds to queries', keys' and values' gradients. Walks over columns for
each tile of rows, and over rows for each tile of columns, compute the first two twice.
SOURCE: Dao et al., FlashAttention, arXiv 2205.14135, 2022, algorithm 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.analysis.axes import BLOCKED, AxisMaps
from mlc.dialects.tensor.control import INDEX, IfOp, YieldOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.reduce import ContractOp, Reduction
from mlc.dialects.tensor.tile import tile_in, tile_size
from mlc.dialects.tensor.tiles import TilesOp
from mlc.dialects.tensor.window import Windowed
from mlc.passes.plan.fusion.block_graph import BlockGraph
from mlc.passes.plan.tiling.online_reduction import COMBINE
from mlc.passes.plan.tiling.scalings import scaled
from mlc.passes.plan.tiling.skipping import is_needed, masked_walk
from mlc.passes.plan.tiling.tile_groups import (
    OPS,
    Axes,
    Group,
    fold_of,
    may_fold,
)
from mlc.passes.plan.tiling.tile_scope import TileScope
from mlc.passes.plan.tiling.widths import type_in_loop


def both_ways(
    seed: Reduction, rows: Sequence[int], column: int, maps: AxisMaps, graph: BlockGraph
) -> Group | None:
    """The group of a reduction over columns, if others sum one of its row axes."""
    for row in reversed(rows):
        outer = (axis for axis in rows if axis != row)
        group = _Growth(seed, (*outer, row), column, maps, graph).run()
        if group is not None:
            return group
    return None


class _Growth:
    """What is computed from the same products, all along the axes of one reduction."""

    def __init__(
        self, seed: Reduction, rows: tuple[int, ...], column: int, maps: AxisMaps, graph: BlockGraph
    ) -> None:
        self.seed = seed
        self.maps = maps
        self.graph = graph
        space = seed.iteration()
        self.rows = tuple(space[axis] for axis in rows)
        self.column = space[column]
        self.axes: dict[TensorOp, Axes] = {seed: (*rows, column)}

    def run(self) -> Group | None:
        """The group; None where its sums are all along one axis."""
        if not self.maps.once(may_fold, self.seed):
            return None
        self._grow()
        group = Group(self.graph.ordered(self.axes), self.rows, self.axes, self.column)
        if not group.is_both_ways:
            return None  # what is kept of it sums no rows either
        read = self._read_by(group)
        self._keep(group, lambda op: group.is_wide(op) or not read >> self._number(op) & 1)
        if self._stores(group) or stranger_of(group, self.maps, self.graph) is not None:
            return None
        self._prune(group)
        return group if group.is_both_ways else None

    def _grow(self) -> None:
        """Wide values that are read and made of one another, and what sums them."""
        pending: list[TensorOp] = [self.seed]
        sums: dict[TensorOp, Axes] = {}
        while pending and len(self.axes) < OPS:
            op = pending.pop()
            found = list(self._producers(op))
            if op is not self.seed:
                found += self._consumers(op)
            for other, axes in found:
                if other in self.axes:
                    continue
                if isinstance(other, Reduction) and None not in axes and self._sums(other, axes):
                    sums[other] = axes
                elif self._is_wide(other, axes):
                    self.axes[other] = axes
                    pending.append(other)
        self.axes |= sums

    def _producers(self, op: TensorOp) -> Iterator[tuple[TensorOp, Axes]]:
        for read in self.maps.sources_of(op):
            owner = read.value.owner
            if isinstance(owner, TensorOp):
                yield owner, tuple(None if a is None else read.axes[a] for a in self.axes[op])

    def _consumers(self, op: TensorOp) -> Iterator[tuple[TensorOp, Axes]]:
        for user in self.graph.readers_near(op.results[0], op, OPS):
            places = self.maps.places_in(user, op.results[0])
            yield user, tuple(None if a is None else places.get(a) for a in self.axes[op])

    def _is_wide(self, op: TensorOp, axes: Axes) -> bool:
        """Whether an op keeps rows and columns, and whoever reads it may compute it."""
        rank = self.maps.space_of(op)[1]
        inside = self.graph.number(op) is not None and _has_no_loops(op)
        return (
            inside
            and all(a is not None and 0 <= a < rank for a in axes)
            and self.graph.may_dissolve(op.results[0])
        )

    def _sums(self, op: Reduction, axes: Axes) -> bool:
        """Whether an op sums rows or columns of what it reads."""
        rank = self.maps.space_of(op)[1]
        *outer, row, column = (a is not None and a >= rank for a in axes)
        return not any(outer) and row != column and self.maps.once(may_fold, op)

    def _stores(self, group: Group) -> bool:
        """Whether a value with rows and columns is computed for the loop, and stored."""
        return any(
            owner not in self.axes
            and None not in axes[-2:]
            and self.graph.number(owner) is not None
            for op in group.ops
            for owner, axes in self._producers(op)
        )

    def _prune(self, group: Group) -> None:
        """Leaves what no sum needs."""
        kept = set(group.made_for(group.narrow, self.maps))
        self._keep(group, kept.__contains__)

    def _keep(self, group: Group, wanted: Callable[[TensorOp], bool]) -> None:
        group.ops = [op for op in group.ops if wanted(op)]
        group.axes = self.axes = {op: self.axes[op] for op in group.ops}

    def _number(self, op: TensorOp) -> int:
        number = self.graph.number(op)
        assert number is not None
        return number

    def _read_by(self, group: Group) -> int:
        """What members are made from, as bits."""
        found = 0
        for op in group.ops:
            found |= self.graph.before[self._number(op)]
        return found


def _has_no_loops(op: TensorOp) -> bool:
    return isinstance(op, Elementwise | ContractOp) and not isinstance(op, Windowed)


def stranger_of(group: Group, maps: AxisMaps, graph: BlockGraph) -> TensorOp | None:
    """The first op that cannot be computed tile by tile with the others."""
    made = 0
    for op in group.narrow:
        number = graph.number(op)
        made |= 0 if number is None else 1 << number
    for op in group.ops:
        number = graph.number(op)
        if number is None or graph.before[number] & made or not _has_axes(op, group, maps):
            return op
        if not _agrees(op, group, maps):
            return op
    return None


def _has_axes(op: TensorOp, group: Group, maps: AxisMaps) -> bool:
    """Whether an op has all axes, of the right sizes, and keeps rows and columns or sums one."""
    axes, (space, rank) = group.axes[op], maps.space_of(op)
    given = [a for a in axes if a is not None]
    if len(given) != len(axes) or len(set(given)) != len(given) or group.column is None:
        return False
    if any(space[a] != n for a, n in zip(given, (*group.rows, group.column), strict=True)):
        return False
    *outer, row, column = given
    if any(a >= rank for a in outer):
        return False
    if row < rank and column < rank:
        return _has_no_loops(op)
    return (row >= rank) != (column >= rank) and maps.once(may_fold, op)


def _agrees(op: TensorOp, group: Group, maps: AxisMaps) -> bool:
    """Whether what the op reads of wide members is the tile that they have."""
    for read in maps.sources_of(op):
        moved = tuple(None if a is None else read.axes[a] for a in group.axes[op])
        owner = read.value.owner
        if BLOCKED in moved:
            return False
        if not isinstance(owner, TensorOp) or not maps.looks_at(read.value, group.axes):
            continue
        if owner not in group.axes or moved != group.axes[owner]:
            return False
    return True


# The loop -----------------------------------------------------------------------------------------


def rows_inside(group: Group) -> bool:
    """
    Whether trips over rows follow one another, and columns are the outer loop: what is summed along
    the outer axis goes through the caches in each of its trips, so that is to be less.
    """
    sums = group.narrow
    return 2 * sum(map(group.sums_rows, sums)) >= len(sums)


def write(
    group: Group,
    symbols: Sequence[str],
    maps: AxisMaps,
    late: Mapping[TensorOp, Sequence[TensorOp]],
) -> TilesOp:
    """
    The loop of a group, whose results are the sums in program order. `symbols`: of tiles' sizes on
    each row axis and on the columns; `late`: what tiles of sums are multiplied by.
    """
    assert group.column is not None
    turned = rows_inside(group)
    order = [*range(len(group.rows) - 1), *((-1, -2) if turned else (-2, -1))]
    extents, steps = (*group.rows, group.column), (*group.steps, group.column_step)
    dims = [tile_size(symbols[k], steps[k]) for k in order]
    block = Block(arg_types=[INDEX] * len(order))
    scope = TileScope(
        block,
        dims,
        block.args,
        set(group.ops),
        lambda op: tuple(group.axes[op][k] for k in order),
        maps,
    )
    sums = group.narrow
    places = [[-1 if a is None else a for a in scope.result_rows(op)] for op in sums]
    for op, axes in zip(sums, places, strict=True):
        block.insert_arg(tile_in(type_in_loop(op), axes, dims), len(block.args))
    so_far = block.args[len(order) :]
    masked = masked_walk(group, sums)
    if masked is None:
        ends = _added(scope, sums, so_far, late)
    else:
        needed = is_needed(scope, masked, lambda op: so_far[sums.index(op)])
        runs, rest = Block(), Block()
        scope.b, scope.block = OpBuilder(runs.add_op), runs
        runs.add_op(YieldOp.create(operands=_added(scope, sums, so_far, late)))
        rest.add_op(YieldOp.create(operands=list(so_far)))
        branch = IfOp(needed, Region(runs), Region(rest))
        block.add_op(branch)
        ends = list(branch.outs)
    block.add_op(YieldOp.create(operands=ends))
    kinds, monoids = [type_in_loop(op) for op in sums], [fold_of(op) for op in sums]
    loop = TilesOp.make(
        [extents[k] for k in order],
        [steps[k] for k in order],
        [symbols[k] for k in order],
        [],
        [],
        kinds,
        places,
        Region(block),
        monoids=monoids,
    )
    for op in loop.walk():
        if isinstance(op.location, UnknownLoc):
            op.location = group.ops[-1].location
    return loop


def _added(
    scope: TileScope,
    sums: Sequence[TensorOp],
    so_far: Sequence[SSAValue],
    late: Mapping[TensorOp, Sequence[TensorOp]],
) -> list[SSAValue]:
    """What the sums are with a tile."""
    ends: list[SSAValue] = []
    for op, before in zip(sums, so_far, strict=True):
        value, rows = scope.compute(op), scope.result_rows(op)
        for scaling in late.get(op, ()):
            value = scaled(scope, scaling, value, rows)
        ends.append(scope.b(COMBINE[fold_of(op)], before, value))
        ends[-1].name_hint = op.results[0].name_hint
    return ends
