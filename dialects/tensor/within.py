"""Indices that are values, checked against the axis that they index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, as_tensor
from mlc.dialects.dtypes import I64, dtype_of
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Unary
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor


@irdl_op_definition
class WithinOp(Unary):
    """
    An index of an axis with `size` elements, counted from its start: x, or x + size where x is
    negative. Anything but a number in [-size, size) is a run-time IndexError; the result is 0 then,
    so that nothing beyond the axis is touched before the call ends.

    ```mlir
    %0 = mlc.within %i of <"n"> : tensor<i64>
    ```
    """

    name = "mlc.within"
    KINDS: ClassVar[tuple[str, ...]] = ("int",)
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, integer indexing"
    CHECKS: ClassVar[bool] = True
    NO_DERIVATIVE: ClassVar[str] = "a position"
    size = prop_def(DimsAttr)
    assembly_format = "$x `of` $size attr-dict `:` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        size = properties["size"]
        if dtype_of(operands[0].element_type) is not I64:
            found = dtype_of(operands[0].element_type).name
            raise DTypeError(f"mlc.within: the index is {found}; expected i64 (mlc.convert)")
        if not isinstance(size, DimsAttr) or len(size.data) != 1:
            raise DTypeError(f"mlc.within: the size is {size}; expected one dim")
        return as_tensor(operands[0])

    @property
    def extent(self) -> Dim:
        """The axis' size."""
        return self.size.data[0]

    def reference(self, *operands: Array) -> Array:
        size = self.extent.constant
        if size is None:
            raise NotImplementedError("within needs its concrete size: call reference_at")
        return self.reference_at(operands[0], size)

    def reference_at(self, x: Array, size: int) -> Array:
        """The meaning for a concrete size."""
        bad = (x < -size) | (x >= size)
        if bad.any():
            found = int(x[bad].reshape(-1)[0])
            raise IndexError(f"index {found} is out of bounds for an axis of size {size}")
        return np.where(x < 0, x + size, x)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        zero, extent = b.constant(0, I64), b.size(self.extent)
        negative = b.compare("lt", x, zero, I64)
        index = b.select(negative, b.apply(arith.AddiOp, x, extent), x)
        above, below = b.compare("ge", index, zero, I64), b.compare("lt", index, extent, I64)
        ok = b.apply(arith.AndIOp, above, below)
        b.check(ok, self, x, extent)
        return b.select(ok, index, zero)

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        return full(b, 0, I64, self.shape)
