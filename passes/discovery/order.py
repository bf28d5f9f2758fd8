"""Which side of a pair is the smaller one, and what must hold for it to save work."""

from __future__ import annotations

from mlc.passes.discovery.terms import Pair, Term, occurrences, subterms, variables, weight
from mlc.passes.discovery.words import WORDS

WEIGHTS = {word.name: word.weight for words in WORDS.values() for word in words}


def turned(pair: Pair) -> Pair:
    """From right to left."""
    return Pair(pair.right, pair.left, pair.ranks)


def directed(pair: Pair) -> Pair:
    """From left to right: to the smaller side if there is one, and from the one that reads more."""
    read = [set(variables(*side)) for side in (pair.left, pair.right)]
    if read[1] <= read[0] and (is_smaller(pair) or not is_smaller(turned(pair))):
        return pair
    return turned(pair) if read[0] <= read[1] else pair


def is_smaller(pair: Pair) -> bool:
    """
    Whether the right side is smaller than the left one, whatever the inputs are: it costs less, and
    reads no input more often. Rules of which that is true end (Knuth and Bendix, 1970).
    """
    if not pair.is_of_one:
        return False
    left, right = pair.sides
    read = occurrences(left)
    return weight(left, WEIGHTS) > weight(right, WEIGHTS) and all(
        count <= read.get(k, 0) for k, count in occurrences(right).items()
    )


def guarded(pair: Pair) -> list[Term]:
    """
    The ops of a left side that nobody else may read, for its smaller right side to save work; none
    where that costs less than the last op alone.
    """
    if not is_smaller(pair):
        return []
    left, right = pair.sides
    there = set(subterms(right))
    inner = [t for t in dict.fromkeys(subterms(left)) if not isinstance(t, int) and t != left]
    made = {t for t in there if not isinstance(t, int)} - set(inner)
    assert not isinstance(left, int)
    if sum(WEIGHTS[t[0]] for t in made if not isinstance(t, int)) <= WEIGHTS[left[0]]:
        return []
    read: dict[Term, int] = {}
    for op in (*inner, left):
        for operand in () if isinstance(op, int) else op[1:]:
            read[operand] = read.get(operand, 0) + 1
    return [t for t in inner if t not in there and read[t] == 1]
