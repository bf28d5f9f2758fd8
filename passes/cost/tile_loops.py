"""What a tile loop costs as the one kernel that it is (D16): its arithmetic, and what it moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects.analysis.aliases import is_unwritten, root_of
from mlc.dialects.analysis.trips import running_kernels, trips_at
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.op import bytes_of, element_dtype
from mlc.dialects.tensor.tiles import TilesOp, is_position
from mlc.passes.cost.model import Counts, bytes_read, counts_of

if TYPE_CHECKING:
    from mlc.dialects.plan import KernelOp, Template


def phases_of(loop: TilesOp) -> list[KernelOp]:
    """The kernels inside, in order."""
    return running_kernels(loop)


def template_of(loop: TilesOp) -> Template:
    """The template (D17) of a tile loop."""
    if not loop.placed and all(loop.folds):
        return "magg"
    return "outer" if any(isinstance(op, TilesOp) for op in loop.body.walk()) else "row"


def tile_sizes_of(loop: TilesOp) -> tuple[int, ...]:
    """The largest size of a tile along each loop axis, then along those of loops inside."""
    found: list[int] = []
    for op in loop.walk():
        if isinstance(op, TilesOp):
            for extent, step in zip(op.extents, op.steps, strict=True):
                found.append(step if extent.constant is None else min(step, extent.constant))
    return tuple(found)


def work_of_loop(loop: TilesOp, sizes: Mapping[str, int]) -> Counts:
    """
    All arithmetic of the phases; bytes of each tensor from outside, once and no more than the
    phases ask for, and of each result, once. What phases hand to one another is not counted.
    """
    flops = 0
    asked: dict[SSAValue, int] = {}
    for op in phases_of(loop):
        trips = trips_at(op, sizes)
        flops += sum(counts_of(op, here).flops * count for here, count in trips)
        for k, (argument, x) in enumerate(zip(op.block.args, op.inputs, strict=True)):
            if k == op.overwritten:
                continue
            size = bytes_read(argument)
            moved = sum(size.evaluate(here) * count for here, count in trips)
            for value in _from_outside(x, loop):
                asked[value] = asked.get(value, 0) + moved
    read = {x: min(_bytes(x, sizes), moved) for x, moved in asked.items()}
    written = {x: _bytes(x, sizes) for x in results_of(loop)}
    moved = [*read.items(), *written.items()]
    return Counts(
        flops=flops,
        bytes_read=sum(read.values()),
        bytes_written=sum(written.values()),
        accesses=sum(size // element_dtype(x).bytes for x, size in moved),
    )


def results_of(loop: TilesOp) -> list[SSAValue]:
    """The results that a tile loop writes for others."""
    carried = [x for x in loop.results[loop.first_carried :] if x.uses]
    return [*loop.placed, *carried]


def _bytes(value: SSAValue, sizes: Mapping[str, int]) -> int:
    return bytes_of(value.type).evaluate(sizes)


def _from_outside(value: SSAValue, loop: TilesOp) -> Iterator[SSAValue]:
    """The tensors made outside of a loop that a value in it may be, or be a part of."""
    seen: set[SSAValue] = set()
    pending = [value]
    while pending:
        x = root_of(pending.pop())
        if x in seen or is_position(x):
            continue
        seen.add(x)
        around = x.owner if isinstance(x.owner, Operation) else x.owner.parent_op()
        if around is None or not loop.is_ancestor(around):
            if not is_unwritten(x):
                yield x
        elif isinstance(x, BlockArgument) and isinstance(around, ControlOp):
            carried = around.carried_in(x.block)
            pending += [start for y, start in zip(carried, around.starts, strict=True) if y is x]
