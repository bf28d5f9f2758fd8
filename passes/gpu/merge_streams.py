"""
Pass `mlc-merge-streams`: kernels of streams that walk the same rows and columns become one, which
computes once what they share.

```
o = kernel "stream" { stream (q, k, v) { softmax(q k) v } }     o, l = kernel "stream" {
l = kernel "stream" { stream (q, k) { log sum exp(q k) } }  ->     stream (q, k, v) { … }
                                                                   stream (q, k) { … } }
```
"""

from __future__ import annotations

from itertools import combinations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import gpu_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.gpu.stream import choose_words
from mlc.passes.plan.fusion.merging import Group, blocks_of
from mlc.passes.tile.stream_block import StreamBlock, holds_streams


@dataclass(frozen=True)
class MergeStreamsPass(ModulePass):
    """Merges what the target has a program for."""

    name = "mlc-merge-streams"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = gpu_of(op, self.name)
        for function in op.body.block.ops:
            if isinstance(function, FuncOp):
                for block in blocks_of(function):
                    while _merge_two(block, target):
                        pass


def _merge_two(block: Block, target: GpuTarget) -> bool:
    """Whether two kernels became one."""
    kernels = [op for op in block.ops if isinstance(op, KernelOp) and holds_streams(op)]
    for pair in combinations(kernels, 2):
        group = Group(block, pair)
        if _reads(*pair) or not group.is_convex() or not _has_program(group, target):
            continue
        group.merge("stream")
        return True
    return False


def _reads(first: KernelOp, second: KernelOp) -> bool:
    return bool({*first.outs} & {*second.inputs})


def _has_program(group: Group, target: GpuTarget) -> bool:
    """Whether the kernel of all members has words; it is made, and goes."""
    kernel = group.kernel("stream", group.leaving())
    group.block.insert_op_before(kernel, group.last)
    try:
        return bool(choose_words(StreamBlock.of_kernel(kernel), target))
    except MlcError:
        return False
    finally:
        kernel.detach()
        kernel.erase()
