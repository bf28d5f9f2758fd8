"""
mlc_vec.dot, mlc_vec.repeat, mlc_vec.round and the tile ops: products by the instructions that
dialects/target/intrinsics.py lists, on vectors and on tile registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    IndexType,
    IntAttr,
    MemRefType,
    StringAttr,
    VectorType,
    bf16,
    f32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_attr_definition,
    operand_def,
    param_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import dtype_of, named_dtype
from mlc.dialects.lanes import element_of, lanes_of, vector_type
from mlc.dialects.target.intrinsics import INTRINSICS, Intrinsic

TILE_ROWS, TILE_BYTES = 16, 64
"""Of a tile register. Source: Intel SDM volume 1, chapter 18, palette 1."""
TILE_ELEMENTS = tuple(
    dict.fromkeys(
        named_dtype(name).register for row in INTRINSICS if row.in_tiles for name in row.dtypes
    )
)


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    """
    A tile register: rows of elements, 16 rows of 64 bytes at most.

    ```mlir
    !mlc_vec.tile<16x32xbf16>
    ```
    """

    name = "mlc_vec.tile"
    rows: IntAttr = param_def()
    columns: IntAttr = param_def()
    element_type: Attribute = param_def()

    @staticmethod
    def of(rows: int, columns: int, element_type: Attribute) -> TileType:
        return TileType(IntAttr(rows), IntAttr(columns), element_type)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.rows.data, self.columns.data

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.columns.data * dtype_of(self.element_type).bytes

    def verify(self) -> None:
        rows, columns = self.shape
        if self.element_type not in TILE_ELEMENTS:
            expected = " or ".join(map(str, TILE_ELEMENTS))
            raise VerifyException(f"tile of {self.element_type}; expected {expected}")
        if not 1 <= rows <= TILE_ROWS or columns < 1 or not 4 <= self.row_bytes <= TILE_BYTES:
            raise VerifyException(
                f"tile of {rows} rows of {self.row_bytes} bytes; expected 1 to {TILE_ROWS} rows"
                f" of 4 to {TILE_BYTES} bytes"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
            if len(shape) != 2:
                parser.raise_error(f"a tile has rows and columns; {len(shape)} extents given")
            return [*map(IntAttr, shape), element]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.rows.data}x{self.columns.data}x")
            printer.print_attribute(self.element_type)


def rows_named(name: str) -> tuple[Intrinsic, ...]:
    """The rows of every machine and width that `via(name)` may mean."""
    return tuple(row for row in INTRINSICS if row.name == name)


@irdl_op_definition
class DotOp(IRDLOperation):
    """
    acc + a · b by one instruction: the row `row` of dialects/target/intrinsics.py, whose letters
    say how lanes hold rows, columns and summed indices. Where the row's tile has one row, `a` is
    its group of summed indices, repeated for each column.

    ```mlir
    %d = mlc_vec.dot "dot_bf16" %c, %a, %b : vector<16xf32>, vector<32xbf16>, vector<32xbf16>
    ```
    """

    name = "mlc_vec.dot"
    row = prop_def(StringAttr)
    T: ClassVar = VarConstraint("T", AnyAttr())
    acc = operand_def(T)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = (
        "$row $acc `,` $lhs `,` $rhs attr-dict `:` type($acc) `,` type($lhs) `,` type($rhs)"
    )

    @staticmethod
    def of(row: str, acc: SSAValue, lhs: SSAValue, rhs: SSAValue) -> DotOp:
        return DotOp.create(
            operands=(acc, lhs, rhs), result_types=(acc.type,), properties={"row": StringAttr(row)}
        )

    def verify_(self) -> None:
        rows = rows_named(self.row.data)
        types = (self.lhs.type, self.rhs.type, self.acc.type)
        if not rows:
            known = ", ".join(dict.fromkeys(row.name for row in INTRINSICS))
            raise VerifyException(
                f"mlc_vec.dot: no instruction {self.row.data!r}; expected {known}"
            )
        if not any(_fits(row, types) for row in rows):
            expected = " or ".join(dict.fromkeys(map(_expected, rows)))
            raise VerifyException(
                f"mlc_vec.dot {self.row.data}: {', '.join(map(str, types))} for lhs, rhs and sums;"
                f" expected {expected}"
            )


def _fits(row: Intrinsic, types: Sequence[Attribute]) -> bool:
    """Whether operands and sums have the types that a row asks for."""
    if row.in_tiles:
        return _tiles_fit(row, types)
    return tuple(types) == _vector_types(row)


def _vector_types(row: Intrinsic) -> tuple[Attribute, Attribute, Attribute]:
    m, n, k = row.shape
    lhs, rhs, acc = (named_dtype(name).register for name in row.dtypes)
    return (
        vector_type(lhs, (n if m == 1 else m) * k), vector_type(rhs, n * k), vector_type(acc, m * n)
    )  # fmt: skip


def _tiles_fit(row: Intrinsic, types: Sequence[Attribute]) -> bool:
    lhs, rhs, acc = types
    if not (isinstance(lhs, TileType) and isinstance(rhs, TileType) and isinstance(acc, TileType)):
        return False
    elements = tuple(named_dtype(name).register for name in row.dtypes)
    (m, k), (rows, columns), (height, n) = lhs.shape, rhs.shape, acc.shape
    shapes = m == height and k == rows * row.group and columns == n * row.group
    return shapes and elements == (lhs.element_type, rhs.element_type, acc.element_type)


def _expected(row: Intrinsic) -> str:
    if not row.in_tiles:
        return ", ".join(map(str, _vector_types(row)))
    a, b, c = row.dtypes
    return f"tile<MxKx{a}>, tile<K/{row.group} x N*{row.group} x{b}>, tile<MxNx{c}>"


@irdl_op_definition
class RepeatOp(IRDLOperation):
    """
    A vector of few lanes again and again: a group of summed indices for each column of `dot`.

    ```mlir
    %a = mlc_vec.repeat %pair : vector<2xbf16> to vector<32xbf16>
    ```
    """

    name = "mlc_vec.repeat"
    input = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    @staticmethod
    def of(value: SSAValue, lanes: int) -> RepeatOp:
        return RepeatOp.create(
            operands=(value,), result_types=(vector_type(element_of(value.type), lanes),)
        )

    def verify_(self) -> None:
        few, many = lanes_of(self.input.type) or 1, lanes_of(self.result.type) or 1
        if element_of(self.input.type) != element_of(self.result.type) or many % few:
            raise VerifyException(
                f"mlc_vec.repeat: {self.input.type} to {self.result.type}; expected the same"
                " element and a multiple of the lanes"
            )


@irdl_op_definition
class RoundOp(IRDLOperation):
    """
    f32 as bf16, to nearest even, by one instruction (`vcvtneps2bf16`): a subnormal number is zero,
    as it is to the products of the same extension.

    ```mlir
    %y = mlc_vec.round %x : vector<16xf32> to vector<16xbf16>
    ```
    """

    name = "mlc_vec.round"
    input = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    @staticmethod
    def of(value: SSAValue) -> RoundOp:
        kind = vector_type(bf16, lanes_of(value.type) or 1)
        return RoundOp.create(operands=(value,), result_types=(kind,))

    def verify_(self) -> None:
        lanes = lanes_of(self.input.type)
        elements = element_of(self.input.type), element_of(self.result.type)
        if elements != (f32, bf16) or lanes not in (8, 16) or lanes != lanes_of(self.result.type):
            raise VerifyException(
                f"mlc_vec.round: {self.input.type} to {self.result.type}; expected 8 or 16 lanes of"
                " f32, and as many of bf16"
            )


@irdl_op_definition
class TileZeroOp(IRDLOperation):
    """
    A tile of zeros.

    ```mlir
    %z = mlc_vec.tile_zero : !mlc_vec.tile<16x16xf32>
    ```
    """

    name = "mlc_vec.tile_zero"
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    @staticmethod
    def of(kind: TileType) -> TileZeroOp:
        return TileZeroOp.create(result_types=(kind,))


def _verify_rows(name: str, buffer: Attribute, indices: int, tile: Attribute) -> None:
    """A tile's rows lie one step of the buffer's last dim but one apart."""
    memory, kind = cast("MemRefType[Attribute]", buffer), cast("TileType", tile)
    dims = memory.get_num_dims()
    if dims != indices or dims < 2:
        raise VerifyException(f"{name}: {memory} has {dims} dims for {indices} indices; 2 or more")
    if memory.element_type != kind.element_type:
        raise VerifyException(f"{name}: element types differ: {memory} against {kind}")


@irdl_op_definition
class TileLoadOp(IRDLOperation):
    """
    Rows of memory from base[indices] on, each one step of the last dim but one further.

    ```mlir
    %a = mlc_vec.tile_load %x[%i, %k] : memref<?x64xbf16>, !mlc_vec.tile<16x32xbf16>
    ```
    """

    name = "mlc_vec.tile_load"
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    result = result_def(TileType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$base `[` $indices `]` attr-dict `:` type($base) `,` type($result)"

    @staticmethod
    def of(buffer: SSAValue, indices: Sequence[SSAValue], kind: TileType) -> TileLoadOp:
        return TileLoadOp.create(operands=(buffer, *indices), result_types=(kind,))

    def verify_(self) -> None:
        _verify_rows(self.name, self.base.type, len(self.indices), self.result.type)


@irdl_op_definition
class TileStoreOp(IRDLOperation):
    """
    A tile to rows of memory, as `tile_load` finds them.

    ```mlir
    mlc_vec.tile_store %c, %y[%i, %j] : memref<?x16xf32>, !mlc_vec.tile<16x16xf32>
    ```
    """

    name = "mlc_vec.tile_store"
    value = operand_def(TileType)
    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $base `[` $indices `]` attr-dict `:` type($base) `,` type($value)"

    @staticmethod
    def of(value: SSAValue, buffer: SSAValue, indices: Sequence[SSAValue]) -> TileStoreOp:
        return TileStoreOp.create(operands=(value, buffer, *indices))

    def verify_(self) -> None:
        _verify_rows(self.name, self.base.type, len(self.indices), self.value.type)


DOT_OPS = (DotOp, RepeatOp, RoundOp, TileZeroOp, TileLoadOp, TileStoreOp)
