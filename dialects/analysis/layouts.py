"""How what a kernel reads and writes lies in memory, as lowering the entry places it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue

from mlc.dialects.plan import BufferAttr, KernelOp
from mlc.dialects.tensor.control import IfOp, yield_of
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tile import TileOp
from mlc.dialects.tensor.tiles import TilesOp, enclosing_tiles
from mlc.dialects.tile.kernel import CallOp, called
from mlc.dialects.tile.types import Layout, view_of


def layouts_of(kernel: KernelOp | CallOp) -> list[Layout]:
    """Of arguments, then of results."""
    found: list[Layout] = [layout_of(x) for x in kernel.inputs]
    return found + [_written(kernel, k) for k in range(len(kernel.outs))]


def misfits(call: CallOp) -> Iterator[str]:
    """What is wrong with views of the kernel that lie otherwise than what is handed over."""
    kernel = called(call)
    assert kernel is not None
    for k, (view, found) in enumerate(zip(kernel.block.args, layouts_of(call), strict=True)):
        expected = view_of(view).layout.data
        if expected != found:
            yield (
                f"argument {k} lies {found or 'in one piece'}, its view in @{kernel.sym_name.data}"
                f" {expected or 'in one piece'}; expected the same layout"
            )


def layout_of(value: SSAValue) -> Layout:
    """
    Of a value of the entry: an argument may lie in any way, a part of what lies in one piece has
    rows, whose elements lie side by side.
    """
    if isinstance(value, BlockArgument):
        around = value.owner.parent_op()
        if isinstance(around, TilesOp) and value in around.so_far:
            return _in_tiles(around, around.meeting[around.so_far.index(value)])
        marks = getattr(around, "arg_attrs", None)
        general = marks is not None and marks.data[value.index].data.get("mlc.layout")
        return "strided" if general == StringAttr("general") else ""
    op = value.owner
    assert isinstance(value, OpResult)
    match op:
        case ReshapeOp():
            return layout_of(op.x)
        case TileOp():
            return _part(layout_of(op.x), dense=op.is_dense)
        case KernelOp() | CallOp():
            return _written(op, value.index)
        case IfOp():
            return layout_of(yield_of(op.then.block).values[value.index])
        case TilesOp() if value.index < len(op.own):
            return _own(op, value.index)
        case _:
            return ""


def _part(whole: Layout, *, dense: bool) -> Layout:
    if whole or dense:
        return whole
    return "rows"


def _written(op: KernelOp | CallOp, k: int) -> Layout:
    """Of a kernel's result."""
    if op.buffers is None:
        return ""
    place, numbers = op.buffers.data[k].data
    if place == "input":
        return layout_of(op.inputs[numbers[0]])
    return _in_tiles(next(enclosing_tiles(op)), numbers[0]) if place == "tile" else ""


def _own(op: TilesOp, k: int) -> Layout:
    """Of a result of a tile loop that has memory of its own."""
    buffers = op.attributes.get("buffers")
    if not isinstance(buffers, ArrayAttr):
        return ""
    buffer = cast("ArrayAttr[Attribute]", buffers).data[k]
    if not isinstance(buffer, BufferAttr) or buffer.data[0] != "tile":
        return ""
    return _in_tiles(next(enclosing_tiles(op)), buffer.data[1][0])


def _in_tiles(loop: TilesOp, k: int) -> Layout:
    """Of a tile in a result of a tile loop."""
    return _part(_own(loop, k), dense=loop.is_dense(k))
