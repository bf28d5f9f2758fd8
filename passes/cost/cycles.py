"""
Cycles of one core in the loops of a kernel, its operands in level 1: what is not memory traffic.

A nest is walked in rows: the loop that carries the vector, with the axes that join it. A row costs
its start, its whole vectors and what it loses at a ragged end; a vector costs its ops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, log2, prod

from xdsl.ir import Operation, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.analysis.access import Access, Nest, kept_pieces, nest_of, whole_of
from mlc.dialects.analysis.transposed_reads import turned_inputs
from mlc.dialects.dims import product, shape_of
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.loop_costs import LoopCosts
from mlc.dialects.tensor.op import OpaqueOp, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import ConcatOp, SliceOp
from mlc.dialects.tensor.sort import ArgsortOp, SortOp
from mlc.dialects.tile.words import Words
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.arrays import LINES_AHEAD
from mlc.passes.cost.ops import op_cycles
from mlc.passes.cost.streams import line_s
from mlc.passes.cost.trips import nest_cycles
from mlc.passes.cost.walk import places_of
from mlc.passes.cost.work import ATTO, cycle_s
from mlc.passes.tile.products import WordsOf
from mlc.passes.tile.strips import work_of_strips
from mlc.passes.tile.windows import in_strips

FUNCTION_CYCLES = 8.0
"""From which an op is a long chain of operations."""
ALIGNED_TAP = 8 / 15
"""A vector in one line, to those of all places in a line, of which seven in eight lie in two."""
COLUMN_DEPTH = 256
"""Rows from which a reduction down the columns has many."""


def kernel_cycles(kernel: KernelOp, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """Of one run of the kernel on one core."""
    if kernel.is_nest:
        return nest_cycles(kernel, sizes, target)
    nest = nest_of(kernel)
    if nest is None:
        return _whole_kernel(kernel, sizes, target)
    schedule = kernel.schedule.data if kernel.schedule is not None else Schedule()
    extents = tuple(dim.evaluate(sizes) for dim in nest.sizes)
    if not prod(extents):
        return 0.0
    if isinstance(nest.reduction, Product) and schedule.cuts:
        cycles = _by_words(kernel, schedule.cuts, sizes, target)
        return cycles + _around(kernel, nest.reduction, sizes, target)
    return _Rows(kernel, nest, schedule, extents, sizes, target).cycles()


@dataclass(frozen=True)
class _Rows:
    """A nest as rows of vectors."""

    kernel: KernelOp
    nest: Nest
    schedule: Schedule
    extents: tuple[int, ...]
    sizes: Mapping[str, int]
    target: CpuTarget

    @property
    def loops(self) -> LoopCosts:
        """What loops take on the machine."""
        return self.target.loops

    def cycles(self) -> float:
        """Of the whole nest."""
        if self.nest.reduction is None:
            return self._pointwise()
        if self.schedule.vector_axis >= self.nest.rank:
            return self._along()
        if self.schedule.flat or self.schedule.rows:
            return self._several_rows()
        return self._down()

    def _pointwise(self) -> float:
        loops, (row, lanes) = self.loops, self._row()
        rows, vectors = prod(self.extents) // row, ceil(row / lanes)
        start = loops.row_start_cycles if rows > 1 and vectors > 1 else 1.0
        if any(not p.known for access in self.nest.accesses for p in access.point[:-1]):
            start += loops.gathered_row_cycles * (row > 1)
        end = (row % lanes != 0) * loops.masked_store_cycles * len(self.kernel.outs)
        if row % lanes and rows > 1 and max(self.kernel.shared_inputs) >= 0:
            end += loops.blocked_cycles  # the next row begins beside what this one has stored
        return rows * (start + vectors * (loops.vector_step_cycles + self._vector(lanes)) + end)

    def _along(self) -> float:
        """A reduction along rows: lanes hold parts of one result."""
        loops, (row, lanes), states = self.loops, self._row(), self._states()
        rows, vectors = prod(self.extents) // row, ceil(row / lanes)
        vector = self._step(lanes) + loops.extreme_step_cycles * (states > 1)
        end = loops.joined_fold_cycles if self.schedule.rows else loops.fold_cycles
        end = loops.extreme_fold_cycles if states > 1 else end
        end += (row % lanes != 0) * loops.masked_load_cycles
        if vector >= FUNCTION_CYCLES:  # these wait for one another
            rest = ceil(row % (lanes * self.schedule.unroll) / lanes)
            end += rest * loops.function_rest_cycles
        return rows * (1.0 + vectors * vector) + self._results * (end + self._per_result(1))

    def _several_rows(self) -> float:
        """A reduction down columns, several rows at once: in registers, or states in level 1."""
        loops, (_, lanes) = self.loops, self._row()
        points, vector = prod(self.extents), self._step(lanes)
        if self.schedule.flat:
            end = self._results * (loops.fold_cycles + self._per_result(1))
            return ceil(points / lanes) * vector + end
        vector += loops.state_cycles / self.schedule.rows
        return points / lanes * vector + self._results / lanes * self._per_result(lanes)

    def _down(self) -> float:
        """A reduction down columns: lanes hold results side by side."""
        loops, (row, lanes), results = self.loops, self._row(), self._results
        ragged, reduced = row % lanes != 0, prod(self.extents) // results
        short = prod(self.extents[self.nest.rank : -1])
        start = loops.row_start_cycles + ragged * loops.masked_store_cycles
        start += loops.short_loop_cycles * short * (short > 1)
        deep = loops.few_rows_vector_cycles
        if reduced >= COLUMN_DEPTH and not isinstance(self.nest.reduction, Product):
            line = line_s(reduced * self.target.cache_line_bytes, self.target)
            deep = loops.many_rows_vector_cycles + line / cycle_s(self.target) / LINES_AHEAD
        vector = max(deep, self._vector(lanes))
        step = loops.down_step_cycles + ragged * loops.masked_load_cycles
        rows = results // row * (start + reduced * (step + ceil(row / lanes) * vector))
        return rows + results / lanes * self._per_result(lanes)

    def _step(self, lanes: int) -> float:
        """A vector that is combined into a state."""
        return max(self.loops.reduce_step_cycles, self._vector(lanes))

    @property
    def _results(self) -> int:
        return prod(self.extents[: self.nest.rank])

    def _states(self) -> int:
        reduction = self.nest.reduction
        assert reduction is not None
        return len(reduction.combiner().state(reduction.summand()))

    def _row(self) -> tuple[int, int]:
        """Elements of the row that carries the vector, and of a vector."""
        axis = self.schedule.vector_axis
        group = next((g for g in self._groups() if axis in g), ())
        row = prod(self.extents[a] for a in group)
        return row, (self.schedule.lanes if row > 1 else 1)

    def _groups(self) -> Sequence[Sequence[int]]:
        return self.nest.groups(frozenset())

    def _vector(self, lanes: int) -> float:
        """Of one vector of points: its ops, and the elements it must collect one by one."""
        cycles, functions = 0.0, 0.0
        for op in self.kernel.block.ops:
            if isinstance(op, TensorOp) and op not in self._epilogue:
                found = self._share(op) * op_cycles(op, lanes, self.target)
                cycles += found * self._places.get(op, 1.0)
                functions += found >= FUNCTION_CYCLES
        cycles *= self.loops.function_chain_factor if functions > 1 else 1.0
        if lanes > 1:  # loads and ops begin side by side
            cycles = max(cycles, self._taps * self.loops.tap_cycles)
        for access in self.nest.accesses:
            if not access.per_result:
                cycles += self._access(access, lanes)
        return cycles

    @cached_property
    def _taps(self) -> float:
        """Loads of a vector from inputs of which it takes several."""
        found: dict[int, dict[object, float]] = {}
        for access in self.nest.accesses:
            if not access.per_result and self._step_of(access) == 1:
                found.setdefault(access.argument, {})[access.point] = self._lines(access)
        return sum(sum(each.values()) for each in found.values() if len(each) > 1)

    def _lines(self, access: Access) -> float:
        """Of a load of several, one where its vectors lie in two lines; less where in one."""
        item = element_dtype(self.kernel.inputs[access.argument]).bytes
        unit, start, crossed = item, 0, False
        for position, dim in zip(reversed(access.point), reversed(access.shape), strict=True):
            if not position.offset.symbols() <= self.sizes.keys():
                return 1.0  # somewhere
            start += position.offset.evaluate(self.sizes) * unit
            unit *= dim.evaluate(self.sizes)
            crossed |= unit % self.target.cache_line_bytes != 0
        several = prod(self.extents) > self._row()[0]
        in_two = (crossed and several) or start % self.target.cache_line_bytes != 0
        return 1.0 if in_two else ALIGNED_TAP

    @cached_property
    def _places(self) -> Mapping[TensorOp, float]:
        """At how many places a value is computed for each point: at each where it is read."""
        places = places_of(self.kernel.block, self.sizes)
        return {op: sum(each) / max(each) for op, each in places if any(each)}

    def _share(self, op: TensorOp) -> float:
        """How often an op is computed, per point: what stays along a row leaves its loop."""
        points = prod(self.extents)
        extents = [n for n in (dim.evaluate(self.sizes) for dim in op.iteration()) if n != 1]
        along = self.extents[self.schedule.vector_axis] if self.schedule.vector_axis >= 0 else 1
        if extents and extents[-1] == along:
            return 1.0
        return min(prod(extents) / points, 1.0)

    def _per_result(self, lanes: int) -> float:
        """What comes after a reduction, for each vector of results."""
        results = prod(self.extents[: self.nest.rank])
        cycles = 0.0
        for op in self.kernel.block.ops:
            if isinstance(op, TensorOp) and op in self._epilogue:
                share = product(op.iteration()).evaluate(self.sizes) / results
                cycles += min(share, 1.0) * op_cycles(op, lanes, self.target)
        return cycles

    @cached_property
    def _epilogue(self) -> frozenset[Operation]:
        """The ops that work on what the reduction gives."""
        found: set[Operation] = set()
        pending: list[Operation] = [*self.nest.reductions]
        while pending:
            for result in pending.pop().results:
                new = {use.operation for use in result.uses} - found
                found |= new
                pending += new
        return frozenset(found)

    @cached_property
    def _turned(self) -> frozenset[int]:
        return turned_inputs(self.kernel, self.nest)

    def _access(self, access: Access, lanes: int) -> float:
        if lanes == 1:
            return 0.5
        if access.point and not access.point[-1].known:
            return self.loops.gathered_cycles * lanes
        stride = self._step_of(access)
        if stride in (0, 1):
            return 0.0
        item = element_dtype(self.kernel.inputs[access.argument]).bytes
        if access.argument in self._turned:
            return self.loops.turned(item) * lanes
        step, line = abs(stride) * item, self.target.cache_line_bytes
        in_row = access.point[-1].coefficient(self.schedule.vector_axis) != 0
        return self.loops.alone_cycles(item, step, line, in_row=in_row) * lanes

    def _step_of(self, access: Access) -> int:
        """Elements from one place of an input to the next one along the vector."""
        stride, unit = 0, 1
        shape = [dim.evaluate(self.sizes) for dim in access.shape]
        for position, extent in zip(reversed(access.point), reversed(shape), strict=True):
            if not position.known:
                return 0
            stride += position.coefficient(self.schedule.vector_axis) * unit
            unit *= extent
        return stride


def _several(counts: Iterable[int]) -> int:
    return sum(count for count in counts if count > 1)


def _by_words(kernel: KernelOp, words: Words, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """A contraction by the words that cut it, as whoever chose them has it: tiles and copies."""
    if in_strips(words):
        found = work_of_strips(kernel, words, sizes, target)
        return (found.core + found.wait) / ATTO / cycle_s(target)
    return WordsOf(kernel, target).predicted(words, sizes).work.core / ATTO / cycle_s(target)


def _around(kernel: KernelOp, op: Product, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """What follows a product's sums, or makes its factors."""
    lanes, cycles = target.lanes(8 * op.summand().bytes), 0.0
    for inner in kernel.block.ops:
        if isinstance(inner, TensorOp) and inner is not op:
            count = product(inner.iteration()).evaluate(sizes)
            cycles += (
                count / lanes * op_cycles(inner, lanes, target) * target.loops.tile_epilogue_factor
            )
    return cycles


def _whole_kernel(kernel: KernelOp, sizes: Mapping[str, int], target: CpuTarget) -> float:
    whole = whole_of(kernel)
    if isinstance(whole, ConcatOp):
        over = kernel.overwritten
        kept = set[int]() if over is None else kept_pieces(kernel, over)
        written = (x for k, (x, _) in enumerate(whole.pieces()) if k not in kept)
        return sum(_piece_cycles(x, whole, sizes, target) for x in written)
    lanes = target.lanes(32)
    cycles = 0.0
    for op in kernel.block.ops:
        if isinstance(op, TensorOp) and op is not whole:
            count = product(op.iteration()).evaluate(sizes)
            cycles += count / lanes * op_cycles(op, lanes, target)
    return cycles + (whole_cycles(whole, sizes, target) if whole is not None else 0.0)


def _piece_cycles(
    piece: SSAValue, op: ConcatOp, sizes: Mapping[str, int], target: CpuTarget
) -> float:
    """Of what is joined to others: rows of vectors along the last axis of several elements."""
    loops, item = target.loops, op.dtype.bytes
    lanes = target.lanes(8 * item)
    extents = [dim.evaluate(sizes) for dim in shape_of(piece.type)]
    axis = max((k for k, n in enumerate(extents) if n != 1), default=len(extents) - 1)
    along, rows = extents[axis], prod(extents[:axis])
    step = item * prod(dim.evaluate(sizes) for dim in op.shape[axis + 1 :])
    made = [*_made_of(piece)]
    ops = sum(op_cycles(x, lanes, target) for x in made)
    taps = Counter(x.operands[0] for x in made if isinstance(x, SliceOp))
    vector = loops.vector_step_cycles + max(ops, _several(taps.values()) * loops.tap_cycles)
    if step > item:  # a column of a wider array
        vector += lanes * loops.alone_cycles(item, step, target.cache_line_bytes)
    ragged = (along % lanes != 0) * loops.masked_store_cycles
    each = loops.row_start_cycles + ceil(along / lanes) * vector + ragged
    return loops.short_loop_cycles + rows * each


def _made_of(value: SSAValue) -> Iterator[TensorOp]:
    """The ops of a kernel that make a value."""
    pending, seen = [value], set[Operation]()
    while pending:
        op = pending.pop().owner
        if isinstance(op, TensorOp) and op not in seen:
            seen.add(op)
            pending += op.operands
            yield op


def whole_cycles(op: OpaqueOp, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """Of an op that is written as a whole."""
    extents = [dim.evaluate(sizes) for dim in op.iteration()]
    elements = prod(extents)
    if isinstance(op, SortOp | ArgsortOp):
        steps = log2(max(extents[-1] if extents else 1, 2))
        return (
            elements
            * steps
            * (target.loops.sort_cycles if isinstance(op, SortOp) else target.loops.argsort_cycles)
        )
    if isinstance(op, ScanOp):
        return elements * target.loops.scan(op.dtype.bytes)
    if isinstance(op, ScatterOp):
        updates = prod(dim.evaluate(sizes) for dim in shape_of(op.operands[-1].type))
        return updates * (
            target.loops.scatter_cycles + target.loops.scatter_index_cycles * (len(op.indices) - 1)
        )
    return elements * op.WEIGHT * 0.5 / target.lanes(32) if op.FLOPS else elements * 0.1
