"""Factors that are parts of an array in memory: where a stream reads them without a copy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim, Shape, product, shape_of
from mlc.dialects.gpu_async import MOST_AXES
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import ReshapeOp, SliceOp, TransposeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.views import regrouped_slice
from mlc.passes.tile.view_walk import ONE, ViewWalk


@dataclass(frozen=True)
class PartOf:
    """
    Some places of an array, seen in `shape`: for each axis of the part that has more than one place
    `axes` names that of the array; places begin at `starts`, an entry for each axis of the array.
    """

    array: SSAValue
    shape: Shape
    axes: tuple[int, ...]
    starts: tuple[int, ...]


def part_of(op: ContractOp, number: int) -> PartOf | None:
    """
    Of a factor that is a part of a larger array, which is stored whatever becomes of the part;
    None of others. Axes that have only some of the array's places are outer ones: those of rows,
    columns and sums end where memory does, so that copies of tiles fill what is outside.
    """
    found = _walked(op.operands[number])
    if found is None or sum(n != ONE for n in found.shape) > MOST_AXES:
        return None
    while isinstance(found.array.owner, ReshapeOp):
        found = replace(found, array=found.array.owner.x)
    if not _is_stored(found.array):
        return None
    inner = _inner(op, number)
    sizes = shape_of(op.operands[number].type)
    mine = [(c, n) for c, n in zip(op.words()[0][number], sizes, strict=True) if n != ONE]
    for (c, size), axis in zip(mine, found.axes, strict=True):
        if size != found.shape[axis] and c in inner:
            return None
    return found


def _inner(op: ContractOp, number: int) -> Collection[str]:
    """The letter of a factor's rows, and that of sums: the last ones of several."""
    words, result, summed = op.words()
    sizes = op.sizes()
    mine, other = words[number], words[1 - number]
    own = [c for c in result if c in mine and c not in other and sizes[c] != ONE]
    sums = [c for c in other if c in summed and sizes[c] != ONE]
    return {*own[-1:], *sums[-1:]}


def _walked(x: SSAValue) -> PartOf | None:
    """A part by slices, turned or not; None of what is no part."""
    sizes = shape_of(x.type)
    walk, sliced = ViewWalk(sizes), False
    while walk.through(op := x.owner):
        assert isinstance(op, TransposeOp | SliceOp | ReshapeOp)
        sliced = sliced or isinstance(op, SliceOp)
        x = op.x
    if isinstance(op, ReshapeOp) and isinstance(op.x.owner, SliceOp):
        return _regrouped(op, op.x.owner, walk)
    if isinstance(op, SliceOp) or not sliced:
        return None
    return _in_rows(PartOf(x, shape_of(x.type), tuple(walk.axes), tuple(walk.starts)), sizes)


def _in_rows(part: PartOf, sizes: Shape) -> PartOf:
    """`x[…, o : o + d]` is one of the rows of d that x has, if such a row begins at o."""
    last = len(part.shape) - 1
    counts = dict(zip(part.axes, (n for n in sizes if n != ONE), strict=True))
    row, size, begin = counts.get(last, ONE).constant, part.shape[last].constant, part.starts[last]
    if not row or size is None or row in (1, size) or size % row or begin % row:
        return part
    return PartOf(
        part.array,
        (*part.shape[:last], Dim.const(size // row), Dim.const(row)),
        tuple(axis + (axis == last) for axis in part.axes),
        (*part.starts[:last], begin // row, 0),
    )


def _regrouped(op: ReshapeOp, part: SliceOp, walk: ViewWalk) -> PartOf | None:
    """`x[…, o : o + h d]` as h rows of d is a part of x as rows of d, if such a row begins at o."""
    whole, starts = shape_of(part.x.type), part.starts()
    cut = [axis for axis, n in enumerate(part.shape) if n != whole[axis]]
    if len(cut) != 1 or any(step != 1 for _, step in starts):
        return None
    at = (cut[0], starts[cut[0]][0], whole[cut[0]])
    found = regrouped_slice(part.shape, op.shape, at)
    if found is None or found[1][1].constant is None:
        return None
    shape, (axis, offset, _) = found
    walk.starts[axis] += offset.constant or 0
    return PartOf(part.x, shape, tuple(walk.axes), tuple(walk.starts))


def _is_stored(array: SSAValue) -> bool:
    """
    Whether an array is in memory anyhow: an argument, or parts are taken of it that are as many
    elements as it has.
    """
    if isinstance(array.owner, Block):
        return isinstance(array.owner.parent_op(), FuncOp)
    size, taken = product(shape_of(array.type)).constant, _taken(array)
    return size is not None and taken is not None and taken >= size


def _taken(array: SSAValue) -> int | None:
    """The elements of all parts of an array, or of what it is regrouped and turned into."""
    total = 0
    for use in array.uses:
        op = use.operation
        if not isinstance(op, SliceOp | TransposeOp | ReshapeOp):
            continue
        found = _taken(op.result)
        if isinstance(op, SliceOp) and not found:
            found = product(op.shape).constant
        if found is None:
            return None
        total += found
    return total
