"""The items that a GPU's blocks of threads take."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.tile.compute import INDEX
from mlc.dialects.tile.expression import (
    ExpressionsAttr,
    Positions,
    check_positions,
    letters_in,
    parse_bound,
    print_bound,
)
from mlc.dialects.tile.region import YieldOp, check_yield, parse_body, print_body

WARP = 32


@irdl_op_definition
class WorkOp(IRDLOperation):
    """
    The items of a block of threads: positions of tiles, dealt to blocks in turn, in groups of
    `raster` rows, whose columns are walked together. Every role that walks them sees the same.
    `paired`: two at a time, the first and the last along the last axis, then those between them.
    Outside roles `threads` of a block compute an item together: each row of a tile belongs to as
    many, which hold vectors of `lanes` elements of it in turn. A `cluster` of so many blocks has an
    item, which is one row then, together.

    ```mlir
    mlc_tile.work %i in "M" step 128, %j in "N" step 256 raster 8 {
      ...
    }
    mlc_tile.work %i in "M" step 4 raster 1 threads 128 lanes 8 {
      ...
    }
    ```
    """

    name = "mlc_tile.work"
    extents = prop_def(ArrayAttr[ExpressionsAttr])
    steps = prop_def(ArrayAttr[IntegerAttr])
    raster = prop_def(IntegerAttr)
    threads = opt_prop_def(IntegerAttr)
    lanes = opt_prop_def(IntegerAttr)
    cluster = opt_prop_def(IntegerAttr)
    paired = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    def verify_(self) -> None:
        if not 1 <= len(self.steps) == len(self.extents) == len(self.body.block.args):
            raise VerifyException(f"{self.name}: expected extent, step and position of each axis")
        if any(a.type != INDEX for a in self.body.block.args):
            raise VerifyException(f"{self.name}: positions are of index")
        for extent in self.extents:
            check_positions(self.name, extent.data, ())
            if not extent.data or letters_in(extent.data):
                raise VerifyException(f"{self.name}: an extent is made of sizes")
        if min(n.value.data for n in (*self.steps, self.raster)) < 1:
            raise VerifyException(f"{self.name}: steps and raster are 1 or more")
        if self.paired is not None and (self.raster.value.data > 1 or self.threads is not None):
            raise VerifyException(f"{self.name}: pairs are of raster 1, in roles")
        if (self.threads is None) != (self.lanes is None):
            raise VerifyException(f"{self.name}: expected both threads and lanes, or neither")
        if self.cluster is not None and (
            self.threads is None
            or self.blocks not in (2, 4, 8)
            or self.steps.data[0].value.data > 1
        ):
            raise VerifyException(
                f"{self.name}: cluster {self.blocks}; expected 2, 4 or 8 blocks whose threads have"
                " a row"
            )
        if self.threads is not None and self.lanes is not None:
            self._check_threads(self.threads.value.data, self.lanes.value.data)
        check_yield(self.name, self.body.block, ())

    @property
    def blocks(self) -> int:
        """That have an item together."""
        return 1 if self.cluster is None else self.cluster.value.data

    def _check_threads(self, threads: int, lanes: int) -> None:
        rows = math.prod(step.value.data for step in self.steps)
        whole = threads % rows == 0 and rows <= threads
        each = threads // rows
        if not whole or each & (each - 1) or lanes < 1 or (rows > 1 and each > WARP):
            raise VerifyException(
                f"{self.name}: {threads} threads, {rows} rows, {lanes} lanes; expected a"
                f" power of two of threads a row, at most {WARP} of several rows"
            )

    def print(self, printer: Printer) -> None:
        def one(entry: tuple[Attribute, ExpressionsAttr, IntegerAttr]) -> None:
            index, extent, step = entry
            printer.print_ssa_value(index)  # pyright: ignore[reportArgumentType]
            printer.print_string(" in ")
            print_bound(printer, extent, ())
            printer.print_string(f" step {step.value.data}")

        printer.print_string(" ")
        entries = list(zip(self.body.block.args, self.extents, self.steps, strict=False))
        printer.print_list(entries, one)  # pyright: ignore[reportArgumentType]
        printer.print_string(f" raster {self.raster.value.data}")
        if self.paired is not None:
            printer.print_string(" paired")
        if self.threads is not None and self.lanes is not None:
            printer.print_string(
                f" threads {self.threads.value.data} lanes {self.lanes.value.data}"
            )
        if self.cluster is not None:
            printer.print_string(f" cluster {self.blocks}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> WorkOp:
        names: list[Parser.UnresolvedArgument] = []
        extents: list[ExpressionsAttr] = []
        steps: list[IntegerAttr] = []

        def one() -> None:
            names.append(parser.parse_argument(expect_type=False))
            parser.parse_keyword("in")
            extents.append(parse_bound(parser, Positions()))
            parser.parse_keyword("step")
            steps.append(IntegerAttr(parser.parse_integer(allow_boolean=False), i64))

        parser.parse_comma_separated_list(parser.Delimiter.NONE, one)
        parser.parse_keyword("raster")
        raster = parser.parse_integer(allow_boolean=False)
        spread: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("paired"):
            spread["paired"] = UnitAttr()
        if parser.parse_optional_keyword("threads"):
            spread["threads"] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
            parser.parse_keyword("lanes")
            spread["lanes"] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
        if parser.parse_optional_keyword("cluster"):
            spread["cluster"] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parse_body(parser, [name.resolve(INDEX) for name in names])
        op = cls.create(
            properties={
                "extents": ArrayAttr(extents),
                "steps": ArrayAttr(steps),
                "raster": IntegerAttr(raster, i64),
                **spread,
            },
            regions=[body],
        )
        ensure_terminator(op, SingleBlockImplicitTerminator(YieldOp))
        if attributes is not None:
            op.attributes |= attributes.data
        return op
