"""`mlc.rule`: a part of a program that says how it wants to be differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.irdl import (
    eq,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import RecursiveMemoryEffect, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.tensor.control import ControlOp, YieldOp, check_arguments, yield_of

KINDS = {"vjp": 2, "jvp": 1, "checkpoint": 0}
"""Each kind, with how many regions it has beside the body."""


@irdl_op_definition
class RuleOp(ControlOp):
    """
    Means its body, called with the operands. Regions after the body are for derivatives.

    - "vjp": `forward`, operands -> results and residuals; `backward`, residuals and cotangents of
      the results -> cotangents of the operands.
    - "jvp": `forward`, operands and their tangents -> results and their tangents.
    - "checkpoint": nothing that the body computes is kept for reverse mode but the operands, and
      what `saved` names: it is computed again.

    ```mlir
    %y = mlc.rule "checkpoint" (%x) : (tensor<4xf32>) -> (tensor<4xf32>) {
    ^bb0(%a : tensor<4xf32>):
      %0 = mlc.exp %a : tensor<4xf32>
      mlc.yield %0 : tensor<4xf32>
    }
    ```
    """

    name = "mlc.rule"

    IS_RIGID: ClassVar[bool] = True  # regions have other arguments and results than the body

    kind = prop_def(StringAttr)
    saved = prop_def(StringAttr)  # names of ops, separated by commas
    kept = prop_def(IntegerAttr.constr(eq(i64)))  # how many results, the last ones, are residuals
    inputs = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")
    rules = var_region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    @classmethod
    def of(
        cls, kind: str, inputs: Sequence[SSAValue], regions: Sequence[Region], saved: str = ""
    ) -> RuleOp:
        """An op with the results that the body yields."""
        body, *rules = regions
        return cls(
            operands=[inputs],
            properties=_properties(kind, saved, 0),
            result_types=[[x.type for x in yield_of(body.block).values]],
            regions=[body, rules],
        )

    @property
    def count(self) -> int:
        """How many results the user's program has: the others are residuals."""
        return len(self.results) - self.kept.value.data

    @property
    def repeats(self) -> bool:
        return False

    @property
    def starts(self) -> tuple[SSAValue, ...]:
        return tuple(self.inputs)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The body alone: the rules are not run."""
        return (self.body.block,)

    def carried_in(self, block: Block) -> tuple[BlockArgument, ...]:
        return tuple(block.args)

    def verify_(self) -> None:
        kind = self.kind.data
        if kind not in KINDS:
            raise VerifyException(f"mlc.rule: kind {kind!r}; expected one of {', '.join(KINDS)}")
        if len(self.rules) != KINDS[kind]:
            raise VerifyException(
                f"mlc.rule {kind!r}: {len(self.rules)} rules; expected {KINDS[kind]}"
            )
        given = [x.type for x in self.inputs]
        every = [x.type for x in self.outs]
        results = every[: self.count]
        check_arguments(self.name, self.body.block, given)
        self._check_yield("the body", self.body.block, every)
        if kind == "jvp":
            block = self.rules[0].block
            check_arguments(self.name, block, given * 2)
            self._check_yield("the rule", block, results * 2)
        if kind == "vjp":
            forward, backward = (region.block for region in self.rules)
            check_arguments(self.name, forward, given)
            residuals = [x.type for x in yield_of(forward).values[len(results) :]]
            self._check_yield("forward", forward, [*results, *residuals])
            check_arguments(self.name, backward, [*residuals, *results])
            self._check_yield("backward", backward, given)

    def _check_yield(self, what: str, block: Block, wanted: Sequence[Attribute]) -> None:
        found = [x.type for x in yield_of(block).values]
        if found != list(wanted):
            raise VerifyException(
                f"mlc.rule: {what} yields ({', '.join(map(str, found))}); expected"
                f" ({', '.join(map(str, wanted))})"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.kind.data}"')
        if self.saved.data:
            printer.print_string(f' saves "{self.saved.data}"')
        if kept := self.kept.value.data:
            printer.print_string(f" keeps {kept}")
        printer.print_string(" (")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_string(") : (")
        printer.print_list(self.inputs, lambda x: printer.print_attribute(x.type))
        printer.print_string(") -> (")
        printer.print_list(self.outs, lambda x: printer.print_attribute(x.type))
        printer.print_string(")")
        for region in self.regions:
            printer.print_string(" ")
            printer.print_region(region, print_empty_block=False)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> RuleOp:
        kind = parser.parse_str_literal()
        saved = parser.parse_str_literal() if parser.parse_optional_keyword("saves") else ""
        kept = parser.parse_integer() if parser.parse_optional_keyword("keeps") else 0
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        inputs = parser.resolve_operands(operands, types, parser.pos)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        regions = [parser.parse_region() for _ in range(1 + KINDS.get(kind, 0))]
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(
            operands=[inputs],
            properties=_properties(kind, saved, kept),
            result_types=[results],
            regions=[regions[0], regions[1:]],
        )
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _properties(kind: str, saved: str, kept: int) -> dict[str, Attribute]:
    return {
        "kind": StringAttr(kind),
        "saved": StringAttr(saved),
        "kept": IntegerAttr(kept, i64),
    }
