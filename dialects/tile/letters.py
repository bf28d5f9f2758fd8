"""
Letters of tiles: ``"k (J n) -> J k n"`` names the axes of a tile where it is read and where it is
written. Letters in parentheses are one axis, the first of them moving slowest.
"""

from __future__ import annotations

import re
from functools import lru_cache

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.dims import Dim
from mlc.dialects.tile.expression import letter, letters_in
from mlc.lazy_dataclass import dataclass

_TOKEN = re.compile(r"\s*([A-Za-z]|[()]|,|->)")
Word = tuple[str, ...]
"""Of each axis, its letters."""


@dataclass(frozen=True)
class Letters:
    """The letters of the operands of an op, and of its result."""

    operands: tuple[Word, ...]
    result: Word

    @property
    def letters(self) -> frozenset[str]:
        """All."""
        return frozenset("".join(axis for word in (*self.operands, self.result) for axis in word))


@lru_cache(maxsize=4096)
def letters_of(text: str) -> Letters:
    """The letters that a text names; VerifyException where it is malformed."""
    words: list[list[str]] = [[]]
    group: str | None = None
    at, arrows = 0, 0
    while at < len(text.rstrip()):
        token = _TOKEN.match(text, at)
        mark = token[1] if token else ""
        if mark.isalpha():
            if group is None:
                words[-1].append(mark)
            else:
                group += mark
        elif mark == "(" and group is None:
            group = ""
        elif mark == ")" and group:
            words[-1].append(group)
            group = None
        elif mark in (",", "->") and group is None and not arrows:
            words.append([])
            arrows += mark == "->"
        else:
            raise _malformed(text)
        assert token is not None
        at = token.end()
    found = [tuple(word) for word in words]
    if not arrows or group is not None or any(len(set(a := "".join(w))) < len(a) for w in found):
        raise _malformed(text)
    return Letters(tuple(found[:-1]), found[-1])


def _malformed(text: str) -> VerifyException:
    return VerifyException(
        f"letters {text!r}: expected such as 'k (J n) -> J k n', no letter twice on one side"
    )


def coordinates(
    at: tuple[Dim, ...], rank: int, word: Word, sizes: dict[str, int]
) -> tuple[Dim, ...]:
    """
    Where the element of a tile lies, for each axis of what the tile is part of: an expression in
    the tile's letters. Subscripts in which a letter stands say it themselves; else the tile's axes
    are the last ones, from the subscripts on. Missing subscripts are 0.
    """
    full = at + (Dim.const(0),) * (rank - len(at))
    if letters_in(at):
        return full
    inside: list[Dim] = []
    for axis in word:
        total = Dim.const(0)
        for c in axis:
            total = (total * sizes[c] if total.terms else total) + letter(c)
        inside.append(total)
    first = rank - len(word)
    return (*full[:first], *(x + y for x, y in zip(full[first:], inside, strict=True)))


def check_access(name: str, at: tuple[Dim, ...], rank: int, word: Word) -> None:
    """VerifyException unless subscripts and letters fit what is accessed."""
    if len(at) > rank:
        raise VerifyException(f"{name}: {len(at)} subscripts; what they are of has {rank} axes")
    named = letters_in(at)
    expected = frozenset("".join(word))
    if not named:
        if len(word) > rank:
            raise VerifyException(
                f"{name}: a tile of {len(word)} axes ({''.join(word)}); what it is part of has"
                f" {rank}"
            )
    elif named != expected:
        raise VerifyException(
            f"{name}: the subscripts name the letters {', '.join(sorted(named))}; expected"
            f" {', '.join(sorted(expected))}"
        )
    elif len(at) != rank:
        raise VerifyException(
            f"{name}: {len(at)} subscripts with letters; expected {rank}, one for each axis"
        )
