"""
Terms made as small as rules make them: what a table is too small to show is shown so.

A rule is used either way wherever the term becomes smaller in one order of all terms: what it
costs, then its ops and inputs from the left. That ends, and with rules that join and exchange
operands it sorts chains. SOURCE: ordered rewriting, Bachmair, Dershowitz and Plaisted, 1989.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlc.passes.discovery.generality import matches, with_terms
from mlc.passes.discovery.terms import Pair, Term, operands_of, variables, weight

Key = tuple[object, ...]
MOST_STEPS = 200


class Normal:
    """Normal forms by the rules that were added."""

    def __init__(self, weights: dict[str, int], commutes: set[str]) -> None:
        self.weights, self.commutes = weights, commutes
        self.by_op: dict[str, list[tuple[Term, Term]]] = {}

    def add(self, pair: Pair) -> None:
        """A rule of one result."""
        if not pair.is_of_one:
            return
        for one, other in (pair.sides, pair.sides[::-1]):
            if not isinstance(one, int) and set(variables(other)) <= set(variables(one)):
                self.by_op.setdefault(one[0], []).append((one, other))

    def key(self, term: Term) -> Key:
        """The place of a term in the order."""
        if isinstance(term, int):
            return (1, "", term)
        return (weight(term, self.weights), term[0], *map(self.key, term[1:]))

    def form(self, term: Term) -> Term:
        """The smallest term that was found."""
        for _ in range(MOST_STEPS):
            following = self._step(term)
            if following is None:
                break
            term = following
        return term

    def is_joined(self, pair: Pair) -> bool:
        """Whether both sides have one normal form."""
        return all(
            self.form(left) == self.form(right)
            for left, right in zip(pair.left, pair.right, strict=True)
        )

    def _step(self, term: Term) -> Term | None:
        """A smaller term, by one rule at one place."""
        if isinstance(term, int):
            return None
        operands = operands_of(term)
        for k, operand in enumerate(operands):
            inner = self._step(operand)
            if inner is not None:
                return (term[0], *operands[:k], inner, *operands[k + 1 :])
        return next(self._smaller(term), None)

    def _smaller(self, term: tuple[str, *tuple[Term, ...]]) -> Iterator[Term]:
        key = self.key(term)
        for left, right in self.by_op.get(term[0], ()):
            for binding in matches(left, term, {}, self.commutes):
                found = with_terms(right, binding)
                if self.key(found) < key:
                    yield found
