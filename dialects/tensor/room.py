"""A number of elements for which there may be no room."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import prop_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import RoomError
from mlc.dialects.tensor.checked import CheckedBySize
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.op import Array


@irdl_op_definition
class RoomOp(CheckedBySize):
    """
    A number of elements that memory of `size` elements is to hold. A larger one ends the call,
    which begins again with more room; one below 0 is a run-time ValueError, of what `function`
    counts. The result is 0 then, so that nothing beyond is touched before the call ends.

    ```mlir
    %0 = mlc.room "repeat" %n of <"room"> : tensor<i64>
    ```
    """

    name = "mlc.room"
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, repeat and bincount"
    NO_DERIVATIVE: ClassVar[str] = "a count"
    function = prop_def(StringAttr)
    assembly_format = "$function $x `of` $size attr-dict `:` type($result)"

    @property
    def site(self) -> str:
        return f"room {self.function.data}"

    def reference_at(self, x: Array, size: int) -> Array:
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
