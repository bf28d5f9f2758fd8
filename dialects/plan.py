"""The plan level: tensor ops in kernels, each with a template, a schedule and a predicted cost.

A kernel is one parallel region or launch (D16). Only shapes of loop nests are said here, never a
machine's instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar, get_args

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Data, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, Pure, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.cached_property import cached_property
from mlc.dialects.analysis.nests import NotANestError, places_of
from mlc.dialects.cost import CostAttr
from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.op import bytes_of
from mlc.dialects.tile.nest_words import (
    NEST_WORDS,
    Flat,
    Nontemporal,
    Rows,
    Share,
    Stage,
    Threads,
    Turn,
    Unroll,
    Vector,
)
from mlc.dialects.tile.word import Word
from mlc.dialects.tile.words import (
    Grain,
    Pack,
    Register,
    Words,
    cases_of,
    parse_list,
    shared_by,
    spell,
)
from mlc.dialects.waves import WavesAttr
from mlc.lazy_dataclass import dataclass

Template = Literal[
    "cell",
    "row",
    "rows",
    "magg",
    "outer",
    "contraction",
    "scan",
    "gather",
    "window",
    "sort",
    "copy",
    "library",
    "stream",
    "nest",
]
"""The shapes of loop nest a kernel may have (D17)."""

Place = Literal["arena", "out", "input", "tile", "private"]
PLACES: tuple[Place, ...] = ("arena", "out", "input", "tile", "private")


_W = TypeVar("_W", bound=Word)


@dataclass(frozen=True)
class Schedule:
    """
    How a kernel's loops are cut: a list of words. `cuts` make a tile program; what the others say
    is read by whoever lowers the nest.
    """

    words: Words = ()

    def _word(self, kind: type[_W]) -> _W | None:
        return next((word for word in self.words if isinstance(word, kind)), None)

    def having(self, *words: Word) -> Schedule:
        """The schedule with these words, each in the place of the one of its kind."""
        new = {type(word): word for word in words}
        kept = [new.pop(type(word), word) for word in self.words]
        return Schedule((*kept, *new.values()))

    @cached_property
    def cuts(self) -> Words:
        """The words that make a tile program, with the grain of its work; none of a nest's."""
        found = tuple(word for word in self.words if not isinstance(word, NEST_WORDS))
        return () if all(isinstance(word, Grain) for word in found) else found

    def without_cuts(self) -> Schedule:
        """What is said of the loop nest alone."""
        return Schedule(tuple(x for x in self.words if isinstance(x, (*NEST_WORDS, Grain))))

    @cached_property
    def lanes(self) -> int:
        """Elements per vector, along the axis `vector_axis`."""
        found = self._word(Vector)
        return 1 if found is None else found.lanes

    @cached_property
    def vector_axis(self) -> int:
        """An axis of the iteration space; -1: none."""
        found = self._word(Vector)
        return -1 if found is None else found.axis

    @cached_property
    def unroll(self) -> int:
        """Vectors per trip of the innermost loop."""
        found = self._word(Unroll)
        return 1 if found is None else found.vectors

    @cached_property
    def grain(self) -> int:
        """Least points of the iteration space per worker; 0 where nothing is said."""
        found = self._word(Grain)
        return 0 if found is None else found.elements

    @cached_property
    def turn(self) -> Turn | None:
        """The tiles in which reads are turned."""
        return self._word(Turn)

    @cached_property
    def nontemporal(self) -> int | None:
        """Bytes read and written above which results are stored past the caches; None: never."""
        found = self._word(Nontemporal)
        return None if found is None else found.above

    @cached_property
    def flat(self) -> int:
        """Vectors of whole rows; 0: none."""
        found = self._word(Flat)
        return 0 if found is None else found.vectors

    @cached_property
    def rows(self) -> int:
        """Rows that are walked at once; 0: one after the other."""
        found = self._word(Rows)
        return 0 if found is None else found.number

    @cached_property
    def share(self) -> int:
        """GPU: rows down which the threads of a block add up; 0: all."""
        found = self._word(Share)
        return 0 if found is None else found.rows

    @cached_property
    def threads(self) -> int:
        """GPU: threads of a block, or that share one reduced row; 0 on a CPU."""
        found = self._word(Threads)
        return 0 if found is None else found.number

    @cached_property
    def stage(self) -> Stage | None:
        """GPU: the tiles of a product that threads multiply."""
        return self._word(Stage)

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a product's register tile; zeros where there is none."""
        if (found := self._word(Register)) is not None:
            return found.m, found.n
        return (0, 0) if self.stage is None else (self.stage.rows, self.stage.columns)

    @property
    def packed(self) -> frozenset[str]:
        """The factors of a product that are copied into panels."""
        words, _ = cases_of(self.words)
        return frozenset(word.operand for word in words if isinstance(word, Pack))

    @property
    def shared(self) -> int:
        """The points of the iteration space for each worker; 0 where workers share nothing."""
        return (shared_by(self.cuts) or 0) if self.cuts else self.grain


@irdl_attr_definition
class ScheduleAttr(Data[Schedule]):
    """
    A schedule: a list of words.

    ```mlir
    #mlc.schedule<[vector(16, axis 1), unroll(4)]>
    #mlc.schedule<[block(k, 256), pack(b, panels 32, team), register(m 12, n 32), via(fma)]>
    ```
    """

    name = "mlc.schedule"

    def verify(self) -> None:
        for word in self.data.words:
            word.check()

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Schedule:
        with parser.in_angle_brackets():
            if (name := parser.parse_optional_identifier()) is not None:
                parser.raise_error(
                    f"schedule: found {name!r}; expected a list of words, such as"
                    " [vector(16, axis 1), unroll(4)]"
                )
            return Schedule(parse_list(parser, may_be_empty=True))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(spell(self.data.words) if self.data.words else "")


@irdl_attr_definition
class BufferAttr(Data[tuple[Place, tuple[int, ...]]]):
    """
    Where a value lies: in a slot of the arena, in a result of the function, in the memory of one
    of the kernel's inputs, which it writes over, at its place in a result of the tile loop around
    it, or in a slot of which each thread of that loop has its own. Of several slots, in the first
    in which no live value lies when the kernel runs.

    ```mlir
    #mlc.buffer<arena 2>
    #mlc.buffer<arena 2, 3>
    #mlc.buffer<out 0>
    #mlc.buffer<input 0>
    #mlc.buffer<tile 0>
    #mlc.buffer<private 1>
    ```
    """

    name = "mlc.buffer"

    def verify(self) -> None:
        place, numbers = self.data
        one = place not in ("arena", "private")
        if min(numbers, default=-1) < 0 or (one and len(numbers) != 1):
            raise VerifyException(f"buffer {self}; expected {place} and a number from 0 on")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Place, tuple[int, ...]]:
        with parser.in_angle_brackets():
            spelled = parser.parse_identifier()
            found: list[Place] = [known for known in PLACES if known == spelled]
            if not found:
                parser.raise_error(f"buffer place {spelled!r}; expected {' or '.join(PLACES)}")
            numbers = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: parser.parse_integer(allow_boolean=False)
            )
            return found[0], tuple(numbers)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self))

    def __str__(self) -> str:
        place, numbers = self.data
        return f"{place} {', '.join(map(str, numbers))}"


PRINTED = ("schedule", "cost", "over", "unwritten", "buffers")
"""Properties of a kernel in the order of its text."""


@irdl_op_definition
class KernelOp(IRDLOperation):
    """
    Tensor ops that run as one loop nest.

    Operands are the buffers it reads, results the buffers it writes. `over` says of each result
    which input may lie in the same memory, -1 for none: the kernel reads that input only at the
    element that it is about to write. `unwritten`: what it says is in its results is written again
    before it is read, so nothing is written.

    ```mlir
    %y = mlc.kernel "cell" (%a = %x, %b = %w) -> (tensor<4xf32>) {
      %0 = mlc.add %a, %b : tensor<4xf32>
      mlc.yield %0 : tensor<4xf32>
    } {schedule = #mlc.schedule<[vector(16)]>, cost = #mlc.cost<flops 4, read 32, written 16>}
    ```
    """

    name = "mlc.kernel"
    template = prop_def(StringAttr)
    schedule = opt_prop_def(ScheduleAttr)
    cost = opt_prop_def(CostAttr)
    buffers = opt_prop_def(ArrayAttr[BufferAttr])
    over = opt_prop_def(ArrayAttr[IntegerAttr[IntegerType]])
    unwritten = opt_prop_def(UnitAttr)
    inputs = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), Pure(), SingleBlockImplicitTerminator(YieldOp))

    def __init__(
        self,
        template: Template,
        inputs: Sequence[SSAValue],
        results: Sequence[Attribute],
        body: Region,
        properties: dict[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[inputs],
            result_types=[results],
            regions=[body],
            properties={"template": StringAttr(template), **(properties or {})},
        )

    @property
    def block(self) -> Block:
        """The body's block; its arguments stand for the inputs."""
        return self.body.block

    @property
    def yielded(self) -> YieldOp:
        """The terminator."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    @property
    def is_nest(self) -> bool:
        """Whether its body is a loop over numbers and single elements."""
        return self.template.data == "nest"

    @property
    def moved(self) -> Dim:
        """Bytes of what it reads and writes."""
        return sum((bytes_of(x.type) for x in (*self.inputs, *self.outs)), Dim.const(0))

    @property
    def overwritten(self) -> int | None:
        """The input in whose memory the kernel's only result lies."""
        if self.buffers is None or len(self.buffers) != 1:
            return None
        place, numbers = self.buffers.data[0].data
        return numbers[0] if place == "input" else None

    @property
    def shared_inputs(self) -> tuple[int, ...]:
        """For each result the input that may lie in its memory, or -1."""
        if self.over is None:
            return (-1,) * len(self.outs)
        return tuple(number.value.data for number in self.over)

    def verify_(self) -> None:
        if self.template.data not in get_args(Template):
            expected = ", ".join(get_args(Template))
            raise VerifyException(
                f"mlc.kernel: template {self.template.data!r}; expected one of {expected}"
            )
        if [a.type for a in self.block.args] != [x.type for x in self.inputs]:
            raise VerifyException("mlc.kernel: region arguments and inputs have different types")
        if not isinstance(self.block.last_op, YieldOp):
            raise VerifyException("mlc.kernel: the region must end with mlc.yield")
        if [x.type for x in self.yielded.values] != [x.type for x in self.outs]:
            raise VerifyException("mlc.kernel: yielded values and results have different types")
        for buffer in self.buffers or ():
            place, numbers = buffer.data
            if place == "input" and numbers[0] >= len(self.inputs):
                raise VerifyException(f"mlc.kernel: {buffer} of {len(self.inputs)} inputs")
        if self.buffers is not None and len(self.buffers) != len(self.outs):
            raise VerifyException(
                f"mlc.kernel: {len(self.buffers)} buffers for {len(self.outs)} results"
            )
        if self.is_nest:
            try:
                places_of(self.block)
            except NotANestError as error:
                raise VerifyException(f"mlc.kernel: a nest: {error}") from None
        shared = self.shared_inputs
        if len(shared) != len(self.outs) or not all(-1 <= k < len(self.inputs) for k in shared):
            raise VerifyException(
                f"mlc.kernel: over = {list(shared)}; expected one number for each of the"
                f" {len(self.outs)} results, of an input or -1"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.template.data}" (')

        def pair(entry: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(entry[0])
            printer.print_string(" = ")
            printer.print_ssa_value(entry[1])

        # an op that does not verify is printed too, in the error's report
        printer.print_list(list(zip(self.block.args, self.inputs, strict=False)), pair)
        printer.print_string(") : (")
        printer.print_list(self.inputs, lambda x: printer.print_attribute(x.type))
        printer.print_string(") -> (")
        printer.print_list(self.outs, lambda x: printer.print_attribute(x.type))
        printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        known = {k: self.properties[k] for k in PRINTED if k in self.properties}
        rest = known | self.attributes
        if rest:
            printer.print_string(" ")
            printer.print_attr_dict(rest)

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        template = parser.parse_str_literal()

        def pair() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            return argument, parser.parse_unresolved_operand()

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
        parser.parse_punctuation(":")
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        operands = parser.resolve_operands([x for _, x in pairs], inputs, parser.pos)
        body = parser.parse_region([a.resolve(t) for (a, _), t in zip(pairs, inputs, strict=True)])
        rest = parser.parse_optional_attr_dict()
        known = {k: rest.pop(k) for k in PRINTED if k in rest}
        op = cls.create(
            operands=operands,
            result_types=results,
            regions=[body],
            properties={"template": StringAttr(template), **known},
        )
        op.attributes |= rest
        return op


def slot_sizes(sizes: Sequence[Sequence[Dim]]) -> DictionaryAttr:
    """The arena as a function attribute: per slot, the dims (bytes) whose largest it holds."""
    return DictionaryAttr({str(slot): DimsAttr(tuple(dims)) for slot, dims in enumerate(sizes)})


def integer(value: int) -> IntegerAttr:
    """An i64 attribute."""
    return IntegerAttr(value, i64)


PLAN_OPS = (KernelOp,)
PLAN_ATTRIBUTES = (ScheduleAttr, CostAttr, BufferAttr, WavesAttr)
