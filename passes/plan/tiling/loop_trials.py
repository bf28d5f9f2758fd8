"""
Tile loops as moves of the search for plans: what a loop is part of, planned with it and without it.

Of the block the kernels are taken that compute some op of the group, and planned to their end both
ways: each time the search for fusion decides anew what is stored, kernels are cut, and what the
report predicts of them is compared. So a loop competes with the best kernels there are without it,
and is judged by what its phases become.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.analysis.views import is_view
from mlc.dialects.program import SYMBOLS
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tensor.bind import symbols_in
from mlc.dialects.tensor.op import TensorOp
from mlc.passes.cost.sizes import assumed
from mlc.passes.plan.fusion.block_graph import all_readers
from mlc.passes.plan.fusion.grouping import Grouping, Kernel
from mlc.passes.plan.tiling.loop_writer import LoopWriter
from mlc.passes.plan.tiling.tile_costs import Price
from mlc.passes.plan.tiling.tile_groups import Axes, Group
from mlc.passes.plan.trial import seconds_of
from mlc.passes.remarks import unheard

HOPELESS = 2.0
"""How much longer a loop takes by estimate that is not tried. Measured:
docs/measurements.md, Tile loops."""

TIE = 0.02
"""Of the seconds, a difference that the estimate by bytes decides instead: predictions are no more
exact."""

TRIED = "what they are part of takes"

MOST_OPS = 192
"""In a trial; bounds what one takes."""


Cut = tuple[tuple[tuple[int, Axes], ...], tuple[int, ...]]
"""A group by its ops' places among those of a trial, and the rows of its tiles."""

Tried = list[tuple[ModuleOp, Cut, ModuleOp, Price]]
"""
Trials that have been made: of which ops, which of them as a loop, with that loop, and what each
gave. Clones of a module have the same ones, and so have equal layers.
"""


class LoopTrials:
    """The trials of one block's loops; `tried`: those that others have made, and where these go."""

    def __init__(self, module: ModuleOp, grouping: Grouping, fusion: str, tried: Tried) -> None:
        self.module = module
        self.grouping = grouping
        self.fusion = fusion
        self._seen = tried

    def price(self, group: Group, estimate: Price) -> Price:
        """
        Of a group, whose steps are set: as it was tried; by estimate where none may be, and of
        loops whose columns are never stored, since memory is part of what those are chosen for.
        """
        if estimate.loop > HOPELESS * estimate.kernels or group.column is not None:
            return estimate
        ops = self._around(group)
        if not ops or not set(group.ops).issubset(ops):
            return estimate
        with unheard():
            tried = self._tried(ops, group)
        return estimate if abs(tried.saved) < TIE * tried.kernels else tried

    def _tried(self, ops: Sequence[TensorOp], group: Group) -> Price:
        names = sorted({name for op in ops for name in symbols_in(op)})
        apart, _ = self._module(ops, names)
        cut = _cut(group, ops)
        for known, same, _, price in self._seen:
            if same == cut and known.is_structurally_equivalent(apart):
                return price
        formed, new = self._module(ops, names)
        block = new[ops[0]].parent
        assert block is not None
        LoopWriter(AxisMaps()).form(block, _moved(group, new))
        for _, _, known, price in self._seen:
            if known.is_structurally_equivalent(formed):
                return price
        keys, target = (apart.clone(), cut, formed.clone()), cpu_of(self.module, "a trial")
        sizes = assumed(names)
        apart_s, formed_s = (seconds_of(x, target, self.fusion, sizes) for x in (apart, formed))
        price = Price(apart_s, formed_s, TRIED)
        self._seen.append((*keys, price))
        return price

    @cached_property
    def _kernels(self) -> dict[Operation, list[Kernel]]:
        """Those that compute an op."""
        found: dict[Operation, list[Kernel]] = {}
        for kernel in self.grouping.kernels:
            for op in self._contents(kernel):
                found.setdefault(op, []).append(kernel)
        return found

    def _around(self, group: Group) -> list[TensorOp]:
        """
        The ops of all kernels that compute some of a group; none where one writes in place, or
        where there are too many.
        """
        kernels = {k: None for op in group.ops for k in self._kernels.get(op, ())}
        found: dict[Operation, TensorOp] = {}
        for kernel in kernels:
            found.update((op, op) for op in self._contents(kernel))
        in_place = self.grouping.ownership.in_place
        if len(found) > MOST_OPS or not found.keys().isdisjoint(in_place):
            return []
        return [found[op] for op in self.grouping.block.ops if op in found]

    def _contents(self, kernel: Kernel) -> Iterator[TensorOp]:
        """What a kernel computes, and the views that it reads through."""
        block, home = self.grouping.block, self.grouping.home
        pending: list[SSAValue] = [*kernel.outputs]
        seen: set[TensorOp] = set()
        while pending:
            value = pending.pop()
            op = value.owner
            if not isinstance(op, TensorOp) or op.parent is not block or op in seen:
                continue
            if home.get(value, kernel) is kernel:
                seen.add(op)
                pending += op.operands
                yield op

    def _module(
        self, ops: Sequence[TensorOp], names: Sequence[str]
    ) -> tuple[ModuleOp, dict[Operation, TensorOp]]:
        """
        A function of these ops alone, whose symbols have these names: what they read is given, what
        others read it gives.
        """
        members = set[Operation](ops)
        made = [op.results[0] for op in ops]
        given = dict.fromkeys(x for op in ops for x in op.operands if x.owner not in members)
        block = Block(arg_types=[x.type for x in given])
        values: dict[SSAValue, SSAValue] = dict(zip(given, block.args, strict=True))
        new: dict[Operation, TensorOp] = {}
        for op in ops:
            copied = op.clone(values)
            block.add_op(copied)
            new[op] = copied
        left = [
            values[x]
            for x in made
            if not is_view(x.owner) and any(user not in members for user in all_readers(x))
        ]
        block.add_op(ReturnOp(*left))
        kind = FunctionType.from_lists([x.type for x in block.args], [x.type for x in left])
        function = FuncOp("trial", kind, Region(block))
        if names:
            function.attributes[SYMBOLS] = ArrayAttr([StringAttr(name) for name in names])
        return ModuleOp([function], dict(self.module.attributes)), new


def _cut(group: Group, ops: Sequence[TensorOp]) -> Cut:
    places = {op: place for place, op in enumerate(ops)}
    return tuple((places[op], group.axes[op]) for op in group.ops), group.steps


def _moved(group: Group, new: dict[Operation, TensorOp]) -> Group:
    """The same of copied ops."""
    moved = copy(group)
    moved.ops = [new[op] for op in group.ops]
    moved.axes = {new[op]: axes for op, axes in group.axes.items()}
    return moved
