"""
Ops of `mlc_gpu` for blocks whose warps have roles: barriers in shared memory, tiles that the copy
engine moves, products that groups of four warps start and wait for.

Shared memory is addressed by bytes, as i32: a barrier has 8, a tile begins at a multiple of 1024.
A predicate after `if` says of each thread whether it takes part.

SOURCE: PTX ISA 8.0, mbarrier, cp.async.bulk.tensor, setmaxnreg
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    eq,
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import dtype_of

GROUP_THREADS = 128
"""Threads that start a product together. SOURCE: PTX ISA, wgmma"""
SWIZZLE_BYTES = 128
"""Of a row of a tile that products read: its 16-byte parts are permuted by the row's number."""
MOST_BOX = 256
"""Elements of a box along an axis. SOURCE: CUDA driver API, cuTensorMapEncodeTiled"""
MOST_AXES = 5
"""Of an array that is described. SOURCE: as above"""
COUNT = IntegerAttr.constr(eq(i64))


def number(value: int) -> IntegerAttr:
    """As a property."""
    return IntegerAttr(value, i64)


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """
    What the copy engine knows of an array: 128 bytes that a kernel takes by value.

    ```mlir
    !mlc_gpu.tensor_map
    ```
    """

    name = "mlc_gpu.tensor_map"


TENSOR_MAP = TensorMapType()


@irdl_op_definition
class TensorMapOp(IRDLOperation):
    """
    The entry describes an array in boxes of so many elements along each axis, whose rows of 128
    bytes are swizzled where they lie in shared memory.

    ```mlir
    %m = mlc_gpu.map %x box [64 : i64, 64 : i64] : memref<?x4096xbf16> -> !mlc_gpu.tensor_map
    ```
    """

    name = "mlc_gpu.map"
    sizes = prop_def(ArrayAttr[IntegerAttr])
    buffer = operand_def(MemRefType)
    result = result_def(TensorMapType)
    traits = traits_def(Pure())
    assembly_format = "$buffer `box` $sizes attr-dict `:` type($buffer) `->` type($result)"

    @staticmethod
    def of(buffer: SSAValue, box: Sequence[int]) -> TensorMapOp:
        return TensorMapOp.create(
            operands=[buffer],
            result_types=[TENSOR_MAP],
            properties={"sizes": ArrayAttr([number(n) for n in box])},
        )

    @property
    def box(self) -> tuple[int, ...]:
        """Its sizes."""
        return tuple(n.value.data for n in self.sizes)

    def verify_(self) -> None:
        kind = self.buffer.type
        assert isinstance(kind, MemRefType)
        *outer, columns = self.box
        if not 2 <= kind.get_num_dims() == len(self.box) <= MOST_AXES:
            raise VerifyException(
                f"{self.name}: a box {list(self.box)} of {kind}; expected 2 to {MOST_AXES} axes,"
                " as many of both"
            )
        if wrong := [n for n in outer if not 1 <= n <= MOST_BOX]:
            raise VerifyException(f"{self.name}: {wrong[0]} rows; expected 1 to {MOST_BOX}")
        element = cast("MemRefType[Attribute]", kind).element_type
        if columns * _item(element) != SWIZZLE_BYTES:
            raise VerifyException(
                f"{self.name}: rows of {columns} elements of {element};"
                f" expected {SWIZZLE_BYTES} bytes"
            )


def _item(element: Attribute) -> int:
    return dtype_of(element).bytes


@irdl_op_definition
class DynamicSharedOp(IRDLOperation):
    """
    Where the memory of this block begins, of which the launch says how much there is.

    ```mlir
    %s = mlc_gpu.dynamic_shared : i32
    ```
    """

    name = "mlc_gpu.dynamic_shared"
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    @staticmethod
    def of() -> DynamicSharedOp:
        return DynamicSharedOp.create(result_types=[i32])


@irdl_op_definition
class ElectOp(IRDLOperation):
    """
    Holds in one thread of a warp, all of whose threads come here.

    ```mlir
    %one = mlc_gpu.elect : i1
    ```
    """

    name = "mlc_gpu.elect"
    result = result_def(i1)
    assembly_format = "attr-dict `:` type($result)"

    @staticmethod
    def of() -> ElectOp:
        return ElectOp.create(result_types=[i1])


@irdl_op_definition
class UniformOp(IRDLOperation):
    """
    The value of a warp's first thread, which the compiler then knows to be that of all.

    ```mlir
    %w = mlc_gpu.uniform %x : i32
    ```
    """

    name = "mlc_gpu.uniform"
    value = operand_def(i32)
    result = result_def(i32)
    assembly_format = "$value attr-dict `:` type($result)"

    @staticmethod
    def of(value: SSAValue) -> UniformOp:
        return UniformOp.create(operands=[value], result_types=[i32])


@irdl_op_definition
class RegistersOp(IRDLOperation):
    """
    All warps of a group keep so many registers for each thread: they give up the rest, or with
    `more` wait until others have.

    ```mlir
    mlc_gpu.registers more 232
    ```
    """

    name = "mlc_gpu.registers"
    count = prop_def(COUNT)
    more = opt_prop_def(UnitAttr)
    assembly_format = "(`more` $more^)? $count attr-dict"

    @staticmethod
    def of(count: int, *, more: bool) -> RegistersOp:
        flag: dict[str, Attribute] = {"more": UnitAttr()} if more else {}
        return RegistersOp.create(properties={"count": number(count), **flag})

    def verify_(self) -> None:
        count = self.count.value.data
        if count % 8 or not 24 <= count <= 256:
            raise VerifyException(
                f"{self.name}: {count} registers; expected a multiple of 8 from 24 to 256"
            )


# Barriers ---------------------------------------------------------------------------------------


@irdl_op_definition
class BarrierInitOp(IRDLOperation):
    """
    A barrier whose phase ends after so many arrivals, and once all bytes it expects are there.

    ```mlir
    mlc_gpu.barrier_init %b, 2
    ```
    """

    name = "mlc_gpu.barrier_init"
    count = prop_def(COUNT)
    barrier = operand_def(i32)
    assembly_format = "$barrier `,` $count attr-dict"

    @staticmethod
    def of(barrier: SSAValue, count: int) -> BarrierInitOp:
        return BarrierInitOp.create(operands=[barrier], properties={"count": number(count)})


@irdl_op_definition
class BarrierFenceOp(IRDLOperation):
    """
    The copy engine sees the barriers that this thread has made.

    ```mlir
    mlc_gpu.barrier_fence
    ```
    """

    name = "mlc_gpu.barrier_fence"
    assembly_format = "attr-dict"


@irdl_op_definition
class BarrierExpectOp(IRDLOperation):
    """
    One arrival, after which so many bytes are expected.

    ```mlir
    mlc_gpu.barrier_expect %b, 49152
    ```
    """

    name = "mlc_gpu.barrier_expect"
    size_bytes = prop_def(COUNT)
    barrier = operand_def(i32)
    assembly_format = "$barrier `,` $size_bytes attr-dict"

    @staticmethod
    def of(barrier: SSAValue, size_bytes: int) -> BarrierExpectOp:
        return BarrierExpectOp.create(
            operands=[barrier], properties={"size_bytes": number(size_bytes)}
        )


@irdl_op_definition
class BarrierArriveOp(IRDLOperation):
    """
    One arrival of each thread for which the predicate holds; at the same barrier of another block
    of the cluster, if one is named.

    ```mlir
    mlc_gpu.barrier_arrive %b if %p
    mlc_gpu.barrier_arrive %b of %block if %p
    ```
    """

    name = "mlc_gpu.barrier_arrive"
    barrier = operand_def(i32)
    condition = operand_def(i1)
    block = opt_operand_def(i32)
    assembly_format = "$barrier (`of` $block^)? `if` $condition attr-dict"

    @staticmethod
    def of(
        barrier: SSAValue, condition: SSAValue, block: SSAValue | None = None
    ) -> BarrierArriveOp:
        operands = [barrier, condition, *([] if block is None else [block])]
        return BarrierArriveOp.create(operands=operands)


@irdl_op_definition
class BarrierWaitOp(IRDLOperation):
    """
    Waits until the phase of this parity, 0 or 1, has ended: phases count from 0.

    ```mlir
    mlc_gpu.barrier_wait %b, %parity
    ```
    """

    name = "mlc_gpu.barrier_wait"
    barrier = operand_def(i32)
    parity = operand_def(i32)
    assembly_format = "$barrier `,` $parity attr-dict"

    @staticmethod
    def of(barrier: SSAValue, parity: SSAValue) -> BarrierWaitOp:
        return BarrierWaitOp.create(operands=[barrier, parity])


@irdl_op_definition
class WarpBarrierOp(IRDLOperation):
    """
    The threads of the warp wait for each other.

    ```mlir
    mlc_gpu.warp_barrier
    ```
    """

    name = "mlc_gpu.warp_barrier"
    assembly_format = "attr-dict"


# Copies -----------------------------------------------------------------------------------------


@irdl_op_definition
class PrefetchMapOp(IRDLOperation):
    """
    Says that a map will be used soon.

    ```mlir
    mlc_gpu.prefetch_map %m : !mlc_gpu.tensor_map
    ```
    """

    name = "mlc_gpu.prefetch_map"
    map = operand_def(TensorMapType)
    assembly_format = "$map attr-dict `:` type($map)"

    @staticmethod
    def of(described: SSAValue) -> PrefetchMapOp:
        return PrefetchMapOp.create(operands=[described])


@irdl_op_definition
class BulkLoadOp(IRDLOperation):
    """
    Asks for a box of an array from a place on, which has a subscript for each axis; what lies
    outside is 0. Its bytes count for the barrier. Of a cluster of so many blocks each has it, where
    its own slot and barrier are.

    ```mlir
    mlc_gpu.bulk_load %m[%row, %column] to %slot, %b : !mlc_gpu.tensor_map
    mlc_gpu.bulk_load %m[%row, %column] to %slot, %b cluster 2 : !mlc_gpu.tensor_map
    ```
    """

    name = "mlc_gpu.bulk_load"
    map = operand_def(TensorMapType)
    slot = operand_def(i32)
    barrier = operand_def(i32)
    at = var_operand_def(i32)
    cluster = opt_prop_def(COUNT)
    assembly_format = (
        "$map `[` $at `]` `to` $slot `,` $barrier (`cluster` $cluster^)? attr-dict `:` type($map)"
    )

    @staticmethod
    def of(
        described: SSAValue,
        at: Sequence[SSAValue],
        slot: SSAValue,
        barrier: SSAValue,
        blocks: int = 1,
    ) -> BulkLoadOp:
        return BulkLoadOp.create(
            operands=[described, slot, barrier, *at],
            properties={"cluster": number(blocks)} if blocks > 1 else {},
        )

    @property
    def blocks(self) -> int:
        """That get the box."""
        return 1 if self.cluster is None else self.cluster.value.data


@irdl_op_definition
class BulkStoreOp(IRDLOperation):
    """
    Each thread for which the predicate holds asks for a box to be written from a place on, but for
    what lies outside; the requests of one op are waited for together.

    ```mlir
    mlc_gpu.bulk_store %slot to %m[%row, %column] if %p : !mlc_gpu.tensor_map
    ```
    """

    name = "mlc_gpu.bulk_store"
    slot = operand_def(i32)
    map = operand_def(TensorMapType)
    condition = operand_def(i1)
    at = var_operand_def(i32)
    assembly_format = "$slot `to` $map `[` $at `]` `if` $condition attr-dict `:` type($map)"

    @staticmethod
    def of(
        slot: SSAValue, described: SSAValue, at: Sequence[SSAValue], condition: SSAValue
    ) -> BulkStoreOp:
        return BulkStoreOp.create(operands=[slot, described, condition, *at])


@irdl_op_definition
class BulkWaitOp(IRDLOperation):
    """
    Waits until all but the last so many stores of this thread have read their slots.

    ```mlir
    mlc_gpu.bulk_wait 1
    ```
    """

    name = "mlc_gpu.bulk_wait"
    pending = prop_def(COUNT)
    assembly_format = "$pending attr-dict"

    @staticmethod
    def of(pending: int) -> BulkWaitOp:
        return BulkWaitOp.create(properties={"pending": number(pending)})


@irdl_op_definition
class AsyncFenceOp(IRDLOperation):
    """
    The copy engine and products see what this thread has written to shared memory.

    ```mlir
    mlc_gpu.async_fence
    ```
    """

    name = "mlc_gpu.async_fence"
    assembly_format = "attr-dict"


ASYNC = (
    TensorMapOp, DynamicSharedOp, ElectOp, UniformOp, RegistersOp, BarrierInitOp, BarrierFenceOp,
    BarrierExpectOp, BarrierArriveOp, BarrierWaitOp, WarpBarrierOp, PrefetchMapOp, BulkLoadOp,
    BulkStoreOp, BulkWaitOp, AsyncFenceOp,
)  # fmt: skip
