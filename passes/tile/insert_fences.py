"""
Pass `mlc-insert-fences`: between what a role stores to a slot and the copy that takes it from there
a fence; before what it stores there again, and where the role ends, a wait for copies.

```
store %x, %out[0]                       drain 1
copy %out[0] -> %c[…] via tma           store %x, %out[0]
…                                   ->  fence
                                        copy %out[0] -> %c[…] via tma
                                        …
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.expression import ExpressionsAttr, Positions
from mlc.dialects.tile.fences import DrainOp, FenceOp
from mlc.dialects.tile.memory import StoreOp
from mlc.dialects.tile.pipeline import RolesOp
from mlc.dialects.tile.types import view_of


class InsertFencesPass(ModulePass):
    """Orders stores to slots with the copies that read them."""

    name = "mlc-insert-fences"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for roles in [x for x in op.walk() if isinstance(x, RolesOp)]:
            for region in roles.bodies:
                _role(region.block)


def _role(body: Block) -> None:
    blocks = {x.parent for x in body.walk() if _stores(x) or _copies(x)}
    for block in blocks:
        if block is not None:
            _block(block)
    if any(_copies(x) for x in body.walk()):
        last = body.last_op
        assert last is not None
        body.insert_op_before(DrainOp.of(0), last)


def _stores(op: Operation) -> bool:
    return isinstance(op, StoreOp) and view_of(op.view).is_slot


def _copies(op: Operation) -> bool:
    return isinstance(op, CopyOp) and view_of(op.source).is_slot


def _block(block: Block) -> None:
    """The stores and copies of a block, which may run again and again."""
    ops = [x for x in block.ops if _stores(x) or _copies(x)]
    stored = False
    for number, op in enumerate(ops):
        if isinstance(op, StoreOp):
            stored = True
            pending = _pending(ops, number)
            if pending is not None:
                block.insert_op_before(DrainOp.of(pending), op)
        elif stored:
            block.insert_op_before(FenceOp.create(), op)
            stored = False


def _pending(ops: Sequence[Operation], number: int) -> int | None:
    """Copies that may still read when a slot is stored to again; None if no copy reads it."""
    store, found = ops[number], 0
    for op in [*reversed(ops[:number]), *reversed(ops[number:])]:
        if not isinstance(op, CopyOp):
            continue
        if not _apart(store, op):
            return found
        found += 1
    return None


def _apart(store: Operation, copy: CopyOp) -> bool:
    """Whether the slots that a store writes and a copy reads are never the same."""
    assert isinstance(store, StoreOp)
    if store.view is not copy.source:
        return True
    named = Positions(store.positions)
    left = store.at.data
    right = ExpressionsAttr(tuple(named.moved(copy.source_at.data, copy.positions))).data
    return any(
        (by := (x - y).constant) is not None and by != 0 for x, y in zip(left, right, strict=False)
    )
