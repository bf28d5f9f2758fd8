"""Ops of GPUs: blocks of threads take items, roles work at the same time, rings join them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, Region, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    eq,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.tile.compute import INDEX, DotOp, Product
from mlc.dialects.tile.expression import parse_value
from mlc.dialects.tile.memory import LoadOp
from mlc.dialects.tile.region import YieldOp, check_yield, parse_body, print_body
from mlc.dialects.tile.types import FragType, TokenType, ViewType, frag_of, view_of
from mlc.dialects.tile.work import WorkOp, work_around

ROLES = {"producer": "warps", "consumer": "groups", "store": "warps"}
"""Who fills slots, who multiplies them, who writes results; and of what each consists."""
THREADS = {"warps": 32, "groups": 128}
GROUP_WARPS = THREADS["groups"] // THREADS["warps"]
REGISTERS = 65536
"""Of a streaming multiprocessor. SOURCE: CUDA programming guide, compute capability 9.0"""
I64 = IntegerAttr.constr(eq(i64))


@irdl_attr_definition
class ChannelType(ParametrizedAttribute, TypeAttribute):
    """
    A ring of so many places, each of slots that are filled together, read, and filled again.

    ```mlir
    !mlc_tile.channel<4 x [!mlc_tile.view<128x64xbf16, sw128>, !mlc_tile.view<256x64xbf16, sw128>]>
    ```
    """

    name = "mlc_tile.channel"
    depth: IntAttr
    slots: ArrayAttr[ViewType]

    def verify(self) -> None:
        if self.depth.data < 1:
            raise VerifyException(f"{self.name}: {self.depth.data} places; expected 1 or more")
        if not self.slots.data or not all(slot.is_slot for slot in self.slots):
            raise VerifyException(f"{self.name}: expected slots in each place")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            depth = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("x")
            slots = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_attribute
            )
        return (IntAttr(depth), ArrayAttr(slots))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.depth.data} x [")
            printer.print_list(self.slots.data, printer.print_attribute)
            printer.print_string("]")


@irdl_op_definition
class ChannelOp(IRDLOperation):
    """
    A ring of slots, all of whose places are free. One role puts; each of those who get gets every
    place, in the order of puts, or where groups take turns those of its items.

    ```mlir
    %ring = mlc_tile.channel : !mlc_tile.channel<4 x [!mlc_tile.view<128x64xbf16, sw128>]>
    ```
    """

    name = "mlc_tile.channel"
    result = result_def(ChannelType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "attr-dict `:` type($result)"


class OnChannel(IRDLOperation):
    """An op on a channel, in a role."""

    channel = operand_def(ChannelType)

    @property
    def role(self) -> tuple[RolesOp, int] | None:
        """The op and the number of the role in which it stands."""
        inner: Operation = self
        above = inner.parent_op()
        while above is not None and not isinstance(above, RolesOp):
            inner, above = above, above.parent_op()
        if above is None:
            return None
        block = inner.parent
        return above, next(k for k, body in enumerate(above.bodies) if body.block is block)


class _Place(OnChannel):
    slots = var_result_def(ViewType)

    def verify_(self) -> None:
        kind = self.channel.type
        assert isinstance(kind, ChannelType)
        if tuple(x.type for x in self.slots) != kind.slots.data:
            raise VerifyException(f"{self.name}: expected the slots of {kind}")
        if self.role is None:
            raise VerifyException(f"{self.name}: stands in no role")


@irdl_op_definition
class PutOp(_Place):
    """
    The slots of the next place, once all who get have released it; what is copied to them is seen
    when they are full.

    ```mlir
    %x = mlc_tile.put %ring : !mlc_tile.channel<4 x [!mlc_tile.view<8xf32, shared>]>
        -> !mlc_tile.view<8xf32, shared>
    ```
    """

    name = "mlc_tile.put"
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$channel attr-dict `:` type($channel) `->` type($slots)"


@irdl_op_definition
class GetOp(_Place):
    """
    The slots of the next place, once they are full.

    ```mlir
    %x = mlc_tile.get %ring : !mlc_tile.channel<4 x [!mlc_tile.view<8xf32, shared>]>
        -> !mlc_tile.view<8xf32, shared>
    ```
    """

    name = "mlc_tile.get"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$channel attr-dict `:` type($channel) `->` type($slots)"


@irdl_op_definition
class ReleaseOp(OnChannel):
    """
    Gives places back that this role has: all but the last `behind`, or all.

    ```mlir
    mlc_tile.release %ring behind 1 : !mlc_tile.channel<4 x [!mlc_tile.view<8xf32, shared>]>
    ```
    """

    name = "mlc_tile.release"
    behind = opt_prop_def(I64)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$channel (`behind` $behind^)? attr-dict `:` type($channel)"

    def verify_(self) -> None:
        behind = 1 if self.behind is None else self.behind.value.data
        if behind < 1:
            raise VerifyException(f"{self.name}: behind {behind}; expected 1 or more")
        found = self.role
        if found is None:
            raise VerifyException(f"{self.name}: stands in no role")
        inside = found[0].bodies[found[1]].walk()
        if not any(isinstance(op, GetOp) and op.channel is self.channel for op in inside):
            raise VerifyException(f"{self.name}: its role gets nothing from the channel")


@irdl_op_definition
class DotStartOp(Product):
    """
    A product as `mlc_tile.dot`'s that begins here: until it is waited for, its sums and operands
    belong to it. Sums begin with what the token `init` stands for.

    ```mlir
    %v = mlc_tile.dot_start "mk,nk->mn" %x[64*%group], %y over (k 64) init %u via wgmma_m64n256k16
        : !mlc_tile.token<!mlc_tile.frag<64x256xf32>>
    ```
    """

    name = "mlc_tile.dot_start"
    GIVES: ClassVar[type[FragType | TokenType]] = TokenType
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ReadyOp(IRDLOperation):
    """
    A tile as the token of a product that is done.

    ```mlir
    %u = mlc_tile.ready %zero : !mlc_tile.frag<64x256xf32>
    ```
    """

    name = "mlc_tile.ready"
    value = operand_def(FragType)
    result = result_def(TokenType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def verify_(self) -> None:
        if self.result.type != TokenType(frag_of(self.value)):
            raise VerifyException(f"{self.name}: {self.result.type} of {self.value.type}")


@irdl_op_definition
class WaitOp(IRDLOperation):
    """
    Waits until at most so many products of this role are not done, the last ones; it gives the tile
    that a token of another one stands for.

    ```mlir
    mlc_tile.wait %v, 1 : !mlc_tile.token<!mlc_tile.frag<64x256xf32>>
    %s = mlc_tile.wait %t, 0 : !mlc_tile.token<!mlc_tile.frag<8xf32>> -> !mlc_tile.frag<8xf32>
    ```
    """

    name = "mlc_tile.wait"
    pending = prop_def(I64)
    token = operand_def(TokenType)
    value = opt_result_def(FragType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$token `,` $pending attr-dict `:` type($token) (`->` type($value)^)?"

    def verify_(self) -> None:
        pending = self.pending.value.data
        if pending < 0:
            raise VerifyException(f"{self.name}: {pending} products; expected 0 or more")
        if self.value is None:
            return
        if self.token.type != TokenType(frag_of(self.value)):
            raise VerifyException(f"{self.name}: {self.value.type} of {self.token.type}")


@irdl_op_definition
class RolesOp(IRDLOperation):
    """
    Roles of a block of threads that run at the same time: a producer of warps that only copies,
    consumers of groups of four warps, one copy of the region for each. Each takes its number, and
    each thread has so many registers.

    ```mlir
    mlc_tile.roles producer(1, regs 40) %p {
      ...
    } consumer(2, regs 232) %group {
      ...
    }
    ```
    """

    name = "mlc_tile.roles"
    kinds = prop_def(ArrayAttr[StringAttr])
    counts = prop_def(ArrayAttr[IntegerAttr])
    registers = prop_def(ArrayAttr[IntegerAttr])
    bodies = var_region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    def copies(self, number: int) -> int:
        """How many run a role's region: one for each group, all warps together."""
        groups = ROLES[self.kinds.data[number].data] == "groups"
        return self.counts.data[number].value.data if groups else 1

    def verify_(self) -> None:
        if not len(self.bodies) == len(self.kinds) == len(self.counts) == len(self.registers):
            raise VerifyException(f"{self.name}: expected kind, count and registers of each role")
        total = 0
        for kind, count, registers, body in zip(
            self.kinds, self.counts, self.registers, self.bodies, strict=True
        ):
            if kind.data not in ROLES or count.value.data < 1 or registers.value.data < 1:
                raise VerifyException(
                    f"{self.name}: {kind.data}; expected one of {', '.join(ROLES)}, and numbers"
                )
            total += THREADS[ROLES[kind.data]] * count.value.data * registers.value.data
            if [a.type for a in body.block.args] != [INDEX]:
                raise VerifyException(f"{self.name}: a role takes its number")
            check_yield(self.name, body.block, ())
            if kind.data == "producer":
                _only_copies(self.name, body.block)
        if total > REGISTERS:
            raise VerifyException(f"{self.name}: {total} registers; expected {REGISTERS} at most")
        _one_producer(self)

    def print(self, printer: Printer) -> None:
        for kind, count, registers, body in zip(
            self.kinds, self.counts, self.registers, self.bodies, strict=False
        ):
            printer.print_string(f" {kind.data}({count.value.data}, regs {registers.value.data}) ")
            printer.print_list(body.block.args, printer.print_ssa_value)
            print_body(printer, body)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> RolesOp:
        kinds: list[StringAttr] = []
        numbers: tuple[list[IntegerAttr], list[IntegerAttr]] = ([], [])
        bodies: list[Region] = []
        while (kind := parser.parse_optional_identifier()) is not None and kind != "attributes":
            kinds.append(StringAttr(kind))
            with parser.in_parens():
                numbers[0].append(IntegerAttr(parser.parse_integer(), i64))
                parser.parse_punctuation(",")
                parser.parse_keyword("regs")
                numbers[1].append(IntegerAttr(parser.parse_integer(), i64))
            name = parser.parse_argument(expect_type=False)
            bodies.append(parse_body(parser, [name.resolve(INDEX)]))
        attributes = parser.parse_optional_attr_dict() if kind == "attributes" else {}
        op = cls.create(
            properties={
                "kinds": ArrayAttr(kinds),
                "counts": ArrayAttr(numbers[0]),
                "registers": ArrayAttr(numbers[1]),
            },
            regions=bodies,
            attributes=attributes,
        )
        ensure_terminator(op, SingleBlockImplicitTerminator(YieldOp))
        return op


@irdl_op_definition
class JoinOp(IRDLOperation):
    """
    Of an item that comes in parts each part has a tile. Whoever has the last steps waits for the
    others, adds their tiles to its own, in the order of steps, and runs the region with the sum.
    `partial` has a tile for each block and group; `arrived` says, for each block and warp, 0 at
    first, whether it is there.

    ```mlir
    mlc_tile.join %whole = %sums of %group part(%from, %to) through %partial, %arrived
        : !mlc_tile.frag<64x256xf32>, !mlc_tile.view<132x2x64x256xf32>, !mlc_tile.view<132x8xi32> {
      ...
    }
    ```
    """

    name = "mlc_tile.join"
    value = operand_def(FragType)
    group = operand_def(INDEX)
    first = operand_def(INDEX)
    end = operand_def(INDEX)
    partial = operand_def(ViewType)
    arrived = operand_def(ViewType)
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    @property
    def work(self) -> WorkOp:
        """Whose items come in parts; VerifyException where there is none."""
        above = work_around(self)
        if above is None or above.part != (self.first, self.end):
            raise VerifyException(f"{self.name}: expected the part of an item of mlc_tile.work")
        return above

    def verify_(self) -> None:
        if [a.type for a in self.body.block.args] != [self.value.type]:
            raise VerifyException(f"{self.name}: the region takes a {self.value.type}")
        check_yield(self.name, self.body.block, ())
        work, shape = self.work, frag_of(self.value).shape
        blocks = work.sharing
        partial, arrived = (
            tuple(d.constant or 0 for d in view_of(x).shape) for x in (self.partial, self.arrived)
        )
        several = len(partial) == 2 + len(shape) and partial[0] == blocks
        if not several or partial[2:] != shape or arrived != (blocks, GROUP_WARPS * partial[1]):
            raise VerifyException(
                f"{self.name}: through {self.partial.type}, {self.arrived.type}; expected"
                f" {blocks} x groups x {' x '.join(map(str, shape))}, and {blocks} x warps"
            )
        if any(isinstance(op, OnChannel) for op in self.body.walk()):
            raise VerifyException(f"{self.name}: some do not run the region: no channel is used")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.body.block.args[0])
        printer.print_string(" = ")
        printer.print_ssa_value(self.value)
        printer.print_string(" of ")
        printer.print_ssa_value(self.group)
        printer.print_string(" part(")
        printer.print_list((self.first, self.end), printer.print_ssa_value)
        printer.print_string(") through ")
        printer.print_list((self.partial, self.arrived), printer.print_ssa_value)
        printer.print_string(" : ")
        kinds = (self.value.type, self.partial.type, self.arrived.type)
        printer.print_list(kinds, printer.print_attribute)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> JoinOp:
        whole = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        value = parse_value(parser)
        parser.parse_keyword("of")
        group = parse_value(parser)
        parser.parse_keyword("part")
        with parser.in_parens():
            first = parse_value(parser)
            parser.parse_punctuation(",")
            end = parse_value(parser)
        parser.parse_keyword("through")
        partial = parse_value(parser)
        parser.parse_punctuation(",")
        arrived = parse_value(parser)
        parser.parse_punctuation(":")
        parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls.create(
            operands=[value, group, first, end, partial, arrived],
            regions=[parse_body(parser, [whole.resolve(value.type)])],
            attributes={} if attributes is None else attributes.data,
        )
        ensure_terminator(op, SingleBlockImplicitTerminator(YieldOp))
        return op


def _only_copies(name: str, block: Block) -> None:
    for op in block.walk():
        reads = isinstance(op, GetOp | DotOp | DotStartOp)
        if reads or (isinstance(op, LoadOp) and view_of(op.view).is_slot):
            raise VerifyException(
                f"{name}: a producer reads slots: {op.name}; expected copies alone"
            )


def _one_producer(roles: RolesOp) -> None:
    """VerifyException where a channel is filled by another role than one producer."""
    for number, body in enumerate(roles.bodies):
        for op in body.walk():
            if not isinstance(op, PutOp):
                continue
            if roles.kinds.data[number].data != "producer":
                raise VerifyException(f"{op.name}: stands in a {roles.kinds.data[number].data}")
            others = (x for k, b in enumerate(roles.bodies) if k != number for x in b.walk())
            if any(isinstance(x, PutOp) and x.channel is op.channel for x in others):
                raise VerifyException(f"{op.name}: two roles put into one channel")


PIPELINE = (
    ChannelOp, PutOp, GetOp, ReleaseOp, DotStartOp, ReadyOp, WaitOp, WorkOp, RolesOp,
    JoinOp,
)  # fmt: skip
