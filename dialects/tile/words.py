"""
The words of a schedule: each says one cut of a kernel's loops; the pass that makes it consumes it.

Those of products are here, those of other loop nests in `nest_words.py`.

A list of words is read in order, from the outermost loop inwards:
``block(n, 3072), block(k, 256), pack(b, panels 32, team), block(m, 192, team), pack(a, panels 12),
register(m 12, n 32), via(fma), prefetch(b, 2)``. Of a product C = A·B the axes are ``g`` (batches),
``m``, ``n`` and ``k`` (summed), the factors ``a`` and ``b``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from math import prod
from typing import Any, TypeVar, cast

from xdsl.context import Context
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from mlc.dialects.tile.nest_words import (
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
from mlc.dialects.tile.word import (
    LARGEST,
    Word,
    bare,
    dtype_name,
    form_of,
    is_flag,
    is_named,
    named,
    one_of,
)
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Block(Word):
    """
    A loop over `axis` in steps; with `team` workers share its trips, in contiguous parts, or
    `dynamic`: each takes the next trip that nobody has.
    """

    NAME = "block"
    axis: str
    step: int = bare()
    team: bool = False
    dynamic: bool = False

    def check(self) -> None:
        Word.check(self)
        if self.dynamic and not self.team:
            raise VerifyException(f"schedule: {self}: trips that nobody shares; expected team too")


@dataclass(frozen=True)
class Strip(Word):
    """
    Of a convolution: workers share batches and blocks of `rows` rows of positions, in contiguous
    parts, or `dynamic`: each takes the next one that nobody has. What a block
    reads of its factor (`a` with channels last, `b` with channels first) is copied, row behind row,
    so that its positions are one axis, of a multiple of `unit`, and windows are steps along it.
    """

    NAME = "strip"
    operand: str = one_of("a", "b")
    rows: int = named()
    unit: int = named(default=1)
    dynamic: bool = False


@dataclass(frozen=True)
class Split(Word):
    """
    `axis`, which is summed, in so many parts, each with sums of its own that are added as a fixed
    tree; workers share the parts.
    """

    NAME = "split"
    axis: str
    parts: int = bare(least=2, most=1024)


@dataclass(frozen=True)
class Pack(Word):
    """
    A copy of the factor's block into panels of so many rows (of `a`) or columns (of `b`), summed
    index by summed index, `group` of them side by side, or with `rows` all of a row (of `b`: of a
    column), with zeros up to a multiple of `depth`; one for the team, or one for each worker.
    Elements become `dtype`, which holds their values; of `a` as u8 those of i8 with 128 added.
    """

    NAME = "pack"
    operand: str = one_of("a", "b")
    panels: int = named()
    group: int = named(most=16, default=1)
    depth: int = named(default=1)
    dtype: str = dtype_name()
    rows: bool = False
    team: bool = False


@dataclass(frozen=True)
class Register(Word):
    """The tile of sums that stays in registers: rows and columns of the result."""

    NAME = "register"
    m: int = named(most=1024)
    n: int = named()


@dataclass(frozen=True)
class Via(Word):
    """The row of dialects/target/intrinsics.py whose instruction multiplies."""

    NAME = "via"
    row: str


@dataclass(frozen=True)
class Prefetch(Word):
    """
    A factor's cache lines are asked for so many steps of the summed axis ahead; those of `c`, where
    a register tile's sums wait or are stored, before it is multiplied.
    """

    NAME = "prefetch"
    operand: str = one_of("a", "b", "c")
    steps: int = bare(most=64, default=0)

    def check(self) -> None:
        Word.check(self)
        if (self.operand == "c") != (self.steps == 0):
            expected = "prefetch(c)" if self.operand == "c" else "how many steps ahead"
            raise VerifyException(f"schedule: {self}: expected {expected}")


@dataclass(frozen=True)
class Edge(Word):
    """
    What stands for the elements past the end of `axis`: the last ones again, nothing under a mask,
    or zeros in the panel.
    """

    NAME = "edge"
    axis: str
    how: str = one_of("clamp", "mask", "pack")


@dataclass(frozen=True)
class Sums(Word):
    """
    Where sums wait between blocks of `k`: in the result, or in scratch of their own dtype. `init`:
    a block's sums begin with them, instead of being added to them.
    """

    NAME = "sums"
    place: str = one_of("out", "scratch")
    init: bool = False


@dataclass(frozen=True)
class Epilogue(Word):
    """What follows the product: on the registers, or as a loop over the tile's rows in scratch."""

    NAME = "epilogue"
    how: str = one_of("registers", "loop")


@dataclass(frozen=True)
class Case(Word):
    """
    The words behind it, up to the next one, are the whole schedule where `axes` have fewer places
    in all than `below`; those before the first are for the rest.
    """

    NAME = "case"
    axes: str = one_of("m", "n", "k", "mnk")
    below: int = named(most=LARGEST)


@dataclass(frozen=True)
class Grain(Word):
    """The least elements of the iteration space that a worker takes."""

    NAME = "grain"
    elements: int = bare(least=0)


@dataclass(frozen=True)
class Tile(Word):
    """On a GPU: what a block of threads computes of the result, and summed elements of a step."""

    NAME = "tile"
    m: int = named()
    n: int = named()
    k: int = named()


@dataclass(frozen=True)
class Stages(Word):
    """Steps of factors that a block's ring holds."""

    NAME = "stages"
    depth: int = bare(least=2, most=64)


@dataclass(frozen=True)
class Roles(Word):
    """Warps that copy, groups of warps that multiply, and registers of a thread of each."""

    NAME = "roles"
    producer: int = named(most=4)
    consumer: int = named(most=4)
    fill: int = named(most=256, default=40)
    sums: int = named(most=256, default=232)


@dataclass(frozen=True)
class Raster(Word):
    """
    Rows of tiles that blocks take together before they go on to others. `paired`: a block takes two
    tiles in a row, the first and the last of the last axis, then the next ones: where tiles become
    smaller along it, each pair is as much as any other.
    """

    NAME = "raster"
    rows: int = bare(most=65536)
    paired: bool = False


@dataclass(frozen=True)
class Cluster(Word):
    """
    Two blocks take tiles of adjacent rows at the same time, and copy the steps of `b`, which both
    read, together: each copies a part for both.
    """

    NAME = "cluster"
    blocks: int = bare(least=2, most=2)


@dataclass(frozen=True)
class SplitK(Word):
    """
    So many blocks take as many tiles, again and again; those that are left come in parts along `k`,
    at most so many, if there are blocks that help: see `dialects/tile/parts.py`. Of each tile the
    block with the last steps adds the other parts to its own.
    """

    NAME = "split_k"
    blocks: int = named(most=4096)
    parts: int = named(least=2, most=64)


@dataclass(frozen=True)
class Overlap(Word):
    """
    What a block does at the same time. `items`: of streams, the last product of an item is
    multiplied with the first of the next one, and its results are stored while other groups
    multiply; of products, each group has items of its own, and finishes one while others multiply.
    """

    NAME = "overlap"
    what: str = one_of("items")


@dataclass(frozen=True)
class Hold(Word):
    """
    On a GPU: so many whole rows a block of threads, each of which holds vectors of so many lanes of
    its row between what is done to the row. A `cluster` of blocks has a row together. Level 2 is
    asked for the row so many rows `ahead`. So many `walkers`, blocks or clusters of them, go on to
    other rows; or else each row has its own.
    """

    NAME = "hold"
    rows: int = named()
    threads: int = named(most=1024)
    lanes: int = named(most=16)
    cluster: int = named(most=8, default=1)
    ahead: int = named(least=0, default=0)
    walkers: int = named(least=0, default=0)


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
        Block, Strip, Split, Pack, Register, Via, Prefetch, Edge, Sums, Epilogue, Case,
        Grain, Tile, Stages, Roles, Raster, Cluster, SplitK, Overlap, Hold, Vector, Unroll, Turn,
        Nontemporal, Flat, Rows, Share, Threads, Stage,
    )
}  # fmt: skip
"""Every word by its name."""
OF_GRIDS = (Tile, Stages, Roles, Raster, Cluster, SplitK, Overlap, Hold, Share, Threads, Stage)
"""Words that only kernels of grids take: what blocks of threads do."""
OF_WORKERS = (
    Block, Strip, Split, Pack, Register, Via, Prefetch, Edge, Sums, Epilogue, Case, Turn,
    Nontemporal, Flat, Rows,
)  # fmt: skip
"""Words that only kernels of workers take: what loops of a core do."""
OF_NESTS = (Grain, Vector, Unroll)
"""Words that both take."""


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


def parse_list(parser: AttrParser, *, may_be_empty: bool = False) -> Words:
    """What `spell` writes; or nothing at all."""
    parse = partial(_parse, parser)
    if may_be_empty:
        found = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parse)
        return tuple(found or ())
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse))


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
        by_name = next((f for f in left if f.name == word and (is_named(f) or is_flag(f))), None)
        f = by_name or next((f for f in left if not is_named(f) and not is_flag(f)), None)
        if f is None or (f.type == "int") != (number is not None or is_named(f)):
            shape = ", ".join(form_of(f) for f in fields(kind))
            parser.raise_error(f"schedule: {name}(… {word or number} …); expected {name}({shape})")
        left.remove(f)
        if is_named(f):
            number = parser.parse_integer(allow_boolean=False)
        found[f.name] = True if is_flag(f) else word if number is None else number

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
    missing = [f for f in left if f.default is MISSING]
    if missing:
        shape = ", ".join(form_of(f) for f in fields(kind))
        parser.raise_error(f"schedule: {name} lacks {missing[0].name}; expected {name}({shape})")
    word = cast("type[Any]", kind)(**found)
    try:
        word.check()
    except VerifyException as error:
        parser.raise_error(str(error))
    return word
