"""
Whole numbers that a tile program computes with: polynomials over the positions of loops, the
letters of a tile's axes and the sizes of tensors, as text ``2*%i + k + "M"``.

In IR such an expression is a `Dim` whose atoms are also ``%0`` (an operand of the op by number) and
``.k`` (a letter); neither can be the name of a size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.dims import Dim, FloorDiv
from mlc.lazy_dataclass import dataclass

WORKERS = "workers"
"""The name under which conditions speak of how many workers run the kernel."""
_POSITION = re.compile(r"%(\d+)")
_LETTER = re.compile(r"\.([A-Za-z]\w*)")


@cache
def position(number: int) -> Dim:
    """The operand of this number among an op's positions."""
    return Dim((((f"%{number}",), 1),))


@cache
def letter(name: str) -> Dim:
    """Where an element of a tile is along the axis of this letter."""
    return Dim((((f".{name}",), 1),))


def positions_in(dims: Iterable[Dim]) -> frozenset[int]:
    """The numbers of the positions that occur."""
    return frozenset(int(s[1:]) for dim in dims for s in dim.symbols() if s[0] == "%")


def letters_in(dims: Iterable[Dim]) -> frozenset[str]:
    """The letters that occur."""
    return frozenset(s[1:] for dim in dims for s in dim.symbols() if s[0] == ".")


def renamed(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """The expression with atoms, such as ``%0`` or ``.k``, replaced."""
    return dim.substitute(values) if not values.keys().isdisjoint(dim.symbols()) else dim


class Positions:
    """The values that the expressions of one op name, each once."""

    def __init__(self, values: Iterable[SSAValue] = ()) -> None:
        self.values: list[SSAValue] = list(values)

    def of(self, value: SSAValue) -> Dim:
        """The expression that is this value."""
        for number, known in enumerate(self.values):
            if known is value:
                return position(number)
        self.values.append(value)
        return position(len(self.values) - 1)

    def moved(self, dims: Sequence[Dim], values: Sequence[SSAValue]) -> tuple[Dim, ...]:
        """Expressions over other values as expressions over these."""
        atoms = {f"%{k}": self.of(values[k]) for k in sorted(positions_in(dims))}
        return tuple(renamed(dim, atoms) for dim in dims)


@irdl_attr_definition
class ExpressionsAttr(Data[tuple[Dim, ...]]):
    """
    Expressions over the operands of an op: the subscripts of an access, or bounds.

    ```mlir
    #mlc_tile.expressions<"%0 + .m", 4>
    ```
    """

    name = "mlc_tile.expressions"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Dim, ...]:
        def one() -> Dim:
            number = parser.parse_optional_integer(allow_boolean=False)
            return Dim.const(number) if number is not None else spelled(parser)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, one))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(
                ", ".join(str(d) if d.constant is not None else f'"{d}"' for d in self.data)
            )

    @staticmethod
    @cache
    def of(dims: tuple[Dim, ...]) -> ExpressionsAttr:
        """The interned attribute."""
        return ExpressionsAttr(dims)


def spelled(parser: AttrParser) -> Dim:
    """An expression as generic text has it: in quotes, with ``%0`` and ``.k``."""
    text = parser.parse_str_literal()
    plain = _LETTER.sub(r"__letter_\1", _POSITION.sub(r"__position_\1", text))
    try:
        found = Dim.of(plain)
    except ValueError:
        parser.raise_error(f"{text!r} is no expression; expected such as '2*%0 + .k + M'")
    atoms = {f"__position_{k}": position(int(k)) for k in _POSITION.findall(text)}
    atoms |= {f"__letter_{c}": letter(c) for c in _LETTER.findall(text)}
    return renamed(found, atoms)


def check_positions(name: str, dims: Iterable[Dim], values: Sequence[SSAValue]) -> None:
    """VerifyException where an expression names an operand that the op does not have."""
    for number in positions_in(dims):
        if number >= len(values):
            raise VerifyException(
                f"{name}: an expression names operand %{number}; there are {len(values)}"
            )


# Text -------------------------------------------------------------------------------------------


def parse_optional_value(parser: Parser) -> SSAValue | None:
    """A value that stands before in the text, whose type it has there."""
    name = parser.parse_optional_unresolved_operand()
    if name is None:
        return None
    known = parser.ssa_values.get(name.operand_name, ())
    if name.index >= len(known):
        parser.raise_error(f"%{name.operand_name} is not defined before this use", name.span)
    return known[name.index]


def parse_value(parser: Parser) -> SSAValue:
    """As `parse_optional_value`, where there must be one."""
    at, value = parser.pos, parse_optional_value(parser)
    if value is None:
        parser.raise_error("found no value; expected one such as %x", at)
    return value


def parse_expression(parser: Parser, positions: Positions) -> Dim:
    """An expression in an op's text."""
    total = _term(parser, positions)
    while True:
        if parser.parse_optional_punctuation("+"):
            total = total + _term(parser, positions)
        elif parser.parse_optional_punctuation("-"):
            total = total - _term(parser, positions)
        else:
            return total


def _term(parser: Parser, positions: Positions) -> Dim:
    if parser.parse_optional_punctuation("-"):
        return -_term(parser, positions)
    found = _factor(parser, positions)
    while True:
        if parser.parse_optional_punctuation("*"):
            found = found * _factor(parser, positions)
        elif parser.parse_optional_keyword("floordiv"):
            found = found // _divisor(parser)
        elif parser.parse_optional_keyword("mod"):
            divisor = _divisor(parser)
            found = found - (found // divisor) * divisor
        else:
            return found


def _divisor(parser: Parser) -> int:
    at = parser.pos
    value = parser.parse_integer(allow_boolean=False, allow_negative=False)
    if value == 0:
        parser.raise_error("found division by 0", at)
    return value


def _factor(parser: Parser, positions: Positions) -> Dim:
    at = parser.pos
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if number is not None:
        return Dim.const(number)
    value = parse_optional_value(parser)
    if value is not None:
        return positions.of(value)
    if parser.parse_optional_punctuation("("):
        inside = parse_expression(parser, positions)
        parser.parse_punctuation(")")
        return inside
    text = parser.parse_optional_str_literal()
    if text is not None:
        try:
            return Dim.of(text)
        except ValueError as error:
            parser.raise_error(str(error), at)
    name = parser.parse_optional_identifier()
    if name is None:
        parser.raise_error(
            'found no expression; expected a number, a position %i, a size "M" or a letter', at
        )
    if len(name) != 1 and name != WORKERS:
        parser.raise_error(f"letter {name!r}; expected one character, or a size in quotes", at)
    return letter(name)


def parse_expressions(parser: Parser, positions: Positions) -> tuple[Dim, ...]:
    """Subscripts ``[%i, %j + 4]``, or nothing."""
    found = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_expression(parser, positions)
    )
    return tuple(found or ())


def print_expression(printer: Printer, dim: Dim, values: Sequence[SSAValue]) -> None:
    """As `parse_expression` reads it."""
    if (remainder := _remainder(dim)) is not None:
        printer.print_string("(")
        print_expression(printer, remainder.numerator, values)
        printer.print_string(f") mod {remainder.divisor}")
        return
    if not dim.terms:
        printer.print_string("0")
    terms = sorted(dim.terms, key=lambda term: term[1] < 0)
    for number, (monomial, coefficient) in enumerate(terms):
        size = abs(coefficient)
        if number:
            printer.print_string(" - " if coefficient < 0 else " + ")
        elif coefficient < 0:
            printer.print_string("-")
        if size != 1 or not monomial:
            printer.print_string(f"{size}*" if monomial else str(size))
        alone = size == 1 and len(monomial) == 1
        for k, atom in enumerate(monomial):
            printer.print_string("*" if k else "")
            if isinstance(atom, FloorDiv) and not alone:
                printer.print_string("(")
                _print_atom(printer, atom, values)
                printer.print_string(")")
            else:
                _print_atom(printer, atom, values)


def _remainder(dim: Dim) -> FloorDiv | None:
    """The division whose remainder an expression is."""
    for monomial, coefficient in dim.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if isinstance(atom, FloorDiv) and coefficient == -atom.divisor:
            rest = dim + Dim(((monomial, -coefficient),))
            return atom if rest == atom.numerator else None
    return None


def _print_atom(printer: Printer, atom: str | FloorDiv, values: Sequence[SSAValue]) -> None:
    if isinstance(atom, FloorDiv):
        single = len(atom.numerator.terms) == 1 and atom.numerator.terms[0][1] == 1
        printer.print_string("" if single else "(")
        print_expression(printer, atom.numerator, values)
        printer.print_string(f"{'' if single else ')'} floordiv {atom.divisor}")
    elif atom[0] == "%":
        number = int(atom[1:])
        if number < len(values):
            printer.print_ssa_value(values[number])
        else:
            printer.print_string(atom)  # an op that does not verify is printed too
    elif atom[0] == ".":
        printer.print_string(atom[1:])
    else:
        printer.print_string(f'"{atom}"')


def print_expressions(printer: Printer, dims: Sequence[Dim], values: Sequence[SSAValue]) -> None:
    """As `parse_expressions` reads them."""
    with printer.in_square_brackets():
        printer.print_list(dims, lambda dim: print_expression(printer, dim, values))


def parse_bound(parser: Parser, positions: Positions) -> ExpressionsAttr:
    """A size: an expression, or the least of several, ``min(192, "M" - %i)``."""
    if not parser.parse_optional_keyword("min"):
        return ExpressionsAttr((parse_expression(parser, positions),))
    return ExpressionsAttr(
        tuple(
            parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_expression(parser, positions)
            )
        )
    )


def print_bound(printer: Printer, bound: ExpressionsAttr, values: Sequence[SSAValue]) -> None:
    """As `parse_bound` reads it."""
    if len(bound.data) == 1:
        print_expression(printer, bound.data[0], values)
        return
    printer.print_string("min(")
    printer.print_list(bound.data, lambda dim: print_expression(printer, dim, values))
    printer.print_string(")")


# Conditions -------------------------------------------------------------------------------------

_SIGNS = {"==": "eq", "ne": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_SPELLED = {word: sign for sign, word in _SIGNS.items()}
_OF_LOOPS = ("first", "last")
RELATIONS = (*_SPELLED, *_OF_LOOPS)


@dataclass(frozen=True)
class Condition:
    """``left RELATION right``; of `first` and `last`, whether a loop is in that trip: `left`."""

    relation: str
    left: Dim
    right: Dim


@irdl_attr_definition
class ConditionsAttr(Data[tuple[Condition, ...]]):
    """
    What must hold together, the same for all workers.

    ```mlir
    #mlc_tile.conditions<first "%0", lt "%1 + 4" "M">
    ```
    """

    name = "mlc_tile.conditions"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Condition, ...]:
        def dim() -> Dim:
            number = parser.parse_optional_integer(allow_boolean=False)
            return Dim.const(number) if number is not None else spelled(parser)

        def one() -> Condition:
            relation = parser.parse_identifier()
            if relation not in RELATIONS:
                parser.raise_error(f"relation {relation!r}; expected one of {', '.join(RELATIONS)}")
            left = dim()
            return Condition(relation, left, Dim.const(0) if relation in _OF_LOOPS else dim())

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, one))

    def print_parameter(self, printer: Printer) -> None:
        def one(condition: Condition) -> str:
            dims = [condition.left]
            dims += [] if condition.relation in _OF_LOOPS else [condition.right]
            return " ".join([condition.relation, *(f'"{d}"' for d in dims)])

        with printer.in_angle_brackets():
            printer.print_string(", ".join(map(one, self.data)))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The expressions that are compared."""
        return tuple(dim for c in self.data for dim in (c.left, c.right))


def parse_conditions(parser: Parser, positions: Positions) -> ConditionsAttr:
    """``first(%p) and %i + 4 < "M"``."""
    found = [_condition(parser, positions)]
    while parser.parse_optional_keyword("and"):
        found.append(_condition(parser, positions))
    return ConditionsAttr(tuple(found))


def _condition(parser: Parser, positions: Positions) -> Condition:
    for relation in _OF_LOOPS:
        if parser.parse_optional_keyword(relation):
            with parser.in_parens():
                return Condition(relation, positions.of(parse_value(parser)), Dim.const(0))
    left = parse_expression(parser, positions)
    relation = _relation(parser)
    return Condition(relation, left, parse_expression(parser, positions))


def _relation(parser: Parser) -> str:
    """xDSL's lexer knows no token of two such characters."""
    at, sign = parser.pos, ""
    for mark in ("<", ">", "="):
        if parser.parse_optional_punctuation(mark):
            sign = mark
            break
    if not sign and parser.parse_optional_keyword("ne"):
        return "ne"
    if parser.parse_optional_punctuation("="):
        sign += "="
    if sign not in _SIGNS:
        parser.raise_error("found no relation; expected ==, ne, <, <=, > or >=", at)
    return _SIGNS[sign]


def print_conditions(
    printer: Printer, conditions: ConditionsAttr, values: Sequence[SSAValue]
) -> None:
    """As `parse_conditions` reads them."""
    for k, condition in enumerate(conditions.data):
        if k:
            printer.print_string(" and ")
        if condition.relation in _OF_LOOPS:
            printer.print_string(f"{condition.relation}(")
            print_expression(printer, condition.left, values)
            printer.print_string(")")
            continue
        print_expression(printer, condition.left, values)
        printer.print_string(f" {_SPELLED[condition.relation]} ")
        print_expression(printer, condition.right, values)
