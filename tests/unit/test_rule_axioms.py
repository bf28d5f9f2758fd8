"""Laws of numbers, orders and bits keep the value of random terms: fractions, and whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from operator import add, eq, ge, gt, le, lt, mul, ne
from typing import Any

import numpy as np
import pytest

from mlc.passes.rules.axioms import LAWS
from mlc.passes.rules.elements import FALSE, TRUE, Facts, Term, make, number, parts

NAMES = "xyz"
ORDERS = {"lt": lt, "le": le, "gt": gt, "ge": ge, "eq": eq, "ne": ne}
CHAINS: dict[str, Callable[[Any, Any], Any]] = {
    "add": add, "mul": mul, "max": max, "min": min, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip
HEADS = {
    "float": ("add", "mul", "max", "min", "abs", "pow", "select", "inv", "floor", "ceil"),
    "int": ("add", "mul", "max", "min", "abs", "pow", "select", "and", "or", "xor", "not"),
}


def wrapped(x: Any) -> Any:
    """A whole number in 8 bits, with a sign."""
    return (x + 128) % 256 - 128 if type(x) is int else x


def value(term: Term, known: dict[str, Any], kind: str) -> Any:
    """The value of a term. Raises ZeroDivisionError where it has none."""
    if term in (TRUE, FALSE):
        return term == TRUE
    if term.head in ("read", "number"):
        data: Any = term.data
        found = known[data[0]] if term.head == "read" else data
        return int(found) if kind == "int" else found
    args = [value(x, known, kind) for x in term.args]
    match term.head:
        case "abs":
            return wrapped(abs(args[0]))
        case "pow":
            return wrapped(args[0] ** int(args[1]))
        case "select":
            return args[1] if args[0] else args[2]
        case "inv":
            return 1 / args[0]
        case "floor" | "ceil":
            return Fraction(getattr(math, term.head)(args[0]))
        case "not":
            return not args[0] if isinstance(args[0], bool) else ~args[0]
        case head if head in ORDERS:
            return ORDERS[head](*args)
        case head:
            return wrapped(reduce(CHAINS[head], args))


class Draw:
    """Random terms; an operand may stand twice, also as one object."""

    def __init__(self, kind: str) -> None:
        self.kind, self.rng = kind, np.random.default_rng(5)

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def term(self, depth: int) -> Term:
        if depth == 0 or self.rng.random() < 0.15:
            reads = [Term("read", (name, ())) for name in NAMES]
            return self.pick([*reads, *reads, *map(number, (-2, -1, 0, 1, 2))])
        head = self.pick(HEADS[self.kind])
        x, y = self.term(depth - 1), self.term(depth - 1)
        if head == "select":
            return make(head, self.condition(depth - 1), x, y)
        if head == "pow":
            return make(head, x, number(self.pick(range(4))))
        if head in CHAINS:
            return make(head, x, self.pick((x, y)), *self.pick(((), (y,))))
        return make(head, x)

    def condition(self, depth: int) -> Term:
        head = self.pick([*ORDERS, "and", "or", "not"] if depth else list(ORDERS))
        if head in ORDERS:
            return make(head, self.term(0), self.term(0))
        return make(head, *(self.condition(depth - 1) for _ in range(1 + (head != "not"))))

    def numbers(self) -> dict[str, Any]:
        low, high, bottom = (-6, 7, 3) if self.kind == "float" else (-128, 128, 2)
        drawn = self.rng.integers((low, 1), (high, bottom), (len(NAMES), 2)).tolist()
        return {name: Fraction(a, b) for name, (a, b) in zip(NAMES, drawn, strict=True)}


@pytest.mark.parametrize("kind", HEADS)
def test_laws_keep_the_value_of_random_terms(kind: str) -> None:
    draw, used = Draw(kind), set[str]()
    facts = Facts({name: frozenset((kind,)) for name in NAMES}, frozenset(), {}, {}, {})
    for _ in range(800):
        whole = draw.term(3)
        for term, law in ((x, law) for x in parts(whole) for law in LAWS.get(x.head, ())):
            if (after := law(term, facts)) is None:
                continue
            for known in (draw.numbers() for _ in range(4)):
                try:
                    found = [value(x, known, kind) for x in (term, after)]
                except ZeroDivisionError:
                    continue
                assert found[0] == found[1], f"{law.__name__}: {term} is not {after} at {known}"
                used.add(law.__name__)
    assert len(used) >= 12
