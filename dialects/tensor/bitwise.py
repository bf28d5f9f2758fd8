"""Elementwise ops on the bits of integers and bools; clamp; the same bits as another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import VarConstraint, base, operand_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import REALS, DType, dtype_of
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.comparison import CompareOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Binary, Elementwise, Unary
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor, element_dtype
from mlc.dialects.tensor.rounded import larger, smaller

BITS = ("int", "uint", "bool")


class Bitwise(Binary):
    """One arith op on bits."""

    COMMUTES: ClassVar[bool] = True
    KINDS: ClassVar[tuple[str, ...]] = BITS
    NO_DERIVATIVE: ClassVar[str] = "on integers and bool"
    REMEDY: ClassVar[str] = "compare first, e.g. (x > 0) & (y > 0)"
    OP: ClassVar[type[Any]]
    NUMPY: ClassVar[np.ufunc]

    def reference(self, *operands: Array) -> Array:
        return type(self).NUMPY(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(type(self).OP, *operands)


@irdl_op_definition
class AndOp(Bitwise):
    """Bits that both have."""

    name = "mlc.and"
    OP: ClassVar[type[Any]] = arith.AndIOp
    NUMPY: ClassVar[np.ufunc] = np.bitwise_and


@irdl_op_definition
class OrOp(Bitwise):
    """Bits that either has."""

    name = "mlc.or"
    OP: ClassVar[type[Any]] = arith.OrIOp
    NUMPY: ClassVar[np.ufunc] = np.bitwise_or


@irdl_op_definition
class XorOp(Bitwise):
    """Bits that one has and the other has not."""

    name = "mlc.xor"
    OP: ClassVar[type[Any]] = arith.XOrIOp
    NUMPY: ClassVar[np.ufunc] = np.bitwise_xor


@irdl_op_definition
class NotOp(Unary):
    """Every bit turned: not of bool, -x - 1 of integers."""

    name = "mlc.not"
    NO_DERIVATIVE: ClassVar[str] = "on integers and bool"
    KINDS: ClassVar[tuple[str, ...]] = BITS
    REMEDY: ClassVar[str] = "compare first, e.g. ~(x > 0)"

    def reference(self, *operands: Array) -> Array:
        return np.invert(operands[0])

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        ones = {"bool": True, "uint": self.dtype.highest}.get(self.dtype.kind, -1)
        return b.apply(arith.XOrIOp, operands[0], b.constant(ones, self.dtype))


@irdl_op_definition
class PopcountOp(Unary):
    """How many bits are 1; of integers below 0, those of two's complement."""

    name = "mlc.popcount"
    NO_DERIVATIVE: ClassVar[str] = "on integers"
    KINDS: ClassVar[tuple[str, ...]] = ("int", "uint")

    def reference(self, *operands: Array) -> Array:
        x = operands[0]
        bits = np.bitwise_count(x.view(f"u{x.dtype.itemsize}"))  # of |x| where x has a sign
        return bits.astype(x.dtype)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(math.CtPopOp, operands[0])


class Shift(Binary):
    """Bits moved by rhs places; all of them out for rhs < 0 and rhs >= width (D3)."""

    KINDS: ClassVar[tuple[str, ...]] = ("int", "uint")
    NO_DERIVATIVE: ClassVar[str] = "on integers and bool"
    NUMPY: ClassVar[np.ufunc]

    def reference(self, *operands: Array) -> Array:
        return type(self).NUMPY(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        x, count = operands
        dtype = self.dtype
        width = b.constant(8 * dtype.bytes, dtype.unsigned)
        inside = b.compare("lt", count, width, dtype.unsigned)
        # by a mask, not a choice: LLVM drops a choice that repeats the one below, and its PTX then
        # looks at the lower 32 bits of a 64-bit count alone
        low = b.apply(arith.AndIOp, count, b.constant(8 * dtype.bytes - 1, dtype))
        shifted = b.apply(self.moves(), x, low)
        return b.select(inside, shifted, self.emptied(b, x))

    def moves(self) -> type[Any]:
        """The arith op."""
        return arith.ShLIOp

    def emptied(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        """What is left when all bits have gone."""
        return b.constant(0, self.dtype)


@irdl_op_definition
class ShlOp(Shift):
    """lhs * 2^rhs."""

    name = "mlc.shl"
    NUMPY: ClassVar[np.ufunc] = np.left_shift


@irdl_op_definition
class ShrOp(Shift):
    """floor(lhs / 2^rhs): signed integers keep their sign."""

    name = "mlc.shr"
    NUMPY: ClassVar[np.ufunc] = np.right_shift

    def moves(self) -> type[Any]:
        return arith.ShRSIOp if self.dtype.kind == "int" else arith.ShRUIOp

    def emptied(self, b: ElementBuilder, x: SSAValue) -> SSAValue:
        zero = b.constant(0, self.dtype)
        if self.dtype.kind == "uint":
            return zero
        return b.select(b.compare("lt", x, zero, self.dtype), b.constant(-1, self.dtype), zero)


@irdl_op_definition
class ClampOp(Elementwise):
    """
    min(max(x, low), high); NaN where any operand is.

    ```mlir
    %0 = mlc.clamp %x, %low, %high : tensor<4xf32>
    ```
    """

    name = "mlc.clamp"
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, numpy.clip"
    KINDS: ClassVar[tuple[str, ...]] = (*REALS, "bool")
    FLOPS: ClassVar[int] = 2
    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    x = operand_def(T)
    low = operand_def(T)
    high = operand_def(T)
    result = result_def(T)
    assembly_format = "$x `,` $low `,` $high attr-dict `:` type($result)"

    def reference(self, *operands: Array) -> Array:
        x, low, high = operands
        return smaller(larger(x, low), high)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        x, low, high = operands
        kind = self.dtype.kind
        return b.apply(MinOp.OPS[kind], b.apply(MaxOp.OPS[kind], x, low), high)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        """To the operand that is the result; to x at its ends."""
        if self.dtype.kind != "float":
            return (None, None, None)
        zero, one = full(b, 0.0, self.dtype, self.shape), full(b, 1.0, self.dtype, self.shape)
        over = b(CompareOp, b(MaxOp, self.x, self.low), self.high, predicate="gt")
        under = b(CompareOp, self.x, self.low, predicate="lt")
        by_low = b(SelectOp, over, zero, b(SelectOp, under, one, zero))
        by_x = b(SelectOp, over, zero, b(SelectOp, under, zero, one))
        return (by_x, by_low, b(SelectOp, over, one, zero))


@irdl_op_definition
class BitcastOp(Elementwise):
    """
    The same bits as another dtype of the same size.

    ```mlir
    %0 = mlc.bitcast %x : tensor<4xf32> -> tensor<4xi32>
    ```
    """

    name = "mlc.bitcast"
    NO_DERIVATIVE: ClassVar[str] = "bits are no numbers"
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, numpy.ndarray.view"
    KINDS: ClassVar[tuple[str, ...]] = ("float", "int", "uint")
    FLOPS: ClassVar[int] = 0
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        source, target = dtype_of(operands[0].element_type), dtype_of(declared.element_type)
        cls.check_kind(source)
        cls.check_kind(target)
        if source.bytes != target.bytes:
            raise DTypeError(
                f"mlc.bitcast: {source.name} has {source.bytes} bytes, {target.name}"
                f" {target.bytes}; expected the same number: x.astype() converts the values"
            )
        return tensor_type(declared.element_type, shape_of(operands[0]))

    @property
    def source(self) -> DType:
        """The operand's dtype."""
        return element_dtype(self.x)

    def reference(self, *operands: Array) -> Array:
        return np.ascontiguousarray(operands[0]).view(self.dtype.numpy).reshape(operands[0].shape)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.bitcast(operands[0], self.dtype.register)


BITWISE: tuple[type[Elementwise], ...] = (
    AndOp,
    OrOp,
    XorOp,
    NotOp,
    PopcountOp,
    ShlOp,
    ShrOp,
    ClampOp,
    BitcastOp,
)
