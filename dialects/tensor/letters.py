"""Index letters: ``"mk,kn->mn"`` names the axes of operands and result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.errors import ShapeError

DIGITS = "0123456789"
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@lru_cache(maxsize=4096)
def split(text: str) -> tuple[tuple[str, ...], str]:
    """The letters of each operand and of the result; ShapeError if the text is malformed."""
    left, arrow, result = text.partition("->")
    operands = tuple(left.split(","))
    if not arrow or not all(is_letters(word) for word in (*operands, result)):
        raise ShapeError(
            f"index letters {text!r}: expected the form 'mk,kn->mn', no letter twice in one operand"
        )
    return operands, result


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[tuple[str, ...], str, str]:
    """As `split`; and the letters that the result lacks, in the operands' order."""
    operands, result = split(text)
    found = dict.fromkeys("".join(operands))
    return operands, result, "".join(c for c in found if c not in result)


def split_one(text: str) -> tuple[str, str]:
    """As `split`, of an op with one operand."""
    operands, result = split(text)
    if len(operands) != 1:
        raise ShapeError(f"index letters {text!r} name {len(operands)} operands; expected one")
    return operands[0], result


def is_letters(word: str) -> bool:
    """Whether every axis has a letter of its own."""
    return all(c in ALPHABET or c in DIGITS for c in word) and len(set(word)) == len(word)


def bind(op: str, text: str, words: Sequence[str], shapes: Sequence[Shape]) -> dict[str, Dim]:
    """The dim of every letter; ShapeError if two operands disagree or a rank does not fit."""
    sizes: dict[str, Dim] = {}
    if len(words) != len(shapes):
        raise ShapeError(f"{op} {text!r}: names {len(words)} operands, found {len(shapes)}")
    for k, (word, shape) in enumerate(zip(words, shapes, strict=True)):
        if len(word) != len(shape):
            raise ShapeError(
                f"{op} {text!r}: operand {k} has {len(shape)} axes {spell(shape)},"
                f" expected {len(word)}"
            )
        for letter, dim in zip(word, shape, strict=True):
            if sizes.setdefault(letter, dim) != dim:
                raise ShapeError(
                    f"{op} {text!r}: '{letter}' is {sizes[letter]} in one operand and {dim} in"
                    f" operand {k} {spell(shape)}; expected equal sizes"
                )
    return sizes


def fresh(used: Iterable[str]) -> str:
    """A letter that does not occur in `used`."""
    taken = set("".join(used))
    return next(letter for letter in ALPHABET if letter not in taken)


def spell(shape: Shape) -> str:
    """A shape as NumPy prints it: ``(3, B)``, ``(4,)``."""
    inside = ", ".join(str(dim) for dim in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"
