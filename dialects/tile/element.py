"""
Ops whose regions say what one element is: the plan's own ops on tensors without axes, and reads of
memory at computed places.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IndexType, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    EqAttrConstraint,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import tensor_type
from mlc.dialects.tensor.control import CONDITION
from mlc.dialects.tensor.control import INDEX as POSITION
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tile.access import parse_access, print_access
from mlc.dialects.tile.expression import (
    ExpressionsAttr,
    Positions,
    check_positions,
    letters_in,
    parse_expression,
    parse_value,
    print_expression,
)
from mlc.dialects.tile.letters import check_access
from mlc.dialects.tile.region import YieldOp, check_yield, in_groups, parse_body, print_body
from mlc.dialects.tile.types import FragType, ViewType, frag_of, rank_of, view_of

INDEX = IndexType()
EXCESS = "excess"
"""Attribute of a map whose values may be more exact than their dtype."""


def scalar(element: Attribute) -> TensorType[Attribute]:
    """The type of one element in a region."""
    return tensor_type(element, ())


def check_elements(name: str, block: Block, kinds: Sequence[Attribute]) -> None:
    """VerifyException unless a region computes elements of these types, one for each value."""
    for op in block.ops:
        known = isinstance(op, TensorOp | ReadOp | PositionOp | YieldOp)
        if isinstance(op, OpaqueOp) or not known:
            raise VerifyException(
                f"{name}: {op.name} in a region of elements; expected ops that compute one element"
                " from others, mlc_tile.read and mlc_tile.position"
            )
        for value in (*op.operands, *op.results):
            kind = value.type
            if isinstance(kind, TensorType) and len(kind.get_shape()):
                raise VerifyException(f"{name}: {op.name} on {kind}; expected tensors without axes")
    check_yield(name, block, kinds)


def parse_coordinates(
    parser: Parser, positions: Positions
) -> tuple[list[Parser.Argument], list[ExpressionsAttr]]:
    """``at(%m = %i + %r, %n)``: names of coordinates, and where they begin."""
    names: list[Parser.Argument] = []
    starts: list[ExpressionsAttr] = []

    def one() -> None:
        names.append(parser.parse_argument(expect_type=False).resolve(POSITION))
        begins = parser.parse_optional_punctuation("=")
        dims = (parse_expression(parser, positions),) if begins else ()
        starts.append(ExpressionsAttr(dims))

    if parser.parse_optional_keyword("at"):
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
    return names, starts


def print_coordinates(
    printer: Printer,
    names: Sequence[SSAValue],
    starts: Sequence[ExpressionsAttr],
    positions: Sequence[SSAValue],
) -> None:
    """As `parse_coordinates` reads them."""

    def one(entry: tuple[SSAValue, ExpressionsAttr]) -> None:
        printer.print_ssa_value(entry[0])
        if entry[1].data:
            printer.print_string(" = ")
            print_expression(printer, entry[1].data[0], positions)

    if starts:
        printer.print_string(" at(")
        printer.print_list(list(zip(names, starts, strict=False)), one)
        printer.print_string(")")


@irdl_op_definition
class MapOp(IRDLOperation):
    """
    Computes fragments element by element. The region takes an element of each operand, then the
    element's place along each axis, counted from where it is said to begin. An operand with fewer
    axes is the same along the last ones. With the attribute `excess` products that are added to
    something are not rounded before.

    ```mlir
    %y = mlc_tile.map(%x = %s) at(%m = %i, %n = %j) -> (!mlc_tile.frag<12x32xf32>) {
      %b = mlc_tile.read %bias[%n] : tensor<f32>
      %v = mlc.add %x, %b : tensor<f32>
      mlc_tile.yield %v : tensor<f32>
    }
    ```
    """

    name = "mlc_tile.map"
    starts = prop_def(ArrayAttr[ExpressionsAttr])  # of each axis, or none at all
    inputs = var_operand_def(FragType)
    positions = var_operand_def(INDEX)
    outs = var_result_def(FragType)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(RecursiveMemoryEffect())

    @staticmethod
    def of(
        inputs: Sequence[SSAValue],
        starts: Sequence[ExpressionsAttr],
        positions: Sequence[SSAValue],
        kinds: Sequence[Attribute],
        body: Region,
    ) -> MapOp:
        return MapOp.create(
            operands=[*inputs, *positions],
            result_types=kinds,
            properties={"starts": ArrayAttr(starts), **in_groups(len(inputs), len(positions))},
            regions=[body],
        )

    def verify_(self) -> None:
        kinds = [frag_of(x) for x in (*self.inputs, *self.outs)]
        if not self.outs:
            raise VerifyException(f"{self.name}: expected results")
        whole = kinds[-1].dims.data
        repeated = all(x.dims.data == whole[: len(x.dims.data)] for x in kinds[: len(self.inputs)])
        if not repeated or any(frag_of(x).dims.data != whole for x in self.outs):
            found = ", ".join(map(str, kinds))
            raise VerifyException(
                f"{self.name}: {found}; expected fragments of one shape, or operands without its"
                " last axes"
            )
        for start in self.starts:
            check_positions(self.name, start.data, self.positions)
        if len(self.starts) not in (0, len(whole)):
            raise VerifyException(
                f"{self.name}: {len(self.starts)} coordinates of {kinds[-1]}; expected one an axis"
            )
        expected = [scalar(frag_of(x).element) for x in self.inputs]
        expected += [POSITION] * len(self.starts)
        if [a.type for a in self.body.block.args] != expected:
            raise VerifyException(
                f"{self.name}: the region takes ({', '.join(map(str, expected))})"
            )
        check_elements(self.name, self.body.block, [scalar(frag_of(x).element) for x in self.outs])

    def print(self, printer: Printer) -> None:
        arguments = self.body.block.args

        def pair(entry: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(entry[0])
            printer.print_string(" = ")
            printer.print_ssa_value(entry[1])

        printer.print_string("(")
        printer.print_list(list(zip(arguments, self.inputs, strict=False)), pair)
        printer.print_string(")")
        names = arguments[len(self.inputs) :]
        print_coordinates(printer, names, self.starts.data, self.positions)
        printer.print_string(" -> (")
        printer.print_list([x.type for x in self.outs], printer.print_attribute)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> MapOp:
        positions = Positions()

        def pair() -> tuple[Parser.UnresolvedArgument, SSAValue]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            at, value = parser.pos, parse_value(parser)
            if not isinstance(value.type, FragType):
                parser.raise_error(f"found {value.type}; expected a !mlc_tile.frag", at)
            return argument, value

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
        names, starts = parse_coordinates(parser, positions)
        parser.parse_punctuation("->")
        kinds = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        arguments = [a.resolve(scalar(frag_of(x).element)) for a, x in pairs]
        body = parse_body(parser, [*arguments, *names])
        op = cls.of([x for _, x in pairs], starts, positions.values, kinds, body)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class ElementsOp(IRDLOperation):
    """
    Memory that is not there: each element is computed where it is read, from its place. So a factor
    of a product is read with what is done to it before, in place or while it is packed.

    ```mlir
    %v = mlc_tile.elements at(%m, %k) : !mlc_tile.view<"M"x1024xf32> {
      %x = mlc_tile.read %a[%m, %k] : tensor<f32>
      %y = mlc.exp %x : tensor<f32>
      mlc_tile.yield %y : tensor<f32>
    }
    ```
    """

    name = "mlc_tile.elements"
    result = result_def(ViewType)
    body = region_def("single_block")
    traits = traits_def(Pure())

    @staticmethod
    def of(kind: ViewType, body: Region) -> ElementsOp:
        return ElementsOp.create(result_types=[kind], regions=[body])

    def verify_(self) -> None:
        kind = view_of(self.result)
        if [a.type for a in self.body.block.args] != [POSITION] * len(kind.shape):
            raise VerifyException(f"{self.name}: the region takes a coordinate for each axis")
        check_elements(self.name, self.body.block, [scalar(kind.element)])

    def print(self, printer: Printer) -> None:
        printer.print_string(" at(")
        printer.print_list(self.body.block.args, printer.print_ssa_value)
        printer.print_string(") : ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> ElementsOp:
        parser.parse_keyword("at")
        names = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
        )
        parser.parse_punctuation(":")
        at, kind = parser.pos, parser.parse_type()
        if not isinstance(kind, ViewType):
            parser.raise_error(f"found {kind}; expected a !mlc_tile.view", at)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls.of(kind, parse_body(parser, [name.resolve(POSITION) for name in names]))
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class ReadOp(IRDLOperation):
    """
    One element of memory, in a region of elements, at a place that positions of loops and computed
    i64 elements say. Nothing is read, and it is 0, where `where` is false.

    ```mlir
    %b = mlc_tile.read %x[%i, %j + 1] where %ok : tensor<f32>
    ```
    """

    name = "mlc_tile.read"
    at = prop_def(ExpressionsAttr)
    view = operand_def(ViewType)
    where = opt_operand_def(CONDITION)
    positions = var_operand_def(EqAttrConstraint(INDEX) | EqAttrConstraint(POSITION))
    result = result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    @staticmethod
    def of(
        view: SSAValue,
        at: ExpressionsAttr,
        positions: Sequence[SSAValue],
        *,
        where: SSAValue | None = None,
    ) -> ReadOp:
        only = () if where is None else (where,)
        return ReadOp.create(
            operands=[view, *only, *positions],
            result_types=[scalar(view_of(view).element)],
            properties={"at": at, **in_groups(1, len(only), len(positions))},
        )

    def verify_(self) -> None:
        check_positions(self.name, self.at.data, self.positions)
        if letters_in(self.at.data):
            raise VerifyException(f"{self.name}: one element has no letters")
        check_access(self.name, self.at.data, rank_of(self.view.type), ())
        if self.result.type != scalar(view_of(self.view).element):
            raise VerifyException(f"{self.name}: {self.result.type} of {self.view.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self.view, self.at, self.positions)
        if self.where is not None:
            printer.print_string(" where ")
            printer.print_ssa_value(self.where)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ReadOp:
        positions = Positions()
        start = parser.pos
        view, at = parse_access(parser, positions)
        if not isinstance(view.type, ViewType):
            parser.raise_error(f"found {view.type}; expected a !mlc_tile.view", start)
        where = parse_value(parser) if parser.parse_optional_keyword("where") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        op = cls.of(view, at, positions.values, where=where)
        if op.result.type != kind:
            parser.raise_error(f"found {kind}; expected {op.result.type}", start)
        op.attributes |= attributes
        return op


@irdl_op_definition
class PositionOp(IRDLOperation):
    """
    A position as an element, in a region of elements.

    ```mlir
    %p = mlc_tile.position %n floordiv 4 : tensor<i64>
    ```
    """

    name = "mlc_tile.position"
    at = prop_def(ExpressionsAttr)  # one
    positions = var_operand_def(EqAttrConstraint(INDEX) | EqAttrConstraint(POSITION))
    result = result_def(POSITION)
    traits = traits_def(Pure())

    @staticmethod
    def of(at: ExpressionsAttr, positions: Sequence[SSAValue]) -> PositionOp:
        return PositionOp.create(operands=positions, result_types=[POSITION], properties={"at": at})

    def verify_(self) -> None:
        check_positions(self.name, self.at.data, self.positions)
        if len(self.at.data) != 1 or letters_in(self.at.data):
            raise VerifyException(f"{self.name}: expected one expression without letters")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_expression(printer, self.at.data[0], self.positions)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> PositionOp:
        positions = Positions()
        at = ExpressionsAttr((parse_expression(parser, positions),))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start, kind = parser.pos, parser.parse_type()
        if kind != POSITION:
            parser.raise_error(f"found {kind}; expected {POSITION}", start)
        op = cls.of(at, positions.values)
        op.attributes |= attributes
        return op


ELEMENTS = (MapOp, ElementsOp, ReadOp, PositionOp)
