"""A number that must not be 0: of elements, or of the places that a range steps on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import ShapeError
from mlc.dialects.faults import NONE_FAULTS
from mlc.dialects.tensor.checked import CheckedInteger
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.op import Array, Tensor, one_of_property


@irdl_op_definition
class SomeOp(CheckedInteger):
    """
    A number of elements of which a reduction without an identity is taken, or of places that a
    range steps on: none are a run-time ValueError that names it.

    ```mlir
    %0 = mlc.some %count of "max" : tensor<i64>
    ```
    """

    name = "mlc.some"
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, ufunc.reduce"
    NO_DERIVATIVE: ClassVar[str] = "a count"
    PASSES: ClassVar[int] = 1
    reduction = prop_def(StringAttr)
    assembly_format = "$x `of` $reduction attr-dict `:` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        found = super().infer(operands, properties, declared)
        one_of_property(cls.name, properties, "reduction", NONE_FAULTS, ShapeError)
        return found

    @property
    def site(self) -> str:
        return f"empty {self.reduction.data}"

    def reference(self, *operands: Array) -> Array:
        if (operands[0] <= 0).any():
            raise ValueError(NONE_FAULTS[self.reduction.data])
        return operands[0]

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        zero = b.constant(0, I64)
        b.check(b.compare("gt", x, zero, I64), self, zero, zero)
        return x
