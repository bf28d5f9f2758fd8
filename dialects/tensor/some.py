"""How many there are, which must not be none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import as_tensor
from mlc.dialects.dtypes import I64, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Unary
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor, text_property

REDUCTIONS = ("max", "min")


@irdl_op_definition
class SomeOp(Unary):
    """
    A number of elements of which a reduction without an identity is taken: none are a run-time
    ValueError that names the reduction.

    ```mlir
    %0 = mlc.some %count of "max" : tensor<i64>
    ```
    """

    name = "mlc.some"
    KINDS: ClassVar[tuple[str, ...]] = ("int",)
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, ufunc.reduce"
    CHECKS: ClassVar[bool] = True
    NO_DERIVATIVE: ClassVar[str] = "a count"
    reduction = prop_def(StringAttr)
    assembly_format = "$x `of` $reduction attr-dict `:` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        if dtype_of(operands[0].element_type) is not I64:
            found = dtype_of(operands[0].element_type).name
            raise DTypeError(f"mlc.some: the number is {found}; expected i64 (mlc.convert)")
        if (name := text_property(properties, "reduction")) not in REDUCTIONS:
            expected = ", ".join(REDUCTIONS)
            raise ShapeError(f"mlc.some: reduction {name!r}; expected one of {expected}")
        return as_tensor(operands[0])

    @property
    def site(self) -> str:
        return f"empty {self.reduction.data}"

    def reference(self, *operands: Array) -> Array:
        if (operands[0] <= 0).any():
            full_name = {"max": "maximum", "min": "minimum"}[self.reduction.data]
            raise ValueError(
                f"zero-size array to reduction operation {full_name} which has no identity"
            )
        return operands[0]

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        zero = b.constant(0, I64)
        b.check(b.compare("gt", x, zero, I64), self, zero, zero)
        return x

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        return full(b, 1, I64, self.shape)
