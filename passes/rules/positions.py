"""Axioms of positions: ranges of letters, conditions on them, and axes that are cut or joined."""

from __future__ import annotations

from collections.abc import Mapping

from mlc.dialects.dims import Dim
from mlc.passes.rules.elements import (
    FALSE,
    ONE,
    TRUE,
    Facts,
    Index,
    Regrouped,
    Shape,
    Term,
    placed,
    with_args,
)

ANY_SIGN = "±"  # begins the names of symbols that may be negative
NOTHING = Dim.const(0)


def sign_of(dim: Dim) -> int:
    """1 where a size is never negative, -1 where it always is, else -2; sizes are not negative."""
    if any(name.startswith(ANY_SIGN) for name in dim.symbols()):
        return -2
    numbers = dict(dim.terms)
    constant = numbers.pop((), 0)
    if constant >= 0 and all(c >= 0 for c in numbers.values()):
        return 1
    return -1 if constant < 0 and all(c <= 0 for c in numbers.values()) else -2


def bounds(dim: Dim, sizes: Mapping[str, Dim]) -> tuple[Dim, Dim] | None:
    """The least and the largest value of what is linear in letters i with 0 <= i < n."""
    low, high = dim, dim
    if any(not isinstance(atom, str) for monomial, _ in dim.terms for atom in monomial):
        return None
    for name in sorted(dim.symbols() & sizes.keys()):
        with_it = [(m, c) for m, c in dim.terms if name in m]
        slope = sum((Dim(((tuple(a for a in m if a != name), c),)) for m, c in with_it), NOTHING)
        rises = sign_of(slope) == 1
        if name in slope.symbols() or not (rises or sign_of(-slope) == 1):
            return None
        ends = NOTHING, sizes[name] - 1
        first, last = ends if rises else ends[::-1]
        low, high = low.substitute({name: first}), high.substitute({name: last})
    return low, high


def in_range(term: Term, facts: Facts) -> Term | None:
    """A position i of n has 0 <= i < n: of 2 i + 1 < 0 and i - n < 0 the answers are known."""
    assert isinstance(term.data, Dim)
    found = bounds(term.data, facts.sizes)
    if found is None:
        return None
    if sign_of(found[0]) == 1:
        return FALSE
    return TRUE if sign_of(found[1]) == -1 else None


def none_below(term: Term, facts: Facts) -> Term | None:
    """Of no axis is a position negative, if of none it can be."""
    return FALSE if in_range(term, facts) == FALSE else None


def all_below(term: Term, facts: Facts) -> Term | None:
    """On all axes something is negative, if it is on each."""
    return TRUE if in_range(term, facts) == TRUE else None


def with_condition(term: Term, condition: Term, known: Term) -> Term:
    """The term where a condition is known: i < a says i < a + b, i >= a + b says i >= a."""
    if term == condition:
        return known
    if term.head == condition.head == "below":
        assert isinstance(term.data, Dim)
        assert isinstance(condition.data, Dim)
        further = condition.data - term.data  # below 0 more surely
        if sign_of(further if known == TRUE else -further) == 1:
            return known
    return with_args(term, [with_condition(x, condition, known) for x in term.args])


# Axes that are cut or joined


def regrouped(term: Term, facts: Facts) -> Term | None:
    """Regrouping to the same shape moves nothing; twice is once; axes are cut and joined."""
    name, index = placed(term)
    if len(index) != 1 or not isinstance(index[0], Regrouped):
        return None
    to, shape, inner = index[0]
    if to == shape:
        return Term("read", (name, inner))
    if len(inner) == 1 and isinstance(inner[0], Regrouped) and inner[0].to == shape:
        _, origin, behind = inner[0]
        return Term("read", (name, (Regrouped(to, origin, behind),)))
    places = grouped(to, shape, inner, facts.sizes)
    return None if places is None else Term("read", (name, places))


def grouped(to: Shape, shape: Shape, index: Index, sizes: Mapping[str, Dim]) -> Index | None:
    """The index in `to`, where each axis of either is one or several of the other."""
    found: list[str | Dim | Regrouped] = []
    old = [(n, at) for n, at in zip(shape, index, strict=True) if n != ONE]
    new = list(to)
    while new:
        n = new.pop(0)
        if n == ONE:
            found.append(NOTHING)
            continue
        if not old:
            return None
        many, at = old.pop(0)
        if n == many:
            found.append(at)
            continue
        if isinstance(n, str) or isinstance(many, str) or not isinstance(at, Dim):
            return None
        if (axes := _product(n, new, many)) is not None:
            parts = _cut(at, axes, sizes)
            if parts is None:
                return None
            found += parts
            del new[: len(axes) - 1]
            continue
        while old and n != many:  # several become one
            size, place = old.pop(0)
            if isinstance(size, str) or not isinstance(place, Dim):
                return None
            many, at = many * size, at * size + place
        if n != many:
            return None
        found.append(at)
    return None if old else tuple(found)


def _product(first: Dim, others: list[Dim | str], many: Dim) -> list[Dim] | None:
    """The axes, the first one and some of the others, of which one of `many` is made."""
    axes, total = [first], first
    for n in others:
        if isinstance(n, str):
            return None
        axes.append(n)
        total = total * n
        if total == many:
            return axes
    return None


def _cut(at: Dim, axes: list[Dim], sizes: Mapping[str, Dim]) -> list[Dim] | None:
    """The positions in axes that have become one."""
    found: list[Dim] = []
    for n in reversed(axes[1:]):
        parts = _divided(at, n, sizes)
        if parts is None:
            return None
        at, rest = parts
        found.insert(0, rest)
    return [at, *found]


def _divided(at: Dim, n: Dim, sizes: Mapping[str, Dim]) -> tuple[Dim, Dim] | None:
    """Quotient and remainder: of n i + j those are i and j, where 0 <= j < n."""
    quotient, rest = NOTHING, NOTHING
    for monomial, c in at.terms:
        term = Dim(((monomial, c),))
        part = term.exact_quotient(n)
        if part is None:
            rest = rest + term
        else:
            quotient = quotient + part
    found = bounds(rest, sizes)
    if found is not None and sign_of(found[0]) == 1 and sign_of(n - 1 - found[1]) == 1:
        return quotient, rest
    if not n.constant:
        return None
    whole = at // n.constant
    return whole, at - whole * n.constant
