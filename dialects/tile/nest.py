"""What the tile level holds and does not look into: a kernel of the plan, verbatim."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    MemoryReadEffect,
    MemoryWriteEffect,
    SingleBlockImplicitTerminator,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import tensor_type
from mlc.dialects.plan import ScheduleAttr
from mlc.dialects.tensor.control import YieldOp, yield_of
from mlc.dialects.tile.expression import parse_value
from mlc.dialects.tile.types import ViewType, view_of


@irdl_op_definition
class NestOp(IRDLOperation):
    """
    Ops of the plan that run as one loop nest of a template, with its schedule, on a CPU: its region
    sees the memory that it reads as tensors and ends with those that it writes.

    ```mlir
    mlc_tile.nest "cell" (%a = %x) -> (%y) {
      %0 = mlc.exp %a : tensor<4xf32>
      mlc.yield %0 : tensor<4xf32>
    } {schedule = #mlc.schedule<[vector(16)]>}
    ```
    """

    name = "mlc_tile.nest"
    template = prop_def(StringAttr)
    schedule = opt_prop_def(ScheduleAttr)
    inputs = var_operand_def(ViewType)
    outputs = var_operand_def(ViewType)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(
        IsolatedFromAbove(),
        MemoryReadEffect(),
        MemoryWriteEffect(),
        SingleBlockImplicitTerminator(YieldOp),
    )

    @staticmethod
    def of(
        template: str,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        body: Region,
        schedule: ScheduleAttr | None = None,
    ) -> NestOp:
        properties: dict[str, Attribute] = {"template": StringAttr(template)}
        if schedule is not None:
            properties["schedule"] = schedule
        return NestOp.build(operands=[inputs, outputs], properties=properties, regions=[body])

    def verify_(self) -> None:
        for what, found, views in (
            ("takes", [a.type for a in self.body.block.args], self.inputs),
            ("yields", [x.type for x in yield_of(self.body.block).values], self.outputs),
        ):
            expected = [tensor_type(view_of(x).element, view_of(x).shape) for x in views]
            if found != expected:
                raise VerifyException(
                    f"{self.name}: the region {what} ({', '.join(map(str, found))}); expected"
                    f" ({', '.join(map(str, expected))})"
                )

    def print(self, printer: Printer) -> None:
        def pair(entry: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(entry[0])
            printer.print_string(" = ")
            printer.print_ssa_value(entry[1])

        printer.print_string(f' "{self.template.data}" (')
        printer.print_list(list(zip(self.body.block.args, self.inputs, strict=False)), pair)
        printer.print_string(") -> (")
        printer.print_list(self.outputs, printer.print_ssa_value)
        printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False)
        known = {} if self.schedule is None else {"schedule": self.schedule}
        if known or self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict({**known, **self.attributes})

    @classmethod
    def parse(cls, parser: Parser) -> NestOp:
        template = parser.parse_str_literal()

        def pair() -> tuple[Parser.UnresolvedArgument, SSAValue]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            return argument, _view(parser)

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
        parser.parse_punctuation("->")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _view(parser))
        kinds = [view_of(x) for _, x in pairs]
        arguments = [
            a.resolve(tensor_type(kind.element, kind.shape))
            for (a, _), kind in zip(pairs, kinds, strict=True)
        ]
        body = parser.parse_region(arguments)
        attributes = parser.parse_optional_attr_dict()
        schedule = attributes.pop("schedule", None)
        if schedule is not None and not isinstance(schedule, ScheduleAttr):
            parser.raise_error(f"found {schedule}; expected #mlc.schedule<…>")
        op = cls.of(template, [x for _, x in pairs], outputs, body, schedule)
        op.attributes |= attributes
        return op


def _view(parser: Parser) -> SSAValue:
    at, value = parser.pos, parse_value(parser)
    if not isinstance(value.type, ViewType):
        parser.raise_error(f"found {value.type}; expected a !mlc_tile.view", at)
    return value


NESTS = (NestOp,)
