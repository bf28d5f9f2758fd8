"""
Loops of which trips meet in one trip only: cut there.

Where the trip is a number that is known, the loop is three: those before it, it, and those behind.
Where it is a value, such as the number of a loop around, trips read what it writes at one place, as
`d[i, k]` in a loop over the columns of `d`: it is computed alone, before the loop, and each trip
reads what it writes or what was there before, whichever comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from mlc.dialects.analysis.dependence import (
    MOST_CONFLICTS,
    Access,
    Conflict,
    Trips,
    number_name,
)
from mlc.dialects.analysis.ranges import Ranges, linear_in
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.control import ForOp, is_inside
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import SliceOp, broadcast_to
from mlc.passes.tensor.derivative.emit import Emitter, before, body_ops
from mlc.passes.tensor.raising.parts import (
    Start,
    copied,
    difference,
    drop_unused,
    read_part,
    start_of,
    value_of,
)

ONE = Dim.const(1)


def cut_at_number(
    loop: ForOp, conflict: Conflict, ranges: Ranges
) -> tuple[int, list[ForOp]] | None:
    """
    The trip in which two accesses come to one place, and the loops of the trips before it, of it
    and of those behind it, as far as there are any; they stand where the loop did, which is gone.
    None where there is no such trip.
    """
    count, name = ranges.of(loop.count).constant, number_name(loop, ranges)
    if conflict.accesses is None or count is None:
        return None
    for a, b in zip(*(x.starts for x in conflict.accesses), strict=True):
        (factor, f), (other, g) = linear_in(a, name), linear_in(b, name)
        turn, apart = (factor - other).constant, (g - f).constant
        if not turn or apart is None:
            continue
        trip, rest = divmod(apart, turn)
        sizes = (trip + 1, 0) if rest else (trip, 1)  # they meet between two trips, or in one
        if trip >= 0 and sum(sizes) <= count:
            return sum(sizes) - 1, _cut(loop, (*sizes, count - sum(sizes)))
    return None


def _cut(loop: ForOp, sizes: Sequence[int]) -> list[ForOp]:
    b, parts, values = before(loop), list[ForOp](), list[SSAValue](loop.inits)
    for k, size in enumerate(sizes):
        if size:
            parts.append(_part(b, loop, sum(sizes[:k]), size, values))
            values = list[SSAValue](parts[-1].results)
    for old, new in zip(loop.results, values, strict=True):
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()
    return parts


def _part(b: Emitter, loop: ForOp, first: int, count: int, starts: Sequence[SSAValue]) -> ForOp:
    """So many of a loop's trips."""
    part = loop.clone()
    part.operands = [b.integer(count), *starts]
    number, top = part.body.block.args[0], part.body.block.first_op
    assert top is not None
    e = before(top)
    moved = e.add(number, e.integer(first))
    number.replace_uses_with_if(moved, lambda use: use.operation is not moved.owner)
    b.insert(part)
    return part


class _Cut(NamedTuple):
    """A read of what one trip writes."""

    read: SliceOp | DynamicSliceOp
    write: DynamicUpdateOp
    carried: int  # the array's number
    axis: int  # along which the trips' writes lie
    is_down: bool
    trip: Dim  # that writes what is read


def cut_at_value(loop: ForOp, found: Trips, ranges: Ranges) -> Dim | None:
    """
    x[j] of what trip k alone writes  ->  what trip k writes, where the trip is behind it; else what
    `x` was before the loop. Gives the trip where that has been done for all conflicts of the loop.
    """
    cuts = [_cut_of(loop, found, conflict, ranges) for conflict in found.conflicts]
    done = [cut for cut in cuts if cut is not None]
    if len(cuts) == MOST_CONFLICTS or len(done) < len(cuts):
        return None
    if len({cut.trip for cut in done}) != 1:
        return None
    trip, last = done[0].trip, ranges.of(loop.count) - 1
    if not (ranges.is_natural(trip) and ranges.is_natural(last - trip)):
        return None
    _replace(loop, done, ranges)
    return trip


def _cut_of(loop: ForOp, found: Trips, conflict: Conflict, ranges: Ranges) -> _Cut | None:
    if conflict.accesses is None:
        return None
    a, b = conflict.accesses
    write, read, name = a.op, b.op, number_name(loop, ranges)
    if not isinstance(write, DynamicUpdateOp) or not isinstance(read, SliceOp | DynamicSliceOp):
        return None
    if write.parent is not loop.body.block or write.fits is None:
        return None
    if isinstance(read, DynamicSliceOp) and read.fits is None:
        return None
    carried = next(k for k, values in found.arrays.items() if write.result in values)
    if (
        sum(x.owner is write or isinstance(x.owner, DynamicUpdateOp) for x in found.arrays[carried])
        > 1
    ):
        return None  # another op writes the array too
    moving = [k for k, x in enumerate(write.offsets) if not _is_same(x, loop)]
    if len(moving) != 1 or not all(_is_same(x, loop) for x in read.operands[1:]):
        return None
    (axis,) = moving
    factor, first = linear_in(a.starts[axis], name)
    if factor.constant not in (1, -1) or a.extents[axis] != ONE or b.extents[axis] != ONE:
        return None
    if name in b.starts[axis].symbols() or not _holds(a, b, axis, ranges):
        return None
    is_down = factor.constant == -1
    trip = first - b.starts[axis] if is_down else b.starts[axis] - first
    return _Cut(read, write, carried, axis, is_down, trip)


def _holds(write: Access, read: Access, axis: int, ranges: Ranges) -> bool:
    """Whether what a trip writes holds what is read, on all axes but one."""
    axes = zip(write.starts, write.extents, read.starts, read.extents, strict=True)
    return all(
        k == axis or (ranges.is_natural(r - w) and ranges.is_natural(w + n - r - m))
        for k, (w, n, r, m) in enumerate(axes)
    )


def _is_same(x: SSAValue, loop: ForOp) -> bool:
    """Whether a number is the same in all trips, and made without asking the loop for anything."""
    owner = x.owner
    if not is_inside(x, loop):
        return True
    return (
        isinstance(owner, TensorOp)
        and not owner.may_fail
        and all(_is_same(y, loop) for y in owner.operands)
    )


def _replace(loop: ForOp, cuts: Sequence[_Cut], ranges: Ranges) -> None:
    b, block, first = before(loop), loop.body.block, cuts[0]
    number = block.args[0]

    def outside(x: SSAValue, known: dict[SSAValue, SSAValue] | None = None) -> SSAValue:
        return copied(b, x, known or {}, lambda y: is_inside(y, loop))

    start = outside(first.write.offsets[first.axis], {number: b.integer(0)})

    def places_of(read: SliceOp | DynamicSliceOp) -> list[Start]:
        if isinstance(read, SliceOp):
            return list(read.offsets.data)
        return [start_of(x, outside, ranges) for x in read.offsets]

    place = places_of(first.read)[first.axis]
    ends = (start, place) if first.is_down else (place, start)
    trip = value_of(b, difference(b, *ends))
    alone = dict[SSAValue, SSAValue](zip(block.args, (trip, *loop.inits), strict=True))
    copies = b.copies(body_ops(block), alone)
    order = {op: k for k, op in enumerate(block.walk())}
    for cut in cuts:
        dims = shape_of(cut.read.result.type)
        places = places_of(cut.read)
        starts: list[Start] = [
            Dim.const(0) if k == cut.axis else difference(b, place, start_of(x, outside, ranges))
            for k, (place, x) in enumerate(zip(places, cut.write.offsets, strict=True))
        ]
        new = read_part(b, alone.get(cut.write.update, cut.write.update), starts, dims)
        old = read_part(b, loop.inits[cut.carried], places, dims)
        e = before(cut.read)
        predicate = "ge" if order[cut.write] < order[cut.read] else "gt"
        behind = e(CompareOp, number, trip, predicate=predicate)
        chosen = e(SelectOp, broadcast_to(e, behind, dims), new, old)
        cut.read.result.replace_all_uses_with(chosen)
        cut.read.detach()
        cut.read.erase()
    drop_unused(copies)
