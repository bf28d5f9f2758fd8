"""
The word `split`: parts of a summed axis, each with sums of its own, added as a fixed tree.

```
split(k, 2)
    %s = dot … over (k "K")
    store %s, %c[m, n]
->  for %k in "K" step … as %left deal(dynamic) {
      %s = dot … over (k %left)
      store %s, %parts[%k floordiv …, m, n] }
    barrier
    for %m in "M", %n in "N" step 64 deal(team) {
      %s = map(load %parts[0, %m, %n + n], load %parts[1, %m, %n + n]) { add }
      store %s, %c[%m, %n + n] }
```

How many parts there are does not depend on the team, so neither do bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import INDEX, BarrierOp, Deal, ForOp, Loop
from mlc.dialects.tile.element import MapOp, scalar
from mlc.dialects.tile.expression import ExpressionsAttr, letter, position
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import AllocOp, LoadOp, StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, frag_of, view_type
from mlc.dialects.tile.words import Split
from mlc.passes.tile.cut import Cut, axes_of, cut, dot_of, move_ops, size_of, tile_of

BYTES = 128
"""Of a row of sums that are added at once: two cache lines."""


def split(kernel: KernelOp, word: Split) -> None:
    """Cuts the summed axis for the team, and adds what the parts leave."""
    dot = dot_of(kernel)
    axes, kind = axes_of(dot), frag_of(dot.result)
    (size, *_) = size_of(dot, word.axis).data
    _check(kernel, dot, word, size)
    rest = tile_of(dot)[1:]
    for op in rest:
        op.detach()
    step = -(-(size.constant or 1) // word.parts)
    count = -(-(size.constant or 1) // step)
    alloc = AllocOp.of("team", view_type(kind.element, (Dim.const(count), *kind.dims.data)))
    alloc.result.name_hint = "parts"
    loop, _ = cut(dot, Cut(word.axis, step, Deal("dynamic")))
    place = ExpressionsAttr((position(0) // step, *map(letter, axes)))
    store = StoreOp.of(dot.result, alloc.result, place, loop.indices, axes=axes)
    loads = [
        LoadOp.of(
            alloc.result, ExpressionsAttr((Dim.const(k), *map(letter, axes))), (), kind, axes=axes
        )
        for k in range(count)
    ]
    added = [*loads, *_tree(loads, kind)]
    total = added[-1].results[0]
    for op in rest:
        op.operands = [total if x is dot.result else x for x in op.operands]
    for op in (alloc, store, *added):
        op.location = dot.location
    block = loop.body.block
    assert block.last_op is not None
    block.insert_op_before(store, block.last_op)
    first, parent = kernel.block.first_op, loop.parent
    assert first is not None
    assert parent is not None
    kernel.block.insert_op_before(alloc, first)
    sums = _in_parts([*added, *rest], axes, kind)
    sums.location = dot.location
    parent.insert_ops_after([BarrierOp.create(), sums], loop)


def _check(kernel: KernelOp, dot: DotOp, word: Split, size: Dim) -> None:
    where = f"tiles: {word}"
    if word.axis not in dot.summed:
        raise MlcError(f"{where}: {word.axis} is not summed; expected {' or '.join(dot.summed)}")
    if is_strict(kernel):
        raise MlcError(f'{where}: with numerics "strict" sums are added one after the other')
    if dot.parent is not kernel.block:
        raise MlcError(f"{where}: stands behind other words; expected it before them")
    if size.constant is None or any(n.constant is None for n in frag_of(dot.result).dims.data):
        raise MlcError(f"{where}: rows, columns or {word.axis} are known only when it runs")


def _tree(values: Sequence[Operation], kind: FragType) -> list[Operation]:
    """Additions of neighbours, until one is left."""
    found: list[Operation] = []
    level = [op.results[0] for op in values]
    while len(level) > 1:
        pairs = [_sum(x, y, kind) for x, y in zip(level[::2], level[1::2], strict=False)]
        found += pairs
        level = [*(op.outs[0] for op in pairs), *level[2 * len(pairs) :]]
    return found


def _sum(x: SSAValue, y: SSAValue, kind: FragType) -> MapOp:
    element = scalar(kind.element)
    body = Block(arg_types=[element, element])
    add = AddOp.make(*body.args)
    body.add_ops([add, YieldOp.of(add.results[0])])
    return MapOp.of([x, y], (), (), [kind], Region(body))


def _in_parts(ops: Sequence[Operation], axes: str, kind: FragType) -> ForOp:
    """A loop over rows, and over a few columns of each, that the team shares."""
    columns = BYTES // kind.dtype.bytes
    steps = [columns if k == len(axes) - 1 else 1 for k in range(len(axes))]
    loops = [
        Loop(ExpressionsAttr((size,)), step)
        for size, step in zip(kind.dims.data, steps, strict=True)
    ]
    body = Block(arg_types=[INDEX] * len(axes))
    body.add_ops([*ops, YieldOp.of()])
    for k, (c, step) in enumerate(zip(axes, steps, strict=True)):
        body.args[k].name_hint = c
        move_ops(ops, k, Cut(c, step), body.args[k])
    return ForOp.of(loops, Region(body), deal=Deal("team"))
