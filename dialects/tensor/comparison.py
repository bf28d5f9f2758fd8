"""Elementwise ops that compare, choose the larger or the smaller, select and convert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import VarConstraint, base, operand_def, prop_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import BF16, I64, KINDS, NUMBERS, REALS, DType, dtype_of, numpy_dtype
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.faults import SHARE, SHARE_FAULT
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.element import ElementBuilder, by_kind
from mlc.dialects.tensor.elementwise import Binary, Elementwise, Unary
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.op import (
    Array,
    OpBuilder,
    Tensor,
    element_dtype,
    one_of_property,
    same_array,
    tensor_of,
)
from mlc.dialects.tensor.order import Combine
from mlc.dialects.tensor.rounded import larger, smaller

PREDICATES: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@irdl_op_definition
class CompareOp(Elementwise):
    """
    lhs ? rhs as bool, by IEEE 754: with NaN only `ne` holds.

    ```mlir
    %0 = mlc.compare "lt" %a, %b : tensor<4xf32> -> tensor<4xi1>
    ```
    """

    name = "mlc.compare"
    NO_DERIVATIVE: ClassVar[str] = "gives bool"
    KINDS: ClassVar[tuple[str, ...]] = (*NUMBERS, "bool")
    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    predicate = prop_def(StringAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(TensorType)
    assembly_format = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        predicate = one_of_property(cls.name, properties, "predicate", PREDICATES)
        cls.check_same(operands)
        dtype = dtype_of(operands[0].element_type)
        cls.check_kind(dtype)
        if dtype.kind == "complex" and predicate not in ("eq", "ne"):
            raise DTypeError(
                f"mlc.compare {predicate!r}: {dtype.name} numbers have no order; compare x.real,"
                " x.imag or abs(x)"
            )
        return tensor_type(i1, shape_of(operands[0]))

    @property
    def commutes(self) -> bool:
        return self.predicate.data in ("eq", "ne")

    def reference(self, *operands: Array) -> Array:
        return PREDICATES[self.predicate.data](*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        dtype = element_dtype(self.lhs)
        return b.compare(self.predicate.data, operands[0], operands[1], dtype)


@irdl_op_definition
class SelectOp(Elementwise):
    """
    if_true where the condition holds, else if_false.

    ```mlir
    %0 = mlc.select %c, %a, %b : tensor<4xi1>, tensor<4xf32>
    ```
    """

    name = "mlc.select"
    KINDS: ClassVar[tuple[str, ...]] = KINDS
    T: ClassVar[VarConstraint[Attribute]] = VarConstraint("T", base(TensorType))
    condition = operand_def(TensorType)
    if_true = operand_def(T)
    if_false = operand_def(T)
    result = result_def(T)
    assembly_format = (
        "$condition `,` $if_true `,` $if_false attr-dict `:` type($condition) `,` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        if operands[0].element_type != i1:
            found = dtype_of(operands[0].element_type).name
            raise DTypeError(
                f"mlc.select: the condition is {found}; expected bool: compare it, e.g. c != 0"
            )
        cls.check_same(operands[1:])
        if shape_of(operands[0]) != shape_of(operands[1]):
            raise ShapeError(
                f"mlc.select: condition {spell(shape_of(operands[0]))} and values"
                f" {spell(shape_of(operands[1]))} differ; expected equal shapes"
            )
        return operands[1]

    def reference(self, *operands: Array) -> Array:
        return np.where(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.select(*operands)

    def jointly_linear(self) -> tuple[int, ...]:
        return (1, 2)  # affine in each alone

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        zero = full(b, 0.0, self.dtype, self.shape)
        pair = (cotangent, zero) if operand == 1 else (zero, cotangent)
        return b(SelectOp, self.condition, *pair)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        zero, one = full(b, 0.0, self.dtype, self.shape), full(b, 1.0, self.dtype, self.shape)
        return (
            None,
            b(SelectOp, self.condition, one, zero),
            b(SelectOp, self.condition, zero, one),
        )


@irdl_op_definition
class ConvertOp(Elementwise):
    """
    The value in another dtype.

    Floats round to nearest even; float to integer truncates and saturates, NaN becomes 0; any
    number to bool is `!= 0`; integers wrap around, those of 2 and 4 bits too. Complex to real takes
    the real part. fp8 and fp4 are converted as f32; too large for what has no inf is NaN, for fp4
    its largest number.

    ```mlir
    %0 = mlc.convert %x : tensor<4xf32> -> tensor<4xf64>
    ```
    """

    name = "mlc.convert"
    KINDS: ClassVar[tuple[str, ...]] = KINDS
    SOURCE: ClassVar[str] = (
        "NumPy astype; float to integer out of range saturates (NumPy leaves it undefined)"
    )
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
        dtype_of(declared.element_type)
        return tensor_type(declared.element_type, shape_of(operands[0]))

    @property
    def source(self) -> DType:
        """The operand's dtype."""
        return element_dtype(self.x)

    def reference(self, *operands: Array) -> Array:
        return cast(same_array(operands[0], self.source), self.dtype)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.convert(operands[0], self.source, self.dtype)

    def linear_operands(self) -> tuple[int, ...]:
        return (0,) if self.source.is_inexact and self.dtype.is_inexact else ()

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(ConvertOp, cotangent, declared=tensor_of(self.x))

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        both_float = self.source.kind == self.dtype.kind == "float"
        return (full(b, 1.0, self.source, self.shape) if both_float else None,)


def cast(x: Array, target: DType) -> Array:
    """An array in another dtype, as `mlc.convert` defines it: also of constants."""
    if x.dtype.kind == "c" and target.kind not in ("complex", "bool"):
        x = np.real(x)
    with np.errstate(over="ignore", invalid="ignore"):
        if x.dtype.itemsize < 4 and x.dtype.kind not in "biu":
            whole = numpy_dtype(x.dtype).stores_integers
            x = x.astype(np.int8 if whole else np.float32)  # exact
        if x.dtype.kind == "f" and target.is_integer:
            return _saturated(x, target)
        if target.stores_integers:
            whole = _saturated(x, target, np.dtype(np.int8)) if x.dtype.kind == "f" else x
            return whole.astype(np.int8).astype(target.numpy)
        through = target is BF16 or target.kind == "storage"
        return _through_f32(x, target) if through else x.astype(target.numpy)


def _through_f32(x: Array, target: DType) -> Array:
    """What f32 gives: ml_dtypes converts so, but not from every dtype."""
    return x.astype(np.float32).astype(target.numpy)


def _saturated(x: Array, target: DType, held: np.dtype[Any] | None = None) -> Array:
    """Floats as integers, out of range the nearest bound, NaN as 0. `held`: as which integers."""
    held = target.numpy if held is None else held
    whole = np.trunc(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf))
    # float(2**63 - 1) rounds up to 2**63, which is out of range
    inside = (whole >= float(target.lowest)) & (whole < float(target.highest + 1))
    low, high = (np.asarray(bound, held) for bound in (target.lowest, target.highest))
    safe = np.where(inside, whole, 0).astype(held)
    return np.where(inside, safe, np.where(whole < 0, low, high))


class Extremum(Binary):
    """max or min; NaN where either operand is NaN. The derivative is split evenly at ties."""

    COMMUTES: ClassVar[bool] = True
    KINDS: ClassVar[tuple[str, ...]] = (*REALS, "bool")
    OPS: ClassVar[Mapping[str, type[Any]]]  # by kind of dtype
    COMBINE: ClassVar[Combine]
    WINS: ClassVar[str]

    def reference(self, *operands: Array) -> Array:
        return type(self).COMBINE(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return b.apply(type(self).OPS[self.dtype.kind], *operands)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        if self.dtype.kind != "float":
            return (None, None)
        zero, half, one = (full(b, v, self.dtype, self.shape) for v in (0.0, 0.5, 1.0))
        ties = b(CompareOp, self.lhs, self.rhs, predicate="eq")
        wins = b(CompareOp, self.lhs, self.rhs, predicate=type(self).WINS)
        loses = b(CompareOp, self.rhs, self.lhs, predicate=type(self).WINS)
        return tuple(b(SelectOp, ties, half, b(SelectOp, c, one, zero)) for c in (wins, loses))


@irdl_op_definition
class MaxOp(Extremum):
    """The larger of lhs and rhs."""

    name = "mlc.max"
    OPS: ClassVar[Mapping[str, type[Any]]] = by_kind(
        arith.MaximumfOp, arith.MaxSIOp, arith.OrIOp, uint=arith.MaxUIOp
    )
    COMBINE: ClassVar[Combine] = staticmethod(larger)
    WINS: ClassVar[str] = "gt"


@irdl_op_definition
class MinOp(Extremum):
    """The smaller of lhs and rhs."""

    name = "mlc.min"
    OPS: ClassVar[Mapping[str, type[Any]]] = by_kind(
        arith.MinimumfOp, arith.MinSIOp, arith.AndIOp, uint=arith.MinUIOp
    )
    COMBINE: ClassVar[Combine] = staticmethod(smaller)
    WINS: ClassVar[str] = "lt"


@irdl_op_definition
class ShareOp(Unary):
    """x, which must lie in [0, 1]; anything else, NaN too, is a run-time ValueError."""

    name = "mlc.share"
    KINDS: ClassVar[tuple[str, ...]] = ("float",)
    CHECKS: ClassVar[bool] = True
    SITE: ClassVar[str] = SHARE
    FAULT: ClassVar[str] = SHARE_FAULT

    def reference(self, *operands: Array) -> Array:
        (x,) = operands
        if not ((x >= 0) & (x <= 1)).all():
            raise ValueError(self.FAULT)
        return x

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        above, below = (
            b.compare(predicate, x, b.constant(end, self.dtype), self.dtype)
            for predicate, end in (("ge", 0.0), ("le", 1.0))
        )
        nothing = b.constant(0, I64)
        b.check(b.apply(arith.AndIOp, above, below), self, nothing, nothing)
        return x

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        return full(b, 0.0, self.dtype, self.shape)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        return (full(b, 1.0, self.dtype, self.shape),)  # not linear: tangents lie anywhere


COMPARISON: tuple[type[Elementwise], ...] = (MaxOp, MinOp, CompareOp, SelectOp, ConvertOp, ShareOp)
