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

With numerics "strict" what waits is what the next block's sums begin with: `dot … init %e`.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Block, Region

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import ForOp, IfOp
from mlc.dialects.tile.element import MapOp, scalar
from mlc.dialects.tile.expression import Condition, ConditionsAttr, position
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import LoadOp, StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import frag_of, view_of
from mlc.dialects.tile.words import Word
from mlc.passes.tile.cut import begin_with, tile_of


def wait_in_result(kernel: KernelOp, dot: DotOp, loop: ForOp, word: Word) -> None:
    """Adds up what the blocks of a loop leave."""
    ops = tile_of(dot)
    stores = [op for op in ops if isinstance(op, StoreOp)]
    kind = frag_of(dot.result)
    if len(stores) != 1 or view_of(stores[0].view).element != kind.element:
        raise MlcError(
            f"tiles: {word}: sums of {kind.dtype.name} wait in the one result that has their dtype;"
            f" {kernel.sym_name.data} writes {', '.join(str(x.view.type) for x in stores)}"
        )
    (store,) = stores
    place = loop.indices[0]
    first, last = (
        ConditionsAttr((Condition(x, position(0), Dim.const(0)),)) for x in ("first", "last")
    )
    block = dot.parent
    assert block is not None
    strict = is_strict(kernel)
    arms = (_zero(dot), _earlier(dot, store)) if strict else (_alone(dot), _both(dot, store))
    sums = IfOp.of(first, [place], [kind], *arms)
    sums.location = dot.location
    total, end = sums.outs[0], sums
    if strict:
        block.insert_op_before(sums, dot)
        begin_with(dot, total)
        total, end = dot.result, dot
    else:
        block.insert_op_after(sums, dot)
    if ops[1] is store and store.value is dot.result:
        store.operands = (total, *store.operands[1:])
        return
    axes = store.axes.data if store.axes is not None else None
    wait = StoreOp.of(total, store.view, store.at, store.positions, axes=axes)
    unfinished = Block([wait, YieldOp.of()])
    finish = Block()
    for op in ops[1:]:
        op.detach()
        finish.add_op(op)
        op.operands = [total if x is dot.result else x for x in op.operands]
    finish.add_op(YieldOp.of())
    ends = IfOp.of(last, [place], [], Region(finish), Region(unfinished))
    ends.location = store.location
    block.insert_op_after(ends, end)


def _alone(dot: DotOp) -> Region:
    return Region(Block([YieldOp.of(dot.result)]))


def _zero(dot: DotOp) -> Region:
    kind = frag_of(dot.result)
    zero = ConstantOp.create(
        result_types=[scalar(kind.element)],
        properties={"value": dense(np.zeros((), kind.dtype.numpy), kind.dtype)},
    )
    body = Block([zero, YieldOp.of(zero.result)])
    found = MapOp.of([], (), (), [kind], Region(body))
    return Region(Block([found, YieldOp.of(found.outs[0])]))


def _waiting(dot: DotOp, store: StoreOp) -> LoadOp:
    axes = store.axes.data if store.axes is not None else None
    return LoadOp.of(store.view, store.at, store.positions, dot.result.type, axes=axes)


def _earlier(dot: DotOp, store: StoreOp) -> Region:
    load = _waiting(dot, store)
    return Region(Block([load, YieldOp.of(load.result)]))


def _both(dot: DotOp, store: StoreOp) -> Region:
    """The sums of this block added to those that wait."""
    load = _waiting(dot, store)
    kind = scalar(frag_of(dot.result).element)
    body = Block(arg_types=[kind, kind])
    block, earlier = body.args
    add = AddOp.make(earlier, block)
    body.add_ops([add, YieldOp.of(add.results[0])])
    both = MapOp.of([dot.result, load.result], (), (), [dot.result.type], Region(body))
    for op in (load, add, both):
        op.location = dot.location
    return Region(Block([load, both, YieldOp.of(both.outs[0])]))
