"""Loops and conditions of tile programs, and how their regions end."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Data, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tile.expression import (
    WORKERS,
    ConditionsAttr,
    ExpressionsAttr,
    Positions,
    check_positions,
    letters_in,
    parse_bound,
    parse_conditions,
    print_bound,
    print_conditions,
)
from mlc.dialects.tile.region import (
    YieldOp,
    check_yield,
    in_groups,
    parse_body,
    parse_pair,
    parse_types,
    print_body,
    print_pair,
    print_types,
)
from mlc.lazy_dataclass import dataclass

INDEX = IndexType()
SCOPES = ("team", "worker")
"""Who shares memory: all workers of a kernel, or one of them alone."""
NO_UNROLL = "mlc.no_unroll"
"""Attribute of a loop whose body stands in the code once."""
DEALS = ("team", "dynamic")
"""How a team shares the trips of a loop: in contiguous parts, or each takes the next one."""


@dataclass(frozen=True)
class Deal:
    """How a team shares the trips of a loop, and where shares may be cut."""

    scope: str
    unit: int | None = None  # elements; else trips
    when: ConditionsAttr | None = None  # else each of them runs all trips


@irdl_attr_definition
class DealAttr(Data[Deal]):
    """
    How the trips of a loop are dealt.

    ```mlir
    #mlc_tile.deal<team>
    #mlc_tile.deal<team 12 when #mlc_tile.conditions<ge "M" "24*.workers">>
    ```
    """

    name = "mlc_tile.deal"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Deal:
        with parser.in_angle_brackets():
            scope = parser.parse_identifier()
            unit = parser.parse_optional_integer(allow_boolean=False)
            when = parser.parse_attribute() if parser.parse_optional_keyword("when") else None
            if when is not None and not isinstance(when, ConditionsAttr):
                parser.raise_error(f"found {when}; expected #mlc_tile.conditions<…>")
            return Deal(scope, unit, when)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            unit = "" if self.data.unit is None else f" {self.data.unit}"
            printer.print_string(f"{self.data.scope}{unit}")
            if self.data.when is not None:
                printer.print_string(" when ")
                printer.print_attribute(self.data.when)


@dataclass(frozen=True)
class Loop:
    """One axis of a `for`."""

    extent: ExpressionsAttr  # the least of these
    step: int = 1
    sized: bool = False  # whether the region takes how much of a step is left


@irdl_op_definition
class ForOp(IRDLOperation):
    """
    Runs its region for positions 0, step, … below the extent on each axis, the last axis fastest.
    What `as` names is the size of the trip's part of an axis: the step, or what is left. Dealt to a
    team, each worker has contiguous trips of all axes together; of one axis they may be cut at
    multiples of a unit smaller than the step, and a worker's parts begin where its share does.
    Dealt `dynamic`, each takes the next trip that nobody has, until there is none: a worker whose
    core others slow down takes fewer. A barrier stands in front of such a loop. Carried values
    are as `mlc.for`'s; those of a dealt loop have a `fold`, the monoid that combines what trips, or
    chunks of them, leave. After `once` a loop over an extent of 0 has a trip too, of size 0.

    ```mlir
    %s = mlc_tile.for %i in "M" step 192 as %h, %j in min(64, "N" - %n) deal(team)
        carry(%c = %x) fold("sum") -> (!mlc_tile.frag<4xf32>) {
      ...
    }
    ```
    """

    name = "mlc_tile.for"
    extents = prop_def(ArrayAttr[ExpressionsAttr])
    steps = prop_def(ArrayAttr[IntegerAttr])
    sized = prop_def(ArrayAttr[IntegerAttr])
    deal = opt_prop_def(DealAttr)
    folds = prop_def(ArrayAttr[StringAttr])
    once = opt_prop_def(UnitAttr)
    positions = var_operand_def(INDEX)
    inits = var_operand_def()
    outs = var_result_def()
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    @staticmethod
    def of(
        loops: Sequence[Loop],
        body: Region,
        positions: Sequence[SSAValue] = (),
        inits: Sequence[SSAValue] = (),
        folds: Sequence[str] = (),
        deal: Deal | None = None,
        *,
        once: bool = False,
    ) -> ForOp:
        """
        A loop. The arguments of its body are the positions, the sizes of axes that are sized, and
        what is carried.
        """
        properties: dict[str, Attribute] = {
            "extents": ArrayAttr([x.extent for x in loops]),
            "steps": ArrayAttr([IntegerAttr(x.step, i64) for x in loops]),
            "sized": ArrayAttr([IntegerAttr(int(x.sized), i64) for x in loops]),
            "folds": ArrayAttr([StringAttr(f) for f in folds or ("",) * len(inits)]),
        }
        if deal is not None:
            properties["deal"] = DealAttr(deal)
        if once:
            properties["once"] = UnitAttr()
        return ForOp.create(
            operands=[*positions, *inits],
            result_types=[x.type for x in inits],
            properties=properties | in_groups(len(positions), len(inits)),
            regions=[body],
        )

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The axes."""
        return tuple(
            Loop(extent, step.value.data, bool(sized.value.data))
            for extent, step, sized in zip(self.extents, self.steps, self.sized, strict=True)
        )

    @property
    def indices(self) -> tuple[BlockArgument, ...]:
        """The region's first arguments: the position on each axis."""
        return tuple(self.body.block.args[: len(self.steps)])

    @property
    def sizes(self) -> tuple[BlockArgument | None, ...]:
        """Of each axis the argument that is the trip's size, if there is one."""
        rest = iter(self.body.block.args[len(self.steps) :])
        return tuple(next(rest) if loop.sized else None for loop in self.loops)

    @property
    def carried(self) -> tuple[BlockArgument, ...]:
        """The region's last arguments."""
        return tuple(self.body.block.args[len(self.body.block.args) - len(self.inits) :])

    def verify_(self) -> None:
        counts = {len(self.extents), len(self.steps), len(self.sized)}
        if counts != {len(self.steps)} or not len(self.steps):
            raise VerifyException(f"{self.name}: expected extent, step and size of each axis")
        kinds = [x.type for x in self.inits]
        count = len(self.steps) + sum(loop.sized for loop in self.loops)
        if [a.type for a in self.body.block.args] != [*[INDEX] * count, *kinds]:
            raise VerifyException(
                f"{self.name}: the region takes a position for each axis, sizes that are named, and"
                " what is carried"
            )
        if [x.type for x in self.outs] != kinds or len(self.folds) != len(kinds):
            raise VerifyException(f"{self.name}: expected a result and a fold of what is carried")
        for loop in self.loops:
            check_positions(self.name, loop.extent.data, self.positions)
            if not loop.extent.data or letters_in(loop.extent.data):
                raise VerifyException(f"{self.name}: an extent is made of sizes and positions")
            if loop.step < 1:
                raise VerifyException(f"{self.name}: step {loop.step}; expected at least 1")
        self._check_deal()
        for fold in self.folds:
            if fold.data and fold.data not in MONOIDS:
                raise VerifyException(
                    f'{self.name}: fold "{fold.data}"; expected one of {", ".join(MONOIDS)}'
                )
            if not fold.data and self.deal is not None:
                raise VerifyException(f"{self.name}: what a dealt loop carries needs a fold")
        check_yield(self.name, self.body.block, kinds)

    def _check_deal(self) -> None:
        if self.deal is None:
            return
        if self.once is not None:
            raise VerifyException(f"{self.name}: dealt, and yet once; expected one of them")
        deal, steps = self.deal.data, [loop.step for loop in self.loops]
        if deal.scope not in DEALS:
            raise VerifyException(
                f"{self.name}: dealt {deal.scope!r}; expected {' or '.join(DEALS)}"
            )
        if deal.scope == "dynamic":
            if deal.unit is not None or deal.when is not None or self.inits:
                raise VerifyException(
                    f"{self.name}: dealt dynamic with a unit, a condition or what is carried;"
                    " expected whole trips"
                )
            if not isinstance(self.prev_op, BarrierOp):
                raise VerifyException(
                    f"{self.name}: dealt dynamic; expected an mlc_tile.barrier in front, so that"
                    " no worker still takes trips of another loop"
                )
        if deal.unit is not None and len(steps) > 1:
            raise VerifyException(f"{self.name}: several axes are dealt trip by trip")
        if deal.unit is not None and (deal.unit < 1 or steps[0] % deal.unit):
            raise VerifyException(
                f"{self.name}: dealt in units of {deal.unit}; expected a divisor of the step"
                f" {steps[0]}"
            )
        inside = any(isinstance(op, ForOp) and op.is_dealt for op in _around(self))
        if inside and deal.when is None:
            raise VerifyException(f"{self.name}: a dealt loop stands in a dealt loop")
        if deal.when is not None:
            check_positions(self.name, deal.when.dims, self.positions)

    @property
    def is_dealt(self) -> bool:
        """Whether workers have different trips, whatever the sizes."""
        return self.deal is not None and self.deal.data.when is None

    def print(self, printer: Printer) -> None:
        def one(entry: tuple[SSAValue, Loop, SSAValue | None]) -> None:
            index, loop, size = entry
            printer.print_ssa_value(index)
            printer.print_string(" in ")
            print_bound(printer, loop.extent, self.positions)
            if loop.step != 1:
                printer.print_string(f" step {loop.step}")
            if size is not None:
                printer.print_string(" as ")
                printer.print_ssa_value(size)

        printer.print_string(" ")
        # an op that does not verify is printed too, in the error's report
        printer.print_list(list(zip(self.indices, self.loops, self.sizes, strict=False)), one)
        if self.deal is not None:
            self._print_deal(printer, self.deal.data)
        if self.once is not None:
            printer.print_string(" once")
        if self.inits:
            printer.print_string(" carry(")
            pairs = list(zip(self.carried, self.inits, strict=False))
            printer.print_list(pairs, print_pair(printer))
            printer.print_string(")")
        if any(f.data for f in self.folds):
            printer.print_string(" fold(" + ", ".join(f'"{f.data}"' for f in self.folds) + ")")
        print_types(printer, [x.type for x in self.outs])
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    def _print_deal(self, printer: Printer, deal: Deal) -> None:
        printer.print_string(f" deal({deal.scope}")
        if deal.unit is not None:
            printer.print_string(f" {deal.unit}")
        if deal.when is not None:
            printer.print_string(" when ")
            print_conditions(printer, deal.when, self.positions)
        printer.print_string(")")

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        positions = Positions()
        names: list[Parser.UnresolvedArgument] = []
        sizes: list[Parser.UnresolvedArgument] = []

        def one() -> Loop:
            names.append(parser.parse_argument(expect_type=False))
            parser.parse_keyword("in")
            extent, step = parse_bound(parser, positions), 1
            if parser.parse_optional_keyword("step"):
                step = parser.parse_integer(allow_boolean=False)
            sized = parser.parse_optional_keyword("as") is not None
            if sized:
                sizes.append(parser.parse_argument(expect_type=False))
            return Loop(extent, step, sized)

        loops = parser.parse_comma_separated_list(parser.Delimiter.NONE, one)
        deal = _parse_deal(parser, positions)
        once = parser.parse_optional_keyword("once") is not None
        pairs: list[tuple[Parser.UnresolvedArgument, SSAValue]] = []
        if parser.parse_optional_keyword("carry"):
            pairs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_pair(parser)
            )
        folds = [""] * len(pairs)
        if parser.parse_optional_keyword("fold"):
            folds = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_str_literal
            )
        parse_types(parser)  # for whoever reads; they are the types of what is carried
        attributes = parser.parse_optional_attr_dict_with_keyword()
        arguments = [name.resolve(INDEX) for name in (*names, *sizes)]
        arguments += [a.resolve(x.type) for a, x in pairs]
        body = parse_body(parser, arguments)
        op = cls.of(loops, body, positions.values, [x for _, x in pairs], folds, deal, once=once)
        ensure_terminator(op, SingleBlockImplicitTerminator(YieldOp))
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _parse_deal(parser: Parser, positions: Positions) -> Deal | None:
    if not parser.parse_optional_keyword("deal"):
        return None
    with parser.in_parens():
        scope = parser.parse_identifier()
        unit = parser.parse_optional_integer(allow_boolean=False)
        when = None
        if parser.parse_optional_keyword("when"):
            when = parse_conditions(parser, positions)
        return Deal(scope, unit, when)


def _around(op: Operation) -> list[Operation]:
    found: list[Operation] = []
    above = op.parent_op()
    while above is not None and above.name != "mlc_tile.kernel":
        found.append(above)
        above = above.parent_op()
    return found


@irdl_op_definition
class IfOp(IRDLOperation):
    """
    Runs its first region where the conditions hold, else the second: the same for all workers of a
    team, where they meet inside. `first` and `last` ask whether a loop is in that trip.

    ```mlir
    %t = mlc_tile.if first(%p) and %i + 12 <= "M" -> (!mlc_tile.frag<12x32xf32>) {
      mlc_tile.yield %s : !mlc_tile.frag<12x32xf32>
    } else {
      ...
    }
    ```
    """

    name = "mlc_tile.if"
    conditions = prop_def(ConditionsAttr)
    positions = var_operand_def(INDEX)
    outs = var_result_def()
    then = region_def("single_block")
    otherwise = region_def()
    traits = traits_def(RecursiveMemoryEffect())

    @staticmethod
    def of(
        conditions: ConditionsAttr,
        positions: Sequence[SSAValue],
        kinds: Sequence[Attribute],
        then: Region,
        otherwise: Region | None = None,
    ) -> IfOp:
        return IfOp.create(
            operands=positions,
            result_types=kinds,
            properties={"conditions": conditions},
            regions=[then, Region() if otherwise is None else otherwise],
        )

    def verify_(self) -> None:
        check_positions(self.name, self.conditions.dims, self.positions)
        if letters_in(self.conditions.dims) - {WORKERS}:
            raise VerifyException(f"{self.name}: a condition is made of sizes and positions")
        for condition in self.conditions.data:
            if condition.relation in ("first", "last"):
                self._check_trip(condition.left)
        kinds = [x.type for x in self.outs]
        check_yield(self.name, self.then.block, kinds)
        if self.otherwise.blocks:
            check_yield(self.name, self.otherwise.block, kinds)
        elif kinds:
            raise VerifyException(f"{self.name}: results need an else")

    def _check_trip(self, dim: Dim) -> None:
        name = next(iter(dim.symbols()), "")
        value = self.positions[int(name[1:])] if name[:1] == "%" else None
        owner = value.owner if value is not None else None
        loop = owner.parent_op() if isinstance(owner, Block) else None
        if not isinstance(loop, ForOp):
            raise VerifyException(f"{self.name}: first and last ask of a loop's position")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_conditions(printer, self.conditions, self.positions)
        print_types(printer, [x.type for x in self.outs])
        print_body(printer, self.then)
        if self.otherwise.blocks:
            printer.print_string(" else")
            print_body(printer, self.otherwise)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        positions = Positions()
        conditions = parse_conditions(parser, positions)
        kinds = parse_types(parser)
        then, otherwise = parse_body(parser), None
        if parser.parse_optional_keyword("else"):
            otherwise = parse_body(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        for region in (then, otherwise):
            if region is not None and not isinstance(region.block.last_op, YieldOp):
                region.block.add_op(YieldOp.of())
        op = cls.of(conditions, positions.values, kinds, then, otherwise)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """
    All workers of the team wait for one another; what they wrote is seen by all after it.

    ```mlir
    mlc_tile.barrier
    ```
    """

    name = "mlc_tile.barrier"
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        for op in _around(self):
            if isinstance(op, ForOp) and op.is_dealt:
                raise VerifyException(
                    f"{self.name}: stands in a dealt loop, whose trips differ from worker to worker"
                )


CONTROL = (ForOp, IfOp, YieldOp, BarrierOp)
