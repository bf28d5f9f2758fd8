"""Single ops built from a case, for the facts that derivative and batching rules rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.runtime.interpret import interpret
from tests.every_op.cases import Case
from tests.every_op.native import Argument, Array, function_module

Then = Callable[[OpBuilder, TensorOp, Sequence[SSAValue]], Sequence[SSAValue]]


def around(case: Case, then: Then, extra: Sequence[Argument] = ()) -> ModuleOp:
    """A function of the case's operands and `extra`, whose results `then` makes from the op."""

    def body(b: OpBuilder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        count = len(case.operands)
        op = case.build(b, values[:count]).owner
        assert isinstance(op, TensorOp)
        return then(b, op, values[count:])

    return function_module([*case.arguments(strided=False), *extra], body)


def op_of(case: Case) -> TensorOp:
    """The case's op, in a block of its own."""
    arguments = [tensor_type(x.dtype.ir, x.dims) for x in case.operands]
    block = Block(arg_types=arguments)
    op = case.build(OpBuilder(block.add_op), block.args).owner
    assert isinstance(op, TensorOp)
    return op


def values_of(module: ModuleOp, arrays: Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
    """The function's results, by the reference interpreter."""
    return interpret(module, arrays, sizes)


def raw_references(
    module: ModuleOp, arrays: Sequence[Array], sizes: Mapping[str, int]
) -> list[tuple[TensorOp, Array, Array]]:
    """For each op: what its `reference` gives before anybody converts it, and the value used."""
    function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    values: dict[SSAValue, Array] = dict(zip(function.args, arrays, strict=True))
    found: list[tuple[TensorOp, Array, Array]] = []

    def observe(op: Operation, value: Array) -> None:
        assert isinstance(op, TensorOp)
        operands = [values[x] for x in op.operands]
        values[op.results[0]] = value
        try:
            with np.errstate(all="ignore"):
                raw = np.asarray(op.reference(*operands))
        except NotImplementedError:
            raw = value  # its meaning depends on the run-time shape: `reference_at`
        found.append((op, raw, value))

    interpret(module, arrays, sizes, observe=observe)
    return found


def batched(case: Case, flags: Sequence[bool], size: Dim) -> ModuleOp:
    """The case's op over a new leading axis of `size`, which the flagged operands carry."""
    arguments = [
        Argument(x.dtype, (size, *x.dims) if flag else x.dims)
        for x, flag in zip(case.operands, flags, strict=True)
    ]

    def body(b: OpBuilder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return [op_of(case).batch(b, values, flags)]

    return function_module(arguments, body)


def result_argument(case: Case) -> Argument:
    """An argument of the result's type, for a cotangent."""
    op = op_of(case)
    return Argument(op.dtype, shape_of(op.results[0].type))
