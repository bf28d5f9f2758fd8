"""Elements as SSA values: the lowering's `ElementBuilder`, for single elements and for vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp
from typing import cast

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    DenseIntOrFPElementsAttr,
    Float16Type,
    FloatAttr,
    IntegerAttr,
    f32,
    i1,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import functions, par, vec
from mlc.dialects.complex_ops import PairOp, PartOp
from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BOOL, F32, I64, U8, DType, dtype_of
from mlc.dialects.lanes import element_of, vector_type
from mlc.dialects.tensor.element import Ix, Point
from mlc.dialects.tensor.op import TensorOp
from mlc.lowering.loops import memory
from mlc.lowering.loops.arithmetic import INDEX, NO_OVERFLOW, Index
from mlc.lowering.loops.buffer import ORIGIN as ORIGIN
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.buffer import buffer_of as buffer_of
from mlc.lowering.loops.builder import EITHER_ZERO, NO_FAST_MATH, LoopBuilder
from mlc.lowering.loops.complex_parts import apply_to_complex, compare_complex
from mlc.lowering.loops.convert import convert

_FLAGGED_INT = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)
_NO_FLAGS = (
    *(arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp),
    *(arith.OrIOp, arith.AndIOp, arith.XOrIOp, arith.ShRSIOp, arith.ShRUIOp),
    *(arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, math.AbsIOp),
    functions.IntegerPowerOp,
)
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
_ORDERED = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_CMPI = {
    "eq": 0,
    "ne": 1,
    "slt": 2,
    "sle": 3,
    "sgt": 4,
    "sge": 5,
    "ult": 6,
    "ule": 7,
    "ugt": 8,
    "uge": 9,
}
_CMPF = {"oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5, "une": 13}
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_FARTHEST = 1 << 62  # a literal whose distance from any position is an i64
_ANY_LANE = CombiningKindAttr(CombiningKindFlag.OR)
_LARGEST = CombiningKindAttr(CombiningKindFlag.MAXSI)


class Lanes:
    """Computes `lanes` elements at a time, those of `mask` if there is one.

    The ops go into the builder's current block. What is the same in every lane is computed once, by
    the builder's `_single`, and spread: a row number stays a number, and its row is read in order.
    """

    def __init__(
        self,
        b: LoopBuilder,
        buffers: dict[SSAValue, Buffer],
        lanes: int,
        *,
        mask: SSAValue | None = None,
        context: SSAValue,
        sites: dict[Operation, int],
        bound: dict[SSAValue, SSAValue] | None = None,
    ) -> None:
        self.b = b
        self.buffers = buffers
        self.lanes = lanes
        self.mask = mask
        self.context = context
        self.sites = sites
        self.bound = bound or {}
        self.nontemporal = False  # whole vectors are stored past the caches
        self._guard: SSAValue | None = None  # nothing is read where it is false
        self._fetched: dict[tuple[SSAValue, Point, SSAValue | None], SSAValue] = {}
        self._single: Lanes | None = None
        self._scalars: dict[SSAValue, SSAValue] = {}  # of values that are the same in every lane
        self._literals: dict[SSAValue, tuple[complex, DType]] = {}
        self._extents: dict[SSAValue, Index] = {}  # of values known to be sizes or positions
        self._runs: dict[SSAValue, Index] = {}  # of consecutive positions: the first

    # types ----------------------------------------------------------------------------------

    def type(self, element: Attribute) -> Attribute:
        """A register type with that element."""
        return element if self.lanes == 1 else vector_type(element, self.lanes)

    def spread(self, value: SSAValue) -> SSAValue:
        """A scalar in every lane."""
        if self.lanes == 1:
            return value
        vector = self.b.splat(value, self.lanes)
        self._scalars[vector] = value
        return vector

    # values that are the same in every lane -------------------------------------------------

    def single(self) -> Lanes:
        """The builder of what all lanes share, for the same block."""
        if self._single is None:
            self._single = Lanes(self.b, self.buffers, 1, context=self.context, sites=self.sites)
        return self._single

    def share(self, single: Lanes) -> None:
        """What all lanes share, another builder makes, which knows some of it."""
        self._single = single

    def _shared(self, *values: SSAValue) -> list[SSAValue] | None:
        """The values as scalars, if all lanes share them and they are not constants alone."""
        if self._scalars.keys().isdisjoint(values):
            return None
        found: list[SSAValue] = []
        for value in values:
            if value in self._scalars:
                found.append(self._scalars[value])
            elif value in self._literals:
                found.append(self.single().constant(*self._literals[value]))
            else:
                return None
        return found

    def _of_single(self, value: SSAValue) -> SSAValue:
        literal = self.single()._literals.get(value)
        return self.spread(value) if literal is None else self.constant(*literal)

    def any_lane(self, condition: SSAValue | None) -> SSAValue | None:
        """Whether it holds in some lane that is in use; None for yes."""
        if condition is None or self.lanes == 1:
            return condition
        if (shared := self._shared(condition)) is not None:
            return shared[0]
        return self._reduce(_ANY_LANE, self.masked(condition) or condition, i1)

    # ElementBuilder -------------------------------------------------------------------------

    def constant(self, value: complex, dtype: DType) -> SSAValue:
        found = self.b.element(value, dtype, self.lanes)
        self._literals[found] = (value, dtype)
        if dtype is I64 and isinstance(value, int) and abs(value) < _FARTHEST:
            self._extents[found] = value
        return found

    def apply(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        if (shared := self._shared(*operands)) is not None:
            return self.spread(self.single().apply(op, *shared))
        element = element_of(operands[0].type)
        if isinstance(element, ComplexType):
            kind = cast("Attribute", element)
            return apply_to_complex(self, op, dtype_of(kind).part, *operands)
        if isinstance(element, Float16Type | BFloat16Type):
            # every op rounds once: computed in f32, whose rounding is innocent for + - * / sqrt
            wide = (self.cast("extf", x, f32) for x in operands)
            return self.cast("truncf", self.apply(op, *wide), element)
        if self.b.numerics != "strict" and (fused := self._fused(op, operands)) is not None:
            return fused
        if op in _FLAGGED_INT:
            properties: dict[str, Attribute] = {"overflowFlags": NO_OVERFLOW}
        elif op in _NO_FLAGS:
            properties = {}
        else:
            # the sign of max(-0, +0) is nobody's business but strict's; NaN still wins (NumPy)
            either_zero = op in (arith.MaximumfOp, arith.MinimumfOp) and self.b.numerics != "strict"
            properties = {"fastmath": EITHER_ZERO if either_zero else NO_FAST_MATH}
        return self.b.value(
            op.create(operands=operands, result_types=[operands[0].type], properties=properties)
        )

    def _fused(self, op: type[Operation], operands: Sequence[SSAValue]) -> SSAValue | None:
        """
        x * y + z rounded once, where a product is added or subtracted: with numerics "standard" one
        that needs no rounding, by 1/2, 1/4 and so on.

        An op, not a flag: the same sums in whole registers and in their rests, whoever computes
        them.
        """
        if op not in (arith.AddfOp, arith.SubfOp):
            return None
        for k, product in enumerate(operands):
            if not isinstance(product.owner, arith.MulfOp):
                continue
            if self.b.numerics != "fast" and not any(map(_only_scales, product.owner.operands)):
                continue
            (x, y), other = product.owner.operands, operands[1 - k]
            if op is arith.SubfOp and k == 0:
                other = self.apply(arith.NegfOp, other)
            elif op is arith.SubfOp:
                x = self.apply(arith.NegfOp, x)
            return self.fma(x, y, other)
        return None

    def fma(self, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        """x * y + z, rounded once; with numerics "strict" twice."""
        if self.b.numerics == "strict":
            return self.apply(arith.AddfOp, self.apply(arith.MulfOp, x, y), z)
        return self.apply(math.FmaOp, x, y, z)

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        if (shared := self._shared(lhs, rhs)) is not None:
            return self.spread(self.single().compare(predicate, shared[0], shared[1], dtype))
        if (found := self._within(predicate, lhs, rhs)) is not None:
            return found
        if dtype.kind == "complex":
            return compare_complex(self, predicate, lhs, rhs, dtype.part)
        if dtype.kind == "bool" or (dtype.kind == "float" and dtype.bytes < 4):
            wide = U8 if dtype is BOOL else F32
            lhs, rhs = self.convert(lhs, dtype, wide), self.convert(rhs, dtype, wide)
        float_ = dtype.kind == "float"
        signs = _SIGNED if dtype.kind == "int" else _UNSIGNED
        spelled = (_ORDERED if float_ else signs)[predicate]
        if self.lanes > 1:
            return self.b.value((vec.CmpfOp if float_ else vec.CmpiOp).of(spelled, lhs, rhs))
        code = IntegerAttr((_CMPF if float_ else _CMPI)[spelled], i64)
        properties: dict[str, Attribute] = {"predicate": code}
        if float_:
            properties["fastmath"] = NO_FAST_MATH
        op = arith.CmpfOp if float_ else arith.CmpiOp
        return self.b.value(
            op.create(operands=[lhs, rhs], result_types=[i1], properties=properties)
        )

    def _within(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue | None:
        """Consecutive positions against a size: the first lanes, or all others."""
        if lhs not in self._runs:
            lhs, rhs, predicate = rhs, lhs, _TURNED.get(predicate, "")
        extent = self._extents.get(rhs)
        if lhs not in self._runs or extent is None or predicate not in _TURNED:
            return None
        count = self.b.sub(extent, self._runs[lhs])
        first = self.b.mask(self.b.add(count, 1 if predicate in ("le", "gt") else 0), self.lanes)
        if predicate in ("lt", "le"):
            return first
        return self.apply(arith.XOrIOp, first, self.b.element(True, BOOL, self.lanes))

    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
        if (shared := self._shared(condition, if_true, if_false)) is not None:
            return self.spread(self.single().select(shared[0], shared[1], shared[2]))
        if self.lanes > 1:
            return self.b.value(vec.SelectOp.of(condition, if_true, if_false))
        return self.b.value(
            arith.SelectOp.create(
                operands=[condition, if_true, if_false], result_types=[if_true.type]
            )
        )

    def cast(self, kind: str, value: SSAValue, element: Attribute) -> SSAValue:
        """An element conversion by the name that arith gives it."""
        if (shared := self._shared(value)) is not None:
            return self.spread(self.single().cast(kind, shared[0], element))
        plain = _SCALAR_CASTS.get(kind)
        target = self.type(element)
        if plain is None or (self.lanes > 1 and kind not in ("extf", "truncf")):
            return self.b.value(vec.CastOp.of(kind, value, target))
        return self.b.value(plain.create(operands=[value], result_types=[target]))

    def convert(self, value: SSAValue, source: DType, target: DType) -> SSAValue:
        return convert(self, value, source, target)

    def bitcast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The same bits as elements of another type of that width."""
        kind = self.type(element)
        return self.b.value(arith.BitcastOp.create(operands=[value], result_types=[kind]))

    def real(self, value: SSAValue) -> SSAValue:
        return self.b.value(PartOp.of(value, "real"))

    def imag(self, value: SSAValue) -> SSAValue:
        return self.b.value(PartOp.of(value, "imag"))

    def pair(self, real: SSAValue, imag: SSAValue) -> SSAValue:
        return self.b.value(PairOp.of(real, imag))

    def size(self, dim: Dim) -> SSAValue:
        return self._as_element(self.b.dim(dim))

    def _as_element(self, index: Index) -> SSAValue:
        if isinstance(index, int):
            return self.constant(index, I64)
        cast = arith.IndexCastOp.create(operands=[index], result_types=[i64])
        found = self.spread(self.b.value(cast))
        self._extents[found] = index
        return found

    def position(self, at: Ix) -> SSAValue:
        assert isinstance(at, Position)
        base = self._as_element(at.base)
        if at.lanes is not None:
            return self.apply(arith.AddiOp, base, self.cast("index_cast", at.lanes, i64))
        if at.step == 0 or self.lanes == 1:
            return base
        number = self.b.value(vec.StepOp.of(self.lanes, i64))
        if at.step != 1:
            number = self.apply(arith.MuliOp, number, self.constant(at.step, I64))
        found = self.apply(arith.AddiOp, base, number)
        if at.step == 1:
            self._runs[found] = at.base
        return found

    def at_element(self, value: SSAValue) -> Ix:
        if (shared := self._shared(value)) is not None:
            return self.single().at_element(shared[0])
        index = self.cast("index_cast", value, INDEX)
        return Position(index) if self.lanes == 1 else Position(0, lanes=index)

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        shift = self.b.dim(offset)
        if scale == 0:
            return Position(shift)
        assert isinstance(at, Position)
        base = self.b.add(self.b.mul(at.base, scale), shift)
        lanes = at.lanes
        if lanes is not None and scale != 1:
            factor = self.spread(self.b.index(scale))
            lanes = self.apply(arith.MuliOp, lanes, factor)
        return Position(base, at.step * scale, lanes)

    def shift(self, at: Ix, by: SSAValue) -> Ix:
        assert isinstance(at, Position)
        if (shared := self._shared(by)) is not None:
            return self.single().shift(at, shared[0])
        if self.lanes > 1:
            by = self.b.lane(by, 0)
        cast = arith.IndexCastOp.create(operands=[by], result_types=[INDEX])
        return Position(self.b.add(at.base, self.b.value(cast)), at.step, at.lanes)

    def plus(self, a: Ix, b: Ix) -> Ix:
        assert isinstance(a, Position)
        assert isinstance(b, Position)
        lanes = a.lanes or b.lanes
        if a.lanes is not None and b.lanes is not None:
            lanes = self.apply(arith.AddiOp, a.lanes, b.lanes)
        elif lanes is not None and a.step + b.step:
            number = self.b.value(vec.StepOp.of(self.lanes))
            lanes = self.apply(arith.AddiOp, lanes, self.times(number, a.step + b.step))
        step = 0 if lanes is not None else a.step + b.step
        return Position(self.b.add(a.base, b.base), step, lanes)

    def check(self, ok: SSAValue, site: Operation, value: SSAValue, extent: SSAValue) -> None:
        if (shared := self._shared(ok, value, extent)) is not None:
            single = self.single()
            single._guard = self.any_lane(self._guard)
            single.check(shared[0], site, shared[1], shared[2])
            single._guard = None
            return
        number = self.sites[site]
        bad = self.apply(arith.XOrIOp, ok, self.constant(True, BOOL))
        if self._guard is not None:
            bad = self.apply(arith.AndIOp, bad, self._guard)
        if self.lanes > 1:
            if self.mask is not None:
                bad = self.apply(arith.AndIOp, bad, self.mask)
            lowest = self.constant(I64.lowest, I64)
            value = self._reduce(_LARGEST, self.select(bad, value, lowest), i64)
            extent = self._reduce(_LARGEST, extent, i64)
            bad = self._reduce(_ANY_LANE, bad, i1)

        def fail() -> None:
            indices = [
                self.b.value(arith.IndexCastOp.create(operands=[x], result_types=[INDEX]))
                for x in (value, extent)
            ]
            self.b.add_op(par.FailOp.of(self.context, number, *indices))

        self.b.when(bad, fail, rarely=True)

    def _reduce(self, kind: CombiningKindAttr, value: SSAValue, element: Attribute) -> SSAValue:
        return self.b.value(
            vector.ReductionOp.create(
                operands=[value],
                result_types=[element],
                properties={"kind": kind, "fastmath": NO_FAST_MATH},
            )
        )

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        bound = self.bound.get(tensor)
        if bound is not None:
            return bound
        guard = self._guard
        if where is not None:
            guard = where if guard is None else self.apply(arith.AndIOp, guard, where)
        key = (tensor, at, guard)
        for known in (key, (tensor, at, None)):
            if known in self._fetched:
                return self._fetched[known]
        buffer = self.buffers.get(tensor)
        if self.lanes > 1 and not self.bound and all(map(_is_fixed, at)):
            value = self._of_single(self.single().fetch(tensor, at, self.any_lane(guard)))
        elif buffer is not None:
            value = self.load(buffer, at, guard)
        else:
            op = tensor.owner
            assert isinstance(op, TensorOp), f"no element of {tensor}"
            outer, self._guard = self._guard, guard
            value = op.element(self, at)
            self._guard = outer
        self._fetched[key] = value
        return value

    # memory ---------------------------------------------------------------------------------

    def load(self, buffer: Buffer, at: Point, where: SSAValue | None = None) -> SSAValue:
        """The elements at a point, in the register's type."""
        return memory.load(self, buffer, at, where)

    def store(self, value: SSAValue, buffer: Buffer, at: Point) -> None:
        """Writes the elements of a point."""
        memory.store(self, value, buffer, at)

    def masked(self, where: SSAValue | None) -> SSAValue | None:
        """The lanes that are in use and for which `where` holds; None for all."""
        if where is None or self.mask is None:
            return self.mask if where is None else where
        return self.apply(arith.AndIOp, where, self.mask)

    def times(self, lanes: SSAValue, factor: Index) -> SSAValue:
        """Positions of lanes, times an index."""
        if factor == 1:
            return lanes
        return self.apply(arith.MuliOp, lanes, self.spread(self.b.index(factor)))


_SCALAR_CASTS: dict[str, type[Operation]] = {
    "extf": arith.ExtFOp,
    "truncf": arith.TruncFOp,
    "extsi": arith.ExtSIOp,
    "extui": arith.ExtUIOp,
    "trunci": arith.TruncIOp,
    "sitofp": arith.SIToFPOp,
    "uitofp": arith.UIToFPOp,
    "index_cast": arith.IndexCastOp,
}


def _only_scales(value: SSAValue) -> bool:
    """Whether a product by a value is exact, unless it is subnormal: by a power of two up to 1."""
    if not isinstance(value.owner, arith.ConstantOp):
        return False
    match value.owner.value:
        case FloatAttr() as one:
            number = one.value.data
        case DenseIntOrFPElementsAttr() as several if several.is_splat():
            (number,) = several.get_values()[:1]
        case _:
            return False
    return isinstance(number, float) and 0 < abs(number) <= 1 and frexp(abs(number))[0] == 0.5


def _is_fixed(at: Ix) -> bool:
    """Whether the position is the same in every lane."""
    return isinstance(at, Position) and at.step == 0 and at.lanes is None
