"""Whether a rule says the same as another one with more said of its inputs."""

from __future__ import annotations

from collections.abc import Iterator

from mlc.passes.discovery.terms import Pair, Term, operands_of

Binding = dict[int, Term]


def with_terms(term: Term, binding: Binding) -> Term:
    """A term with others for its inputs."""
    if isinstance(term, int):
        return binding[term]
    return (term[0], *(with_terms(operand, binding) for operand in term[1:]))


def is_instance(pair: Pair, general: Pair, commutes: set[str]) -> bool:
    """Whether a pair of one result is another one, either way, with terms for its inputs."""
    if not (pair.is_of_one and general.is_of_one):
        return False
    if pair.ranks[0][1] != general.ranks[0][1]:
        return False
    one, other = pair.sides
    for left, right in (general.sides, general.sides[::-1]):
        if isinstance(left, int) or isinstance(one, int) or left[0] != one[0]:
            continue
        for binding in matches(left, one, {}, commutes):
            for _ in matches(right, other, binding, commutes):
                return True
    return False


def matches(pattern: Term, term: Term, binding: Binding, commutes: set[str]) -> Iterator[Binding]:
    """The ways in which a term is a pattern with terms for its inputs."""
    if isinstance(pattern, int):
        if pattern not in binding:
            yield {**binding, pattern: term}
        elif binding[pattern] == term:
            yield binding
        return
    if isinstance(term, int) or term[0] != pattern[0]:
        return
    operands = operands_of(term)
    orders = [operands]
    if term[0] in commutes and operands[0] != operands[1]:
        orders.append(operands[::-1])
    for order in orders:
        yield from _all(pattern[1:], order, binding, commutes)


def _all(
    patterns: tuple[Term, ...], operands: tuple[Term, ...], binding: Binding, commutes: set[str]
) -> Iterator[Binding]:
    if not patterns:
        yield binding
        return
    for found in matches(patterns[0], operands[0], binding, commutes):
        yield from _all(patterns[1:], operands[1:], found, commutes)
