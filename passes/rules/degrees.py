"""
The degree of what a program computes, as a polynomial or a quotient of two in its inputs: what the
bound of Schwartz and Zippel needs.

An `ElementBuilder` whose values are degrees: ops are not defined again here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects import math as functions
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import DType
from mlc.dialects.functions import IntegerPowerOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.element import Ix, Point
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.rules.residues import MOST_EXPONENT


@dataclass(frozen=True)
class Degree:
    """Of numerator and denominator."""

    top: int
    bottom: int = 0

    def __add__(self, other: Degree) -> Degree:
        if not self.bottom and not other.bottom:
            return Degree(max(self.top, other.top))
        top = max(self.top + other.bottom, other.top + self.bottom)
        return Degree(top, self.bottom + other.bottom)

    def __mul__(self, other: Degree) -> Degree:
        return Degree(self.top + other.top, self.bottom + other.bottom)


ZERO = Degree(0)
_SUMS = (arith.AddfOp, arith.AddiOp, arith.SubfOp, arith.SubiOp)
_PRODUCTS = (arith.MulfOp, arith.MuliOp)
_NOTHING = Ix()


class Degrees:
    """
    The degrees of a program's values. `inside` are those of the arguments of unknown functions and
    of comparisons: two that differ may meet at a test, which the bound counts.
    """

    def __init__(self, arguments: Sequence[SSAValue]) -> None:
        self.values: dict[SSAValue, Degree] = dict.fromkeys(arguments, Degree(1))
        self.inside = 0

    def run(self, ops: Sequence[Operation]) -> None:
        """Follows the ops."""
        for op in ops:
            assert isinstance(op, TensorOp)
            self.values[op.results[0]] = self.of_op(op)

    def of_op(self, op: TensorOp) -> Degree:
        """The degree of each element of the result, at most."""
        if isinstance(op, ConstantOp):
            return ZERO
        if isinstance(op, ReshapeOp | ConcatOp):
            return self.chosen(*(self.values[x] for x in op.operands))
        space = [n.evaluate({}) for n in op.iteration()]
        value = cast("Degree", op.element(self, (_NOTHING,) * len(space)))
        if not isinstance(op, Reduction):
            return value
        count = 1
        for n in space[len(op.shape) :]:
            count *= n
        return self.combined(op, value, count)

    def combined(self, op: Reduction, value: Degree, count: int) -> Degree:
        monoid, dtype = op.combiner(), op.summand()
        state: tuple[Any, ...] = monoid.lift(self, cast("Any", value), lambda: cast("Any", ZERO))
        first = state
        for _ in range(count - 1):
            state = monoid.combine(self, dtype, state, first)
        return cast("Degree", monoid.finalise(self, state))

    def chosen(self, *degrees: Degree) -> Degree:
        """Of one of several values."""
        return Degree(max(d.top for d in degrees), max(d.bottom for d in degrees))

    def unknown(self, *degrees: Degree) -> Degree:
        """Of an unknown function: a new variable."""
        self.inside += sum(d.top + d.bottom for d in degrees)
        return Degree(1)

    # What ops say -------------------------------------------------------------------------------

    def constant(self, value: complex, dtype: DType) -> Any:
        return ZERO

    def apply(self, op: type[Operation], *operands: Any) -> Any:
        if op in _SUMS:
            return operands[0] + operands[1]
        if op in _PRODUCTS:
            return operands[0] * operands[1]
        if op is arith.NegfOp:
            return operands[0]
        if op is arith.DivfOp:
            return operands[0] * Degree(operands[1].bottom, operands[1].top)
        if op in (functions.PowFOp, IntegerPowerOp):  # products of that many, at most
            x = operands[0]
            self.unknown(*operands)
            return Degree(MOST_EXPONENT * x.top, MOST_EXPONENT * x.bottom)
        if len(operands) == 2 or op in (functions.AbsFOp, functions.AbsIOp):
            self.unknown(*operands)
            return self.chosen(*operands)
        return self.unknown(*operands)

    def compare(self, predicate: str, lhs: Any, rhs: Any, dtype: DType) -> Any:
        self.unknown(lhs, rhs)
        return ZERO

    def select(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        return self.chosen(if_true, if_false)

    def convert(self, value: Any, source: DType, target: DType) -> Any:
        return value

    def real(self, value: Any) -> Any:
        return value

    def imag(self, value: Any) -> Any:
        return value

    def pair(self, real: Any, imag: Any) -> Any:
        return self.chosen(real, imag)

    def bitcast(self, value: Any, element: Attribute) -> Any:
        return self.unknown(value)

    def check(self, ok: Any, site: Operation, value: Any, extent: Any) -> None:
        pass

    def size(self, dim: Dim) -> Any:
        return ZERO

    def position(self, at: Ix) -> Any:
        return ZERO

    def at_element(self, value: Any) -> Ix:
        return _NOTHING

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        return _NOTHING

    def shift(self, at: Ix, by: Any) -> Ix:
        return _NOTHING

    def plus(self, a: Ix, b: Ix) -> Ix:
        return _NOTHING

    def fetch(self, tensor: SSAValue, at: Point, where: Any = None) -> Any:
        return self.values[tensor]


def degree_of(
    ops: Sequence[Operation],
    arguments: Sequence[SSAValue],
    pairs: Sequence[tuple[SSAValue, SSAValue]],
) -> int:
    """
    The k of the bound (k/p)^t for two sides of a rule: the degree of their difference over one
    denominator, and of what unknown functions are asked.
    """
    degrees = Degrees(arguments)
    degrees.run(ops)
    most = 0
    for left, right in pairs:
        x, y = degrees.values[left], degrees.values[right]
        most = max(most, x.top + y.bottom, y.top + x.bottom)
    return most + degrees.inside
