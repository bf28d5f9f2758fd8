"""Ops on tiles in registers, but for what is computed element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tile.access import parse_access, print_access
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, check_positions, parse_value
from mlc.dialects.tile.layout import LayoutAttr
from mlc.dialects.tile.letters import Letters, check_access, coordinates, letters_of
from mlc.dialects.tile.over import Over, OverAttr, parse_over, print_over
from mlc.dialects.tile.region import in_groups
from mlc.dialects.tile.types import FragType, TokenType, ViewType, frag_of, frag_type, rank_of

INDEX = IndexType()


class Product(IRDLOperation):
    """What multiplies two tiles: at once, or while other things are done."""

    GIVES: ClassVar[type[FragType | TokenType]] = FragType
    letters = prop_def(StringAttr)
    lhs_at = prop_def(ExpressionsAttr)
    rhs_at = prop_def(ExpressionsAttr)
    over = prop_def(OverAttr)
    via = opt_prop_def(StringAttr)
    prefetch = opt_prop_def(ArrayAttr[IntegerAttr])
    clamp = opt_prop_def(StringAttr)  # letters of the result
    zero = opt_prop_def(IntegerAttr)  # what stands for 0 in the lhs
    lhs = operand_def(ViewType | FragType)
    rhs = operand_def(ViewType | FragType)
    init = opt_operand_def(FragType | TokenType)
    positions = var_operand_def(INDEX)
    result = result_def(FragType | TokenType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def of(
        cls,
        letters: str,
        lhs: tuple[SSAValue, ExpressionsAttr],
        rhs: tuple[SSAValue, ExpressionsAttr],
        over: Over,
        positions: Sequence[SSAValue],
        kind: Attribute,
        *,
        init: SSAValue | None = None,
        via: str | None = None,
        prefetch: Sequence[int] = (),
        clamp: str = "",
    ) -> Self:
        properties: dict[str, Attribute] = {
            "letters": StringAttr(letters),
            "lhs_at": lhs[1],
            "rhs_at": rhs[1],
            "over": OverAttr(over),
        }
        if via is not None:
            properties["via"] = StringAttr(via)
        if any(prefetch):
            properties["prefetch"] = ArrayAttr([IntegerAttr(n, i64) for n in prefetch])
        if clamp:
            properties["clamp"] = StringAttr(clamp)
        begin = () if init is None else (init,)
        return cls.create(
            operands=[lhs[0], rhs[0], *begin, *positions],
            result_types=[kind],
            properties=properties | in_groups(1, 1, len(begin), len(positions)),
        )

    @property
    def tile(self) -> FragType:
        """What it computes."""
        kind = self.result.type
        return kind.tile if isinstance(kind, TokenType) else frag_of(self.result)

    @property
    def words(self) -> Letters:
        """The letters of both operands and of the result."""
        return letters_of(self.letters.data)

    @property
    def summed(self) -> dict[str, ExpressionsAttr]:
        """The sizes of the letters that the result does not have."""
        return dict(self.over.data)

    @property
    def factors(self) -> dict[str, int]:
        """The sizes of letters that do not move slowest in an axis: these are numbers."""
        words, found = self.words, dict[str, int]()
        sizes = dict(zip(words.result, self.tile.shape, strict=True))
        for axis in (axis for word in words.operands for axis in word):
            for c in axis[1:]:
                bound = self.summed[c].data if c in self.summed else (Dim.const(sizes[c]),)
                size = bound[0].constant
                if size is None or len(bound) > 1:
                    raise VerifyException(
                        f"{self.name}: letter {c}, which does not begin its axis, has no number"
                        " as its size"
                    )
                found[c] = size
        return found

    def where(self) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """Of both operands, the subscripts of an element, in letters."""
        (left, right), factors = self.words.operands, self.factors
        return (
            coordinates(self.lhs_at.data, rank_of(self.lhs.type), left, factors),
            coordinates(self.rhs_at.data, rank_of(self.rhs.type), right, factors),
        )

    def verify_(self) -> None:
        if not isinstance(self.result.type, self.GIVES):
            raise VerifyException(
                f"{self.name}: gives {self.result.type}; expected a !{self.GIVES.name}"
            )
        words = self.words
        if len(words.operands) != 2:
            raise VerifyException(f"{self.name}: letters of {len(words.operands)} operands")
        result = words.result
        if len(result) != len(self.tile.shape) or any(len(a) != 1 for a in result):
            raise VerifyException(
                f"{self.name}: {''.join(result)} of {self.result.type}; expected a letter an axis"
            )
        summed = words.letters - frozenset(result)
        if summed != self.summed.keys():
            raise VerifyException(
                f"{self.name}: over {', '.join(self.summed) or 'nothing'}; expected sizes of"
                f" {', '.join(sorted(summed)) or 'nothing'}, which the result does not have"
            )
        for bound in self.summed.values():
            check_positions(self.name, bound.data, self.positions)
        for c in result:
            if not any(c in axis for word in words.operands for axis in word):
                raise VerifyException(f"{self.name}: letter {c} stands in the result alone")
        for value, at, word in (
            (self.lhs, self.lhs_at, words.operands[0]),
            (self.rhs, self.rhs_at, words.operands[1]),
        ):
            check_positions(self.name, at.data, self.positions)
            check_access(self.name, at.data, rank_of(value.type), word)
        if self.clamp is not None and set(self.clamp.data) - set(result):
            raise VerifyException(
                f"{self.name}: clamp {self.clamp.data}; expected letters of the result"
            )
        if self.zero is not None and not (
            _dtype_of(self.lhs).is_integer and self.tile.dtype.is_integer
        ):
            raise VerifyException(
                f"{self.name}: zero({self.zero.value.data}) of {self.lhs.type}; expected integers"
            )
        if self.init is not None and self.init.type != self.result.type:
            raise VerifyException(
                f"{self.name}: sums begin with {self.init.type}; expected {self.result.type}"
            )
        ahead = [n.value.data for n in self.prefetch or ()]
        if self.prefetch is not None and (len(ahead) != 2 or min(ahead) < 0):
            raise VerifyException(f"{self.name}: prefetch {ahead}; expected a number per operand")
        self.where()

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.letters.data}" ')
        print_access(printer, self.lhs, self.lhs_at, self.positions)
        printer.print_string(", ")
        print_access(printer, self.rhs, self.rhs_at, self.positions)
        print_over(printer, self.over, self.positions)
        if self.init is not None:
            printer.print_string(" init ")
            printer.print_ssa_value(self.init)
        if self.via is not None:
            printer.print_string(f" via {self.via.data}")
        if self.clamp is not None:
            printer.print_string(f" clamp({', '.join(self.clamp.data)})")
        if self.zero is not None:
            printer.print_string(f" zero({self.zero.value.data})")
        if self.prefetch is not None:
            ahead = ", ".join(str(n.value.data) for n in self.prefetch)
            printer.print_string(f" prefetch({ahead})")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        positions = Positions()
        letters = parser.parse_str_literal()
        lhs = parse_access(parser, positions)
        parser.parse_punctuation(",")
        rhs = parse_access(parser, positions)
        over = parse_over(parser, positions)
        init = parse_value(parser) if parser.parse_optional_keyword("init") else None
        via = parser.parse_identifier() if parser.parse_optional_keyword("via") else None
        ahead: Sequence[int] = ()
        clamped: Sequence[str] = ()
        if parser.parse_optional_keyword("clamp"):
            clamped = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_identifier
            )
        zero: int | None = None
        if parser.parse_optional_keyword("zero"):
            with parser.in_parens():
                zero = parser.parse_integer(allow_boolean=False)
        if parser.parse_optional_keyword("prefetch"):
            ahead = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.parse_integer(allow_boolean=False)
            )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        values = positions.values
        op = cls.of(
            letters, lhs, rhs, over, values, kind,
            init=init, via=via, prefetch=ahead, clamp="".join(clamped),
        )  # fmt: skip
        if zero is not None:
            op.properties["zero"] = IntegerAttr(zero, i64)
        op.attributes |= attributes
        return op


def _dtype_of(operand: SSAValue) -> DType:
    kind = operand.type
    assert isinstance(kind, ViewType | FragType)
    return kind.dtype


@irdl_op_definition
class DotOp(Product):
    """
    One tile of a product of two tiles, summed over letters whose sizes stand after `over`, in the
    result's dtype: sums begin with `init`, or with 0. Operands are read where they lie, or are
    fragments. Elements outside a view are 0; along letters after `clamp` they are the last ones
    again. `via` names the intrinsic row that computes it, `prefetch` how many steps ahead each
    operand is prefetched. After `zero(128)` elements of the lhs are that much more than what they
    stand for: the row of unsigned by signed integers multiplies signed ones so.

    ```mlir
    %s = mlc_tile.dot "km,kn->mn" %ap[%r floordiv 12], %bp[%j floordiv 32] over (k 256) via fma
        prefetch(0, 2) : !mlc_tile.frag<12x32xf32>
    ```
    """

    name = "mlc_tile.dot"
    traits = traits_def(MemoryReadEffect())


class _Along(IRDLOperation):
    """What combines the elements of fragments along one axis, by a monoid of so many values."""

    monoid = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    inputs = var_operand_def(FragType)
    outs = var_result_def(FragType)

    @classmethod
    def of(
        cls, monoid: str, inputs: Sequence[SSAValue], axis: int, kinds: Sequence[Attribute]
    ) -> _Along:
        return cls.create(
            operands=inputs,
            result_types=kinds,
            properties={"monoid": StringAttr(monoid), "axis": IntegerAttr(axis, i64)},
        )

    def shape_of_result(self) -> tuple[int, ...]:
        """Of operands of one shape."""
        raise NotImplementedError

    def verify_(self) -> None:
        if self.monoid.data not in MONOIDS:
            raise VerifyException(
                f'{self.name}: monoid "{self.monoid.data}"; expected one of {", ".join(MONOIDS)}'
            )
        if not self.inputs or any(
            frag_of(x).shape != frag_of(self.inputs[0]).shape for x in self.inputs
        ):
            raise VerifyException(f"{self.name}: expected fragments of one shape")
        rank = len(frag_of(self.inputs[0]).shape)
        if not 0 <= self.axis.value.data < rank:
            raise VerifyException(
                f"{self.name}: axis {self.axis.value.data} of {self.inputs[0].type}"
            )
        shape = self.shape_of_result()
        if not self.outs or any(frag_of(x).shape != shape for x in self.outs):
            expected = frag_type(frag_of(self.inputs[0]).element, shape)
            raise VerifyException(
                f"{self.name}: results ({', '.join(str(x.type) for x in self.outs)}); expected"
                f" shapes as of {expected}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.monoid.data}" ')
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_string(f" along {self.axis.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([x.type for x in self.outs], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> _Along:
        monoid = parser.parse_str_literal()
        inputs = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: parse_value(parser)
        )
        parser.parse_keyword("along")
        axis = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kinds = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        op = cls.of(monoid, inputs, axis, kinds)
        op.attributes |= attributes
        return op


@irdl_op_definition
class ReduceOp(_Along):
    """
    Combines the elements along one axis by a monoid, which may have several values.

    ```mlir
    %m = mlc_tile.reduce "max" %x along 1 : !mlc_tile.frag<12xf32>
    ```
    """

    name = "mlc_tile.reduce"
    traits = traits_def(Pure())

    def shape_of_result(self) -> tuple[int, ...]:
        shape, axis = frag_of(self.inputs[0]).shape, self.axis.value.data
        return (*shape[:axis], *shape[axis + 1 :])

    def verify_(self) -> None:
        super().verify_()
        before, after = frag_of(self.inputs[0]).layout, frag_of(self.outs[0]).layout
        if isinstance(before, LayoutAttr) and isinstance(after, LayoutAttr):
            expected = LayoutAttr(before.data.sliced(self.axis.value.data))
            if after != expected:
                raise VerifyException(f"{self.name}: gives {after}; expected {expected}")


@irdl_op_definition
class ScanOp(_Along):
    """
    At each element the combination, by a monoid, of those up to it along one axis.

    ```mlir
    %c = mlc_tile.scan "sum" %x along 0 : !mlc_tile.frag<64xf32>
    ```
    """

    name = "mlc_tile.scan"
    traits = traits_def(Pure())

    def shape_of_result(self) -> tuple[int, ...]:
        return frag_of(self.inputs[0]).shape


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """
    A part of a fragment: of each axis all, a range, or one position, whose axis goes.

    ```mlir
    %g = mlc_tile.extract %f[:, 0, 4:8] : !mlc_tile.frag<6x4xf32>
    ```
    """

    name = "mlc_tile.extract"
    starts = prop_def(ArrayAttr[IntegerAttr])
    stops = prop_def(ArrayAttr[IntegerAttr])  # -1: the axis has one position and goes
    value = operand_def(FragType)
    result = result_def(FragType)
    traits = traits_def(Pure())

    @staticmethod
    def of(value: SSAValue, parts: Sequence[tuple[int, int]], kind: Attribute) -> ExtractOp:
        return ExtractOp.create(
            operands=[value],
            result_types=[kind],
            properties={
                "starts": ArrayAttr([IntegerAttr(a, i64) for a, _ in parts]),
                "stops": ArrayAttr([IntegerAttr(b, i64) for _, b in parts]),
            },
        )

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Of each axis of the operand where the part begins, and where it ends or -1."""
        pairs = zip(self.starts, self.stops, strict=True)
        return tuple((a.value.data, b.value.data) for a, b in pairs)

    def verify_(self) -> None:
        shape = frag_of(self.value).shape
        if len(self.starts) != len(shape) or len(self.stops) != len(shape):
            raise VerifyException(f"{self.name}: expected a part of each axis of {self.value.type}")
        kept: list[int] = []
        for (start, stop), size in zip(self.parts, shape, strict=True):
            if not 0 <= start < size or not (stop == -1 or start < stop <= size):
                said = str(start) if stop == -1 else f"{start}:{stop}"
                raise VerifyException(f"{self.name}: {said} of an axis of {size}")
            kept += [] if stop == -1 else [stop - start]
        expected = frag_type(frag_of(self.value).element, tuple(kept))
        found = frag_of(self.result)
        if (found.element, found.shape) != (expected.element, expected.shape):
            raise VerifyException(f"{self.name}: gives {found}; expected {expected}")

    def print(self, printer: Printer) -> None:
        def part(entry: tuple[int, tuple[int, int]]) -> None:
            size, (start, stop) = entry
            if stop == -1:
                printer.print_string(str(start))
            else:
                whole = (start, stop) == (0, size)
                printer.print_string(":" if whole else f"{start}:{stop}")

        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        with printer.in_square_brackets():
            printer.print_list(list(zip(frag_of(self.value).shape, self.parts, strict=False)), part)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ExtractOp:
        value = parse_value(parser)
        shape = frag_of(value).shape if isinstance(value.type, FragType) else ()
        parts: list[tuple[int, int]] = []

        def part() -> None:
            size = shape[len(parts)] if len(parts) < len(shape) else 0
            start = parser.parse_optional_integer(allow_boolean=False)
            if parser.parse_optional_punctuation(":"):
                stop = parser.parse_optional_integer(allow_boolean=False)
                parts.append((start or 0, size if stop is None else stop))
            elif start is None:
                parser.raise_error("found no part; expected a position, a range or :")
            else:
                parts.append((start, -1))

        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, part)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls.of(value, parts, parser.parse_type())
        op.attributes |= attributes
        return op


@irdl_op_definition
class ConvertOp(IRDLOperation):
    """
    A fragment in another dtype, as `mlc.convert` defines it.

    ```mlir
    %b = mlc_tile.convert %x : !mlc_tile.frag<8xf32> to !mlc_tile.frag<8xbf16>
    ```
    """

    name = "mlc_tile.convert"
    value = operand_def(FragType)
    result = result_def(FragType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `to` type($result)"

    def verify_(self) -> None:
        if frag_of(self.value).shape != frag_of(self.result).shape:
            raise VerifyException(
                f"{self.name}: {self.value.type} to {self.result.type}; expected equal shapes"
            )


COMPUTE = (DotOp, ReduceOp, ScanOp, ExtractOp, ConvertOp)
