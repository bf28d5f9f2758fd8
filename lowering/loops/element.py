"""Elements as SSA values: the lowering's `ElementBuilder`, for single elements and for vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    DenseArrayBase,
    Float16Type,
    IntegerAttr,
    MemRefType,
    f32,
    i1,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import par, vec
from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.dtypes import BOOL, F32, I64, U8, DType, dtype_of
from mlc.dialects.lanes import element_of, vector_type
from mlc.dialects.parts import PairOp, PartOp
from mlc.dialects.tensor.element import Ix, Point
from mlc.dialects.tensor.op import TensorOp, tensor_of
from mlc.lowering.loops.arithmetic import INDEX, NO_OVERFLOW, Index
from mlc.lowering.loops.builder import EITHER_ZERO, NO_FAST_MATH, LoopBuilder, memory_type
from mlc.lowering.loops.complex_parts import apply_to_complex, compare_complex
from mlc.lowering.loops.convert import convert

_FLAGGED_INT = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)
_NO_FLAGS = (
    *(arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp),
    *(arith.OrIOp, arith.AndIOp, arith.XOrIOp, arith.ShRSIOp, arith.ShRUIOp),
    *(arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, math.AbsIOp),
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
_ANY_LANE = CombiningKindAttr(CombiningKindFlag.OR)
_LARGEST = CombiningKindAttr(CombiningKindFlag.MAXSI)


@dataclass(frozen=True)
class Position(Ix):
    """base + step * lane number, or base + lanes where the positions were read from memory."""

    base: Index
    step: int = 0
    lanes: SSAValue | None = None


ORIGIN = Position(0)


@dataclass(frozen=True)
class Buffer:
    """A kernel's input or output in memory."""

    memref: SSAValue
    dtype: DType
    groups: tuple[tuple[int, ...], ...]  # the tensor axes that each memref axis walks
    sizes: tuple[Index, ...]  # of every tensor axis
    strides: tuple[Index, ...]  # of every memref axis, in elements

    def indices(self, b: LoopBuilder, at: Sequence[Position]) -> tuple[list[Index], list[int]]:
        """For each memref axis the index of lane 0, and how far it moves from lane to lane."""
        bases: list[Index] = []
        steps: list[int] = []
        for group in self.groups:
            base: Index = 0
            step = 0
            for axis in group:
                base = b.add(b.mul(base, self.sizes[axis]), at[axis].base)
                step = at[axis].step  # in a joined group only the last axis moves
            bases.append(base)
            steps.append(step)
        return bases, steps


class Lanes:
    """Computes `lanes` elements at a time, those of `mask` if there is one.

    The ops go into the builder's current block.
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
        self._guard: SSAValue | None = None  # nothing is read where it is false
        self._fetched: dict[tuple[SSAValue, Point, SSAValue | None], SSAValue] = {}

    # types ----------------------------------------------------------------------------------

    def type(self, element: Attribute) -> Attribute:
        """A register type with that element."""
        return element if self.lanes == 1 else vector_type(element, self.lanes)

    def spread(self, value: SSAValue) -> SSAValue:
        """A scalar in every lane."""
        return value if self.lanes == 1 else self.b.splat(value, self.lanes)

    # ElementBuilder -------------------------------------------------------------------------

    def constant(self, value: complex, dtype: DType) -> SSAValue:
        return self.b.element(value, dtype, self.lanes)

    def apply(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        element = element_of(operands[0].type)
        if isinstance(element, ComplexType):
            kind = cast("Attribute", element)
            return apply_to_complex(self, op, dtype_of(kind).part, *operands)
        if isinstance(element, Float16Type | BFloat16Type):
            # every op rounds once: computed in f32, whose rounding is innocent for + - * / sqrt
            wide = (self.cast("extf", x, f32) for x in operands)
            return self.cast("truncf", self.apply(op, *wide), element)
        if op in _FLAGGED_INT:
            properties: dict[str, Attribute] = {"overflowFlags": NO_OVERFLOW}
        elif op in _NO_FLAGS:
            properties = {}
        else:
            # the sign of max(-0, +0) is nobody's business; NaN still wins (NumPy)
            either_zero = op in (arith.MaximumfOp, arith.MinimumfOp)
            properties = {"fastmath": EITHER_ZERO if either_zero else NO_FAST_MATH}
        return self.b.value(
            op.create(operands=operands, result_types=[operands[0].type], properties=properties)
        )

    def fma(self, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        """x * y + z, rounded once."""
        return self.apply(math.FmaOp, x, y, z)

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
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

    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
        if self.lanes > 1:
            return self.b.value(vec.SelectOp.of(condition, if_true, if_false))
        return self.b.value(
            arith.SelectOp.create(
                operands=[condition, if_true, if_false], result_types=[if_true.type]
            )
        )

    def cast(self, kind: str, value: SSAValue, element: Attribute) -> SSAValue:
        """An element conversion by the name that arith gives it."""
        plain = _SCALAR_CASTS.get(kind)
        target = self.type(element)
        if plain is None or (self.lanes > 1 and kind not in ("extf", "truncf")):
            return self.b.value(vec.CastOp.of(kind, value, target))
        properties: dict[str, Attribute] = (
            {"fastmath": NO_FAST_MATH} if kind in ("extf", "truncf") else {}
        )
        return self.b.value(
            plain.create(operands=[value], result_types=[target], properties=properties)
        )

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
        return self.spread(self.b.value(cast))

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
        return self.apply(arith.AddiOp, base, number)

    def at_element(self, value: SSAValue) -> Ix:
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
        if self.lanes > 1:
            by = self.b.value(
                vector.ExtractOp.create(
                    operands=[by],
                    result_types=[i64],
                    properties={"static_position": DenseArrayBase.from_list(i64, [0])},
                )
            )
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
            lanes = self.apply(arith.AddiOp, lanes, self._times(number, a.step + b.step))
        step = 0 if lanes is not None else a.step + b.step
        return Position(self.b.add(a.base, b.base), step, lanes)

    def check(self, ok: SSAValue, site: Operation, value: SSAValue, extent: SSAValue) -> None:
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

        self.b.when(bad, fail)

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
        if key in self._fetched:
            return self._fetched[key]
        buffer = self.buffers.get(tensor)
        if buffer is not None:
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
        positions = [p for p in at if isinstance(p, Position)]
        bases, steps = buffer.indices(self.b, positions)
        element = memory_type(buffer.dtype)
        if self.lanes == 1:
            value = self._load_one(buffer, bases, element, where)
        elif any(p.lanes is not None for p in positions):
            value = self._gather(
                buffer, bases, self._offsets(buffer, positions, steps), element, where
            )
        elif not any(steps):
            any_lane = None if where is None else self._reduce(_ANY_LANE, where, i1)
            value = self.spread(self._load_one(buffer, bases, element, any_lane))
        elif self._unit(buffer, steps):
            kind = vector_type(element, self.lanes)
            mask = self._masked(where)
            fill = self._zero(element) if mask is not None else None
            value = self.b.load_vector(buffer.memref, bases, kind, mask, fill)
        else:
            value = self._gather(
                buffer, bases, self._offsets(buffer, positions, steps), element, where
            )
        return self._from_memory(value, buffer.dtype)

    def store(self, value: SSAValue, buffer: Buffer, at: Point) -> None:
        """Writes the elements of a point."""
        positions = [p for p in at if isinstance(p, Position)]
        bases, steps = buffer.indices(self.b, positions)
        if buffer.dtype is BOOL:
            value = self.cast("extui", value, memory_type(BOOL))
        if self.lanes == 1:
            self.b.store(value, buffer.memref, bases)
        elif self._unit(buffer, steps):
            self.b.store_vector(value, buffer.memref, bases, self.mask)
        else:
            mask = self.mask if self.mask is not None else self.constant(True, BOOL)
            offsets = self._offsets(buffer, positions, steps)
            indices = [self.b.index(i) for i in bases]
            self.b.add_op(vec.ScatterOp.of(value, buffer.memref, indices, offsets, mask))

    def _unit(self, buffer: Buffer, steps: Sequence[int]) -> bool:
        return steps[-1] == 1 and not any(steps[:-1]) and buffer.strides[-1] == 1

    def _load_one(
        self, buffer: Buffer, bases: Sequence[Index], element: Attribute, where: SSAValue | None
    ) -> SSAValue:
        if where is None:
            return self.b.load(buffer.memref, bases)
        zero = self.b.element(0, dtype_of(element), 1)  # of bool: a byte
        return self.b.pick(where, lambda: self.b.load(buffer.memref, bases), lambda: zero)

    def _masked(self, where: SSAValue | None) -> SSAValue | None:
        """The lanes that are in use and for which `where` holds; None for all."""
        if where is None or self.mask is None:
            return self.mask if where is None else where
        return self.apply(arith.AndIOp, where, self.mask)

    def _zero(self, element: Attribute) -> SSAValue:
        return self.constant(0, dtype_of(element))  # of bool: a byte

    def _offsets(self, buffer: Buffer, at: Sequence[Position], steps: Sequence[int]) -> SSAValue:
        """How far each lane lies from lane 0's base, in elements."""
        delta: Index = 0
        for step, stride in zip(steps, buffer.strides, strict=True):
            delta = self.b.add(delta, self.b.mul(stride, step))
        total: SSAValue | None = None
        if delta != 0:
            number = self.b.value(vec.StepOp.of(self.lanes))
            total = number if delta == 1 else self._times(number, delta)
        for group, stride in zip(buffer.groups, buffer.strides, strict=True):
            inner: Index = stride
            for axis in reversed(group):
                lanes = at[axis].lanes
                if lanes is not None:
                    term = self._times(lanes, inner)
                    total = term if total is None else self.apply(arith.AddiOp, total, term)
                inner = self.b.mul(inner, buffer.sizes[axis])
        assert total is not None
        return total

    def _times(self, lanes: SSAValue, factor: Index) -> SSAValue:
        if factor == 1:
            return lanes
        return self.apply(arith.MuliOp, lanes, self.spread(self.b.index(factor)))

    def _gather(
        self,
        buffer: Buffer,
        bases: Sequence[Index],
        offsets: SSAValue,
        element: Attribute,
        where: SSAValue | None,
    ) -> SSAValue:
        mask = self._masked(where)
        if mask is None:
            mask = self.constant(True, BOOL)
        indices = [self.b.index(i) for i in bases]
        return self.b.value(
            vec.GatherOp.of(buffer.memref, indices, offsets, mask, self._zero(element))
        )

    def _from_memory(self, value: SSAValue, dtype: DType) -> SSAValue:
        if dtype is not BOOL:
            return value
        zero = self._zero(memory_type(BOOL))
        if self.lanes > 1:
            return self.b.value(vec.CmpiOp.of("ne", value, zero))
        code = IntegerAttr(_CMPI["ne"], i64)
        return self.b.value(
            arith.CmpiOp.create(
                operands=[value, zero], result_types=[i1], properties={"predicate": code}
            )
        )


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


def buffer_of(
    b: LoopBuilder,
    memref: SSAValue,
    tensor: SSAValue,
    merged: Sequence[tuple[int, ...]],
    strides: Sequence[Index] | None,
) -> Buffer:
    """A kernel's memref argument with its tensor axes; `strides` where it is not row-major."""
    shape = shape_of(tensor.type)
    sizes = tuple(b.dim(dim) for dim in shape)
    assert isinstance(memref.type, MemRefType)
    if strides is None:
        ends = [group[-1] + 1 for group in merged]
        strides = [b.dim(product(shape[end:])) for end in ends]
    return Buffer(
        memref, dtype_of(tensor_of(tensor).element_type), tuple(merged), sizes, tuple(strides)
    )
