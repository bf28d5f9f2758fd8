"""
Checks whose values nothing reads: `x[n]` raises IndexError also where the element is not used.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import reduce

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.calls import FunctionUse, uses_of_functions
from mlc.dialects.tensor.op import TensorOp
from mlc.frontend.trace.trace import Trace
from mlc.frontend.trace.tracer import Tracer


def unread_checks(trace: Trace, results: Sequence[SSAValue]) -> tuple[list[SSAValue], bool]:
    """
    What no result needs of what may fail: of numbers outside of loops and branches a number that is
    made of them, as a result to have; and whether there are others, which passes drop.
    """
    if not trace.checks:
        return [], False
    from mlc.passes.tensor.dce import needed

    read = needed(trace.block, results)
    checks = [op for op in trace.block.walk() if isinstance(op, TensorOp) and op.may_fail]
    outside = {op for op in checks if op.parent is trace.block}
    asked = {_question(op) for op in outside if op.results[0] in read}
    unread = [op for op in checks if op.results[0] not in read and _question(op) not in asked]
    numbers = [op for op in unread if op in outside and not shape_of(op.results[0].type)]
    once = {_question(op): op.results[0] for op in numbers}
    hidden = any(_is_unread_in(use, read, trace) for use in uses_of_functions(trace.block))
    others = hidden or len(numbers) < len(unread)
    return [_together(trace, [*once.values()])] if once else [], others


def _is_unread_in(use: FunctionUse, read: Container[SSAValue], trace: Trace) -> bool:
    """Whether something may fail in a function that is used, and its results do not need it."""
    from mlc.passes.tensor.dce import needed

    block = trace.block_of(use)
    assert block.last_op is not None
    ends = zip(block.last_op.operands, use.results, strict=False)
    own = needed(block, [value for value, result in ends if result in read])
    checks = (op for op in block.walk() if isinstance(op, TensorOp) and op.may_fail)
    return any(op.results[0] not in own for op in checks) or any(
        _is_unread_in(inner, own, trace) for inner in uses_of_functions(block)
    )


def _question(op: Operation) -> tuple[object, ...]:
    """What is asked: two ops that ask the same fail together."""
    return type(op), *map(_number, op.operands), *(x.type for x in op.results)


def _number(value: SSAValue) -> object:
    """A value; of a size or a constant what it is, wherever it was asked for."""
    op = value.owner
    if isinstance(op, Block) or op.operands or op.regions:
        return value
    return type(op), *sorted(op.properties.items(), key=lambda x: x[0])


def _together(trace: Trace, numbers: Sequence[SSAValue]) -> SSAValue:
    from mlc.frontend import numpy as names
    from mlc.frontend.numpy.values import convert

    with trace.inside(trace.block):
        whole = [Tracer(trace, convert(x, I64)) for x in numbers]
        return reduce(names.add, whole).value
