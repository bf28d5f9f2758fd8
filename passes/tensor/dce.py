"""Dead code: values that no result depends on, and carried values of loops among them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ForOp, YieldOp
from mlc.dialects.tensor.op import TensorOp

PURE = (TensorOp, ForOp, KernelOp)


@dataclass(frozen=True)
class DcePass(ModulePass):
    """Marks backwards from what must stay, then erases the rest, last op first."""

    name = "mlc-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            for region in function.regions:
                for block in region.blocks:
                    live = _Live()
                    live.roots(block)
                    _sweep(block, live.values)


class _Live:
    """The values that something needs."""

    def __init__(self) -> None:
        self.values: set[SSAValue] = set()
        self._pending: list[SSAValue] = []

    def roots(self, block: Block) -> None:
        """Marks what ops that are not pure need, and all that follows from it."""
        for op in block.ops:
            if not isinstance(op, PURE):
                self._pending.extend(op.operands)
        while self._pending:
            value = self._pending.pop()
            if value not in self.values:
                self.values.add(value)
                self._needs(value)

    def _needs(self, value: SSAValue) -> None:
        owner = value.owner
        if isinstance(value, OpResult) and isinstance(owner, ForOp):
            self._carried(owner, value.index)
        elif isinstance(owner, KernelOp):
            self._pending.extend(owner.operands)
            self._pending.extend(owner.yielded.values)
        elif isinstance(owner, Operation):
            self._pending.extend(owner.operands)
        elif isinstance(value, BlockArgument):
            loop = owner.parent_op()
            if isinstance(loop, ForOp) and value.index > 0:
                self._carried(loop, value.index - 1)

    def _carried(self, loop: ForOp, position: int) -> None:
        """A carried value is live as result, as argument, as init and as yielded value."""
        argument = loop.carried[position]
        self._pending += [
            loop.results[position],
            argument,
            loop.inits[position],
            loop.yielded.values[position],
            loop.count,
        ]


def _sweep(block: Block, live: set[SSAValue]) -> None:
    op = block.last_op
    while op is not None:
        before = op.prev_op
        if isinstance(op, PURE):
            kept = [result in live for result in op.results]
            if not any(kept):
                block.erase_op(op, safe_erase=False)
            elif isinstance(op, ForOp):
                if not all(kept):
                    op = _without_dead(op, kept)
                _sweep(op.body.block, live)
        op = before


def _without_dead(loop: ForOp, kept: list[bool]) -> ForOp:
    """The loop with only the carried values marked in `kept`."""
    live = [k for k, keep in enumerate(kept) if keep]
    yielded = loop.yielded
    values = [yielded.values[k] for k in live]
    block = loop.body.block
    terminator = YieldOp(operands=[values])
    block.insert_op_before(terminator, yielded)
    terminator.location = yielded.location
    block.erase_op(yielded)
    for k in reversed(range(len(kept))):
        if not kept[k]:
            block.erase_arg(block.args[k + 1], safe_erase=False)
    new = ForOp(loop.count, [loop.inits[k] for k in live], loop.detach_region(0))
    new.location, new.attributes = loop.location, dict(loop.attributes)
    parent = loop.parent
    assert parent is not None
    parent.insert_op_before(new, loop)
    for k, result in zip(live, new.results, strict=True):
        loop.results[k].replace_all_uses_with(result)
    parent.erase_op(loop, safe_erase=False)
    return new
