"""Functions made of functions of a module: derivatives, and many examples at once."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.calls import widened
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.shape import broadcast_to
from mlc.passes.tensor.batching.block import Lane, batch_block, from_front, to_front
from mlc.passes.tensor.derivative.emit import Emitter, is_differentiable
from mlc.passes.tensor.derivative.forward import push_forward
from mlc.passes.tensor.derivative.reverse import pull_back


def pulled_back(function: FuncOp, wrt: Sequence[int], of: Sequence[int]) -> None:
    """
    The function also takes cotangents of its results `of`, and also gives those of its arguments
    `wrt`: zeros where there are none.
    """
    block = function.body.block
    outputs = _opened(block)
    inputs = [block.args[k] for k in wrt]
    seeds: list[SSAValue | None] = [None] * len(outputs)
    for k, seed in zip(of, _more(block, [outputs[k] for k in of], "bar_"), strict=True):
        seeds[k] = seed if is_differentiable(outputs[k]) else None
    values, found = pull_back(list(block.ops), outputs, inputs, block, seeds)
    _close(function, [*values, *Emitter(block).or_zeros(found, inputs)])


def pushed_forward(function: FuncOp, wrt: Sequence[int], of: Sequence[int]) -> None:
    """
    The function also takes tangents of its arguments `wrt`, and also gives those of its results
    `of`: zeros where there are none.
    """
    block = function.body.block
    outputs = _opened(block)
    inputs = [block.args[k] for k in wrt]
    values, found = push_forward(block, outputs, inputs, _more(block, inputs, "d"))
    tangents = Emitter(block).or_zeros([found[k] for k in of], [values[k] for k in of])
    _close(function, [*values, *tangents])


def batched(
    function: FuncOp, ins: Sequence[int | None], outs: Sequence[int | None], size: Dim
) -> None:
    """
    The function runs for `size` examples at once. `ins`: which axis of each argument holds them,
    `outs`: which axis of each result shall; None: the same for all. A result that is the same for
    all where `outs` has an axis is repeated. ShapeError where one differs and `outs` has None.
    """
    old = function.body.block
    outputs = _opened(old)
    pairs = list(zip(old.args, ins, strict=True))
    block = Block(arg_types=[widened(x.type, axis, size) for x, axis in pairs])
    b = OpBuilder(block.add_op)
    lanes: list[Lane] = []
    for (argument, axis), new in zip(pairs, block.args, strict=True):
        new.name_hint = argument.name_hint
        value = new if axis is None else to_front(b, new, axis)
        lanes.append(Lane(value, axis is not None))
    found = batch_block(old, outputs, lanes, size, b)
    made = [
        _result(b, k, lane, axis, size)
        for k, (lane, axis) in enumerate(zip(found, outs, strict=True))
    ]
    function.detach_region(0)
    function.add_region(Region(block))
    _close(function, made)


def _result(b: OpBuilder, k: int, lane: Lane, axis: int | None, size: Dim) -> SSAValue:
    if axis is None:
        if lane.batched:
            message = f"result {k} depends on batched arguments; expected an axis for it"
            raise ShapeError(message)
        return lane.value
    value = lane.value
    if not lane.batched:
        value = broadcast_to(b, value, (size, *shape_of(value.type)))
    return from_front(b, value, axis)


def _opened(block: Block) -> list[SSAValue]:
    """What a function returns; its block ends without a terminator then."""
    last = block.last_op
    assert isinstance(last, ReturnOp)
    outputs = list(last.operands)
    block.erase_op(last)
    return outputs


def _close(function: FuncOp, results: Sequence[SSAValue]) -> None:
    """It returns these, and its type says so."""
    block = function.body.block
    block.add_op(ReturnOp(*results))
    function.properties["function_type"] = FunctionType.from_lists(
        [x.type for x in block.args], [x.type for x in results]
    )


def _more(block: Block, values: Sequence[SSAValue], prefix: str) -> list[SSAValue]:
    """New arguments, typed as the values."""
    found: list[SSAValue] = []
    for x in values:
        argument = block.insert_arg(x.type, len(block.args))
        argument.name_hint = f"{prefix}{x.name_hint}" if x.name_hint else None
        found.append(argument)
    return found
