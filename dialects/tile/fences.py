"""Ops that order what a role's threads do in slots with what the copy engine does there."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.irdl import IRDLOperation, eq, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.tile.pipeline import RolesOp


class _InRole(IRDLOperation):
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    WHERE: ClassVar[str] = "stands in no role"

    def verify_(self) -> None:
        above = self.parent_op()
        while above is not None and not isinstance(above, RolesOp):
            above = above.parent_op()
        if above is None:
            raise VerifyException(f"{self.name}: {self.WHERE}")


@irdl_op_definition
class FenceOp(_InRole):
    """
    Copies that follow find in slots what this role has stored there.

    ```mlir
    mlc_tile.fence
    ```
    """

    name = "mlc_tile.fence"
    assembly_format = "attr-dict"


@irdl_op_definition
class DrainOp(_InRole):
    """
    Waits until all but the last so many copies from slots of this role have read them.

    ```mlir
    mlc_tile.drain 1
    ```
    """

    name = "mlc_tile.drain"
    pending = prop_def(IntegerAttr.constr(eq(i64)))
    assembly_format = "$pending attr-dict"

    @staticmethod
    def of(pending: int) -> DrainOp:
        return DrainOp.create(properties={"pending": IntegerAttr(pending, i64)})

    def verify_(self) -> None:
        super().verify_()
        if self.pending.value.data < 0:
            raise VerifyException(
                f"{self.name}: {self.pending.value.data} copies; expected 0 or more"
            )


FENCES = (FenceOp, DrainOp)
