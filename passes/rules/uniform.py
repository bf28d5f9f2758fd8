"""
Whether a rule that holds at one size holds at all.

Without windows and reshapes a side is a sum over letters of products of elements that are read at
letters. Where an axis has as many positions as there are letters over it, there is a term in which
all letters differ, and this term says how letters are joined, up to their names: two sides that
agree there have the same formula, which does not speak of sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import AddOp, Elementwise, MulOp, NegOp, SubOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, SliceOp, TransposeOp
from mlc.passes.rules.instances import Instance

POLYNOMIAL = (ConstantOp, AddOp, SubOp, MulOp, NegOp, BroadcastOp, TransposeOp)
CUTS = (ConcatOp, SliceOp)


def is_uniform(case: Instance) -> bool:
    """Whether an instance at which a rule holds stands for all sizes that are not 0."""
    return all(_is_large(value, case.sizes()) for pair in case.pairs() for value in pair)


def _is_large(value: SSAValue, sizes: list[int]) -> bool:
    ops = list(_behind(value, set()))
    if all(isinstance(op, Elementwise | ConstantOp) for op in ops):
        return True
    sums = [op for op in ops if isinstance(op, ContractOp | ReduceOp)]
    others = [op for op in ops if not isinstance(op, ContractOp | ReduceOp)]
    if not all(isinstance(op, POLYNOMIAL + CUTS) for op in others):
        return False
    if any(isinstance(op, ReduceOp) and op.monoid.data != "sum" for op in sums):
        return False
    letters = [n.evaluate({}) for n in shape_of(value.type)]
    for op in sums:
        reduced, known = op.words()[2], op.sizes()
        letters += [known[c].evaluate({}) for c in reduced]
    is_cut = any(isinstance(op, CUTS) for op in others)  # an axis holds segments of others
    return all(sum(n == s or (is_cut and n > s) for n in letters) <= s for s in sizes)


def _behind(value: SSAValue, met: set[Operation]) -> Iterator[Operation]:
    """The ops that make a value."""
    op = value.owner
    if isinstance(op, Operation) and op not in met:
        met.add(op)
        yield op
        for operand in op.operands:
            yield from _behind(operand, met)
