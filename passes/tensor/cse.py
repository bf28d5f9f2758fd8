"""Common subexpressions: equal ops on equal operands are computed once (value numbering)."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import IfOp, is_inside, yield_of
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.hoist_invariants import DEAR


@dataclass(frozen=True)
class CsePass(ModulePass):
    """
    Visits ops in order; a region sees what its surroundings computed, but not the reverse. What
    both branches of an `mlc.if` compute is computed once, before it.
    """

    name = "mlc-cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            for region in function.regions:
                for block in region.blocks:
                    _number(block, {})


def _number(block: Block, known: dict[Hashable, SSAValue]) -> None:
    op = block.first_op
    while op is not None:
        following = op.next_op
        if isinstance(op, TensorOp):
            key = _key(op)
            first = known.get(key)
            if first is None:
                known[key] = op.results[0]
            else:
                op.results[0].replace_all_uses_with(first)
                block.erase_op(op)
        elif isinstance(op, IfOp) and (moved := _before_branches(op)):
            following = moved[0]
        elif not isinstance(op, KernelOp):
            for region in op.regions:
                for inner in region.blocks:
                    _number(inner, dict(known))
            if isinstance(op, IfOp):
                _results_of_both(op)
        op = following


def _key(op: TensorOp, number: Callable[[SSAValue], int] = id) -> Hashable:
    """Equal for ops that compute the same value of operands with the same numbers."""
    operands = [number(x) for x in op.operands]
    if op.commutes:
        operands.sort()
    properties = op.properties
    return (
        type(op),
        *operands,
        *(properties[name] for name in sorted(properties)),
        op.results[0].type,
        *map(id, op.regions),  # ops of their own, which are not compared
    )


# Branches


def _before_branches(op: IfOp) -> list[TensorOp]:
    """
    Moves what both branches compute before them, and gives what was moved. One of them runs, so it
    is no more work; cheap arithmetic stays, since each branch fuses it where it is read.
    """
    then, otherwise = op.blocks
    known: dict[Hashable, TensorOp] = {}
    for inner in then.ops:
        if isinstance(inner, TensorOp) and not inner.CHECKS:
            known.setdefault(_key(inner), inner)
    numbers: dict[SSAValue, int] = {}
    pairs: dict[TensorOp, TensorOp] = {}
    for inner in otherwise.ops:
        if not isinstance(inner, TensorOp):
            continue
        twin = known.get(_key(inner, lambda x: numbers.get(x, id(x))))
        if twin is not None:
            pairs[inner] = twin
            numbers[inner.results[0]] = id(twin.results[0])
    wanted: dict[TensorOp, None] = {}
    pending = [twin for twin in pairs.values() if _is_dear(twin)]
    while pending:
        twin = pending.pop()
        if twin not in wanted:
            wanted[twin] = None
            pending += [
                x.owner
                for x in twin.operands
                if isinstance(x.owner, TensorOp) and x.owner.parent is then
            ]
    moved = [inner for inner in then.ops if isinstance(inner, TensorOp) and inner in wanted]
    assert op.parent is not None
    for inner in moved:
        inner.detach()
        op.parent.insert_op_before(inner, op)
        if not inner.IS_FREE:
            remark(inner, "computed once, before the branches that both compute it (exact)")
    for inner, twin in pairs.items():
        if twin in wanted:
            inner.results[0].replace_all_uses_with(twin.results[0])
            otherwise.erase_op(inner)
    return moved


def _is_dear(op: TensorOp) -> bool:
    """Whether the value is rather stored than computed where it is read."""
    if op.IS_FREE:
        return False
    return not isinstance(op, Elementwise) or op.WEIGHT * op.FLOPS >= DEAR


def _results_of_both(op: IfOp) -> None:
    """A value that both branches end with is the result."""
    for result, *ends in zip(
        op.results, *(yield_of(block).values for block in op.blocks), strict=True
    ):
        first = ends[0]
        if all(x is first for x in ends) and not is_inside(first, op):
            result.replace_all_uses_with(first)
