"""A phase: one GPU function of a kernel. A kernel's phases run one after the other."""

from __future__ import annotations

from typing import Protocol

from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.kernel import KernelScope


class Phase(Protocol):
    """What a template knows of one function: how it is started, what a thread does."""

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        ...

    def grid(self, b: LoopBuilder) -> Grid:
        """Blocks and threads, computed by the entry."""
        ...

    def write(self, s: KernelScope) -> None:
        """The body of the function."""
        ...


def device_builder(s: KernelScope) -> GpuBuilder:
    """The scope's builder, told how the kernel's buffers lie in memory."""
    assert isinstance(s.b, GpuBuilder)
    for buffer in (*s.inputs.values(), *s.outputs):
        s.b.strides[buffer.memref] = buffer.strides
    return s.b
