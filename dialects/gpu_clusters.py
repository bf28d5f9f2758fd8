"""
Blocks of a GPU that run at the same time: those of a cluster, which reach one another's shared
memory, and those of the kernel after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, MemRefType
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


CLUSTERS: Sequence[type[IRDLOperation]] = (SendOp, ClusterBarrierOp, FollowOp, LeadOp)
