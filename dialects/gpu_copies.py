"""Copies from memory to what a block shares that go on while their thread does other things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    eq,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import dtype_of

INDEX = IndexType()
COPIED_BYTES = (4, 8, 16)
"""Of one copy. SOURCE: PTX ISA, cp.async"""


@irdl_op_definition
class CopyAsyncOp(IRDLOperation):
    """
    Adjacent elements of memory begin to be copied to a buffer of the block: 4, 8 or 16 bytes, at
    addresses that are multiples of that; zeros, of which none is read, where a condition is false.

    ```mlir
    mlc_gpu.copy_async %x[%i, %j] to %tile[%k, %c] of 4 : memref<8x16xf32>, memref<8x20xf32, 3>
    mlc_gpu.copy_async %x[%i, %j] to %tile[%k, %c] of 4 where %is : memref<8x16xf32>, memref<…>
    ```
    """

    name = "mlc_gpu.copy_async"
    source = operand_def(MemRefType)
    source_at = var_operand_def(INDEX)
    target = operand_def(MemRefType)
    target_at = var_operand_def(INDEX)
    where = opt_operand_def(i1)
    count = prop_def(IntegerAttr.constr(eq(i64)))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$source `[` $source_at `]` `to` $target `[` $target_at `]` `of` $count"
        " (`where` $where^)? attr-dict `:` type($source) `,` type($target)"
    )

    @staticmethod
    def of(
        source: tuple[SSAValue, Sequence[SSAValue]],
        target: tuple[SSAValue, Sequence[SSAValue]],
        count: int,
        where: SSAValue | None = None,
    ) -> CopyAsyncOp:
        return CopyAsyncOp.build(
            operands=[source[0], [*source[1]], target[0], [*target[1]], where],
            properties={"count": IntegerAttr(count, i64)},
        )

    @property
    def copied_bytes(self) -> int:
        """How many."""
        kind = cast("MemRefType[Attribute]", self.source.type).element_type
        return self.count.value.data * dtype_of(kind).bytes

    def verify_(self) -> None:
        source, target = (cast("MemRefType[Attribute]", x.type) for x in (self.source, self.target))
        if source.element_type != target.element_type:
            raise VerifyException(f"{self.name}: {source} to {target}; expected equal elements")
        if self.copied_bytes not in COPIED_BYTES:
            raise VerifyException(f"{self.name}: {self.copied_bytes} bytes; expected 4, 8 or 16")
        for kind, at in ((source, self.source_at), (target, self.target_at)):
            if len(kind.get_shape()) != len(at):
                raise VerifyException(f"{self.name}: {len(at)} indices of {kind}")


@irdl_op_definition
class CopyGroupOp(IRDLOperation):
    """
    The copies that this thread has begun since the last such op are a group.

    ```mlir
    mlc_gpu.copy_group
    ```
    """

    name = "mlc_gpu.copy_group"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


@irdl_op_definition
class CopyWaitOp(IRDLOperation):
    """
    Waits until all groups of this thread's copies but the last `pending` are done.

    ```mlir
    mlc_gpu.copy_wait 1
    ```
    """

    name = "mlc_gpu.copy_wait"
    pending = prop_def(IntegerAttr.constr(eq(i64)))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$pending attr-dict"

    @staticmethod
    def of(pending: int) -> CopyWaitOp:
        return CopyWaitOp.create(properties={"pending": IntegerAttr(pending, i64)})


COPIES: Sequence[type[IRDLOperation]] = (CopyAsyncOp, CopyGroupOp, CopyWaitOp)
