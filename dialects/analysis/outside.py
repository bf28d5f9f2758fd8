"""The ops that passes of the tensor level see, where loops may be kernels already."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from mlc.dialects.plan import KernelOp


def outside_kernels(op: Operation) -> Iterator[Operation]:
    """An op and those in it, but not what is in kernels, whose loops may bind sizes."""
    yield op
    if isinstance(op, KernelOp):
        return
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if inner.regions:
                    yield from outside_kernels(inner)
                else:
                    yield inner
