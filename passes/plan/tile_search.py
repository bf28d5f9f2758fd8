"""Which tile loops a block gets: the first that is legal and pays, then the next (D22)."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation

from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.window import Windowed
from mlc.passes.plan.block_graph import BlockGraph
from mlc.passes.plan.grouping import Grouping
from mlc.passes.plan.tile_axes import AxisMaps
from mlc.passes.plan.tile_costs import gain
from mlc.passes.plan.tile_groups import Group, Growth, starts_of


def tile_groups(
    block: Block, maps: AxisMaps, grouping: Grouping, target: CpuTarget
) -> Iterator[Group]:
    """
    The groups of a block one by one, each legal and by estimate cheaper than its kernels: whoever
    takes one forms its loop before asking for the next.
    """
    for with_columns in (True, False):  # rows alone would store what columns need not
        tried: set[Operation] = set()
        while found := _next(BlockGraph(block, maps), tried, maps, grouping, target, with_columns):
            yield found


def _next(
    graph: BlockGraph,
    tried: set[Operation],
    maps: AxisMaps,
    grouping: Grouping,
    target: CpuTarget,
    with_columns: bool,
) -> Group | None:
    """The first group that pays, of those that begin with a reduction not tried before."""
    refused: list[Group] = []
    for seed in graph.ops:
        if not isinstance(seed, Reduction) or isinstance(seed, Windowed) or seed in tried:
            continue
        tried.add(seed)
        best: tuple[float, Group] | None = None
        for rows, column in starts_of(seed, with_columns):
            wanted = (*rows, column) if with_columns else rows
            if any(group.axes.get(seed) == wanted for group in refused):
                continue  # it would grow to the same ops
            group = Growth(seed, rows, column, maps, graph).run()
            if group is None:
                continue
            seconds = gain(group, maps, grouping, target)
            if seconds <= 0:
                refused.append(group)
            elif best is None or seconds > best[0]:
                best = seconds, group
        if best is not None:
            return best[1]
    return None
