"""The items that a GPU's blocks of threads take."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
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
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.expression import (
    ExpressionsAttr,
    Positions,
    check_positions,
    letters_in,
    parse_bound,
    print_bound,
)
from mlc.dialects.tile.parts import Arithmetic, Number, Parts
from mlc.dialects.tile.region import (
    YieldOp,
    check_yield,
    parse_body,
    parse_pair,
    parse_types,
    print_body,
    print_pair,
    print_types,
)

WARP = 32
PAIR = 2
"""Blocks of a cluster in roles, each of which takes a whole multiprocessor: two are neighbours, of
four some are left without. Measured: docs/measurements.md, "Products of bf16 on a GPU"."""

_MARKS = ("paired", "down", "in_turn")


@irdl_op_definition
class WorkOp(IRDLOperation):
    """
    The items of a block of threads: positions of tiles, dealt to blocks in turn, in groups of
    `raster` rows, whose columns are walked together. Every role that walks them sees the same.
    `paired`: two at a time, the first and the last along the last axis, then those between them.
    `down`: along the last axis the last positions come first.
    Outside roles `threads` of a block compute an item together: each row of a tile belongs to as
    many, which hold vectors of `lanes` elements of it in turn. A `cluster` of so many blocks has an
    item, which is one row then, together. So many `walkers`, blocks or clusters of them, take items
    in turn; or else each item has its own. In roles it has items that are adjacent along the first
    axis, one each and at the same time, also past the end; what `multicast` copies bring does not
    depend on the place along that axis.
    With `split_k` each item has an axis of steps; items that do not suffice for so many blocks come
    in at most so many parts each: see `dialects/tile/parts.py`. The region then takes where its
    part begins and ends, too.
    `in_turn`: each item is one group's of a role, the next one the next group's: see
    `mlc_tile.turn`.
    In roles, items may carry values; the region then takes the positions of the item before, too,
    which lie past the end of each axis where there was none, and the op gives those of the last.

    ```mlir
    mlc_tile.work %i in "M" step 128, %j in "N" step 256 raster 8 {
      ...
    }
    mlc_tile.work %i in "M" step 4 raster 1 threads 128 lanes 8 {
      ...
    }
    mlc_tile.work %i in 64 step 1 raster 1 threads 512 lanes 4 cluster 8 walkers 30 {
      ...
    }
    mlc_tile.work %i in "M" step 128, %j in "N" step 256 raster 8 cluster 2 {
      mlc_tile.copy %b[%j] -> %y "n k -> n k" via tma multicast
    }
    mlc_tile.work %i in "M" step 64 raster 1 in_turn {
      ...
    }
    mlc_tile.work %i in "M" step 64 raster 1 split_k(%from, %to in 512 step 64 blocks 9 parts 4) {
      ...
    }
    %last, %s = mlc_tile.work %i in "M" step 4 raster 1 after(%before) carry(%c = %x)
        -> (!mlc_tile.frag<4xf32>) {
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
    walkers = opt_prop_def(IntegerAttr)
    paired = opt_prop_def(UnitAttr)
    down = opt_prop_def(UnitAttr)
    in_turn = opt_prop_def(UnitAttr)
    after = opt_prop_def(UnitAttr)
    depth = opt_prop_def(ExpressionsAttr)
    shares = opt_prop_def(ArrayAttr[IntegerAttr])  # elements of a step, blocks, parts
    inits = var_operand_def()
    outs = var_result_def()
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(YieldOp))

    def verify_(self) -> None:
        if not 1 <= len(self.steps) == len(self.extents):
            raise VerifyException(f"{self.name}: expected extent, step and position of each axis")
        self._check_carried()
        for extent in self.extents:
            check_positions(self.name, extent.data, ())
            if not extent.data or letters_in(extent.data):
                raise VerifyException(f"{self.name}: an extent is made of sizes")
        if min(n.value.data for n in (*self.steps, self.raster)) < 1:
            raise VerifyException(f"{self.name}: steps and raster are 1 or more")
        if self.paired is not None and (self.raster.value.data > 1 or self.threads is not None):
            raise VerifyException(f"{self.name}: pairs are of raster 1, in roles")
        if self.down is not None and self.threads is not None:
            raise VerifyException(f"{self.name}: the last positions come first in roles alone")
        alone = (self.threads, self.cluster, self.paired, self.after, self.depth)
        if self.in_turn is not None and any(x is not None for x in alone):
            raise VerifyException(
                f"{self.name}: groups take items in turn; expected roles, and whole items of one"
                " block, neither in pairs nor after one another"
            )
        if (self.threads is None) != (self.lanes is None):
            raise VerifyException(f"{self.name}: expected both threads and lanes, or neither")
        if self.walkers is not None and (self.threads is None or self.walkers.value.data < 1):
            raise VerifyException(f"{self.name}: walkers are 1 or more, outside roles")
        self._check_cluster()
        self._check_parts()
        if self.threads is not None and self.lanes is not None:
            self._check_threads(self.threads.value.data, self.lanes.value.data)

    def _check_parts(self) -> None:
        if (self.depth is None) != (self.shares is None):
            raise VerifyException(f"{self.name}: expected an axis of steps, and who shares them")
        if self.depth is None or self.shares is None:
            return
        numbers = [x.value.data for x in self.shares]
        if len(numbers) != 3 or min(numbers) < 1 or numbers[1] % self.blocks:
            raise VerifyException(
                f"{self.name}: split_k {numbers}; expected elements of a step, a multiple of"
                f" {self.blocks} blocks, and parts"
            )
        check_positions(self.name, self.depth.data, ())
        if self.after is not None or self.paired is not None or self.threads is not None:
            raise VerifyException(
                f"{self.name}: parts of items; expected roles, and items neither in pairs nor"
                " after one another"
            )

    def _check_cluster(self) -> None:
        copies = [op for op in self.body.walk() if isinstance(op, CopyOp) and op.is_multicast]
        if copies and (self.cluster is None or self.threads is not None):
            raise VerifyException(f"{copies[0].name}: multicast, of items that no cluster takes")
        row = self.positions[0]
        if any(x is row for op in copies for x in op.source_positions):
            raise VerifyException(
                f"{copies[0].name}: multicast from a place that is another one in each block"
            )
        if self.cluster is None:
            return
        known = (PAIR,) if self.threads is None else (2, 4, 8)
        if self.blocks not in known:
            expected = " or ".join(map(str, known))
            raise VerifyException(f"{self.name}: cluster {self.blocks}; expected {expected} blocks")
        if self.threads is not None and self.steps.data[0].value.data > 1:
            raise VerifyException(f"{self.name}: a cluster whose threads have several rows")
        if self.threads is None and (
            self.paired is not None
            or self.after is not None
            or self.raster.value.data % self.blocks
        ):
            raise VerifyException(
                f"{self.name}: cluster {self.blocks}; expected a multiple as raster, and items"
                " neither in pairs nor after one another"
            )

    def _check_carried(self) -> None:
        axes = len(self.steps)
        positions = [INDEX] * (axes if self.after is None else 2 * axes)
        positions += [INDEX] * (0 if self.depth is None else 2)
        kinds = [x.type for x in self.inits]
        if [a.type for a in self.body.block.args] != [*positions, *kinds]:
            raise VerifyException(
                f"{self.name}: the region takes a position of index for each axis, after an item"
                " those of the item before, and what is carried"
            )
        positions = [] if self.after is None else positions
        if [x.type for x in self.outs] != [*positions[axes:], *kinds]:
            raise VerifyException(
                f"{self.name}: expected results: positions of the last item, and what is carried"
            )
        if kinds and (self.after is None or self.threads is not None):
            raise VerifyException(f"{self.name}: items carry values in roles, after one another")
        check_yield(self.name, self.body.block, kinds)

    @property
    def positions(self) -> tuple[BlockArgument, ...]:
        """Of an item."""
        return tuple(self.body.block.args[: len(self.steps)])

    @property
    def before(self) -> tuple[BlockArgument, ...]:
        """Of the item before."""
        axes = len(self.steps)
        return tuple(self.body.block.args[axes : 2 * axes]) if self.after is not None else ()

    @property
    def part(self) -> tuple[BlockArgument, BlockArgument] | None:
        """Where a part of an item begins and ends, along the axis of steps."""
        if self.depth is None:
            return None
        first, end = self.body.block.args[len(self.steps) : len(self.steps) + 2]
        return first, end

    @property
    def step_size(self) -> int:
        """Elements of a step of an item that comes in parts."""
        assert self.shares is not None
        return self.shares.data[0].value.data

    @property
    def sharing(self) -> int:
        """Blocks that share items."""
        assert self.shares is not None
        return self.shares.data[1].value.data

    def parts(self, a: Arithmetic, items: Number, depth: Number, blocks: int) -> Parts:
        """How so many blocks, or clusters of them, share items of a depth."""
        assert self.shares is not None
        step, most = self.step_size, self.shares.data[2].value.data
        steps = a.div(a.add(depth, step - 1), step)
        return Parts(a, items, steps, blocks, most)

    @property
    def carried(self) -> tuple[BlockArgument, ...]:
        """The region's last arguments."""
        return tuple(self.body.block.args[len(self.body.block.args) - len(self.inits) :])

    @property
    def last(self) -> tuple[SSAValue, ...]:
        """The positions of the last item, if there was one."""
        return tuple(self.outs[: len(self.before)])

    @property
    def left(self) -> tuple[SSAValue, ...]:
        """What the last item yields."""
        return tuple(self.outs[len(self.before) :])

    @property
    def blocks(self) -> int:
        """That have an item together."""
        return 1 if self.cluster is None else self.cluster.value.data

    def _check_threads(self, threads: int, lanes: int) -> None:
        rows = math.prod(step.value.data for step in self.steps)
        if lanes < 1 or not are_whole(threads, rows):
            raise VerifyException(
                f"{self.name}: {threads} threads, {rows} rows, {lanes} lanes; expected {WHOLE}"
            )

    def print(self, printer: Printer) -> None:
        def one(entry: tuple[Attribute, ExpressionsAttr, IntegerAttr]) -> None:
            index, extent, step = entry
            printer.print_ssa_value(index)  # pyright: ignore[reportArgumentType]
            printer.print_string(" in ")
            print_bound(printer, extent, ())
            printer.print_string(f" step {step.value.data}")

        printer.print_string(" ")
        entries = list(zip(self.positions, self.extents, self.steps, strict=False))
        printer.print_list(entries, one)  # pyright: ignore[reportArgumentType]
        printer.print_string(f" raster {self.raster.value.data}")
        for word in _MARKS:
            if getattr(self, word) is not None:
                printer.print_string(f" {word}")
        if self.threads is not None and self.lanes is not None:
            printer.print_string(
                f" threads {self.threads.value.data} lanes {self.lanes.value.data}"
            )
        if self.cluster is not None:
            printer.print_string(f" cluster {self.blocks}")
        if self.walkers is not None:
            printer.print_string(f" walkers {self.walkers.value.data}")
        if (part := self.part) is not None and self.depth is not None:
            step, blocks, most = (x.value.data for x in self.shares or ())
            printer.print_string(" split_k(")
            printer.print_list(part, printer.print_ssa_value)
            printer.print_string(" in ")
            print_bound(printer, self.depth, ())
            printer.print_string(f" step {step} blocks {blocks} parts {most})")
        if self.after is not None:
            self._print_carried(printer)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_body(printer, self.body)

    def _print_carried(self, printer: Printer) -> None:
        printer.print_string(" after(")
        printer.print_list(self.before, printer.print_ssa_value)
        printer.print_string(")")
        if self.inits:
            printer.print_string(" carry(")
            pairs = list(zip(self.carried, self.inits, strict=False))
            printer.print_list(pairs, print_pair(printer))
            printer.print_string(")")
        print_types(printer, [x.type for x in self.inits])

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
        spread |= {word: UnitAttr() for word in _MARKS if parser.parse_optional_keyword(word)}
        if parser.parse_optional_keyword("threads"):
            spread["threads"] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
            parser.parse_keyword("lanes")
            spread["lanes"] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
        for word in ("cluster", "walkers"):
            if parser.parse_optional_keyword(word):
                spread[word] = IntegerAttr(parser.parse_integer(allow_boolean=False), i64)
        if parser.parse_optional_keyword("split_k"):
            names += _parse_parts(parser, spread)
        pairs: list[tuple[Parser.UnresolvedArgument, SSAValue]] = []
        if parser.parse_optional_keyword("after"):
            spread["after"] = UnitAttr()
            names += parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
            )
            if parser.parse_optional_keyword("carry"):
                pairs = parser.parse_comma_separated_list(
                    parser.Delimiter.PAREN, lambda: parse_pair(parser)
                )
            parse_types(parser)  # for whoever reads; they are the types of what is carried
        attributes = parser.parse_optional_attr_dict_with_keyword()
        arguments = [name.resolve(INDEX) for name in names]
        arguments += [a.resolve(x.type) for a, x in pairs]
        body = parse_body(parser, arguments)
        axes = len(steps) if "after" in spread else 0
        op = cls.create(
            operands=[x for _, x in pairs],
            result_types=[*[INDEX] * axes, *(x.type for _, x in pairs)],
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


def work_around(op: Operation) -> WorkOp | None:
    """The walk over items in which an op stands."""
    above = op.parent_op()
    while above is not None and not isinstance(above, WorkOp):
        above = above.parent_op()
    return above


def _parse_parts(
    parser: Parser, spread: dict[str, Attribute]
) -> tuple[Parser.UnresolvedArgument, Parser.UnresolvedArgument]:
    """``(%from, %to in 512 step 64 blocks 9 parts 4)``: both ends; the rest goes to `spread`."""
    with parser.in_parens():
        first = parser.parse_argument(expect_type=False)
        parser.parse_punctuation(",")
        end = parser.parse_argument(expect_type=False)
        parser.parse_keyword("in")
        spread["depth"] = parse_bound(parser, Positions())
        numbers: list[IntegerAttr] = []
        for word in ("step", "blocks", "parts"):
            parser.parse_keyword(word)
            numbers.append(IntegerAttr(parser.parse_integer(allow_boolean=False), i64))
        spread["shares"] = ArrayAttr(numbers)
    return first, end


WHOLE = f"a power of two of threads a row, at most {WARP} of several rows"


def are_whole(threads: int, rows: int) -> bool:
    """Whether the threads of a block have its rows together, each the same share of one."""
    each, left = divmod(threads, rows)
    return each > 0 and not left and not each & (each - 1) and (rows == 1 or each <= WARP)
