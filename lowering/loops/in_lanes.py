"""Reductions whose partial results are those of the reference, for numerics "strict"."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32, i64
from xdsl.ir import SSAValue

from mlc.dialects.lanes import vector_type
from mlc.dialects.tensor.monoid import State
from mlc.dialects.tensor.order import BLOCK_ELEMENTS, BLOCKS, LANES
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import buffer_type, memory_type
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.reduce import ReductionNest


class LanesNest(ReductionNest):
    """
    Partial results "in lanes" (`dialects/tensor/order.py`).

    Along the last reduced axis they are lanes of registers; down the columns each lane of the
    result's axis has its own in memory.
    """

    def __init__(self, s: KernelScope) -> None:
        super().__init__(s)
        self.partial_results: SSAValue | None = None
        last = self.axes.sizes[self.reduced[-1]] if self.reduced else 0
        self.used = min(LANES, last) if isinstance(last, int) else LANES

    def block_size(self, order: Sequence[int]) -> Index:
        """`order.block_size` of the first reduced axis."""
        b, sizes = self.b, [self.axes.sizes[k] for k in order]
        least = b.ceil_div(BLOCK_ELEMENTS, b.max(b.product(sizes[1:]), 1))
        block = b.max(b.ceil_div(sizes[0], BLOCKS), least)
        return b.round_up(block, LANES) if len(order) == 1 else block

    def folded(self, e: Lanes, found: Sequence[State | None]) -> State:
        """The upper half of partial results into the lower; None: nothing was met."""
        while len(found) > 1:
            half = len(found) // 2
            found = [
                x if y is None or x is None else self.monoid.combine(e, self.dtype, x, y)
                for x, y in zip(found[:half], found[half:], strict=True)
            ]
        assert found[0] is not None
        return found[0]

    def fold_sets(self, e: Lanes, sets: Sequence[State]) -> State:
        return self.folded(e, sets)

    # the vector along the last reduced axis -------------------------------------------------

    def state_of(
        self, fixed: dict[int, Position], order: Sequence[int], low: Index, high: Index
    ) -> State:
        b, block = self.b, self.block_size(order)

        def one(start: Index, *total: SSAValue) -> Sequence[SSAValue]:
            end = b.min(b.add(start, block), high)
            found = self.reduce_range(fixed, order, start, end)
            return self.monoid.combine(self.s.lanes(1), self.dtype, total, found)

        return b.loop(low, high, block, one, self.identity(1, 1))

    def walk(
        self,
        low: Index,
        high: Index,
        at: dict[int, Position],
        inits: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        b, width = self.b, self.lanes * self.unroll
        end = b.add(low, b.mul(b.div(b.sub(high, low), width), width))

        def one(u: int, left: Index | None, i: Index, state: State) -> State:
            """The u-th register, of which `left` elements are there."""
            place = b.add(i, u * self.lanes)
            here = {**at, self.vector: Position(place, 1)}
            point = [here[g] for g in range(len(self.axes.groups))]
            if left is None:
                return self.step(self.s.lanes(self.lanes), point, state)
            if isinstance(left, int) and left <= 0:
                return state
            if self.lanes > 1:
                mask = b.mask(left, self.lanes)
                return self.step(self.s.lanes(self.lanes, mask), point, state)
            there = b.compare("gt", left, 0)
            if isinstance(there, bool):
                return self.step(self.s.lanes(1), point, state)
            return b.pick_all(
                there, lambda: self.step(self.s.lanes(1), point, state), lambda: state
            )

        def trip(whole: bool, i: Index, *c: SSAValue) -> Sequence[SSAValue]:
            found: list[SSAValue] = []
            for u, state in enumerate(c):
                left = None if whole else b.sub(high, b.add(i, u * self.lanes))
                found += one(u, left, i, (state,))
            return found

        inner = b.loop(low, end, width, partial(trip, True), inits)
        return b.loop(end, high, width, partial(trip, False), inner)

    # down the columns -----------------------------------------------------------------------

    def prepare(self) -> None:
        size = LANES * self.lanes * self.unroll
        self.partial_results = self.b.value(
            memref.AllocaOp.create(
                result_types=[buffer_type(memory_type(self.dtype), (size,))],
                properties={
                    "operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0]),
                    "alignment": IntegerAttr(64, i64),
                },
            )
        )

    def column_block(
        self, fixed: dict[int, Position], j: Index, masks: Sequence[SSAValue | None]
    ) -> None:
        b, size = self.b, self.axes.sizes[self.reduced[0]]
        columns = [(Position(b.add(j, u * self.lanes), 1), m) for u, m in enumerate(masks)]

        def block(start: Index, *totals: SSAValue) -> Sequence[SSAValue]:
            for slot in range(self.used):
                for u in range(len(masks)):
                    self._put(slot, u, self.identity(self.lanes, 1)[0])
            end = b.min(b.add(start, self.block_size(self.reduced)), size)
            self._down(0, fixed, (start, end), columns)
            e, found = self.s.lanes(self.lanes), list[SSAValue]()
            for u, total in enumerate(totals):
                slots = [(self._get(k, u),) if k < self.used else None for k in range(LANES)]
                folded = self.folded(e, slots)
                found += self.monoid.combine(e, self.dtype, (total,), folded)
            return found

        inits = self.identity(self.lanes, len(masks))
        totals = (
            b.loop(0, size, self.block_size(self.reduced), block, inits) if self.used else inits
        )
        for (column, mask), total in zip(columns, totals, strict=True):
            at = [{**fixed, self.vector: column}[g] for g in self.kept]
            self.finish(self.s.lanes(self.lanes, mask), at, (total,))

    def _down(
        self,
        k: int,
        at: dict[int, Position],
        extent: tuple[Index, Index],
        columns: Sequence[tuple[Position, SSAValue | None]],
    ) -> None:
        """All positions of the reduced axes from the k-th on, the first in `extent`."""
        b, group = self.b, self.reduced[k]
        low, high = extent if k == 0 else (0, self.axes.sizes[group])
        if k < len(self.reduced) - 1:
            b.loop(
                low,
                high,
                1,
                lambda i: self._down(k + 1, {**at, group: Position(i)}, extent, columns),
            )
            return

        def row(first: Index, slot: Index) -> None:
            for u, (column, mask) in enumerate(columns):
                here = {**at, group: Position(b.add(first, slot)), self.vector: column}
                e = self.s.lanes(self.lanes, mask)
                point = [here[g] for g in range(len(self.axes.groups))]
                self._put(slot, u, self.step(e, point, (self._get(slot, u),))[0])

        def rows(i: Index) -> None:
            b.loop(0, b.min(b.sub(high, i), LANES), 1, partial(row, i))

        b.loop(low, high, LANES, rows)

    def _place(self, slot: Index, u: int) -> Index:
        b = self.b
        return b.add(b.mul(slot, self.lanes * self.unroll), u * self.lanes)

    def _get(self, slot: Index, u: int) -> SSAValue:
        assert self.partial_results is not None
        at = [self._place(slot, u)]
        if self.lanes == 1:
            return self.b.load(self.partial_results, at)
        kind = vector_type(self.dtype.register, self.lanes)
        return self.b.load_vector(self.partial_results, at, kind, None, None)

    def _put(self, slot: Index, u: int, value: SSAValue) -> None:
        assert self.partial_results is not None
        at = [self._place(slot, u)]
        if self.lanes == 1:
            self.b.store(value, self.partial_results, at)
        else:
            self.b.store_vector(value, self.partial_results, at, None)


def lower_reduction(s: KernelScope) -> None:
    """A kernel that holds one reduction, or a contraction too small to pack."""
    assert s.nest is not None
    nest = LanesNest(s) if s.nest.order == "in lanes" else ReductionNest(s)
    if not nest.axes.groups:
        nest.at_a_point()
    elif nest.vector in nest.reduced:
        nest.along_reduced()
    else:
        nest.along_kept()
