"""
Ops of `mlc_gpu` for products that groups of four warps start and wait for, and for their sums.

SOURCE: PTX ISA 8.0, wgmma, stmatrix
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import BF16, F16, F32, F64, DType, dtype_of
from mlc.dialects.gpu_async import COUNT, number
from mlc.dialects.lanes import element_of, lanes_of, vector_type

STEP_BYTES = 32
"""Of a factor's row in one instruction. SOURCE: PTX ISA, wgmma"""
BOX_STEPS = 4
"""Steps along rows of 128 bytes."""
WARP_LANES = 32
SWIZZLED = 1 << 62
"""Of a descriptor: rows of 128 bytes, swizzled. SOURCE: PTX ISA, matrix descriptor"""


def step_depth(dtype: DType) -> int:
    """Summed elements of one instruction on factors of a dtype."""
    return STEP_BYTES // dtype.bytes


@irdl_op_definition
class StoreMatrixOp(IRDLOperation):
    """
    Writes four matrices of 8 rows of 16 bytes that lie over the warp as sums do: thread t says
    where row t of them goes.

    ```mlir
    mlc_gpu.store_matrix %at, %x, %y, %z, %w
        : vector<2xbf16>, vector<2xbf16>, vector<2xbf16>, vector<2xbf16>
    ```
    """

    name = "mlc_gpu.store_matrix"
    at = operand_def(i32)
    x = operand_def(VectorType)
    y = operand_def(VectorType)
    z = operand_def(VectorType)
    w = operand_def(VectorType)
    assembly_format = (
        "$at `,` $x `,` $y `,` $z `,` $w attr-dict"
        " `:` type($x) `,` type($y) `,` type($z) `,` type($w)"
    )

    @staticmethod
    def of(at: SSAValue, parts: tuple[SSAValue, ...]) -> StoreMatrixOp:
        return StoreMatrixOp.create(operands=[at, *parts])

    @property
    def parts(self) -> tuple[SSAValue, ...]:
        """One of each matrix."""
        return (self.x, self.y, self.z, self.w)

    def verify_(self) -> None:
        kinds = {x.type for x in self.parts}
        (kind, *more) = kinds
        if more or not _is_pair(kind):
            found = ", ".join(sorted(map(str, kinds)))
            raise VerifyException(f"{self.name}: {found}; expected pairs of bf16 or f16")


@irdl_op_definition
class LoadMatrixOp(IRDLOperation):
    """
    Reads matrices of 8 rows of 16 bytes of what a block shares, one for each pair of elements of
    the result: thread 8 k + r says where row r of the k-th begins, and thread 4 g + t gets places
    2 t and 2 t + 1 of row g; of `turned` matrices of column g.

    ```mlir
    %x = mlc_gpu.load_matrix %tile[%i, %j] turned : memref<32x136xbf16, 3> -> vector<8xbf16>
    ```
    """

    name = "mlc_gpu.load_matrix"
    source = operand_def(MemRefType)
    at = var_operand_def(IndexType)
    turned = opt_prop_def(UnitAttr)
    result = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$source `[` $at `]` (`turned` $turned^)? attr-dict `:` type($source) `->` type($result)"
    )

    @staticmethod
    def of(
        source: SSAValue, at: Sequence[SSAValue], kind: Attribute, *, turned: bool
    ) -> LoadMatrixOp:
        properties: dict[str, Attribute] = {"turned": UnitAttr()} if turned else {}
        return LoadMatrixOp.create(
            operands=[source, *at], result_types=[kind], properties=properties
        )

    def verify_(self) -> None:
        source = cast("MemRefType[Attribute]", self.source.type)
        kind = self.result.type
        narrow = isinstance(source.element_type, BFloat16Type | Float16Type)
        whole = kind.element_type == source.element_type and kind.get_shape() in ((4,), (8,))
        if not narrow or not whole or len(source.get_shape()) != len(self.at):
            raise VerifyException(
                f"{self.name}: {kind} of {source}; expected 4 or 8 elements of bf16 or f16, and an"
                " index for each axis"
            )


def _is_pair(kind: Attribute) -> bool:
    return (
        isinstance(kind, VectorType)
        and kind.get_shape() == (2,)
        and isinstance(element_of(cast("Attribute", kind)), BFloat16Type | Float16Type)
    )


@irdl_op_definition
class DescriptorOp(IRDLOperation):
    """
    A factor of a product in shared memory, in rows of 128 bytes that are swizzled: 8 rows follow 8
    others after `stride` bytes; where the summed axis moves slowest, so many columns follow others
    after `leading` bytes.

    ```mlir
    %d = mlc_gpu.descriptor %slot leading 8192 stride 1024 : i64
    ```
    """

    name = "mlc_gpu.descriptor"
    leading = prop_def(COUNT)
    stride = prop_def(COUNT)
    slot = operand_def(i32)
    result = result_def(i64)
    traits = traits_def(Pure())
    assembly_format = "$slot `leading` $leading `stride` $stride attr-dict `:` type($result)"

    @staticmethod
    def of(slot: SSAValue, leading: int, stride: int) -> DescriptorOp:
        return DescriptorOp.create(
            operands=[slot],
            result_types=[i64],
            properties={"leading": number(leading), "stride": number(stride)},
        )

    @property
    def constant(self) -> int:
        """The descriptor but for the place, whose sixteenth comes in its low bits."""
        leading, stride = (x.value.data >> 4 for x in (self.leading, self.stride))
        return SWIZZLED | stride << 32 | max(leading, 1) << 16

    def verify_(self) -> None:
        for what, x in (("leading", self.leading), ("stride", self.stride)):
            if x.value.data % 16 or not 0 <= x.value.data < 1 << 18:
                raise VerifyException(
                    f"{self.name}: {what} {x.value.data}; expected a multiple of 16 below 2^18"
                )


@irdl_op_definition
class WgmmaOp(IRDLOperation):
    """
    A group of four warps starts a product of 64 rows and so many columns, in steps of 32 bytes
    along the summed axis; each thread has its part of the sums, which begin with 0 where nothing
    else is said. Until they are waited for, nobody may touch them. The lhs is described, or a
    thread has its part as pairs, which lie as sums do. After `by` stand bytes from step to step;
    after rows of 128 bytes the next ones are `lhs_box`, `rhs_box` bytes behind the first.
    `lhs_turned`, `rhs_turned`: factors whose summed axis moves slowest.

    ```mlir
    %y = mlc_gpu.wgmma %a by 32, %b by 32, %x columns 256 steps 4 of bf16
        : i64, vector<128xf32> -> vector<128xf32>
    ```
    """

    name = "mlc_gpu.wgmma"
    columns = prop_def(COUNT)
    steps = prop_def(COUNT)
    lhs_step = prop_def(COUNT)
    rhs_step = prop_def(COUNT)
    element = prop_def(BFloat16Type | Float16Type | Float8E4M3FNType | Float8E5M2Type)
    lhs_turned = opt_prop_def(UnitAttr)
    rhs_turned = opt_prop_def(UnitAttr)
    lhs_box = opt_prop_def(COUNT)
    rhs_box = opt_prop_def(COUNT)
    lhs = operand_def(IntegerType | VectorType)
    rhs = operand_def(i64)
    sums = opt_operand_def(VectorType)
    result = result_def(VectorType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$lhs `by` $lhs_step `,` $rhs `by` $rhs_step (`,` $sums^)? `columns` $columns"
        " `steps` $steps `of` $element attr-dict `:` type($lhs) (`,` type($sums)^)?"
        " `->` type($result)"
    )

    @staticmethod
    def of(
        lhs: SSAValue,
        rhs: SSAValue,
        sums: SSAValue | None,
        *,
        columns: int,
        steps: int,
        steps_by: tuple[int, int],
        boxes: tuple[int, int],
        element: Attribute,
        turned: tuple[bool, bool],
    ) -> WgmmaOp:
        flags = {
            name: UnitAttr()
            for name, holds in zip(("lhs_turned", "rhs_turned"), turned, strict=True)
            if holds
        }
        far = {
            name: number(by) for name, by in zip(("lhs_box", "rhs_box"), boxes, strict=True) if by
        }
        return WgmmaOp.create(
            operands=[lhs, rhs, *([] if sums is None else [sums])],
            result_types=[VectorType(Float32Type(), [columns // 2])],
            properties={
                "columns": number(columns),
                "steps": number(steps),
                "lhs_step": number(steps_by[0]),
                "rhs_step": number(steps_by[1]),
                "element": element,
                **flags,
                **far,
            },
        )

    @property
    def depth(self) -> int:
        """Summed elements of one step."""
        return step_depth(dtype_of(self.element))

    def offsets(self, by: IntegerAttr, box: IntegerAttr | None) -> list[int]:
        """Bytes from the begin of a factor to each of its steps."""
        far = BOX_STEPS * by.value.data if box is None else box.value.data
        return [
            step // BOX_STEPS * far + step % BOX_STEPS * by.value.data
            for step in range(self.steps.value.data)
        ]

    def verify_(self) -> None:
        columns, kind = self.columns.value.data, self.result.type
        if columns % 8 or not 8 <= columns <= 256:
            raise VerifyException(
                f"{self.name}: {columns} columns; expected a multiple of 8 from 8 to 256"
            )
        begin = kind if self.sums is None else self.sums.type
        if kind != VectorType(Float32Type(), [columns // 2]) or begin != kind:
            raise VerifyException(
                f"{self.name}: {begin} to {kind}; expected vector<{columns // 2}xf32>"
            )
        pairs = VectorType(self.element, [8 * self.steps.value.data])
        if self.lhs.type not in (i64, pairs):
            raise VerifyException(f"{self.name}: a factor {self.lhs.type}; expected i64 or {pairs}")
        turned = self.lhs_turned is not None or self.rhs_turned is not None
        if turned and dtype_of(self.element).bytes != 2:
            raise VerifyException(
                f"{self.name}: a factor of {self.element} whose summed axis moves slowest; expected"
                " 16 bits"
            )
        by = self.lhs_step.value.data, self.rhs_step.value.data
        if any(n % 16 for n in by) or self.steps.value.data < 1:
            raise VerifyException(
                f"{self.name}: {self.steps.value.data} steps by {by}; expected multiples of 16"
            )


@irdl_op_definition
class WgmmaWaitOp(IRDLOperation):
    """
    Waits until all but the last so many products of this group are done, and gives the sums on.
    Until then registers of a factor are `kept`.

    ```mlir
    %y = mlc_gpu.wgmma_wait %x, 0 keeps %p : vector<128xf32>, vector<64xbf16> -> vector<128xf32>
    ```
    """

    name = "mlc_gpu.wgmma_wait"
    pending = prop_def(COUNT)
    sums = operand_def(VectorType)
    kept = opt_operand_def(VectorType)
    result = result_def(VectorType)
    assembly_format = (
        "$sums `,` $pending (`keeps` $kept^)? attr-dict `:` type($sums) (`,` type($kept)^)?"
        " `->` type($result)"
    )

    @staticmethod
    def of(sums: SSAValue, pending: int, kept: SSAValue | None = None) -> WgmmaWaitOp:
        return WgmmaWaitOp.create(
            operands=[sums, *([] if kept is None else [kept])],
            result_types=[sums.type],
            properties={"pending": number(pending)},
        )


MMA_SHAPES: dict[str, tuple[int, int, int]] = {
    "bf16": (16, 8, 16), "f16": (16, 8, 16), "f32": (16, 8, 8), "f64": (16, 8, 8),
}  # fmt: skip
"""Rows, columns and summed elements of a warp's product by factors' dtype. SOURCE: as above"""
MMA_F64 = (8, 8, 4)
"""Of machines before sm_90. SOURCE: PTX ISA, mma.m8n8k4"""
STAGED: dict[str, DType] = {
    "mma_bf16": BF16, "mma_f16": F16, "mma_tf32": F32, "mma_f64": F64, "mma_f64_m8n8k4": F64,
}  # fmt: skip
"""By the name that a schedule has for the unit: what factors are in shared memory."""
PADDING = {2: 8, 4: 4, 8: 4}
"""Elements, by bytes of one, by which staged rows are longer: a warp reads all banks at once."""
TURNED_PADDING = {2: 8, 4: 8, 8: 4}
"""The same of rows along the other axis: of 16 bits matrices are read, else elements."""
ACCESS_BYTES = 16  # that a thread reads at once


@irdl_op_definition
class MmaOp(IRDLOperation):
    """
    Adds a product of a warp to its sums. Of factors of f32 the first 11 bits of each count (tf32).
    Thread 4 g + t has rows g and g + 8 of the lhs and column g of the rhs, along the summed axis t
    and every fourth place behind it, of elements of 16 bits pairs of places; of the sums it has
    columns 2 t and 2 t + 1 of its rows.

    ```mlir
    %y = mlc_gpu.mma %a, %b, %x : vector<8xbf16>, vector<4xbf16>, vector<4xf32>
    ```
    """

    name = "mlc_gpu.mma"
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    sums = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs `,` $sums attr-dict `:` type($lhs) `,` type($rhs) `,` type($sums)"
        " `->` type($result)"
    )

    @staticmethod
    def of(lhs: SSAValue, rhs: SSAValue, sums: SSAValue) -> MmaOp:
        return MmaOp.create(operands=[lhs, rhs, sums], result_types=[sums.type])

    @property
    def dtype(self) -> DType:
        """Of the factors."""
        return dtype_of(element_of(self.lhs.type))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns, summed elements."""
        single = (lanes_of(self.lhs.type) or 0) == 1
        return MMA_F64 if single and self.dtype is F64 else MMA_SHAPES[self.dtype.name]

    def verify_(self) -> None:
        if self.dtype.name not in MMA_SHAPES:
            known = ", ".join(MMA_SHAPES)
            raise VerifyException(f"{self.name}: factors of {self.dtype.name}; expected {known}")
        m, n, k = self.shape
        sums = F64 if self.dtype is F64 else F32
        kinds = [
            vector_type(element, size // WARP_LANES)
            for element, size in ((self.dtype.ir, m * k), (self.dtype.ir, k * n), (sums.ir, m * n))
        ]
        if [x.type for x in self.operands] != kinds:
            found = ", ".join(str(x.type) for x in self.operands)
            wanted = ", ".join(map(str, kinds))
            raise VerifyException(f"{self.name}: {found}; expected {wanted}")


@irdl_op_definition
class RoundTf32Op(IRDLOperation):
    """
    The nearest number of 11 bits, of two the one farther from 0.

    ```mlir
    %y = mlc_gpu.round_tf32 %x : f32
    ```
    """

    name = "mlc_gpu.round_tf32"
    value = operand_def(Float32Type)
    result = result_def(Float32Type)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($result)"

    @staticmethod
    def of(value: SSAValue) -> RoundTf32Op:
        return RoundTf32Op.create(operands=[value], result_types=[value.type])


PRODUCTS = (MmaOp, RoundTf32Op, LoadMatrixOp, StoreMatrixOp, DescriptorOp, WgmmaOp, WgmmaWaitOp)
