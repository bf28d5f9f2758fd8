"""Dead code: values that no result depends on, results and carried values of regions too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.bind import BindOp, symbols_in
from mlc.dialects.tensor.calls import FunctionUse
from mlc.dialects.tensor.control import ControlOp, WhileOp, YieldOp, yield_of
from mlc.dialects.tensor.op import TensorOp
from mlc.lazy_dataclass import dataclass

V = TypeVar("V", bound=SSAValue)
PURE = (TensorOp, ControlOp, FunctionUse, KernelOp)


@dataclass(frozen=True)
class DcePass(ModulePass):
    """Marks backwards from what must stay, then erases the rest, last op first."""

    name = "mlc-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            for region in function.regions:
                for block in region.blocks:
                    live = _Live(block)
                    live.roots(block)
                    _sweep(block, live)


def needed(block: Block, values: Sequence[SSAValue]) -> set[SSAValue]:
    """The values of a block, and of the regions in it, that these values are computed from."""
    live = _Live(block)
    live.mark(values)
    return live.values


class _Live:
    """The values that something needs."""

    def __init__(self, block: Block) -> None:
        self.values: set[SSAValue] = set()
        self._pending: list[SSAValue] = []
        self._binds: dict[str, list[BindOp]] = {}
        for op in block.walk():
            if isinstance(op, BindOp):
                self._binds.setdefault(op.symbol.data, []).append(op)
        self.binds: set[BindOp] = set()

    def roots(self, block: Block) -> None:
        """Marks what ops that are not pure need, and all that follows from it."""
        for op in block.ops:
            if not isinstance(op, PURE):
                self.mark(op.operands)
                self._bound(op)
        self.mark(())

    def mark(self, values: Sequence[SSAValue]) -> None:
        """Marks values, and all that follows from it."""
        self._pending.extend(values)
        while self._pending:
            value = self._pending.pop()
            if value not in self.values:
                self.values.add(value)
                self._needs(value)

    def _needs(self, value: SSAValue) -> None:
        owner = value.owner
        if self._binds and isinstance(owner, Operation):
            self._bound(owner)
        if isinstance(value, OpResult) and isinstance(owner, ControlOp):
            self._result(owner, value.index)
        elif isinstance(owner, KernelOp):
            self._pending.extend(owner.operands)
            self._pending.extend(owner.yielded.values)
        elif isinstance(owner, Operation):
            self._pending.extend(owner.operands)
        elif isinstance(value, BlockArgument):
            parent = owner.parent_op()
            if isinstance(parent, ControlOp) and value in parent.carried_in(owner):
                number = parent.carried_in(owner).index(value)
                self._result(parent, parent.first_carried + number)

    def _bound(self, op: Operation) -> None:
        """What the symbols that an op mentions stand for."""
        for name in symbols_in(op) & self._binds.keys():
            for bind in self._binds.pop(name, ()):
                self.binds.add(bind)
                self._pending.append(bind.x)
                self._bound(bind)

    def _result(self, op: ControlOp, position: int) -> None:
        """A carried value is live as result, as argument, as init and as yielded value."""
        if op.IS_RIGID:
            self._pending += [*op.results, *op.operands]
            self._pending += [
                x for block in op.blocks for x in (*block.args, *yield_of(block).values)
            ]
            return
        self._pending.append(op.results[position])
        self._pending += [yield_of(block).values[position] for block in op.yielding()]
        if starts := op.starts:
            self._pending.append(starts[position])
            self._pending += [op.carried_in(block)[position] for block in op.blocks]
        self._pending += op.operands[: len(op.operands) - len(starts)]  # a count, a condition
        if isinstance(op, WhileOp):
            self._pending.append(op.test)


def _sweep(block: Block, live: _Live) -> None:
    op = block.last_op
    while op is not None:
        before = op.prev_op
        if isinstance(op, PURE):
            kept = [result in live.values for result in op.results]
            if not any(kept) and op not in live.binds:
                block.erase_op(op, safe_erase=False)
            elif isinstance(op, ControlOp):
                if not all(kept):
                    op = _without_dead(op, kept)
                for inner in op.blocks:
                    _sweep(inner, live)
        op = before


def _without_dead(op: ControlOp, kept: list[bool]) -> ControlOp:
    """The op with only the results marked in `kept`, and what is carried for them."""
    for block in op.yielding():
        old = yield_of(block)
        new = YieldOp(operands=[_marked(old.values, kept)])
        new.location = old.location
        block.insert_op_before(new, old)
        block.erase_op(old)
    starts = op.starts
    if starts:
        for block in op.blocks:
            for argument in _marked(op.carried_in(block), [not keep for keep in kept]):
                block.erase_arg(argument, safe_erase=False)
    others = op.operands[: len(op.operands) - len(starts)]
    new = type(op).create(
        operands=[*others, *_marked(starts, kept)],
        result_types=[x.type for x in _marked(op.results, kept)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[op.detach_region(0) for _ in list(op.regions)],
    )
    new.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    for old, result in zip(_marked(op.results, kept), new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    op.parent.erase_op(op, safe_erase=False)
    return new


def _marked(values: Sequence[V], kept: Sequence[bool]) -> list[V]:
    return [value for value, keep in zip(values, kept, strict=False) if keep]
