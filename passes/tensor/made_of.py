"""
Functions made of functions of a module: derivatives, at once or in two parts, and many examples at
once.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Region, SSAValue

from mlc.dialects.analysis.closed import close_block
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.calls import widened
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.shape import broadcast_to
from mlc.passes.tensor.batching.block import Lane, batch_block, from_front, to_front
from mlc.passes.tensor.derivative.active import Varied
from mlc.passes.tensor.derivative.emit import Emitter, is_differentiable, read_inside
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


def taken_apart(function: FuncOp, wrt: Sequence[int], of: Sequence[int], *, back: bool) -> FuncOp:
    """
    The function also gives what its derivative reads of it. The derivative is another function: of
    cotangents of its results `of`, and then of what was kept, and gives those of its arguments
    `wrt`; without `back` of tangents of these, and gives those of the results.
    """
    block = function.body.block
    outputs = _opened(block)
    inputs = [block.args[k] for k in wrt]
    if back:
        linear = Block(arg_types=[outputs[k].type for k in of])
        seeds: list[SSAValue | None] = [None] * len(outputs)
        for k, seed in zip(of, linear.args, strict=True):
            seeds[k] = seed if is_differentiable(outputs[k]) else None
        values, found = pull_back(list(block.ops), outputs, inputs, linear, seeds)
        ends = Emitter(linear).or_zeros(found, inputs)
    else:
        values, linear, found = linearized(block, outputs, inputs)
        ends = Emitter(linear).or_zeros([found[k] for k in of], [values[k] for k in of])
    read = close_block(linear, list(linear.walk()), ends)
    made = FuncOp(function.sym_name.data, ((), ()), Region(linear), visibility="private")
    made.attributes.update(function.attributes)
    _close(made, [read.get(x, x) for x in ends])
    _close(function, [*values, *read])
    return made


def linearized(
    block: Block, outputs: Sequence[SSAValue], inputs: Sequence[SSAValue]
) -> tuple[list[SSAValue], Block, list[SSAValue | None]]:
    """
    The outputs of a block, a block for tangents of its inputs that reads values of it, and what
    tangents of the outputs are called there: None for zero.
    """
    tangents = _more(block, inputs, "d")
    values, found = push_forward(block, outputs, inputs, tangents)
    linear, kept = _split(block, tangents)
    own: dict[SSAValue, SSAValue] = dict(zip(tangents, linear.args, strict=True))
    for argument in tangents:
        block.erase_arg(argument, safe_erase=False)
    moved = [None if x is None else own.get(x, x) for x in found]
    return [kept.get(x, x) for x in values], linear, moved


def _split(block: Block, tangents: Sequence[SSAValue]) -> tuple[Block, dict[SSAValue, SSAValue]]:
    """
    Takes the ops that depend on the tangents out of the block, into one of their own. What results
    of theirs that do not depend on them are called in the block is given second.
    """
    kept: dict[SSAValue, SSAValue] = {}
    linear = Block(arg_types=[x.type for x in tangents])
    depends = Varied(tangents).mark(block.ops)
    zeros = Emitter(Block())
    for op in list(block.ops):
        if not any(x in depends for x in op.results):
            continue
        if not all(x in depends for x in op.results):  # a loop: without tangents it stays, too
            read = [*op.operands, *read_inside(op)]
            renamed = {x: zeros.zeros(x.type) for x in read if x in depends}
            stays = op.clone(renamed)
            block.insert_op_before(stays, op)
            for old, new in zip(op.results, stays.results, strict=True):
                if old not in depends:
                    old.replace_all_uses_with(new)
                    kept[old] = new
        op.detach()
        linear.add_op(op)
    first = block.first_op
    for op in list(zeros.block.ops):
        op.detach()
        if first is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, first)
    for old, new in zip(tangents, linear.args, strict=True):
        old.replace_all_uses_with(new)
    return linear, kept


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


def _more(block: Block, values: Sequence[SSAValue], prefix: str) -> list[BlockArgument]:
    """New arguments, typed as the values."""
    found: list[BlockArgument] = []
    for x in values:
        argument = block.insert_arg(x.type, len(block.args))
        argument.name_hint = f"{prefix}{x.name_hint}" if x.name_hint else None
        found.append(argument)
    return found
