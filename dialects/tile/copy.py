"""The op that moves tiles from memory to memory: packing, gathering, padding."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim
from mlc.dialects.tile.access import Number, parse_access, parse_number, print_access, print_number
from mlc.dialects.tile.expression import (
    ExpressionsAttr,
    Positions,
    check_positions,
)
from mlc.dialects.tile.letters import Letters, check_access, coordinates, letters_of
from mlc.dialects.tile.over import Over, OverAttr, parse_over, print_over
from mlc.dialects.tile.types import ViewType, rank_of, view_of

INDEX = IndexType()


@irdl_op_definition
class CopyOp(IRDLOperation):
    """
    Copies a tile from memory to memory, its axes as the letters say: axes in parentheses are one,
    the first letter moving slowest. Outside the source it reads `fill`, which is 0 if not said;
    outside the target it writes nothing. Letters have the sizes of the target's axes that are
    theirs alone, or else those after `over`. Dealt by a letter, each worker of the team copies
    contiguous shares of it. `via` names what the target copies with, where it has a choice. `part`:
    the rest of a slot is left as it is, and what is computed of it is not used. `multicast`: the
    blocks of a cluster copy the same to a slot of each, every one of them a part.

    ```mlir
    mlc_tile.copy %b[%g, %p, 0] -> %bp "k (J n) -> J k n" deal(team, J)
    mlc_tile.copy %a[%i, %p] -> %ap "(I m) k -> I k m" over (k min(256, 1000 - %p)) fill 0.0
    ```
    """

    name = "mlc_tile.copy"
    source_at = prop_def(ExpressionsAttr)
    target_at = prop_def(ExpressionsAttr)
    letters = prop_def(StringAttr)
    over = opt_prop_def(OverAttr)
    fill = opt_prop_def(IntegerAttr | FloatAttr)
    deal = opt_prop_def(StringAttr)  # a letter
    via = opt_prop_def(StringAttr)
    part = opt_prop_def(UnitAttr)
    multicast = opt_prop_def(UnitAttr)
    source = operand_def(ViewType)
    target = operand_def(ViewType)
    positions = var_operand_def(INDEX)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @staticmethod
    def of(
        source: tuple[SSAValue, ExpressionsAttr],
        target: tuple[SSAValue, ExpressionsAttr],
        letters: str,
        positions: Sequence[SSAValue],
        *,
        over: Over = (),
        fill: Number | None = None,
        deal: str | None = None,
        via: str | None = None,
        part: bool = False,
        multicast: bool = False,
    ) -> CopyOp:
        properties: dict[str, Attribute] = {
            "source_at": source[1],
            "target_at": target[1],
            "letters": StringAttr(letters),
        }
        optional = {
            "over": OverAttr(over) if over else None,
            "fill": fill,
            "deal": StringAttr(deal) if deal else None,
            "via": StringAttr(via) if via else None,
            "part": UnitAttr() if part else None,
            "multicast": UnitAttr() if multicast else None,
        }
        properties |= {k: v for k, v in optional.items() if v is not None}
        return CopyOp.create(operands=[source[0], target[0], *positions], properties=properties)

    @property
    def is_multicast(self) -> bool:
        """Whether blocks of a cluster make it together."""
        return self.multicast is not None

    @property
    def source_positions(self) -> list[SSAValue]:
        """On which depends where it reads."""
        used = {name for dim in self.source_at.data for name in dim.symbols()}
        return [x for n, x in enumerate(self.positions) if f"%{n}" in used]

    @property
    def words(self) -> Letters:
        """The letters of source and target."""
        return letters_of(self.letters.data)

    @property
    def extents(self) -> dict[str, ExpressionsAttr]:
        """The size of each letter; VerifyException where it is not known."""
        found = dict(self.over.data) if self.over is not None else {}
        word = self.words.result
        shape = view_of(self.target).shape
        for axis, dim in zip(word, shape[len(shape) - len(word) :], strict=True):
            if len(axis) == 1 and axis not in found:
                found[axis] = ExpressionsAttr((dim,))
        for c in sorted(self.words.letters):
            if c not in found:
                raise VerifyException(f"{self.name}: letter {c} has no size; say it after over")
        return found

    @property
    def factors(self) -> dict[str, int]:
        """The sizes of letters that do not move slowest in an axis: these are numbers."""
        shape = view_of(self.target).shape
        word = self.words.result
        own = dict(zip(word, shape[len(shape) - len(word) :], strict=True))
        found: dict[str, int] = {}
        for axis in (*self.words.operands[0], *word):
            for c in axis[1:]:
                size = own[c].constant if c in own else None
                if size is None:
                    (dim, *more) = self.extents[c].data
                    size = None if more else dim.constant
                if size is None:
                    raise VerifyException(
                        f"{self.name}: letter {c}, which does not begin its axis, has no number"
                        " as its size"
                    )
                found[c] = size
        return found

    def where(self) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """Of an element of the tile, the subscripts of source and target, in letters."""
        words, factors = self.words, self.factors
        return (
            coordinates(self.source_at.data, rank_of(self.source.type), words.operands[0], factors),
            coordinates(self.target_at.data, rank_of(self.target.type), words.result, factors),
        )

    def verify_(self) -> None:
        words = self.words
        if len(words.operands) != 1:
            raise VerifyException(f"{self.name}: letters of {len(words.operands)} sources")
        sides = [frozenset("".join(word)) for word in (words.operands[0], words.result)]
        if sides[0] != sides[1]:
            odd = ", ".join(sorted(sides[0] ^ sides[1]))
            raise VerifyException(
                f"{self.name}: {self.letters.data!r}: {odd} on one side alone; expected each"
                " letter on both"
            )
        for value, at, word in (
            (self.source, self.source_at, words.operands[0]),
            (self.target, self.target_at, words.result),
        ):
            check_positions(self.name, at.data, self.positions)
            check_access(self.name, at.data, rank_of(value.type), word)
        if view_of(self.source).element != view_of(self.target).element:
            raise VerifyException(
                f"{self.name}: {self.source.type} to {self.target.type}; expected equal elements"
            )
        for c, bound in self.extents.items():
            check_positions(self.name, bound.data, self.positions)
            if c not in words.letters:
                raise VerifyException(f"{self.name}: no axis has letter {c}")
        if self.part is not None and not view_of(self.target).is_slot:
            raise VerifyException(f"{self.name}: part of {self.target.type}; expected a slot")
        if self.is_multicast and not (view_of(self.target).is_slot and self.via is not None):
            raise VerifyException(
                f"{self.name}: multicast to {self.target.type}; expected a slot, and via what"
            )
        if self.deal is not None and self.deal.data not in words.letters:
            raise VerifyException(f"{self.name}: dealt by {self.deal.data}, which is no letter")
        self.where()

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_access(printer, self.source, self.source_at, self.positions)
        printer.print_string(" -> ")
        print_access(printer, self.target, self.target_at, self.positions)
        printer.print_string(f' "{self.letters.data}"')
        if self.over is not None:
            print_over(printer, self.over, self.positions)
        if self.part is not None:
            printer.print_string(" part")
        if self.fill is not None:
            printer.print_string(" fill ")
            print_number(printer, self.fill)
        if self.deal is not None:
            printer.print_string(f" deal(team, {self.deal.data})")
        if self.via is not None:
            printer.print_string(f" via {self.via.data}")
        if self.is_multicast:
            printer.print_string(" multicast")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> CopyOp:
        positions = Positions()
        source = parse_access(parser, positions)
        parser.parse_punctuation("->")
        target = parse_access(parser, positions)
        letters = parser.parse_str_literal()
        over = parse_over(parser, positions)
        part = parser.parse_optional_keyword("part") is not None
        fill = parse_number(parser) if parser.parse_optional_keyword("fill") else None
        deal = None
        if parser.parse_optional_keyword("deal"):
            with parser.in_parens():
                parser.parse_keyword("team")
                parser.parse_punctuation(",")
                deal = parser.parse_identifier()
        via = parser.parse_identifier() if parser.parse_optional_keyword("via") else None
        multicast = parser.parse_optional_keyword("multicast") is not None
        op = cls.of(
            source, target, letters, positions.values, over=over, fill=fill, deal=deal, via=via,
            part=part, multicast=multicast,
        )  # fmt: skip
        op.attributes |= parser.parse_optional_attr_dict()
        return op
