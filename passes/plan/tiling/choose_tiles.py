"""Tile loops as attributes: of each op of a loop where it has the loop's axes (D22)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass

from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.errors import PlanError
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tensor.bind import BindOp, symbols_in
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.block_graph import BlockGraph
from mlc.passes.plan.fusion.grouping import Grouping
from mlc.passes.plan.fusion.planner import Planner, states_of
from mlc.passes.plan.memory.in_place.ownership import Ownership
from mlc.passes.plan.memory.large_values import Columns, large_bytes
from mlc.passes.plan.tiling.both_ways import stranger_of
from mlc.passes.plan.tiling.loop_trials import LoopTrials, Tried
from mlc.passes.plan.tiling.tile_groups import Axes, Group, Growth, stores_twice
from mlc.passes.plan.tiling.tile_search import Wanted, tile_groups
from mlc.passes.remarks import place

LOOP = "mlc.loop"
"""
Attribute of ops of one block that become one loop: `axes`, an axis of the op's iteration space for
each row axis and then for the columns, -1 for none; of the last one also `steps`, rows in a tile,
and `columns` in a tile, where there are any.
"""

LIMIT = "mlc.peak_bytes"
"""Module attribute: the bytes that a call may allocate for results and between kernels."""

DEAR = "mlc.less_memory"
"""Module attribute: tile loops need not pay, if they store less."""

UNTILED = "mlc.no_tile_loops"
"""Module attribute: there are no tile loops, which takes less memory here and there."""

PARTS_OF_LIMIT = 16
"""A loop formed for its memory cuts tiles as if level 2 were this part of what may be allocated."""


@dataclass(frozen=True)
class ChooseTilesPass(ModulePass):
    """
    Of each block the next loop, by estimate cheaper than its kernels one by one: `mlc.loop` of its
    ops. `mlc-form-tiles` forms what it finds there, as chosen or as edited, and goes on to choose
    until there is none. The options are those of that pass.
    """

    name = "mlc-choose-tiles"

    fusion: str = "exact"
    tile: tuple[int, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_of(op, self.name)
        if self.fusion != "none" and UNTILED not in op.attributes:
            for chooser in choosers(op, target, "paying", self.fusion, self.tile, []):
                for block, bound in chooser.blocks():
                    if not any(LOOP in x.attributes for x in block.ops):
                        next(chooser.loops(block, bound), None)


class Chooser:
    """The loops of one function, one by one: whoever takes one forms it before the next."""

    def __init__(
        self,
        module: ModuleOp,
        function: FuncOp,
        target: CpuTarget,
        wanted: Wanted,
        *,
        fusion: str,
        limited: bool,
        tried: Tried,
    ) -> None:
        self.module = module
        self.tried = tried
        self.fusion = fusion
        self.function = function
        self.target = target
        self.wanted = wanted
        self.limited = limited
        self.maps = AxisMaps()
        block, ownership = function.body.block, Ownership(function)
        planner = Planner(fusion="greedy", target=target, says=False)
        states = states_of(block, ownership, planner)
        self._groupings = _by_block(Grouping(block, ownership, states).run())

    def blocks(self) -> Iterator[tuple[Block, frozenset[str]]]:
        """The function's blocks, the inner ones first, with the symbols that are bound there."""
        yield from _blocks(self.function.body.block, frozenset())

    def loops(self, block: Block, bound: frozenset[str]) -> Iterator[Group]:
        """Those of a block, each marked."""
        grouping = self._groupings[block]
        trials = LoopTrials(self.module, grouping, self.fusion, self.tried)
        for group in tile_groups(block, self.maps, trials, self.target, self.wanted):
            if any(not bound.isdisjoint(symbols_in(op)) for op in group.ops if bound):
                continue  # room for the partial states of chunks is laid out before
            if not (self.limited and stores_twice(group)):
                mark(group)
                yield group


def choosers(
    module: ModuleOp,
    target: CpuTarget,
    columns: Columns,
    fusion: str,
    tile: tuple[int, ...],
    tried: Tried,
) -> Iterator[Chooser]:
    """
    Of the functions that may have loops, which begin with reductions, or say some. `tried`: trials
    of this module or of clones of it, which are not made again.
    """
    limit = module.attributes.get(LIMIT)
    dear = DEAR in module.attributes
    if dear and isinstance(limit, IntegerAttr):
        # tiles are cut for level 2, and here for what may be allocated
        share = limit.value.data // PARTS_OF_LIMIT
        target = replace(target, l2_bytes=min(target.l2_bytes, share))
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and any(
            isinstance(x, Reduction) or LOOP in x.attributes for x in function.walk()
        ):
            above = 0.0 if dear else large_bytes(function, target)
            wanted = Wanted(columns=columns, above=above, tile=tile)
            limited = limit is not None and not dear
            yield Chooser(
                module, function, target, wanted, fusion=fusion, limited=limited, tried=tried
            )


def _by_block(grouping: Grouping) -> dict[Block, Grouping]:
    found = {grouping.block: grouping}
    for inner in grouping.inner.values():
        found |= _by_block(inner)
    return found


def _blocks(block: Block, around: frozenset[str]) -> Iterator[tuple[Block, frozenset[str]]]:
    bound = around
    for op in list(block.ops):
        if isinstance(op, BindOp):
            bound |= {op.symbol.data}
        if isinstance(op, ControlOp):
            for inner in op.blocks:
                yield from _blocks(inner, bound)
    yield block, bound


# Attributes -------------------------------------------------------------------------------------


def mark(group: Group) -> None:
    """Says of the group's ops that they are one loop."""
    for op in group.ops:
        axes = _numbers([-1 if axis is None else axis for axis in group.axes[op]])
        said: dict[str, Attribute] = {"axes": axes}
        if op is group.ops[-1]:
            said["steps"] = _numbers(group.steps)
            if group.column is not None:
                said["columns"] = IntegerAttr(group.column_step, i64)
        op.attributes[LOOP] = DictionaryAttr(said)


def taken(members: Iterable[Operation]) -> Group | None:
    """The loop that ops of one block say, whose attributes are consumed. Raises PlanError."""
    said: dict[TensorOp, Mapping[str, Attribute]] = {}
    for op in members:
        found = op.attributes.pop(LOOP, None)
        if found is None:
            continue
        if not (isinstance(op, TensorOp) and isinstance(found, DictionaryAttr)):
            raise _fault(op, f"{found}; expected axes of an op on tensors")
        said[op] = found.data
    if not said:
        return None
    ops = list(said)
    steps, columns = said[ops[-1]].get("steps"), said[ops[-1]].get("columns")
    count = len(_values(ops[-1], steps, "steps", least=1))
    axes: dict[TensorOp, Axes] = {}
    for op in ops:
        found = _values(op, said[op].get("axes"), "axes", least=-1)
        axes[op] = tuple(None if axis < 0 else axis for axis in found)
        sizes = len(op.iteration())
        if any(axis >= sizes for axis in found) or len(found) != len(axes[ops[0]]):
            raise _fault(op, f"axes {found}; expected as many as of {ops[0].name}, below {sizes}")
    seed = next((op for op in ops if isinstance(op, Reduction) and None not in axes[op]), None)
    rows = len(axes[ops[0]]) - (columns is not None)
    if seed is None or not 1 <= count <= rows:
        text = f"{count} steps for {rows} row axes; expected one for each of the first ones"
        raise _fault(ops[-1], text if seed is not None else "no reduction has all axes")
    sizes, places = seed.iteration(), [axis for axis in axes[seed] if axis is not None]
    return Group(
        ops,
        tuple(sizes[axis] for axis in places[:rows]),
        axes,
        None if columns is None else sizes[places[-1]],
        steps=tuple(_values(ops[-1], steps, "steps", least=1)),
        column_step=columns.value.data if isinstance(columns, IntegerAttr) else 0,
    )


def check(group: Group, block: Block, maps: AxisMaps) -> None:
    """PlanError where ops that say they are one loop cannot be computed tile by tile together."""
    if group.is_both_ways:
        if (op := stranger_of(group, maps, BlockGraph(block, maps))) is not None:
            raise _fault(op, "it cannot be computed so with the others")
        return
    seed = next(op for op in group.ops if isinstance(op, Reduction) and None not in group.axes[op])
    *rows, column = (cast("int", axis) for axis in group.axes[seed])
    if group.column is None:
        rows, column = [*rows, column], None
    growth = Growth(seed, tuple(rows), column, maps, BlockGraph(block, maps))
    axes = group.axes if column is not None else {op: (*a, None) for op, a in group.axes.items()}
    if (op := growth.stranger(axes)) is not None:
        raise _fault(op, "it cannot be computed so with the others")


def _numbers(values: list[int] | tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def _values(op: Operation, found: Attribute | None, name: str, least: int) -> list[int]:
    values = [int(n) for n in found.iter_values()] if isinstance(found, DenseArrayBase) else []
    if not values or min(values) < least:
        text = f"no {name}" if found is None else f"{name} = {found}"
        raise _fault(op, f"{text}; expected array<i64: …> of at least {least}")
    return values


def _fault(op: Operation, text: str) -> PlanError:
    where = place(op) or op.name
    return PlanError(f"{where}: {LOOP} of {op.name}: {text}: edit it, or run mlc-choose-tiles")
