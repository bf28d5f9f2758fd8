"""Tile loops: groups of ops that are computed together, tile by tile (D16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from mlc.dialects.dims import Dim, DimsAttr, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.comparison import ConvertOp, MaxOp, MinOp
from mlc.dialects.tensor.control import INDEX, ControlOp, YieldOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, full
from mlc.dialects.tensor.elementwise import AddOp, DivOp, MulOp, NegOp
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import OpBuilder, TensorOp, tensor_of
from mlc.dialects.tensor.shape import BroadcastOp, broadcast_to
from mlc.dialects.tensor.tiles import TileOp, TilesOp
from mlc.passes.plan.grouping import Grouping, is_stored_constant, is_view
from mlc.passes.plan.ownership import Ownership
from mlc.passes.plan.tile_axes import AxisMaps
from mlc.passes.plan.tile_groups import Group, fold_of, operands_of, tile_groups

COMBINE: dict[str, type[TensorOp]] = {"sum": AddOp, "prod": MulOp, "max": MaxOp, "min": MinOp}

Rows = tuple[int | None, ...]
"""For each loop axis the axis of a value along which a tile of it is wanted; None: all of it."""


@dataclass(frozen=True)
class FormTilesPass(ModulePass):
    """
    softmax: m = max x; e = exp(x - m); s = sum e; e / s  ->  the same for 16 rows at a time

    Each group becomes one `mlc.tiles`. What its ops hand to one another are tiles.
    """

    name = "mlc-form-tiles"

    fusion: str = "simple"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        if self.fusion == "none" or not isinstance(target, CpuTarget):
            return
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                block = function.body.block
                grouping = Grouping(block, Ownership(function), "simple").run()
                _Function(function, target).visit(block, grouping)


class _Function:
    """The rewriting of one function."""

    def __init__(self, function: FuncOp, target: CpuTarget) -> None:
        self.target = target
        self.maps = AxisMaps()
        self.names = 0

    def visit(self, block: Block, grouping: Grouping) -> None:
        """Forms the tile loops of a block and of the blocks inside it."""
        for op in list(block.ops):
            if isinstance(op, ControlOp):
                for inner in op.blocks:
                    self.visit(inner, grouping.inner[inner])
        for group in tile_groups(block, self.maps, grouping, self.target):
            symbols = [self._symbol(*loop) for loop in zip(group.rows, group.steps, strict=False)]
            _Loop(block, group, symbols, self.maps).form()

    def _symbol(self, extent: Dim, step: int) -> str:
        """The name of a tile's size where the last tile may be smaller."""
        whole = extent.constant
        if step == 1 or (whole is not None and whole % step == 0):
            return ""
        self.names += 1
        return f"T{self.names}"


class _Loop:
    """One group as a tile loop."""

    def __init__(self, block: Block, group: Group, symbols: Sequence[str], maps: AxisMaps) -> None:
        self.outer = block
        self.group = group
        self.maps = maps
        self.symbols = symbols
        count = len(group.steps)
        self.dims = [
            Dim.symbol(name) if name else Dim.const(step)
            for name, step in zip(symbols, group.steps, strict=True)
        ]
        self.body = Block(arg_types=[INDEX] * count)
        self.positions: list[SSAValue] = list(self.body.args)
        self.b = OpBuilder(self.body.add_op)
        self.members = set(group.ops)
        self.scalings = {op: _scalings(op) for op in group.ops if group.is_fold(op)}
        self.tiles: dict[tuple[SSAValue, Rows], SSAValue] = {}

    def form(self) -> None:
        """Writes the loop where the last op of the group stands."""
        placed = [op for op in self.group.ops if not self.group.is_fold(op) and self._leaves(op)]
        folds = [op for op in self.group.ops if self.group.is_fold(op)]
        last = self.group.ops[-1]
        before = OpBuilder(Builder(InsertPoint.before(last)).insert)
        inits: list[SSAValue] = []
        for op in folds:
            (identity,) = MONOIDS[fold_of(op)].identity(op.dtype)
            inits.append(full(before, identity, op.dtype, op.shape))
            self.body.insert_arg(op.results[0].type, len(self.body.args))
        carried = iter(self.body.args[len(self.positions) :])
        results: dict[TensorOp, SSAValue] = {}
        for op in self.group.ops:
            value = results[op] = self._member(op)
            if self.group.is_fold(op):
                for scaling in self.scalings[op]:
                    value = self._scaled(scaling, value)
                results[op] = self.b(COMBINE[fold_of(op)], next(carried), value)
                results[op].name_hint = op.results[0].name_hint
        ends = [results[op] for op in (*placed, *folds)]
        self.body.add_op(YieldOp.create(operands=ends))
        loop = TilesOp.make(
            self.group.rows[: len(self.dims)],
            self.group.steps,
            self.symbols,
            inits,
            [fold_of(op) for op in folds],
            [op.results[0].type for op in placed],
            [self._rows(op) for op in placed],
            Region(self.body),
        )
        loop.location = last.location
        self.outer.insert_op_before(loop, last)
        self._replace(loop, [*placed, *(([op, *self.scalings[op]])[-1] for op in folds)])

    def _scaled(self, op: TensorOp, value: SSAValue) -> SSAValue:
        """What a tile adds to a sum, times what the sum is multiplied by."""
        operands = [self._tile(x, ()) if _is_factor(x) else value for x in op.operands]
        return self._clone(op, operands, ())

    def _rows(self, op: TensorOp) -> tuple[int, ...]:
        """The axes of a member's iteration space along the loop's axes."""
        return self.group.axes[op][: len(self.dims)]

    def _leaves(self, op: TensorOp) -> bool:
        """Whether somebody outside of the group reads the result."""
        pending = list(op.results[0].uses)
        while pending:
            user = pending.pop().operation
            if user in self.members:
                continue
            if not isinstance(user, TensorOp) or not is_view(user) or user.parent is not self.outer:
                return True
            pending += user.results[0].uses
        return False

    # Tiles of values ----------------------------------------------------------------------------

    def _member(self, op: TensorOp) -> SSAValue:
        """A member's result for one tile."""
        moves = self.maps.moves_of(op)
        rows = self._rows(op)
        operands = [
            self._tile(x, tuple(moves[axis][k] for axis in rows)) for k, x in enumerate(op.operands)
        ]
        axes: Rows = tuple(a if a < len(op.shape) else None for a in rows)
        found = self._clone(op, operands, axes)
        self.tiles[op.results[0], axes] = found
        return found

    def _tile(self, value: SSAValue, rows: Rows) -> SSAValue:
        """The tile of a value; the value itself where all of it is wanted."""
        found = self.tiles.get((value, rows))
        if found is None:
            found = self.tiles[value, rows] = self._new_tile(value, rows)
        return found

    def _new_tile(self, value: SSAValue, rows: Rows) -> SSAValue:
        owner = value.owner
        is_cut = any(axis is not None for axis in rows)
        if isinstance(owner, TensorOp):
            made_up = self.maps.is_made_up(value)
            if is_view(owner) and (is_cut or made_up or self._reads_member(value)):
                return self._computed(owner, rows)
            if is_cut and made_up:
                return self._computed(owner, rows)
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
        self.body.add_op(new)
        return new.results[0]

    def _computed(self, op: TensorOp, rows: Rows) -> SSAValue:
        """A view, or what is made of positions and constants, anew for the tile."""
        if isinstance(op, ConstantOp):
            return full(self.b, op.array().flat[0], op.dtype, self._shape(op.result, rows))
        if isinstance(op, IotaOp):
            return self._iota(op, rows)
        moves = self.maps.moves_of(op)
        operands = [
            self._tile(x, tuple(a if a is None else moves[a][k] for a in rows))
            for k, x in enumerate(op.operands)
        ]
        return self._clone(op, operands, rows)

    def _reads_member(self, value: SSAValue) -> bool:
        owner = value.owner
        if owner in self.members:
            return True
        return (
            isinstance(owner, TensorOp)
            and is_view(owner)
            and any(map(self._reads_member, owner.operands))
        )

    def _iota(self, op: IotaOp, rows: Rows) -> SSAValue:
        """Positions in a tile, and where it begins."""
        shape = self._shape(op.result, rows)
        kind = tensor_type(op.dtype.ir, shape)
        inside = self.b(IotaOp, axis=op.axis, declared=kind)
        number = next((k for k, a in enumerate(rows) if a == op.axis.value.data), None)
        if number is None:
            return inside
        start = self.positions[number]
        if op.dtype is not I64:
            start = self.b(ConvertOp, start, declared=tensor_type(op.dtype.ir, ()))
        return self.b(AddOp, inside, broadcast_to(self.b, start, shape))

    def _shape(self, value: SSAValue, rows: Rows) -> Shape:
        dims = list(shape_of(value.type))
        for k, axis in enumerate(rows):
            if axis is not None:
                dims[axis] = self.dims[k]
        return tuple(dims)

    def _clone(self, op: TensorOp, operands: Sequence[SSAValue], rows: Rows) -> SSAValue:
        kind = tensor_type(tensor_of(op.results[0]).element_type, self._shape(op.results[0], rows))
        new = type(op).create(
            operands=operands,
            result_types=[kind],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        new.location = op.location
        new.results[0].name_hint = op.results[0].name_hint
        self.body.add_op(new)
        return new.results[0]

    # In the block -------------------------------------------------------------------------------

    def _replace(self, loop: TilesOp, ends: Sequence[TensorOp]) -> None:
        """The loop's results take the members' place; what needs them moves behind the loop."""
        first = self.group.ops[0]
        gone = [*self.group.ops, *(op for chain in self.scalings.values() for op in chain)]
        late: set[Operation] = set(gone)
        moved: list[Operation] = []
        here: Operation | None = first
        while here is not None and here is not loop:
            following = here.next_op
            if here not in gone and any(
                isinstance(x.owner, Operation) and x.owner in late for x in operands_of(here)
            ):
                late.add(here)
                moved.append(here)
            here = following
        for op in reversed(moved):
            op.detach()
            self.outer.insert_op_after(op, loop)
        for op, result in zip(ends, loop.results, strict=True):
            result.name_hint = op.results[0].name_hint
            op.results[0].replace_all_uses_with(result)
        for op in gone:
            op.detach()
            op.operands = []
        for op in reversed(list(self.outer.ops)):
            if op.results and op.results[0].first_use is None and self.maps.is_free(op):
                op.detach()
                op.erase()
        for op in gone:
            op.erase()


def _scalings(fold: TensorOp) -> list[TensorOp]:
    """
    The multiplications by constants that alone read a sum, one after another: what tiles add is
    multiplied instead, so that nothing is left to do after the loop.
    """
    found: list[TensorOp] = []
    op = fold
    while fold_of(fold) == "sum":
        uses = list(op.results[0].uses)
        user = uses[0].operation if len(uses) == 1 else None
        if user is None or user.parent is not fold.parent:
            break
        if not isinstance(user, NegOp) and not (
            isinstance(user, MulOp | DivOp)
            and (uses[0].index == 0 or isinstance(user, MulOp))
            and _is_factor(user.operands[1 - uses[0].index])
            and user.dtype.is_inexact
        ):
            break
        op = cast("TensorOp", user)
        found.append(op)
    return found


def _is_factor(value: SSAValue) -> bool:
    """Whether a value is a repeated constant."""
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        return _is_factor(owner.x)
    return isinstance(owner, ConstantOp) and not is_stored_constant(owner)
