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

With `group 2`, for an instruction that takes summed elements in pairs, the summed axis is split:
panels are "(kc)(Jn) -> Jknc", and the product runs over groups k and places c in them.
"""

from __future__ import annotations

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import BarrierOp
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
from mlc.passes.tile.cut import dot_of, left_of
from mlc.passes.tile.panels import PLACE, deepest, forget, group_depth, in_dtype


def pack(kernel: KernelOp, word: Pack) -> None:
    """Copies a factor's part in front of the tile, which then reads the copy."""
    dot = dot_of(kernel)
    which = ("a", "b").index(word.operand)
    axis = "mn"[which]
    summed = group_depth(dot, word)
    view, at = ((dot.lhs, dot.lhs_at), (dot.rhs, dot.rhs_at))[which]
    if letters_in(at.data) != frozenset((axis, *summed)):
        raise MlcError(
            f"tiles: {word}: the factor has the axes {', '.join(sorted(letters_in(at.data)))};"
            f" expected {axis} and {', '.join(summed)} alone: block the others first"
        )
    width, left = left_of(dot, axis)
    if width.constant is None:
        raise MlcError(
            f"tiles: {word}: the size of {axis} is {width}; expected a number: block it first"
        )
    source = in_dtype(dot, view, word)
    place = PLACE if PLACE in dot.summed else ""
    along = axis + summed if word.rows else summed.removesuffix(place) + axis + place
    extents = {axis: Dim.const(word.panels), **{c: deepest(dot, c) for c in summed}}
    shape = (Dim.const(-(-width.constant // word.panels)), *(extents[c] for c in along))
    kind = view_type(view_of(source).element, shape)
    alloc = AllocOp.of("team" if word.team else "worker", kind)
    alloc.result.name_hint = f"packed_{word.operand}"
    named = Positions()
    parts = {f".{axis}": letter("J") * word.panels + letter(axis)}
    sizes: Over = (
        ("J", _ceiling(width if left is None else named.of(left), word.panels)),
        *((c, ExpressionsAttr(named.moved(x.data, dot.positions))) for c, x in dot.over.data),
    )
    from_ = tuple(renamed(dim, parts) for dim in named.moved(at.data, dot.positions))
    depth = f"{summed[:-2]}({summed[-2:]})" if place else summed
    copy = CopyOp.of(
        (source, ExpressionsAttr(from_)), (alloc.result, ExpressionsAttr(())),
        f"{depth}(J{axis}) -> J{along}", named.values,
        over=sizes, deal="J" if word.team else None,
    )  # fmt: skip
    _place(kernel, dot, alloc, copy)
    panel = letter(axis) // word.panels
    inside = letter(axis) - panel * word.panels
    packed = (panel, *(inside if c == axis else letter(c) for c in along))
    dot.operands = [alloc.result if k == which else x for k, x in enumerate(dot.operands)]
    dot.properties[("lhs_at", "rhs_at")[which]] = ExpressionsAttr(packed)
    forget(view)


def _ceiling(width: Dim, panels: int) -> ExpressionsAttr:
    return ExpressionsAttr(((width + (panels - 1)) // panels,))


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
