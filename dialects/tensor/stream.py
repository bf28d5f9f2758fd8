"""
Ops along one of whose axes values are walked tile by tile and never stored: what a target computes
as one program. Made when kernels are formed, so nothing differentiates or batches it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import region_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, Pure, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import functions
from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Shape
from mlc.dialects.tensor.control import YieldOp, yield_of
from mlc.dialects.tensor.functions import FloatFunction
from mlc.dialects.tensor.op import (
    OpaqueOp,
    OpaqueTemplate,
    Tensor,
    TensorOp,
)
from mlc.dialects.tensor.reduce import ContractOp


@irdl_op_definition
class Exp2EstimateOp(FloatFunction):
    """2 to the power x within a relative 2^-22, as a target's instruction gives it: for weights
    that are rounded to 16 bits."""

    name = "mlc.exp2_estimate"
    MATH: ClassVar[type[Any]] = functions.Exp2EstimateOp
    NUMPY: ClassVar[Callable[..., Any]] = np.exp2


@irdl_op_definition
class StreamOp(OpaqueOp):
    """
    What its ops compute from the operands. No value of the region but the last is stored.

    ```mlir
    %o = mlc.stream(%a = %q, %b = %k) : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4xf32> {
      %s = mlc.contract "md,nd->mn" %a, %b : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
      %m = mlc.reduce "max" "mn->m" %s : tensor<4x6xf32> -> tensor<4xf32>
      mlc.yield %m : tensor<4xf32>
    }
    ```
    """

    name = "mlc.stream"
    SOURCE: ClassVar[str] = "the ops of its region"
    TEMPLATE: ClassVar[OpaqueTemplate] = "stream"
    FLOPS: ClassVar[int] = 2
    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove(), SingleBlockImplicitTerminator(YieldOp))

    @staticmethod
    def of(inputs: Sequence[SSAValue], body: Region) -> StreamOp:
        (value,) = yield_of(body.block).values
        return StreamOp.create(operands=inputs, result_types=[value.type], regions=[body])

    def on(self, operands: Sequence[SSAValue], result: Attribute | None = None) -> TensorOp:
        new = StreamOp.of(operands, self.body.clone())
        new.attributes |= self.attributes
        new.location = self.location
        new.result.name_hint = self.result.name_hint
        return new

    @property
    def block(self) -> Block:
        """The region's block; its arguments stand for the operands."""
        return self.body.block

    @property
    def value(self) -> SSAValue:
        """What it computes."""
        return yield_of(self.block).values[0]

    def iteration(self) -> Shape:
        """Of its largest product."""
        products = [op.iteration() for op in self.block.ops if isinstance(op, ContractOp)]
        return max(products, key=len, default=self.shape)

    def stored_operands(self) -> tuple[int, ...]:
        return tuple(range(len(self.inputs)))

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        return declared

    def verify_(self) -> None:
        super().verify_()
        if [a.type for a in self.block.args] != [x.type for x in self.inputs]:
            raise VerifyException(f"{self.name}: the region takes the operands")
        found = [x.type for x in yield_of(self.block).values]
        if found != [self.result.type]:
            raise VerifyException(
                f"{self.name}: the region yields ({', '.join(map(str, found))}); expected"
                f" {self.result.type}"
            )
        for op in self.block.ops:
            if not isinstance(op, TensorOp | YieldOp) or isinstance(op, OpaqueOp):
                raise VerifyException(f"{self.name}: {op.name}; expected ops on elements")

    def print(self, printer: Printer) -> None:
        def pair(entry: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(entry[0])
            printer.print_string(" = ")
            printer.print_ssa_value(entry[1])

        printer.print_string("(")
        printer.print_list(list(zip(self.block.args, self.inputs, strict=False)), pair)
        printer.print_string(") : (")
        printer.print_list(self.inputs, lambda x: printer.print_attribute(x.type))
        printer.print_string(") -> ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> StreamOp:
        def pair() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            return argument, parser.parse_unresolved_operand()

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
        parser.parse_punctuation(":")
        kinds = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        operands = parser.resolve_operands([x for _, x in pairs], kinds, parser.pos)
        body = parser.parse_region([a.resolve(t) for (a, _), t in zip(pairs, kinds, strict=True)])
        op = cls.create(operands=operands, result_types=[result], regions=[body])
        if attributes is not None:
            op.attributes |= attributes.data
        return op
