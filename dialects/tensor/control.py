"""Structured control flow on tensors: `for` with carried values."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.dims import tensor_type

INDEX = tensor_type(i64, ())


@irdl_op_definition
class YieldOp(IRDLOperation):
    """
    The values with which a region ends.

    ```mlir
    mlc.yield %next : tensor<4xf32>
    ```
    """

    name = "mlc.yield"
    values = var_operand_def(TensorType)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"


@irdl_op_definition
class ForOp(IRDLOperation):
    """
    Runs its region `count` times, with the trip number and the carried values as arguments.

    Not at all if count <= 0. Gives the values carried out of the last trip. Values from outside may
    be used inside.

    ```mlir
    %r = mlc.for %i to %count iter(%x = %init) -> (tensor<4xf32>) {
      %y = mlc.add %x, %x : tensor<4xf32>
      mlc.yield %y : tensor<4xf32>
    }
    ```
    """

    name = "mlc.for"
    count = operand_def(INDEX)
    inits = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    def __init__(self, count: SSAValue, inits: Sequence[SSAValue], body: Region) -> None:
        super().__init__(
            operands=[count, inits], result_types=[[x.type for x in inits]], regions=[body]
        )

    @property
    def carried(self) -> tuple[SSAValue, ...]:
        """The region's arguments after the trip number."""
        return tuple(self.body.block.args[1:])

    @property
    def yielded(self) -> YieldOp:
        """The terminator."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def verify_(self) -> None:
        block = self.body.block
        wanted = [INDEX, *(x.type for x in self.inits)]
        if [a.type for a in block.args] != wanted:
            raise VerifyException(
                f"mlc.for: region arguments must be {', '.join(map(str, wanted))}"
            )
        last = block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("mlc.for: the region must end with mlc.yield")
        if len(last.values) != len(self.inits):
            raise VerifyException(
                f"mlc.for: {len(self.inits)} carried values but {len(last.values)} yielded"
            )
        for k, (found, init) in enumerate(zip(last.values, self.inits, strict=True)):
            if found.type != init.type:
                raise VerifyException(
                    f"mlc.for: carried value {k} starts as {init.type} and continues as"
                    f" {found.type}; expected one type (convert or reshape it before the loop or at"
                    " its end)"
                )

    def print(self, printer: Printer) -> None:
        index, *carried = self.body.block.args
        printer.print_string(" ")
        printer.print_ssa_value(index)
        printer.print_string(" to ")
        printer.print_ssa_value(self.count)
        printer.print_string(" iter(")

        def pair(entry: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(entry[0])
            printer.print_string(" = ")
            printer.print_ssa_value(entry[1])

        # an op that does not verify is printed too, in the error's report
        printer.print_list(zip(carried, self.inits, strict=False), pair)
        printer.print_string(") -> (")
        printer.print_list(self.inits, lambda x: printer.print_attribute(x.type))
        printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        index = parser.parse_argument(expect_type=False)
        parser.parse_characters("to")
        count = parser.resolve_operand(parser.parse_unresolved_operand(), INDEX)
        parser.parse_characters("iter")

        def pair() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            return argument, parser.parse_unresolved_operand()

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
        parser.parse_punctuation("->")
        types: list[Attribute] = list(
            parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        )
        inits = parser.resolve_operands([operand for _, operand in pairs], types, parser.pos)
        carried = [a.resolve(t) for (a, _), t in zip(pairs, types, strict=True)]
        arguments = [index.resolve(INDEX), *carried]
        body = parser.parse_region(arguments)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(count, inits, body)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def loop_region(carried: Sequence[Attribute]) -> Region:
    """A region with the arguments that `mlc.for` wants and no ops yet."""
    return Region(Block(arg_types=[INDEX, *carried]))
