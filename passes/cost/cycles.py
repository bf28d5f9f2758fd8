"""
Cycles of one core in the loops of a kernel, its operands in level 1: what is not memory traffic.

A nest is walked in rows: the loop that carries the vector, with the axes that join it. A row costs
its start, its whole vectors and what it loses at a ragged end; a vector costs its ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import ceil, log2, prod

from xdsl.ir import Operation

from mlc.dialects.analysis.access import Access, Nest, nest_of, whole_of
from mlc.dialects.analysis.transposed_reads import turned_inputs
from mlc.dialects.dims import product, shape_of
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.op import OpaqueOp, TensorOp, tensor_of
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.sort import ArgsortOp, SortOp
from mlc.dialects.tile.words import Words
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.nests import nest_cycles
from mlc.passes.cost.ops import REDUCE_STEP_CYCLES, op_cycles
from mlc.passes.cost.work import cycle_s
from mlc.passes.tile.products import WordsOf
from mlc.passes.tile.strips import cycles_of_strips
from mlc.passes.tile.windows import in_strips

# Measured: docs/measurements.md, Cost model.
ROW_CYCLES = 6.0  # starting the loop that carries the vector
MASKED_STORE_CYCLES = (18.0, 2.0)  # a vector stored in part, without and with mask registers
MASKED_LOAD_CYCLES = 3.0
STEP_CYCLES = 0.4  # of a vector, beside its ops: addresses and the loop's end
FUNCTION_CYCLES = 8.0  # from which an op is a long chain of operations
FUNCTION_CHAIN = 1.1  # several of them in one kernel, to each in its own
REST_CYCLES = 6.0  # a vector of them behind the last whole trip of a reduction's loop
FOLD_CYCLES = 5.0  # a state of several vectors to one element, beside the next row's loads
EXTREME_STEP_CYCLES = 5.0  # and its position
LOOP_CYCLES = 25.0  # a loop of few trips
COLUMN_VECTOR_CYCLES = (1.2, 3.2)  # down few rows, whose columns overlap, and down many
COLUMN_DEPTH = 256
COLUMN_STEP_CYCLES = 2.0  # one step down the columns: an addition waits for the one before
STATE_CYCLES = 2.0  # a state that waits in level 1: loaded and stored
STRIDED_CYCLES = 1.2  # an element that is loaded alone
TURNED_CYCLES = 0.5  # one that is turned in a tile
CONFLICT_BYTES = 1024
CONFLICT_CYCLES = 6.0  # as above, where strides by such a power of two share few sets of level 1
GATHERED_CYCLES = 1.5  # an element at a computed position, checked
SORT_CYCLES = 0.8  # an element, for each doubling of the row
ARGSORT_CYCLES = 6.4
SCAN_CYCLES = 1.0
SCATTER_CYCLES = 2.2  # an update
SCATTER_INDEX_CYCLES = 6.0  # of each index but one
GATHERED_ROW_CYCLES = 20.0  # a row at a computed position
TILE_EPILOGUE = 3.5  # an op on a tile's sums, to one on a long row


def kernel_cycles(kernel: KernelOp, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """Of one run of the kernel on one core."""
    if kernel.is_nest:
        return nest_cycles(kernel, sizes)
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

    def cycles(self) -> float:
        """Of the whole nest."""
        row, lanes = self._row()
        rows = prod(self.extents) // row
        vectors = ceil(row / lanes)
        per_vector = self._vector(lanes)
        ragged = row % lanes != 0
        partial = MASKED_STORE_CYCLES[self.target.num_mask_registers > 0]
        if self.nest.reduction is None:
            start = ROW_CYCLES if rows > 1 and vectors > 1 else 1.0
            if any(not p.known for access in self.nest.accesses for p in access.point[:-1]):
                start += GATHERED_ROW_CYCLES * (row > 1)
            end = ragged * partial * len(self.kernel.outs)
            return rows * (start + vectors * (STEP_CYCLES + per_vector) + end)
        if self.schedule.vector_axis >= self.nest.rank:
            vector = max(REDUCE_STEP_CYCLES, per_vector)
            states = self._states()
            if states > 1:
                vector += EXTREME_STEP_CYCLES
            results = prod(self.extents[: self.nest.rank])
            end = FOLD_CYCLES * (1 if states == 1 else 8) + ragged * MASKED_LOAD_CYCLES
            epilogue = results * self._per_result(1)
            if vector >= FUNCTION_CYCLES:  # these wait for one another
                rest = ceil(row % (lanes * self.schedule.unroll) / lanes)
                end += rest * REST_CYCLES
            return rows * (1.0 + vectors * vector) + results * end + epilogue
        if self.schedule.flat:
            vector = max(REDUCE_STEP_CYCLES, per_vector)
            end = prod(self.extents[: self.nest.rank]) * (FOLD_CYCLES + self._per_result(1))
            return ceil(prod(self.extents) / lanes) * vector + end
        if self.schedule.rows:
            vector = max(REDUCE_STEP_CYCLES, per_vector) + STATE_CYCLES / self.schedule.rows
            end = prod(self.extents[: self.nest.rank]) / lanes * self._per_result(lanes)
            return prod(self.extents) / lanes * vector + end
        step = COLUMN_STEP_CYCLES + ragged * MASKED_LOAD_CYCLES
        results = prod(self.extents[: self.nest.rank])
        reduced = prod(self.extents) // results
        epilogue = results / lanes * self._per_result(lanes)
        loops = prod(self.extents[self.nest.rank : -1])
        stored = (
            results // row * (ragged * partial + ROW_CYCLES + LOOP_CYCLES * (loops > 1) * loops)
        )
        alone = reduced >= COLUMN_DEPTH and not isinstance(self.nest.reduction, Product)
        deep = COLUMN_VECTOR_CYCLES[alone]
        if alone:
            deep += line_cycles(reduced * self.target.cache_line_bytes, self.target) / 3
        vector = max(deep, per_vector)
        return results // row * reduced * (step + vectors * vector) + epilogue + stored

    def _states(self) -> int:
        reduction = self.nest.reduction
        assert reduction is not None
        return len(reduction.combiner().state(reduction.summand()))

    def _row(self) -> tuple[int, int]:
        """Elements of a row and of a vector."""
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
                cycles += found
                functions += found >= FUNCTION_CYCLES
        cycles *= FUNCTION_CHAIN if functions > 1 else 1.0
        for access in self.nest.accesses:
            if not access.per_result:
                cycles += self._access(access, lanes)
        return cycles

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
            return GATHERED_CYCLES * lanes
        stride, unit = 0, 1
        shape = [dim.evaluate(self.sizes) for dim in access.shape]
        for position, extent in zip(reversed(access.point), reversed(shape), strict=True):
            stride += position.coefficient(self.schedule.vector_axis) * unit
            unit *= extent
        if stride in (0, 1):
            return 0.0
        if access.argument in self._turned:
            return TURNED_CYCLES * lanes
        argument = self.kernel.inputs[access.argument]
        bytes_apart = abs(stride) * dtype_of(tensor_of(argument).element_type).bytes
        conflicts = bytes_apart % CONFLICT_BYTES == 0
        return (CONFLICT_CYCLES if conflicts else STRIDED_CYCLES) * lanes


def _by_words(kernel: KernelOp, words: Words, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """A contraction by the words that cut it, as whoever chose them has it: tiles and copies."""
    if in_strips(words):
        return cycles_of_strips(kernel, words, sizes, target)
    found = WordsOf(kernel, target).predicted(words, sizes)
    return (found.core_s + found.pack_s) / cycle_s(target)


def _around(kernel: KernelOp, op: Product, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """What follows a product's sums, or makes its factors."""
    lanes, cycles = target.lanes(8 * op.summand().bytes), 0.0
    for inner in kernel.block.ops:
        if isinstance(inner, TensorOp) and inner is not op:
            count = product(inner.iteration()).evaluate(sizes)
            cycles += count / lanes * op_cycles(inner, lanes, target) * TILE_EPILOGUE
    return cycles


def line_cycles(distance: int, target: CpuTarget) -> float:
    """Of a cache line that no stream brings: it lies as far back as `distance` says."""
    if distance <= target.l1d_bytes // 2:
        return 0.0
    if distance <= target.l2_bytes // 2:
        return 3.0
    return 15.0 if distance <= target.l3_bytes // 2 else 60.0


def _whole_kernel(kernel: KernelOp, sizes: Mapping[str, int], target: CpuTarget) -> float:
    whole = whole_of(kernel)
    lanes = target.lanes(32)
    cycles = 0.0
    for op in kernel.block.ops:
        if isinstance(op, TensorOp) and op is not whole:
            count = product(op.iteration()).evaluate(sizes)
            cycles += count / lanes * op_cycles(op, lanes, target)
    return cycles + (whole_cycles(whole, sizes, target) if whole is not None else 0.0)


def whole_cycles(op: OpaqueOp, sizes: Mapping[str, int], target: CpuTarget) -> float:
    """Of an op that is written as a whole."""
    extents = [dim.evaluate(sizes) for dim in op.iteration()]
    elements = prod(extents)
    if isinstance(op, SortOp | ArgsortOp):
        steps = log2(max(extents[-1] if extents else 1, 2))
        return elements * steps * (SORT_CYCLES if isinstance(op, SortOp) else ARGSORT_CYCLES)
    if isinstance(op, ScanOp):
        return elements * SCAN_CYCLES
    if isinstance(op, ScatterOp):
        updates = prod(dim.evaluate(sizes) for dim in shape_of(op.operands[-1].type))
        return updates * (SCATTER_CYCLES + SCATTER_INDEX_CYCLES * (len(op.indices) - 1))
    return elements * op.WEIGHT * 0.5 / target.lanes(32) if op.FLOPS else elements * 0.1
