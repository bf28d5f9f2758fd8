"""
Groups of ops that may be a kernel of several phases: computed tile by tile along common row axes,
so that what passes between them stays in a cache. Legality alone (D16, D22).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import cast

from xdsl.ir import Operation, SSAValue

from mlc.dialects.analysis.axes import BLOCKED, AxisMaps
from mlc.dialects.analysis.views import is_stored_constant, is_view
from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import BOOL
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.reduce import ContractOp, Product, ReduceOp, Reduction
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import FOLDS
from mlc.dialects.tensor.window import Windowed
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.sizes import estimate, stored_bytes
from mlc.passes.plan.fusion.block_graph import BlockGraph, ConvexSet
from mlc.passes.plan.tiling.widths import is_widened

MIN_COLUMNS = 256  # of values that are not stored; fewer are whole in each tile
OPS = 96  # per group; bounds the compile time of one loop

Axes = tuple[int | None, ...]
"""For each row axis, and then for the columns, an axis of an op's iteration space; None: it has
no columns."""


@dataclass
class Group:
    """
    Ops of one block, in program order, and where each has the group's row axes.

    With a `column`, values that have rows and columns are never stored: the loop over tiles of rows
    walks over tiles of columns, which reductions combine. Where some combine the rows instead, and
    so have columns, both kinds are summed in one loop, whose trips meet at their tiles.
    """

    ops: list[TensorOp]
    rows: Shape  # the extent of each row axis
    axes: dict[TensorOp, Axes]  # of the iteration space: result axes, then reduced ones
    column: Dim | None = None  # the extent of the column axis, which is the last of `axes`
    steps: tuple[int, ...] = ()  # rows in a tile, for the first row axes; the others are whole
    column_step: int = 0
    saved_s: float = 0.0  # by estimate, against its kernels one by one

    def is_fold(self, op: TensorOp) -> bool:
        """Whether the op reduces over the rows, so that each tile adds to its result."""
        first = self.axes[op][0]
        return first is not None and first >= len(op.shape)

    def is_wide(self, op: TensorOp) -> bool:
        """Whether the op is a member whose result has rows and columns."""
        axis = self.axes[op][-1] if self.column is not None and op in self.axes else None
        return axis is not None and axis < len(op.shape) and not self.sums_rows(op)

    def sums_rows(self, op: TensorOp) -> bool:
        """Whether the op reduces over the last row axis, and has columns."""
        *_, row, column = self.axes[op] if self.column is not None else (None, None)
        rank = len(op.shape)
        return row is not None and column is not None and row >= rank > column

    @property
    def is_both_ways(self) -> bool:
        """Whether some members sum rows, and some columns, of the same values."""
        return any(self.sums_rows(op) for op in self.ops)

    def sums_columns(self, op: TensorOp) -> bool:
        """Whether the op reduces over the columns."""
        axis = self.axes[op][-1] if self.column is not None else None
        return axis is not None and axis >= len(op.shape)

    @property
    def narrow(self) -> list[TensorOp]:
        """Members whose results do not have both rows and columns: of both ways, the sums."""
        return [op for op in self.ops if not self.is_wide(op)]

    def made_for(self, wanted: Sequence[TensorOp], maps: AxisMaps) -> list[TensorOp]:
        """Ops, and the wide members that they read."""
        found = dict.fromkeys(wanted)
        pending = list(wanted)
        while pending:
            for read in maps.sources_of(pending.pop()):
                op = read.value.owner
                if isinstance(op, TensorOp) and op not in found and self.is_wide(op):
                    found[op] = None
                    pending.append(op)
        return list(found)


def starts_of(
    seed: Reduction, least: int | None, maps: AxisMaps
) -> Iterator[tuple[tuple[int, ...], int | None]]:
    """
    The row axes and the column axis to begin with: those of the reduction's own space. `least`: the
    fewest columns there may be; None: no columns are wanted.
    """
    one = Dim.const(1)
    space, rank = seed.iteration(), len(seed.shape)
    if Dim.const(0) in space:
        return  # nothing to compute
    reduced = [axis for axis in range(rank, len(space)) if space[axis] != one]
    many = [axis for axis in reduced if least is not None and estimate(space[axis]) >= least]
    if maps.once(_is_ordered, seed):
        reduced = many = []
    if seed.combiner().extreme is not None:
        reduced, many = [], many if finds_position(seed) else []
    words, result, _ = seed.words()
    seen: set[tuple[int, ...]] = set()
    for word in (*words, result[:1]):
        rows = tuple(k for k, c in enumerate(result) if c in word and space[k] != one)
        rows = rows or tuple(reduced[:1])  # all is reduced: what tiles of rows give is combined
        if not rows or rows in seen:
            continue
        seen.add(rows)
        if least is not None:
            yield from ((rows, axis) for axis in many if axis not in rows)
        elif not isinstance(seed, ContractOp) or maps.is_narrow(seed):
            yield rows, None


def _may_join(op: Operation) -> bool:
    """Whether the op may be a phase, or a part of one."""
    if not isinstance(op, TensorOp) or is_view(op) or is_stored_constant(op):
        return False
    return not isinstance(op, OpaqueOp | ReshapeOp | Windowed)


class Growth:
    """All that can be computed beside a reduction, tile by tile along its axes."""

    def __init__(
        self,
        seed: Reduction,
        rows: tuple[int, ...],
        column: int | None,
        maps: AxisMaps,
        graph: BlockGraph,
    ) -> None:
        self.seed = seed
        self.maps = maps
        self.graph = graph
        space = seed.iteration()
        self.rows = tuple(space[axis] for axis in rows)
        self.column = None if column is None else space[column]
        self.axes: dict[TensorOp, Axes] = {seed: (*rows, column)}
        self._shaped: dict[tuple[TensorOp, Axes], bool] = {}
        self._read: set[tuple[SSAValue, tuple[int | None, ...]]] = set()

    def run(self) -> Group | None:
        """The group, if the seed itself is in it."""
        pending: list[TensorOp] = [self.seed]
        convex = ConvexSet(self.graph)
        convex.add(self.seed, ends=self._is_fold(self.seed, self.axes[self.seed]))
        while pending and len(self.axes) < OPS:
            op = pending.pop(0)
            for other, wanted in self._neighbours(op):
                if other in self.axes or not self._may_grow(other, wanted):
                    continue
                for new, axes in self._added(convex, other, wanted):
                    self.axes[new] = axes
                    pending.append(new)
                    if self._is_wide(new) and not self.graph.may_dissolve(new.results[0]):
                        return None  # it is stored in any case
        ops = self.graph.ordered(self.axes)  # each was added so that they are convex
        while (kept := self._agreeing(ops)) != ops:
            ops = self._convex(kept)
        if self.seed not in ops:
            return None
        if self.column is None:
            return Group(ops, self.rows, {op: self.axes[op][:-1] for op in ops})
        return Group(ops, self.rows, {op: self.axes[op] for op in ops}, self.column)

    def stranger(self, axes: Mapping[TensorOp, Axes]) -> TensorOp | None:
        """The first of ops with given axes that cannot be computed tile by tile with the others."""
        self.axes = dict(axes)
        convex = ConvexSet(self.graph)
        for op in self.graph.ordered(axes):
            fits = _may_join(op) and self._has_shape(op, axes[op])
            if not (fits and self._agrees(op, axes[op], axes)):
                return op
            if not convex.add(op, ends=self._is_fold(op, axes[op])):
                return op
        return None

    def _may_grow(self, op: TensorOp, wanted: Axes) -> bool:
        return self.graph.number(op) is not None and _may_join(op) and self._fits(op, wanted)

    def _added(self, convex: ConvexSet, op: TensorOp, wanted: Axes) -> list[tuple[TensorOp, Axes]]:
        """An op and where it has the axes, if a set can take it, with what must come along."""
        if convex.add(op, ends=self._is_fold(op, wanted)):
            return [(op, wanted)]
        found = [*self._between(op, wanted), (op, wanted)]
        larger = copy(convex)
        if not all(larger.add(new, ends=self._is_fold(new, axes)) for new, axes in found):
            return []
        convex.take(larger)
        return found

    def _between(self, op: TensorOp, wanted: Axes) -> Iterator[tuple[TensorOp, Axes]]:
        """What an op reads that reads members itself: without it a path would leave the group."""
        for other, axes in self._producers(op, wanted):
            reads = (read.value.owner for read in self.maps.sources_of(other))
            new = other not in self.axes and any(x in self.axes for x in reads)
            if new and self._may_grow(other, axes):
                yield other, axes

    def _neighbours(self, op: TensorOp) -> Iterator[tuple[TensorOp, Axes]]:
        yield from self._producers(op, self.axes[op])
        yield from self._consumers(op)
        if self.column is None and isinstance(op, Reduction):
            yield from self._siblings(op)

    def _siblings(self, op: TensorOp) -> Iterator[tuple[TensorOp, Axes]]:
        """Who else reads what the op reads along the rows: both find it in a cache."""
        for read in self.maps.sources_of(op):
            owner = read.value.owner
            rows = tuple(None if a is None else read.axes[a] for a in self.axes[op][:-1])
            if owner in self.axes or any(a is None or a == BLOCKED for a in rows):
                continue
            if (read.value, rows) in self._read:
                continue  # its readers are known
            self._read.add((read.value, rows))
            for user in self.graph.readers_near(read.value, op, OPS):
                places = self.maps.places_in(user, read.value)
                found = [places.get(row) for row in rows if row is not None]
                if user is not op and None not in found:
                    yield user, (*found, None)

    def _producers(self, op: TensorOp, axes: Axes) -> Iterator[tuple[TensorOp, Axes]]:
        for read in self.maps.sources_of(op):
            owner = read.value.owner
            *rows, column = (None if a is None else read.axes[a] for a in axes)
            known = all(a is not None and a != BLOCKED for a in rows) and column != BLOCKED
            if isinstance(owner, TensorOp) and known:
                yield owner, (*rows, self._guess(owner, rows) if column is None else column)

    def _consumers(self, op: TensorOp) -> Iterator[tuple[TensorOp, Axes]]:
        if self._is_fold(op, self.axes[op]):
            return  # complete only when all tiles are done
        for user in self.graph.readers_near(op.results[0], op, OPS):
            *rows, _ = self._found(user, op)
            if all(axis is not None for axis in rows):
                column = self._column_of(user)
                yield user, (*rows, self._guess(user, rows) if column is None else column)

    def _found(self, user: TensorOp, op: TensorOp) -> Axes:
        """Where an op's axes are in the iteration space of one that reads its result."""
        places = self.maps.places_in(user, op.results[0])
        return tuple(None if axis is None else places.get(axis) for axis in self.axes[op])

    def _column_of(self, user: TensorOp) -> int | None:
        """Where an op has the columns that members whose results it reads have."""
        for read in self.maps.sources_of(user):
            owner = read.value.owner
            if isinstance(owner, TensorOp) and owner in self.axes:
                column = self.axes[owner][-1]
                if column is not None and column < self.maps.space_of(owner)[1]:
                    return self._found(user, owner)[-1]
        return None

    def _guess(self, op: TensorOp, rows: Sequence[int | None]) -> int | None:
        """The columns of an op that was found by what has none: by their number, if at all."""
        if self.column is None:
            return None
        space, rank = self.maps.space_of(op)
        low = rank if isinstance(op, Reduction) else 0
        found = [k for k in range(low, len(space)) if k not in rows and space[k] == self.column]
        return found[0] if len(found) == 1 else None

    def _is_wide(self, op: TensorOp) -> bool:
        column = self.axes[op][-1]
        return column is not None and column < self.maps.space_of(op)[1]

    def _is_fold(self, op: TensorOp, axes: Axes) -> bool:
        return axes[0] is not None and axes[0] >= self.maps.space_of(op)[1]

    def _fits(self, op: TensorOp, wanted: Axes) -> bool:
        """Whether the op can be computed for a tile of rows, given what is known to be."""
        found = self._shaped.get((op, wanted))
        if found is None:
            found = self._shaped[op, wanted] = self._has_shape(op, wanted)
        return found and self._agrees(op, wanted, self.axes)

    def _has_shape(self, op: TensorOp, wanted: Axes) -> bool:
        """Whether there are tiles of these axes."""
        space, rank = self.maps.space_of(op)
        *rows, column = wanted
        given = [a for a in wanted if a is not None]
        if len(set(given)) != len(given) or len(rows) != len(self.rows):
            return False
        if any(a is None or space[a] != n for a, n in zip(rows, self.rows, strict=True)):
            return False
        if column is not None and space[column] != self.column:
            return False
        reduced = [a is not None and a >= rank for a in rows]
        if any(reduced) and not (all(reduced) and self.maps.once(may_fold, op)):
            return False
        if any(reduced) and column is not None and column < rank:
            return False  # sums over rows and has columns: those come one after another
        summed = column is not None and column >= rank
        if summed and not (self.maps.once(may_fold, op) or finds_position(op)):
            return False
        return not isinstance(op, ContractOp) or column is not None or self.maps.is_narrow(op)

    def _agrees(self, op: TensorOp, wanted: Axes, members: Collection[TensorOp]) -> bool:
        """Whether what the op reads of other members is the tile that they have."""
        for read in self.maps.sources_of(op):
            moved = tuple(None if a is None else read.axes[a] for a in wanted)
            if BLOCKED in moved:
                return False
            owner = read.value.owner
            if not isinstance(owner, TensorOp):
                continue
            if owner not in members:
                if self.maps.looks_at(read.value, members):
                    return False
                continue
            theirs = self.axes[owner]
            if moved[:-1] != theirs[:-1]:
                return False
            # what has no columns is read by all columns
            column = theirs[-1]
            has = column is not None and column < self.maps.space_of(owner)[1]
            if has != (moved[-1] is not None) or (has and moved[-1] != column):
                return False
        return True

    def _agreeing(self, ops: Sequence[TensorOp]) -> list[TensorOp]:
        members = set(ops)
        return [op for op in ops if self._agrees(op, self.axes[op], members)]

    def _convex(self, ops: Sequence[TensorOp]) -> list[TensorOp]:
        """Of ops in order those with no path from one to another that leaves them."""
        convex = ConvexSet(self.graph)
        return [op for op in ops if convex.add(op, ends=self._is_fold(op, self.axes[op]))]


def may_fold(op: TensorOp) -> bool:
    """Whether partial results of tiles combine to the result, and no less exactly."""
    if fold_of(op) not in FOLDS or not isinstance(op, Reduction):
        return False
    if op.dtype.kind == "bool" or _is_ordered(op):
        return False
    return op.summand() == op.dtype or is_widened(op)


def finds_position(op: TensorOp) -> bool:
    """Whether an op gives where the largest or smallest element of one axis lies."""
    return (
        isinstance(op, ReduceOp) and op.combiner().extreme is not None and op.summand() is not BOOL
    )


def _is_ordered(op: TensorOp) -> bool:
    """Whether its summands must be combined in the reference's order."""
    return isinstance(op, Reduction) and op.order() != "any" and is_strict(op)


def fold_of(op: TensorOp) -> str:
    """The monoid of a reduction."""
    if isinstance(op, ReduceOp):
        return op.monoid.data
    return "sum" if isinstance(op, Product) else ""


def leaves(op: TensorOp, group: Group) -> bool:
    """Whether somebody outside of the group reads the result."""
    pending, seen, block = [op.results[0]], set[Operation](), op.parent
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if user in seen:
                continue
            seen.add(user)
            member = user in group.axes
            if member and not group.is_wide(cast("TensorOp", user)):
                continue
            # columns are computed here; who else wants them computes them from the rows
            if not member and not (
                isinstance(user, TensorOp) and is_view(user) and user.parent is block
            ):
                return True
            pending.append(user.results[0])
    return False


def stores_twice(group: Group) -> bool:
    """
    Whether columns that are computed in the loop are wanted elsewhere too, and are no larger than
    what the loop hands on: both would lie in memory, where one would do.
    """
    results = [op for op in group.ops if not group.is_wide(op) and leaves(op, group)]
    largest = max((stored_bytes(op.results[0].type) for op in results), default=0)
    return any(
        group.is_wide(op) and stored_bytes(op.results[0].type) <= largest and leaves(op, group)
        for op in group.ops
    )
