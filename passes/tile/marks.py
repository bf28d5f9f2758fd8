"""
Words that say how the product is computed and what happens at its edges: `via`, `prefetch`, `edge`.

```
via(fma), edge(m, clamp), prefetch(b, 2)    ->    dot … via fma clamp(m) prefetch(0, 2)
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64

from mlc.dialects.errors import MlcError
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.words import Edge, Prefetch, Via
from mlc.passes.tile.cut import axes_of, dot_of


def via(kernel: KernelOp, word: Via) -> None:
    """Names the intrinsic row."""
    dot_of(kernel).properties["via"] = StringAttr(word.row)


def prefetch(kernel: KernelOp, word: Prefetch) -> None:
    """Says how far ahead a factor is asked for."""
    dot = dot_of(kernel)
    ahead = [n.value.data for n in dot.prefetch] if dot.prefetch is not None else [0, 0]
    ahead["ab".index(word.operand)] = word.tiles
    dot.properties["prefetch"] = ArrayAttr([IntegerAttr(n, i64) for n in ahead])


def edge(kernel: KernelOp, word: Edge) -> None:
    """`clamp`: the last element again; masks and zeros in panels are how the rest is read."""
    dot = dot_of(kernel)
    if word.how == "pack" and word.axis in dot.summed:
        return
    if word.axis not in axes_of(dot) or word.how == "narrow":
        raise MlcError(f"tiles: {word}: expected clamp, mask or pack of an axis of the result")
    if word.how == "clamp":
        known = dot.clamp.data if dot.clamp is not None else ""
        dot.properties["clamp"] = StringAttr(known + word.axis)
