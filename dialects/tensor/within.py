"""Indices that are values, checked against the axis that they index."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import ParsePropInAttrDict, opt_prop_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.checked import CheckedBySize
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.op import Array


@irdl_op_definition
class WithinOp(CheckedBySize):
    """
    An index of an axis with `size` elements, counted from its start: x, or x + size where x is
    negative. Anything but a number in [-size, size) is a run-time IndexError; the result is 0 then,
    so that nothing beyond the axis is touched before the call ends. `holds`: where the op stands, x
    is known to be in [0, size), and nothing is asked.

    ```mlir
    %0 = mlc.within %i of <"n"> : tensor<i64>
    ```
    """

    name = "mlc.within"
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, integer indexing"
    NO_DERIVATIVE: ClassVar[str] = "a position"
    WHAT: ClassVar[str] = "index"
    irdl_options = (ParsePropInAttrDict(),)
    holds = opt_prop_def(UnitAttr)
    assembly_format = "$x `of` $size attr-dict `:` type($result)"

    def reference_at(self, x: Array, size: int) -> Array:
        bad = (x < -size) | (x >= size)
        if bad.any():
            found = int(x[bad].reshape(-1)[0])
            raise IndexError(f"index {found} is out of bounds for an axis of size {size}")
        return np.where(x < 0, x + size, x)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        if self.holds is not None:
            return x
        zero, extent = b.constant(0, I64), b.size(self.extent)
        negative = b.compare("lt", x, zero, I64)
        index = b.select(negative, b.apply(arith.AddiOp, x, extent), x)
        above, below = b.compare("ge", index, zero, I64), b.compare("lt", index, extent, I64)
        ok = b.apply(arith.AndIOp, above, below)
        b.check(ok, self, x, extent)
        return b.select(ok, index, zero)
