"""Writing at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, var_operand_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Shape, shape_of
from mlc.dialects.dtypes import I64, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import bind, fresh, split
from mlc.dialects.tensor.monoid import MONOIDS, Monoid
from mlc.dialects.tensor.op import Array, OpaqueOp, OpaqueTemplate, OpBuilder, Tensor, text_property
from mlc.dialects.tensor.shape import broadcast_to

MODES: dict[str, Monoid | None] = {
    "set": None,
    "add": MONOIDS["sum"],
    "mul": MONOIDS["prod"],
    "max": MONOIDS["max"],
    "min": MONOIDS["min"],
}
"""How a written element meets the one that is there; `set` forgets the latter."""


@irdl_op_definition
class ScatterOp(OpaqueOp):
    """
    `x` with the elements of `update` written at positions that index tensors give. The letters are
    those of the gather that would read them back: an axis of `x` named by the digit d is indexed by
    index tensor d, and the result letters name the axes of `update`.

    ```mlir
    // x[i] = u;  np.add.at(x, (i, j), u)
    %0 = mlc.scatter "set" "0n,b->bn" %x[%i], %u : tensor<9x4xf32>, … -> tensor<9x4xf32>
    %1 = mlc.scatter "add" "01,b,b->b" %x[%i, %j], %u : …
    ```

    Elements are written in the row-major order of `update`, one after the other, so the result is
    the same for every number of threads. An index in [-n, n) counts from the end where negative;
    any other is a run-time IndexError.
    """

    name = "mlc.scatter"
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, integer array indexing and ufunc.at"
    TEMPLATE: ClassVar[OpaqueTemplate] = "gather"
    CHECKS: ClassVar[bool] = True
    WEIGHT: ClassVar[float] = 32.0
    FLOPS: ClassVar[int] = 1
    mode = prop_def(StringAttr)
    letters = prop_def(StringAttr)
    x = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    update = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = (
        "$mode $letters $x `[` $indices `]` `,` $update attr-dict"
        " `:` type($x) `,` type($update) `,` type($indices) `->` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        mode, text = text_property(properties, "mode"), text_property(properties, "letters")
        if mode not in MODES:
            raise DTypeError(f"mlc.scatter: mode {mode!r}; expected one of {', '.join(MODES)}")
        x, *indices, update = operands
        for k, index in enumerate(indices):
            if index.element_type != i64:
                found = dtype_of(index.element_type).name
                raise DTypeError(f"mlc.scatter: index {k} is {found}; expected i64")
        if x.element_type != update.element_type:
            found = " and ".join(dtype_of(v.element_type).name for v in (x, update))
            raise DTypeError(f"mlc.scatter: dtypes {found} of array and update differ")
        monoid, dtype = MODES[mode], dtype_of(x.element_type)
        if monoid is not None and dtype.kind not in monoid.kinds:
            expected = " or ".join(monoid.kinds)
            raise DTypeError(f"mlc.scatter {mode!r} of {dtype.name}; expected {expected}")
        words, result = split(text)
        digits = [c for c in words[0] if c.isdigit()]
        if not digits or sorted(digits) != [str(k) for k in range(len(indices))]:
            raise ShapeError(
                f"mlc.scatter {text!r}: the array names indices {digits}, found {len(indices)}"
            )
        free = {c for c in "".join(words) if not c.isdigit()}
        if free != set(result):
            raise ShapeError(
                f"mlc.scatter {text!r}: the update has axes {result!r}; expected exactly those of"
                f" the array and the indices, {''.join(sorted(free))!r}"
            )
        bind(cls.name, text, (*words, result), [shape_of(v) for v in (x, *indices, update)])
        return x

    def iteration(self) -> Shape:
        return shape_of(self.update.type)

    def reference(self, *operands: Array) -> Array:
        words, result = split(self.letters.data)
        x, *indices, update = operands
        made = x.copy()
        sizes = dict(zip(result, update.shape, strict=True))
        positions: list[Any] = []
        for axis, c in enumerate(words[0]):
            if not c.isdigit():
                positions.append(_spread(_counting(sizes[c]), c, result))
                continue
            index, n = _spread(indices[int(c)], words[1 + int(c)], result), x.shape[axis]
            bad = (index < -n) | (index >= n)
            if bad.any() and update.size:
                found = int(index[bad].reshape(-1)[0])
                raise IndexError(f"index {found} is out of bounds for axis {axis} with size {n}")
            positions.append(np.where(index < 0, index + n, index))
        if not update.size:
            return made
        where = tuple(np.broadcast_arrays(*positions, update)[:-1])
        name = self.mode.data
        if name == "set":
            flat: list[int] = np.ravel_multi_index(where, x.shape).reshape(-1).tolist()
            last = dict(zip(flat, range(len(flat)), strict=True))  # the last writer stays
            made.reshape(-1)[list(last)] = update.reshape(-1)[list(last.values())]
            return made
        combine: dict[str, np.ufunc] = {
            "add": np.add,
            "mul": np.multiply,
            "max": np.maximum,
            "min": np.minimum,
        }
        combine[name].at(made, where, update)
        return made

    def jointly_linear(self) -> tuple[int, ...]:
        last = len(self.operands) - 1
        return (0, last) if self.mode.data in ("add", "set") else ()

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        """add: to the array as it is, to the update what lies where it was written. set: the array
        gets nothing where something was written, and only the last writer gets anything."""
        text = self.letters.data
        if self.mode.data == "add":
            return (
                cotangent if operand == 0 else b(GatherOp, cotangent, *self.indices, letters=text)
            )
        if operand == 0:
            zero = full(b, 0.0, self.dtype, self.iteration())
            return b(ScatterOp, cotangent, *self.indices, zero, mode="set", letters=text)
        return self._to_last_writers(b, cotangent)

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        from mlc.dialects.tensor.tangents import scatter_tangent

        return scatter_tangent(b, self, tangents[0], tangents[-1])

    def _to_last_writers(self, b: OpBuilder, cotangent: SSAValue) -> SSAValue:
        """The cotangent at each position, where the update's element is the one that stayed."""
        from mlc.dialects.dims import product, tensor_type
        from mlc.dialects.tensor.comparison import CompareOp, SelectOp
        from mlc.dialects.tensor.create import IotaOp
        from mlc.dialects.tensor.shape import ReshapeOp

        text, shape = self.letters.data, self.iteration()
        count = tensor_type(i64, (product(shape),))
        number = b(IotaOp, axis=0, declared=count)
        mine = b(ReshapeOp, number, declared=tensor_type(i64, shape))
        nobody = full(b, -1, I64, self.shape)
        last = b(ScatterOp, nobody, *self.indices, mine, mode="set", letters=text)
        stayed = b(CompareOp, b(GatherOp, last, *self.indices, letters=text), mine, predicate="eq")
        found = b(GatherOp, cotangent, *self.indices, letters=text)
        return b(SelectOp, stayed, found, full(b, 0.0, self.dtype, shape))

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        new = fresh(self.letters.data)
        words, result = split(self.letters.data)
        x, *indices, update = operands
        count = shape_of(operands[list(batched).index(True)].type)[0]
        if not batched[0]:
            x = broadcast_to(b, x, (count, *self.shape))
        if not batched[-1]:
            update = broadcast_to(b, update, (count, *self.iteration()))
        marks = [True, *batched[1:-1]]
        spelled = ",".join(new + w if k else w for w, k in zip(words, marks, strict=True))
        letters = f"{spelled}->{new}{result}"
        return b(ScatterOp, x, *indices, update, mode=self.mode, letters=letters)

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        if not 0 < operand < len(self.operands) - 1:
            return None
        return full(b, 0, I64, shape_of(self.operands[operand].type))


def _spread(array: Array, word: str, result: str) -> Array:
    """An array over `word` with its axes where `result` has them."""
    order = sorted(range(len(word)), key=lambda i: result.index(word[i]))
    kept = {word[i]: array.shape[i] for i in order}
    return np.transpose(array, order).reshape([kept.get(c, 1) for c in result])


def _counting(size: int) -> Array:
    return np.arange(size)
