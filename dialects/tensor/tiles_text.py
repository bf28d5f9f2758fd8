"""The text of `mlc.tiles`: loop axes, what is carried, and results, in the order they are said."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from mlc.dialects.dims import Dim, as_tensor, parse_dim, shape_of, tensor_type
from mlc.dialects.tensor.control import INDEX
from mlc.dialects.tensor.tile import tile_in, tile_size

if TYPE_CHECKING:
    from mlc.dialects.tensor.tiles import TilesOp

_Result = tuple[Attribute, str, list[int] | None]
"""Type, monoid and axes; no axes: it is carried."""


def print_tiles(op: TilesOp, printer: Printer) -> None:
    """An op that does not verify is printed too, in the error's report."""
    printer.print_string(" (")
    loops = zip(op.body.block.args, op.extents, op.steps, op.symbols, strict=False)

    def loop(entry: tuple[SSAValue, Dim, int, str]) -> None:
        position, extent, step, symbol = entry
        printer.print_ssa_value(position)
        text = str(extent) if extent.constant is not None else f'"{extent}"'
        printer.print_string(f" in {text} step {step}" + (f' as "{symbol}"' if symbol else ""))

    printer.print_list(list(loops), loop)
    printer.print_string(")")
    if op.so_far:
        printer.print_string(" onto(")
        printer.print_list(list(op.so_far), printer.print_ssa_value)
        printer.print_string(")")
    if op.inits:
        printer.print_string(" iter(")

        def pair(entry: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(entry[0])
            printer.print_string(" = ")
            printer.print_ssa_value(entry[1])

        printer.print_list(list(zip(op.carried, op.inits, strict=False)), pair)
        printer.print_string(")")
    if any(op.folds):
        printer.print_string(" fold(" + ", ".join(f'"{f}"' for f in op.folds) + ")")
    if op.parts is not None:
        printer.print_string(f" parts {op.parts.value.data}")
    printer.print_string(" -> (")

    def result(entry: tuple[int, SSAValue]) -> None:
        k, value = entry
        printer.print_attribute(value.type)
        if k < len(op.at):
            monoid = f' "{op.monoids[k]}"' if op.monoids[k] else ""
            printer.print_string(f"{monoid} at ({', '.join(map(str, op.axes[k]))})")

    printer.print_list(list(enumerate(op.results)), result)
    printer.print_string(") ")
    printer.print_region(op.body, print_entry_block_args=False, print_empty_block=False)
    if op.combine is not None:
        printer.print_string(" combine ")
        printer.print_region(op.combine, print_empty_block=False)
    printer.print_op_attributes(op.attributes, print_keyword=True)


def parse_tiles(parser: Parser, make: Callable[..., TilesOp]) -> TilesOp:
    """What `print_tiles` writes; `make`: TilesOp.make."""
    loops = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _loop(parser))
    onto: list[Parser.UnresolvedArgument] = []
    if parser.parse_optional_keyword("onto"):
        onto = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
        )
    pairs: list[tuple[Parser.UnresolvedArgument, UnresolvedOperand]] = []
    if parser.parse_optional_keyword("iter"):
        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _carried(parser))
    folds = [""] * len(pairs)
    if parser.parse_optional_keyword("fold"):
        folds = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_str_literal)
    parts = 0
    if parser.parse_optional_keyword("parts"):
        parts = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation("->")
    results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _result(parser))
    placed = [(kind, monoid, axes) for kind, monoid, axes in results if axes is not None]
    kinds = [kind for kind, _, axes in results if axes is None]
    if [axes is None for *_, axes in results] != [False] * len(placed) + [True] * len(kinds):
        parser.raise_error("results that are placed come before those that are carried")
    if parts:
        kinds = [tensor_type(as_tensor(x).element_type, shape_of(x)[1:]) for x in kinds]
    inits = parser.resolve_operands([x for _, x in pairs], kinds, parser.pos)
    meeting = [(kind, axes) for kind, monoid, axes in placed if monoid]
    if len(meeting) != len(onto):
        parser.raise_error(f"{len(onto)} values of onto for {len(meeting)} results with a monoid")
    arguments = [position.resolve(INDEX) for position, *_ in loops]
    for argument, (kind, axes) in zip(onto, meeting, strict=True):
        if wrong := [s for *_, s in loops if s and not s.isidentifier()]:
            parser.raise_error(f"a symbol is a name such as 'B', found {wrong[0]!r}")
        dims = [tile_size(symbol, step) for _, _, step, symbol in loops]
        arguments.append(argument.resolve(tile_in(kind, axes, dims)))
    arguments += [a.resolve(t) for (a, _), t in zip(pairs, kinds, strict=True)]
    body = parser.parse_region(arguments)
    combine = parser.parse_region() if parser.parse_optional_keyword("combine") else None
    attributes = parser.parse_optional_attr_dict_with_keyword()
    op = make(
        [extent for _, extent, _, _ in loops],
        [step for _, _, step, _ in loops],
        [symbol for _, _, _, symbol in loops],
        inits,
        folds,
        [kind for kind, *_ in placed],
        [axes for *_, axes in placed],
        body,
        combine,
        parts,
        [monoid for _, monoid, _ in placed],
    )
    if kinds and [x.type for x in op.results] != [kind for kind, *_ in results]:
        parser.raise_error(f"each carried result holds {parts} states along a first axis")
    if attributes is not None:
        op.attributes |= attributes.data
    return op


def _loop(parser: Parser) -> tuple[Parser.UnresolvedArgument, Dim, int, str]:
    position = parser.parse_argument(expect_type=False)
    parser.parse_keyword("in")
    extent = parse_dim(parser)
    parser.parse_keyword("step")
    step = parser.parse_integer(allow_boolean=False)
    symbol = parser.parse_str_literal() if parser.parse_optional_keyword("as") else ""
    return position, extent, step, symbol


def _carried(parser: Parser) -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return argument, parser.parse_unresolved_operand()


def _result(parser: Parser) -> _Result:
    kind, monoid = parser.parse_type(), parser.parse_optional_str_literal() or ""
    if monoid:
        parser.parse_keyword("at")
    elif not parser.parse_optional_keyword("at"):
        return kind, "", None
    return (
        kind,
        monoid,
        list(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)),
    )
