"""Which tile loops a block gets: the first that is legal and pays, then the next (D22)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Block, Operation

from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.window import Windowed
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.sizes import stored_bytes
from mlc.passes.plan.fusion.block_graph import BlockGraph
from mlc.passes.plan.memory.large_values import Columns
from mlc.passes.plan.tiling.both_ways import both_ways
from mlc.passes.plan.tiling.loop_trials import LoopTrials
from mlc.passes.plan.tiling.tile_costs import Price, price
from mlc.passes.plan.tiling.tile_groups import (
    MIN_COLUMNS,
    Axes,
    Group,
    Growth,
    leaves,
    starts_of,
)
from mlc.passes.remarks import is_heard, remark

Grow = Callable[[Reduction, tuple[int, ...], int | None, AxisMaps, BlockGraph], Group | None]
"""The group of a reduction with these row axes, and columns, of its own space."""

LEAST_S = 1e-12  # said to be saved by a loop that is formed for its memory


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which loops are formed: `tile` of rows and columns for all that are legal, or by cost."""

    columns: Columns = "paying"
    above: float = 0.0  # bytes of a large value
    tile: Sequence[int] = ()


def tile_groups(
    block: Block, maps: AxisMaps, trials: LoopTrials, target: CpuTarget, wanted: Wanted
) -> Iterator[Group]:
    """
    The groups of a block one by one, each legal and by estimate cheaper than its kernels, or wanted
    all the same: whoever takes one forms its loop before asking for the next.
    """
    tile = wanted.tile

    def worth(group: Group) -> float:
        if not tile:
            large = wanted.columns == "large"
            found = price(group, maps, trials.grouping, target, stores=not large)
            group.saved_s = 0.0 if found is None else found.saved
            dear = keeps_small(group, wanted.above)
            if found is not None and not dear:  # memory is part of what that one is chosen for
                found = trials.price(group, found)
            seconds = 0.0 if found is None else found.saved
            if dear and large and group.column_step and not group.is_both_ways:
                seconds = max(seconds, LEAST_S)
            if found is not None and is_heard():
                _say(group, found, pays=seconds > 0)
            return seconds
        group.steps, group.column_step = (*[1] * (len(group.rows) - 1), tile[0]), tile[1]
        return len(group.ops) - 1.0

    def keeps_small(group: Group, above: float) -> bool:
        large = (op for op in group.ops if stored_bytes(op.results[0].type) > above)
        if group.column is not None:
            return any(group.is_wide(op) for op in large)
        return any(not leaves(op, group) for op in large)

    columns = tile[1] if tile else MIN_COLUMNS
    # rows alone would store what columns need not, and columns alone compute what one loop need not
    ways: list[tuple[Grow, int | None]] = [(_alone, None)]
    if wanted.columns != "none":
        ways = [(_both, columns), (_alone, columns), *ways]
    for grow, least in ways:
        tried: set[Operation] = set()
        while found := _next(BlockGraph(block, maps), tried, worth, maps, grow, least):
            yield found


def _alone(
    seed: Reduction, rows: tuple[int, ...], column: int | None, maps: AxisMaps, graph: BlockGraph
) -> Group | None:
    return Growth(seed, rows, column, maps, graph).run()


def _both(
    seed: Reduction, rows: tuple[int, ...], column: int | None, maps: AxisMaps, graph: BlockGraph
) -> Group | None:
    return None if column is None else both_ways(seed, rows, column, maps, graph)


def _say(group: Group, found: Price, *, pays: bool) -> None:
    """A remark on a candidate, with the seconds of both ways that differ between them."""
    op = group.ops[-1]
    rows = " x ".join(map(str, group.steps))
    cut = f"rows {rows}" + (f", columns {group.column_step}" if group.column is not None else "")
    names = [f"{found.loop * 1e6:.3f} us as a tile loop ({cut})"]
    names.append(f"{found.kernels * 1e6:.3f} us as kernels of their own")
    text = ", and ".join(names if pays else names[::-1])
    verb = "pay as a tile loop" if pays else "stay kernels of their own"
    remark(op, f"{len(group.ops)} ops {verb}: {found.of} {text}")


def _next(
    graph: BlockGraph,
    tried: set[Operation],
    worth: Callable[[Group], float],
    maps: AxisMaps,
    grow: Grow,
    columns: int | None,
) -> Group | None:
    """
    The first group that is worth it, of those that begin with a reduction not tried before.
    `columns`: the least number of those that are not stored; None: all values are.
    """
    refused: set[tuple[TensorOp, Axes]] = set()
    for seed in graph.ops:
        if not isinstance(seed, Reduction) or isinstance(seed, Windowed) or seed in tried:
            continue
        tried.add(seed)
        best: tuple[float, Group] | None = None
        for rows, column in starts_of(seed, columns, maps):
            wanted = rows if columns is None else (*rows, column)
            if (seed, wanted) in refused:
                continue  # it would grow to the same ops
            group = grow(seed, rows, column, maps, graph)
            if group is None:
                continue
            seconds = worth(group)
            if seconds <= 0:
                refused.update(group.axes.items())
            elif best is None or seconds > best[0]:
                best = seconds, group
        if best is not None:
            return best[1]
    return None
