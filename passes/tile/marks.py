"""
Words that say how the product is computed and what happens at its edges: `via`, `prefetch`, `edge`.

```
via(fma), edge(m, clamp), prefetch(b, 2)    ->    dot … via fma clamp(m) prefetch(0, 2)
prefetch(c)    ->    prefetch %y[%m + m, %n + n] as "mn" write : frag<6x64xf32>; dot …
               and   prefetch %c[%m + m, %n + n] as "mn" : frag<6x64xf32>, of each element that
                     what follows reads at the place of its own sum
```
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.target.intrinsics import INTRINSICS
from mlc.dialects.tile.control import INDEX
from mlc.dialects.tile.element import MapOp, ReadOp
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter, letters_in, renamed
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import LoadOp, PrefetchOp, StoreOp
from mlc.dialects.tile.types import FragType, ViewType, frag_of, frag_type, view_of
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
    Asks in front of the product for the lines where its sums wait, or are stored, and for those
    that are read beside them: with a few columns, they are no stream, and the processor can begin
    to fetch them while it multiplies.
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
    block = dot.parent
    assert block is not None
    for op in (asked, *_read_beside(ops, axes_of(dot), kind)):
        op.location = dot.location
        block.insert_op_before(op, ops[0])


def _read_beside(ops: list[Operation], axes: str, kind: FragType) -> Iterator[PrefetchOp]:
    """The lines of what is read for each sum at its own place, along memory as sums are."""
    for op in ops:
        if not isinstance(op, MapOp) or not op.starts or frag_of(op.outs[0]).dims != kind.dims:
            continue
        for read in (x for x in op.body.block.ops if isinstance(x, ReadOp)):
            positions = Positions()
            at = _subscripts(read, op, axes, positions)
            if at is None or letters_in(at) != frozenset(axes):
                continue
            if axes[-1] not in letters_in([at[-1] - letter(axes[-1])]):
                tile = frag_type(view_of(read.view).element, kind.shape)
                where = ExpressionsAttr.of(at)
                yield PrefetchOp.of(read.view, where, positions.values, tile, axes=axes)


def _subscripts(read: ReadOp, op: MapOp, axes: str, positions: Positions) -> tuple[Dim, ...] | None:
    """Where a tile's elements read, in its letters; None where that is computed for each."""
    atoms: dict[str, Dim] = {}
    places: list[SSAValue] = list(op.body.block.args[len(op.inputs) :])
    for k, value in enumerate(read.positions):
        if value in places:
            axis = places.index(value)
            (start,) = positions.moved(op.starts.data[axis].data, op.positions)
            atoms[f"%{k}"] = start + letter(axes[axis])
        elif value.type == INDEX:
            atoms[f"%{k}"] = positions.of(value)
        else:
            return None
    return tuple(renamed(dim, atoms) for dim in read.at.data)


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
