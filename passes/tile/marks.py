"""
Words that say how the product is computed and what happens at its edges: `via`, `prefetch`, `edge`.

```
via(fma), edge(m, clamp), prefetch(b, 2)    ->    dot … via fma clamp(m) prefetch(0, 2)
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64

from mlc.dialects.errors import MlcError
from mlc.dialects.target.intrinsics import INTRINSICS
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.types import ViewType, view_of
from mlc.dialects.tile.words import Edge, Prefetch, Via
from mlc.passes.tile.cut import axes_of, dot_of
from mlc.passes.tile.panels import as_given, forget


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
    """Says how far ahead a factor is asked for."""
    dot = dot_of(kernel)
    ahead = [n.value.data for n in dot.prefetch] if dot.prefetch is not None else [0, 0]
    ahead["ab".index(word.operand)] = word.steps
    dot.properties["prefetch"] = ArrayAttr([IntegerAttr(n, i64) for n in ahead])


def edge(kernel: KernelOp, word: Edge) -> None:
    """`clamp`: the last element again; masks and zeros in panels are how the rest is read."""
    dot = dot_of(kernel)
    if word.how == "pack" and word.axis in dot.summed:
        return
    if word.axis not in axes_of(dot):
        raise MlcError(f"tiles: {word}: expected clamp, mask or pack of an axis of the result")
    if word.how == "clamp":
        known = dot.clamp.data if dot.clamp is not None else ""
        dot.properties["clamp"] = StringAttr(known + word.axis)
