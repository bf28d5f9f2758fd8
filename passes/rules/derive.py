"""
Derivations: why both sides of a rule are the same, step by step from the axioms.

A side is unfolded by the specifications of its ops (`meaning.py`) and rewritten by laws
(`axioms.py`) until none says anything any more. A derivation lists what was done and where, for
both sides; `replay` does it again and sees whether they have become the same. It searches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from types import MappingProxyType

from mlc.dialects.dims import Dim
from mlc.lazy_dataclass import dataclass
from mlc.passes.rules.axioms import LAWS, NAMED
from mlc.passes.rules.elements import (
    FALSE,
    TRUE,
    Facts,
    Regions,
    Term,
    bound_of,
    free_letters,
    free_regions,
    make,
    parts,
    placed,
    with_args,
)
from mlc.passes.rules.meaning import Meaning, StuckError
from mlc.passes.rules.positions import with_condition
from mlc.passes.rules.rule import Constant, Rule, Variable

MOST_STEPS = 400
UNFOLD, CASES = "unfold", "cases"
Place = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """An axiom, and the place in a term where it was used."""

    axiom: str
    place: Place

    def __str__(self) -> str:
        return f"{self.axiom} {'.'.join(map(str, self.place))}".rstrip()


@dataclass(frozen=True)
class Derivation:
    """
    Of one result of a rule, for one choice of its variables for ops: the steps of both sides, which
    end as the same term.
    """

    chosen: tuple[tuple[str, str], ...]
    root: int
    left: tuple[Step, ...]
    right: tuple[Step, ...]


Proofs = Mapping[str, tuple[Derivation, ...]]
"""Derivations by the names of rules."""
NONE: Proofs = MappingProxyType({})


class UnprovenError(Exception):
    """Why there is no derivation."""


def choices(rule: Rule) -> Iterator[dict[str, str]]:
    """What the variables for ops and names may be."""
    names = [name for name, _ in rule.choices]
    for chosen in product(*(known for _, known in rule.choices)):
        yield dict(zip(names, chosen, strict=True))


def derived(rule: Rule) -> tuple[Derivation, ...]:
    """Derivations for each choice and each result. Raises UnprovenError."""
    found: list[Derivation] = []
    for chosen in choices(rule):
        for k in range(len(rule.left)):
            sides = _Sides(rule, chosen, k)
            (left, ended), (right, other) = (sides.normal(side) for side in (0, 1))
            if ended != other:
                said = f" for {', '.join(chosen.values())}" if chosen else ""
                raise UnprovenError(f"the sides end as {ended} and {other}{said}")
            found.append(Derivation(tuple(chosen.items()), k, tuple(left), tuple(right)))
    return tuple(found)


def replay(rule: Rule, derivations: tuple[Derivation, ...]) -> bool:
    """Whether derivations for all choices and results lead from both sides to the same term."""
    wanted = [(tuple(c.items()), k) for c in choices(rule) for k in range(len(rule.left))]
    if [(d.chosen, d.root) for d in derivations] != wanted:
        return False
    try:
        for d in derivations:
            sides = _Sides(rule, dict(d.chosen), d.root)
            if sides.after(0, d.left) != sides.after(1, d.right):
                return False
    except (StuckError, UnprovenError):
        return False
    return True


class _Sides:
    """Both sides of a result at one index."""

    def __init__(self, rule: Rule, chosen: Mapping[str, str], root: int) -> None:
        self.roots = rule.left[root], rule.right[root]
        try:
            self.meaning = Meaning(rule, chosen)
            self.index, self.sizes = self.meaning.start(self.roots[0])
            right = self.roots[1]
            named = self.meaning.node(right.name) if isinstance(right, Variable) else right
            if not isinstance(named, Constant):
                shapes = [self.meaning.shape(x) for x in self.roots]
                if shapes[0] != shapes[1]:
                    raise UnprovenError("the sides have other shapes")
                self.meaning.check(named or right)
        except (StuckError, IndexError, ValueError, KeyError) as error:
            raise UnprovenError(str(error)) from None

    def start(self, side: int) -> Term:
        """The side, with nothing unfolded."""
        return Term("at", (self.roots[side], self.index))

    def trail(self, side: int, steps: tuple[Step, ...]) -> Iterator[Term]:
        """The side, and what each step makes of it. UnprovenError where one does not apply."""
        term = self.start(side)
        yield term
        for step in steps:
            found = self._rewritten(term, step.place, self._axiom(step.axiom), self._top())
            if found is None:
                raise UnprovenError(f"{step} says nothing of {term}")
            term = found
            yield term

    def after(self, side: int, steps: tuple[Step, ...]) -> Term:
        """What the side is after these steps."""
        *_, found = self.trail(side, steps)
        return found

    def normal(self, side: int) -> tuple[list[Step], Term]:
        """The steps that axioms allow, and what the side is then."""
        term, steps = self.start(side), list[Step]()
        try:
            while len(steps) < MOST_STEPS:
                found = self._first(term, (), self._top()) or self._by_cases(term, ())
                if found is None:
                    return steps, term
                step, term = found[0], self._put(term, found[0].place, found[1])
                steps.append(step)
        except StuckError as error:
            raise UnprovenError(f"{error}, in {term}") from None
        raise UnprovenError(f"more than {MOST_STEPS} steps")

    # Steps --------------------------------------------------------------------------------------

    def _top(self) -> Facts:
        return self.meaning.facts(self.sizes)

    def _axiom(self, name: str) -> Callable[[Term, Facts], Term | None]:
        if name == UNFOLD:
            return lambda term, _: self._unfolded(term)
        if name == CASES:
            return self._split
        if name not in NAMED:
            raise UnprovenError(f"{name} is no axiom")

        def law(term: Term, facts: Facts) -> Term | None:
            """A law holds of what it is listed for alone: 0 x = 0 says nothing of max(0, x)."""
            is_listed = NAMED[name] in LAWS.get(term.head, ())
            return NAMED[name](term, facts) if is_listed else None

        return law

    def _unfolded(self, term: Term) -> Term | None:
        if term.head != "at":
            return None
        try:
            return self.meaning.of(*placed(term))
        except (IndexError, ValueError, KeyError):  # letters or sizes of other axes
            raise StuckError("an op of another number of axes") from None

    def _first(self, term: Term, place: Place, facts: Facts) -> tuple[Step, Term] | None:
        """The first step, from the inside."""
        inner = _inside(term, facts)
        for k, x in enumerate(term.args):
            if (found := self._first(x, (*place, k), inner)) is not None:
                return found
        if term.head == "at":
            value = self._unfolded(term)
            return None if value is None else (Step(UNFOLD, place), value)
        for law in LAWS.get(term.head, ()):
            value = law(term, facts)
            if value is not None and value != term:
                return Step(law.__name__, place), value
        return None

    def _rewritten(
        self,
        term: Term,
        place: Place,
        axiom: Callable[[Term, Facts], Term | None],
        facts: Facts,
    ) -> Term | None:
        if not place:
            return axiom(term, facts)
        k, *rest = place
        if k >= len(term.args):
            return None
        found = self._rewritten(term.args[k], tuple(rest), axiom, _inside(term, facts))
        return None if found is None else _with(term, k, found)

    def _put(self, term: Term, place: Place, value: Term) -> Term:
        if not place:
            return value
        k, *rest = place
        return _with(term, k, self._put(term.args[k], tuple(rest), value))

    # Cases --------------------------------------------------------------------------------------

    def _by_cases(self, term: Term, place: Place) -> tuple[Step, Term] | None:
        """The least condition first, then those in its branches."""
        found = self._split(term, self._top())
        if found is not None:
            return Step(CASES, place), found
        if term.head == "select":
            for k in (1, 2):
                if (step := self._by_cases(term.args[k], (*place, k))) is not None:
                    return step
        return None

    def _split(self, term: Term, facts: Facts) -> Term | None:
        """x is (x if a condition in it holds, else x)."""
        conditions = sorted(_conditions(term, frozenset(), frozenset(), facts), key=str)
        if not conditions:
            return None
        least = conditions[0]
        if term.head == "select" and term.args[0] == least and conditions.count(least) == 1:
            return None
        branches = [with_condition(term, least, known) for known in (TRUE, FALSE)]
        return make("select", least, *branches)


def _with(term: Term, k: int, value: Term) -> Term:
    return with_args(term, [*term.args[:k], value, *term.args[k + 1 :]])


def _inside(term: Term, facts: Facts) -> Facts:
    """What is known of the operands of a term."""
    if term.head not in ("sum", "fold") or not bound_of(term).letters:
        return facts
    sizes: dict[str, Dim] = {**facts.sizes, **dict(bound_of(term).letters)}
    return Facts(facts.kinds, facts.positive, facts.numbers, facts.words, sizes)


def _conditions(
    term: Term, letters: frozenset[str], words: Regions, facts: Facts
) -> Iterator[Term]:
    """The conditions in a term that speak of no letter that a sum is over."""
    if term.head in ("sum", "fold"):
        bound = bound_of(term)
        letters |= {name for name, _ in bound.letters}
        words |= bound.words
    if term.head == "select":
        condition = term.args[0]
        is_free = not (letters & free_letters(condition))
        if is_free and not (words & free_regions(condition, facts.words)):
            known = (x for x in parts(condition) if x not in (TRUE, FALSE))
            yield from (x for x in known if not x.args or x.head in ("lt", "eq"))
    for x in term.args:
        yield from _conditions(x, letters, words, facts)
