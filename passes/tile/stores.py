"""Whether each element of a result is stored once for each block of depth, by one worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import ForOp, IfOp
from mlc.dialects.tile.element import MapOp
from mlc.dialects.tile.expression import positions_in
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import LoadOp, StoreOp
from mlc.dialects.tile.region import YieldOp, yielded

Fault = tuple[Operation, str]


def store_faults(kernel: KernelOp) -> Iterator[Fault]:
    """Stores to results that another worker, or another trip, does too."""
    for op in kernel.walk():
        if isinstance(op, StoreOp) and op.view in kernel.outputs:
            around = [*_around(op, kernel)]
            yield from _by_several_workers(op, kernel, around)
            yield from _in_several_trips(op, around)


def _around(op: Operation, kernel: KernelOp) -> Iterator[Operation]:
    above = op.parent_op()
    while above is not None and above is not kernel:
        yield above
        above = above.parent_op()


def _places(op: StoreOp) -> set[SSAValue]:
    return {op.positions[k] for k in positions_in(op.at.data)}


def _single(loop: ForOp, axis: int) -> bool:
    """Whether an axis has one trip, whatever the sizes."""
    numbers = [dim.constant for dim in loop.loops[axis].extent.data]
    return any(n is not None and n <= loop.loops[axis].step for n in numbers)


def _by_several_workers(
    op: StoreOp, kernel: KernelOp, around: Sequence[Operation]
) -> Iterator[Fault]:
    if kernel.work is None:
        return
    dealt = [loop for loop in around if isinstance(loop, ForOp) and loop.deal is not None]
    if not dealt:
        yield op, "every worker stores to a result; expected a loop around it that is dealt"
    places = _places(op)
    for loop in dealt:
        for axis, index in enumerate(loop.indices):
            if index not in places and not _single(loop, axis):
                yield (
                    op,
                    f"workers store to the same elements: no subscript has"
                    f" {_name(index)}, whose trips are dealt",
                )


def _in_several_trips(op: StoreOp, around: Sequence[Operation]) -> Iterator[Fault]:
    places = _places(op)
    for loop in around:
        if not isinstance(loop, ForOp) or loop.deal is not None:
            continue
        for axis, index in enumerate(loop.indices):
            if index in places or _single(loop, axis):
                continue
            when = _ends(op, index, around)
            if "last" in when:
                continue
            views, maps = _made_from(op.value)
            if not when and op.view not in views:
                yield (
                    op,
                    f"each trip of {_name(index)} stores to the same elements; expected sums that"
                    f" begin with what is there, or a condition first or last({_name(index)})",
                )
            elif any(not _only_adds(x) for x in maps):
                yield (
                    op,
                    f"what is done to sums stands in each trip of {_name(index)}; expected it"
                    f" under last({_name(index)})",
                )


def _ends(op: StoreOp, index: SSAValue, around: Sequence[Operation]) -> set[str]:
    """Which ends of a loop the conditions around ask for: "first", "last", or "not last"."""
    found: set[str] = set()
    for above in around:
        if not isinstance(above, IfOp):
            continue
        for condition in above.conditions.data:
            if condition.relation not in ("first", "last"):
                continue
            (number,) = positions_in((condition.left,))
            if above.positions[number] is index:
                inside = above.then.is_ancestor(op)
                found.add(condition.relation if inside else f"not {condition.relation}")
    return found


def _made_from(value: SSAValue) -> tuple[set[SSAValue], list[MapOp]]:
    """The memory that a tile was loaded from, and the maps on its way."""
    views, maps = set[SSAValue](), list[MapOp]()
    pending, seen = [value], set[SSAValue]()
    while pending:
        x = pending.pop()
        if x in seen:
            continue
        seen.add(x)
        match x.owner:
            case LoadOp() as load:
                views.add(load.view)
            case MapOp() as op if op.inputs:
                maps.append(op)
                pending += op.inputs
            case DotOp() as op if op.init is not None:
                pending.append(op.init)
            case IfOp() as op:
                at = next(k for k, out in enumerate(op.outs) if out is x)
                pending += [yielded(region.block)[at] for region in op.regions if region.blocks]
            case _:
                pass
    return views, maps


def _only_adds(op: MapOp) -> bool:
    return all(isinstance(inner, AddOp | YieldOp) for inner in op.body.block.ops)


def _name(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else "the position"
