"""Kernels that are tile programs, and what calls them."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    Pure,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    SymbolOpInterface,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, Shape, as_tensor, parse_dim, product, shape_of
from mlc.dialects.plan import BufferAttr
from mlc.dialects.tile.expression import (
    ConditionsAttr,
    Positions,
    parse_conditions,
    print_conditions,
)
from mlc.dialects.tile.region import YieldOp, check_yield, parse_body, print_body
from mlc.dialects.tile.types import ViewType, view_of


@irdl_op_definition
class KernelOp(IRDLOperation):
    """
    A program over tiles of its arguments, the last `results` of which it writes. `workers`: there
    is one worker for each `grain` units of `work`, and no more than the call may use; without it
    there is one.

    ```mlir
    mlc_tile.kernel @k(%x: !mlc_tile.view<"M"x4xf32>) -> (%y: !mlc_tile.view<"M"xf32>)
        workers("4*M" by 4096) {
      ...
    }
    ```
    """

    name = "mlc_tile.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    results_ = prop_def(IntegerAttr, prop_name="results")
    work = opt_prop_def(DimsAttr)
    grain = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(
        IsolatedFromAbove(), SymbolOpInterface(), SingleBlockImplicitTerminator(YieldOp)
    )

    @staticmethod
    def of(
        name: str,
        body: Region,
        results: int,
        work: Dim | None = None,
        grain: int = 1,
    ) -> KernelOp:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "results": IntegerAttr(results, i64),
        }
        if work is not None:
            properties |= {"work": DimsAttr((work,)), "grain": IntegerAttr(grain, i64)}
        return KernelOp.create(properties=properties, regions=[body])

    @property
    def block(self) -> Block:
        """The body's block."""
        return self.body.block

    @property
    def inputs(self) -> tuple[BlockArgument, ...]:
        """The arguments that are read."""
        return tuple(self.block.args[: len(self.block.args) - self.results_.value.data])

    @property
    def outputs(self) -> tuple[BlockArgument, ...]:
        """The arguments that are written."""
        return tuple(self.block.args[len(self.block.args) - self.results_.value.data :])

    @property
    def loads(self) -> Dim:
        """For how many workers there is work enough."""
        if self.work is None or self.grain is None:
            return Dim.const(1)
        return self.work.data[0] // self.grain.value.data

    @property
    def is_dealt(self) -> bool:
        """Whether it is a function of (worker, workers)."""
        loads = self.loads.constant
        return loads is None or loads > 1

    def verify_(self) -> None:
        count = self.results_.value.data
        if not 0 <= count <= len(self.block.args):
            raise VerifyException(
                f"{self.name}: {count} results of {len(self.block.args)} arguments"
            )
        for argument in self.block.args:
            if not isinstance(argument.type, ViewType):
                raise VerifyException(
                    f"{self.name}: argument {argument.type}; expected a !mlc_tile.view"
                )
        check_yield(self.name, self.block, ())
        if (self.work is None) != (self.grain is None):
            raise VerifyException(f"{self.name}: expected both work and grain, or neither")
        if self.grain is not None and self.grain.value.data < 1:
            raise VerifyException(f"{self.name}: grain {self.grain.value.data}; expected 1 or more")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)

        def argument(x: SSAValue) -> None:
            printer.print_ssa_value(x)
            printer.print_string(": ")
            printer.print_attribute(x.type)

        printer.print_string("(")
        printer.print_list(self.inputs, argument)
        printer.print_string(") -> (")
        printer.print_list(self.outputs, argument)
        printer.print_string(")")
        if self.work is not None and self.grain is not None:
            (work,) = self.work.data
            spelled = str(work) if work.constant is not None else f'"{work}"'
            printer.print_string(f" workers({spelled} by {self.grain.value.data})")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
        parser.parse_punctuation("->")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
        work, grain = None, 1
        if parser.parse_optional_keyword("workers"):
            with parser.in_parens():
                work = parse_dim(parser)
                parser.parse_keyword("by")
                grain = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls.of(name.data, parse_body(parser, [*inputs, *outputs]), len(outputs), work, grain)
        ensure_terminator(op, SingleBlockImplicitTerminator(YieldOp))
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class CallOp(IRDLOperation):
    """
    Runs a kernel: its results are the tensors that it writes. A view may join axes of its tensor
    that follow one another. `buffers` and `over` are what they are for the plan's kernels.

    ```mlir
    %y = mlc_tile.call @k(%x) : (tensor<8x4xf32>) -> tensor<8xf32> {buffers = [#mlc.buffer<out 0>]}
    ```
    """

    name = "mlc_tile.call"
    callee = prop_def(SymbolRefAttr)
    buffers = opt_prop_def(ArrayAttr[BufferAttr])
    over = opt_prop_def(ArrayAttr[IntegerAttr])
    inputs = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$callee `(` $inputs `)` `:` functional-type(operands, results) attr-dict"

    @property
    def shared_inputs(self) -> tuple[int, ...]:
        """For each result the input that may lie in its memory, or -1."""
        if self.over is None:
            return (-1,) * len(self.outs)
        return tuple(number.value.data for number in self.over)

    def verify_(self) -> None:
        kernel = called(self)
        if kernel is None:
            raise VerifyException(f"{self.name}: no mlc_tile.kernel is called {self.callee}")
        for what, values, views in (
            ("operand", self.inputs, kernel.inputs),
            ("result", self.outs, kernel.outputs),
        ):
            if len(values) != len(views):
                raise VerifyException(
                    f"{self.name}: {len(values)} {what}s; {self.callee} has {len(views)}"
                )
            for value, view in zip(values, views, strict=True):
                tensor, kind = as_tensor(value.type), view_of(view)
                fits = tensor.element_type == kind.element
                if not fits or axes_between(shape_of(tensor), kind.shape) is None:
                    raise VerifyException(
                        f"{self.name}: {what} {tensor}; {self.callee} takes {kind}"
                    )


def axes_between(whole: Shape, joined: Shape) -> tuple[tuple[int, ...], ...] | None:
    """Which axes of a row-major tensor each axis of a view of it joins; None if it is no such."""
    found: list[tuple[int, ...]] = []
    first = 0
    for k, size in enumerate(joined):
        end = first + 1
        while end < len(whole) and product(whole[first:end]) != size:
            end += 1
        if k == len(joined) - 1:
            end = len(whole)
        if product(whole[first:end]) != size:
            return None
        found.append(tuple(range(first, end)))
        first = end
    return tuple(found) if first == len(whole) else None


def called(call: CallOp) -> KernelOp | None:
    """The kernel that is called."""
    above = call.parent_op()
    while above is not None and above.name != "builtin.module":
        above = above.parent_op()
    for op in above.regions[0].block.ops if above is not None else ():
        if isinstance(op, KernelOp) and op.sym_name.data == call.callee.string_value():
            return op
    return None


@irdl_op_definition
class CaseOp(IRDLOperation):
    """
    Runs the first of its regions whose conditions hold; the last has none. Conditions compare sizes
    of the kernel's arguments. It stands at the top of a kernel.

    ```mlir
    mlc_tile.case "M" >= 4 and "M*N" >= 4096 {
      ...
    } else {
      ...
    }
    ```
    """

    name = "mlc_tile.case"
    conditions = prop_def(ArrayAttr[ConditionsAttr])
    bodies = var_region_def("single_block")
    traits = traits_def(
        HasParent(KernelOp), RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp)
    )

    def verify_(self) -> None:
        if len(self.bodies) != len(self.conditions) + 1 or not self.conditions.data:
            raise VerifyException(f"{self.name}: expected conditions, and a region without any")
        for conditions in self.conditions:
            if any(s[0] in "%." for dim in conditions.dims for s in dim.symbols()):
                raise VerifyException(f"{self.name}: conditions compare sizes alone")
        for body in self.bodies:
            check_yield(self.name, body.block, ())

    def print(self, printer: Printer) -> None:
        for k, body in enumerate(self.bodies):
            printer.print_string(" else" if k else "")
            if k < len(self.conditions):
                printer.print_string(" case " if k else " ")
                print_conditions(printer, self.conditions.data[k], ())
            print_body(printer, body)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> CaseOp:
        conditions = [parse_conditions(parser, Positions())]
        bodies = [parse_body(parser)]
        while parser.parse_optional_keyword("else"):
            if parser.parse_optional_keyword("case"):
                conditions.append(parse_conditions(parser, Positions()))
            bodies.append(parse_body(parser))
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls.create(properties={"conditions": ArrayAttr(conditions)}, regions=bodies)
        ensure_terminator(op, SingleBlockImplicitTerminator(YieldOp))
        if attributes is not None:
            op.attributes |= attributes.data
        return op


KERNELS = (KernelOp, CallOp, CaseOp)
