"""
Dialect `mlc_gpu`: where a thread stands in its grid, what the threads of a block share, and how the
entry starts a kernel.

A kernel is a `func.func` with the attribute `mlc_gpu.kernel`; the entry starts it with
`mlc_gpu.launch`. Each op becomes one intrinsic, or one step of the launch plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import auto

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    SymbolRefAttr,
    i64,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.gpu_async import ASYNC, TensorMapType
from mlc.dialects.gpu_clusters import CLUSTERS
from mlc.dialects.gpu_copies import COPIES
from mlc.dialects.gpu_products import PRODUCTS

INDEX = IndexType()
KERNEL_ATTRIBUTE = "mlc_gpu.kernel"
"""On a func.func: the most threads that a block of this kernel has."""
RESIDENT_ATTRIBUTE = "mlc_gpu.resident"
"""On it: blocks that a multiprocessor has at once, which bounds the registers of their threads."""
SHARED_SPACE = 3
"""Memory space of what the threads of a block share. Source: NVVM IR specification."""


class Axis(StrEnum):
    """An axis of the grid; x runs fastest."""

    X = auto()
    Y = auto()
    Z = auto()


@irdl_attr_definition
class AxisAttr(EnumAttribute[Axis]):
    """The axis that an id or a size is asked for."""

    name = "mlc_gpu.axis"


AXES = {str(axis): AxisAttr(axis) for axis in Axis}


class _Place(IRDLOperation):
    """Part of where a thread stands."""

    axis = prop_def(AxisAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict `:` type($result)"

    @classmethod
    def of(cls, axis: str) -> _Place:
        """The value along an axis: "x", "y" or "z"."""
        return cls.create(result_types=(INDEX,), properties={"axis": AXES[axis]})


@irdl_op_definition
class ThreadIdOp(_Place):
    """
    The number of this thread in its block.

    ```mlir
    %t = mlc_gpu.thread_id x : index
    ```
    """

    name = "mlc_gpu.thread_id"


@irdl_op_definition
class BlockIdOp(_Place):
    """
    The number of this block in the grid.

    ```mlir
    %b = mlc_gpu.block_id x : index
    ```
    """

    name = "mlc_gpu.block_id"


@irdl_op_definition
class BlockDimOp(_Place):
    """
    Threads of a block.

    ```mlir
    %n = mlc_gpu.block_dim x : index
    ```
    """

    name = "mlc_gpu.block_dim"


@irdl_op_definition
class GridDimOp(_Place):
    """
    Blocks of the grid.

    ```mlir
    %n = mlc_gpu.grid_dim x : index
    ```
    """

    name = "mlc_gpu.grid_dim"


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """
    All threads of the block wait for each other; shared memory written before is visible after.

    ```mlir
    mlc_gpu.barrier
    ```
    """

    name = "mlc_gpu.barrier"
    assembly_format = "attr-dict"


@irdl_op_definition
class SharedOp(IRDLOperation):
    """
    A buffer of static size that the threads of a block share; its contents are undefined at first.

    ```mlir
    %tile = mlc_gpu.shared : memref<16x68xf32, 3 : i64>
    ```
    """

    name = "mlc_gpu.shared"
    buffer = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($buffer)"

    @staticmethod
    def of(element: Attribute, shape: Sequence[int]) -> SharedOp:
        return SharedOp.create(result_types=(shared_type(element, shape),))

    def verify_(self) -> None:
        buffer = self.buffer.type
        assert isinstance(buffer, MemRefType)
        if DYNAMIC_INDEX in buffer.get_shape() or buffer != shared_type(
            buffer.element_type, buffer.get_shape()
        ):
            raise VerifyException(
                f"mlc_gpu.shared: {buffer}; expected static sizes and memory space {SHARED_SPACE}"
            )


def shared_type(element: Attribute, shape: Sequence[int]) -> MemRefType[Attribute]:
    """A row-major memref in shared memory."""
    return MemRefType(element, shape, memory_space=IntegerAttr(SHARED_SPACE, i64))


class ShuffleKind(StrEnum):
    """
    Whose value a thread receives: that of lane xor offset, of lane + offset, or of lane - offset;
    its own where there is no such lane.
    """

    XOR = auto()
    DOWN = auto()
    UP = auto()


@irdl_attr_definition
class ShuffleKindAttr(EnumAttribute[ShuffleKind]):
    """The kind of `mlc_gpu.shuffle`."""

    name = "mlc_gpu.shuffle_kind"


SHUFFLES = {str(kind): ShuffleKindAttr(kind) for kind in ShuffleKind}


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """
    The value that another thread of the warp holds. All 32 threads must take part.

    ```mlir
    %other = mlc_gpu.shuffle xor %x by 16 : f32
    ```
    """

    name = "mlc_gpu.shuffle"
    kind = prop_def(ShuffleKindAttr)
    offset = prop_def(IntegerAttr[I64])
    value = operand_def()
    result = result_def()
    assembly_format = "$kind $value `by` $offset attr-dict `:` type($value) `to` type($result)"

    @staticmethod
    def of(kind: str, value: SSAValue, offset: int) -> ShuffleOp:
        return ShuffleOp.create(
            operands=(value,),
            result_types=(value.type,),
            properties={"kind": SHUFFLES[kind], "offset": IntegerAttr(offset, i64)},
        )

    def verify_(self) -> None:
        have = self.value.type
        if have != self.result.type:
            raise VerifyException(f"mlc_gpu.shuffle: {have} in, {self.result.type} out")
        if not isinstance(have, IntegerType | IndexType | AnyFloat):
            raise VerifyException(f"mlc_gpu.shuffle moves scalars, not {have}")
        if not 0 < self.offset.value.data < 32:
            raise VerifyException(
                f"mlc_gpu.shuffle: offset {self.offset.value.data} is not in 1..31"
            )


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """
    Starts a kernel on a grid of blocks; the entry goes on without waiting. Nothing is started when
    the grid is empty. Launches run one after the other. `shared`: bytes of dynamic shared memory.

    ```mlir
    mlc_gpu.launch @cell grid (%g, %c1, %c1) block (%c256, %c1, %c1) args (%x) : memref<?xf32>
    ```
    """

    name = "mlc_gpu.launch"
    callee = prop_def(SymbolRefAttr)
    shared_bytes = opt_prop_def(IntegerAttr[I64])
    grid = var_operand_def(IndexType)
    block = var_operand_def(IndexType)
    arguments = var_operand_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @staticmethod
    def of(
        callee: str,
        grid: Sequence[SSAValue],
        block: Sequence[SSAValue],
        arguments: Sequence[SSAValue],
        shared_bytes: int = 0,
    ) -> LaunchOp:
        properties: dict[str, Attribute] = {"callee": SymbolRefAttr(callee)}
        if shared_bytes:
            properties["shared_bytes"] = IntegerAttr(shared_bytes, i64)
        return LaunchOp(operands=[grid, block, arguments], properties=properties)

    def verify_(self) -> None:
        if len(self.grid) != 3 or len(self.block) != 3:
            raise VerifyException(
                f"mlc_gpu.launch: {len(self.grid)} grid and {len(self.block)} block sizes; "
                "expected three each"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.callee)
        for word, values in (
            ("grid", self.grid),
            ("block", self.block),
            ("args", self.arguments),
        ):
            printer.print_string(f" {word} (")
            printer.print_list(values, printer.print_ssa_value)
            printer.print_string(")")
        if self.shared_bytes is not None:
            printer.print_string(f" shared {self.shared_bytes.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.arguments, lambda x: printer.print_attribute(x.type))

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        callee = parser.parse_symbol_name()

        def values(word: str) -> list[object]:
            parser.parse_keyword(word)
            return list(
                parser.parse_comma_separated_list(
                    parser.Delimiter.PAREN, parser.parse_unresolved_operand
                )
            )

        grid, block, arguments = values("grid"), values("block"), values("args")
        shared = 0
        if parser.parse_optional_keyword("shared"):
            shared = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        threes = [INDEX] * 3
        op = cls.of(
            callee.data,
            parser.resolve_operands(grid, threes, parser.pos),  # pyright: ignore[reportArgumentType]
            parser.resolve_operands(block, threes, parser.pos),  # pyright: ignore[reportArgumentType]
            parser.resolve_operands(arguments, types, parser.pos),  # pyright: ignore[reportArgumentType]
            shared,
        )
        op.attributes |= attributes
        return op


@irdl_op_definition
class WriteIndexOp(IRDLOperation):
    """
    The entry writes a number into device memory, as i64, after the launches before it have run.

    ```mlir
    mlc_gpu.write_index %i, %cell : memref<1xi64>
    ```
    """

    name = "mlc_gpu.write_index"
    value = operand_def(IndexType)
    buffer = operand_def(MemRefType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $buffer attr-dict `:` type($buffer)"

    @staticmethod
    def of(value: SSAValue, buffer: SSAValue) -> WriteIndexOp:
        return WriteIndexOp.create(operands=(value, buffer))


MlcGpu = Dialect(
    "mlc_gpu",
    [
        ThreadIdOp,
        BlockIdOp,
        BlockDimOp,
        GridDimOp,
        BarrierOp,
        SharedOp,
        ShuffleOp,
        LaunchOp,
        WriteIndexOp,
        *CLUSTERS,
        *COPIES,
        *ASYNC,
        *PRODUCTS,
    ],
    [AxisAttr, ShuffleKindAttr, TensorMapType],
)
