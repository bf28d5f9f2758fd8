"""What a group of ops becomes: one loop over tiles, in the place of its last op (D16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from mlc.dialects.analysis.axes import AxisMaps, operands_of
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.tensor.bind import BindOp, symbols_in
from mlc.dialects.tensor.control import INDEX, YieldOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype
from mlc.dialects.tensor.tile import tile_size
from mlc.dialects.tensor.tiles import TilesOp
from mlc.passes.plan.tiling.both_ways import write
from mlc.passes.plan.tiling.column_walks import Stream
from mlc.passes.plan.tiling.online_reduction import COMBINE
from mlc.passes.plan.tiling.scalings import scaled, scalings_of
from mlc.passes.plan.tiling.tile_groups import Group, fold_of, leaves
from mlc.passes.plan.tiling.tile_scope import TileScope
from mlc.passes.plan.tiling.widths import (
    is_kept_wide,
    read_wide,
    result_of,
    rounded_after,
    type_in_loop,
)


class LoopWriter:
    """Rewrites groups of one function as loops."""

    def __init__(self, maps: AxisMaps) -> None:
        self.maps = maps
        self.names = 0

    def form(self, block: Block, group: Group) -> None:
        """The loop of a group in a block takes its ops' place."""
        _Loop(block, group, self).form()

    def symbol(self, extent: Dim, step: int) -> str:
        """The name of a tile's size where the last tile may be smaller."""
        whole = extent.constant
        if step == 1 or (whole is not None and whole % step == 0):
            return ""
        self.names += 1
        return f"T{self.names}"


class _Loop:
    """One group as a tile loop."""

    def __init__(self, block: Block, group: Group, writer: LoopWriter) -> None:
        self.outer = block
        self.group = group
        self.writer = writer
        if not group.is_both_ways and _is_one_tile(group):
            group.steps = ()
        count = len(group.steps)
        self.symbols = [writer.symbol(*loop) for loop in zip(group.rows, group.steps, strict=False)]
        dims = [tile_size(*loop) for loop in zip(self.symbols, group.steps, strict=True)]
        self.body = Block(arg_types=[INDEX] * count)
        self.members = set(group.ops)
        self.scope = TileScope(
            self.body, dims, self.body.args, self.members, group.axes.__getitem__, writer.maps
        )
        sums = group.narrow if group.is_both_ways else filter(group.is_fold, group.ops)
        self.scalings = {op: scalings_of(op) for op in sums}
        count = len(group.rows)
        self.kept = {op for op in group.narrow if is_kept_wide(op, count, self.members)}

    def form(self) -> None:
        """Writes the loop where the last op of the group stands; of one tile, its walks alone."""
        group = self.group
        if group.is_both_ways:
            self._form_both_ways()
            return
        folds = [op for op in group.ops if group.is_fold(op)]
        placed = [
            op
            for op in group.ops
            if op not in self.scalings and not group.is_wide(op) and self._leaves(op)
        ]
        last = group.ops[-1]
        before = OpBuilder(Builder(InsertPoint.before(last)).insert)
        inits: list[SSAValue] = []
        for op in folds:
            (identity,) = MONOIDS[fold_of(op)].identity(result_of(op))
            inits.append(full(before, identity, result_of(op), op.shape))
            self.body.insert_arg(type_in_loop(op), len(self.body.args))
        if group.column is not None:
            step = group.column_step
            symbol = self.writer.symbol(group.column, step)
            Stream(self.scope, group, symbol).run()
        ends = [self._handed_on(op) for op in placed]
        for op, carried in zip(folds, self.body.args[len(group.steps) :], strict=True):
            value = self.scope.result(op)
            for scaling in self.scalings[op]:
                value = scaled(self.scope, scaling, value, (None,) * len(group.steps))
            ends.append(self.scope.b(COMBINE[fold_of(op)], carried, value))
            ends[-1].name_hint = op.results[0].name_hint
        if not group.steps:
            made = list(self.body.ops)
            for op in made:
                op.detach()
            self._place(made, last)
            self._replace(made[-1], placed, ends)
            return
        self.body.add_op(YieldOp.create(operands=ends))
        loop = TilesOp.make(
            group.rows[: len(group.steps)],
            group.steps,
            self.symbols,
            inits,
            [fold_of(op) for op in folds],
            [
                tensor_type(element_dtype(x).ir, op.shape)
                for x, op in zip(ends, placed, strict=False)
            ],
            [cast("tuple[int, ...]", self.scope.result_rows(op)) for op in placed],
            Region(self.body),
        )
        self._place([loop], last)
        self._replace(
            loop, [*placed, *([op, *self.scalings[op]][-1] for op in folds)], loop.results
        )

    def _form_both_ways(self) -> None:
        group = self.group
        assert group.column is not None
        columns = self.writer.symbol(group.column, group.column_step)
        loop = write(group, [*self.symbols, columns], self.writer.maps, self.scalings)
        self._place([loop], group.ops[-1])
        ends = [[op, *late][-1] for op, late in self.scalings.items()]
        self._replace(loop, ends, loop.results)

    def _place(self, made: Sequence[Operation], last: TensorOp) -> None:
        """Puts what was made before the last op of the group, which it takes its place from."""
        for new in made:
            for op in new.walk():  # what merging made
                if isinstance(op.location, UnknownLoc):
                    op.location = last.location
        self.outer.insert_ops_before(made, last)

    def _handed_on(self, op: TensorOp) -> SSAValue:
        """What a tile of rows gives of a result: rounded, or as it is where that is kept."""
        value = self.scope.result(op)
        return value if op in self.kept else self.scope.rounded(value, element_dtype(op.results[0]))

    def _leaves(self, op: TensorOp) -> bool:
        """Whether somebody outside of the group reads the result."""
        return leaves(op, self.group)

    # In the block -------------------------------------------------------------------------------

    def _replace(
        self, loop: Operation, ends: Sequence[TensorOp], results: Sequence[SSAValue]
    ) -> None:
        """
        Results take the members' place; what needs them moves behind the loop, which is the last of
        what was made.
        """
        staying = {op for op in self.group.ops if self.group.is_wide(op) and self._leaves(op)}
        gone = [op for op in self.group.ops if op not in staying]
        gone += [op for chain in self.scalings.values() for op in chain]
        late: set[Operation] = set(gone)
        moved: list[Operation] = []
        bound: set[str] = set()  # by what is moved
        here: Operation | None = self.group.ops[0]
        while here is not None and here is not loop:
            following = here.next_op
            reads = any(
                isinstance(x.owner, Operation) and x.owner in late for x in operands_of(here)
            )
            says = bound and any(not bound.isdisjoint(symbols_in(op)) for op in here.walk())
            if here not in late and (reads or says):
                late.add(here)
                moved.append(here)
                bound |= {here.symbol.data} if isinstance(here, BindOp) else set()
            here = following
        for op in reversed(moved):
            op.detach()
            self.outer.insert_op_after(op, loop)
        after = OpBuilder(Builder(InsertPoint.after(loop)).insert)
        given: list[SSAValue] = []
        for op, result in zip(ends, results, strict=True):
            kept = op in self.kept
            found = rounded_after(after, result, op, is_kept=kept)
            for value in {result, found}:
                value.name_hint = op.results[0].name_hint
            op.results[0].replace_all_uses_with(found)
            if kept:
                read_wide(found, result)
            given += [result, found]
        maps, read = self.writer.maps, [x.owner for op in gone for x in op.operands]
        for op in gone:
            op.detach()
            op.operands = []
        while read:
            op = read.pop()
            if (
                isinstance(op, TensorOp)
                and op.parent is self.outer
                and _is_unread(op)
                and maps.is_free(op)
            ):
                read += [x.owner for x in op.operands]
                op.detach()
                op.erase()
        for op in gone:
            op.erase()
        maps.forget(given)


def _is_unread(op: Operation) -> bool:
    return all(x.first_use is None for x in op.results)


def _is_one_tile(group: Group) -> bool:
    """Whether one tile has all rows, and walks over columns are what is left."""
    loops = zip(group.rows, group.steps, strict=False)
    if group.column is None or any(group.is_fold(op) for op in group.ops):
        return False
    return all(n.constant is not None and n.constant <= step for n, step in loops)
