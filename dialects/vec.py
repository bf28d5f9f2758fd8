"""
Dialect `mlc_vec`: lane-wise operations that upstream's `arith` refuses on vectors, and memory
operations that xDSL's `vector` dialect lacks.

Vectors are one-dimensional (`vector<16xf32>`), masks are vectors of `i1`, lane offsets are vectors
of `index`. Every lane-wise op also takes scalars, so that one builder serves both. Where an
upstream op exists and takes the operands, it is used instead of one from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import auto
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
    i1,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mlc.dialects.complex_ops import PairOp, PartAttr, PartOp
from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dot import DOT_OPS, TileType
from mlc.dialects.lane_moves import CompressOp, SplitOp
from mlc.dialects.lanes import SameLanes, element_of, lanes_of, like, vector_type

INDEX = IndexType()


class CastKind(StrEnum):
    """Element conversions. `fptosi` and `fptoui` saturate and turn NaN into 0."""

    EXTSI = auto()
    EXTUI = auto()
    TRUNCI = auto()
    SITOFP = auto()
    UITOFP = auto()
    FPTOSI = auto()
    FPTOUI = auto()
    INDEX_CAST = auto()


@irdl_attr_definition
class CastKindAttr(EnumAttribute[CastKind]):
    """The kind of `mlc_vec.cast`."""

    name = "mlc_vec.cast_kind"


class IntegerPredicate(StrEnum):
    """s: signed, u: unsigned, as in arith.cmpi."""

    EQ = auto()
    NE = auto()
    SLT = auto()
    SLE = auto()
    SGT = auto()
    SGE = auto()
    ULT = auto()
    ULE = auto()
    UGT = auto()
    UGE = auto()


@irdl_attr_definition
class IntegerPredicateAttr(EnumAttribute[IntegerPredicate]):
    """The predicate of `mlc_vec.cmpi`."""

    name = "mlc_vec.integer_predicate"


class FloatPredicate(StrEnum):
    """o: ordered (false on NaN), u: unordered (true on NaN), as in arith.cmpf."""

    OEQ = auto()
    OGT = auto()
    OGE = auto()
    OLT = auto()
    OLE = auto()
    ONE = auto()
    ORD = auto()
    UEQ = auto()
    UGT = auto()
    UGE = auto()
    ULT = auto()
    ULE = auto()
    UNE = auto()
    UNO = auto()


@irdl_attr_definition
class FloatPredicateAttr(EnumAttribute[FloatPredicate]):
    """The predicate of `mlc_vec.cmpf`."""

    name = "mlc_vec.float_predicate"


CAST_KINDS = {str(kind): CastKindAttr(kind) for kind in CastKind}
INTEGER_PREDICATES = {str(p): IntegerPredicateAttr(p) for p in IntegerPredicate}
FLOAT_PREDICATES = {str(p): FloatPredicateAttr(p) for p in FloatPredicate}


@irdl_op_definition
class SelectOp(IRDLOperation):
    """
    result[i] = mask[i] ? lhs[i] : rhs[i]. `arith.select` takes only a scalar condition in xDSL.

    ```mlir
    %r = mlc_vec.select %mask, %a, %b : vector<16xf32>
    ```
    """

    name = "mlc_vec.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    rhs = operand_def(T)
    mask = operand_def(SameLanes(T, i1))
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$mask `,` $lhs `,` $rhs attr-dict `:` type($result)"

    @staticmethod
    def of(mask: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SelectOp:
        return SelectOp.create(operands=(lhs, rhs, mask), result_types=(lhs.type,))


_INTEGER_TO_INTEGER = (CastKind.EXTSI, CastKind.EXTUI, CastKind.TRUNCI)
_INTEGER_TO_FLOAT = (CastKind.SITOFP, CastKind.UITOFP)


@irdl_op_definition
class CastOp(IRDLOperation):
    """
    Element conversion, lane by lane. Kinds: extsi extui trunci sitofp uitofp fptosi fptoui
    index_cast (sign-extends or truncates between integers and index). `fptosi` and `fptoui` are
    defined everywhere: out of range gives the nearest representable integer, NaN gives 0.

    ```mlir
    %f = mlc_vec.cast sitofp %i : vector<16xi32> to vector<16xf32>
    ```
    """

    name = "mlc_vec.cast"
    kind = prop_def(CastKindAttr)
    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$kind $input attr-dict `:` type($input) `to` type($result)"

    @staticmethod
    def of(kind: str, value: SSAValue, result_type: Attribute) -> CastOp:
        return CastOp.create(
            operands=(value,), result_types=(result_type,), properties={"kind": CAST_KINDS[kind]}
        )

    def verify_(self) -> None:
        source, target = self.input.type, self.result.type
        if lanes_of(source) != lanes_of(target):
            raise VerifyException(f"mlc_vec.cast changes the number of lanes: {source} to {target}")
        have, want = element_of(source), element_of(target)
        kind = self.kind.data
        if kind is CastKind.INDEX_CAST:
            ok = isinstance(have, IndexType) != isinstance(want, IndexType)
            ok = ok and isinstance(have, IndexType | IntegerType)
            ok = ok and isinstance(want, IndexType | IntegerType)
            rule = "index_cast converts between index and an integer type"
        elif kind in _INTEGER_TO_INTEGER:
            ok = isinstance(have, IntegerType) and isinstance(want, IntegerType)
            if isinstance(have, IntegerType) and isinstance(want, IntegerType):
                grows = want.bitwidth - have.bitwidth
                ok = grows < 0 if kind is CastKind.TRUNCI else grows > 0
            rule = "extsi and extui need a wider integer result, trunci a narrower one"
        elif kind in _INTEGER_TO_FLOAT:
            ok = isinstance(have, IntegerType) and isinstance(want, AnyFloat)
            rule = f"{kind} converts an integer to a float"
        else:
            ok = isinstance(have, AnyFloat) and isinstance(want, IntegerType)
            rule = f"{kind} converts a float to an integer"
        if not ok:
            raise VerifyException(f"mlc_vec.cast {kind}: {source} to {target}; {rule}")


@irdl_op_definition
class CmpiOp(IRDLOperation):
    """
    Integer comparison per lane; `arith.cmpi` gives only a scalar i1 in xDSL.

    ```mlir
    %mask = mlc_vec.cmpi slt, %a, %b : vector<16xi32>
    ```
    """

    name = "mlc_vec.cmpi"
    T: ClassVar = VarConstraint("T", AnyAttr())
    predicate = prop_def(IntegerPredicateAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(SameLanes(T, i1))
    traits = traits_def(Pure())
    assembly_format = "$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs)"

    @staticmethod
    def of(predicate: str, lhs: SSAValue, rhs: SSAValue) -> CmpiOp:
        return CmpiOp.create(
            operands=(lhs, rhs),
            result_types=(like(lhs.type, i1),),
            properties={"predicate": INTEGER_PREDICATES[predicate]},
        )

    def verify_(self) -> None:
        if not isinstance(element_of(self.lhs.type), IntegerType | IndexType):
            raise VerifyException(
                f"mlc_vec.cmpi compares integers, got {self.lhs.type}; floats need mlc_vec.cmpf"
            )


@irdl_op_definition
class CmpfOp(IRDLOperation):
    """
    Float comparison per lane; `arith.cmpf` gives only a scalar i1 in xDSL.

    ```mlir
    %nan = mlc_vec.cmpf uno, %x, %x : vector<16xf32>
    ```
    """

    name = "mlc_vec.cmpf"
    T: ClassVar = VarConstraint("T", AnyAttr())
    predicate = prop_def(FloatPredicateAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(SameLanes(T, i1))
    traits = traits_def(Pure())
    assembly_format = "$predicate `,` $lhs `,` $rhs attr-dict `:` type($lhs)"

    @staticmethod
    def of(predicate: str, lhs: SSAValue, rhs: SSAValue) -> CmpfOp:
        return CmpfOp.create(
            operands=(lhs, rhs),
            result_types=(like(lhs.type, i1),),
            properties={"predicate": FLOAT_PREDICATES[predicate]},
        )

    def verify_(self) -> None:
        if not isinstance(element_of(self.lhs.type), AnyFloat):
            raise VerifyException(
                f"mlc_vec.cmpf compares floats, got {self.lhs.type}; integers need mlc_vec.cmpi"
            )


@irdl_op_definition
class StepOp(IRDLOperation):
    """
    The lane numbers 0, 1, …, N-1.

    ```mlir
    %lane = mlc_vec.step : vector<16xindex>
    ```
    """

    name = "mlc_vec.step"
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    @staticmethod
    def of(lanes: int, element_type: Attribute = INDEX) -> StepOp:
        return StepOp.create(result_types=(vector_type(element_type, lanes),))

    def verify_(self) -> None:
        if not isinstance(element_of(self.result.type), IntegerType | IndexType):
            raise VerifyException(f"mlc_vec.step gives integers or index, not {self.result.type}")


def _verify_access(op: Operation, buffer: Attribute, indices: int, vector: Attribute) -> None:
    buffer = cast("MemRefType[Attribute]", buffer)
    if buffer.get_num_dims() != indices:
        raise VerifyException(
            f"{op.name}: {buffer} needs {buffer.get_num_dims()} indices, got {indices}"
        )
    if buffer.element_type != element_of(vector):
        raise VerifyException(f"{op.name}: element types differ: {buffer} against {vector}")


@irdl_op_definition
class GatherOp(IRDLOperation):
    """
    result[i] = mask[i] ? base[indices + offsets[i] elements] : passthru[i]. Lanes that are masked
    off do not touch memory. Offsets count elements of the buffer, not bytes.

    ```mlir
    %r = mlc_vec.gather %table[%row] at %offsets, %mask, %zero : memref<?xf32>, vector<16xf32>
    ```
    """

    name = "mlc_vec.gather"
    T: ClassVar = VarConstraint("T", base(VectorType))
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    passthru = operand_def(T)
    offsets = operand_def(SameLanes(T, INDEX))
    mask = operand_def(SameLanes(T, i1))
    result = result_def(T)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $indices `]` `at` $offsets `,` $mask `,` $passthru attr-dict"
        " `:` type($base) `,` type($result)"
    )

    @staticmethod
    def of(
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        offsets: SSAValue,
        mask: SSAValue,
        passthru: SSAValue,
    ) -> GatherOp:
        return GatherOp.create(
            operands=(buffer, *indices, passthru, offsets, mask), result_types=(passthru.type,)
        )

    def verify_(self) -> None:
        _verify_access(self, self.base.type, len(self.indices), self.result.type)


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """
    base[indices + offsets[i] elements] = value[i] where mask[i]. When two active lanes name one
    element, the higher lane wins.

    ```mlir
    mlc_vec.scatter %value, %out[%row] at %offsets, %mask : memref<?xf32>, vector<16xf32>
    ```
    """

    name = "mlc_vec.scatter"
    T: ClassVar = VarConstraint("T", base(VectorType))
    value = operand_def(T)
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    offsets = operand_def(SameLanes(T, INDEX))
    mask = operand_def(SameLanes(T, i1))
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$value `,` $base `[` $indices `]` `at` $offsets `,` $mask attr-dict"
        " `:` type($base) `,` type($value)"
    )

    @staticmethod
    def of(
        value: SSAValue,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        offsets: SSAValue,
        mask: SSAValue,
    ) -> ScatterOp:
        return ScatterOp.create(operands=(value, buffer, *indices, offsets, mask))

    def verify_(self) -> None:
        _verify_access(self, self.base.type, len(self.indices), self.value.type)


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """
    Hint that the cache line at base[indices] will be used: `locality` 0 (none) … 3 (keep in L1),
    `write` when it will be written. Never faults, whatever the address.

    ```mlir
    mlc_vec.prefetch %a[%i, %j] locality 3 : memref<?x64xf32>
    ```
    """

    name = "mlc_vec.prefetch"
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    locality = prop_def(IntegerAttr[IndexType])
    write = opt_prop_def(UnitAttr)
    assembly_format = (
        "$base `[` $indices `]` `locality` $locality (`write` $write^)? attr-dict `:` type($base)"
    )

    @staticmethod
    def of(
        buffer: SSAValue, indices: Sequence[SSAValue], locality: int = 3, *, write: bool = False
    ) -> PrefetchOp:
        properties: dict[str, Attribute] = {"locality": IntegerAttr.from_index_int_value(locality)}
        if write:
            properties["write"] = UnitAttr()
        return PrefetchOp.create(operands=(buffer, *indices), properties=properties)

    def verify_(self) -> None:
        if not 0 <= self.locality.value.data <= 3:
            raise VerifyException(
                f"mlc_vec.prefetch: locality {self.locality.value.data} is not in 0..3"
            )
        buffer = cast("MemRefType[Attribute]", self.base.type)
        _verify_access(self, buffer, len(self.indices), buffer.element_type)


@irdl_op_definition
class NontemporalStoreOp(IRDLOperation):
    """
    Store that bypasses the caches, for results larger than the last-level cache. The address must
    be aligned to the whole vector: that promise is what `vector.store` does not make.

    ```mlir
    mlc_vec.nontemporal_store %v, %out[%i] : memref<?xf32>, vector<16xf32>
    ```
    """

    name = "mlc_vec.nontemporal_store"
    value = operand_def(VectorType)
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $base `[` $indices `]` attr-dict `:` type($base) `,` type($value)"

    @staticmethod
    def of(value: SSAValue, buffer: SSAValue, indices: Sequence[SSAValue]) -> NontemporalStoreOp:
        return NontemporalStoreOp.create(operands=(value, buffer, *indices))

    def verify_(self) -> None:
        _verify_access(self, self.base.type, len(self.indices), self.value.type)


@irdl_op_definition
class StoreFenceOp(IRDLOperation):
    """
    What was stored past the caches is visible before whatever is stored behind it: without it
    others may see a signal first. On machines that keep that order by themselves it is nothing.

    ```mlir
    mlc_vec.store_fence
    ```
    """

    name = "mlc_vec.store_fence"
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "attr-dict"


MlcVec = Dialect(
    "mlc_vec",
    [
        SelectOp,
        CastOp,
        CmpiOp,
        CmpfOp,
        StepOp,
        GatherOp,
        ScatterOp,
        PrefetchOp,
        NontemporalStoreOp,
        StoreFenceOp,
        CompressOp,
        SplitOp,
        PartOp,
        PairOp,
        *DOT_OPS,
    ],
    [TileType, PartAttr, CastKindAttr, IntegerPredicateAttr, FloatPredicateAttr],
)
