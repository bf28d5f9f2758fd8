"""How ops name a place in memory, and numbers, in their text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f64, i64
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from mlc.dialects.tile.expression import (
    ExpressionsAttr,
    Positions,
    parse_expressions,
    parse_value,
    print_expressions,
)


def parse_access(parser: Parser, positions: Positions) -> tuple[SSAValue, ExpressionsAttr]:
    """``%c[%i, %j + 4]``, or ``%c``: from its first element on."""
    return parse_value(parser), ExpressionsAttr(parse_expressions(parser, positions))


def print_access(
    printer: Printer, value: SSAValue, at: ExpressionsAttr, positions: Sequence[SSAValue]
) -> None:
    """As `parse_access` reads it."""
    printer.print_ssa_value(value)
    if at.data:
        print_expressions(printer, at.data, positions)


Number = IntegerAttr | FloatAttr


def parse_number(parser: Parser) -> Number:
    """``0.0``, ``-inf``, ``nan``, ``3``."""
    sign = -1.0 if parser.parse_optional_punctuation("-") else 1.0
    for name, value in (("inf", math.inf), ("nan", math.nan)):
        if parser.parse_optional_keyword(name):
            return FloatAttr(sign * value, f64)
    found = parser.parse_number(allow_boolean=False)
    if isinstance(found, int):
        return IntegerAttr(int(sign) * found, i64)
    return FloatAttr(sign * found, f64)


def print_number(printer: Printer, number: Number) -> None:
    """As `parse_number` reads it."""
    printer.print_string(repr(number.value.data))


def number_of(number: Number | None) -> int | float:
    """The value; 0 where nothing is said."""
    return 0 if number is None else number.value.data
