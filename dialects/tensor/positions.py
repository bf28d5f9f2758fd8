"""Where a mask is true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import BOOL, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.op import Array, OpaqueOp, OpaqueTemplate, OpBuilder, Tensor


@irdl_op_definition
class PositionsOp(OpaqueOp):
    """
    The positions of a mask's true elements, in order. How many there are the result's size says,
    which a symbol stands for that `mlc.bind` gives the mask's count.

    ```mlir
    mlc.bind "k" = %count to <"n">
    %p = mlc.positions %mask : tensor<?xi1, #mlc.dims<"n">> -> tensor<?xi64, #mlc.dims<"k">>
    ```
    """

    name = "mlc.positions"
    KINDS: ClassVar[tuple[str, ...]] = ("bool",)
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, flatnonzero"
    TEMPLATE: ClassVar[OpaqueTemplate] = "scan"
    FLOPS: ClassVar[int] = 1
    WEIGHT: ClassVar[float] = 4.0
    NO_DERIVATIVE: ClassVar[str] = "positions"
    mask = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$mask attr-dict `:` type($mask) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        (mask,) = operands
        if (dtype := dtype_of(mask.element_type)) is not BOOL:
            raise DTypeError(f"mlc.positions of {dtype.name}; expected bool (mlc.compare)")
        if (rank := len(shape_of(mask))) != 1:
            raise ShapeError(f"mlc.positions: a mask of {rank} axes; expected one (mlc.reshape)")
        if declared is None or declared.element_type != i64 or len(shape_of(declared)) != 1:
            raise ShapeError(f"mlc.positions: the result is {declared}; expected one axis of i64")
        most, count = (shape_of(x)[0].constant for x in (mask, declared))
        if most is not None and count is not None and count > most:
            raise ShapeError(
                f"mlc.positions: {count} of {most} elements; expected no more than all"
            )
        return declared

    def reference(self, *operands: Array) -> Array:
        return np.flatnonzero(operands[0])

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        raise ShapeError(
            "the number of true elements differs from example to example of vmap; what needs no"
            " array of them, such as a sum of x[mask], does not ask: or use np.where(mask, x, 0)"
        )
