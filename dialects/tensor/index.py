"""Reading at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, var_operand_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import I64, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder, Ix, Point
from mlc.dialects.tensor.letters import bind, fresh, split
from mlc.dialects.tensor.op import AGAIN, ONCE, Array, OpBuilder, Tensor, TensorOp, text_property


@irdl_op_definition
class GatherOp(TensorOp):
    """
    Elements of `source` at positions that index tensors give.

    The source's letters name its axes; a digit d stands for an axis that is indexed by index tensor
    d.

    ```mlir
    // table[rows]; x[i, j]; take_along_axis(x, i, axis=1)
    %0 = mlc.gather "0n,b->bn" %table[%rows] : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
    %1 = mlc.gather "01,b,b->b" %x[%i, %j] : …
    %2 = mlc.gather "m0,mk->mk" %x[%i] : …
    ```

    An index in [-n, n) counts from the end where negative; any other is a run-time IndexError.
    """

    name = "mlc.gather"
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, integer array indexing"
    WEIGHT: ClassVar[float] = 40.0
    CHECKS: ClassVar[bool] = True
    letters = prop_def(StringAttr)
    source = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = (
        "$letters $source `[` $indices `]` attr-dict"
        " `:` type($source) `,` type($indices) `->` type($result)"
    )

    def reads(self, operand: int) -> int:
        words, result = split(self.letters.data)
        return AGAIN if any(c not in words[operand] for c in result) else ONCE

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        text = text_property(properties, "letters")
        words, result = split(text)
        for k, index in enumerate(operands[1:]):
            if index.element_type != i64:
                found = dtype_of(index.element_type).name
                raise DTypeError(
                    f"mlc.gather: index {k} is {found}; expected i64 (mlc.convert makes it so)"
                )
        digits = [c for c in words[0] if c.isdigit()]
        if sorted(digits) != [str(k) for k in range(len(operands) - 1)]:
            raise ShapeError(
                f"mlc.gather {text!r}: the source names indices {digits}, found {len(operands) - 1}"
            )
        sizes = bind(cls.name, text, words, [shape_of(x) for x in operands])
        if unknown := [c for c in result if c not in sizes or c.isdigit()]:
            raise ShapeError(f"mlc.gather {text!r}: result letter {unknown[0]!r} is in no operand")
        return tensor_type(operands[0].element_type, tuple(sizes[c] for c in result))

    def reference(self, *operands: Array) -> Array:
        words, result = split(self.letters.data)
        x, *indices = operands
        pairs = zip(words, operands, strict=True)
        sizes: dict[str, int] = {c: n for w, a in pairs for c, n in zip(w, a.shape, strict=True)}
        shape = [sizes[c] for c in result]

        def spread(word: str, array: Array) -> Array:
            order = sorted(range(len(word)), key=lambda i: result.index(word[i]))
            kept = {word[i]: array.shape[i] for i in order}
            return np.transpose(array, order).reshape([kept.get(c, 1) for c in result])

        positions: list[Any] = []
        for axis, c in enumerate(words[0]):
            if c.isdigit():
                index = spread(words[1 + int(c)], indices[int(c)])
                n = x.shape[axis]
                bad = (index < -n) | (index >= n)
                if bad.any() and 0 not in shape:
                    found = int(index[bad].reshape(-1)[0])
                    raise IndexError(
                        f"index {found} is out of bounds for axis {axis} with size {n}"
                    )
                positions.append(np.where(index < 0, index + n, index))
            else:
                positions.append(spread(c, np.arange(sizes[c])))
        if 0 in shape:
            return np.empty(shape, dtype=x.dtype)
        return x[tuple(np.broadcast_arrays(*positions, np.empty(shape))[:-1])] if positions else x

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        words, result = split(self.letters.data)
        zero = b.constant(0, I64)
        inside: SSAValue | None = None
        point: list[Ix] = []
        for c, dim in zip(words[0], shape_of(self.source.type), strict=True):
            if not c.isdigit():
                point.append(at[result.index(c)])
                continue
            k = int(c)
            found = b.fetch(
                self.indices[k], tuple(at[result.index(letter)] for letter in words[1 + k])
            )
            extent = b.size(dim)
            negative = b.compare("lt", found, zero, I64)
            index = b.select(negative, b.apply(arith.AddiOp, found, extent), found)
            above, below = b.compare("ge", index, zero, I64), b.compare("lt", index, extent, I64)
            ok = b.apply(arith.AndIOp, above, below)
            b.check(ok, self, found, extent)
            inside = ok if inside is None else b.apply(arith.AndIOp, inside, ok)
            point.append(b.at_element(index))
        return b.fetch(self.source, tuple(point), where=inside)

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def stored_operands(self) -> tuple[int, ...]:
        return (0,)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        """Adds each element of the cotangent where it was read."""
        zero = full(b, 0.0, self.dtype, shape_of(self.source.type))
        return self.accumulate(b, zero, cotangent, operand)

    def accumulate(
        self, b: OpBuilder, total: SSAValue, cotangent: SSAValue, operand: int
    ) -> SSAValue:
        from mlc.dialects.tensor.scatter import ScatterOp

        text = self.letters.data
        return b(ScatterOp, total, *self.indices, cotangent, mode="add", letters=text)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        new = fresh(self.letters.data)
        words, result = split(self.letters.data)
        marked = ",".join(f"{new}{w}" if k else w for w, k in zip(words, batched, strict=True))
        return b(GatherOp, *operands, letters=f"{marked}->{new}{result}")

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        return full(b, 0, I64, shape_of(self.operands[operand].type)) if operand else None

    def extent(self, index: int) -> Dim:
        """The size of the axis that index tensor `index` addresses."""
        words, _ = split(self.letters.data)
        return shape_of(self.source.type)[words[0].index(str(index))]
