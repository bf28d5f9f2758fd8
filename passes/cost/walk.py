"""
The work of a tile program, read off its text: trips times what one trip computes, copies, loads
and stores. Of a loop's trips the first, one in the middle and the last are walked, each with its
positions, so that edges and `first` and `last` are as they are.

A stream comes from the level that holds its buffer; a part that does not move with the innermost
loop comes from nearer after the first trip, where that part fits.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from math import ceil, log2, prod
from typing import cast

from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import Dim, Shape, product, shape_of
from mlc.dialects.dtypes import DType
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import row_named
from mlc.dialects.tensor.control import yield_of
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.reduce import Product as ProductOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import SliceOp
from mlc.dialects.tile.compute import ConvertOp, Product, ReduceOp, ScanOp
from mlc.dialects.tile.control import BarrierOp, ForOp, IfOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp, MapOp, ReadOp
from mlc.dialects.tile.expression import (
    WORKERS,
    Condition,
    ConditionsAttr,
    ExpressionsAttr,
    positions_in,
)
from mlc.dialects.tile.kernel import CaseOp, KernelOp
from mlc.dialects.tile.memory import FillOp, LoadOp, StoreOp
from mlc.dialects.tile.nest import NestOp
from mlc.dialects.tile.types import FragType, TokenType, ViewType, frag_of, view_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.model import bytes_read
from mlc.passes.cost.ops import work_of_op
from mlc.passes.cost.work import Work, level_of, moved, of_cycles
from mlc.passes.tile.steps import step_cycles

RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def work_of(kernel: KernelOp, sizes: Mapping[str, int], target: CpuTarget) -> Work:
    """Of one call of the program, all its workers together, for these values of the symbols."""
    return _Walk(kernel, sizes, target).block(kernel.block) + Work(starts=1)


@dataclass
class _Walk:
    """One program, with the trip in which each loop around the current op is."""

    kernel: KernelOp
    sizes: Mapping[str, int]
    target: CpuTarget
    values: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Of positions, and of the sizes of a trip's parts."""
    ends: dict[SSAValue, tuple[bool, bool]] = field(
        default_factory=dict[SSAValue, tuple[bool, bool]]
    )
    """Whether a loop is in its first trip, and in its last."""
    inner: SSAValue | None = None
    """The position of the innermost loop, where it is not in its first trip."""

    def block(self, block: Block) -> Work:
        total = Work()
        for op in block.ops:
            total = total + self.op(op)
        return total

    def op(self, op: Operation) -> Work:
        match op:
            case ForOp():
                return self.loop(op)
            case IfOp():
                region = op.then if self.holds(op.conditions, op.positions) else op.otherwise
                return self.region(region)
            case CaseOp():
                return self.case(op)
            case BarrierOp():
                return Work(barriers=1)
            case Product():
                return self.product(op)
            case CopyOp():
                return self.copy(op)
            case LoadOp():
                tile = frag_of(op.result)
                return self.vectors(tile, 1.0) + self.read(op.view, prod(tile.shape), op)
            case StoreOp():
                tile = frag_of(op.value)
                return self.vectors(tile, 1.0) + self.written(op.view, prod(tile.shape))
            case FillOp():
                return self.written(op.view, self.elements(op.view))
            case MapOp():
                tile = frag_of(op.outs[0])
                return self.computed(op.body.block, prod(tile.shape))
            case ConvertOp() | ReduceOp() | ScanOp():
                return self.vectors(frag_of(op.operands[0]), self.target.loops.reduce_step_cycles)
            case NestOp():
                return self.nest(op)
            case ElementsOp():
                return Work()  # computed where it is read
            case _:
                return sum((self.region(region) for region in op.regions), Work())

    def region(self, region: Region) -> Work:
        return self.block(region.block) if region.blocks else Work()

    # control ---------------------------------------------------------------------------------

    def value(self, dim: Dim, positions: Sequence[SSAValue]) -> int:
        named = {f"%{k}": self.values[x] for k, x in enumerate(positions) if x in self.values}
        unknown = dict.fromkeys(dim.symbols() - named.keys() - self.sizes.keys(), 0)
        return dim.evaluate({**self.sizes, **unknown, **named, f".{WORKERS}": 1})

    def bound(self, bound: ExpressionsAttr, positions: Sequence[SSAValue]) -> int:
        return max(0, min(self.value(dim, positions) for dim in bound.data))

    def loop(self, op: ForOp) -> Work:
        """Of the trips of all axes together, with what each is given."""
        axes: list[list[tuple[int, int]]] = []  # of each: positions, and how many trips are alike
        extents = [self.bound(loop.extent, op.positions) for loop in op.loops]
        for extent, loop in zip(extents, op.loops, strict=True):
            trips = ceil(extent / loop.step)
            middle = [(loop.step, trips - 2)] if trips > 2 else []
            last = [((trips - 1) * loop.step, 1)] if trips > 1 else []
            axes.append(([(0, 1)] if trips else []) + middle + last)
        total, outer = Work(), self.inner
        for trip in itertools.product(*axes):
            for k, (at, _) in enumerate(trip):
                step, index = op.loops[k].step, op.indices[k]
                left = min(step, extents[k] - at)
                self.values[index] = at
                self.ends[index] = at == 0, at + step >= extents[k]
                if (size := op.sizes[k]) is not None:
                    self.values[size] = left
            self.inner = op.indices[-1] if trip[-1][0] else None
            total = total + self.block(op.body.block).times(prod(count for _, count in trip))
        self.inner = outer
        return total

    def case(self, op: CaseOp) -> Work:
        for conditions, body in zip(op.conditions, op.bodies, strict=False):
            if self.holds(conditions, ()):
                return self.block(body.block)
        return self.block(op.bodies[-1].block)

    def holds(self, conditions: ConditionsAttr, positions: Sequence[SSAValue]) -> bool:
        return all(self.one_holds(condition, positions) for condition in conditions.data)

    def one_holds(self, condition: Condition, positions: Sequence[SSAValue]) -> bool:
        if (compare := RELATIONS.get(condition.relation)) is not None:
            left, right = (self.value(x, positions) for x in (condition.left, condition.right))
            return compare(left, right)
        (number,) = positions_in((condition.left,))
        ends = self.ends.get(positions[number], (True, True))
        return ends[condition.relation == "last"]

    # arithmetic ------------------------------------------------------------------------------

    def product(self, op: Product) -> Work:
        (left, right), result = op.words.operands, op.words.result
        sizes = dict(zip(result, op.tile.shape, strict=True))
        depth = prod(self.bound(x, op.positions) for x in op.summed.values())
        of_left, of_right = ({c for axis in word for c in axis} for word in (left, right))
        m = prod(n for c, n in sizes.items() if c not in of_right)
        n = prod(n for c, n in sizes.items() if c not in of_left)
        each = prod(n for c, n in sizes.items() if c in of_left and c in of_right)
        macs = each * m * n * depth
        cycles = each * self.tile_cycles(op, m, n, depth)
        found = Work(core=of_cycles(cycles, self.target), operations=2 * macs)
        for operand, count in ((op.lhs, each * m * depth), (op.rhs, each * n * depth)):
            if isinstance(operand.type, ViewType):
                found = found + self.read(operand, count, op)
        return found

    def tile_cycles(self, op: Product, m: int, n: int, depth: int) -> float:
        if op.via is None:
            lanes = self.target.lanes(8 * op.tile.dtype.bytes)
            return m * n * depth / (lanes * self.target.fma_ports)
        kinds = (x.type for x in (op.lhs, op.rhs, op.results[0]))
        row = row_named(op.via.data, self.target, [_dtype(kind) for kind in kinds])
        rows, columns = ceil(m / row.shape[0]), ceil(n / row.shape[1])
        apart = isinstance(op.lhs, BlockArgument)
        step = step_cycles(
            row, rows, columns, self.target, apart=apart, shifted=op.zero is not None
        )
        return ceil(depth / row.shape[2]) * step + self.target.loops.tile_start_cycles

    def vectors(self, tile: FragType, cycles: float) -> Work:
        """So many cycles of each vector."""
        lanes = self.target.lanes(8 * tile.dtype.bytes)
        return Work(core=of_cycles(ceil(prod(tile.shape) / lanes) * cycles, self.target))

    def computed(self, block: Block, points: int) -> Work:
        """The ops of a region, at so many points."""
        ops = (op for op in block.ops if isinstance(op, TensorOp))
        return sum((work_of_op(type(op), op.dtype, points, self.target) for op in ops), Work())

    def nest(self, op: NestOp) -> Work:
        """
        The plan's ops as they stand, each at the points where it is read; of each input what its
        readers ask for, of each output all: what an output's memory held lies there.
        """
        found, block = Work(), op.body.block
        for inner, points in points_of(block, self.sizes):
            found = found + work_of_op(type(inner), inner.dtype, points, self.target)
        for view, argument in zip(op.inputs, block.args, strict=True):
            if view in op.outputs:
                continue
            size = bytes_read(argument).evaluate(self.sizes)
            found = found + Work(read=moved(size, self.level(view)))
        for view in op.outputs:
            found = found + self.written(view, self.elements(view))
        return found

    # memory ----------------------------------------------------------------------------------

    def elements(self, view: SSAValue) -> int:
        return product(view_of(view).shape).evaluate(self.sizes)

    def level(self, view: SSAValue) -> int:
        return level_of(self.elements(view) * view_of(view).dtype.bytes, self.target)

    def read(self, view: SSAValue, count: int, by: Operation) -> Work:
        """So many elements of a view; of one that is computed, what that reads and computes."""
        if isinstance(made := view.owner, ElementsOp):
            found = self.computed(made.body.block, count)
            for op in made.body.block.ops:
                if isinstance(op, ReadOp):
                    found = found + self.read(op.view, count, by)
            return found
        size = count * view_of(view).dtype.bytes
        level = self.level(view)
        if self.stays(view, by):
            level = min(level, level_of(2 * size, self.target))
        return Work(read=moved(size, level))

    def stays(self, view: SSAValue, by: Operation) -> bool:
        """Whether the innermost loop has read the same part in the trip before."""
        if self.inner is None or not isinstance(by, Product) or self.inner not in by.positions:
            return self.inner is not None and isinstance(by, Product)
        number = list(by.positions).index(self.inner)
        at = [x for x, v in ((by.lhs_at, by.lhs), (by.rhs_at, by.rhs)) if v is view]
        return all(number not in positions_in(x.data) for x in at)

    def written(self, view: SSAValue, count: int) -> Work:
        return Work(write=moved(count * view_of(view).dtype.bytes, self.level(view)))

    def copy(self, op: CopyOp) -> Work:
        """Elements as they are read, turned where they lie otherwise, and as they are kept."""
        count = prod(self.bound(extent, op.positions) for extent in op.extents.values())
        source, target = op.words.operands[0], op.words.result
        lanes = self.target.lanes(8 * view_of(op.target).dtype.bytes)
        turned = not source or not target or source[-1][-1:] != target[-1][-1:]
        cycles = (
            count
            / lanes
            * (self.target.loops.pack_cycles + (log2(max(2, lanes)) if turned else 0.0))
        )
        found = Work(core=of_cycles(cycles, self.target))
        return found + self.read(op.source, count, op) + self.written(op.target, count)


def points_of(block: Block, sizes: Mapping[str, int]) -> Iterator[tuple[TensorOp, int]]:
    """
    The ops of a nest that compute, and at how many points: a nest stores nothing but results, so
    that a value is computed where it is read, of a small tensor more often than it has elements,
    and of its parts that others read at points of their own each apart.
    """
    for op, places in places_of(block, sizes):
        yield op, sum(places)


def places_of(block: Block, sizes: Mapping[str, int]) -> Iterator[tuple[TensorOp, Collection[int]]]:
    """As `points_of`, the points at each of the places at which the op's value is read."""

    def elements(shape: Shape) -> int:
        return product(shape).evaluate(sizes)

    found = {x: {0: elements(shape_of(x.type))} for x in yield_of(block).values}
    for number, op in enumerate(reversed([*block.ops]), 1):
        if not isinstance(op, TensorOp):
            continue
        places: dict[int, int] = {}
        for x in op.results:
            for place, count in found.get(x, {}).items():
                places[place] = max(places.get(place, 0), count)
        if isinstance(op, Reduction | OpaqueOp):
            places = {0: elements(op.iteration())}
        if not is_view(op):
            yield op, places.values()
        for x in op.operands:
            wanted = found.setdefault(x, {})
            if isinstance(op, ProductOp | OpaqueOp):
                places = {0: elements(shape_of(x.type))}
            for place, count in places.items():
                at = number if isinstance(op, SliceOp) else place
                wanted[at] = max(wanted.get(at, 0), count)


def _dtype(kind: Attribute) -> DType:
    tile = kind.tile if isinstance(kind, TokenType) else kind
    return cast("ViewType | FragType", tile).dtype
