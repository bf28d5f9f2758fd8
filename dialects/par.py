"""
Dialect `mlc_par`: the execution context of a compiled function, parallel regions, and what a
kernel asks of the runtime (arena memory, cancellation, run-time errors).

The context is one C struct per call, passed as the first argument of every kernel. Its layout is
frozen (dialects/abi.py): object code in caches depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    lazy_traits_def,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import (
    HasParent,
    IsTerminator,
    MemoryReadEffect,
    Pure,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.lapack import LapackFoundOp, LapackOp

INDEX = IndexType()


@irdl_attr_definition
class ContextType(ParametrizedAttribute, TypeAttribute):
    """The context of one call."""

    name = "mlc_par.ctx"


CONTEXT = ContextType()


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the body of `mlc_par.region`."""

    name = "mlc_par.yield"
    traits = lazy_traits_def(lambda: (HasParent(RegionOp), IsTerminator(), Pure()))
    assembly_format = "attr-dict"


@irdl_op_definition
class RegionOp(IRDLOperation):
    """
    Runs the body once on each of at most `threads` threads; `%tid` counts from 0 to `%nt` - 1. The
    runtime may give fewer threads than asked, so work is divided by `%nt`. The body may use every
    value defined outside and has no results. With `threads` <= 1 the body runs on the caller. The
    OpenMP runtime is always asked for all threads of the call, of which the others do nothing: it
    ends threads that a smaller team leaves over, and starts them again.

    ```mlir
    mlc_par.region (%ctx, %threads) {
    ^bb0(%tid: index, %nt: index):
      %stop = mlc_par.barrier %ctx, %tid of %nt : i1
      mlc_par.leave %stop
      mlc_par.yield
    }
    ```
    """

    name = "mlc_par.region"
    ctx = operand_def(ContextType)
    threads = operand_def(IndexType)
    body = region_def("single_block")
    traits = traits_def(SingleBlockImplicitTerminator(YieldOp), RecursiveMemoryEffect())
    assembly_format = "`(` $ctx `,` $threads `)` $body attr-dict"

    @staticmethod
    def of(ctx: SSAValue, threads: SSAValue, body: Region) -> RegionOp:
        return RegionOp.create(operands=(ctx, threads), regions=(body,))

    def verify_(self) -> None:
        types = tuple(arg.type for arg in self.body.block.args)
        if types != (INDEX, INDEX):
            raise VerifyException(
                "mlc_par.region: the body takes (%tid: index, %nt: index), got ("
                + ", ".join(str(t) for t in types)
                + ")"
            )


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """
    All `workers` of a region wait for each other; memory written before is visible after. The
    result is the same for all: whether the call must stop, since it is cancelled or has met an
    error. Only this bit may decide whether a team goes on.

    ```mlir
    %stop = mlc_par.barrier %ctx, %worker of %workers : i1
    ```
    """

    name = "mlc_par.barrier"
    ctx = operand_def(ContextType)
    worker = operand_def(IndexType)
    workers = operand_def(IndexType)
    stop = result_def(i1)
    assembly_format = "$ctx `,` $worker `of` $workers attr-dict `:` type($stop)"

    @staticmethod
    def of(ctx: SSAValue, worker: SSAValue, workers: SSAValue) -> BarrierOp:
        return BarrierOp.create(operands=(ctx, worker, workers), result_types=(i1,))


@irdl_op_definition
class TakeOp(IRDLOperation):
    """
    The next trip of a loop whose trips `threads` workers take one by one: of several the next that
    none of them has, of one the trip after `last`. Trips count from 0 after each barrier.

    ```mlir
    %trip = mlc_par.take %ctx, %last of %threads : index
    ```
    """

    name = "mlc_par.take"
    ctx = operand_def(ContextType)
    last = operand_def(IndexType)
    threads = operand_def(IndexType)
    trip = result_def(IndexType)
    assembly_format = "$ctx `,` $last `of` $threads attr-dict `:` type($trip)"

    @staticmethod
    def of(ctx: SSAValue, last: SSAValue, threads: SSAValue) -> TakeOp:
        return TakeOp.create(operands=(ctx, last, threads), result_types=(INDEX,))


@irdl_op_definition
class LeaveOp(IRDLOperation):
    """
    Ends the body of the region, or the kernel, where the condition holds. For all workers alike, so
    the condition is what a barrier has said.

    ```mlir
    mlc_par.leave %stop
    ```
    """

    name = "mlc_par.leave"
    stop = operand_def(i1)
    assembly_format = "$stop attr-dict"

    @staticmethod
    def of(stop: SSAValue) -> LeaveOp:
        return LeaveOp.create(operands=(stop,))

    def verify_(self) -> None:
        if not isinstance(self.stop.owner, BarrierOp):
            raise VerifyException(
                "mlc_par.leave: the condition comes from "
                f"{getattr(self.stop.owner, 'name', 'an argument')}; expected an mlc_par.barrier:"
                " workers that decide apart wait for each other for ever"
            )


@irdl_op_definition
class ThreadsOp(IRDLOperation):
    """
    Number of threads that this call may use; constant during the call.

    ```mlir
    %threads = mlc_par.threads %ctx : index
    ```
    """

    name = "mlc_par.threads"
    ctx = operand_def(ContextType)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$ctx attr-dict `:` type($result)"

    @staticmethod
    def of(ctx: SSAValue) -> ThreadsOp:
        return ThreadsOp.create(operands=(ctx,), result_types=(INDEX,))


@irdl_op_definition
class TeamOp(IRDLOperation):
    """
    How many workers the team of this call has: of the threads that it may use as many as there are
    shares of its work. Where they may be asleep only as many as repay waking them. The results of
    the call do not depend on it.

    ```mlir
    %workers = mlc_par.team %ctx, %shares waking %few : index
    ```
    """

    name = "mlc_par.team"
    ctx = operand_def(ContextType)
    shares = operand_def(IndexType)
    waking = operand_def(IndexType)
    result = result_def(IndexType)
    assembly_format = "$ctx `,` $shares `waking` $waking attr-dict `:` type($result)"

    @staticmethod
    def of(ctx: SSAValue, shares: SSAValue, waking: SSAValue) -> TeamOp:
        return TeamOp.create(operands=(ctx, shares, waking), result_types=(INDEX,))


def check_sizes(name: str, buffer: Attribute, sizes: int) -> None:
    """VerifyException unless there is one size for each dynamic dim of a buffer."""
    assert isinstance(buffer, MemRefType)
    dynamic_dims = sum(size == DYNAMIC_INDEX for size in buffer.get_shape())
    if dynamic_dims != sizes:
        raise VerifyException(
            f"{name}: {buffer} has {dynamic_dims} dynamic dims, got {sizes} sizes"
        )


@irdl_op_definition
class ArenaOp(IRDLOperation):
    """
    The buffer that begins `byte_offset` bytes into the arena; one size per dynamic dim. Valid until
    the next `mlc_par.reserve`.

    ```mlir
    %t = mlc_par.arena %ctx, %c4096 [%n] : memref<?x16xf32>
    ```
    """

    name = "mlc_par.arena"
    ctx = operand_def(ContextType)
    byte_offset = operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    buffer = result_def(MemRefType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$ctx `,` $byte_offset `[` $sizes `]` attr-dict `:` type($buffer)"

    @staticmethod
    def of(
        ctx: SSAValue, byte_offset: SSAValue, sizes: Sequence[SSAValue], buffer: MemRefType
    ) -> ArenaOp:
        return ArenaOp.create(operands=(ctx, byte_offset, *sizes), result_types=(buffer,))

    def verify_(self) -> None:
        check_sizes(self.name, self.buffer.type, len(self.sizes))


@irdl_op_definition
class ShiftOp(IRDLOperation):
    """
    The buffer that begins `offset` elements into another; one size per dynamic dim.

    ```mlir
    %t = mlc_par.shift %x, %offset [%n] : memref<?xf32> -> memref<?xf32>
    ```
    """

    name = "mlc_par.shift"
    source = operand_def(MemRefType)
    offset = operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    buffer = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `,` $offset `[` $sizes `]` attr-dict `:` type($source) `->` type($buffer)"
    )

    @staticmethod
    def of(
        source: SSAValue, offset: SSAValue, sizes: Sequence[SSAValue], buffer: MemRefType
    ) -> ShiftOp:
        return ShiftOp.create(operands=(source, offset, *sizes), result_types=(buffer,))

    def verify_(self) -> None:
        check_sizes(self.name, self.buffer.type, len(self.sizes))


@irdl_op_definition
class ReserveOp(IRDLOperation):
    """
    Makes the arena at least `arena_bytes` large; the entry returns status 2 when that fails.
    Only in the entry function, before the first `mlc_par.arena`.

    ```mlir
    mlc_par.reserve %ctx, %bytes
    ```
    """

    name = "mlc_par.reserve"
    ctx = operand_def(ContextType)
    arena_bytes = operand_def(IndexType)
    assembly_format = "$ctx `,` $arena_bytes attr-dict"

    @staticmethod
    def of(ctx: SSAValue, arena_bytes: SSAValue) -> ReserveOp:
        return ReserveOp.create(operands=(ctx, arena_bytes))


@irdl_op_definition
class CancelledOp(IRDLOperation):
    """
    Whether the user has interrupted this call. Read anew each time: neither removed nor merged.

    ```mlir
    %stop = mlc_par.cancelled %ctx : i1
    ```
    """

    name = "mlc_par.cancelled"
    ctx = operand_def(ContextType)
    result = result_def(i1)
    assembly_format = "$ctx attr-dict `:` type($result)"

    @staticmethod
    def of(ctx: SSAValue) -> CancelledOp:
        return CancelledOp.create(operands=(ctx,), result_types=(i1,))


@irdl_op_definition
class StoppedOp(IRDLOperation):
    """
    Whether this call must stop: the user has interrupted it, or it has met an error. Read anew each
    time, as `mlc_par.cancelled`; for what one worker does alone.

    ```mlir
    %stop = mlc_par.stopped %ctx : i1
    ```
    """

    name = "mlc_par.stopped"
    ctx = operand_def(ContextType)
    result = result_def(i1)
    assembly_format = "$ctx attr-dict `:` type($result)"

    @staticmethod
    def of(ctx: SSAValue) -> StoppedOp:
        return StoppedOp.create(operands=(ctx,), result_types=(i1,))


RARELY = "mlc.rarely"
"""Attribute of a branch: its condition hardly ever holds."""


@irdl_op_definition
class FailOp(IRDLOperation):
    """
    Records a run-time error: place `site` of the program met `value` where `extent` was the bound.
    The first error of a call is kept, whichever thread meets it. The kernel goes on (it must not
    touch memory through the bad value); the entry returns status 1 at its next `mlc_par.check`.

    ```mlir
    mlc_par.fail %ctx site 3 value %i extent %n
    ```
    """

    name = "mlc_par.fail"
    ctx = operand_def(ContextType)
    site = prop_def(IntegerAttr[I64])
    value = operand_def(IndexType)
    extent = operand_def(IndexType)
    assembly_format = "$ctx `site` $site `value` $value `extent` $extent attr-dict"

    @staticmethod
    def of(ctx: SSAValue, site: int, value: SSAValue, extent: SSAValue) -> FailOp:
        return FailOp.create(
            operands=(ctx, value, extent), properties={"site": IntegerAttr(site, i64)}
        )

    def verify_(self) -> None:
        if self.site.value.data < 1:
            raise VerifyException(
                f"mlc_par.fail: site {self.site.value.data}; sites count from 1 (0 means no error)"
            )


@irdl_op_definition
class LibraryOp(IRDLOperation):
    """
    Calls a library routine (dialects/tensor/library.py) through the runtime: from contiguous
    matrices `a` and `b` into `out`, `batch` times. The status is 0 or the number of its fault.

    ```mlir
    %status = mlc_par.library %ctx routine 2 dtype 11 (%a, %b, %c, %out) [%batch, %m, %n, %p, %k]
            : memref<?xf32>, memref<?xf32>, memref<?xf32>, memref<?xf32>
    ```
    """

    name = "mlc_par.library"
    ctx = operand_def(ContextType)
    routine = prop_def(IntegerAttr[I64])
    dtype = prop_def(IntegerAttr[I64])
    buffers = var_operand_def(MemRefType)
    sizes = var_operand_def(IndexType)
    status = result_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$ctx `routine` $routine `dtype` $dtype `(` $buffers `)` `[` $sizes `]` attr-dict"
        " `:` type($buffers)"
    )

    @staticmethod
    def of(
        ctx: SSAValue,
        routine: int,
        dtype: int,
        buffers: Sequence[SSAValue],
        sizes: Sequence[SSAValue],
    ) -> LibraryOp:
        segments = DenseArrayBase.from_list(i32, [1, len(buffers), len(sizes)])
        return LibraryOp.create(
            operands=(ctx, *buffers, *sizes),
            result_types=(INDEX,),
            properties={
                "routine": IntegerAttr(routine, i64),
                "dtype": IntegerAttr(dtype, i64),
                "operandSegmentSizes": segments,
            },
        )

    def verify_(self) -> None:
        if len(self.buffers) != 4 or len(self.sizes) != 5:
            raise VerifyException(
                f"mlc_par.library: {len(self.buffers)} buffers and {len(self.sizes)} sizes;"
                " expected 4 and 5"
            )


@irdl_op_definition
class CheckOp(IRDLOperation):
    """
    Leaves the entry function with status 1 when an error is recorded, with status 3 when the call
    is cancelled. Only in the entry function, between kernels.

    ```mlir
    mlc_par.check %ctx
    ```
    """

    name = "mlc_par.check"
    ctx = operand_def(ContextType)
    assembly_format = "$ctx attr-dict"

    @staticmethod
    def of(ctx: SSAValue) -> CheckOp:
        return CheckOp.create(operands=(ctx,))


MlcPar = Dialect(
    "mlc_par",
    [
        YieldOp,
        RegionOp,
        BarrierOp,
        TakeOp,
        LeaveOp,
        ThreadsOp,
        TeamOp,
        ArenaOp,
        ShiftOp,
        ReserveOp,
        CancelledOp,
        StoppedOp,
        FailOp,
        CheckOp,
        LibraryOp,
        LapackFoundOp,
        LapackOp,
    ],
    [ContextType],
)
