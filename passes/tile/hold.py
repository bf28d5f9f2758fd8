"""
The word `hold`: blocks of threads that take so many rows each, which they keep in registers.

```
hold(rows 4, threads 128, lanes 8)
    load %x[m, n] … : frag<8192x768xbf16>
->  work %i in 8192 step 4 raster 1 threads 128 lanes 8 {       // `ahead 9`: on loads of rows
      load %x[%i + m, n] … : frag<4x768xbf16>
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import Block, Region

from mlc.dialects.errors import MlcError
from mlc.dialects.tile.control import INDEX
from mlc.dialects.tile.expression import ExpressionsAttr
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import LoadOp, StoreOp, axes_of
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import frag_of
from mlc.dialects.tile.words import Hold
from mlc.dialects.tile.work import WHOLE, WorkOp, are_whole
from mlc.passes.tile.cut import Cut, move_ops


def hold(kernel: KernelOp, word: Hold) -> None:
    """Puts the program into a walk over tiles of its rows."""
    block = kernel.block
    ops = [op for op in block.ops if not isinstance(op, YieldOp)]
    stored = next((op for op in ops if isinstance(op, StoreOp)), None)
    if stored is None or any(isinstance(op, WorkOp) for op in ops):
        raise MlcError(f"tiles: {word}: expected whole rows, which are stored")
    if not are_whole(word.threads, word.rows):
        raise MlcError(f"tiles: {word}: expected {WHOLE}")
    (extent, *_) = frag_of(stored.value).dims.data
    body = Block(arg_types=[INDEX])
    body.args[0].name_hint = "i"
    for op in ops:
        op.detach()
        body.add_op(op)
    body.add_op(YieldOp.of())
    move_ops(ops, 0, Cut("m", word.rows), body.args[0])
    if word.ahead:
        for op in ops:
            if isinstance(op, LoadOp) and {"m", "n"} <= set(axes_of(op.axes, frag_of(op.result))):
                op.properties["ahead"] = IntegerAttr(word.ahead, i64)
    work = WorkOp.create(
        properties={
            "extents": ArrayAttr([ExpressionsAttr((extent,))]),
            "steps": ArrayAttr([IntegerAttr(word.rows, i64)]),
            "raster": IntegerAttr(1, i64),
            "threads": IntegerAttr(word.threads, i64),
            "lanes": IntegerAttr(word.lanes, i64),
            **({"cluster": IntegerAttr(word.cluster, i64)} if word.cluster > 1 else {}),
            **({"walkers": IntegerAttr(word.walkers, i64)} if word.walkers else {}),
        },
        regions=[Region(body)],
    )
    work.location = stored.location
    last = block.last_op
    assert last is not None
    block.insert_op_before(work, last)
