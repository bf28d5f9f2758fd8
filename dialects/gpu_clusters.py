"""
Blocks of a GPU that run at the same time: those of a cluster, which reach one another's shared
memory, and those of the kernel after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, MemRefType, i1, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition

CLUSTER_ATTRIBUTE = "mlc_gpu.cluster"
"""Of a kernel: blocks, adjacent along x, that are started together; without it one."""


@irdl_op_definition
class SendOp(IRDLOperation):
    """
    An element of the same buffer in another block of the cluster is written.

    ```mlir
    mlc_gpu.send %x to %cell[%i] of %block : f32, memref<8xf32, 3 : i64>
    ```
    """

    name = "mlc_gpu.send"
    value = operand_def()
    buffer = operand_def(MemRefType)
    at = operand_def(IndexType)
    block = operand_def(IndexType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$value `to` $buffer `[` $at `]` `of` $block attr-dict `:` type($value) `,` type($buffer)"
    )

    @staticmethod
    def of(value: SSAValue, buffer: SSAValue, at: SSAValue, block: SSAValue) -> SendOp:
        return SendOp.create(operands=(value, buffer, at, block))

    def verify_(self) -> None:
        kind, buffer = self.value.type, cast("MemRefType[Attribute]", self.buffer.type)
        wide = isinstance(kind, AnyFloat | IntegerType) and kind.bitwidth in (32, 64)
        if not wide or buffer.element_type != kind or len(buffer.get_shape()) != 1:
            raise VerifyException(
                f"{self.name}: {kind} to {buffer}; expected elements of 32 or 64 bits, and a buffer"
                " of them with one axis"
            )


@irdl_op_definition
class ClusterBarrierOp(IRDLOperation):
    """
    All threads of the cluster wait for each other, and see what was sent before.

    ```mlir
    mlc_gpu.cluster_barrier
    ```
    """

    name = "mlc_gpu.cluster_barrier"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


@irdl_op_definition
class SignalOp(IRDLOperation):
    """
    Writes 1: whoever awaits it, in any block, sees what this warp has written before. One thread of
    the warp does, for which the predicate holds, once they all have waited for each other.

    ```mlir
    mlc_gpu.signal %flags[%i] if %first : memref<1056xi32>
    ```
    """

    name = "mlc_gpu.signal"
    buffer = operand_def(MemRefType)
    at = operand_def(IndexType)
    condition = operand_def(i1)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$buffer `[` $at `]` `if` $condition attr-dict `:` type($buffer)"

    @staticmethod
    def of(buffer: SSAValue, at: SSAValue, condition: SSAValue) -> SignalOp:
        return SignalOp.create(operands=(buffer, at, condition))

    def verify_(self) -> None:
        _flags(self.name, self.buffer)


@irdl_op_definition
class AwaitOp(IRDLOperation):
    """
    Waits until it is not 0. Only what blocks with smaller numbers signal may be awaited: they have
    been started before.

    ```mlir
    mlc_gpu.await %flags[%i] : memref<1056xi32>
    ```
    """

    name = "mlc_gpu.await"
    buffer = operand_def(MemRefType)
    at = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$buffer `[` $at `]` attr-dict `:` type($buffer)"

    @staticmethod
    def of(buffer: SSAValue, at: SSAValue) -> AwaitOp:
        return AwaitOp.create(operands=(buffer, at))

    def verify_(self) -> None:
        _flags(self.name, self.buffer)


def _flags(name: str, buffer: SSAValue) -> None:
    kind = cast("MemRefType[Attribute]", buffer.type)
    if kind.element_type != i32 or len(kind.get_shape()) != 1:
        raise VerifyException(f"{name}: {kind}; expected a buffer of i32 with one axis")


@irdl_op_definition
class FollowOp(IRDLOperation):
    """
    Waits until the kernels that were started before have ended, and what they wrote is there.
    Nothing is read or written before.

    ```mlir
    mlc_gpu.follow
    ```
    """

    name = "mlc_gpu.follow"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


@irdl_op_definition
class LeadOp(IRDLOperation):
    """
    Blocks of the kernel after this one may begin, as soon as all blocks of this one have; they wait
    where it says `mlc_gpu.follow`. Without it they may when all have ended.

    ```mlir
    mlc_gpu.lead
    ```
    """

    name = "mlc_gpu.lead"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


CLUSTERS: Sequence[type[IRDLOperation]] = (
    SendOp,
    ClusterBarrierOp,
    SignalOp,
    AwaitOp,
    FollowOp,
    LeadOp,
)
