"""Constant folding: an op whose operands are constants becomes one, within a budget."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import product
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import Array, TensorOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, ReshapeOp, SliceOp, TransposeOp
from mlc.passes.remarks import remark
from mlc.passes.tensor.constants import constant_of, splat, splat_constant
from mlc.passes.tensor.rules import Rewrite, Rules


def fold_rules(max_elements: int, max_work: int) -> Rules:
    """
    Rules that fold constants. A result of more than `max_elements` elements, or one that takes more
    than `max_work` element operations, is left to run time, with a remark.
    """
    rules = Rules()

    @rules.on(Elementwise)
    def fold_splats(op: Elementwise, b: Rewrite) -> SSAValue | None:
        """f(splat, splat)  ->  splat, whatever the size"""
        values = [splat(x) for x in op.operands]
        known = [v for v in values if v is not None]
        if len(known) < len(values):
            return None
        value = evaluate(op, known)
        return None if value is None else splat_constant(b, value, op.dtype, op.shape)

    @rules.on(ConstantOp)
    def store_once(op: ConstantOp, b: Rewrite) -> SSAValue | None:
        """dense<[1.0, 1.0, 1.0]>  ->  dense<1.0>"""
        element = splat(op.result)
        if element is None or len(op.value.data.data) == op.dtype.bytes:
            return None
        return splat_constant(b, element, op.dtype, op.shape)

    def fold(op: TensorOp, b: Rewrite) -> SSAValue | None:
        """f(constant, constant)  ->  constant; f(constant, broadcast(constant)), too"""
        constants = [_behind_broadcast(x) for x in op.operands]
        known = [c for c in constants if c is not None]
        if len(known) < len(constants) or not _stores_no_more(op):
            return None
        elements, work = product(op.shape).constant, product(op.iteration()).constant
        if elements is None or work is None:
            return None
        if elements > max_elements or work > max_work:
            remark(
                op,
                f"not folded: {elements} elements, {work} element operations;"
                f" the budget is {max_elements} and {max_work}",
            )
            return None
        arrays = [_array(x, c) for x, c in zip(op.operands, known, strict=True)]
        value = evaluate(op, arrays)
        return None if value is None else b(ConstantOp, value=dense(value, op.dtype))

    for family in (Elementwise, Reduction, TransposeOp, ReshapeOp, SliceOp, ConcatOp):
        rules.on(family)(fold)
    return rules


def _behind_broadcast(value: SSAValue) -> ConstantOp | None:
    """The constant that the value is, or repeats."""
    owner = value.owner
    return constant_of(owner.x if isinstance(owner, BroadcastOp) else value)


def _stores_no_more(op: TensorOp) -> bool:
    """Whether some operand of an op that reads repeated elements is stored as a whole already."""
    if not any(isinstance(x.owner, BroadcastOp) for x in op.operands):
        return True
    whole = [x for x in op.operands if constant_of(x) is not None and splat(x) is None]
    return isinstance(op, Elementwise) and bool(whole)


def _array(value: SSAValue, constant: ConstantOp) -> Array:
    owner = value.owner
    if not isinstance(owner, BroadcastOp):
        return constant.array()
    shape = tuple(dim.evaluate({}) for dim in owner.shape)
    return owner.reference_at(constant.array(), shape)


def evaluate(op: TensorOp, operands: list[Array]) -> Array | None:
    """
    The op's reference on static shapes (elementwise: any); None where it raises, which is left to
    run time.
    """
    try:
        with np.errstate(all="ignore"):
            if isinstance(op, Elementwise):
                return op.reference(*operands)
            shape = tuple(dim.evaluate({}) for dim in op.shape)
            if isinstance(op, ReshapeOp):
                return op.reference_at(operands[0], shape)
            if isinstance(op, SliceOp):
                offsets = tuple(offset.evaluate({}) for offset, _ in op.starts())
                return op.reference_at(operands[0], shape, offsets)
            return op.reference(*operands)
    except (MlcError, ValueError, IndexError, KeyError, ZeroDivisionError, NotImplementedError):
        return None
