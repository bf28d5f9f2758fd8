"""
Equal programs that say more than they need to, made as general as they are.

A table has few inputs, so what it finds may read one where any would do: an op that both sides have
may be anything, and two places of an input may be two inputs. Each is tried on random residues.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.passes.discovery.residues import Shape, drawn
from mlc.passes.discovery.terms import VALUES, Pair, Term, occurrences, subterms, variables
from mlc.passes.discovery.words import Space, Word

SEED = 0xD1B54A32  # other numbers than those of the table
PLACES = 3  # of an input that are told apart


def generalized(pair: Pair, space: Space) -> Pair:
    """The most general pair of one result that was found; canonical."""
    shapes = dict(enumerate(space.inputs))
    words = {word.name: word for word in space.words}
    while True:
        for attempt, more in _attempts(pair, shapes, words):
            if len(variables(*attempt.left, *attempt.right)) <= len(VALUES) and _holds(
                attempt, more, words
            ):
                pair, shapes = attempt, more
                break
        else:
            ranks = tuple((k, len(shape)) for k, shape in shapes.items())
            return Pair(pair.left, pair.right, ranks).canonical()


def _attempts(
    pair: Pair, shapes: dict[int, Shape], words: dict[str, Word]
) -> Iterator[tuple[Pair, dict[int, Shape]]]:
    """More general pairs, by one step, with the shapes of their inputs."""
    left, right = pair.sides
    fresh = max(shapes) + 1
    inner = {t for t in subterms(right) if not isinstance(t, int)}
    shared = [t for t in dict.fromkeys(subterms(left)) if t in inner and t not in (left, right)]
    for part in reversed(shared):
        shape = _evaluated(part, shapes, words).shape[2:]
        sides = (_replaced(left, part, fresh), _replaced(right, part, fresh))
        yield _pair(pair, *sides), {**shapes, fresh: shape}
    here, there = occurrences(left), occurrences(right)
    for k, count in here.items():
        if not 1 < count <= PLACES or there.get(k) != count:
            continue
        names = [k, *range(fresh, fresh + count - 1)]
        more = {**shapes, **dict.fromkeys(names, shapes[k])}
        for order in itertools.permutations(names):
            yield _pair(pair, _split(left, k, names), _split(right, k, order)), more


def _pair(of: Pair, left: Term, right: Term) -> Pair:
    return Pair((left,), (right,), of.ranks)


def _replaced(term: Term, part: Term, by: int) -> Term:
    if term == part:
        return by
    if isinstance(term, int):
        return term
    return (term[0], *(_replaced(operand, part, by) for operand in term[1:]))


def _split(term: Term, k: int, names: Sequence[int]) -> Term:
    """A term with another name at each place of an input."""
    following = iter(names)

    def walk(each: Term) -> Term:
        if isinstance(each, int):
            return next(following) if each == k else each
        return (each[0], *(walk(operand) for operand in each[1:]))

    return walk(term)


def _holds(pair: Pair, shapes: dict[int, Shape], words: dict[str, Word]) -> bool:
    left, right = pair.sides
    return np.array_equal(_evaluated(left, shapes, words), _evaluated(right, shapes, words))


def _evaluated(term: Term, shapes: dict[int, Shape], words: dict[str, Word]) -> Array:
    if isinstance(term, int):
        return drawn(term, shapes[term], SEED)
    return words[term[0]].value(*(_evaluated(x, shapes, words) for x in term[1:]))
