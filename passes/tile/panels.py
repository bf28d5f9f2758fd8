"""What `pack` makes of a factor's elements: summed indices in groups, and another dtype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import DType, holds, named_dtype
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import INDEX as POSITION
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import ForOp
from mlc.dialects.tile.element import ElementsOp, ReadOp, scalar
from mlc.dialects.tile.expression import (
    ExpressionsAttr,
    letter,
    position,
    positions_in,
    renamed,
)
from mlc.dialects.tile.over import OverAttr
from mlc.dialects.tile.region import YieldOp, yielded
from mlc.dialects.tile.types import view_of, view_type
from mlc.dialects.tile.words import Pack

PLACE = "c"
"""The letter of places in a group of summed elements."""
SHIFT = 128
"""What is added to signed bytes that are packed as unsigned ones."""


def group_depth(dot: DotOp, word: Pack) -> str:
    """Splits the last summed axis as the word says; all letters in which panels are summed."""
    have = dot.summed[PLACE].data[0].constant if PLACE in dot.summed else 1
    if have == word.group:
        return "".join(dot.summed)
    if PLACE in dot.summed:
        raise MlcError(
            f"tiles: {word}: the other factor lies in groups of {have} summed elements; expected"
            f" group {have}"
        )
    *outer, (last, bound) = dot.over.data
    (depth, *_) = bound.data
    whole = max(word.group, word.depth)
    for loop in _loops(dot, depth):
        if loop.loops[0].step % whole:
            raise MlcError(
                f"tiles: {word}: blocks of {last} have {loop.loops[0].step} elements; expected a"
                f" multiple of {whole}"
            )
    if whole % word.group:
        raise MlcError(f"tiles: {word}: expected a depth of whole groups")
    groups = ExpressionsAttr(((depth + (whole - 1)) // whole * (whole // word.group),))
    place = ExpressionsAttr((Dim.const(word.group),))
    dot.properties["over"] = OverAttr((*outer, (last, groups), (PLACE, place)))
    dot.properties["letters"] = StringAttr(dot.letters.data.replace(last, last + PLACE))
    parts = {f".{last}": letter(last) * word.group + letter(PLACE)}
    for name in ("lhs_at", "rhs_at"):
        at = dot.properties[name]
        assert isinstance(at, ExpressionsAttr)
        dot.properties[name] = ExpressionsAttr(tuple(renamed(dim, parts) for dim in at.data))
    return "".join(dot.summed)


def deepest(dot: DotOp, axis: str) -> Dim:
    """How far the tile goes along a summed axis at most."""
    (depth, *_) = dot.summed[axis].data
    steps = [Dim.const(loop.loops[0].step) for loop in _loops(dot, depth)]
    return renamed(depth, {f"%{k}": x for k, x in zip(positions_in([depth]), steps, strict=True)})


def _loops(dot: DotOp, depth: Dim) -> list[ForOp]:
    """The loops that say how much of a summed axis is left, by position."""
    found: list[ForOp] = []
    for k in positions_in([depth]):
        owner = dot.positions[k].owner
        loop = owner.parent_op() if not isinstance(owner, Operation) else None
        assert isinstance(loop, ForOp)
        found.append(loop)
    return found


def in_dtype(dot: DotOp, view: SSAValue, word: Pack) -> SSAValue:
    """The factor with elements of the dtype that the word says, computed where they are read."""
    if word.dtype in ("", view_of(view).dtype.name):
        return view
    wanted = named_dtype(word.dtype)
    view = _narrow(dot, view, wanted)
    have = view_of(view).dtype
    if have is wanted:
        return view
    if (have.name, wanted.name, word.operand) == ("i8", "u8", "a"):
        dot.properties["zero"] = IntegerAttr(SHIFT, i64)
    elif not holds(wanted, have):
        raise MlcError(
            f"tiles: {word}: {wanted.name} does not hold the values of {have.name}; expected a"
            " wider dtype, or a in u8 for one of i8"
        )
    return _converted(dot, view, have, wanted)


def _narrow(dot: DotOp, view: SSAValue, wanted: DType) -> SSAValue:
    """What a conversion that keeps all values converts; the view where there is none."""
    op = view.owner
    if not isinstance(op, ElementsOp):
        return view
    (last,) = (x.owner for x in yielded(op.body.block))
    if not (isinstance(last, ConvertOp) and holds(last.dtype, last.source)):
        return view
    if holds(wanted, last.dtype):
        return view
    if as_given(view) is not view:
        return as_given(view)
    body = op.body.clone()
    end = body.block.last_op
    assert end is not None
    (copied,) = (x.owner for x in yielded(body.block))
    assert isinstance(copied, ConvertOp)
    end.operands = [copied.x]
    copied.detach()
    copied.erase()
    return _added(dot, ElementsOp.of(view_type(last.source.ir, view_of(view).shape), body))


def as_given(view: SSAValue) -> SSAValue:
    """The view whose elements, at the same places, are only converted and keep their values."""
    op, last = view.owner, _computed_by(view)
    read = last.x.owner if isinstance(last, ConvertOp) and holds(last.dtype, last.source) else None
    if not isinstance(op, ElementsOp) or not isinstance(read, ReadOp):
        return view
    return read.view if _reads_same_place(read, op) else view


def dtype_given(view: SSAValue) -> DType:
    """Of a view's elements, before a conversion that keeps their values."""
    last = _computed_by(view)
    if isinstance(last, ConvertOp) and holds(last.dtype, last.source):
        return last.source
    return view_of(view).dtype


def source_of(view: SSAValue, at: Sequence[Dim]) -> tuple[SSAValue, Sequence[Dim]]:
    """Where elements at subscripts lie: in another view, where they are its own, or converted."""
    last = _computed_by(view)
    read = last.x.owner if isinstance(last, ConvertOp) else last
    if not isinstance(read, ReadOp):
        return view, at
    places = {
        f"%{k}": at[x.index] for k, x in enumerate(read.positions) if isinstance(x, BlockArgument)
    }
    return read.view, [renamed(dim, places) for dim in read.at.data]


def _computed_by(view: SSAValue) -> Operation | Block | None:
    """What gives a view's elements, where they are computed when they are read."""
    op = view.owner
    return yielded(op.body.block)[0].owner if isinstance(op, ElementsOp) else None


def forget(view: SSAValue) -> None:
    """Takes away what was computed where it was read, and is read no more."""
    op = view.owner
    if isinstance(op, ElementsOp) and not op.result.uses:
        op.detach()
        op.erase()


def _reads_same_place(read: ReadOp, op: ElementsOp) -> bool:
    """Whether an element is that of another view of the same shape, at its own place."""
    places = tuple(position(k) for k in range(len(op.body.block.args)))
    return (
        read.where is None
        and tuple(read.positions) == tuple(op.body.block.args)
        and read.at.data == places
        and view_of(read.view).shape == view_of(op.result).shape
    )


def _converted(dot: DotOp, view: SSAValue, have: DType, wanted: DType) -> SSAValue:
    """A view's elements in another dtype; of i8 as u8, with 128 added."""
    shape = view_of(view).shape
    block = Block(arg_types=[POSITION] * len(shape))
    at = ExpressionsAttr(tuple(position(k) for k in range(len(shape))))
    value = _element(block, ReadOp.of(view, at, block.args))
    if (have.name, wanted.name) == ("i8", "u8"):
        kind: Sequence[Attribute] = [scalar(have.ir)]
        shift = dense(np.full((), -SHIFT, np.int8), have)
        low = _element(block, ConstantOp.create(result_types=kind, properties={"value": shift}))
        value = _element(block, AddOp.make(value, low))
    converted = ConvertOp.create(operands=[value], result_types=[scalar(wanted.ir)])
    block.add_op(YieldOp.of(_element(block, converted)))
    return _added(dot, ElementsOp.of(view_type(wanted.ir, shape), Region(block)))


def _element(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]


def _added(dot: DotOp, op: ElementsOp) -> SSAValue:
    """In front of the tile."""
    op.location = dot.location
    block = dot.parent
    assert block is not None
    block.insert_op_before(op, dot)
    return op.result
