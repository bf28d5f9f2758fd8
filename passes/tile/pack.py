"""
The word `pack`: a factor's part of the tile in panels side by side, in scratch.

```
pack(b, panels 32, team)
    dot … %b[%k + k, %n + n] …
->  %p = alloc team : view<128x256x32xf32>
    barrier
    copy %b[%k + k, %n + 32*J + n] -> %p "k(Jn) -> Jkn" deal(team, J)
    barrier
    dot … %p[n floordiv 32, k, n mod 32] …
```
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import BarrierOp, ForOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.expression import (
    ExpressionsAttr,
    Positions,
    letter,
    letters_in,
    renamed,
)
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import AllocOp
from mlc.dialects.tile.over import Over
from mlc.dialects.tile.types import view_of, view_type
from mlc.dialects.tile.words import Pack
from mlc.passes.tile.cut import dot_of, left_of, size_of


def pack(kernel: KernelOp, word: Pack) -> None:
    """Copies a factor's part in front of the tile, which then reads the copy."""
    dot = dot_of(kernel)
    which = ("a", "b").index(word.operand)
    axis = "mn"[which]
    if word.group != 1:
        raise MlcError(f"tiles: {word}: groups are not packed yet; expected no group")
    view, at = ((dot.lhs, dot.lhs_at), (dot.rhs, dot.rhs_at))[which]
    if letters_in(at.data) != frozenset((axis, "k")):
        raise MlcError(
            f"tiles: {word}: the factor has the axes {', '.join(sorted(letters_in(at.data)))};"
            f" expected {axis} and k alone: block the others first"
        )
    (width, left), (depth, below) = (left_of(dot, c) for c in (axis, "k"))
    if width.constant is None:
        raise MlcError(
            f"tiles: {word}: the size of {axis} is {width}; expected a number: block it first"
        )
    count = -(-width.constant // word.panels)
    element = view_of(view).element
    capacity = size_of(dot, "k").data[0] if below is None else _step(dot)
    alloc = AllocOp.of(
        "team" if word.team else "worker",
        view_type(element, (Dim.const(count), capacity, Dim.const(word.panels))),
    )
    named = Positions()
    inner = {f".{axis}": letter("J") * word.panels + letter(axis)}
    source = tuple(renamed(dim, inner) for dim in named.moved(at.data, dot.positions))
    sizes: Over = (
        ("J", _ceiling(width if left is None else named.of(left), word.panels)),
        ("k", ExpressionsAttr((depth if below is None else named.of(below),))),
    )
    copy = CopyOp.of(
        (view, ExpressionsAttr(source)), (alloc.result, ExpressionsAttr(())),
        f"k(J{axis}) -> Jk{axis}", named.values, over=sizes, deal="J" if word.team else None,
    )  # fmt: skip
    _place(kernel, dot, alloc, copy)
    name = letter(axis)
    panel = name // word.panels
    packed = ExpressionsAttr((panel, letter("k"), name - panel * word.panels))
    dot.operands = [alloc.result if k == which else x for k, x in enumerate(dot.operands)]
    dot.properties[("lhs_at", "rhs_at")[which]] = packed


def _ceiling(width: Dim, panels: int) -> ExpressionsAttr:
    return ExpressionsAttr(((width + (panels - 1)) // panels,))


def _step(dot: DotOp) -> Dim:
    """How deep a block of the summed axis is at most."""
    name = next(iter(dot.summed["k"].data[0].symbols()))
    value: SSAValue = dot.positions[int(name[1:])]
    owner = value.owner
    loop = owner.parent_op() if not isinstance(owner, Operation) else None
    assert isinstance(loop, ForOp)
    return Dim.const(loop.loops[0].step)


def _place(kernel: KernelOp, dot: DotOp, alloc: AllocOp, copy: CopyOp) -> None:
    """Scratch at the beginning of the kernel, the copy in front of the tile."""
    first = kernel.block.first_op
    assert first is not None
    kernel.block.insert_op_before(alloc, first)
    block = dot.parent
    assert block is not None
    alloc.location = copy.location = dot.location
    block.insert_op_before(copy, dot)
    if copy.deal is not None:
        block.insert_op_before(BarrierOp.create(), copy)
        block.insert_op_after(BarrierOp.create(), copy)
    alloc.result.name_hint = f"packed_{'ab'[copy.letters.data.endswith('n')]}"
