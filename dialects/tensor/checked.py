"""What ops that check an integer when the program runs have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from mlc.dialects.dims import Dim, DimsAttr, as_tensor
from mlc.dialects.dtypes import I64, dtype_of
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import Unary
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor


class CheckedInteger(Unary):
    """An i64, or else the call fails."""

    KINDS: ClassVar[tuple[str, ...]] = ("int",)
    CHECKS: ClassVar[bool] = True
    WHAT: ClassVar[str] = "number"  # the operand is, in messages
    PASSES: ClassVar[int] = 0  # whatever the check is about

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        if (dtype := dtype_of(operands[0].element_type)) is not I64:
            message = f"the {cls.WHAT} is {dtype.name}; expected i64 (mlc.convert)"
            raise DTypeError(f"{cls.name}: {message}")
        return as_tensor(operands[0])

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        return full(b, self.PASSES, I64, self.shape)


class CheckedBySize(CheckedInteger):
    """An i64 that is compared with a size."""

    size = prop_def(DimsAttr)

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        found = super().infer(operands, properties, declared)
        size = properties["size"]
        if not isinstance(size, DimsAttr) or len(size.data) != 1:
            raise DTypeError(f"{cls.name}: the size is {size}; expected one dim")
        return found

    @property
    def extent(self) -> Dim:
        """The size."""
        return self.size.data[0]

    def reference(self, *operands: Array) -> Array:
        size = self.extent.constant
        if size is None:
            name = self.name.removeprefix("mlc.")
            raise NotImplementedError(f"{name} needs its concrete size: call reference_at")
        return self.reference_at(operands[0], size)

    @abstractmethod
    def reference_at(self, x: Array, size: int) -> Array:
        """The meaning for a concrete size."""
