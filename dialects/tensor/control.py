"""
Structured control flow on tensors: `if`, `for` and `while`, whose values are carried in SSA form.

Regions see the values around them. A region ends with `mlc.yield`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, i1, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
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

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import tensor_type

INDEX = tensor_type(i64, ())
CONDITION = tensor_type(i1, ())

CHECKPOINT = "mlc.checkpoint"
"""
Attribute of a loop of which reverse mode shall keep about as many states as the square root of its
trips.
"""


PARALLEL = "mlc.parallel"
"""
Attribute of a loop whose trips may run in any order, or at once: none reads or writes what another
one writes. `mlc-check-parallel` holds it to that, where somebody wrote it.
"""
CHECKED = "mlc.checked"
"""
Attribute of such a loop: the call has seen before it that elements at places which data decide are
of one trip each.
"""
PEELED = "mlc.peeled"
"""Attribute of such a loop: how many of its first trips stand before it."""


class ControlOp(IRDLOperation):
    """What passes may ask of every op with regions of tensor ops."""

    IS_RIGID: ClassVar[bool] = False
    """Whether results live and die together, and no op leaves the regions, which have symbols."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of its regions, in the order they run."""
        return tuple(region.block for region in self.regions)

    @property
    def repeats(self) -> bool:
        """Whether its regions may run more than once."""
        return True

    @property
    def starts(self) -> tuple[SSAValue, ...]:
        """What the carried values begin as."""
        return ()

    @property
    def first_carried(self) -> int:
        """The first result that is carried, and so begins as the first of `starts`."""
        return 0

    def carried_in(self, block: Block) -> tuple[BlockArgument, ...]:
        """The carried values as arguments of one of its blocks."""
        return tuple(block.args)

    def yielding(self) -> tuple[Block, ...]:
        """The blocks that end with the values of the next trip, or of the results."""
        return self.blocks


def yield_of(block: Block) -> YieldOp:
    """The terminator of a region's block."""
    last = block.last_op
    assert isinstance(last, YieldOp)
    return last


def is_inside(value: SSAValue, op: ControlOp) -> bool:
    """Whether a value is made in the op's regions."""
    block = block_of(value)
    while block is not None:
        parent = block.parent_op()
        if parent is op:
            return True
        block = parent.parent if parent is not None else None
    return False


def loops_around(op: Operation, within: Operation | None = None) -> Iterator[ControlOp]:
    """The loops that run an op, innermost first; of those inside `within`."""
    around = op.parent_op()
    while isinstance(around, ControlOp) and around is not within:
        if around.repeats:
            yield around
        around = around.parent_op()


def peeled_from(loop: ControlOp) -> int:
    """How many trips of a loop stand before it."""
    found = loop.attributes.get(PEELED)
    return found.value.data if isinstance(found, IntegerAttr) else 0


def discard(block: Block) -> None:
    """Forgets a block that nothing uses any more."""
    for op in reversed(list(block.ops)):
        block.erase_op(op, safe_erase=False)


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
class ForOp(ControlOp):
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
    def starts(self) -> tuple[SSAValue, ...]:
        return tuple(self.inits)

    def carried_in(self, block: Block) -> tuple[BlockArgument, ...]:
        return tuple(block.args[1:])

    @property
    def yielded(self) -> YieldOp:
        """The terminator."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def verify_(self) -> None:
        wanted = [INDEX, *(x.type for x in self.inits)]
        check_arguments(self.name, self.body.block, wanted)
        check_carried(self.name, self.body.block, self.inits)
        check_results(self.name, self.outs, [x.type for x in self.inits])

    def print(self, printer: Printer) -> None:
        index, *carried = self.body.block.args
        printer.print_string(" ")
        printer.print_ssa_value(index)
        printer.print_string(" to ")
        printer.print_ssa_value(self.count)
        print_carried(printer, carried, self.inits)
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        index = parser.parse_argument(expect_type=False)
        parser.parse_characters("to")
        count = parser.resolve_operand(parser.parse_unresolved_operand(), INDEX)
        carried, inits = parse_carried(parser)
        arguments = [index.resolve(INDEX), *carried]
        body = parser.parse_region(arguments)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(count, inits, body)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class WhileOp(ControlOp):
    """
    Runs `body` as long as `condition` gives true; both get the carried values as arguments.

    Gives the values for which the condition was false.

    ```mlir
    %r = mlc.while iter(%x = %init) -> (tensor<4xf32>) {
      %c = ...
      mlc.yield %c : tensor<i1>
    } do {
    ^bb0(%y : tensor<4xf32>):
      mlc.yield %y : tensor<4xf32>
    }
    ```
    """

    name = "mlc.while"
    inits = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    condition = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    def __init__(self, inits: Sequence[SSAValue], condition: Region, body: Region) -> None:
        super().__init__(
            operands=[inits], result_types=[[x.type for x in inits]], regions=[condition, body]
        )

    @property
    def starts(self) -> tuple[SSAValue, ...]:
        return tuple(self.inits)

    def yielding(self) -> tuple[Block, ...]:
        return (self.body.block,)

    @property
    def test(self) -> SSAValue:
        """The condition's value."""
        return yield_of(self.condition.block).values[0]

    def verify_(self) -> None:
        wanted = [x.type for x in self.inits]
        for block in self.blocks:
            check_arguments(self.name, block, wanted)
        check_condition(self.name, self.condition.block)
        check_carried(self.name, self.body.block, self.inits)
        check_results(self.name, self.outs, wanted)

    def print(self, printer: Printer) -> None:
        print_carried(printer, self.condition.block.args, self.inits)
        printer.print_region(self.condition, print_entry_block_args=False, print_empty_block=False)
        printer.print_string(" do ")
        printer.print_region(self.body, print_empty_block=False)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        carried, inits = parse_carried(parser)
        condition = parser.parse_region(carried)
        parser.parse_keyword("do")
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(inits, condition, body)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class IfOp(ControlOp):
    """
    Runs the first region where the condition is true, else the second; gives what it yields.

    ```mlir
    %r = mlc.if %c -> (tensor<4xf32>) {
      mlc.yield %x : tensor<4xf32>
    } else {
      mlc.yield %y : tensor<4xf32>
    }
    ```
    """

    name = "mlc.if"
    condition = operand_def(CONDITION)
    outs = var_result_def(TensorType)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    def __init__(self, condition: SSAValue, then: Region, otherwise: Region) -> None:
        types = [x.type for x in yield_of(then.block).values]
        super().__init__(operands=[condition], result_types=[types], regions=[then, otherwise])

    @property
    def repeats(self) -> bool:
        return False

    def verify_(self) -> None:
        for name, block in zip(("then", "else"), self.blocks, strict=True):
            check_arguments(self.name, block, [])
            last = block.last_op
            if not isinstance(last, YieldOp):
                raise VerifyException(f"mlc.if: the {name} region must end with mlc.yield")
            found = [x.type for x in last.values]
            if found != [x.type for x in self.outs]:
                raise VerifyException(
                    f"mlc.if: the {name} region yields ({', '.join(map(str, found))}); expected"
                    f" ({', '.join(str(x.type) for x in self.outs)})"
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.condition)
        printer.print_string(" -> (")
        printer.print_list(self.outs, lambda x: printer.print_attribute(x.type))
        printer.print_string(") ")
        printer.print_region(self.then, print_empty_block=False)
        printer.print_string(" else ")
        printer.print_region(self.otherwise, print_empty_block=False)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        condition = parser.resolve_operand(parser.parse_unresolved_operand(), CONDITION)
        parser.parse_punctuation("->")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        then = parser.parse_region()
        parser.parse_keyword("else")
        otherwise = parser.parse_region()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        return cls.create(
            operands=[condition],
            result_types=types,
            regions=[then, otherwise],
            attributes=attributes.data if attributes is not None else {},
        )


# What the ops share


def check_arguments(name: str, block: Block, wanted: Sequence[Attribute]) -> None:
    """VerifyException unless the block's arguments have these types."""
    if [a.type for a in block.args] != list(wanted):
        expected = ", ".join(map(str, wanted)) or "none"
        raise VerifyException(f"{name}: region arguments must be {expected}")


def check_carried(name: str, block: Block, inits: Sequence[SSAValue]) -> None:
    """VerifyException unless the block yields values of the types that the carried ones have."""
    last = block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException(f"{name}: the region must end with mlc.yield")
    if len(last.values) != len(inits):
        raise VerifyException(f"{name}: {len(inits)} carried values but {len(last.values)} yielded")
    for k, (found, init) in enumerate(zip(last.values, inits, strict=True)):
        if found.type != init.type:
            raise VerifyException(
                f"{name}: carried value {k} starts as {init.type} and continues as"
                f" {found.type}; expected one type (convert or reshape it before the loop or at"
                " its end)"
            )


def check_condition(name: str, block: Block) -> None:
    """VerifyException unless the block yields one bool."""
    last = block.last_op
    found = [x.type for x in last.values] if isinstance(last, YieldOp) else []
    if found != [CONDITION]:
        raise VerifyException(
            f"{name}: the condition yields ({', '.join(map(str, found))}); expected ({CONDITION})"
        )


def check_results(name: str, outs: Sequence[SSAValue], wanted: Sequence[Attribute]) -> None:
    """VerifyException unless the results have the carried values' types."""
    if [x.type for x in outs] != list(wanted):
        raise VerifyException(f"{name}: the results must be {', '.join(map(str, wanted))}")


def print_carried(
    printer: Printer, arguments: Sequence[SSAValue], inits: Sequence[SSAValue]
) -> None:
    """`iter(%x = %init, …) -> (types)`"""
    printer.print_string(" iter(")

    def pair(entry: tuple[SSAValue, SSAValue]) -> None:
        printer.print_ssa_value(entry[0])
        printer.print_string(" = ")
        printer.print_ssa_value(entry[1])

    # an op that does not verify is printed too, in the error's report
    printer.print_list(zip(arguments, inits, strict=False), pair)
    printer.print_string(") -> (")
    printer.print_list(inits, lambda x: printer.print_attribute(x.type))
    printer.print_string(") ")


def parse_carried(parser: Parser) -> tuple[list[Parser.Argument], list[SSAValue]]:
    """What `print_carried` writes: the region's arguments and the initial values."""
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
    return [a.resolve(t) for (a, _), t in zip(pairs, types, strict=True)], list(inits)


def loop_region(carried: Sequence[Attribute]) -> Region:
    """A region with the arguments that `mlc.for` wants and no ops yet."""
    return Region(Block(arg_types=[INDEX, *carried]))


CONTROL: tuple[type[ControlOp], ...] = (ForOp, WhileOp, IfOp)
