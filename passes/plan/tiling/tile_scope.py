"""Tiles of values inside a tile loop: members computed, views repeated, the rest cut out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.axes import BLOCKED, AxisMaps
from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import Dim, DimsAttr, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import I64, DType
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, full
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.shape import broadcast_to
from mlc.dialects.tensor.tiles import TileOp
from mlc.passes.plan.tiling.widths import (
    as_it_was,
    converted,
    operands_in_loop,
    widened_from,
)
from mlc.passes.tensor.constants import splat

Rows = tuple[int | None, ...]
"""For each loop axis the axis of a value along which a tile of it is wanted; None: all of it."""


class TileScope:
    """
    The region of a tile loop, whose ops are made when somebody wants them.

    `axes_of(op)` says where a member has the loop axes in its iteration space. A scope inside
    another has one loop axis more; what does not move along that belongs to the outer one.
    """

    def __init__(
        self,
        block: Block,
        dims: Sequence[Dim],
        positions: Sequence[SSAValue],
        members: Collection[TensorOp],
        axes_of: Callable[[TensorOp], Rows],
        maps: AxisMaps,
        outer: TileScope | None = None,
    ) -> None:
        self.b = OpBuilder(block.add_op)
        self.block = block
        self.dims = tuple(dims)
        self.positions = tuple(positions)
        self.members = members
        self.axes_of = axes_of
        self.maps = maps
        self.outer = outer
        self.tiles: dict[tuple[SSAValue, Rows], SSAValue] = {}
        self.bound: set[SSAValue] = set()
        self._conversions: dict[tuple[SSAValue, DType], SSAValue] = {}

    def bind(self, op: TensorOp, value: SSAValue) -> None:
        """From here on this is what the member's result is."""
        self.tiles = {
            key: tile
            for key, tile in self.tiles.items()
            if not self._reads(key[0], {op.results[0]})
        }
        self.tiles[op.results[0], self.result_rows(op)] = value
        self.bound.add(op.results[0])

    def result_rows(self, op: TensorOp) -> Rows:
        """The axes of a member's result along the loop axes."""
        return tuple(
            a if a is not None and a < len(op.shape) else None
            for a in self.axes_of(op)[: len(self.dims)]
        )

    def result(self, op: TensorOp) -> SSAValue:
        """A member's result for the tile."""
        return self.tile(op.results[0], self.result_rows(op))

    def compute(self, op: TensorOp) -> SSAValue:
        """A member's result for the tile, anew."""
        moves = self.maps.moves_of(op)
        axes = self.axes_of(op)[: len(self.dims)]
        operands = [
            self.tile(x, tuple(None if a is None else moves[a][k] for a in axes))
            for k, x in enumerate(op.operands)
        ]
        return self.clone(op, operands, self.result_rows(op))

    def tile(self, value: SSAValue, rows: Rows) -> SSAValue:
        """The tile of a value; the value itself where all of it is wanted."""
        value = as_it_was(value)
        if (narrow := widened_from(value)) is not None:
            assert isinstance(value.owner, ConvertOp)
            part = self.tile(narrow, self.maps.axes_in(value.owner, 0, rows))
            return self._converted(part, element_dtype(value))
        found = self.tiles.get((value, rows))
        if found is not None:
            return found
        if self.outer is not None and rows[-1] is None and not self._reads(value, self.bound):
            return self.outer.tile(value, rows[:-1])
        found = self.tiles[value, rows] = self._new_tile(value, rows)
        return found

    def _new_tile(self, value: SSAValue, rows: Rows) -> SSAValue:
        owner = value.owner
        is_cut = any(axis is not None for axis in rows)
        if isinstance(owner, TensorOp):
            if owner in self.members:
                return self.compute(owner)
            made_up = self.maps.is_made_up(value)
            if is_view(owner):
                repeats = is_cut or made_up or self._reads_member(value)
            else:
                repeats = is_cut and made_up
            if repeats and not self._is_blocked(owner, rows):
                return self._repeated(owner, rows)
        return self._part(value, rows) if is_cut else value

    def _part(self, value: SSAValue, rows: Rows) -> SSAValue:
        """The part of a value from outside that lies at the tile's position."""
        wanted = [(k, axis) for k, axis in enumerate(rows) if axis is not None]
        new = TileOp.create(
            operands=[value, *(self.positions[k] for k, _ in wanted)],
            result_types=[tensor_type(tensor_of(value).element_type, self._shape(value, rows))],
            properties={"axes": DimsAttr(tuple(Dim.const(axis) for _, axis in wanted))},
        )
        if isinstance(value.owner, Operation):
            new.location = value.owner.location
        self.block.add_op(new)
        return new.results[0]

    def _repeated(self, op: TensorOp, rows: Rows) -> SSAValue:
        """A view, or what is made of positions and constants, anew for the tile."""
        if isinstance(op, ConstantOp):
            element = splat(op.result)
            assert element is not None
            return full(self.b, element.item(), op.dtype, self._shape(op.result, rows))
        if isinstance(op, IotaOp):
            return self._iota(op, rows)
        operands = [self.tile(x, self.maps.axes_in(op, k, rows)) for k, x in enumerate(op.operands)]
        return self.clone(op, operands, rows)

    def _is_blocked(self, view: TensorOp, rows: Rows) -> bool:
        """Whether a tile of a view is not the view of a tile."""
        operands = range(len(view.operands))
        return any(BLOCKED in self.maps.axes_in(view, k, rows) for k in operands)

    def _reads_member(self, value: SSAValue) -> bool:
        pending, seen = [value], set[TensorOp]()
        while pending:
            owner = pending.pop().owner
            if not isinstance(owner, TensorOp) or owner in seen:
                continue
            if owner in self.members:
                return True
            seen.add(owner)
            if is_view(owner):
                pending += owner.operands
        return False

    def _reads(self, value: SSAValue, wanted: Collection[SSAValue]) -> bool:
        """Whether a value is made from one of these, by members and views."""
        if not wanted:
            return False
        pending, seen = [value], set[SSAValue]()
        while pending:
            x = pending.pop()
            if x in wanted:
                return True
            owner = x.owner
            if x in seen or not isinstance(owner, TensorOp):
                continue
            seen.add(x)
            if owner in self.members or is_view(owner):
                pending += owner.operands
        return False

    def _iota(self, op: IotaOp, rows: Rows) -> SSAValue:
        """Positions in a tile, and where it begins."""
        shape = self._shape(op.result, rows)
        inside = self.b(IotaOp, axis=op.axis, declared=tensor_type(op.dtype.ir, shape))
        number = next((k for k, a in enumerate(rows) if a == op.axis.value.data), None)
        if number is None:
            return inside
        start = self.positions[number]
        if op.dtype is not I64:
            start = self.b(ConvertOp, start, declared=tensor_type(op.dtype.ir, ()))
        return self.b(AddOp, inside, broadcast_to(self.b, start, shape))

    def rounded(self, tile: SSAValue, dtype: DType) -> SSAValue:
        """A tile in a narrower dtype, once, where the tile is made."""
        if element_dtype(tile) is dtype:
            return tile
        if self.outer is not None and tile.owner.parent is self.outer.block:
            return self.outer.rounded(tile, dtype)
        return self._converted(tile, dtype)

    def _converted(self, tile: SSAValue, dtype: DType) -> SSAValue:
        found = self._conversions.get((tile, dtype))
        if found is None:
            found = self._conversions[tile, dtype] = converted(self.b, tile, dtype)
        return found

    def shape(self, op: TensorOp) -> Shape:
        """The tile shape of a member's result."""
        return self._shape(op.results[0], self.result_rows(op))

    def _shape(self, value: SSAValue, rows: Rows) -> Shape:
        dims = list(shape_of(value.type))
        for k, axis in enumerate(rows):
            if axis is not None:
                dims[axis] = self.dims[k]
        return tuple(dims)

    def clone(self, op: TensorOp, operands: Sequence[SSAValue], rows: Rows) -> SSAValue:
        """The op on tiles."""
        operands, dtype = operands_in_loop(self.b, op, operands, self.rounded)
        if isinstance(op, ConvertOp) and element_dtype(operands[0]) is dtype:
            return operands[0]
        kind = tensor_type(dtype.ir, self._shape(op.results[0], rows))
        new = op.on(operands, kind)
        self.block.add_op(new)
        return new.results[0]
