"""
Calls of functions of the module, and of what is made of them: derivatives, many examples at once.

What is called is private. No other pass of the tensor level meets these ops: first of all
`mlc-expand-transforms` makes calls of them, and `mlc-inline-calls` puts in what is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Self, TypeVar

from xdsl.dialects.builtin import DenseArrayBase, SymbolRefAttr, TensorType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import (
    Dim,
    DimsAttr,
    Shape,
    as_tensor,
    parse_dim,
    shape_of,
    spell_dim,
    tensor_type,
)
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.program import is_private, symbols_of
from mlc.dialects.tensor.op import tensor_fault

Properties = Mapping[str, Attribute]
Types = list[Attribute]
OpT = TypeVar("OpT", bound="FunctionUse")
T = TypeVar("T")

NONE = -1
"""An axis that is none: the value has no axis of examples."""


class FunctionUse(IRDLOperation):
    """
    What one may ask of every op that names a function. `sizes`: what the function's symbols are
    here, in their order; not there where it has none.
    """

    callee = prop_def(SymbolRefAttr)
    sizes = opt_prop_def(DimsAttr)
    inputs = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    traits = traits_def(Pure())

    LISTS: ClassVar[tuple[str, ...]] = ()
    """The op's lists of numbers, each after its name in the text."""
    SIZE: ClassVar[str | None] = None
    """The name of the op's own size, which stands after that in the text."""

    @classmethod
    def of(cls, function: FuncOp, inputs: Sequence[SSAValue], **properties: Attribute) -> Self:
        """The op with the results that it has; VerifyException where a property does not fit."""
        given = {"callee": SymbolRefAttr(function.sym_name.data), **properties}
        results = cls.types(function, given)[1]
        return cls.create(operands=list(inputs), result_types=results, properties=given)

    @classmethod
    def types(cls, function: FuncOp, properties: Properties) -> tuple[Types, Types]:
        """The types of operands and results; VerifyException where a property does not fit."""
        values, kind = sizes_of(function, properties), function.function_type
        return [sized(x, values) for x in kind.inputs], [sized(x, values) for x in kind.outputs]

    @property
    def callee_name(self) -> str:
        """The function's name."""
        return self.callee.string_value()

    def numbers(self, name: str) -> tuple[int, ...]:
        """One of the op's lists."""
        return _numbers(self.properties, name)

    def verify_(self) -> None:
        function = function_named(self)
        if function is None:
            raise VerifyException(f"{self.name}: the module has no function {self.callee}")
        if not (function.body.blocks and is_private(function)):
            found = "is not private" if function.body.blocks else "has no body"
            raise VerifyException(
                f"{self.name}: {self.callee} {found}; expected func.func private with a body"
            )
        kind = function.function_type
        if fault := next(filter(None, map(tensor_fault, (*kind.inputs, *kind.outputs))), None):
            raise VerifyException(f"{self.name}: {self.callee}: {fault}")
        expected = self.types(function, self.properties)
        for what, values, types in zip(
            ("operands", "results"), (self.inputs, self.outs), expected, strict=True
        ):
            found = [x.type for x in values]
            if found != types:
                raise VerifyException(
                    f"{self.name}: {what} ({', '.join(map(str, found))}); {self.callee} gives"
                    f" ({', '.join(map(str, types))})"
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.callee)
        printer.print_string("(")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_string(")")
        for name in self.LISTS:
            spelled = ["none" if x == NONE else str(x) for x in self.numbers(name)]
            printer.print_string(f" {name} [{', '.join(spelled)}]")
        for name in filter(None, (self.SIZE, "sizes")):
            if isinstance(dims := self.properties.get(name), DimsAttr):
                printer.print_string(f" {name} [{', '.join(map(spell_dim, dims.data))}]")
        printer.print_string(" : (")
        printer.print_list(self.inputs, lambda x: printer.print_attribute(x.type))
        printer.print_string(") -> (")
        printer.print_list(self.outs, lambda x: printer.print_attribute(x.type))
        printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {"callee": SymbolRefAttr(parser.parse_symbol_name())}
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        for name in cls.LISTS:
            parser.parse_keyword(name)
            properties[name] = numbers_attribute(_list(parser, lambda: _number(parser)))
        for name in filter(None, (cls.SIZE, "sizes")):
            if parser.parse_optional_keyword(name):
                properties[name] = DimsAttr(tuple(_list(parser, lambda: parse_dim(parser))))
        parser.parse_punctuation(":")
        at = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        return cls.create(
            operands=parser.resolve_operands(operands, types, at),
            result_types=results,
            properties=properties,
            attributes=attributes.data if attributes is not None else {},
        )


@irdl_op_definition
class CallOp(FunctionUse):
    """
    What a private function gives for the operands.

    ```mlir
    %y = mlc.call @f(%x) sizes ["N"] : (tensor<?xf32, #mlc.dims<"N">>) -> (tensor<f32>)
    ```
    """

    name = "mlc.call"


class DerivativeUse(FunctionUse):
    """What the ops for derivatives share: of which arguments, and of which results."""

    wrt = prop_def(DenseArrayBase.constr(i64))
    of_ = prop_def(DenseArrayBase.constr(i64), prop_name="of")
    LISTS: ClassVar[tuple[str, ...]] = ("wrt", "of")
    FROM_RESULTS: ClassVar[bool]
    """Whether it takes values like the results `of` and gives some like the arguments `wrt`."""

    @classmethod
    def types(cls, function: FuncOp, properties: Properties) -> tuple[Types, Types]:
        inputs, outputs = super().types(function, properties)
        wrt, of = _differentiable(cls.name, inputs, outputs, properties)
        taken, given = (of, wrt) if cls.FROM_RESULTS else (wrt, of)
        return [*inputs, *taken], [*outputs, *given]


@irdl_op_definition
class PullBackOp(DerivativeUse):
    """
    Reverse mode: the function's results, then the cotangents of its arguments `wrt`. The operands
    are its arguments, then the cotangents of its results `of`; those of other results are zero.

    ```mlir
    %y, %g = mlc.pull_back @f(%x, %one) wrt [0] of [0]
        : (tensor<4xf32>, tensor<f32>) -> (tensor<f32>, tensor<4xf32>)
    ```
    """

    name = "mlc.pull_back"
    FROM_RESULTS: ClassVar[bool] = True


@irdl_op_definition
class PushForwardOp(DerivativeUse):
    """
    Forward mode: the function's results, then the tangents of those in `of`. The operands are its
    arguments, then tangents of those in `wrt`; those of other arguments are zero.

    ```mlir
    %y, %dy = mlc.push_forward @f(%x, %dx) wrt [0] of [0]
        : (tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<f32>)
    ```
    """

    name = "mlc.push_forward"
    FROM_RESULTS: ClassVar[bool] = False


@irdl_op_definition
class BatchOp(FunctionUse):
    """
    The function for `size` examples at once: `in` says which axis of each operand holds them, `out`
    which axis of each result. `none`: the same for all of them. A result that is the same for all
    where `out` names an axis is repeated.

    ```mlir
    %y = mlc.batch @f(%w, %xs) in [none, 0] out [0] size [8]
        : (tensor<4xf32>, tensor<8x4xf32>) -> (tensor<8xf32>)
    ```
    """

    name = "mlc.batch"
    in_ = prop_def(DenseArrayBase.constr(i64), prop_name="in")
    out = prop_def(DenseArrayBase.constr(i64))
    size = prop_def(DimsAttr)
    LISTS: ClassVar[tuple[str, ...]] = ("in", "out")
    SIZE: ClassVar[str | None] = "size"

    @classmethod
    def types(cls, function: FuncOp, properties: Properties) -> tuple[Types, Types]:
        inputs, outputs = super().types(function, properties)
        size = properties.get("size")
        if not isinstance(size, DimsAttr) or len(size.data) != 1:
            raise VerifyException(f'{cls.name}: expected one size of examples: size ["B"]')
        ins = _axes(cls.name, "in", properties, inputs)
        outs = _axes(cls.name, "out", properties, outputs)
        (count,) = size.data
        return (
            [widened(x, axis, count) for x, axis in zip(inputs, ins, strict=True)],
            [widened(x, axis, count) for x, axis in zip(outputs, outs, strict=True)],
        )


CALLS: tuple[type[FunctionUse], ...] = (CallOp, PullBackOp, PushForwardOp, BatchOp)


# What they name


def function_named(op: FunctionUse) -> FuncOp | None:
    """The function of the module that an op names."""
    above = op.parent_op()
    while above is not None and above.name != "builtin.module":
        above = above.parent_op()
    for function in above.regions[0].block.ops if above is not None else ():
        if isinstance(function, FuncOp) and function.sym_name.data == op.callee_name:
            return function
    return None


def uses_of_functions(inside: Operation | Block) -> Iterator[FunctionUse]:
    """The ops in an op or a block that name functions, in order."""
    return (op for op in inside.walk() if isinstance(op, FunctionUse))


def used_by(inside: Operation | Block, functions: Sequence[FuncOp]) -> list[FuncOp]:
    """Those of the functions that ops inside name, or one that they name does, in their order."""
    if not functions:
        return []
    by_name = {function.sym_name.data: function for function in functions}
    pending: list[Operation | Block] = [inside]
    found: set[str] = set()
    while pending:
        names = {use.callee_name for use in uses_of_functions(pending.pop())} - found
        found |= names
        pending += [by_name[name] for name in names]
    return [function for name, function in by_name.items() if name in found]


def end_of(value: SSAValue, functions: Sequence[FuncOp]) -> SSAValue:
    """Of a result of one of the functions what that returns; another value itself."""
    use = value.owner
    if not isinstance(use, FunctionUse) or isinstance(use, BatchOp):
        return value
    function = next((f for f in functions if f.sym_name.data == use.callee_name), None)
    if function is None or value not in use.results[: len(function.function_type.outputs)]:
        return value
    last = function.body.block.last_op
    assert isinstance(value, OpResult)
    assert last is not None
    return last.operands[value.index]


def sizes_of(function: FuncOp, properties: Properties) -> dict[str, Dim]:
    """What a function's symbols are where it is used; VerifyException where one has no value."""
    symbols, given = symbols_of(function), properties.get("sizes")
    dims = given.data if isinstance(given, DimsAttr) else ()
    if len(dims) != len(symbols):
        named = f"@{function.sym_name.data} has the symbols ({', '.join(symbols)})"
        raise VerifyException(f"{len(dims)} sizes; {named}, and expected one for each")
    if any(dim.constant is not None and dim.constant < 0 for dim in dims):
        raise VerifyException(f"sizes [{', '.join(map(spell_dim, dims))}]; expected 0 or more")
    return dict(zip(symbols, dims, strict=True))


def sized(kind: Attribute, values: Mapping[str, Dim]) -> Attribute:
    """A tensor type with dims in place of symbols."""
    dims = shape_of(kind)
    if values.keys().isdisjoint({name for dim in dims for name in dim.symbols()}):
        return kind
    return tensor_type(as_tensor(kind).element_type, substituted(dims, values))


def substituted(dims: Shape, values: Mapping[str, Dim]) -> Shape:
    """Dims with dims in place of symbols."""
    return tuple(dim.substitute(values) for dim in dims)


def widened(kind: Attribute, axis: int | None, size: Dim) -> Attribute:
    """The type with an axis of examples; without one where there is none."""
    if axis is None:
        return kind
    dims = shape_of(kind)
    return tensor_type(as_tensor(kind).element_type, (*dims[:axis], size, *dims[axis:]))


# Lists of numbers


def numbers_attribute(numbers: Sequence[int | None]) -> Attribute:
    """A list of an op, with None where there is no axis."""
    return DenseArrayBase.from_list(i64, [NONE if x is None else x for x in numbers])


def _numbers(properties: Properties, name: str) -> tuple[int, ...]:
    found = properties.get(name)
    if not isinstance(found, DenseArrayBase):
        raise VerifyException(f"{name} is {found}; expected a list of numbers: {name} [0]")
    return tuple(int(x) for x in found.get_values())


def _differentiable(
    op: str, inputs: Types, outputs: Types, properties: Properties
) -> tuple[Types, Types]:
    """The types of the arguments `wrt` and of the results `of`."""
    found: list[Types] = []
    for name, what, types in (("wrt", "argument", inputs), ("of", "result", outputs)):
        numbers = _numbers(properties, name)
        for k in numbers:
            if not 0 <= k < len(types) or numbers.count(k) > 1:
                problem = "names one twice" if 0 <= k < len(types) else f"has {k}"
                raise VerifyException(
                    f"{op}: {name} {problem}; expected numbers below {len(types)}, each once"
                )
            if not dtype_of(as_tensor(types[k]).element_type).is_inexact:
                raise VerifyException(
                    f"{op}: {name} has {k}, and {what} {k} is {types[k]}, which has no derivative"
                )
        found.append([types[k] for k in numbers])
    return found[0], found[1]


def _axes(op: str, name: str, properties: Properties, types: Types) -> list[int | None]:
    numbers = _numbers(properties, name)
    if len(numbers) != len(types):
        raise VerifyException(f"{op}: {name} has {len(numbers)} axes; expected {len(types)}")
    for axis, kind in zip(numbers, types, strict=True):
        if not NONE <= axis <= len(shape_of(kind)):
            raise VerifyException(
                f"{op}: {name} has {axis} for {kind}; expected none, or an axis from 0 to"
                f" {len(shape_of(kind))}"
            )
    return [None if axis == NONE else axis for axis in numbers]


def _list(parser: Parser, one: Callable[[], T]) -> list[T]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one)


def _number(parser: Parser) -> int:
    return (
        NONE
        if parser.parse_optional_keyword("none")
        else parser.parse_integer(allow_negative=False)
    )
