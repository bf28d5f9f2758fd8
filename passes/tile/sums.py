"""
Sums between blocks of the summed axis: they wait in the result, and the last block finishes them.

```
    %s = dot …
    %y = map(%s) {…}
    store %y, %c
->  %s = dot …
    %t = if first(%k) { yield %s } else { %e = load %c; yield map(%s, %e) { add } }
    if last(%k) { %y = map(%t) {…}; store %y, %c } else { store %t, %c }
```

With numerics "strict", and after `sums(…, init)`, what waits is what the next block's sums begin
with: `dot … init %e`. In tile registers, which nothing else adds to, that is one load.

The word `sums(scratch)` stands before the block, where the result cannot hold them: of another
dtype, one of several, or in memory that what follows the product reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import ForOp, IfOp
from mlc.dialects.tile.element import MapOp, scalar
from mlc.dialects.tile.expression import (
    Condition,
    ConditionsAttr,
    ExpressionsAttr,
    letter,
    position,
)
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import AllocOp, LoadOp, StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, frag_of, view_of, view_type
from mlc.dialects.tile.words import Sums, Word
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.cut import axes_of, begin_with, tile_of

SUMS = "sums"
"""Attribute of a kernel to which `sums(scratch)` has been applied, until all words are."""
INIT = "sums_init"
"""Likewise of `sums(…, init)`."""
OVER = "over"
"""Attribute of a kernel: for each result the input that may lie in its memory, or -1."""


def sums(kernel: KernelOp, word: Sums) -> None:
    """Says where the sums of the blocks that follow wait."""
    if word.place == "scratch":
        kernel.attributes[SUMS] = StringAttr(word.place)
    if word.init:
        kernel.attributes[INIT] = UnitAttr()


@dataclass(frozen=True)
class _Waiting:
    """Where sums wait."""

    view: SSAValue
    at: ExpressionsAttr
    positions: Sequence[SSAValue]
    axes: str | None

    def load(self, kind: Attribute) -> LoadOp:
        """What waits."""
        return LoadOp.of(self.view, self.at, self.positions, kind, axes=self.axes)

    def store(self, value: SSAValue) -> StoreOp:
        """More of it."""
        return StoreOp.of(value, self.view, self.at, self.positions, axes=self.axes)


def wait(kernel: KernelOp, dot: DotOp, loop: ForOp, word: Word) -> None:
    """Adds up what the blocks of a loop leave."""
    ops = tile_of(dot)
    ops = ops[ops.index(dot) :]
    kind = frag_of(dot.result)
    in_scratch = SUMS in kernel.attributes
    waiting = _in_scratch(kernel, dot) if in_scratch else _in_result(kernel, dot, ops, word)
    place = loop.indices[0]
    first, last = (
        ConditionsAttr((Condition(x, position(0), Dim.const(0)),)) for x in ("first", "last")
    )
    block = dot.parent
    assert block is not None
    begins = is_strict(kernel) or INIT in kernel.attributes
    arms = (_zero(dot), _earlier(dot, waiting)) if begins else (_alone(dot), _both(dot, waiting))
    chosen = IfOp.of(first, [place], [kind], *arms)
    chosen.location = dot.location
    total, end = chosen.outs[0], chosen
    if begins:
        block.insert_op_before(chosen, dot)
        begin_with(dot, total)
        total, end = dot.result, dot
    else:
        block.insert_op_after(chosen, dot)
    store = ops[1]
    if isinstance(store, StoreOp) and store.value is dot.result and not in_scratch:
        store.operands = (total, *store.operands[1:])
        return
    unfinished = Block([waiting.store(total), YieldOp.of()])
    finish = Block()
    for op in ops[1:]:
        op.detach()
        finish.add_op(op)
        op.operands = [total if x is dot.result else x for x in op.operands]
    finish.add_op(YieldOp.of())
    ends = IfOp.of(last, [place], [], Region(finish), Region(unfinished))
    ends.location = dot.location
    block.insert_op_after(ends, end)


def _in_result(kernel: KernelOp, dot: DotOp, ops: Sequence[Operation], word: Word) -> _Waiting:
    """The one result, where it can hold sums."""
    stores = [op for op in ops if isinstance(op, StoreOp)]
    kind = frag_of(dot.result)
    if len(stores) != 1 or view_of(stores[0].view).element != kind.element:
        raise MlcError(
            f"tiles: {word}: sums of {kind.dtype.name} wait in the one result that has their dtype;"
            f" {kernel.sym_name.data} writes {', '.join(str(x.view.type) for x in stores)};"
            " expected sums(scratch) before"
        )
    if OVER in kernel.attributes and isinstance(stores[0].view, BlockArgument):
        raise MlcError(
            f"tiles: {word}: sums wait in the result, which lies where {kernel.sym_name.data} reads"
            " what it needs after them; expected sums(scratch) before"
        )
    (store,) = stores
    axes = store.axes.data if store.axes is not None else None
    return _Waiting(store.view, store.at, store.positions, axes)


def _in_scratch(kernel: KernelOp, dot: DotOp) -> _Waiting:
    """Memory for the whole tile: of the team, or of the worker that has the tile."""
    kind, axes = frag_of(dot.result), axes_of(dot)
    around, dealt = dot.parent_op(), False
    while around is not None and around is not kernel:
        dealt = dealt or (isinstance(around, ForOp) and around.deal is not None)
        around = around.parent_op()
    alloc = AllocOp.of("worker" if dealt else "team", view_type(kind.element, kind.dims.data))
    alloc.result.name_hint = "sums"
    alloc.location = dot.location
    start = kernel.block.first_op
    assert start is not None
    kernel.block.insert_op_before(alloc, start)
    return _Waiting(alloc.result, ExpressionsAttr(tuple(map(letter, axes))), (), axes)


def _alone(dot: DotOp) -> Region:
    return Region(Block([YieldOp.of(dot.result)]))


def _zero(dot: DotOp) -> Region:
    found = zeros(frag_of(dot.result))
    return Region(Block([found, YieldOp.of(found.outs[0])]))


def zeros(kind: FragType) -> MapOp:
    """A tile of zeros."""
    zero = ConstantOp.create(
        result_types=[scalar(kind.element)],
        properties={"value": dense(np.zeros((), kind.dtype.numpy), kind.dtype)},
    )
    body = Block([zero, YieldOp.of(zero.result)])
    return MapOp.of([], (), (), [kind], Region(body))


def _earlier(dot: DotOp, waiting: _Waiting) -> Region:
    load = waiting.load(dot.result.type)
    return Region(Block([load, YieldOp.of(load.result)]))


def _both(dot: DotOp, waiting: _Waiting) -> Region:
    """The sums of this block added to those that wait."""
    load = waiting.load(dot.result.type)
    kind = scalar(frag_of(dot.result).element)
    body = Block(arg_types=[kind, kind])
    block, earlier = body.args
    add = AddOp.make(earlier, block)
    body.add_ops([add, YieldOp.of(add.results[0])])
    both = MapOp.of([dot.result, load.result], (), (), [dot.result.type], Region(body))
    for op in (load, add, both):
        op.location = dot.location
    return Region(Block([load, both, YieldOp.of(both.outs[0])]))
