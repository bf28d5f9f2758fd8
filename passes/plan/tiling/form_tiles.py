"""Tile loops: groups of ops that are computed together, tile by tile (D16)."""

from __future__ import annotations

from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mlc.dialects.target.attribute import cpu_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.memory.large_values import Columns, choose, has_large
from mlc.passes.plan.tiling.choose_tiles import (
    DEAR,
    UNTILED,
    Chooser,
    check,
    choosers,
    taken,
)
from mlc.passes.plan.tiling.loop_trials import Tried
from mlc.passes.plan.tiling.loop_writer import LoopWriter


@dataclass(frozen=True)
class FormTilesPass(ModulePass):
    """
    softmax: m = max x; e = exp(x - m); s = sum e; e / s  ->  the same for 16 rows at a time

    Each group of ops that `mlc.loop` names becomes one `mlc.tiles`; then those that
    `mlc-choose-tiles` chooses. What ops hand to one another are tiles. In a module with
    `mlc.peak_bytes`, no loop computes what would be stored as well; with `mlc.less_memory` loops
    whose columns are never stored are formed even where storing them would take less time; with
    `mlc.no_tile_loops` there are none.

    `tile`: rows and columns of every tile, for all groups that are legal, whether they pay or not,
    which tests of small programs ask for; without it those that pay, by estimate.
    """

    name = "mlc-form-tiles"

    fusion: str = "exact"
    tile: tuple[int, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_of(op, self.name)
        if self.fusion == "none" or UNTILED in op.attributes:
            return
        functions = [f for f in op.body.block.ops if isinstance(f, FuncOp) and f.body.blocks]
        columns: Columns = "large" if DEAR in op.attributes else "paying"
        tried: Tried = []
        if len(functions) == 1 and columns == "paying" and not self.tile:
            (function,) = functions
            if has_large(function, target):
                form = partial(self._form, tried)
                columns = choose(op, function, target, self.fusion, form)
        self._form(tried, op, columns)

    def _form(self, tried: Tried, module: ModuleOp, columns: Columns) -> float:
        """Forms the loops of a module, of those with columns these, and what these save."""
        target = cpu_of(module, self.name)
        found = choosers(module, target, columns, self.fusion, self.tile, tried)
        return sum(map(_form, found))


def _form(chooser: Chooser) -> float:
    """
    Forms the tile loops of a function: those that are said, and those that pay; the seconds that
    those save whose columns are never stored.
    """
    saved_s, writer = 0.0, LoopWriter(chooser.maps)
    for block, bound in chooser.blocks():
        if (group := taken(block.ops)) is not None:
            check(group, block, chooser.maps)
            writer.form(block, group)
        for chosen in chooser.loops(block, bound):
            group = taken(chosen.ops)
            assert group is not None
            writer.form(block, group)
            saved_s += chosen.saved_s if chosen.column is not None else 0.0
    return saved_s
