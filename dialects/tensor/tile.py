"""`mlc.tile`: the part of a tensor at the positions of a tile loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, Shape, as_tensor, shape_of, tensor_type
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import INDEX
from mlc.dialects.tensor.element import ElementBuilder, Point
from mlc.dialects.tensor.op import AGAIN, Array, Tensor, TensorOp
from mlc.dialects.tensor.shape import ReshapeOp


@irdl_op_definition
class TileOp(TensorOp):
    """
    The part of `x` that begins at positions on some of its axes, with the result's sizes there: it
    lies inside.

    ```mlir
    %0 = mlc.tile %x[%i] at (0) : tensor<8x4xf32> -> tensor<?x4xf32, #mlc.dims<"T", 4>>
    ```
    """

    name = "mlc.tile"
    MOVES: ClassVar[bool] = True
    SHARES_MEMORY: ClassVar[bool] = True
    axes = prop_def(DimsAttr)  # an axis of x for each position
    x = operand_def(TensorType)
    positions = var_operand_def(TensorType)
    result = result_def(TensorType)

    @property
    def along(self) -> tuple[int, ...]:
        """The axis of each position."""
        return tuple(d.evaluate({}) for d in self.axes.data)

    @property
    def is_dense(self) -> bool:
        """Whether the part lies in one piece, row by row, where `x` does."""
        return is_dense(shape_of(self.x.type), self.shape)

    @property
    def looks_at_memory(self) -> bool:
        """Whether it is a part of a buffer, outside of kernels; else they compute it."""
        return not isinstance(self.parent_op(), KernelOp) and _is_in_memory(self.x)

    @property
    def only_moves(self) -> bool:
        return not self.looks_at_memory

    def reads(self, operand: int) -> int:
        return super().reads(operand) if shape_of(self.operands[operand].type) else AGAIN

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        x, *positions = operands
        dims, part = shape_of(x), shape_of(declared)
        axes = properties["axes"]
        assert isinstance(axes, DimsAttr)
        along = [d.constant for d in axes.data]
        if len(set(along)) != len(along) or len(along) != len(positions):
            raise ShapeError(f"mlc.tile: {len(positions)} positions at {axes}; expected one each")
        if not all(a is not None and 0 <= a < len(dims) for a in along):
            raise ShapeError(f"mlc.tile: positions at {axes}; {x} has {len(dims)} axes")
        for k, position in enumerate(positions):
            if position != INDEX:
                raise DTypeError(f"mlc.tile: position {k} is {position}; expected {INDEX}")
        fits = len(part) == len(dims) and all(
            k in along or a == b for k, (a, b) in enumerate(zip(dims, part, strict=True))
        )
        if not fits or x.element_type != declared.element_type:
            raise ShapeError(f"mlc.tile: {declared} is not a part of {x} at {axes}")
        return tensor_type(declared.element_type, part)

    def reference_at(self, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """The meaning for a concrete result shape."""
        x, *positions = operands
        begins = [0] * x.ndim
        for axis, position in zip(self.along, positions, strict=True):
            begins[axis] = int(position[()])
        part = x[tuple(slice(a, a + n) for a, n in zip(begins, shape, strict=True))]
        assert part.shape == shape, f"mlc.tile: {shape} at {begins} is not inside {x.shape}"
        return np.asarray(part)

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        point = list(at)
        for axis, position in zip(self.along, self.positions, strict=True):
            point[axis] = b.shift(at[axis], b.fetch(position, ()))
        return b.fetch(self.x, tuple(point))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.x)
        printer.print_string("[")
        printer.print_list(self.positions, printer.print_ssa_value)
        printer.print_string(f"] at ({', '.join(map(str, self.axes.data))})")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.x.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> TileOp:
        source = parser.parse_unresolved_operand()
        positions = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        parser.parse_keyword("at")
        axes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        parser.parse_punctuation("->")
        part = parser.parse_type()
        x = parser.resolve_operand(source, kind)
        begins = parser.resolve_operands(positions, [INDEX] * len(positions), parser.pos)
        return cls.create(
            operands=[x, *begins],
            result_types=[part],
            properties={"axes": DimsAttr(tuple(Dim.const(a) for a in axes))},
            attributes=attributes,
        )


def _is_in_memory(x: SSAValue) -> bool:
    while isinstance(x.owner, ReshapeOp) and x.owner.only_moves:
        x = x.owner.x
    return not isinstance(x.owner, TensorOp) or not x.owner.only_moves


def tile_size(symbol: str, step: int) -> Dim:
    """The size of a tile on an axis, in the region: a symbol, or the step where that divides."""
    return Dim.symbol(symbol) if symbol else Dim.const(step)


def tile_in(whole: Attribute, axes: Sequence[int], sizes: Sequence[Dim]) -> Tensor:
    """The type of a tile of a tensor: of a size on the axis of each loop axis; -1: it has none."""
    kind = as_tensor(whole)
    dims = list(shape_of(kind))
    for axis, size in zip(axes, sizes, strict=False):
        if 0 <= axis < len(dims):
            dims[axis] = size
    return tensor_type(kind.element_type, tuple(dims))


def is_dense(whole: Shape, part: Shape) -> bool:
    """Whether all axes behind the first of several elements are whole."""
    moving = (k for k, n in enumerate(part) if n != Dim.const(1))
    first = next(moving, len(part))
    return whole[first + 1 :] == part[first + 1 :]
