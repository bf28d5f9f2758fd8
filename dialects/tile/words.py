"""
The words of a schedule: each says one cut of a kernel's loops; the pass that makes it consumes it.

A list of words is read in order, from the outermost loop inwards:
``block(n, 3072), block(k, 256), pack(b, panels 32, team), block(m, 192, team), pack(a, panels 12),
register(m 12, n 32), via(fma), prefetch(b, 2)``. Of a product C = A·B the axes are ``g`` (batches),
``m``, ``n`` and ``k`` (summed), the factors ``a`` and ``b``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from math import prod
from typing import Any, ClassVar, TypeVar, cast

from xdsl.context import Context
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError, VerifyException

_LARGEST = 2**31 - 1
PACKED = ("f32", "bf16", "f16", "i8", "u8", "i16", "i32")
"""What elements may become where they are packed."""


def _number(*, least: int = 1, most: int = _LARGEST, default: int | None = None) -> Any:
    """A number without its name: ``block(n, 3072)``."""
    return _field({"least": least, "most": most}, default)


def _named(*, most: int = 4096, default: int | None = None) -> Any:
    """A number behind its name: ``panels 32``. With a default it is left out where it has it."""
    return _field({"least": 1, "most": most, "named": True}, default)


def _one_of(*choices: str) -> Any:
    """One of a few words: ``edge(m, clamp)``."""
    return field(metadata={"choices": choices})


def _dtype() -> Any:
    """The name of a dtype, left out where it is that of what is copied."""
    return field(default="", metadata={"choices": ("", *PACKED)})


def _field(metadata: dict[str, Any], default: int | None) -> Any:
    if default is None:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Word:
    """
    One word. Its fields, in order, are its arguments: an identifier for ``str``, a number for
    ``int``, for ``bool`` the field's name where it holds.
    """

    NAME: ClassVar[str]

    def __str__(self) -> str:
        shown = (_spelled(f, getattr(self, f.name)) for f in fields(self))
        return f"{self.NAME}({', '.join(filter(None, shown))})"

    def check(self) -> None:
        """VerifyException where a value is outside its range."""
        for f in fields(self):
            value = getattr(self, f.name)
            least, most = f.metadata.get("least"), f.metadata.get("most")
            choices = f.metadata.get("choices")
            if least is not None and not least <= value <= most:
                raise VerifyException(
                    f"schedule: {self}: {f.name} = {value};"
                    f" expected a number from {least} to {most}"
                )
            if choices is not None and value not in choices:
                raise VerifyException(
                    f"schedule: {self}: {f.name} = {value}; expected "
                    + " or ".join(filter(None, choices))
                )


@dataclass(frozen=True, slots=True)
class Block(Word):
    """
    A loop over `axis` in steps; with `team` workers share its trips, in contiguous parts, or
    `dynamic`: each takes the next trip that nobody has.
    """

    NAME = "block"
    axis: str
    step: int = _number()
    team: bool = False
    dynamic: bool = False

    def check(self) -> None:
        Word.check(self)
        if self.dynamic and not self.team:
            raise VerifyException(f"schedule: {self}: trips that nobody shares; expected team too")


@dataclass(frozen=True, slots=True)
class Strip(Word):
    """
    Of a convolution: workers share batches and blocks of `rows` rows of positions, in contiguous
    parts, or `dynamic`: each takes the next one that nobody has. What a block
    reads of its factor (`a` with channels last, `b` with channels first) is copied, row behind row,
    so that its positions are one axis, of a multiple of `unit`, and windows are steps along it.
    """

    NAME = "strip"
    operand: str = _one_of("a", "b")
    rows: int = _named()
    unit: int = _named(default=1)
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Split(Word):
    """
    `axis`, which is summed, in so many parts, each with sums of its own that are added as a fixed
    tree; workers share the parts.
    """

    NAME = "split"
    axis: str
    parts: int = _number(least=2, most=1024)


@dataclass(frozen=True, slots=True)
class Pack(Word):
    """
    A copy of the factor's block into panels of so many rows (of `a`) or columns (of `b`), summed
    index by summed index, `group` of them side by side, or with `rows` all of a row (of `b`: of a
    column), with zeros up to a multiple of `depth`; one for the team, or one for each worker.
    Elements become `dtype`, which holds their values; of `a` as u8 those of i8 with 128 added.
    """

    NAME = "pack"
    operand: str = _one_of("a", "b")
    panels: int = _named()
    group: int = _named(most=16, default=1)
    depth: int = _named(default=1)
    dtype: str = _dtype()
    rows: bool = False
    team: bool = False


@dataclass(frozen=True, slots=True)
class Prepack(Word):
    """As `pack`, of the whole factor, as a value of the plan: before a loop that keeps it."""

    NAME = "prepack"
    operand: str = _one_of("a", "b")


@dataclass(frozen=True, slots=True)
class Register(Word):
    """The tile of sums that stays in registers: rows and columns of the result."""

    NAME = "register"
    m: int = _named(most=1024)
    n: int = _named()


@dataclass(frozen=True, slots=True)
class Via(Word):
    """The row of dialects/target/intrinsics.py whose instruction multiplies."""

    NAME = "via"
    row: str


@dataclass(frozen=True, slots=True)
class Prefetch(Word):
    """A factor's cache lines are asked for so many steps of the summed axis ahead."""

    NAME = "prefetch"
    operand: str = _one_of("a", "b")
    steps: int = _number(most=64)


@dataclass(frozen=True, slots=True)
class Edge(Word):
    """
    What stands for the elements past the end of `axis`: the last ones again, nothing under a mask,
    zeros in the panel, or a smaller register tile for the rest.
    """

    NAME = "edge"
    axis: str
    how: str = _one_of("clamp", "mask", "pack", "narrow")


@dataclass(frozen=True, slots=True)
class Sums(Word):
    """
    Where sums wait between blocks of `k`: in the result, or in scratch of their own dtype. `init`:
    a block's sums begin with them, instead of being added to them.
    """

    NAME = "sums"
    place: str = _one_of("out", "scratch")
    init: bool = False


@dataclass(frozen=True, slots=True)
class Epilogue(Word):
    """What follows the product: on the registers, or as a loop over the tile's rows in scratch."""

    NAME = "epilogue"
    how: str = _one_of("registers", "loop")


@dataclass(frozen=True, slots=True)
class Case(Word):
    """
    The words behind it, up to the next one, are the whole schedule where `axes` have fewer places
    in all than `below`; those before the first are for the rest.
    """

    NAME = "case"
    axes: str = _one_of("m", "n", "k", "mnk")
    below: int = _named(most=_LARGEST)


@dataclass(frozen=True, slots=True)
class Inline(Word):
    """The phase of this number stands inside the tile loop; what it hands on stays in registers."""

    NAME = "inline"
    phase: int = _number(least=0, most=4096)


@dataclass(frozen=True, slots=True)
class Vector(Word):
    """Vectors of so many lanes along an axis of the kernel's iteration space."""

    NAME = "vector"
    axis: int = _number(least=0, most=63)
    lanes: int = _number(most=128)


@dataclass(frozen=True, slots=True)
class Unroll(Word):
    """So many vectors in one trip of the innermost loop."""

    NAME = "unroll"
    vectors: int = _number(most=64)


@dataclass(frozen=True, slots=True)
class Grain(Word):
    """The least elements of the iteration space that a worker takes."""

    NAME = "grain"
    elements: int = _number(least=0)


@dataclass(frozen=True, slots=True)
class Tile(Word):
    """On a GPU: what a block of threads computes of the result, and summed elements of a step."""

    NAME = "tile"
    m: int = _named()
    n: int = _named()
    k: int = _named()


@dataclass(frozen=True, slots=True)
class Stages(Word):
    """Steps of factors that a block's ring holds."""

    NAME = "stages"
    depth: int = _number(least=2, most=64)


@dataclass(frozen=True, slots=True)
class Roles(Word):
    """Warps that copy, groups of warps that multiply, and registers of a thread of each."""

    NAME = "roles"
    producer: int = _named(most=4)
    consumer: int = _named(most=4)
    fill: int = _named(most=256, default=40)
    sums: int = _named(most=256, default=232)


@dataclass(frozen=True, slots=True)
class Raster(Word):
    """
    Rows of tiles that blocks take together before they go on to others. `paired`: a block takes two
    tiles in a row, the first and the last of the last axis, then the next ones: where tiles become
    smaller along it, each pair is as much as any other.
    """

    NAME = "raster"
    rows: int = _number(most=65536)
    paired: bool = False


@dataclass(frozen=True, slots=True)
class Hold(Word):
    """
    On a GPU: so many whole rows a block of threads, each of which holds vectors of so many lanes of
    its row between what is done to the row. A `cluster` of blocks has a row together.
    """

    NAME = "hold"
    rows: int = _named()
    threads: int = _named(most=1024)
    lanes: int = _named(most=16)
    cluster: int = _named(most=8, default=1)


Words = tuple[Word, ...]
_W = TypeVar("_W", bound=Word)


def cases_of(words: Words) -> tuple[Words, tuple[tuple[Case, Words], ...]]:
    """The schedule for all but the cases, and each case with its own, in order."""
    starts = [k for k, word in enumerate(words) if isinstance(word, Case)]
    ends = [*starts, len(words)][1:]
    found: list[tuple[Case, Words]] = []
    for start, end in zip(starts, ends, strict=True):
        case = words[start]
        assert isinstance(case, Case)
        found.append((case, words[start + 1 : end]))
    return words[: starts[0] if starts else len(words)], tuple(found)


def words_at(words: Words, sizes: Mapping[str, int]) -> Words:
    """The schedule for a product of these sizes."""
    rest, cases = cases_of(words)
    holding = (own for case, own in cases if prod(sizes[x] for x in case.axes) < case.below)
    return next(holding, rest)


def only_word(words: Words, kind: type[_W]) -> _W:
    """The only word of a kind. ValueError where there is none, or another."""
    found = [word for word in words if isinstance(word, kind)]
    if len(found) != 1:
        raise ValueError(f"schedule: {len(found)} words {kind.NAME}; expected one")
    return found[0]


def is_shared(words: Words) -> bool:
    """Whether workers share what the kernel does."""
    return any(
        isinstance(x, Split | Strip) or (isinstance(x, Block | Pack) and x.team) for x in words
    )


def grain_of(words: Words) -> int | None:
    """The points of the iteration space for each worker, where that is said."""
    return next((max(word.elements, 1) for word in words if isinstance(word, Grain)), None)


def shared_by(words: Words) -> int | None:
    """As `grain_of`; None where workers share nothing."""
    teams = (x for x in words if isinstance(x, Split | Strip) or (isinstance(x, Block) and x.team))
    return None if next(teams, None) is None else grain_of(words)


WORDS: dict[str, type[Word]] = {
    word.NAME: word
    for word in (
        Block, Strip, Split, Pack, Prepack, Register, Via, Prefetch, Edge, Sums, Epilogue, Case,
        Inline, Vector, Unroll, Grain, Tile, Stages, Roles, Raster, Hold,
    )
}  # fmt: skip
"""Every word by its name."""


def _spelled(f: Field[Any], value: object) -> str:
    """One argument; empty where it is left out."""
    if f.type == "bool":
        return f.name if value else ""
    if f.default is not MISSING and value == f.default:
        return ""
    return f"{f.name} {value}" if f.metadata.get("named") else str(value)


def spell(words: Sequence[Word]) -> str:
    """The text of a list: ``[block(n, 3072), via(fma)]``."""
    return f"[{', '.join(map(str, words))}]"


def words_of(text: str) -> Words:
    """The words of a text, with or without brackets; ValueError where it is no list of words."""
    spelled = text if text.lstrip().startswith("[") else f"[{text}]"
    try:
        return parse_list(Parser(Context(), spelled))
    except ParseError as error:
        raise ValueError(f"schedule={text!r}: {error.msg}") from None


def parse_list(parser: AttrParser) -> Words:
    """What `spell` writes."""
    found = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse(parser))
    return tuple(found)


def _parse(parser: AttrParser) -> Word:
    name = parser.parse_identifier()
    kind = WORDS.get(name)
    if kind is None:
        parser.raise_error(
            f"schedule has no word {name!r}; expected one of {', '.join(sorted(WORDS))}"
        )
    found: dict[str, object] = {}
    left = [*fields(kind)]

    def argument() -> None:
        number = parser.parse_optional_integer(allow_boolean=False)
        word = parser.parse_identifier() if number is None else ""
        by_name = next((f for f in left if f.name == word and (_is_named(f) or _is_flag(f))), None)
        f = by_name or next((f for f in left if not _is_named(f) and not _is_flag(f)), None)
        if f is None or (f.type == "int") != (number is not None or _is_named(f)):
            shape = ", ".join(_form(f) for f in fields(kind))
            parser.raise_error(f"schedule: {name}(… {word or number} …); expected {name}({shape})")
        left.remove(f)
        if _is_named(f):
            number = parser.parse_integer(allow_boolean=False)
        found[f.name] = True if _is_flag(f) else word if number is None else number

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
    missing = [f for f in left if f.default is MISSING]
    if missing:
        shape = ", ".join(_form(f) for f in fields(kind))
        parser.raise_error(f"schedule: {name} lacks {missing[0].name}; expected {name}({shape})")
    word = cast("type[Any]", kind)(**found)
    try:
        word.check()
    except VerifyException as error:
        parser.raise_error(str(error))
    return word


def _is_named(f: Field[Any]) -> bool:
    return bool(f.metadata.get("named"))


def _is_flag(f: Field[Any]) -> bool:
    return f.type == "bool"


def _form(f: Field[Any]) -> str:
    """How an argument looks, for an error."""
    if _is_flag(f):
        return f"[{f.name}]"
    if choices := f.metadata.get("choices"):
        shown = "|".join(filter(None, choices))
        return shown if f.default is MISSING else f"[{shown}]"
    shown = f"{f.name} N" if _is_named(f) else f.name.upper() if f.type == "int" else f.name
    return shown if f.default is MISSING else f"[{shown}]"
