"""The ops of streams that one kernel computes together, each once."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.stream import StreamOp
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class StreamBlock:
    """A block of their ops, whose arguments stand for what they read; and what they yield."""

    block: Block
    values: tuple[SSAValue, ...]

    @staticmethod
    def of(streams: Sequence[StreamOp], inputs: Sequence[SSAValue] | None = None) -> StreamBlock:
        """Of streams; `inputs`: what the arguments stand for, or else whatever they read."""
        if inputs is None:
            inputs = list(dict.fromkeys(x for stream in streams for x in stream.inputs))
        block = Block(arg_types=[x.type for x in inputs])
        for argument, x in zip(block.args, inputs, strict=True):
            argument.name_hint = x.name_hint
        given: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        known: dict[object, TensorOp] = {}
        values: list[SSAValue] = []
        for stream in streams:
            here: dict[SSAValue, SSAValue] = {
                a: given[x] for a, x in zip(stream.block.args, stream.inputs, strict=True)
            }
            for op in stream.block.ops:
                if isinstance(op, TensorOp):
                    here[op.results[0]] = _once(block, known, op, [here[x] for x in op.operands])
            values.append(here[stream.value])
        return StreamBlock(block, tuple(values))

    @staticmethod
    def of_kernel(kernel: KernelOp) -> StreamBlock:
        """Of a kernel all of whose results are streams of its inputs."""
        streams: list[StreamOp] = []
        for value in kernel.yielded.values:
            stream = value.owner
            if not isinstance(stream, StreamOp) or not set(stream.inputs) <= set(kernel.block.args):
                raise MlcError("streams: expected a kernel whose results are streams of its inputs")
            streams.append(stream)
        return StreamBlock.of(streams, list(kernel.block.args))


def _once(
    block: Block, known: dict[object, TensorOp], op: TensorOp, operands: Sequence[SSAValue]
) -> SSAValue:
    """An op of the block, which has equal ones once."""
    properties = tuple(sorted((k, str(v)) for k, v in op.properties.items()))
    key = (op.name, tuple(operands), properties, op.results[0].type)
    if key not in known:
        known[key] = op.on(operands)
        block.add_op(known[key])
    return known[key].results[0]


def holds_streams(kernel: KernelOp) -> bool:
    """Whether all that a kernel computes are streams."""
    ops: list[Operation] = [op for op in kernel.block.ops if not isinstance(op, YieldOp)]
    return bool(ops) and all(isinstance(op, StreamOp) for op in ops)
