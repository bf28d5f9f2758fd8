"""
The axioms: what ops mean, and the laws of numbers, orders, bits, sums and positions.

Each law is a function of a term, which gives another one of the same value, or None where it says
nothing. Laws hold of real numbers wherever both sides are defined, and of whole numbers modulo a
power of two unless they ask for `is_real`; what rounding, NaN and infinities make of them is no
matter here, but of a rule's class. A derivation is a list of axioms and places (`derive.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product

from mlc.dialects.dims import Dim
from mlc.passes.rules.elements import (
    FALSE,
    ONE,
    TRUE,
    UNIT,
    ZERO,
    Bound,
    Facts,
    Term,
    apart,
    bound_of,
    free_letters,
    free_regions,
    is_field,
    is_real,
    is_ring,
    kinds,
    letter,
    make,
    monoid_of,
    number,
    over,
    parts,
    renamed,
    replaced,
    substituted,
    without_letters,
)
from mlc.passes.rules.positions import (
    all_below,
    in_range,
    none_below,
    regrouped,
    sign_of,
    with_condition,
)

MOST_POWER = 8
ROUNDINGS = ("floor", "ceil", "round", "trunc")


Law = Callable[[Term, Facts], Term | None]


def value(term: Term) -> Fraction | None:
    """The number that a term is."""
    return term.data if term.head == "number" and isinstance(term.data, Fraction) else None


# Sums and products: rings


def numbers_first(term: Term, facts: Facts) -> Term | None:
    """Numbers are reckoned: 2 + 3 = 5, 2 * 3 = 6, 0 + x = x, 1 * x = x, 0 * x = 0."""
    known = [x for x in term.args if x.head == "number"]
    values = [n for x in known if (n := value(x)) is not None]
    neutral, is_sum = Fraction(term.head == "mul"), term.head == "add"
    if not is_sum and 0 in values:
        return ZERO
    if len(known) > 1 and is_ring(term, facts):
        total = sum(values, Fraction(0)) if is_sum else math.prod(values, start=Fraction(1))
        return replaced(term, known, number(total))
    return replaced(term, [number(neutral)]) if neutral in values else None


def distributed(term: Term, facts: Facts) -> Term | None:
    """a (b + c) = a b + a c"""
    inner = next((x for x in term.args if x.head == "add"), None)
    if inner is None:
        return None
    return make("add", *(replaced(term, [inner], x) for x in inner.args))


def _factored(term: Term) -> tuple[Fraction, Term]:
    """A summand as a number of something."""
    if term.head != "mul":
        return Fraction(1), term
    first = next((x for x in term.args if x.head == "number"), None)
    if first is None:
        return Fraction(1), term
    return value(first) or Fraction(0), replaced(term, [first])


def collected(term: Term, facts: Facts) -> Term | None:
    """2 x + 3 x = 5 x"""
    known: dict[Term, Term] = {}
    for x in term.args:
        many, what = _factored(x)
        if what not in known:
            known[what] = x
        elif is_ring(what, facts) and what.head != "number":
            both = make("mul", number(many + _factored(known[what])[0]), what)
            return replaced(term, [x, known[what]], both)
    return None


def inverses(term: Term, facts: Facts) -> Term | None:
    """x (1 / x) = 1"""
    for x in term.args:
        if x.head == "inv" and x.args[0] in term.args:
            return replaced(term, [x, x.args[0]])
    return None


def inverse(term: Term, facts: Facts) -> Term | None:
    """1 / (1 / x) = x; 1 / (x y) = (1 / x) (1 / y); 1 / 2 = 0.5; 1 / (x + y / z) = z / (x z + y)"""
    (x,) = term.args
    if not is_field(x, facts):
        return None
    if x.head == "inv":
        return x.args[0]
    if x.head == "mul":
        return make("mul", *(make("inv", y) for y in x.args))
    if x.head == "sum" and x.args[0].head == "mul":
        parted = without_letters(x, facts.words)
        return parted and make("mul", *(make("inv", y) for y in parted))
    if x.head == "add":
        factors = (y for part in x.args for y in (part.args if part.head == "mul" else (part,)))
        divisor = next((y.args[0] for y in factors if y.head == "inv"), None)
        if divisor is not None:
            cleared = make("add", *(make("mul", divisor, part) for part in x.args))
            return make("mul", divisor, make("inv", cleared))
    return number(1 / n) if (n := value(x)) else None


def joined(term: Term, facts: Facts) -> Term | None:
    """sum over k : a of x[k] + sum over k : b of x[k + a] = sum over k : a + b of x[k]"""
    sums = [x for x in term.args if x.head == "sum" and is_ring(x, facts)]
    for first, second in permutations(sums, 2):
        (letters, words), (others, more) = bound_of(first), bound_of(second)
        for (name, size), (other, long) in product(letters, others):
            rest = tuple(x for x in letters if x[0] != name)
            moved = substituted(second.args[0], {other: letter(name) - size})
            is_same = words == more and rest == tuple(x for x in others if x[0] != other)
            if is_same and moved == first.args[0]:
                both = make("sum", moved, data=Bound((*rest, (name, size + long)), words))
                return replaced(term, [first, second], both)
    return None


# Functions


def exponential(term: Term, facts: Facts) -> Term | None:
    """exp(x + y) = exp x exp y; exp(2 x) = exp x exp x; exp(-x) = 1 / exp x; exp(log x) = x"""
    (x,) = term.args
    if x.head == "add":
        return make("mul", *(make("exp", y) for y in x.args))
    if x.head == "log":
        return x.args[0]
    if x == ZERO:
        return UNIT
    many, what = _factored(x)
    if many == 1 or many.denominator != 1 or abs(many) > MOST_POWER or what.head == "number":
        return None
    power = make("mul", *[make("exp", what)] * int(abs(many)))
    return make("inv", power) if many < 0 else power


def logarithm(term: Term, facts: Facts) -> Term | None:
    """log(exp x) = x"""
    (x,) = term.args
    return x.args[0] if x.head == "exp" and is_real(x, facts) else None


def power(term: Term, facts: Facts) -> Term | None:
    """x ^ 3 = x x x; x ^ 0 = 1; x ^ 0.5 = sqrt x"""
    x, exponent = term.args
    n = value(exponent)
    if n == Fraction(1, 2) and is_real(x, facts):
        return make("sqrt", x)
    if n is None or n.denominator != 1 or not 0 <= n <= MOST_POWER:
        return None
    return make("mul", *[x] * int(n))


def roots(term: Term, facts: Facts) -> Term | None:
    """sqrt x sqrt x = x"""
    for x in term.args:
        if x.head == "sqrt" and term.args.count(x) > 1 and is_real(x, facts):
            return replaced(term, [x, x], x.args[0])
    return None


def absolute(term: Term, facts: Facts) -> Term | None:
    """|x| = max(x, -x); |x y| = |x| |y|; |-2| = 2"""
    (x,) = term.args
    if (n := value(x)) is not None:
        return number(abs(n))
    if x.head == "mul" and is_real(x, facts):
        return make("mul", *(make("abs", y) for y in x.args))
    if not kinds(x, facts) <= {"float", "int"}:
        return None
    return make("max", x, make("mul", number(-1), x))


def rounded_again(term: Term, facts: Facts) -> Term | None:
    """floor x = x for whole x, such as ceil y is"""
    (x,) = term.args
    return x if _is_whole(x, facts) else None


def _is_whole(term: Term, facts: Facts) -> bool:
    if kinds(term, facts) <= {"int", "uint"} and term.head == "read":
        return True
    if (n := value(term)) is not None:
        return n.denominator == 1
    is_closed = term.head in ("add", "mul", "max", "min") and bool(term.args)
    return term.head in ROUNDINGS or (is_closed and all(_is_whole(x, facts) for x in term.args))


# Orders and bits: lattices

FOLDED = {"prod": "mul", "max": "max", "min": "min"}
"""What joins two folds."""
OTHER = {"max": "min", "min": "max", "and": "or", "or": "and"}


def idempotent(term: Term, facts: Facts) -> Term | None:
    """max(x, x) = x; x & x = x"""
    known = tuple(dict.fromkeys(term.args))
    return make(term.head, *known) if len(known) < len(term.args) else None


def absorbed(term: Term, facts: Facts) -> Term | None:
    """max(x, min(x, y)) = x; x | (x & y) = x; max(x, -x, 0) = max(x, -x)"""
    other = OTHER[term.head]
    sets = {x: set(x.args if x.head == other else (x,)) for x in term.args}
    for x, many in sets.items():
        if any(few < many for few in sets.values()):
            return replaced(term, [x])
    if term.head in ("and", "or") or ZERO not in term.args or not is_real(term, facts):
        return None
    turned = (make("mul", number(-1), x) for x in term.args if x != ZERO)
    return replaced(term, [ZERO]) if any(x in term.args for x in turned) else None


def known_bits(term: Term, facts: Facts) -> Term | None:
    """true & c = c; false & c = false; false | c = c"""
    neutral, other = (TRUE, FALSE) if term.head == "and" else (FALSE, TRUE)
    if other in term.args:
        return other
    return replaced(term, [neutral]) if neutral in term.args else None


def lattice(term: Term, facts: Facts) -> Term | None:
    """min(max(x, y), z) = max(min(x, z), min(y, z)); (x | y) & z = (x & z) | (y & z)"""
    inner = next((x for x in term.args if x.head == OTHER[term.head]), None)
    if inner is None:
        return None
    return make(inner.head, *(replaced(term, [inner], x) for x in inner.args))


def both_extrema(term: Term, facts: Facts) -> Term | None:
    """max(x, y) + min(x, y) = x + y"""
    for x in term.args:
        other = Term("min", None, x.args)
        if x.head == "max" and len(x.args) == 2 and other in term.args:
            return replaced(term, [x, other], *x.args)
    return None


def extremum_of_sum(term: Term, facts: Facts) -> Term | None:
    """max(x, y) + z = max(x + z, y + z)"""
    inner = next((x for x in term.args if x.head in ("max", "min")), None)
    if inner is None or not is_real(term, facts):
        return None
    return make(inner.head, *(replaced(term, [inner], x) for x in inner.args))


def extremum_scaled(term: Term, facts: Facts) -> Term | None:
    """2 max(x, y) = max(2 x, 2 y); -max(x, y) = min(-x, -y)"""
    inner = next((x for x in term.args if x.head in ("max", "min")), None)
    if inner is None or not is_real(term, facts):
        return None
    scales = list(term.args)
    scales.remove(inner)  # once: of its square the other one is a scale
    signs = [_sign(x, facts) for x in scales]
    if not all(signs):
        return None
    is_turned = signs.count(-1) % 2 == 1
    head = OTHER[inner.head] if is_turned else inner.head
    return make(head, *(make("mul", *scales, x) for x in inner.args))


def _sign(term: Term, facts: Facts) -> int:
    """0 where it is not known."""
    if term.head == "inv":
        return _sign(term.args[0], facts)
    if term.head == "exp" or (term.head == "const" and term.data in facts.positive):
        return 1
    n = value(term)
    return 0 if n is None else (n > 0) - (n < 0)


def comparison(term: Term, facts: Facts) -> Term | None:
    """x > y is y < x; x <= y is not y < x; x != y is not x = y; x < x is never so"""
    x, y = term.args
    if x == y:
        return TRUE if term.head in ("le", "ge", "eq") else FALSE
    match term.head:
        case "gt":
            return make("lt", y, x)
        case "ge":
            return make("not", make("lt", x, y))
        case "le":
            return make("not", make("lt", y, x))
        case "ne":
            return make("not", make("eq", x, y))
        case _:
            return make("eq", y, x) if term.head == "eq" and str(y) < str(x) else None


def complement(term: Term, facts: Facts) -> Term | None:
    """~~x = x; ~(x & y) = ~x | ~y"""
    (x,) = term.args
    if x.head == "not":
        return x.args[0]
    if x.head in ("and", "or"):
        return make(OTHER[x.head], *(make("not", y) for y in x.args))
    return {TRUE: FALSE, FALSE: TRUE}.get(x)


def exclusive(term: Term, facts: Facts) -> Term | None:
    """x ^ x = 0; x ^ 0 = x"""
    twice = [x for x in term.args if term.args.count(x) > 1][:2]
    return replaced(term, twice or [ZERO]) if twice or ZERO in term.args else None


def choice(term: Term, facts: Facts) -> Term | None:
    """select(true, x, y) = x; select(c, x, x) = x; select(~c, x, y) = select(c, y, x)"""
    condition, x, y = term.args
    if condition in (TRUE, UNIT) or x == y:
        return x
    if condition in (FALSE, ZERO):
        return y
    if condition.head == "not":
        return make("select", condition.args[0], y, x)
    if condition.head == "lt" and {*condition.args} == {x, y}:
        return make("max" if condition.args[0] == y else "min", x, y)
    return None


# Sums over letters


def of_nothing(term: Term, facts: Facts) -> Term | None:
    """A sum over no letters is its summand."""
    letters, words = bound_of(term)
    return None if letters or words else term.args[0]


def sum_of_sum(term: Term, facts: Facts) -> Term | None:
    """sum over i of sum over j = sum over i, j"""
    (body,) = term.args
    is_same = body.head == term.head and (term.head == "sum" or monoid_of(body) == monoid_of(term))
    if not is_same or (term.head == "fold" and monoid_of(term) not in ("prod", "max", "min")):
        return None
    outer, words = bound_of(term)
    body = apart(body, frozenset(name for name, _ in outer))
    inner, more = bound_of(body)
    if words & more:
        return None
    return make(term.head, *body.args, data=over(term, Bound((*outer, *inner), words | more)))


def linear(term: Term, facts: Facts) -> Term | None:
    """sum of (x + y) = sum of x + sum of y"""
    (body,) = term.args
    if body.head != "add" or not is_ring(body, facts):
        return None
    return make("add", *(make("sum", x, data=term.data) for x in body.args))


def into_sum(term: Term, facts: Facts) -> Term | None:
    """y sum of x = sum of y x, where y has none of the letters"""
    inner = next((x for x in term.args if x.head == "sum"), None)
    if inner is None:
        return None
    factor = replaced(term, [inner])
    if free_regions(factor, facts.words) & bound_of(inner).words:
        return None
    inside = apart(inner, free_letters(factor))
    return make("sum", make("mul", factor, *inside.args), data=inside.data)


def named(term: Term, facts: Facts) -> Term | None:
    """The letters that a sum is over have any names, and any order."""
    return renamed(term)


def of_one(term: Term, facts: Facts) -> Term | None:
    """A letter of one position is 0."""
    letters, words = bound_of(term)
    for name, size in letters:
        if size == ONE:
            rest = tuple(x for x in letters if x[0] != name)
            body = substituted(term.args[0], {name: Dim.const(0)})
            return make(term.head, body, data=over(term, Bound(rest, words)))
    return None


def counted(term: Term, facts: Facts) -> Term | None:
    """A sum over k : n of what does not have k is n times it."""
    letters, words = bound_of(term)
    (body,) = term.args
    for name, size in letters:
        if name not in free_letters(body) and is_ring(body, facts):
            rest = tuple(x for x in letters if x[0] != name)
            many = number(size.constant) if size.constant is not None else Term("size", size)
            return make("sum", make("mul", many, body), data=Bound(rest, words))
    return None


def split(term: Term, facts: Facts) -> Term | None:
    """sum over k : a + b of (x if k < a else y) = sum over k : a of x + sum over k : b of y"""
    letters, words = bound_of(term)
    (body,) = term.args
    both = "add" if term.head == "sum" else FOLDED.get(monoid_of(term))
    if both is None or (both == "add" and not is_ring(body, facts)):
        return None
    for name, size in letters:
        for condition in (x for x in parts(body) if x.head == "below"):
            assert isinstance(condition.data, Dim)
            at = letter(name) - condition.data
            if name in at.symbols() or sign_of(at) < 0 or sign_of(size - at) < 0:
                continue
            rest = tuple(x for x in letters if x[0] != name)
            first, second = (with_condition(body, condition, x) for x in (TRUE, FALSE))
            second = substituted(second, {name: letter(name) + at})
            return make(both, *(
                make(term.head, part, data=over(term, Bound((*rest, (name, many)), words)))
                for part, many in ((first, at), (second, size - at))
            ))  # fmt: skip
    return None


def out_of_fold(term: Term, facts: Facts) -> Term | None:
    """max over i of (x + c) = (max over i of x) + c; of c x with c > 0 it is c times that of x"""
    (body,) = term.args
    if monoid_of(term) not in ("max", "min") or body.head not in ("add", "mul"):
        return None
    parted = without_letters(term, facts.words) if is_real(body, facts) else None
    if parted is None:
        return None
    factor, rest = parted
    signs = [_sign(x, facts) for x in (factor.args if factor.head == "mul" else (factor,))]
    if body.head == "add" or (all(signs) and signs.count(-1) % 2 == 0):
        return make(body.head, factor, rest)
    return None


_LATTICE = (idempotent, absorbed)
_OVER: tuple[Law, ...] = (of_nothing, of_one, sum_of_sum)
LAWS: dict[str, tuple[Law, ...]] = {
    "add": (numbers_first, both_extrema, extremum_of_sum, collected, joined),
    "mul": (numbers_first, inverses, roots, distributed, into_sum, extremum_scaled),
    "inv": (inverse,),
    "exp": (exponential,),
    "log": (logarithm,),
    "pow": (power,),
    "abs": (absolute,),
    **dict.fromkeys(ROUNDINGS, (rounded_again,)),
    "max": _LATTICE,
    "min": (*_LATTICE, lattice),
    "or": (*_LATTICE, known_bits),
    "and": (*_LATTICE, known_bits, lattice),
    "xor": (exclusive,),
    "not": (complement,),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), (comparison,)),
    "select": (choice,),
    "sum": (*_OVER, linear, counted, split, named),
    "fold": (*_OVER, split, out_of_fold, named),
    "below": (in_range,),
    "any_below": (none_below,),
    "all_below": (all_below,),
    "read": (regrouped,),
}
"""By what they are laws of, in the order in which a proof tries them."""
NAMED: dict[str, Law] = {law.__name__: law for laws in LAWS.values() for law in laws}
