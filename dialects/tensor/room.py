"""A number of elements for which there may be no room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, as_tensor
from mlc.dialects.dtypes import I64, dtype_of
from mlc.dialects.errors import DTypeError, RoomError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Unary
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor


@irdl_op_definition
class RoomOp(Unary):
    """
    A number of elements that memory of `size` elements is to hold. A larger one ends the call,
    which begins again with more room; one below 0 is a run-time ValueError, of what `function`
    counts. The result is 0 then, so that nothing beyond is touched before the call ends.

    ```mlir
    %0 = mlc.room "repeat" %n of <"room"> : tensor<i64>
    ```
    """

    name = "mlc.room"
    KINDS: ClassVar[tuple[str, ...]] = ("int",)
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, repeat and bincount"
    CHECKS: ClassVar[bool] = True
    NO_DERIVATIVE: ClassVar[str] = "a count"
    function = prop_def(StringAttr)
    size = prop_def(DimsAttr)
    assembly_format = "$function $x `of` $size attr-dict `:` type($result)"

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
            raise DTypeError(f"mlc.room: the number is {found}; expected i64 (mlc.convert)")
        if not isinstance(size, DimsAttr) or len(size.data) != 1:
            raise DTypeError(f"mlc.room: the size is {size}; expected one dim")
        return as_tensor(operands[0])

    @property
    def extent(self) -> Dim:
        """The room that there is."""
        return self.size.data[0]

    @property
    def site(self) -> str:
        return f"room {self.function.data}"

    def reference(self, *operands: Array) -> Array:
        size = self.extent.constant
        if size is None:
            raise NotImplementedError("room needs its concrete size: call reference_at")
        return self.reference_at(operands[0], size)

    def reference_at(self, x: Array, size: int) -> Array:
        """The meaning for a concrete size."""
        bad = (x < 0) | (x > size)
        if bad.any():
            raise RoomError.of(self.function.data, int(x[bad].reshape(-1)[0]))
        return np.asarray(x)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        zero, extent = b.constant(0, I64), b.size(self.extent)
        above, below = b.compare("ge", x, zero, I64), b.compare("le", x, extent, I64)
        ok = b.apply(arith.AndIOp, above, below)
        b.check(ok, self, x, extent)
        return b.select(ok, x, zero)

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        return full(b, 0, I64, self.shape)
