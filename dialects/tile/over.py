"""The sizes of letters that no tile's type says: ``over (k min(256, 1000 - %p), i 3)``."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from mlc.dialects.tile.expression import ExpressionsAttr, Positions, parse_bound, print_bound

Over = tuple[tuple[str, ExpressionsAttr], ...]
"""Letters with their sizes, each the least of some expressions."""


@irdl_attr_definition
class OverAttr(Data[Over]):
    """
    Letters with their sizes.

    ```mlir
    #mlc_tile.over<k #mlc_tile.expressions<256, "-%0 + 1000">>
    ```
    """

    name = "mlc_tile.over"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Over:
        def one() -> tuple[str, ExpressionsAttr]:
            name = parser.parse_identifier()
            bound = parser.parse_attribute()
            if not isinstance(bound, ExpressionsAttr):
                parser.raise_error(f"found {bound}; expected #mlc_tile.expressions<…>")
            return name, bound

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, one))

    def print_parameter(self, printer: Printer) -> None:
        def one(entry: tuple[str, ExpressionsAttr]) -> None:
            printer.print_string(f"{entry[0]} ")
            printer.print_attribute(entry[1])

        with printer.in_angle_brackets():
            printer.print_list(self.data, one)


def parse_over(parser: Parser, positions: Positions) -> Over:
    """``over (k 256)``, or nothing."""
    if not parser.parse_optional_keyword("over"):
        return ()

    def one() -> tuple[str, ExpressionsAttr]:
        return parser.parse_identifier(), parse_bound(parser, positions)

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.PAREN, one))


def print_over(printer: Printer, over: OverAttr, positions: Sequence[SSAValue]) -> None:
    """As `parse_over` reads it."""

    def one(entry: tuple[str, ExpressionsAttr]) -> None:
        printer.print_string(f"{entry[0]} ")
        print_bound(printer, entry[1], positions)

    printer.print_string(" over (")
    printer.print_list(over.data, one)
    printer.print_string(")")
