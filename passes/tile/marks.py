"""
Words that say how the product is computed and what happens at its edges: `via`, `prefetch`, `edge`.

```
via(fma), edge(m, clamp), prefetch(b, 2)    ->    dot … via fma clamp(m) prefetch(0, 2)
prefetch(c)    ->    prefetch %y[%m + m, %n + n] as "mn" write : frag<6x64xf32>; dot …
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i64

from mlc.dialects.errors import MlcError
from mlc.dialects.target.intrinsics import INTRINSICS
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import LoadOp, PrefetchOp, StoreOp
from mlc.dialects.tile.types import FragType, ViewType, frag_of, view_of
from mlc.dialects.tile.words import Edge, Prefetch, Via
from mlc.passes.tile.cut import axes_of, dot_of, tile_of
from mlc.passes.tile.panels import as_given, forget

ASKED = "asks_for_sums"
"""Attribute of a kernel to which `prefetch(c)` has been applied, until all words are."""


def via(kernel: KernelOp, word: Via) -> None:
    """Names the intrinsic row; what widens a factor for nothing goes."""
    dot = dot_of(kernel)
    dot.properties["via"] = StringAttr(word.row)
    rows = [row for row in INTRINSICS if row.name == word.row]
    for k, view in enumerate((dot.lhs, dot.rhs)):
        dtypes = {row.dtypes[k] for row in rows}
        if isinstance(view.type, ViewType) and view.type.dtype.name not in dtypes:
            given = as_given(view)
            if view_of(given).dtype.name in dtypes:
                dot.operands = [given if x is view else x for x in dot.operands]
                forget(view)


def prefetch(kernel: KernelOp, word: Prefetch) -> None:
    """Says how far ahead a factor is asked for, or that sums are."""
    if word.operand == "c":
        kernel.attributes[ASKED] = UnitAttr()
        return
    dot = dot_of(kernel)
    ahead = [n.value.data for n in dot.prefetch] if dot.prefetch is not None else [0, 0]
    ahead["ab".index(word.operand)] = word.steps
    dot.properties["prefetch"] = ArrayAttr([IntegerAttr(n, i64) for n in ahead])


def ask_for_sums(kernel: KernelOp) -> None:
    """
    Asks in front of the product for the lines where its sums wait, or are stored: with a few
    columns, they are no stream, and the processor can begin to fetch them while it multiplies.
    """
    if kernel.attributes.pop(ASKED, None) is None:
        return
    dot = dot_of(kernel)
    kind, ops = frag_of(dot.result), tile_of(dot)
    found = (x for op in ops for x in op.walk() if isinstance(x, LoadOp | StoreOp))
    place = next((x for x in found if _is_of(x, kind)), None)
    if place is None:
        raise MlcError("tiles: prefetch(c): no sums wait and none are stored tile by tile")
    axes = None if place.axes is None else place.axes.data
    tile = frag_of(place.result if isinstance(place, LoadOp) else place.value)
    asked = PrefetchOp.of(place.view, place.at, place.positions, tile, axes=axes, write=True)
    asked.location = dot.location
    block = dot.parent
    assert block is not None
    block.insert_op_before(asked, ops[0])


def _is_of(op: LoadOp | StoreOp, kind: FragType) -> bool:
    """Whether it reads or writes a whole tile that no code around it moves row by row."""
    tile = frag_of(op.result if isinstance(op, LoadOp) else op.value)
    return tile.dims == kind.dims


def edge(kernel: KernelOp, word: Edge) -> None:
    """`clamp`: the last element again; masks and zeros in panels are how the rest is read."""
    dot = dot_of(kernel)
    if word.how == "pack" and word.axis in dot.summed:
        return
    if word.axis not in axes_of(dot):
        known = ", ".join(axes_of(dot))
        raise MlcError(
            f"tiles: {word}: {word.axis} is no axis of the result; expected one of {known}"
        )
    if word.how == "clamp":
        known = dot.clamp.data if dot.clamp is not None else ""
        dot.properties["clamp"] = StringAttr(known + word.axis)
