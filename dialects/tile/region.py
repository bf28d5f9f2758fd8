"""The regions of tile programs: how they end, and their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import IRDLOperation, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.tile.expression import parse_value


@irdl_op_definition
class YieldOp(IRDLOperation):
    """
    The values with which a region ends.

    ```mlir
    mlc_tile.yield %next : !mlc_tile.frag<12x32xf32>
    ```
    """

    name = "mlc_tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    @staticmethod
    def of(*values: SSAValue) -> YieldOp:
        return YieldOp.create(operands=values)


@cache
def in_groups(*counts: int) -> dict[str, Attribute]:
    """The property of an op that says how many of its operands each of its groups has."""
    return {"operandSegmentSizes": DenseArrayBase.from_list(i32, counts)}


def yielded(block: Block) -> tuple[SSAValue, ...]:
    """What a region ends with."""
    last = block.last_op
    assert isinstance(last, YieldOp)
    return tuple(last.values)


def parse_body(parser: Parser, arguments: Sequence[Parser.Argument] = ()) -> Region:
    """A region; an end without values may be left out."""
    body = parser.parse_region(arguments)
    if not body.blocks:
        body.add_block(Block())
    return body


def print_body(printer: Printer, body: Region) -> None:
    """As `parse_body` reads it."""
    last = body.block.last_op if len(body.blocks) == 1 else None
    printer.print_string(" ")
    printer.print_region(
        body,
        print_entry_block_args=False,
        print_empty_block=False,
        print_block_terminators=last is not None and bool(last.operands),
    )


def check_yield(name: str, block: Block, kinds: Sequence[Attribute]) -> None:
    """VerifyException unless a region ends with values of these types."""
    if not isinstance(block.last_op, YieldOp):
        raise VerifyException(f"{name}: the region must end with mlc_tile.yield")
    found = [x.type for x in yielded(block)]
    if found != list(kinds):
        raise VerifyException(
            f"{name}: the region yields ({', '.join(map(str, found))}); expected"
            f" ({', '.join(map(str, kinds))})"
        )


def parse_types(parser: Parser) -> list[Attribute]:
    """``-> (a, b)``, or nothing."""
    if not parser.parse_optional_punctuation("->"):
        return []
    return list(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type))


def print_types(printer: Printer, kinds: Sequence[Attribute]) -> None:
    """As `parse_types` reads them."""
    if kinds:
        printer.print_string(" -> (")
        printer.print_list(kinds, printer.print_attribute)
        printer.print_string(")")


def parse_pair(parser: Parser) -> tuple[Parser.UnresolvedArgument, SSAValue]:
    """``%inside = %outside``: what a loop carries, and with what it begins."""
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return argument, parse_value(parser)


def print_pair(printer: Printer) -> Callable[[tuple[SSAValue, SSAValue]], None]:
    """Prints what `parse_pair` reads."""

    def one(entry: tuple[SSAValue, SSAValue]) -> None:
        printer.print_ssa_value(entry[0])
        printer.print_string(" = ")
        printer.print_ssa_value(entry[1])

    return one
