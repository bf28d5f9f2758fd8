"""
What one element of a rule's side is, as a term over reads of its variables at index letters.

`sum(k: n, mul(x[m, k], y[k, j]))` is an element of a product. Sizes and letters are symbols, words
of letters stay words: what is true of such terms is true for all sizes and ranks. Sums and products
have no order here, nor have max, min and bits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice, permutations
from typing import Any, NamedTuple, cast

from mlc.dialects.dims import Dim
from mlc.lazy_dataclass import dataclass

UNORDERED = ("add", "mul", "max", "min", "and", "or", "xor")
"""Associative and commutative: their operands are sorted, and none is such an op again."""
Regions = frozenset[int]
"""A set of letters that words say: the cells of their Venn diagram, of those that may have any."""
ONE = Dim.const(1)
MOST_NAMES = 720  # orders of the bound letters of a sum that are tried


class Regrouped(NamedTuple):
    """The place in an array of `to` of the element at `place` in one of `shape`."""

    to: Shape
    shape: Shape
    place: Index


Shape = tuple["Dim | str", ...]
Index = tuple["str | Dim | Regrouped", ...]
"""For each axis a position; a text is a word, which stands for any number of letters."""


class Bound(NamedTuple):
    """The letters that a sum is over, with their sizes, and those that words say."""

    letters: tuple[tuple[str, Dim], ...]
    words: Regions


class Term(NamedTuple):
    """
    An element. `head`: `read` with (variable, index), `number`, `const`, `size`, `sum` and `fold`
    with what they are over, `below` (a size is negative; of some or all axes `any_below` and
    `all_below`), `at` with (term of a rule, index), or the
    name of an op.
    """

    head: str
    data: Hashable = None
    args: tuple[Term, ...] = ()

    def __str__(self) -> str:
        parts = [] if self.data is None else [_spelled(self.data)]
        return f"{self.head}({', '.join([*parts, *map(str, self.args)])})"


def _spelled(data: Hashable) -> str:
    match data:
        case Regrouped(to, shape, index):
            return f"regrouped({_spelled(to)} {_spelled(shape)} {_spelled(index)})"
        case Bound(letters, words):
            known = [f"{name}: {size}" for name, size in letters]
            return " ".join([*known, *(f"cell {k}" for k in sorted(words))])
        case tuple():
            return f"[{', '.join(map(_spelled, data))}]"  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return str(data)


def number(value: Fraction | int) -> Term:
    """A rational number."""
    return Term("number", Fraction(value))


ZERO, UNIT = number(0), number(1)
TRUE, FALSE = Term("true"), Term("false")


def letter(name: str) -> Dim:
    """A letter as a position; no size has a name like these."""
    return Dim((((name,), 1),))


def make(head: str, *args: Term, data: Hashable = None) -> Term:
    """A term in the one form that it has."""
    if head in UNORDERED:
        flat = [part for x in args for part in (x.args if x.head == head else (x,))]
        if len(flat) < 2:
            return flat[0] if flat else number(head == "mul")
        return Term(head, data, tuple(sorted(flat, key=str)))
    return Term(head, data, args)


def with_args(term: Term, args: Sequence[Term]) -> Term:
    """The same of other terms."""
    return make(term.head, *args, data=term.data)


def bound_of(term: Term) -> Bound:
    """What a sum or a fold is over."""
    found = cast("tuple[str, Hashable]", term.data)[-1] if term.head == "fold" else term.data
    assert isinstance(found, Bound)
    return found


def over(term: Term, bound: Bound) -> Hashable:
    """The data of a sum or a fold like this, over other letters."""
    return bound if term.head == "sum" else (monoid_of(term), bound)


def monoid_of(term: Term) -> str:
    """How a fold combines."""
    return cast("tuple[str, Bound]", term.data)[0]


def renamed(term: Term) -> Term:
    """
    A sum or fold with its letters numbered from the inside; of all orders the one with the least
    text, so that sums that differ in names alone are the same then.
    """
    letters, words = bound_of(term)
    body = term.args[0]
    mark = f"'{1 + max((_height(x) for x in parts(body)), default=0)}"
    others = free_letters(body) - {name for name, _ in letters}
    while any(name.startswith(mark) for name in others):
        mark = "'" + mark
    named: list[Term] = []
    for order in islice(permutations(letters), MOST_NAMES):
        names = {name: letter(f"{mark}.{k}") for k, (name, _) in enumerate(order)}
        fresh = tuple((f"{mark}.{k}", size) for k, (_, size) in enumerate(order))
        data = over(term, Bound(fresh, words))
        named.append(Term(term.head, data, (substituted(body, names),)))
    return min(named, key=str)


def _height(term: Term) -> int:
    if term.head not in ("sum", "fold") or not bound_of(term).letters:
        return 0
    number = bound_of(term).letters[0][0].lstrip("'").partition(".")[0]
    return int(number) if number.isdigit() else 0


def parts(term: Term) -> Iterator[Term]:
    """A term and all in it."""
    yield term
    for x in term.args:
        yield from parts(x)


# Letters


def substituted(term: Term, values: Mapping[str, Dim]) -> Term:
    """The term with free letters replaced by positions."""
    if term.head in ("sum", "fold"):
        hidden = {name for name, _ in bound_of(term).letters}
        values = {name: value for name, value in values.items() if name not in hidden}
    if not values:
        return term
    data = term.data
    if term.head in ("read", "at"):
        what, index = placed(term)
        data = (what, _moved(index, values))
    elif isinstance(data, Dim):
        data = data.substitute(values)
    return make(term.head, *(substituted(x, values) for x in term.args), data=data)


def _moved(index: Index, values: Mapping[str, Dim]) -> Index:
    found: list[str | Dim | Regrouped] = []
    for item in index:
        if isinstance(item, Dim):
            found.append(item.substitute(values))
        elif isinstance(item, Regrouped):
            found.append(item._replace(place=_moved(item.place, values)))
        else:
            found.append(item)
    return tuple(found)


def placed(term: Term) -> tuple[Any, Index]:
    """What a `read` reads (a variable's name) or an `at` is of (a term of a rule), and where."""
    return cast("tuple[Any, Index]", term.data)


def _items(index: Index) -> Iterator[str | Dim]:
    for item in index:
        if isinstance(item, Regrouped):
            yield from _items(item.place)
        else:
            yield item


def free_letters(term: Term) -> frozenset[str]:
    """The letters of a term that no sum in it is over, and the symbols of sizes."""
    found: frozenset[str] = frozenset()
    if term.head in ("read", "at"):
        dims = [item for item in _items(placed(term)[1]) if isinstance(item, Dim)]
        found = frozenset[str]().union(*(dim.symbols() for dim in dims))
    elif isinstance(term.data, Dim):
        found = term.data.symbols()
    found = found.union(*map(free_letters, term.args))
    if term.head in ("sum", "fold"):
        found -= {name for name, _ in bound_of(term).letters}
    return found


def free_regions(term: Term, words: Mapping[str, Regions]) -> Regions:
    """The letters of words that a term reads at, but those that sums in it are over."""
    found: Regions = frozenset()
    if term.head in ("read", "at"):
        known = [words[x] for x in _items(placed(term)[1]) if isinstance(x, str) and x in words]
        found = frozenset[int]().union(*known)
    found = found.union(*(free_regions(x, words) for x in term.args))
    if term.head in ("sum", "fold"):
        found -= bound_of(term).words
    return found


def apart(term: Term, taken: frozenset[str]) -> Term:
    """A sum over letters with names that are not taken."""
    letters, words = bound_of(term)
    every = taken | free_letters(term.args[0])
    fresh: list[tuple[str, Dim]] = []
    moved: dict[str, Dim] = {}
    for name, size in letters:
        new = name
        while new in taken or (new != name and new in every):
            new += "~"
        fresh.append((new, size))
        moved[name] = letter(new)
    data = over(term, Bound(tuple(fresh), words))
    return Term(term.head, data, (substituted(term.args[0], moved),))


def replaced(term: Term, old: Iterable[Term], *new: Term) -> Term:
    """A sum, product, … with some operands replaced."""
    args = list(term.args)
    for x in old:
        args.remove(x)
    return make(term.head, *args, *new)


def without_letters(term: Term, words: Mapping[str, Regions]) -> tuple[Term, Term] | None:
    """Of the operands of a summand those that have none of the letters, and a sum of the rest."""
    bound, (body,) = bound_of(term), term.args
    names = {name for name, _ in bound.letters}
    operands = body.args if body.head in ("mul", "add") else (body,)
    plain = [x for x in operands if not names & free_letters(x)]
    free = [x for x in plain if not bound.words & free_regions(x, words)]
    if not free or len(free) == len(operands):
        return None
    return make(body.head, *free), make(term.head, replaced(body, free), data=term.data)


# What is known of terms


@dataclass(frozen=True)
class Facts:
    """
    What is known where a term stands: kinds of the variables' dtypes, constants that are positive
    or are numbers, the letters of each word, and the sizes of letters.
    """

    kinds: Mapping[str, frozenset[str]]
    positive: frozenset[str]
    numbers: Mapping[str, Fraction]
    words: Mapping[str, Regions]
    sizes: Mapping[str, Dim]


def kinds(term: Term, facts: Facts) -> frozenset[str]:
    """The kinds of dtype that a term is computed in; nothing for numbers alone."""
    if term.head == "read":
        return facts.kinds[placed(term)[0]]
    if term.head in ("lt", "le", "gt", "ge", "eq", "ne", "below", "any_below", "all_below"):
        return frozenset(("bool",))
    args = term.args[1:] if term.head == "select" else term.args
    return frozenset[str]().union(*(kinds(x, facts) for x in args))


def is_ring(term: Term, facts: Facts) -> bool:
    """Whether there are differences; on bools `add` is or, `mul` is and."""
    return "bool" not in kinds(term, facts)


def is_real(term: Term, facts: Facts) -> bool:
    """Whether sums keep the order: whole numbers wrap around, complex ones have none."""
    return kinds(term, facts) <= {"float"}


def is_field(term: Term, facts: Facts) -> bool:
    """Whether numbers but 0 have inverses."""
    return kinds(term, facts) <= {"float", "complex"}
