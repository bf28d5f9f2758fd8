"""A phase: one GPU function of a kernel. A kernel's phases run one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, UnitAttr
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import DType
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.element import Buffer
from mlc.lowering.loops.function import Scratch
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


class Repeated(ABC):
    """A phase that is started several times; `KernelScope.number` says which time it is."""

    @abstractmethod
    def times(self, b: LoopBuilder) -> Index:
        """How often."""


@dataclass(frozen=True)
class Work:
    """All that a kernel does: its phases in order, and the memory that they share."""

    phases: tuple[Phase, ...]
    scratch: tuple[Scratch, ...] = ()


def device_builder(s: KernelScope) -> GpuBuilder:
    """The scope's builder, told how the kernel's buffers lie in memory."""
    assert isinstance(s.b, GpuBuilder)
    for buffer in (*s.inputs.values(), *s.outputs):
        s.b.strides[buffer.memref] = buffer.strides
    s.b.strides.update((memory, (1,)) for memory in s.scratch)
    return s.b


def line_of(memref: SSAValue, dtype: DType, count: Index) -> Buffer:
    """Scratch or shared memory as a buffer with one axis."""
    return Buffer(memref, dtype, ((0,),), (count,), (1,))


def shared_line(b: GpuBuilder, dtype: DType, count: int) -> Buffer:
    """Elements that the threads of a block share."""
    return line_of(b.shared(memory_type(dtype), (count,)), dtype, count)


def mark_unchanging(kernel: func.FuncOp) -> None:
    """
    Where nothing that the kernel writes overlaps what it reads, its inputs do not change while it
    runs: `mlc.noalias` on them too lets LLVM read them through the cache for that (ld.global.nc).
    """
    marks = kernel.arg_attrs
    if marks is None:
        return
    types = kernel.function_type.inputs.data
    memory = [k for k, kind in enumerate(types) if isinstance(kind, MemRefType)]
    known = {k: marks.data[k].data for k in memory}
    if any(not {"mlc.readonly", "mlc.noalias"} & words.keys() for words in known.values()):
        return
    both = {k: DictionaryAttr({**words, "mlc.noalias": UnitAttr()}) for k, words in known.items()}
    kernel.arg_attrs = ArrayAttr([both.get(k, mark) for k, mark in enumerate(marks.data)])
