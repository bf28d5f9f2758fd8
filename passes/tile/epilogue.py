"""
The word `epilogue(loop)`: what follows the product is a loop over the rows of the register tile,
which waits in memory of the worker, so that long code stands there once.

```
    %y = map(%s) {…}
    store %y, %c[%m + m, n]
->  store %s, %w[m, n]
    for %r in 6 {
      %e = load %w[%r + m, n] : frag<1x64xf32>
      %y = map(%e) {…}
      store %y, %c[%m + %r + m, n] }
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.errors import MlcError
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import INDEX, NO_UNROLL, ForOp, IfOp, Loop
from mlc.dialects.tile.element import MapOp
from mlc.dialects.tile.expression import ExpressionsAttr, letter
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import AllocOp, LoadOp, StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import frag_of, view_type
from mlc.dialects.tile.words import Epilogue
from mlc.passes.tile.cut import Cut, axes_of, dot_of, move

ROWS = "m"


def epilogue(kernel: KernelOp, word: Epilogue) -> None:
    """Puts what follows the sums into a loop over rows; where nothing does, there is none."""
    dot = dot_of(kernel)
    axes, kind = axes_of(dot), frag_of(dot.result)
    total, ops = _after(dot)
    if word.how == "registers" or not any(isinstance(op, MapOp) for op in ops):
        return
    if ROWS not in axes or any(size.constant is None for size in kind.dims.data):
        raise MlcError(f"tiles: {word}: the tile is {kind}; expected it behind a word register")
    alloc = AllocOp.of("worker", view_type(kind.element, kind.dims.data))
    alloc.result.name_hint = "sums"
    first = kernel.block.first_op
    assert first is not None
    kernel.block.insert_op_before(alloc, first)
    whole = ExpressionsAttr(tuple(map(letter, axes)))
    store = StoreOp.of(total, alloc.result, whole, (), axes=axes)
    load = LoadOp.of(alloc.result, whole, (), kind, axes=axes)
    block = Block(arg_types=[INDEX])
    block.args[0].name_hint = "row"
    rows = ExpressionsAttr((kind.dims.data[axes.index(ROWS)],))
    loop = ForOp.of([Loop(rows)], Region(block))
    loop.attributes[NO_UNROLL] = UnitAttr()
    for op in (alloc, store, load, loop):
        op.location = dot.location
    parent = ops[0].parent
    assert parent is not None
    parent.insert_ops_before([store, loop], ops[0])
    block.add_op(load)
    for op in ops:
        op.detach()
        block.add_op(op)
        op.operands = [load.result if x is total else x for x in op.operands]
    block.add_op(YieldOp.of())
    move(dot, [load, *ops], Cut(ROWS, 1), block.args[0])


def _after(dot: DotOp) -> tuple[SSAValue, Sequence[Operation]]:
    """The sums of all blocks, and what is done with them."""
    total, op = dot.result, dot.next_op
    if isinstance(op, IfOp) and op.outs:
        total, op = op.outs[0], op.next_op
    if isinstance(op, IfOp):
        op = op.then.block.first_op
    found: list[Operation] = []
    while op is not None and not isinstance(op, YieldOp):
        found.append(op)
        op = op.next_op
    return total, found
