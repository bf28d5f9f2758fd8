"""Elementwise division with a whole quotient, its remainders, powers, and divisors of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import prop_def

from mlc.dialects import functions
from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import F32, I64, REALS, DType
from mlc.dialects.faults import ZERO_FAULTS, fault_of
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.create import ConstantOp, full
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Binary, Elementwise, LogOp, MulOp, Unary
from mlc.dialects.tensor.functions import Tensors, through
from mlc.dialects.tensor.op import (
    Array,
    OpBuilder,
    Tensor,
    TensorOp,
    one_of_property,
    same_array,
)
from mlc.dialects.tensor.rounding import TruncOp


class WholeDivision(Binary):
    """
    The quotient or the remainder. Integers: 0 where rhs is 0; the minimum over -1 wraps around
    (D3). Halves are computed in f32, rounded once.
    """

    KINDS: ClassVar[tuple[str, ...]] = REALS
    WEIGHT: ClassVar[float] = 20.0
    NUMPY: ClassVar[np.ufunc]

    def reference(self, *operands: Array) -> Array:
        with np.errstate(all="ignore"):
            if self.dtype.kind == "float" and self.dtype.bytes < 4:
                wide = type(self).NUMPY(*(x.astype(np.float32) for x in operands))
                return same_array(wide, self.dtype)
            return same_array(type(self).NUMPY(*operands), self.dtype)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        dtype = self.dtype
        if dtype.kind != "float":
            return self.of_integers(b, *operands)
        wide = F32 if dtype.bytes < 4 else dtype
        lhs, rhs = (b.convert(x, dtype, wide) for x in operands)
        return b.convert(self.of_floats(b, lhs, rhs, wide), wide, dtype)

    def of_integers(self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """On integers."""
        raise NotImplementedError(self.name)

    def bits(self) -> int | None:
        """k where every element of an integer rhs is 2^k."""
        owner = self.rhs.owner
        while isinstance(owner, TensorOp) and owner.MOVES and len(owner.operands) == 1:
            owner = owner.operands[0].owner
        data = owner.repeated_element() if isinstance(owner, ConstantOp) else None
        divisor = 0 if data is None else int.from_bytes(data, "little", signed=True)
        return divisor.bit_length() - 1 if divisor > 0 and divisor.bit_count() == 1 else None

    def of_floats(self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        """On f32 and f64."""
        raise NotImplementedError(self.name)

    def truncated(
        self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """(quotient, remainder) of integers, towards zero; both 0 where rhs is 0."""
        dtype = self.dtype
        zero, one = b.constant(0, dtype), b.constant(1, dtype)
        by_zero = b.compare("eq", rhs, zero, dtype)
        if dtype.kind == "uint":
            quotient = b.apply(arith.DivUIOp, lhs, b.select(by_zero, one, rhs))
        else:
            by_minus_one = b.compare("eq", rhs, b.constant(-1, dtype), dtype)
            safe = b.select(b.apply(arith.OrIOp, by_zero, by_minus_one), one, rhs)
            quotient = b.apply(arith.DivSIOp, lhs, safe)
            quotient = b.select(by_minus_one, b.apply(arith.SubiOp, zero, lhs), quotient)
        quotient = b.select(by_zero, zero, quotient)
        rest = b.apply(arith.SubiOp, lhs, b.apply(arith.MuliOp, quotient, rhs))
        return quotient, b.select(by_zero, zero, rest)

    def must_step(self, b: ElementBuilder, rest: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        """Where a remainder towards zero has the other sign than rhs."""
        zero = b.constant(0, dtype)
        signs = (b.compare("lt", x, zero, dtype) for x in (rest, rhs))
        inexact = b.compare("ne", rest, zero, dtype)
        return b.apply(arith.AndIOp, inexact, b.apply(arith.XOrIOp, *signs))


@irdl_op_definition
class FloorDivOp(WholeDivision):
    """floor(lhs / rhs), of floats as Python's divmod rounds it."""

    name = "mlc.floor_div"
    NO_DERIVATIVE: ClassVar[str] = "constant between its jumps"
    NUMPY: ClassVar[np.ufunc] = np.floor_divide

    def of_integers(self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        if (bits := self.bits()) is not None:  # a shift rounds down, of negative numbers too
            moves = arith.ShRSIOp if self.dtype.kind == "int" else arith.ShRUIOp
            return b.apply(moves, lhs, b.constant(bits, self.dtype))
        quotient, rest = self.truncated(b, lhs, rhs)
        if self.dtype.kind == "uint":
            return quotient
        lower = b.apply(arith.SubiOp, quotient, b.constant(1, self.dtype))
        return b.select(self.must_step(b, rest, rhs, self.dtype), lower, quotient)

    def of_floats(self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        zero, one, half = (b.constant(v, dtype) for v in (0.0, 1.0, 0.5))
        ratio = b.apply(arith.DivfOp, lhs, rhs)
        rest = b.apply(functions.RemainderOp, lhs, rhs)
        quotient = b.apply(arith.DivfOp, b.apply(arith.SubfOp, lhs, rest), rhs)
        lower = b.apply(arith.SubfOp, quotient, one)
        quotient = b.select(self.must_step(b, rest, rhs, dtype), lower, quotient)
        floor = b.apply(math.FloorOp, quotient)
        short = b.compare("gt", b.apply(arith.SubfOp, quotient, floor), half, dtype)
        floor = b.select(short, b.apply(arith.AddfOp, floor, one), floor)
        signed_zero = b.apply(math.CopySignOp, zero, ratio)
        found = b.select(b.compare("eq", quotient, zero, dtype), signed_zero, floor)
        return b.select(b.compare("eq", rhs, zero, dtype), ratio, found)


@irdl_op_definition
class ModOp(WholeDivision):
    """lhs - floor(lhs / rhs) * rhs, with the sign of rhs: Python's %."""

    name = "mlc.mod"
    NUMPY: ClassVar[np.ufunc] = np.remainder

    def of_integers(self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        if (bits := self.bits()) is not None:
            return b.apply(arith.AndIOp, lhs, b.constant((1 << bits) - 1, self.dtype))
        _, rest = self.truncated(b, lhs, rhs)
        if self.dtype.kind == "uint":
            return rest
        higher = b.apply(arith.AddiOp, rest, rhs)
        return b.select(self.must_step(b, rest, rhs, self.dtype), higher, rest)

    def of_floats(self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        zero = b.constant(0.0, dtype)
        rest = b.apply(functions.RemainderOp, lhs, rhs)
        higher = b.apply(arith.AddfOp, rest, rhs)
        found = b.select(self.must_step(b, rest, rhs, dtype), higher, rest)
        signed_zero = b.apply(math.CopySignOp, zero, rhs)
        return b.select(b.compare("eq", rest, zero, dtype), signed_zero, found)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        if self.dtype.kind != "float":
            return (None, None)
        t = Tensors(b, self)
        return (t.number(1.0), t.neg(b(FloorDivOp, self.lhs, self.rhs)))


@irdl_op_definition
class RemOp(WholeDivision):
    """lhs - trunc(lhs / rhs) * rhs, with the sign of lhs: C's fmod and %."""

    name = "mlc.rem"
    NUMPY: ClassVar[np.ufunc] = np.fmod

    def of_integers(self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.truncated(b, lhs, rhs)[1]

    def of_floats(self, b: ElementBuilder, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        return b.apply(functions.RemainderOp, lhs, rhs)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        if self.dtype.kind != "float":
            return (None, None)
        t = Tensors(b, self)
        return (t.number(1.0), t.neg(b(TruncOp, t.div(self.lhs, self.rhs))))


@irdl_op_definition
class PowOp(Binary):
    """
    lhs to the power rhs. Floats as IEEE 754-2019, 9.2.1 (x^0 = 1^y = 1). Integers wrap around; a
    negative exponent is a run-time error, as in NumPy.
    """

    name = "mlc.pow"
    KINDS: ClassVar[tuple[str, ...]] = REALS
    WEIGHT: ClassVar[float] = 90.0
    CHECKS: ClassVar[bool] = True
    SITE: ClassVar[str] = "negative power"

    @property
    def may_fail(self) -> bool:
        return self.dtype.kind == "int"

    def reference(self, *operands: Array) -> Array:
        if self.dtype.kind == "float":
            x, y = operands
            return np.where(y == 2, x * x, same_array(through(np.power, x, y), self.dtype))
        return np.power(*operands)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        if self.dtype.kind == "float":
            return b.apply(math.PowFOp, *operands)
        base, exponent = operands
        dtype = self.dtype
        if dtype.kind == "int":
            zero, wide = b.constant(0, dtype), b.convert(exponent, dtype, I64)
            b.check(b.compare("ge", exponent, zero, dtype), self, wide, b.constant(0, I64))
        return b.apply(functions.IntegerPowerOp, base, exponent)

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        return full(b, 0, self.dtype, self.shape) if operand == 1 else None

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        """y x^(y - 1), 0 for x = y = 0; x^y ln x, 0 for x = 0."""
        if self.dtype.kind != "float":
            return (None, None)
        t = Tensors(b, self)
        x, y = self.lhs, self.rhs
        zero, one = t.number(0.0), t.number(1.0)
        empty, constant = (b(CompareOp, v, zero, predicate="eq") for v in (x, y))
        by_x = t.mul(y, b(PowOp, x, t.plus(-1.0, y)))
        by_x = b(SelectOp, b(MulOp, empty, constant), zero, by_x)
        positive = b(SelectOp, empty, one, x)
        return (by_x, b(MulOp, self.result, b(LogOp, positive)))


@irdl_op_definition
class DivisorOp(Unary):
    """
    x, by which Python's numbers are divided, or whether an integer of Python's fits, or a function
    of `math` has a result: 0 is a run-time error, in the words for `operation`.

    ```mlir
    %0 = mlc.divisor %x of "int //" : tensor<i64>
    ```
    """

    name = "mlc.divisor"
    SOURCE: ClassVar[str] = "The Python Language Reference, 6.7"
    KINDS: ClassVar[tuple[str, ...]] = ("bool", "int", "float", "complex")
    CHECKS: ClassVar[bool] = True
    operation = prop_def(StringAttr)
    assembly_format = "$x `of` $operation attr-dict `:` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        found = super().infer(operands, properties, declared)
        one_of_property(cls.name, properties, "operation", ZERO_FAULTS)
        return found

    @property
    def site(self) -> str:
        return f"zero {self.operation.data}"

    def reference(self, *operands: Array) -> Array:
        (x,) = operands
        if (x == 0).any():
            raise fault_of(self.operation.data)
        return x

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        (x,) = operands
        nothing = b.constant(0, I64)
        b.check(b.compare("ne", x, b.constant(0, self.dtype), self.dtype), self, nothing, nothing)
        return x

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        return full(b, 1, self.dtype, self.shape)

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        if not self.dtype.is_inexact:
            return (None,)
        return (full(b, 1, self.dtype, self.shape),)  # not linear: tangents may be 0


DIVISION: tuple[type[Elementwise], ...] = (FloorDivOp, ModOp, RemOp, PowOp, DivisorOp)
