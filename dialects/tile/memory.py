"""Ops that hold, fill and move tiles in memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    eq,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim
from mlc.dialects.tile.access import Number, parse_access, parse_number, print_access, print_number
from mlc.dialects.tile.control import SCOPES
from mlc.dialects.tile.expression import (
    ConditionsAttr,
    ExpressionsAttr,
    Positions,
    check_positions,
    letters_in,
    parse_conditions,
    parse_value,
    print_conditions,
)
from mlc.dialects.tile.letters import Word, check_access, coordinates, letters_of
from mlc.dialects.tile.types import FragType, ViewType, frag_of, rank_of, view_of

INDEX = IndexType()
AXES = "abcdefghijklmnopqrstuvwxyz"


@irdl_op_definition
class AllocOp(IRDLOperation):
    """
    Memory that lives while the region around it runs: one that a team shares, or one of each
    worker. What is in it at first is not known.

    ```mlir
    %bp = mlc_tile.alloc team : !mlc_tile.view<96x256x32xf32>
    ```
    """

    name = "mlc_tile.alloc"
    scope = prop_def(StringAttr)
    result = result_def(ViewType)
    traits = traits_def(MemoryAllocEffect())

    @staticmethod
    def of(scope: str, kind: ViewType) -> AllocOp:
        return AllocOp.create(result_types=[kind], properties={"scope": StringAttr(scope)})

    def verify_(self) -> None:
        if self.scope.data not in SCOPES:
            raise VerifyException(
                f"{self.name}: of {self.scope.data!r}; expected one of {', '.join(SCOPES)}"
            )
        kind = view_of(self.result)
        if kind.layout.data and not kind.is_slot:
            raise VerifyException(f"{self.name}: {self.result.type}; scratch is row-major")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.scope.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> AllocOp:
        scope = parser.parse_identifier()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at, kind = parser.pos, parser.parse_type()
        if not isinstance(kind, ViewType):
            parser.raise_error(f"found {kind}; expected a !mlc_tile.view", at)
        op = cls.of(scope, kind)
        op.attributes |= attributes
        return op


@irdl_op_definition
class FillOp(IRDLOperation):
    """
    Writes one number to every element; each worker that runs it does.

    ```mlir
    mlc_tile.fill %m = -inf
    ```
    """

    name = "mlc_tile.fill"
    number = prop_def(IntegerAttr | FloatAttr)
    view = operand_def(ViewType)
    traits = traits_def(MemoryWriteEffect())

    @staticmethod
    def of(view: SSAValue, number: Number) -> FillOp:
        return FillOp.create(operands=[view], properties={"number": number})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.view)
        printer.print_string(" = ")
        print_number(printer, self.number)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> FillOp:
        view = parse_value(parser)
        parser.parse_punctuation("=")
        op = cls.of(view, parse_number(parser))
        op.attributes |= parser.parse_optional_attr_dict()
        return op


def axes_word(rank: int) -> Word:
    """The letters of a tile whose axes have no names: a, b, …"""
    return tuple(AXES[:rank])


@irdl_op_definition
class LoadOp(IRDLOperation):
    """
    A tile of memory in registers. Outside the memory it holds `fill`, which is 0 if not said. The
    tile's axes are the memory's last ones; or else `as` names them, and the subscripts say where
    each lies. `ahead`: on a GPU the tile that lies so many rows further will be read soon.

    ```mlir
    %t = mlc_tile.load %c[%g, %i, %j] : !mlc_tile.frag<12x32xf32>
    %t = mlc_tile.load %c[%j + n, %i + m] as "mn" : !mlc_tile.frag<12x32xf32>
    %t = mlc_tile.load %c[%i + m, n] as "mn" ahead 33 : !mlc_tile.frag<1x131072xf32>
    ```
    """

    name = "mlc_tile.load"
    at = prop_def(ExpressionsAttr)
    axes = opt_prop_def(StringAttr)
    ahead = opt_prop_def(IntegerAttr.constr(eq(i64)))
    fill = opt_prop_def(IntegerAttr | FloatAttr)
    view = operand_def(ViewType)
    positions = var_operand_def(INDEX)
    result = result_def(FragType)
    traits = traits_def(MemoryReadEffect())

    @staticmethod
    def of(
        view: SSAValue,
        at: ExpressionsAttr,
        positions: Sequence[SSAValue],
        kind: Attribute,
        *,
        axes: str | None = None,
        fill: Number | None = None,
    ) -> LoadOp:
        properties: dict[str, Attribute] = {"at": at}
        if axes is not None:
            properties["axes"] = StringAttr(axes)
        if fill is not None:
            properties["fill"] = fill
        return LoadOp.create(
            operands=[view, *positions], result_types=[kind], properties=properties
        )

    def where(self) -> tuple[Dim, ...]:
        """Of an element of the tile, the subscripts, in letters."""
        word = _word(self.axes, frag_of(self.result))
        return coordinates(self.at.data, rank_of(self.view.type), word, {})

    def verify_(self) -> None:
        tile = frag_of(self.result)
        _check_tile(self.name, self.at, self.axes, self.view, self.positions, tile)
        if self.ahead is not None and (self.axes is None or self.ahead.value.data < 1):
            raise VerifyException(f"{self.name}: ahead; expected rows, and axes that have names")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self.view, self.at, self.positions)
        _print_axes(printer, self.axes)
        if self.fill is not None:
            printer.print_string(" fill ")
            print_number(printer, self.fill)
        if self.ahead is not None:
            printer.print_string(f" ahead {self.ahead.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        positions = Positions()
        view, at = parse_access(parser, positions)
        axes = _parse_axes(parser)
        fill = parse_number(parser) if parser.parse_optional_keyword("fill") else None
        ahead = parser.parse_integer() if parser.parse_optional_keyword("ahead") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls.of(view, at, positions.values, parser.parse_type(), axes=axes, fill=fill)
        if ahead is not None:
            op.properties["ahead"] = IntegerAttr(ahead, i64)
        op.attributes |= attributes
        return op


@irdl_op_definition
class StoreOp(IRDLOperation):
    """
    Writes a tile to memory; what lies outside is not written, nor where conditions in its letters
    do not hold. Its axes are as those of `mlc_tile.load`.

    ```mlir
    mlc_tile.store %t, %c[%g, %i, %j]
    mlc_tile.store %t, %o[%f + f, %y + (v floordiv 58), v mod 58] as "fv" where v mod 58 < 56
    ```
    """

    name = "mlc_tile.store"
    at = prop_def(ExpressionsAttr)
    axes = opt_prop_def(StringAttr)
    where_ = opt_prop_def(ConditionsAttr, prop_name="where")
    value = operand_def(FragType)
    view = operand_def(ViewType)
    positions = var_operand_def(INDEX)
    traits = traits_def(MemoryWriteEffect())

    @staticmethod
    def of(
        value: SSAValue,
        view: SSAValue,
        at: ExpressionsAttr,
        positions: Sequence[SSAValue],
        *,
        axes: str | None = None,
        where: ConditionsAttr | None = None,
    ) -> StoreOp:
        properties: dict[str, Attribute] = {"at": at}
        if axes is not None:
            properties["axes"] = StringAttr(axes)
        if where is not None:
            properties["where"] = where
        return StoreOp.create(operands=[value, view, *positions], properties=properties)

    def where(self) -> tuple[Dim, ...]:
        """Of an element of the tile, the subscripts, in letters."""
        word = _word(self.axes, frag_of(self.value))
        return coordinates(self.at.data, rank_of(self.view.type), word, {})

    def verify_(self) -> None:
        tile = frag_of(self.value)
        _check_tile(self.name, self.at, self.axes, self.view, self.positions, tile)
        if self.where_ is None:
            return
        check_positions(self.name, self.where_.dims, self.positions)
        named = frozenset("".join(_word(self.axes, frag_of(self.value))))
        if self.axes is None or letters_in(self.where_.dims) - named:
            raise VerifyException(f"{self.name}: conditions name letters that `as` says")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        print_access(printer, self.view, self.at, self.positions)
        _print_axes(printer, self.axes)
        if self.where_ is not None:
            printer.print_string(" where ")
            print_conditions(printer, self.where_, self.positions)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        positions = Positions()
        value = parse_value(parser)
        parser.parse_punctuation(",")
        view, at = parse_access(parser, positions)
        axes = _parse_axes(parser)
        where = None
        if parser.parse_optional_keyword("where"):
            where = parse_conditions(parser, positions)
        op = cls.of(value, view, at, positions.values, axes=axes, where=where)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


def axes_of(axes: StringAttr | None, kind: FragType) -> list[str]:
    """The letters of a tile, one an axis."""
    return ["".join(axis) for axis in _word(axes, kind)]


def _word(axes: StringAttr | None, kind: FragType) -> Word:
    if axes is None:
        return axes_word(len(kind.shape))
    return letters_of(f"->{axes.data}").result


def _parse_axes(parser: Parser) -> str | None:
    return parser.parse_str_literal() if parser.parse_optional_keyword("as") else None


def _print_axes(printer: Printer, axes: StringAttr | None) -> None:
    if axes is not None:
        printer.print_string(f' as "{axes.data}"')


def _check_tile(
    name: str,
    at: ExpressionsAttr,
    axes: StringAttr | None,
    view: SSAValue,
    positions: Sequence[SSAValue],
    tile: FragType,
) -> None:
    """VerifyException unless the tile can lie there."""
    check_positions(name, at.data, positions)
    word = _word(axes, tile)
    if len(word) != len(tile.shape) or any(len(axis) != 1 for axis in word):
        raise VerifyException(f"{name}: axes {''.join(word)} of {tile}; expected one letter each")
    check_access(name, at.data, rank_of(view.type), word)
    if view_of(view).element != tile.element:
        raise VerifyException(f"{name}: {tile} of {view.type}; expected equal elements")


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """
    Says that the element at these subscripts, and what lies beside it, will be read soon; or all of
    a tile's, which with `write` will be written. Its axes are as those of `mlc_tile.load`.

    ```mlir
    mlc_tile.prefetch %bp[%j, %k]
    mlc_tile.prefetch %c[%i + m, %j + n] as "mn" write : !mlc_tile.frag<6x64xf32>
    ```
    """

    name = "mlc_tile.prefetch"
    at = prop_def(ExpressionsAttr)
    axes = opt_prop_def(StringAttr)
    tile = opt_prop_def(FragType)
    write = opt_prop_def(UnitAttr)
    view = operand_def(ViewType)
    positions = var_operand_def(INDEX)
    # so that it stays where it is
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @staticmethod
    def of(
        view: SSAValue,
        at: ExpressionsAttr,
        positions: Sequence[SSAValue],
        tile: FragType | None = None,
        *,
        axes: str | None = None,
        write: bool = False,
    ) -> PrefetchOp:
        properties: dict[str, Attribute] = {"at": at}
        if tile is not None:
            properties["tile"] = tile
        if axes is not None:
            properties["axes"] = StringAttr(axes)
        if write:
            properties["write"] = UnitAttr()
        return PrefetchOp.create(operands=[view, *positions], properties=properties)

    def where(self) -> tuple[Dim, ...]:
        """Of an element of the tile, the subscripts, in letters."""
        word = () if self.tile is None else _word(self.axes, self.tile)
        return coordinates(self.at.data, rank_of(self.view.type), word, {})

    def verify_(self) -> None:
        if self.tile is not None:
            _check_tile(self.name, self.at, self.axes, self.view, self.positions, self.tile)
            return
        check_positions(self.name, self.at.data, self.positions)
        check_access(self.name, self.at.data, rank_of(self.view.type), ())
        if self.axes is not None:
            raise VerifyException(f"{self.name}: axes of one element; expected a tile's type")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self.view, self.at, self.positions)
        _print_axes(printer, self.axes)
        if self.write is not None:
            printer.print_string(" write")
        printer.print_op_attributes(self.attributes)
        if self.tile is not None:
            printer.print_string(" : ")
            printer.print_attribute(self.tile)

    @classmethod
    def parse(cls, parser: Parser) -> PrefetchOp:
        positions = Positions()
        view, at = parse_access(parser, positions)
        axes = _parse_axes(parser)
        write = parser.parse_optional_keyword("write") is not None
        attributes = parser.parse_optional_attr_dict()
        tile = parser.parse_type() if parser.parse_optional_punctuation(":") else None
        if tile is not None and not isinstance(tile, FragType):
            parser.raise_error(f"mlc_tile.prefetch: {tile}; expected a !mlc_tile.frag")
        op = cls.of(view, at, positions.values, tile, axes=axes, write=write)
        op.attributes |= attributes
        return op


MEMORY = (AllocOp, FillOp, LoadOp, StoreOp, PrefetchOp)
