"""
Building lane-wise arithmetic on scalars and vectors alike: `b.add(x, y)` is one op in front of the
op that is being replaced. Constants go to the start of the function, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import cast

from xdsl.dialects import arith, math, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import functions, vec
from mlc.dialects.lanes import lanes_of, like
from mlc.dialects.target.facts import MathUnit
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """An IEEE 754 binary format and the integer type of its width."""

    float_type: AnyFloat
    int_type: IntegerType
    mantissa_bits: int
    """Stored bits of the significand."""
    exponent_bias: int

    @property
    def bits(self) -> int:
        """Width of the format."""
        return self.int_type.bitwidth


BINARY32 = FloatFormat(float_type=f32, int_type=i32, mantissa_bits=23, exponent_bias=127)
BINARY64 = FloatFormat(float_type=f64, int_type=i64, mantissa_bits=52, exponent_bias=1023)


COMPUTED = (BFloat16Type, Float16Type, Float32Type, Float64Type)
"""The types that functions are computed on."""


def format_of(element_type: Attribute) -> FloatFormat:
    """The format that functions on this type are computed in: f64 in itself, others in f32."""
    return BINARY64 if isinstance(element_type, Float64Type) else BINARY32


@cache
def _constant_attribute(text: str, value_type: Attribute) -> Attribute:
    """`text` spells the value (repr), so that 0.0 and -0.0 differ."""
    lanes = lanes_of(value_type)
    if lanes is None:
        if isinstance(value_type, IntegerType):
            return IntegerAttr(int(text), value_type.bitwidth)
        if isinstance(value_type, IndexType):
            return IntegerAttr(int(text), value_type)
        return FloatAttr(float(text), cast("Float64Type", value_type))
    vector = cast("VectorType[Float64Type]", value_type)
    value = int(text) if isinstance(vector.element_type, IntegerType) else float(text)
    return DenseIntOrFPElementsAttr.from_list(vector, [value])


@dataclass
class Constants:
    """The constants of one function, in front of everything else."""

    block: Block
    """Entry block of the function."""
    known: dict[tuple[str, Attribute], SSAValue] = field(
        default_factory=dict[tuple[str, Attribute], SSAValue]
    )

    def get(self, value: float, value_type: Attribute) -> SSAValue:
        """The value in each lane of the type."""
        key = (repr(value), value_type)
        found = self.known.get(key)
        if found is None:
            op = arith.ConstantOp.create(
                result_types=(value_type,), properties={"value": _constant_attribute(*key)}
            )
            first = self.block.first_op
            if first is None:
                self.block.add_op(op)
            else:
                self.block.insert_op_before(op, first)
            found = self.known[key] = op.result
        return found


_ANY = CombiningKindAttr(CombiningKindFlag.OR)
_NO_FLAGS: Mapping[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
_NO_OVERFLOW: Mapping[str, Attribute] = {"overflowFlags": arith.IntegerOverflowAttr("none")}


class LaneBuilder:
    """Ops on values of one shape: a scalar, or vectors with the same number of lanes."""

    def __init__(
        self,
        shape: Attribute,
        before: Operation | Block,
        constants: Constants,
        *,
        unit: MathUnit = MathUnit.NONE,
    ) -> None:
        """
        `shape`: a scalar or vector type; ops go in front of `before`, or to a block's end;
        `unit`: the target's.
        """
        self.unit = unit
        self._shape = shape
        self._before = before
        self._constants = constants
        self.lanes = lanes_of(shape)
        element = shape if self.lanes is None else cast("VectorType[Attribute]", shape).element_type
        self.format = format_of(element)
        self.float_type = like(shape, self.format.float_type)
        self.int_type = like(shape, self.format.int_type)

    def _add(self, op: Operation) -> SSAValue:
        before = self._before
        if isinstance(before, Block):
            before.add_op(op)
        else:
            block = before.parent
            assert block is not None
            block.insert_op_before(op, before)
        return op.results[0]

    def in_binary64(self) -> LaneBuilder:
        """A builder of the same lanes in f64."""
        return self._like(like(self._shape, f64), self._before)

    def _like(self, shape: Attribute, before: Operation | Block) -> LaneBuilder:
        return LaneBuilder(shape, before, self._constants, unit=self.unit)

    def _float(self, op_class: type[Operation], *operands: SSAValue) -> SSAValue:
        return self._add(
            op_class.create(
                operands=operands, result_types=(operands[0].type,), properties=_NO_FLAGS
            )
        )

    def constant(self, value: float) -> SSAValue:
        """A float in every lane."""
        return self._constants.get(float(value), self.float_type)

    def integer(self, value: int) -> SSAValue:
        """An integer of the float's width in every lane."""
        return self._constants.get(value, self.int_type)

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a + b"""
        return self._float(arith.AddfOp, a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a - b"""
        return self._float(arith.SubfOp, a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a * b"""
        return self._float(arith.MulfOp, a, b)

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a / b"""
        return self._float(arith.DivfOp, a, b)

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a * b + c, rounded once"""
        return self._float(math.FmaOp, a, b, c)

    def negate(self, a: SSAValue) -> SSAValue:
        """-a"""
        return self._float(arith.NegfOp, a)

    def abs(self, a: SSAValue) -> SSAValue:
        """|a|"""
        return self._float(math.AbsFOp, a)

    def sqrt(self, a: SSAValue) -> SSAValue:
        """The square root, correctly rounded."""
        return self._float(math.SqrtOp, a)

    def round_even(self, a: SSAValue) -> SSAValue:
        """The nearest integer as a float, the even one of two."""
        return self._float(math.RoundEvenOp, a)

    def trunc(self, a: SSAValue) -> SSAValue:
        """The integer part, as a float."""
        return self._float(math.TruncOp, a)

    def floor(self, a: SSAValue) -> SSAValue:
        """The largest integer <= a, as a float."""
        return self._float(math.FloorOp, a)

    def copysign(self, magnitude: SSAValue, sign: SSAValue) -> SSAValue:
        """|magnitude| with the sign of `sign`"""
        return self._float(math.CopySignOp, magnitude, sign)

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """
        sum of coefficients[k] x^k by Horner's rule, long ones in two or four interleaved chains:
        the processor holds too few iterations of a long function to hide one chain's latency.

        SOURCE: G. Estrin, Proc. Western Joint Computer Conference, 1960.
        """
        short = len(coefficients) < 6 or self.unit is MathUnit.SPECIAL
        ways = 1 if short else 2 if len(coefficients) < 11 else 4
        if ways == 1:
            return self._horner(x, coefficients)
        square = self.mul(x, x)
        step = square if ways == 2 else self.mul(square, square)
        chains = [self._horner(step, coefficients[k::ways]) for k in range(ways)]
        pairs = [self.fma(chains[k + 1], x, chains[k]) for k in range(0, ways, 2)]
        return pairs[0] if ways == 2 else self.fma(pairs[1], square, pairs[0])

    def _horner(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        total = self.constant(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            total = self.fma(total, x, self.constant(coefficient))
        return total

    def _integer(
        self, op_class: type[Operation], a: SSAValue, b: SSAValue, *, overflow: bool = False
    ) -> SSAValue:
        return self._add(
            op_class.create(
                operands=(a, b),
                result_types=(self.int_type,),
                properties=_NO_OVERFLOW if overflow else {},
            )
        )

    def int_add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a + b, wrapping"""
        return self._integer(arith.AddiOp, a, b, overflow=True)

    def int_sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a - b, wrapping"""
        return self._integer(arith.SubiOp, a, b, overflow=True)

    def int_and(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a & b"""
        return self._integer(arith.AndIOp, a, b)

    def int_or(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a | b"""
        return self._integer(arith.OrIOp, a, b)

    def int_xor(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a ^ b"""
        return self._integer(arith.XOrIOp, a, b)

    def shift_left(self, a: SSAValue, count: int) -> SSAValue:
        """a << count"""
        return self._integer(arith.ShLIOp, a, self.integer(count), overflow=True)

    def shift_right_signed(self, a: SSAValue, count: int) -> SSAValue:
        """a >> count, keeping the sign"""
        return self._integer(arith.ShRSIOp, a, self.integer(count))

    def bits(self, a: SSAValue) -> SSAValue:
        """The float's bits as an integer."""
        return self._add(arith.BitcastOp.create(operands=(a,), result_types=(self.int_type,)))

    def from_bits(self, a: SSAValue) -> SSAValue:
        """The float with these bits."""
        return self._add(arith.BitcastOp.create(operands=(a,), result_types=(self.float_type,)))

    def to_float(self, a: SSAValue) -> SSAValue:
        """Signed integer to float."""
        if self.lanes is None:
            return self._add(arith.SIToFPOp.create(operands=(a,), result_types=(self.float_type,)))
        return self._add(vec.CastOp.of("sitofp", a, self.float_type))

    def scale(self, a: SSAValue, n: SSAValue) -> SSAValue:
        """a 2^floor(n), rounded once; `MathUnit.LANE_TABLES` only, as the next five."""
        return self._float(functions.ScaleOp, a, n)

    def exponent(self, a: SSAValue) -> SSAValue:
        """floor(log2 |a|)"""
        return self._float(functions.ExponentOp, a)

    def significand(self, a: SSAValue) -> SSAValue:
        """a 2^-k in [3/4, 3/2)"""
        return self._float(functions.SignificandOp, a)

    def reciprocal_estimate(self, a: SSAValue) -> SSAValue:
        """1 / a within a relative 2^-14"""
        return self._float(functions.ReciprocalEstimateOp, a)

    def root_estimate(self, a: SSAValue) -> SSAValue:
        """1 / sqrt(a) within a relative 2^-14"""
        return self._float(functions.RootEstimateOp, a)

    def exp2_estimate(self, a: SSAValue) -> SSAValue:
        """2^a within a relative 2^-22, subnormal results 0; `MathUnit.SPECIAL` only."""
        return self._float(functions.Exp2EstimateOp, a)

    def saturate(self, a: SSAValue) -> SSAValue:
        """min(max(a, 0), 1), 0 for NaN; `MathUnit.SPECIAL` only."""
        return self._float(functions.SaturateOp, a)

    def lookup(self, index: SSAValue, table: tuple[float, ...]) -> SSAValue:
        """table[index modulo its length]"""
        return self._add(functions.LookupOp.of(index, table, self.float_type))

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """The mask of lanes where `a predicate b` (olt, oge, uno, …)."""
        if self.lanes is None:
            return self._add(arith.CmpfOp(a, b, predicate))
        return self._add(vec.CmpfOp.of(predicate, a, b))

    def int_compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """The mask of lanes where `a predicate b` (eq, slt, …)."""
        if self.lanes is None:
            return self._add(arith.CmpiOp(a, b, predicate))
        return self._add(vec.CmpiOp.of(predicate, a, b))

    def is_odd(self, a: SSAValue) -> SSAValue:
        """The mask of lanes whose integer is odd."""
        return self.int_compare("ne", self.int_and(a, self.integer(1)), self.integer(0))

    def below(self, a: SSAValue, bound: float) -> SSAValue:
        """The mask of lanes where a < bound; off for NaN."""
        return self.compare("olt", a, self.constant(bound))

    def equals(self, a: SSAValue, value: float) -> SSAValue:
        """The mask of lanes where a == value."""
        return self.compare("oeq", a, self.constant(value))

    def _mask(self, op_class: type[Operation], a: SSAValue, b: SSAValue) -> SSAValue:
        return self._add(op_class.create(operands=(a, b), result_types=(a.type,)))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Masks: a and b."""
        return self._mask(arith.AndIOp, a, b)

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Masks: a or b."""
        return self._mask(arith.OrIOp, a, b)

    def differ(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Masks: one of a and b, not both."""
        return self._mask(arith.XOrIOp, a, b)

    def where_any(
        self,
        mask: SSAValue,
        then: Callable[[LaneBuilder], Sequence[SSAValue]],
        otherwise: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        """
        `then` where the mask is on, else `otherwise`. The work of `then` is done only when some
        lane wants it: one branch for all lanes, for paths that are long and rare.
        """
        some = mask
        if self.lanes is not None:
            some = self._add(
                vector.ReductionOp.create(
                    operands=(mask,),
                    result_types=(i1,),
                    properties={"kind": _ANY, "fastmath": arith.FastMathFlagsAttr("none")},
                )
            )
        rare, common = Block(), Block()
        inside = self._like(self._shape, rare)
        chosen = inside.choose(mask, then(inside), otherwise)
        rare.add_op(scf.YieldOp.create(operands=chosen))
        common.add_op(scf.YieldOp.create(operands=otherwise))
        branch = scf.IfOp.create(
            operands=(some,),
            result_types=[value.type for value in otherwise],
            regions=[Region(rare), Region(common)],
        )
        self._add(branch)
        return branch.results

    def repeat(
        self,
        count: int,
        body: Callable[[LaneBuilder, Sequence[SSAValue]], Sequence[SSAValue]],
        start: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        """`body` applied `count` times to the values, as a loop."""
        index = IndexType()
        types = [value.type for value in start]
        block = Block(arg_types=(index, *types))
        inside = self._like(self._shape, block)
        block.add_op(scf.YieldOp.create(operands=body(inside, block.args[1:])))
        bounds = [self._constants.get(n, index) for n in (0, count, 1)]
        loop = scf.ForOp.create(
            operands=(*bounds, *start), result_types=types, regions=[Region(block)]
        )
        self._add(loop)
        return loop.results

    def select(self, mask: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """a where the mask is on, else b"""
        if self.lanes is None:
            return self._add(arith.SelectOp.create(operands=(mask, a, b), result_types=(a.type,)))
        return self._add(vec.SelectOp.of(mask, a, b))

    def choose(
        self, mask: SSAValue, a: Sequence[SSAValue], b: Sequence[SSAValue]
    ) -> tuple[SSAValue, ...]:
        """`select` of each of several values."""
        return tuple(self.select(mask, x, y) for x, y in zip(a, b, strict=True))

    def at_most(self, a: SSAValue, bound: float) -> SSAValue:
        """min(a, bound); NaN stays NaN. One minps on x86."""
        limit = self.constant(bound)
        return self.select(self.compare("olt", limit, a), limit, a)

    def at_least(self, a: SSAValue, bound: float) -> SSAValue:
        """max(a, bound); NaN stays NaN. One maxps on x86."""
        limit = self.constant(bound)
        return self.select(self.compare("ogt", limit, a), limit, a)

    def widen(self, a: SSAValue) -> SSAValue:
        """A float of a narrower type (f16, bf16) in the builder's format."""
        if a.type == self.float_type:
            return a
        return self._add(arith.ExtFOp.create(operands=(a,), result_types=(self.float_type,)))

    def narrow(self, a: SSAValue, value_type: Attribute) -> SSAValue:
        """Rounded to a narrower type."""
        if a.type == value_type:
            return a
        return self._add(arith.TruncFOp.create(operands=(a,), result_types=(value_type,)))
